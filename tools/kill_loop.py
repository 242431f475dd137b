"""Kill sessions at each boundary of their entries and at random times, and check the result.

    python -m tools.kill_loop --runs 300

A session runs in a child process. This program is the page of its notebook, and stores what it
receives. Another session then opens the notebook with the content of the page, and checks:

- Nothing that the page received is missing or doubled.
- The call of every tool that began is in the notebook or in the journal.
- The record is trusted, and opening it ran no tool.
- `%jp resume` continues the turn, and leaves a well-formed record.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

import jp_nb
from jp_nb.record.documents.document import Document
from jp_nb.record.entries.clock import Clock
from jp_nb.record.interrupted_turn import find_interrupted_turn
from jp_nb.record.unfinished_calls import list_open_calls
from jp_nb.session import set_current
from jp_nb.session.host import OpenedConversation
from jp_nb.session.past_turns.resume import TurnResumption
from jp_nb.session.session import Session
from jp_nb.storage.journals.journal_file import JournalFile
from jp_nb.toolkit.question import Question
from tests.session.killed_session import NOTEBOOK, environment
from tests.support.fake_host import FakeHome, FakeHost, FakeStore
from tests.support.fakes import FakePrompter, yes

SCRIPT = """
[[replies]]
text = "one"
[[replies]]
reasoning = "Three at once."
text = "Let me see."
tool_calls = [
    {name = "mark", arguments = {word = "a"}},
    {name = "mark_in_thread", arguments = {word = "b"}},
    {name = "mark", arguments = {word = "c"}},
]
[[replies]]
tool_calls = [{name = "ask_and_mark", arguments = {word = "d"}}]
[[replies]]
tool_calls = [{name = "mark", arguments = {word = "e"}}]
[[replies]]
text = "done"
"""
PATIENCE_S = 60.0
LONGEST_TURN_S = 2.0
MOST_BEHIND = 3
"""Changes that a page is behind at most."""


@dataclass
class Points:
    """Counts the boundaries of a run, and kills the process at number `at`.

    Attributes:
        passed: Names of the boundaries so far.
    """

    at: int | None
    passed: list[str] = field(default_factory=list)

    def reach(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def is_next(self) -> bool:
        """True if the next boundary kills the process."""
        return len(self.passed) + 1 == self.at


class PageStore(FakeStore):
    """Sends each change through `pipe` to the page, which is `lag` changes behind."""

    def __init__(self, document: Document, pipe: int, points: Points, lag: int) -> None:
        super().__init__(document)
        self.entries += document.conversation.raw
        self._pipe = pipe
        self._points = points
        self._lag = lag
        self._under_way: list[Any] = []

    def changed(self) -> None:
        before = len(self.entries)
        super().changed()
        self._send(before, self.entries[before:])

    def replaced(self) -> None:
        super().replaced()
        self._send(0, self.entries)

    def _send(self, base: int, events: list[dict[str, Any]]) -> None:
        document = {k: v for k, v in self._document.to_json().items() if k != "events"}
        self._under_way.append({"base": base, "events": events, "document": dict(document)})
        self._points.reach("before the page")
        while len(self._under_way) > self._lag:
            _write(self._pipe, self._under_way.pop(0))
        self._points.reach("after the page")


@dataclass
class PageHome(FakeHome):
    """A notebook in the page at the other end of `pipe`."""

    pipe: int = -1
    points: Points = field(default_factory=lambda: Points(None))
    lag: int = 0

    def open(
        self, *, clock: Clock, base_config: Mapping[str, JsonValue], continues: bool = False
    ) -> OpenedConversation:
        found = super().open(clock=clock, base_config=base_config, continues=continues)
        store = PageStore(found.document, self.pipe, self.points, self.lag)
        return OpenedConversation(found.document, store, found.restored)


def _write(pipe: int, message: Any) -> None:
    rest = json.dumps(message).encode() + b"\n"
    while rest:
        rest = rest[os.write(pipe, rest) :]


# --- the session that dies -----------------------------------------------------------------------


def define(folder: Path, points: Points) -> None:
    """Define the tools, which create marks in `folder`."""

    def leave(word: str) -> str:
        points.reach("a tool begins")
        descriptor = os.open(folder / "marks", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, f"{word}\n".encode())
        os.close(descriptor)
        points.reach("a tool has left its mark")
        return f"marked {word}"

    @jp_nb.tool
    def mark(word: str) -> str:
        return leave(word)

    @jp_nb.tool(thread=True)
    def mark_in_thread(word: str) -> str:
        return leave(word)

    @jp_nb.tool
    def ask_and_mark(word: str, jp_context: jp_nb.ToolContext) -> Any:
        if "how" not in jp_context.answers:
            return jp_nb.NeedsInput(Question.select("how", "How?", ["softly", "loudly"]))
        return f"{leave(word)} {jp_context.answers['how']}"


def watch_journals(points: Points) -> None:
    """Make each append to a journal three boundaries: before, within, and after it."""
    append = JournalFile.append

    def watched(file: JournalFile, data: bytes) -> None:
        points.reach("before the journal")
        if points.is_next():
            append(file, data[: len(data) // 2])
        points.reach("in the middle of the journal")
        append(file, data)
        points.reach("after the journal")

    JournalFile.append = watched  # type: ignore[method-assign,assignment]


def run_session(folder: Path, stored: Any, kill: Kill, pipe: int) -> None:
    """Ask both questions unless the process is killed first; send the passed boundaries."""
    points = Points(kill.at)
    define(folder, points)
    watch_journals(points)
    home = PageHome(folder / NOTEBOOK, stored=stored, pipe=pipe, points=points, lag=kill.lag)
    session = Session(FakeHost(FakePrompter(yes("softly")), home))
    set_current(session)
    _write(pipe, {"ready": True})
    if stored is None:
        session.turns.run("First.", model="scripted/talk")
    if kill.asks_second:
        session.turns.run("Second.")
    _write(pipe, {"passed": points.passed})


# --- the one that comes after it -----------------------------------------------------------------


def run_successor(folder: Path, page: Any) -> dict[str, Any]:
    """Open the notebook with the content of the page, check it, and resume its turn."""
    define(folder, Points(None))
    marks = marks_in(folder)
    ends = [yes(value) for _ in range(4) for value in ("run", "skip")]
    host = FakeHost(FakePrompter(*ends), FakeHome(folder / NOTEBOOK, stored=page))
    session = Session(host)
    set_current(session)
    had = list(page["events"]) if page else []
    offered = not had and session.conversations.restore_from_journal()
    stream = session.document.conversation
    raw = list(stream.raw)
    assert raw[: len(had)] == had, "something that the page has is missing"
    assert stream.turn_count <= 2
    ids = [entry["event_id"] for entry in raw]
    assert len(set(ids)) == len(ids), "an entry is there twice"
    called = [entry["arguments"]["word"] for entry in _calls(raw)]  # type: ignore[index,call-overload]
    assert set(marks) <= set(called), f"{marks} began, and the record has {called}"
    assert len(set(marks)) == len(marks), "a tool ran twice"
    assert marks_in(folder) == marks, "opening the notebook ran a tool"
    assert session.active.trust.trusted, session.active.trust.why_not
    resumed = find_interrupted_turn(stream) is not None
    if resumed:
        _resume(session, marks, folder)
    _opens_again(session, folder)
    return {"recovered": len(raw) - len(had), "offered": offered, "resumed": resumed}


def _resume(session: Session, marks: list[str], folder: Path) -> None:
    stream = session.document.conversation
    host = session.host
    assert isinstance(host, FakeHost)
    known = list_open_calls(stream, session.active.journal_use.call_progress)
    calls = sum(call.may_have_run for call in known)
    host.person.prompter._ends[calls:] = [yes("loudly")] * 2
    host.person.prompter.asked.clear()
    turn = TurnResumption(session).run()
    assert turn is not None
    assert turn.text.endswith(("one", "done")[turn.number]), turn.text
    again = Counter(marks_in(folder)) - Counter(marks)
    assert max(again.values(), default=0) <= 1, "a tool ran twice when its turn was resumed"
    assert not stream.repair(), "the resumed turn is not well formed"
    answered = Counter(
        str(entry["id"]) for entry in stream.raw if "content" in entry and "id" in entry
    )
    asked = Counter(str(entry["id"]) for entry in _calls(stream.raw))
    assert answered == asked, "a call has no response, or several"


def _opens_again(session: Session, folder: Path) -> None:
    stored: Any = session.document.to_json()
    session.close()
    again = Session(FakeHost(home=FakeHome(folder / NOTEBOOK, stored=stored)))
    assert again.document.conversation.raw == stored["events"], "opened again it is another one"
    assert not [notice for notice in again.notices if "kernel" in notice], again.notices
    again.close()


def _calls(raw: Any) -> list[dict[str, JsonValue]]:
    return [entry for entry in raw if entry["type"] == "tool_call_request"]


def marks_in(folder: Path) -> list[str]:
    path = folder / "marks"
    return path.read_text().split() if path.exists() else []


# --- the loop ------------------------------------------------------------------------------------


@dataclass
class Child:
    """A forked process, and the pipe that it writes to."""

    pid: int
    pipe: int

    def messages(self) -> Iterator[Any]:
        """Yield the messages until the process ends. An incomplete message is dropped."""
        rest = b""
        while piece := os.read(self.pipe, 1 << 16):
            *lines, rest = (rest + piece).split(b"\n")
            yield from map(json.loads, lines)

    def end(self) -> int:
        """Return the exit code; kill the process if it still runs."""
        os.close(self.pipe)
        os.kill(self.pid, signal.SIGKILL)  # who has exited has its code already
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def fork_process(folder: Path, work: Callable[[int], None]) -> Iterator[Child]:
    """Run `work` in a process with its files in `folder`, and print its errors.

    The process has ended at the end of the block, so that the folder can be removed.

    Raises:
        AssertionError: If it failed. A killed process has not failed.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        child = Child(pid, reading)
        status = 0
        try:
            yield child
        finally:
            status = child.end()
        if status not in (0, -signal.SIGKILL):
            raise AssertionError(f"a session failed: see {folder}")
        return
    status = 1
    try:
        os.close(reading)
        os.environ.update(environment(folder))
        os.chdir(folder)
        work(writing)
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


