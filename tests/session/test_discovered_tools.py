"""Tools that a source discovers: they are settings, toolsets, and tools like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.sessions import directive
from tests.kit.tool_sources import discovered_source
from tests.support.sessions import SCRIPT, Notebook


@pytest.fixture
def books() -> Iterator[Any]:
    with discovered_source("search", "read") as source:
        yield source


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "story.toml").write_text(SCRIPT * 2)
    return tmp_path


def sent(notebook: Notebook, *directives: Any, **options: Any) -> dict[str, str]:
    """Run a turn and return the descriptions of the source's tools in its request."""
    notebook.ask("Hello.", *directives, model="scripted/story", **options)
    last = notebook.session.turns.contexts.last_request
    assert last is not None
    found = {tool.name: tool.description for tool in last.request.tools}
    return {name: x for name, x in found.items() if name.startswith("books__") or name == "look"}


def turn_on(name: str) -> Any:
    return directive("tool", name)


def turn_off(name: str) -> Any:
    return directive("no_tool", name)


ALL = {"books__search": "How to search.", "books__read": "How to read."}


def test_source_starts_when_a_turn_first_offers_its_tools(folder: Path, books: Any) -> None:
    notebook = Notebook(folder)
    assert sent(notebook) == {}
    assert books.happened == []
    assert sent(notebook, turn_on("mcp.books")) == ALL
    assert sent(notebook) == ALL
    assert books.happened == ["start"]
    assert sent(notebook, turn_off("mcp.books")) == {}
    notebook.session.close()
    assert books.happened == ["start", "close"]


def test_one_tool_is_named_by_its_source_or_its_name(folder: Path, books: Any) -> None:
    one = {"books__read": "How to read."}
    assert sent(Notebook(folder), turn_on("mcp.books.read")) == one
    assert sent(Notebook(folder), turn_on("books__read")) == one


def test_tool_that_was_switched_off_stays_off_in_its_toolset(folder: Path, books: Any) -> None:
    notebook = Notebook(folder)
    assert sent(notebook, turn_on("mcp.books"), turn_off("books__read")) == {
        "books__search": "How to search."
    }
    assert sent(notebook, turn_off("mcp.books")) == {}
    assert sent(notebook, turn_on("mcp.books.search")) == {"books__search": "How to search."}
    assert sent(notebook, turn_on("mcp.books")) == ALL


def test_another_kernel_finds_the_tools_of_the_conversation_again(folder: Path, books: Any) -> None:
    before = Notebook(folder)
    sent(before, turn_on("mcp.books"))
    deltas = [each.delta for each in before.session.document.conversation.deltas]
    assert {"conversation": {"toolsets": {"mcp.books": {"state": True}}}} in deltas

    before.session.active.discovered.state = type(before.session.active.discovered.state)()
    assert sent(before) == ALL


def test_setting_of_a_tool_applies_before_and_after_it_is_found(folder: Path, books: Any) -> None:
    notebook = Notebook(folder)
    notebook.jp('config conversation.tools.books__read.description="Mine."')
    assert sent(notebook) == {}
    assert books.happened == []
    assert sent(notebook, turn_on("mcp.books")) == {**ALL, "books__read": "Mine."}
    assert notebook.value("conversation.tools.books__read.source") == "mcp.books.read"


def test_tool_that_is_configured_under_another_name_is_offered_once(
    folder: Path, books: Any
) -> None:
    notebook = Notebook(folder)
    notebook.jp('config conversation.tools.look.source="mcp.books.search"')
    assert set(sent(notebook)) == {"look"}
    assert set(sent(notebook, turn_on("mcp.books"))) == {"look", "books__read"}


def test_tool_choice_names_a_tool_that_is_not_known_yet(folder: Path, books: Any) -> None:
    notebook = Notebook(folder)
    found = sent(notebook, turn_on("mcp.books"), tool_choice="tool:books__read")
    assert found == ALL
    with pytest.raises(jp.UsageError, match="did you mean 'books__read'"):
        notebook.ask("Hello.", tool_choice="tool:books__red")


def test_unknown_tool_of_a_source_is_an_error(folder: Path, books: Any) -> None:
    notebook = Notebook(folder)
    for name in ("mcp.books.burn", "mcp.bank", "books__burn"):
        with pytest.raises(jp.ConfigError, match=f"Tool not found: {name}"):
            notebook.ask("Hello.", turn_on(name))


def test_list_of_tools_shows_a_source_and_starts_it_by_name(folder: Path, books: Any) -> None:
    notebook = Notebook(folder)
    sent(notebook)
    assert "mcp.books.*" in notebook.jp("tools")
    assert books.happened == []
    shown = notebook.jp("tools mcp.books")
    assert "books__search" in shown
    assert "books__read" in shown
    assert books.happened == ["start"]
    assert "How to read." in notebook.jp("tools books__read")
    assert "books__read" in notebook.jp("tools")


def test_call_outside_of_the_conversation_starts_the_source(folder: Path, books: Any) -> None:
    notebook = Notebook(folder)
    notebook.jp("config conversation.tools.books__read.run=unattended")
    assert "read: page 3" in notebook.jp("call books__read page=3")


def test_failed_source_is_reported_and_the_turn_continues(folder: Path, books: Any) -> None:
    books.failure = "no such program"
    notebook = Notebook(folder)
    assert sent(notebook, turn_on("mcp.books")) == {}
    assert books.happened.count("start") == 1
    books.failure = ""
    assert sent(notebook) == ALL


def test_failed_required_source_ends_the_turn_before_a_request(folder: Path, books: Any) -> None:
    books.is_required = True
    books.failure = "the server books ended at once: npx books (set, not shown)"
    notebook = Notebook(folder)
    with pytest.raises(jp.JpNbError, match=r"^the server books ended at once: npx books"):
        sent(notebook, turn_on("mcp.books"))
    assert books.happened.count("start") == 1
    assert notebook.session.document.conversation.turn_count == 0
    with pytest.raises(jp.JpNbError, match=r"^the server books ended at once: npx books"):
        notebook.jp("tools mcp.books")


def test_python_function_keeps_its_name(folder: Path, books: Any) -> None:
    import jp_nb

    @jp_nb.tool(name="books__read")
    def read() -> str:
        """Read my own book."""
        return "mine"

    try:
        notebook = Notebook(folder)
        assert sent(notebook, turn_on("mcp.books"))["books__read"] == "Read my own book."

        # It also does if the tool with the same discovered name is configured under another one.
        notebook.jp('config conversation.tools.look.source="mcp.books.read"')
        assert sent(notebook) == {**ALL, "books__read": "Read my own book.", "look": ""}
    finally:
        jp_nb.remove_tool("books__read")
