"""A form with pages that fails is removed whole: no widget of it stays open."""

from __future__ import annotations

import pytest

from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

QUESTIONS = "Question.text('name', 'Which name?'), Question.integer('size', 'Which size?')"
BREAK = """
from jp_nb.notebook.prompt.forms import {module} as broken
whole = broken.{name}
broken.{name} = lambda *_: 1 / 0
"""
MEND = "broken.{name} = whole"


def left_open(user: FrontEnd) -> set[str]:
    """Return the widgets that were opened and not closed."""
    named = {"comm_open": set[str](), "comm_close": set[str]()}
    for message in user.messages:
        if message["msg_type"] in named:
            named[message["msg_type"]].add(message["content"]["comm_id"])
    assert named["comm_open"]
    return named["comm_open"] - named["comm_close"]


@pytest.mark.req("RCP-92")
def test_form_that_cannot_be_shown_is_asked_on_stdin_and_leaves_nothing(user: FrontEnd) -> None:
    user.run(BREAK.format(module="form", name="PromptForm.show"))
    cell = user.start(f"print(ask_form({QUESTIONS}).then)")
    for line in ("Ada", "7", "s"):
        user.input_request()
        user.type(line)
    user.finish(cell)
    assert "submitted" in user.printed(cell)
    assert left_open(user) == set()
    user.run(MEND.format(name="PromptForm.show"))


@pytest.mark.req("RCP-92")
def test_error_in_a_form_is_shown_there_and_the_form_can_be_cancelled(user: FrontEnd) -> None:
    user.run(BREAK.format(module="form", name="FormDraft.submit"))
    cell = user.start(f"print(ask_form({QUESTIONS}))")
    beacon = user.form("Which name?")
    user.send(beacon, {"type": "next", "step": 0, "value": "Ada"})
    user.send(beacon, {"type": "submit", "step": 1, "value": "7"})
    said = "An error occurred (ZeroDivisionError). Nothing was lost: try again, or cancel."
    user.wait(lambda m: m["content"].get("data", {}).get("state", {}).get("value") == said)
    user.send(beacon, {"type": "cancel", "step": 1, "value": "7"})
    user.send(beacon, {"type": "discard", "step": 2})
    user.finish(cell)
    assert "NotAnswered(end='cancelled', channel='form'" in user.printed(cell)
    assert left_open(user) == set()
    user.run(MEND.format(name="FormDraft.submit"))