@dataclass
class Kill:
    """The time of a kill, and the content of the page then."""

    at: int | None = None
    after: float | None = None
    lag: int = 0
    asks_second: bool = True
    page: Any = None
    passed: list[str] | None = None


def kill_session(folder: Path, stored: Any, kill: Kill) -> Kill:
    """Run a session in `folder`, kill it, and return `kill` with the result."""
    kill.page = json.loads(json.dumps(stored))
    with fork_process(folder, lambda pipe: run_session(folder, stored, kill, pipe)) as child:
        for message in child.messages():
            if "ready" in message and kill.after is not None:
                time.sleep(kill.after)
                os.kill(child.pid, signal.SIGKILL)
            elif "events" in message:
                events = (kill.page or {"events": []})["events"][: message["base"]]
                kill.page = {**message["document"], "events": events + message["events"]}
            elif "passed" in message:
                kill.passed = message["passed"]
    return kill


def run(root: Path, number: int, stored: Any, kill: Kill) -> dict[str, Any]:
    """Kill one session, open the notebook in another one, and return its findings."""
    folder = _create_folder(root, str(number))
    kill_session(folder, stored, kill)
    with fork_process(folder, lambda pipe: _write(pipe, run_successor(folder, kill.page))) as child:
        found: list[dict[str, Any]] = [*child.messages()]
    assert found, f"run {number}, killed at {kill.at or kill.after}: see {folder}"
    shutil.rmtree(folder)
    return found[0]


