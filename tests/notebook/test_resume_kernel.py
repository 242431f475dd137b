"""`%jp resume` in a kernel: the user decides about interrupted calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notebook.fresh_session import fresh_session
from tests.support.cells import error, events, kernel_with, well_formed
from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

SCRIPTS = {
    "talk": '[[replies]]\ntool_calls = [{ name = "add" }]\n[[replies]]\ntext = "That is 5."\n',
}
INTERRUPTED_TURN = """
from jp_nb.record.entries.events import ChatRequest, ToolCallRequest
from jp_nb.session import get_session
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

def interrupt_turn():
    stream = get_session().document.conversation
    stream.start_turn(ChatRequest(content="What is 2 and 3?"))
    stream.append(ToolCallRequest(
        id="call_1", name="add", arguments={"a": 2, "b": 3}, metadata={"scripted_reply": "talk:1"},
    ))
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    with kernel_with(tmp_path_factory.mktemp("resume"), SCRIPTS, INTERRUPTED_TURN) as user:
        yield user


@pytest.fixture
def user(kernel: FrontEnd) -> FrontEnd:
    fresh_session(kernel)
    kernel.run("%jp config assistant.model.id=scripted/talk")
    kernel.run("ran.clear()")
    return kernel


def shown(user: FrontEnd, request: str) -> str:
    return "\n".join(display.get("text/plain", "") for display in user.displays(request))


@pytest.mark.parametrize("label", ["Run it again", "Skip it"])
def test_form_asks_whether_an_open_call_runs_again(user: FrontEnd, label: str) -> None:
    user.run("interrupt_turn()")
    request = user.start("%jp resume")
    user.form("add was interrupted and may already have run, fully or partly.")
    names = [str(known.get("description")) for known in user.models.values()]
    [button] = [name for name in names if name.startswith(label)]
    assert "asked by" not in str(user.models)  # the tool asks nothing: it may be gone
    user.click(button)
    user.finish(request)
    assert error(user, request) is None
    assert shown(user, request).endswith("That is 5.")
    told = "jp_nb: add skipped; the model is informed\n"
    assert (told in user.printed(request)) is (label != "Run it again")
    assert user.run("print(ran)") == ("[(2, 3)]\n" if label == "Run it again" else "[]\n")
    entries = events(user)
    assert well_formed(entries)
    [response] = [entry for entry in entries if entry["type"] == "tool_call_response"]
    assert response.get("is_error", False) is (label != "Run it again")


def test_key_on_stdin_decides_and_cancel_leaves_the_turn(user: FrontEnd) -> None:
    user.run("%jp config prompt.channel=stdin")
    user.run("interrupt_turn()")
    request = user.start("%jp resume")
    assert "Run it again?" in user.input_request()["prompt"]
    user.type("d")
    user.finish(request)
    assert "the turn is unchanged" in user.printed(request)
    request = user.start("%jp resume")
    user.input_request()
    user.interrupt(request)
    said = "".join((error(user, request) or {})["traceback"])
    assert said == ("Interrupted before you decided. No request was sent, and nothing ran.")
    assert user.run("print(ran)") == "[]\n"
    request = user.start("%jp resume")
    user.input_request()
    user.type("r")
    user.finish(request)
    assert user.run("print(ran)") == "[(2, 3)]\n"
    assert well_formed(events(user))
