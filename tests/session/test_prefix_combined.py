"""One conversation with changes of all kinds: each request begins with the one before."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.sessions import directive
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter, yes
from tests.support.loopback import LoopbackServer, Received
from tests.support.prefixes import SigningModel, keeps_all, list_parts
from tests.support.sessions import Notebook

CLAUDE = "anthropic/claude-opus-5-5"
GPT = "openai/gpt-6.2"
GEMINI = "google/gemini-3.8-flash"
BEGINNINGS = {  # of steps that do not begin with the step before: another step, or the reason
    "start": "(new conversation)",
    "summarized": "(instructions of the summary)",
    "compacted": "(compaction)",
    "undone": "compacted",
    "retried": "compacted",
    "away": "(another provider)",
    "back": "retried",
    "second": "(new conversation)",
    "first": "back",
}
NEWS = {
    "adapt": "Be Bo.",
    "edited": "Edited notes.",
    "summarized": "<think>",
    "resumed": "awake",
}


@pytest.fixture(autouse=True)
def _remove_tools() -> Iterator[None]:
    yield
    for name in ("adapt", "weather", "pause"):
        jp.remove_tool(name)


class Trip:
    """Takes a conversation through many steps, and calls `done` after each."""

    def __init__(self, folder: Path, model: SigningModel, done: Callable[[str], None]) -> None:
        self.folder = folder
        self.model = model
        self.done = done
        self.journals = folder.parent / "data" / "jp" / "journal"
        self.saved, self.ran = "", list[str]()
        paths = ("assistant.system_prompt", "conversation.tools.weather.enable")

        @jp.tool(access=[jp.ConfigRule(path, write=True, apply="unattended") for path in paths])
        def adapt() -> jp.Success:
            tools = {"tools": {"weather": {"enable": False}}}
            change = {"assistant": {"system_prompt": "Be Bo."}, "conversation": tools}
            return jp.Success("Done.", config=change)

        jp.tool(self.weather)
        jp.tool(self.pause)

    def weather(self) -> str:
        self.ran.append("weather")
        return "sun"

    def pause(self) -> str:
        if self.saved:
            return "awake"
        self.saved = json.dumps(self.notebook.session.document.to_json(), sort_keys=True)
        shutil.copytree(self.journals, self.folder / "journals")  # the kernel is killed here
        signal.raise_signal(signal.SIGINT)
        return "not interrupted"

    def open(self, name: str, stored: Any = None, *ends: Any) -> None:
        host = FakeHost(FakePrompter(*ends), FakeHome(self.folder / name, stored=stored))
        self.notebook = Notebook(self.folder, host=host)

    def ask(self, step: str, *directives: Any, calls: str = "", **options: Any) -> None:
        self.model.calls = tuple(calls.split())
        self.notebook.ask(f"{step}. " + "word " * 99, *directives, **options)
        self.done(step)

    def run(self, main: str, other: str) -> list[Any]:
        """Return the entries of the conversation at the end."""
        notes = self.folder / "notes.md"
        notes.write_text("Notes.")
        self.open("trip.ipynb")
        self.ask("start", directive("attach", "notes.md"), model=main)
        self.ask("adapt", calls="adapt weather")
        notes.write_text("Edited notes.")
        self.ask("edited")
        self.notebook.jp("fork")
        self.ask("fork", directive("tool", "weather"))
        self.notebook.jp("compact -s --keep-first 0 --keep-last 0")
        self.done("summarized")
        self.ask("compacted")
        self.ask("next")
        self.notebook.jp("undo")
        self.ask("undone")
        self.notebook.jp("retry")
        self.done("retried")
        self.ask("away", model=other)
        self.ask("still away")
        self.ask("back", model=main)
        first = self.notebook.ids[0]
        self.notebook.jp("new")
        self.ask("second")
        self.notebook.jp(f"switch {first}")
        self.ask("first")
        self.notebook.jp("export there")
        self.notebook.session.close()
        self.open("copy.ipynb", None, yes("stop"))
        self.notebook.jp("import there")
        shutil.rmtree(self.folder / "there")
        self.notebook.jp("trust --yes")
        self.ask("imported")
        with pytest.raises(KeyboardInterrupt):
            self.ask("killed", calls="weather pause")
        self.done("killed")
        self.notebook.session.close()
        shutil.rmtree(self.journals)
        shutil.move(self.folder / "journals", self.journals)
        self.open("copy.ipynb", json.loads(self.saved), yes("run"))
        self.notebook.jp("resume")
        self.done("resumed")
        self.ask("end")
        self.notebook.session.close()
        assert self.ran == ["weather", "weather"]
        entries: Any = self.notebook.session.document.conversation.raw
        return [[e.get(key) for key in ("type", "message", "content", "metadata")] for e in entries]


@pytest.mark.req("PRE-1", "PRE-4", "PRE-5")
@pytest.mark.parametrize(("main", "other"), [(CLAUDE, GPT), (GPT, GEMINI), (GEMINI, CLAUDE)])
def test_each_request_begins_with_the_one_before(
    main: str, other: str, folder: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setenv("TRIP_KEY", "k-0123456789abcdef0123")
    model = SigningModel()
    sent = dict[str, list[Received]]()
    with LoopbackServer(model) as server:

        def take(step: str) -> None:
            sent[step] = server.requests[sum(map(len, sent.values())) :]

        for name in ("ANTHROPIC", "GOOGLE", "OPENAI"):
            monkeypatch.setenv(f"JP_CFG_PROVIDERS__LLM__{name}__BASE_URL", server.url)
            monkeypatch.setenv(f"JP_CFG_PROVIDERS__LLM__{name}__API_KEY_ENV", "TRIP_KEY")
        monkeypatch.setenv("JP_CFG_PROVIDERS__LLM__OPENAI__DIALECT", "responses")
        monkeypatch.setenv("JP_CFG_PROVIDERS__CASSETTE__PATH", str(folder / "trip.jsonl"))
        monkeypatch.setenv("JP_CFG_PROVIDERS__CASSETTE__MODE", "replay-or-record")
        recorded = Trip(folder, model, take).run(main, other)
        monkeypatch.setenv("JP_CFG_PROVIDERS__CASSETTE__MODE", "replay")
        assert Trip(folder, model, lambda _: None).run(main, other) == recorded
        assert len(server.requests) == sum(map(len, sent.values()))
    assert model.faults == []
    signatures = {id(request): signature for signature, request in model.signed.items()}
    earlier: list[Received] = []
    for step_before, (step, own) in zip(["", *sent], sent.items(), strict=False):
        first = own[0]
        before = BEGINNINGS.get(step, step_before)
        with subtests.test(step):
            assert all(keeps_all(*pair) for pair in pairwise(own))
            assert NEWS.get(step, "") in own[-1].raw.decode()
            if before in sent:
                previous = sent[before][-1]
                assert keeps_all(previous, first)
                assert signatures[id(previous)] in list_parts(first)[len(list_parts(previous))]
            else:
                assert not any(keeps_all(each, first) for each in earlier)
                assert not any(signatures[id(each)].encode() in first.raw for each in earlier)
        earlier += own
