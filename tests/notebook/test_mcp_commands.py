"""`%jp mcp`, `%jp mcp log`, `%jp mcp restart`: the servers of a kernel."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

import jp_nb as jp
from tests.session.servers import configure, make_books, remove_configuration, settings_of, turn_on
from tests.support.images import png
from tests.support.sessions import SCRIPT, AskedNotebook

pytest.importorskip("mcp")

PNG = b64encode(png(3, 2)).decode()
HOSTILE = "<script>alert(1)</script> \x1b[2J [x](http://evil.example) `\n```\n# Title \u202e"
RESOURCES = {
    "note://hostile": [{"uri": "note://<b>", "text": HOSTILE}],
    "note://long": [{"uri": "note://long", "text": "x" * 300_000}],
    "note://mixed": [
        {"uri": "note://a", "mimeType": "image/png", "blob": PNG},
        {"uri": "note://b", "mimeType": "image/svg+xml", "blob": "PHN2Zz4="},
        {"uri": "note://c", "mimeType": "image/png", "blob": "bm8gcG5n"},
    ],
    "note://empty": [],
    "note://missing": None,
}


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AskedNotebook]:
    """A notebook with the servers `books` and `maps`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "story.toml").write_text(SCRIPT * 3)
    books = make_books(tmp_path, stderr="no index\nready \u202e", resources=RESOURCES)
    configure({"books": settings_of(books), "maps": {"command": "no-such-program"}})
    opened = AskedNotebook(tmp_path)
    yield opened
    opened.session.close()
    remove_configuration()


def rows_of(shown: str) -> dict[str, list[str]]:
    lines = [line.split() for line in shown.splitlines() if line.strip()]
    return {line[0]: line[1:] for line in lines[1:] if len(line) > 2 and line[1] != "calls"}


@pytest.mark.req("R-MCP-8", "R-MCP-10")
def test_servers_are_listed_with_their_state_and_none_starts(notebook: AskedNotebook) -> None:
    before = rows_of(notebook.jp("mcp"))
    assert before["books"][:2] == ["not", "started"]
    assert before["maps"][:2] == ["not", "started"]

    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    after = rows_of(notebook.jp("mcp"))
    state, tools, protocol, process = after["books"][:4]
    assert (state, tools) == ("running", "2")
    assert protocol.startswith("202")
    assert int(process) > 1
    assert after["maps"][:2] == ["not", "started"]


@pytest.mark.req("R-MCP-8")
def test_ended_server_starts_again_with_the_next_turn(
    notebook: AskedNotebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    first = rows_of(notebook.jp("mcp"))["books"][3]
    notebook.jp("mcp restart books")
    assert "It starts with the next turn" in capsys.readouterr().out
    assert rows_of(notebook.jp("mcp"))["books"][:2] == ["not", "started"]
    notebook.ask("Hello.")
    assert rows_of(notebook.jp("mcp"))["books"][3] != first


@pytest.mark.req("R-MCP-11")
def test_log_has_the_lines_of_stderr_without_live_characters(
    notebook: AskedNotebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    notebook.jp("mcp log books")
    shown = capsys.readouterr().out
    assert "no index" in shown
    assert "ready" in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize("line", ["log", "restart", "log books maps", "log shelf", "restart maps"])
def test_wrong_names_are_refused_with_the_reason(notebook: AskedNotebook, line: str) -> None:
    with pytest.raises(jp.UsageError, match=r"takes|no MCP server|does not run"):
        notebook.jp(f"mcp {line}")


@pytest.mark.req("R-MCP-8", "R-MCP-11")
def test_failed_start_stays_listed_with_its_reason_until_a_start_succeeds(
    tmp_path: Path, notebook: AskedNotebook, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = make_books(tmp_path, stderr="no shelf\u202e\n", exit_at="server/discover")
    configure({"books": settings_of(broken, optional=True)})
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    shown = notebook.jp("mcp")
    assert rows_of(shown)["books"][0] == "failed"
    assert "books, last error: the MCP server books did not start" in shown
    row = " ".join(rows_of(notebook.jp("tools"))["mcp.books.*"])
    assert row.startswith("missing: the MCP server books did not start")

    notebook.jp("mcp log books")
    log = capsys.readouterr().out
    assert "no shelf" in log
    assert "\u202e" not in shown + log

    configure({"books": settings_of(make_books(tmp_path))})
    notebook.ask("Hello.")
    shown = notebook.jp("mcp")
    assert rows_of(shown)["books"][0] == "running"
    assert "last error" not in shown


# --- resources ---------------------------------------------------------------------------------


@pytest.mark.req("R-MCP-63")
def test_resource_of_a_server_is_shown_and_starts_it(notebook: AskedNotebook) -> None:
    shown = notebook.jp("mcp read books note://one")
    assert "note://one of the MCP server books" in shown
    assert "text of note://one" in shown
    assert rows_of(notebook.jp("mcp"))["books"][0] == "running"
    assert "text of note://two" in notebook.jp("mcp read note://two")  # only `books` runs
    assert "The resource is empty" in notebook.jp("mcp read note://empty")


@pytest.mark.req("R-MCP-62", "R-MCP-63")
def test_text_of_a_resource_is_not_live_and_is_bounded(notebook: AskedNotebook) -> None:
    shown = notebook.jp("mcp read books note://hostile")
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    markdown = notebook.shell.bundles[-1]["text/markdown"]
    fence = markdown.split("\n")[2].removesuffix("text")
    assert len(fence) > 3  # longer than any in the text
    assert markdown.endswith(fence)
    assert "<b>" not in markdown.split(fence)[0]
    assert len(notebook.jp("mcp read note://long")) < 150_000


@pytest.mark.req("R-MCP-63")
def test_images_of_a_resource_are_checked_and_shown(notebook: AskedNotebook) -> None:
    shown = notebook.jp("mcp read books note://mixed")
    assert "image/svg+xml, 5 B: not sent" in shown
    assert "its bytes are not image/png" in shown
    images = [each for each in notebook.shell.bundles if "image/png" in each]
    assert [each["image/png"] for each in images] == [PNG]


@pytest.mark.req("R-MCP-63")
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("read", "takes the address"),
        ("read books", "takes the address"),
        ("read note://one", "Name the server that has the resource"),
        ("read shelf note://one", "There is no MCP server"),
    ],
)
def test_resource_without_its_server_is_an_error(
    notebook: AskedNotebook, line: str, reason: str
) -> None:
    with pytest.raises(jp.UsageError, match=reason):
        notebook.jp(f"mcp {line}")


@pytest.mark.req("R-MCP-63")
def test_error_of_a_resource_is_shown(notebook: AskedNotebook) -> None:
    with pytest.raises(jp.JpNbError, match="no-such-program"):
        notebook.jp("mcp read maps note://one")
    with pytest.raises(jp.JpNbError, match="books: no such resource"):
        notebook.jp("mcp read books note://missing")
