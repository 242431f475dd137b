"""`%jp resume` in a kernel: the person says what becomes of a call that was cut short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cells import error, events, kernel_with, well_formed
from tests.support.kernel_client import FrontEnd

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

SCRIPTS = {
    "talk": '[[replies]]\ntool_calls = [{ name = "add" }]\n[[replies]]\ntext = "That is 5."\n',
    "broken": '[[replies]]\nerror = { status = 400 }\n[[replies]]\ntext = "Here I am."\n',
}
CUT_SHORT = """
from jp_nb.record.events import ChatRequest, ToolCallRequest
from jp_nb.session.current import current
import jp_nb as jp
ran = []

@jp.tool
def add(a: int, b: int) -> str:
    '''Add.

    Args:
        a: One.
        b: Another one.
    '''
    ran.append((a, b))
    return str(a + b)

def cut_short():
    stream = current().document.conversation
    stream.start_turn(ChatRequest(content="What is 2 and 3?"))
    stream.append(ToolCallRequest(
        id="call_1", name="add", arguments={"a": 2, "b": 3}, metadata={"scripted_reply": "talk:1"},
    ))
"""


@pytest.fixture
def user(tmp_path: Path) -> Iterator[FrontEnd]:
    with kernel_with(tmp_path, SCRIPTS, CUT_SHORT) as user:
        user.run("%jp config assistant.model.id=scripted/talk")
        yield user


def shown(user: FrontEnd, request: str) -> str:
    return "\n".join(display.get("text/plain", "") for display in user.displays(request))


@pytest.mark.parametrize("label", ["Run it again", "Skip it"])
def test_a_form_asks_what_becomes_of_an_open_call(user: FrontEnd, label: str) -> None:
    user.run("cut_short()")
    request = user.start("%jp resume")
    user.form("`add` was interrupted and may already have run, fully or partly.")
    names = [str(known.get("description")) for known in user.models.values()]
    [button] = [name for name in names if name.startswith(label)]
    assert "asked by" not in str(user.models)  # the tool asks nothing: it may be gone
    user.click(button)
    user.finish(request)
    assert error(user, request) is None
    assert shown(user, request).endswith("That is 5.")
    told = "jp_nb: add skipped; the model reads that\n"
    assert (told in user.printed(request)) is (label != "Run it again")
    assert user.run("print(ran)") == ("[(2, 3)]\n" if label == "Run it again" else "[]\n")
    entries = events(user)
    assert well_formed(entries)
    [response] = [entry for entry in entries if entry["type"] == "tool_call_response"]
    assert response.get("is_error", False) is (label != "Run it again")


def test_on_stdin_a_key_decides_and_cancel_leaves_the_turn(user: FrontEnd) -> None:
    user.run("%jp config prompt.channel=stdin")
    user.run("cut_short()")
    request = user.start("%jp resume")
    assert "Run it again?" in user.input_request()["prompt"]
    user.type("d")
    user.finish(request)
    assert "the turn is unchanged" in user.printed(request)
    request = user.start("%jp resume")
    user.input_request()
    user.interrupt(request)
    said = "".join((error(user, request) or {})["traceback"])
    assert said == "Interrupted before you decided: nothing was asked, and nothing was run."
    assert user.run("print(ran)") == "[]\n"
    request = user.start("%jp resume")
    user.input_request()
    user.type("r")
    user.finish(request)
    assert user.run("print(ran)") == "[(2, 3)]\n"
    assert well_formed(events(user))


def test_a_request_that_failed_goes_on_with_the_model_it_was_for(user: FrontEnd) -> None:
    request = user.start("%%jp -m scripted/broken\nAre you there?")
    user.finish(request)
    assert error(user, request) is not None
    resumed = user.start("%jp resume")
    user.finish(resumed)
    assert error(user, resumed) is None
    assert shown(user, resumed).endswith("Here I am.")
    again = user.start("%jp resume")
    user.finish(again)
    assert "there is nothing to resume" in str(error(user, again))
    assert sum(entry["type"] == "turn_start" for entry in events(user)) == 1
