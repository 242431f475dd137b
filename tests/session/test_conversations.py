"""Conversations that inherit the provider settings and the model of the user."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from tests.kit.kinds import is_kind
from tests.kit.records import new_event
from tests.kit.sessions import directive
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.loopback import LoopbackServer, Reply
from tests.support.sessions import Notebook, run_line

ADDRESS = "providers.llm.openai.base_url"
KEY_VARIABLE = "providers.llm.openai.api_key_env"


@pytest.fixture
def vendor() -> Iterator[LoopbackServer]:
    with LoopbackServer(lambda _: Reply(text="From the vendor.")) as server:
        yield server


@pytest.fixture
def chosen() -> Iterator[LoopbackServer]:
    with LoopbackServer(lambda _: Reply(text="From the chosen server.")) as server:
        yield server


class Cells:
    """Cells of one notebook; the user's file names the address and the key of the vendor."""

    def __init__(self, vendor: LoopbackServer, home: FakeHome | None = None) -> None:
        file = Path.cwd().parent / "home" / "config.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            f'[providers.llm.openai]\nbase_url = "{vendor.url}"\napi_key_env = "VENDOR_KEY"\n'
        )
        self.host = FakeHost(home=home)
        self.session = Session(self.host)
        self._runs = 0

    def ask(self, cell: str, text: str, **options: Any) -> str:
        self._runs += 1
        self.host.start_cell(cell, f"run-{self._runs}")
        return self.session.turns.run(text, **options).text

    def set(self, *assignments: str) -> None:
        self.session.configure(*(directive("cfg", each) for each in assignments))

    def unset(self, path: str) -> None:
        self.session.configure(directive("unset", path))

    @property
    def address(self) -> str | None:
        return self.session.config.providers.llm.openai.base_url

    def take_notices(self) -> list[str]:
        notices = list(self.session.notices)
        self.session.notices.clear()
        return notices


