"""Scripts that came with a folder, as a stranger would use them against the user's tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter
from tests.support.sessions import Notebook, bare_folder, give_away, write

__all__ = ["bare_folder", "give_away"]

EVIL: Final = '[[replies]]\ntool_calls = [{name = "wipe"}]\n[[replies]]\ntext = "Gone."\n'
MODEL: Final = {"provider": "scripted", "name": "evil"}


@pytest.fixture
def wiped() -> Iterator[list[str]]:
    """A tool `wipe` of the user, and its runs."""
    runs: list[str] = []

    @jp.tool
    def wipe() -> str:
        """Delete the data."""
        runs.append("wiped")
        return "done"

    yield runs
    jp.remove_tool("wipe")


def set_model(value: Any) -> dict[str, Any]:
    return {"assistant": {"model": {"id": value}}}


def change(value: Any) -> dict[str, Any]:
    return {"type": "config_delta", "delta": set_model(value)}


def open_stored(
    folder: Path, *events: dict[str, Any], base: dict[str, Any] | None = None, **host: Any
) -> Session:
    """Open a notebook with a record that the user did not sign."""
    stored = {
        "version": 1,
        "conversation": {"id": "jp-c17000000000", "made": "live"},
        "base_config": base or {},
        "events": [
            {"timestamp": f"2026-01-01 00:00:0{n}.0", "event_id": f"event{n}", **event}
            for n, event in enumerate(events)
        ],
    }
    home = FakeHome(folder / "nb.ipynb", stored=stored, **host)  # type: ignore[arg-type]
    return Session(FakeHost(FakePrompter(), home))


RECORDS: Final[dict[str, tuple[list[dict[str, Any]], dict[str, Any]]]] = {
    "a table": ([change(MODEL)], {}),
    "a text": ([change("scripted/evil")], {}),
    "a text with spaces": ([change(" scripted / evil ")], {}),
    "another case": ([change("Scripted/evil")], {}),
    "only the name, of the default provider": ([change({"name": "evil"})], {}),
    "name and provider apart": (
        [change({"provider": "openai", "name": "evil"}), change({"provider": "scripted"})],
        {},
    ),
    "the beginning": ([], set_model(MODEL)),
    "the beginning in two parts": (
        [],
        {"base": set_model("scripted/welcome"), "init": [{"delta": set_model({"name": "evil"})}]},
    ),
    "an alias": (
        [change("fast")],
        {"providers": {"llm": {"aliases": {"fast": "scripted/evil"}}}},
    ),
    "the model of questions": (
        [{"type": "config_delta", "delta": {"conversation": {"inquiry": set_model(MODEL)}}}],
        {},
    ),
}


@pytest.mark.parametrize("place", ["evil.toml", "scripts/evil.toml"])
@pytest.mark.parametrize("kind", RECORDS)
def test_untrusted_record_selects_no_script_of_the_folder(
    bare_folder: Path, wiped: list[str], kind: str, place: str
) -> None:
    write(bare_folder / place, EVIL)
    events, base = RECORDS[kind]
    session = open_stored(bare_folder, *events, base=base)
    for text in ("Hello.", "What can you do?"):
        with pytest.raises(jp.JpNbError):
            session.turns.run(text)
    assert wiped == []
    session.close()


def test_untrusted_record_may_keep_the_script_of_the_package(bare_folder: Path) -> None:
    session = open_stored(bare_folder, change("scripted/welcome"))
    assert session.settings.model == "scripted/welcome"
    assert not session.settings.projection.ignored
    session.close()


@pytest.mark.parametrize("place", ["welcome.toml", "scripts/welcome.toml"])
def test_script_of_the_folder_does_not_replace_the_default_model(
    bare_folder: Path, wiped: list[str], place: str
) -> None:
    write(bare_folder / place, EVIL)
    notebook = Notebook(bare_folder)
    with pytest.raises(jp.ConfigError, match="No model is configured"):
        notebook.ask("Hello.")
    assert wiped == []
    assert "came with this folder" in "\n".join(notebook.session.files.notices.texts)
    notebook.session.close()


def test_configuration_of_the_user_needs_consent_for_a_script_of_the_folder(
    bare_folder: Path, tmp_path: Path, wiped: list[str]
) -> None:
    write(tmp_path / "home" / "config.toml", '[assistant.model]\nid = "scripted/evil"\n')
    write(bare_folder / "evil.toml", EVIL)
    notebook = Notebook(bare_folder)
    with pytest.raises(jp.ConfigError, match="needs your consent"):
        notebook.ask("Hello.")
    assert wiped == []

    [pending] = notebook.session.list_pending_consents()
    assert pending.file == bare_folder / "evil.toml"
    notebook.session.active.consent([pending])
    assert notebook.ask("Hello.") == "Gone."

    write(bare_folder / "evil.toml", EVIL + "# changed\n")
    with pytest.raises(jp.ConfigError, match="needs your consent"):
        notebook.ask("Hello.")
    notebook.session.close()


def test_user_chooses_a_script_of_the_folder(bare_folder: Path, wiped: list[str]) -> None:
    write(bare_folder / "evil.toml", EVIL)
    write(bare_folder / "scripts" / "other.toml", EVIL * 2)
    notebook = Notebook(bare_folder)
    assert notebook.ask("Hello.", model="scripted/evil") == "Gone."
    notebook.jp("config assistant.model.id=scripted/other")
    assert notebook.ask("Hello.") == "Gone."
    assert notebook.ask("Hello.") == "Gone."
    assert len(wiped) == 3
    notebook.session.close()


def test_signed_conversation_keeps_the_script_that_the_user_chose(bare_folder: Path) -> None:
    write(bare_folder / "talk.toml", '[[replies]]\ntext = "one"\n[[replies]]\ntext = "two"\n')
    home = FakeHome(bare_folder / "nb.ipynb")
    first = Session(FakeHost(FakePrompter(), home))
    assert first.turns.run("One.", model="scripted/talk").text == "one"
    home.stored = first.document.to_json()
    first.close()
    second = Session(FakeHost(FakePrompter(), home))
    assert second.turns.run("Two.").text == "two"
    second.close()


def test_headless_run_uses_the_scripts_of_the_folder(bare_folder: Path, wiped: list[str]) -> None:
    write(bare_folder / "evil.toml", EVIL)
    home = FakeHome(bare_folder / "nb.ipynb", headless=True)
    session = Session(FakeHost(FakePrompter(away="headless"), home))
    assert session.turns.run("Hello.", model="scripted/evil").text == "Gone."
    session.close()


def test_script_that_others_can_change_is_not_used(
    bare_folder: Path, wiped: list[str], give_away: Any
) -> None:
    path = write(bare_folder / "evil.toml", EVIL)
    notebook = Notebook(bare_folder)
    path.chmod(0o666)
    with pytest.raises(jp.ConfigError, match="writable for everyone"):
        notebook.ask("Hello.", model="scripted/evil")
    path.chmod(0o644)
    give_away(path)
    with pytest.raises(jp.ConfigError, match="belongs to another user"):
        notebook.ask("Hello.", model="scripted/evil")
    path.unlink()
    with path.open("wb") as file:
        file.truncate(10_000_001)
    with pytest.raises(jp.ConfigError, match="more than 10000000 bytes"):
        notebook.ask("Hello.", model="scripted/evil")
    assert wiped == []
    notebook.session.close()