def create_notebook(root: Path) -> Any:
    """Return a notebook with one turn, and keep the key that signed it."""
    folder = _create_folder(root, "first")
    page = kill_session(folder, None, Kill(asks_second=False)).page
    shutil.copy(folder / "data" / "jp" / "notebook-key", root)
    return page


def _create_folder(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "talk.toml").write_text(SCRIPT)
    if (key := root / "notebook-key").exists():
        (folder / "data" / "jp").mkdir(parents=True, mode=0o700)
        shutil.copy(key, folder / "data" / "jp")
    return folder


def loop(root: Path, runs: int, seed: int) -> dict[str, Any]:
    """Kill `runs` sessions: at each boundary, then at random times. Return the figures."""
    chance = random.Random(seed)
    stored = create_notebook(root)
    started = time.monotonic()
    passed = kill_session(_create_folder(root, "counted"), None, Kill()).passed or []
    took = min(time.monotonic() - started, LONGEST_TURN_S)
    totals: Counter[str] = Counter()
    # Each boundary in a notebook that is new, and in one that has a turn; then random times.
    places = [(at, page) for at in range(1, len(passed) + 1) for page in (None, stored)]
    chance.shuffle(places)
    for number in range(runs):
        is_boundary = number < len(places)
        at, page = places[number] if is_boundary else (None, chance.choice((None, stored)))
        after = None if is_boundary else chance.uniform(0, took)
        found = run(root, number, page, Kill(at, after, lag=chance.randint(0, MOST_BEHIND)))
        totals["at a boundary" if is_boundary else "at random"] += 1
        for name in ("recovered", "offered", "resumed"):
            totals[name] += found[name]
    return {"runs": runs, "boundaries": len(passed), **totals}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="jp-nb-killed-"))
    print(json.dumps(loop(folder, given.runs, given.seed)))
    shutil.rmtree(folder)  # a failure names it, and leaves it


if __name__ == "__main__":
    main()