@pytest.fixture
def cells(folder: Path, vendor: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cells]:
    monkeypatch.setenv("VENDOR_KEY", "sk-vendor-secret")
    monkeypatch.setenv("CHOSEN_KEY", "sk-chosen-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    made = Cells(vendor)
    yield made
    made.session.close()


def test_running_the_first_cell_again_keeps_address_and_key(
    cells: Cells, vendor: LoopbackServer, chosen: LoopbackServer
) -> None:
    cells.ask("first", "Hello.")
    cells.set(f"{ADDRESS}={chosen.url}", f"{KEY_VARIABLE}=CHOSEN_KEY")
    cells.ask("last", "And now?", model="openai/x")
    began = cells.session.document.conversation.id
    cells.take_notices()
    cells.ask("first", "Hello.")
    assert cells.session.document.conversation.id != began
    assert (
        f"Kept from the previous conversation: {KEY_VARIABLE}=CHOSEN_KEY" in cells.take_notices()[1]
    )
    assert cells.ask("last", "And now?", model="openai/x") == "From the chosen server."
    assert not vendor.requests
    keys = {request.headers["authorization"] for request in chosen.requests}
    assert keys == {"Bearer sk-chosen-secret"}


def import_conversation(cells: Cells) -> None:
    """Import a conversation of another notebook."""
    other = Notebook(Path.cwd(), days=-1)
    other.ask("Elsewhere.", model="scripted/talk")
    other.jp("export exported")
    other.session.close()
    run_line(cells.session, "import exported")


def test_each_new_conversation_keeps_the_latest_settings_of_the_user(
    cells: Cells, chosen: LoopbackServer, subtests: pytest.Subtests
) -> None:
    begins: dict[str, Callable[[], object]] = {
        "new": lambda: cells.session.conversations.new(),
        "new --keep-config": lambda: cells.session.conversations.new(keep_config=True),
        "fork": lambda: cells.session.conversations.fork(0),
        "undo": lambda: cells.session.conversations.undo(),
        "retry": lambda: run_line(cells.session, "retry"),
        "-n": lambda: cells.ask("other", "New.", new=True),
        "import": lambda: import_conversation(cells),
    }
    for number, (name, begin) in enumerate(begins.items()):
        with subtests.test(name=name):
            cells.set(f"{ADDRESS}=http://earlier.example", f"{KEY_VARIABLE}=EARLIER_KEY")
            cells.ask(f"a{number}", "One.", new=True, model="scripted/talk")
            cells.ask(f"b{number}", "Two.")
            cells.set(f"{ADDRESS}={chosen.url}", f"{KEY_VARIABLE}=CHOSEN_KEY")
            cells.ask(f"c{number}", "Three.", model="openai/x")
            begin()
            assert cells.address == chosen.url
            assert cells.session.config.providers.llm.openai.api_key_env == "CHOSEN_KEY"
            cells.session.conversations.new()  # and the next conversation
            assert cells.address == chosen.url


def test_conversation_without_a_turn_has_none_to_undo(cells: Cells) -> None:
    with pytest.raises(jp.UsageError, match="no turn to undo"):
        cells.session.conversations.undo()


def test_removed_setting_stays_removed(cells: Cells, vendor: LoopbackServer) -> None:
    cells.set(f"{ADDRESS}=http://earlier.example")
    cells.ask("first", "Hello.")
    cells.unset(ADDRESS)
    cells.ask("second", "And?")
    cells.ask("first", "Hello.")
    assert cells.address == vendor.url


def test_options_of_a_failed_request_are_not_kept(cells: Cells, vendor: LoopbackServer) -> None:
    with LoopbackServer([Reply(status=404)]) as broken:
        option = directive("cfg", f"{ADDRESS}={broken.url}")
        with pytest.raises(jp.ProviderError):
            cells.ask("a", "Hello.", model="openai/x", directives=[option])
    cells.session.conversations.new()
    assert cells.address == vendor.url
    assert cells.session.settings.model == "scripted/talk"


def test_change_proposed_by_a_tool_stays_in_its_conversation(
    cells: Cells, vendor: LoopbackServer
) -> None:
    cells.ask("a", "Hello.")
    proposal = {"tool": "t", "call_id": "call_1", "paths": [ADDRESS], "applied_by": "person"}
    cells.session.document.conversation.append(
        new_event(
            "config_delta",
            delta={"providers": {"llm": {"openai": {"base_url": "http://tool.example"}}}},
            metadata={"proposed_by": [proposal]},
        )
    )
    assert cells.address == "http://tool.example"
    cells.session.conversations.new()
    assert cells.address == vendor.url


def test_settings_of_an_untrusted_record_are_not_kept(
    cells: Cells, vendor: LoopbackServer, chosen: LoopbackServer
) -> None:
    cells.ask("a", "Hello.")
    cells.set(f"{ADDRESS}=http://theirs.example", f"{KEY_VARIABLE}=HOME")
    cells.set("assistant.model.id=anthropic/theirs")
    stored: Any = cells.session.document.to_json()
    opened = Cells(vendor, FakeHome(stored={**stored, "signature": None}))
    opened.session.conversations.fork()
    opened.session.conversations.new()
    assert opened.address == vendor.url
    assert opened.session.config.providers.llm.openai.api_key_env == "VENDOR_KEY"
    assert opened.session.settings.model == "scripted/talk"
    again = Cells(vendor, FakeHome(stored={**stored, "signature": None}))
    again.set(f"{ADDRESS}={chosen.url}")  # the user's own setting applies and is inherited
    again.session.conversations.fork()
    assert again.address == chosen.url
    again.session.conversations.new()
    assert again.address == chosen.url
    assert again.session.config.providers.llm.openai.api_key_env == "VENDOR_KEY"
    opened.session.close()
    again.session.close()


@pytest.mark.parametrize("by_option", [False, True])
def test_new_conversation_keeps_the_model(cells: Cells, *, by_option: bool) -> None:
    Path("other.toml").write_text('[[replies]]\ntext = "other"\n')
    cells.ask("a", "Hello.", model="scripted/other")
    if by_option:
        assert cells.ask("b", "New.", new=True) == "other"
    else:
        cells.session.conversations.new()
        assert cells.session.format_status().startswith("model scripted/other · new conversation")
    assert any("model scripted/other" in line for line in cells.take_notices())


def test_cell_with_its_own_model_has_no_notice(cells: Cells) -> None:
    Path("other.toml").write_text('[[replies]]\ntext = "other"\n')
    cells.ask("a", "Hello.", model="scripted/other")
    cells.take_notices()
    assert cells.ask("b", "New.", new=True, model="scripted/other") == "other"
    assert cells.take_notices() == []


def test_running_the_first_cell_again_uses_its_own_model(cells: Cells) -> None:
    Path("other.toml").write_text('[[replies]]\ntext = "other"\n')
    cells.ask("a", "Hello.")
    cells.ask("b", "Hello.", model="scripted/other")
    assert cells.ask("a", "Hello.") == "one"


def test_loading_again_keeps_the_settings_of_a_changed_record(
    cells: Cells, vendor: LoopbackServer, chosen: LoopbackServer
) -> None:
    cells.ask("a", "Hello.")
    cells.set(f"{ADDRESS}={chosen.url}")
    stored: Any = cells.session.document.to_json()
    changed = {**stored, "signature": None, "base_config": {"user": {"name": "Other"}}}
    again = Session(FakeHost(home=FakeHome(stored=changed)), previous=cells.session)
    assert not again.active.trust.trusted
    assert again.config.providers.llm.openai.base_url == chosen.url
    same = Session(FakeHost(home=FakeHome(stored=stored)), previous=cells.session)
    assert same.config.providers.llm.openai.base_url == chosen.url
    assert same.document.conversation.raw == stored["events"]
    again.close()
    same.close()


def notices(cells: Cells) -> list[str]:
    """The notices that the last turn showed before its answer."""
    events = cells.host.person.outputs[-1].events
    start = next(n for n, event in enumerate(events) if is_kind(event, "show_text"))
    return [event.text for event in events[:start] if is_kind(event, "notice")]


def get_host(server: LoopbackServer) -> str:
    return server.url.removeprefix("http://")


def test_request_to_another_host_shows_a_notice_first(
    cells: Cells, vendor: LoopbackServer, chosen: LoopbackServer
) -> None:
    cells.ask("a", "One.", model="openai/x")
    assert notices(cells) == []
    cells.ask("b", "Two.", model="scripted/talk")
    cells.ask("c", "Three.", model="openai/x")
    assert notices(cells) == []
    cells.set(f"{ADDRESS}={chosen.url}")
    cells.ask("d", "Four.")
    assert notices(cells) == [
        f"⚠ This request is sent to {get_host(chosen)} (openai). The previous request "
        "of this notebook went to "
        f"{get_host(vendor)}."
    ]
    cells.ask("e", "Five.")
    assert notices(cells) == []
    cells.session.conversations.switch(cells.session.document.conversation.id)
    before = cells.session.document.conversation.id
    cells.session.conversations.new()
    cells.unset(ADDRESS)
    cells.ask("f", "Six.")
    assert len(notices(cells)) == 1
    cells.session.conversations.switch(before)  # it has its own address
    cells.ask("g", "Seven.")
    assert len(notices(cells)) == 1


@pytest.mark.parametrize("is_in_another_conversation", [False, True])
def test_new_kernel_knows_the_last_host_without_its_name(
    cells: Cells, vendor: LoopbackServer, *, is_in_another_conversation: bool
) -> None:
    cells.ask("a", "One.", model="openai/x")
    if is_in_another_conversation:
        cells.session.conversations.new()
    stored: Any = cells.session.document.to_json()
    assert get_host(vendor) not in json.dumps(stored)
    same = Cells(vendor, FakeHome(stored=stored))
    same.ask("b", "Two.", model="openai/x")
    assert notices(same) == []
    with LoopbackServer(["Hello."]) as other:
        moved = Cells(other, FakeHome(stored=stored))
        moved.ask("b", "Two.", model="openai/x")
        assert notices(moved) == [
            f"⚠ This request is sent to {get_host(other)} (openai). The previous "
            "request of this notebook went "
            "to another host."
        ]
    same.session.close()
    moved.session.close()


DEEPSEEK = "providers.llm.deepseek"


@pytest.fixture
def other(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    """Another host, and its settings."""
    monkeypatch.setenv("OTHER_KEY", "sk-other-secret")
    with LoopbackServer([Reply(status=400)] * 8) as server:
        cells.set(f"{DEEPSEEK}.base_url={server.url}", f"{DEEPSEEK}.api_key_env=OTHER_KEY")
        cells.set("assistant.request.max_retries=0")
        yield server


def try_jp(cells: Cells, line: str) -> None:
    with suppress(jp.JpNbError):  # the other host answers with errors
        run_line(cells.session, line)


def lines_about(server: LoopbackServer, cells: Cells, printed: str) -> list[str]:
    """The lines that name the other host, of all outputs."""
    outputs = cells.host.person.outputs
    shown = [event.text for out in outputs for event in out.events if is_kind(event, "notice")]
    return [line for line in [*shown, *printed.splitlines()] if get_host(server) in line]


def test_count_of_tokens_names_the_other_host_first(
    cells: Cells,
    vendor: LoopbackServer,
    other: LoopbackServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells.ask("a", "One.", model="openai/x")
    cells.set(f"{ADDRESS}={other.url}")
    for _ in range(2):
        try_jp(cells, "usage --count")
    [line] = lines_about(other, cells, capsys.readouterr().out)
    assert f"The previous request of this notebook went to {get_host(vendor)}." in line


def test_summary_by_another_host_names_it_first(
    cells: Cells, other: LoopbackServer, capsys: pytest.CaptureFixture[str]
) -> None:
    cells.ask("a", "One.", model="openai/x")
    cells.set(f"{ADDRESS}={other.url}")
    for _ in range(2):
        try_jp(cells, "compact --summarize --keep-first 0 --keep-last 0")
    assert len(other.requests) >= 1
    [_] = lines_about(other, cells, capsys.readouterr().out)


def test_inquiry_of_another_model_names_its_host_first(
    cells: Cells, other: LoopbackServer, capsys: pytest.CaptureFixture[str]
) -> None:
    @jp.tool
    def pick() -> jp.NeedsInput:
        """Ask which one."""
        return jp.NeedsInput(jp.Question.text("which", "Which one?"))

    try:
        cells.ask("a", "One.", model="openai/x")
        cells.set("conversation.inquiry.assistant.model.id=deepseek/y")
        cells.set("conversation.tools.pick.questions.which.target=assistant")
        for _ in range(2):
            try_jp(cells, "call pick")
        assert len(other.requests) >= 1
        [_] = lines_about(other, cells, capsys.readouterr().out)
    finally:
        jp.remove_tool("pick")
