"""A turn that begins with a plan in a real kernel: the form, stdin, an interrupt, and the cell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notebook.fresh_session import fresh_session
from tests.support.cells import asked, calls, contents, error, interrupted, kernel_with, start
from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

PLAN = "# Tidy up\n\n1. Read.\n2. Write \u202eevil.\n"
SCRIPT = (
    calls(("write", {}))
    + calls(("submit_plan", {"plan": PLAN}))
    + calls(("write", {}))
    + '[[replies]]\ntext = "Done."\n'
)
TOOLS = """
import jp_nb as jp
written = []

@jp.tool
def write() -> str:
    written.append(1)
    return "written"
"""
ASK = "Approve this plan?"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    with kernel_with(tmp_path_factory.mktemp("plan"), {"tidy": SCRIPT}, TOOLS) as user:
        yield user


@pytest.fixture
def user(kernel: FrontEnd) -> FrontEnd:
    fresh_session(kernel)
    kernel.forget()
    return kernel


def shown(user: FrontEnd, request: str) -> str:
    return "\n".join(data["text/plain"] for data in user.displays(request))


def test_user_edits_and_approves_the_plan_in_the_form(user: FrontEnd) -> None:
    request = start(user, "tidy", "--plan")
    user.form(ASK)
    assert "# Tidy up" in str(user.models)
    assert "Write ⟨U+202E⟩evil." in str(user.models)
    user.forget(widgets=False)
    user.click("Edit the plan …")
    beacon = user.form("The plan for the model:")
    user.forget(widgets=False)
    user.send(beacon, {"type": "submit", "value": "1. Write."})
    user.finish(request)

    assert error(user, request) is None
    refused, approved, written = contents(user)
    assert "did not run" in refused
    assert approved.endswith("The approved plan:\n\n1. Write.")
    assert written == "written"
    assert "1. Write." in shown(user, request)


def test_user_approves_the_plan_on_stdin(user: FrontEnd) -> None:
    request = start(user, "tidy", "--plan -c prompt.channel=stdin")
    asked(user, "[y/e/n/r/?] ")
    user.type("y")
    user.finish(request)
    assert "│ 2. Write ⟨U+202E⟩evil." in user.printed(request)
    assert contents(user)[1].startswith("The user approved the plan without changes.")


def test_interrupt_at_the_plan_ends_the_turn_without_a_change(user: FrontEnd) -> None:
    user.run("written.clear()")
    request = start(user, "tidy", "--plan")
    user.form(ASK)
    interrupted(user)
    user.click("End the turn")
    user.finish(request)
    assert user.run("print(written)") == "[]\n"
    refused, undecided = contents(user)
    assert "did not run" in refused
    assert "approved the plan" not in undecided
