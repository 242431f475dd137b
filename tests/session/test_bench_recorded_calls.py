"""Find a recorded tool call by its id, or by the beginning of its id: `%jp call --id`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

import jp_nb as jp
from tests.kit.records import new_event
from tests.kit.sessions import current_session
from tests.support.sessions import Notebook

CALLS = [("a1", "x"), ("a12", "y"), ("b", "z"), ("b", "w")]
Open = Callable[[Sequence[tuple[str, str]]], Notebook]


def say_name(name: str) -> str:
    return f"ran {name}"


@pytest.fixture
def open_notebook(bare_folder: Path) -> Iterator[Open]:
    """Opens the notebook with a record of calls: each has an id, and the name of its tool."""
    notebook = Notebook(bare_folder)

    def open_with(calls: Sequence[tuple[str, str]]) -> Notebook:
        stream = notebook.session.document.conversation
        stream.start_turn(new_event("chat_request", content="Go."))
        for call_id, name in calls:
            stream.append(new_event("tool_call_request", id=call_id, name=name, arguments={}))
            stream.append(new_event("tool_call_response", id=call_id, content="", is_error=False))
        return notebook

    with current_session(notebook.session):
        for name in "xyzw":
            jp.tool(name=name)(partial(say_name, name))
        yield open_with
    notebook.session.close()


def test_exact_id_precedes_a_prefix_and_the_last_call_wins(
    open_notebook: Open, subtests: pytest.Subtests
) -> None:
    notebook = open_notebook(CALLS)
    rows: list[tuple[str, str]] = [("a1", "x"), ("a12", "y"), ("b", "w")]
    for wanted, name in rows:
        with subtests.test(wanted=wanted):
            assert f"ran {name}" in notebook.jp(f"call --id {wanted}")


def test_unique_prefix_of_an_id_is_enough(open_notebook: Open) -> None:
    assert "ran y" in open_notebook(CALLS[1:]).jp("call --id a")


def test_ambiguous_and_unknown_ids_are_errors(open_notebook: Open) -> None:
    notebook = open_notebook([("a1", "x"), ("a12", "x")])
    ambiguous = r"^several calls of x have an id that begins with a: a1, a12$"
    with pytest.raises(jp.UsageError, match=ambiguous):
        notebook.jp("call x --id a")
    unknown = "no call in this conversation has an id that begins with c"
    with pytest.raises(jp.UsageError, match=unknown):
        notebook.jp("call --id c")

    notebook = open_notebook([(f"id{number}", "x") for number in range(15)])
    with pytest.raises(jp.UsageError, match=r"id9 and 5 more$"):
        notebook.jp("call --id id")
