"""Edits of cells in a front end without the page part, such as VS Code or a console."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
import tomlkit

from tests.notebook.fresh_session import fresh_session
from tests.support.cells import error, events, kernel_with, run, start, value
from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

NEXT_INPUTS = """
import jp_nb as jp
NEXT = []
get_ipython().set_next_input = lambda text, replace=False: NEXT.append([text, replace])
"""
VERSION = hashlib.sha256(b"x = 1").hexdigest()[:12]


def script(*edits: dict[str, Any]) -> str:
    called = {"name": "edit_cells", "arguments": {"edits": [*edits], "why": "It helps."}}
    return tomlkit.dumps({"replies": [{"tool_calls": [called]}, {"text": "Done."}]})


SCRIPTS = {
    "one": script({"op": "insert", "source": "new = 1"}),
    "several": script(
        {"op": "insert", "source": "first = 1"},
        {"op": "insert", "source": "# Second", "type": "markdown"},
    ),
    "changes": script({"op": "replace", "cell": "a", "version": VERSION, "source": "x = 2"}),
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    with kernel_with(tmp_path_factory.mktemp("edits"), SCRIPTS, NEXT_INPUTS) as user:
        yield user


@pytest.fixture
def user(kernel: FrontEnd) -> FrontEnd:
    fresh_session(kernel)
    kernel.run("NEXT.clear()")
    return kernel


def read_result(user: FrontEnd) -> dict[str, Any]:
    [found] = [event for event in events(user) if event["type"] == "tool_call_response"]
    return found


@pytest.mark.req("CELL-30")
def test_one_new_code_cell_becomes_the_next_input_and_the_model_knows(user: FrontEnd) -> None:
    request = start(user, "one", "-t cells")
    user.form("The model proposes 1 new cell. Show the source?")
    user.click("Show the source")
    user.finish(request)
    assert error(user, request) is None
    assert value(user, "NEXT") == [["new = 1", False]]
    found = read_result(user)
    assert found["is_error"]
    assert found["content"].startswith(
        "No edit was applied: this front end cannot change the notebook. The user received the "
        "source of the new cells as text."
    )


@pytest.mark.req("CELL-30")
def test_several_new_cells_are_shown_as_text_to_copy(user: FrontEnd) -> None:
    request = start(user, "several", "-t cells")
    user.form("The model proposes 2 new cells. Show the source?")
    user.click("Show the source")
    user.finish(request)
    assert value(user, "NEXT") == []
    printed = user.printed(request)
    assert "jp_nb: A new code cell:\n\nfirst = 1\n" in printed
    assert "jp_nb: A new markdown cell:\n\n# Second\n" in printed
    assert read_result(user)["is_error"]


@pytest.mark.req("CELL-30")
def test_other_edits_are_refused_before_the_user_is_asked(user: FrontEnd) -> None:
    run(user, "changes", "-t cells")
    found = read_result(user)
    assert found["is_error"]
    assert "`replace` is not possible here: no page shows this notebook." in found["content"]
    assert "the user gets the source to copy" in found["content"]
