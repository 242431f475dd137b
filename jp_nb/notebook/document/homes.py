"""Where the record of this kernel is kept: an open page, a headless run's notebook, or memory.

`find` looks around once, at `%load_ext`; the `Place` it returns says which notebook this is, so
that the configuration can be read, and then opens the conversation.

Source: `docs/protocol.md`, `docs/decisions.md` D18 and D33.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.notebook.document.carrier_store import CarrierStore
from jp_nb.notebook.document.live import LiveStore
from jp_nb.notebook.document.stores import MemoryStore, RecordStore
from jp_nb.notebook.document.wire import Hello
from jp_nb.record import carrier
from jp_nb.record.document import Document, NewerVersionError
from jp_nb.record.merge import JsonObject, apart, lengths, made_headless
from jp_nb.record.stream import ConversationStream, Made
from jp_nb.record.timestamps import Clock, utc_now
from jp_nb.workspace import variables

PAGE_TIMEOUT_S = 3.0
CONSOLE_TIMEOUT_S = 0.5
PAPERMILL_PATH = "PAPERMILL_INPUT_PATH"
"""The parameter that `papermill --inject-paths` sets in the notebook."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A conversation to go on with, and the store that keeps it.

    Attributes:
        where: `kept in this notebook` or `kept in memory only: …`.
        restored: Whether the conversation was in the notebook before.
        notices: What the person should be told once.
        path: The notebook's file, if it is known.
        headless: Whether nobody is there.
    """

    document: Document
    store: RecordStore
    where: str
    restored: bool = False
    notices: list[str] = field(default_factory=list)
    path: Path | None = None
    headless: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """What was found around this kernel."""

    path: Path | None
    headless: bool
    live: LiveStore | None = None
    hello: Hello | None = None
    shell: Any = None

    def open(
        self,
        *,
        clock: Clock = utc_now,
        base_config: Mapping[str, JsonValue] | None = None,
        go_on: bool = False,
    ) -> Opened:
        """Load the notebook's conversation or begin one.

        Live, the notebook's conversation goes on. Headless, a new one begins, unless `go_on`
        (`record.headless = "continue"`) or the runner says otherwise.
        """
        if self.live is not None:
            return self._open_live(self.live, clock, base_config)
        if self.headless:
            go_on = go_on or os.environ.get(variables.CONTINUE) == "1"
            return self._open_headless(clock, base_config, go_on=go_on)
        document = Document.new(clock=clock, made="live", base_config=base_config)
        store = MemoryStore("there is no notebook here")
        return Opened(document, store, store.where, path=self.path)

    def _open_live(
        self, store: LiveStore, clock: Clock, base_config: Mapping[str, JsonValue] | None
    ) -> Opened:
        loaded, notices = None, []
        if self.hello is not None and self.hello.has_document:
            try:
                loaded = Document.load(self.hello.document, clock=clock)
            except StorageError as exc:
                notices.append(str(exc))
        if loaded is not None and not len(loaded.conversation):
            # Nothing was said in it: what its base configuration says is nobody's decision here.
            loaded.conversation = ConversationStream.new(
                clock=clock, made="live", base_config=base_config, not_ids=loaded.ids()
            )
        document = loaded or Document.new(clock=clock, made="live", base_config=base_config)
        store.attach(document)
        notices = [text for text in notices if text not in store.where]
        return Opened(
            document,
            store,
            store.where,
            restored=loaded is not None and len(loaded.conversation) > 0,
            notices=notices,
            path=self.path,
        )

    def _open_headless(
        self, clock: Clock, base_config: Mapping[str, JsonValue] | None, *, go_on: bool
    ) -> Opened:
        stored, damaged, notices = _read(self.path)
        loaded: Document | None = None
        store: RecordStore | None = None
        try:
            loaded = Document.load(stored, clock=clock) if stored is not None else None
        except NewerVersionError as exc:
            store = MemoryStore(str(exc))
        except StorageError as exc:
            notices.append(f"{exc}; it is kept as it is, a new conversation begins")
            damaged += apart(stored)
        if go_on and self.path is None:
            notices.append("the runner does not say which notebook this is: nothing to continue")
        if loaded is not None and go_on and len(loaded.conversation):
            document = loaded
            document.others += damaged
        else:
            document = begin_headless(loaded, clock=clock, base_config=base_config)
            if store is None:
                document.others += damaged
        store = store or CarrierStore(document, seen=lengths(stored), shell=self.shell)
        restored = document is loaded and len(document.conversation) > 0
        return Opened(document, store, store.where, restored, notices, self.path, headless=True)


def begin_headless(
    loaded: Document | None,
    *,
    clock: Clock = utc_now,
    base_config: Mapping[str, JsonValue] | None = None,
) -> Document:
    """A new headless conversation in the notebook that held `loaded`.

    Earlier ones that were made headless are replaced, all others are kept (D18).
    """
    made: Made = "headless"
    if loaded is None:
        return Document.new(clock=clock, made=made, base_config=base_config)
    taken = loaded.ids()
    if loaded.conversation.head.get("made") != made:
        loaded.shelve()
    others = [other for other in loaded.others if not made_headless(other)]
    extra = {key: item for key, item in loaded.extra.items() if key != "signature"}
    stream = ConversationStream.new(clock=clock, made=made, base_config=base_config, not_ids=taken)
    return Document(stream, others, extra)


# --- looking around --------------------------------------------------------------------------


def find(shell: Any, *, timeout: float | None = None) -> Place:
    """Find out where the shell's kernel runs: takes up to `timeout` seconds if no page answers.

    Call it in the cell's thread.
    """
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return Place(None, headless=False)
    if is_headless(kernel):
        return Place(find_path(getattr(shell, "user_ns", {})), headless=True, shell=shell)
    if timeout is None:
        timeout = PAGE_TIMEOUT_S if _may_have_a_page(kernel) else CONSOLE_TIMEOUT_S
    store = LiveStore(kernel)
    hello = store.connect(timeout)
    return Place(_live_path(hello), headless=False, live=store, hello=hello)


def is_headless(kernel: Any) -> bool:
    """Whether the running cell came from somebody who cannot be asked: `allow_stdin` is false."""
    return not getattr(kernel, "_allow_stdin", False)


def _may_have_a_page(kernel: Any) -> bool:
    """Whether a notebook's page seems to run the cell; a console has neither of these."""
    if "JPY_SESSION_NAME" in os.environ:
        return True
    parent = kernel.get_parent("shell") if hasattr(kernel, "get_parent") else {}
    metadata = parent.get("metadata") if isinstance(parent, Mapping) else None
    return isinstance(metadata, Mapping) and "cellId" in metadata


