"""`%jp config` explains the changes that tools made."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.kinds import make
from tests.kit.records import new_event
from tests.support.entries import proposal_metadata
from tests.support.sessions import Notebook

FORM = make("proposal", "change_model", "call_1", ("user.name",), "person", "form")
STDIN = make("proposal", "rename", "call_2", ("assistant.name",), "person", "stdin")
GRANT = make("proposal", "tidy", "call_3", ("user.name",), "grant")


def change_in_turn(notebook: Notebook, *calls: Any, **fields: Any) -> None:
    """Add a change by tools to the last turn, as the agent does."""
    stream = notebook.session.document.conversation
    paths = [path for call in calls for path in call.paths]
    claims: Any = dict.fromkeys(paths)
    stream.append(
        new_event("config_delta", claims=claims, metadata=proposal_metadata(calls), **fields)
    )


def cells(table: str) -> list[list[str]]:
    return [[c.strip() for c in line.split("  ") if c.strip()] for line in table.splitlines()]


def test_explanation_names_the_tool_the_turn_and_the_approval(notebook: Notebook) -> None:
    notebook.ask("First.")
    notebook.jp("config user.name=me")
    notebook.ask("Second.")
    delta = {"user": {"name": "t"}, "assistant": {"name": "A"}}
    change_in_turn(notebook, FORM, STDIN, GRANT, FORM, delta=delta)
    rows = cells(notebook.jp("config --explain user.name"))
    assert [row[1:] for row in rows][-3:] == [
        ["conversation, for turn 2", '"me"'],
        [
            "conversation, in turn 2, by tool change_model, applied by you (form), "
            "by tool tidy, applied by a grant",
            '"t"',
        ],
        ["effective", '"t"'],
    ]
    (_, row) = cells(notebook.jp("config assistant.name"))
    assert row[-1] == "conversation, in turn 2, by tool rename, applied by you (stdin)"


def test_explanation_names_a_tool_that_unset_a_value(notebook: Notebook) -> None:
    notebook.jp("config user.name=me")
    notebook.ask("First.")
    change_in_turn(notebook, GRANT, unsets=("user.name",))
    rows = cells(notebook.jp("config --explain user.name"))
    source = "conversation, in turn 1, by tool tidy, applied by a grant"
    assert rows[-2][1:] == [source, "unset"]
    assert rows[-1][1:] == ["effective", "null"]
    assert f"null   {source}" in notebook.jp("config user.name")
    notebook.jp("config --unset user.name")
    assert "workspace file" in notebook.jp("config user.name")


def test_error_of_an_invalid_change_names_its_turn(notebook: Notebook) -> None:
    notebook.ask("First.")
    broken = {"conversation": {"tools": {"*": {"summary": "x"}}}}
    change_in_turn(notebook, FORM, delta=broken)
    with pytest.raises(Exception, match="in turn 1"):
        _ = notebook.session.config
