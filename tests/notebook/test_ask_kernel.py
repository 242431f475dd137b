"""`ask` in a real kernel: with nobody there, and how a turn ends that is stopped at the form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jp_nb.agent.call_runner import UNAVAILABLE
from jp_nb.agent.interrupts import LEFT_RUNNING
from jp_nb.agent.questions import STOPPED_BY_USER
from tests.support.cells import calls, contents, error, events, kernel_with, start, value
from tests.support.kernel_client import FrontEnd

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "database",
        "question": "Which database?",
        "options": [{"label": "PostgreSQL", "value": "pg"}, {"label": "SQLite"}],
    },
    {
        "id": "parts",
        "question": "Which parts?",
        "options": [{"label": "API"}, {"label": "Page"}],
        "multi": True,
        "required": False,
    },
]
SCRIPTS = {
    "ask": calls(("ask", {"questions": json.dumps(QUESTIONS)}))
    + '[[replies]]\ntext = "I go on."\n',
    "both": calls(("ask", {"questions": json.dumps(QUESTIONS)}), ("wait", {})),
}
ANSWER = "conversation.tools.ask.questions.{}.answer"


@pytest.fixture
def user(tmp_path: Path) -> Iterator[FrontEnd]:
    with kernel_with(tmp_path, SCRIPTS, "import jp_nb as jp") as user:
        yield user


def alone(user: FrontEnd, options: str = "") -> str:
    """Have the model ask in a cell that takes no input."""
    request = start(user, "ask", options, allow_stdin=False)
    user.finish(request)
    return request


def shown(user: FrontEnd, command: str, **fields: Any) -> str:
    request = user.start(command, **fields)
    user.finish(request)
    return "\n".join(data["text/plain"] for data in user.displays(request))


@pytest.mark.req("RPI-2", "RPI-3", "RCP-23", "RCP-30", "RCP-31", "RPI-48")
def test_with_nobody_there_it_is_not_offered_and_nothing_is_mounted(user: FrontEnd) -> None:
    [row] = [x for x in shown(user, "%jp tools").splitlines() if x.startswith("ask ")]
    assert row.split()[1] == "on"
    [row] = [
        x for x in shown(user, "%jp tools", allow_stdin=False).splitlines() if x.startswith("ask ")
    ]
    assert "missing: it needs a person and nobody can be asked" in row
    request = alone(user)
    assert error(user, request) is None
    assert contents(user) == [UNAVAILABLE.format("ask")]
    opened = [m["content"] for m in user.messages if m["header"]["msg_type"] == "comm_open"]
    assert "jupyter.widget" not in [content["target_name"] for content in opened]
    loaded = value(user, "sorted({'ipywidgets', 'anywidget'} & set(__import__('sys').modules))")
    assert loaded == []


@pytest.mark.req("HB-10", "RCP-24")
def test_configured_answers_make_it_of_use_where_nobody_is(user: FrontEnd) -> None:
    request = alone(user, f"-c {ANSWER.format('database')}=SQLite")
    assert error(user, request) is None
    assert contents(user) == [
        "Answers:\n"
        "database (configured by the user in advance): SQLite\n"
        "parts (chosen automatically, because nobody was there to ask): [API]"
    ]
    [response] = [e for e in events(user) if e["type"] == "tool_call_response"]
    assert [each["outcome"] for each in response["metadata"]["structured"]["results"]] == [
        *("answered", "answered")
    ]


@pytest.mark.req("RPI-3", "RPI-39", "RCP-24")
def test_a_required_question_without_an_answer_is_an_error_and_strict_fails_the_cell(
    user: FrontEnd,
) -> None:
    options = f"-c '{ANSWER.format('parts')}:=[\"Page\"]'"
    request = alone(user, options)
    assert error(user, request) is None
    [told] = contents(user)
    assert told.startswith("ask cannot run because no interactive terminal is available.")
    closed = [e for e in events(user) if e["type"] == "inquiry_response"]
    assert {e["reason"] for e in closed} == {"no_prompt_backend"}
    failed = error(user, alone(user, f"{options} --strict"))
    assert failed is not None
    assert failed["ename"] == "PromptUnavailable"


WAIT = """
import asyncio
@jp.tool
async def wait() -> str:
    await asyncio.sleep(60)
    return "waited"
"""


def typed(user: FrontEnd, *lines: str) -> None:
    for line in lines:
        user.input_request()
        user.type(line)


@pytest.mark.req("RPI-74", "RPI-76", "RPI-77", "HB-12")
def test_who_stops_the_turn_at_the_form_is_not_told_of_an_interrupt(user: FrontEnd) -> None:
    user.run(WAIT)
    request = start(user, "both", "-c prompt.channel=stdin -c prompt.timeout_s=60")
    typed(user, "2", "!", "s")
    user.finish(request)
    failed = error(user, request)
    assert failed is not None
    assert failed["traceback"] == ["You stopped the turn. What arrived so far is in the record."]
    assert contents(user) == [STOPPED_BY_USER, LEFT_RUNNING]
    closed = [e for e in events(user) if e["type"] == "inquiry_response"]
    assert [e["metadata"]["end"] for e in closed] == ["cancelled", "cancelled"]
    log = shown(user, "%jp log")
    assert "stopped by you" in log
    everything = log + user.printed(request) + str(user.displays(request))
    assert "interrupt" not in everything.lower()


@pytest.mark.req("RCP-22", "RPI-56")
def test_what_is_typed_in_order_is_what_the_model_reads(user: FrontEnd) -> None:
    request = start(user, "ask", "-c prompt.channel=stdin")
    typed(user, "PostgreSQL", "2,1", "s")
    user.finish(request)
    assert error(user, request) is None
    assert contents(user) == ["User answers:\ndatabase: PostgreSQL (value: pg)\nparts: [Page, API]"]