def _live_path(hello: Hello | None) -> Path | None:
    """The file of the notebook that a page shows: servers run kernels in its folder."""
    if hello is None or not hello.path:
        return None
    name = hello.path.rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    session = Path(os.environ.get("JPY_SESSION_NAME", ""))
    for candidate in (session, Path.cwd() / name):
        if candidate.name == name and candidate.is_absolute() and candidate.is_file():
            return candidate
    return None


def find_path(user_ns: Mapping[str, Any] | None = None) -> Path | None:
    """The notebook that a headless runner executes, if anything tells it."""
    injected = (user_ns or {}).get(PAPERMILL_PATH)
    explicit = os.environ.get(variables.PATH) or (injected if isinstance(injected, str) else "")
    arguments, folder = _parent()
    if explicit:
        found = folder / explicit
        return found.resolve() if found.is_file() else None
    return path_in(arguments, folder)


def _parent() -> tuple[Sequence[str], Path]:
    """Arguments and working directory of the process that started this kernel."""
    try:
        import psutil  # ipykernel brings it

        parent = psutil.Process(os.getppid())
        return parent.cmdline(), Path(parent.cwd())
    except Exception:  # missing, or the system says no: in many ways
        return [], Path.cwd()


def path_in(arguments: Sequence[str], folder: Path) -> Path | None:
    """The one notebook that a runner's command line names; None if it names none or several.

    papermill names its input first; `jupyter execute` lets the suffix be left out.
    """
    names = list(_positional(arguments))
    programs = {Path(name).name for name in arguments[:3]}
    found = [folder / name for name in names if name.endswith(".ipynb")]
    if not found and "execute" in " ".join(programs):
        found = [(folder / name).with_suffix(".ipynb") for name in names[1:]]
    found = list(dict.fromkeys(path.resolve() for path in found if path.is_file()))
    if len(found) == 1 or (found and "papermill" in " ".join(programs)):
        return found[0]
    return None


def _positional(arguments: Sequence[str]) -> list[str]:
    """Without options and without what `--output` and `-o` name."""
    pairs = zip(["", *arguments], arguments, strict=False)
    return [
        now
        for before, now in pairs
        if not now.startswith("-") and before not in ("--output", "-o", "--output-dir")
    ]


def _read(path: Path | None) -> tuple[JsonValue, list[JsonValue], list[str]]:
    """The `jp` object of the notebook at `path`, its damaged carriers, and notices."""
    if path is None:
        return None, [], []
    try:
        metadata = _metadata(path)
    except (OSError, ValueError) as exc:
        return None, [], [f"{path.name} cannot be read: {exc}"]
    damaged = carrier.unreadable(metadata)
    notices = ["a damaged copy of the record is kept as it is"] if damaged else []
    return carrier.read(metadata), damaged, notices


def _metadata(path: Path) -> JsonObject:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    found = notebook.get("metadata") if isinstance(notebook, dict) else None
    return found if isinstance(found, dict) else {}
