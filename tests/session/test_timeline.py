"""`%jp timeline` in a session: what a turn leaves in the record, and where it leaves no times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.support.sessions import AskedNotebook, Notebook, bare_folder

__all__ = ["bare_folder"]

REPLIES = """
[[replies]]
text = "Let me look."
tool_calls = [{name = "describe_tools", arguments = {tools = ["describe_tools"]}}]
[[replies]]
text = "Done."
"""


@pytest.fixture
def folder(bare_folder: Path) -> Path:
    (bare_folder / "talk.toml").write_text(REPLIES)
    return bare_folder


def list_times(notebook: Notebook) -> list[Any]:
    entries = notebook.session.document.conversation.entries
    return [entry.metadata["times"] for entry in entries if "times" in entry.metadata]


@pytest.mark.req("CELL-38")
def test_turn_is_measured_and_shown(folder: Path) -> None:
    notebook = Notebook(folder)
    notebook.ask("Go.", model="scripted/talk")
    groups = [set(times) for times in list_times(notebook)]
    assert groups == [{"requests"}, {"runs"}, {"requests"}]

    shown = notebook.jp("timeline")
    for word in ("request 1", "describe_tools", "request 2", "first token"):
        assert word in shown
    assert "no measured times" not in shown
    [bundle] = notebook.shell.bundles[-1:]
    assert '<img class="jp-nb-picture"' in bundle["text/markdown"]
    assert "<details>" in bundle["text/markdown"]
    assert notebook.jp("timeline 1") == shown
    with pytest.raises(jp.UsageError, match="There is no turn 2"):
        notebook.jp("timeline 2")


@pytest.mark.req("CELL-38")
def test_headless_run_shows_no_times(folder: Path) -> None:
    notebook = AskedNotebook(folder, headless=True)
    notebook.ask("Go.", model="scripted/talk")
    assert list_times(notebook), "the record is not reproducible"
    shown = notebook.jp("timeline")
    assert "The order of the steps, without times" in shown
    assert "first token" not in shown


@pytest.mark.req("CELL-38")
def test_cassette_leaves_no_times(folder: Path) -> None:
    notebook = Notebook(folder)
    notebook.jp("cassette record tape.jsonl")
    notebook.ask("Go.", model="scripted/talk")
    assert list_times(notebook) == []
    assert "no measured times" in notebook.jp("timeline")
