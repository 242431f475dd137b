"""Find the notebook file and its front end, once, at `%load_ext`.

Source: `docs/protocol.md`, `docs/decisions.md` D18 and D33, `docs/guide.md`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.notebook.page.live_store import NO_PAGE, LiveStore
from jp_nb.notebook.page.protocol import Hello
from jp_nb.notebook.page.stores import CarrierStore, MemoryStore
from jp_nb.record import merge
from jp_nb.record.clock import Clock, PositionClock, utc_now
from jp_nb.record.document import (
    Document,
    NewerVersionError,
    apart,
    conversation_id,
    entry_counts,
    made_headless,
)
from jp_nb.record.stream import ConversationStream, Made
from jp_nb.session.host import Opened, RecordStore
from jp_nb.storage import environment

VS_CODE_FILE: Final = "__vsc_ipynb_file__"
"""The variable by which VS Code tells a kernel the path of its notebook.

Source: https://github.com/microsoft/vscode-jupyter/pull/8531
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The program around a kernel.

    Attributes:
        name: Its name, for the user.
        why_not: Why no notebook keeps the record, unless a page of it answers.
        may_have_page: Whether a page with the jp-nb extension may answer.
    """

    name: str
    why_not: str
    may_have_page: bool = False


TERMINAL: Final = Surroundings("IPython in a terminal", "IPython in a terminal has no notebook")
COLAB: Final = Surroundings(
    "Google Colab",
    "Google Colab does not store conversations in notebooks, and it deletes this machine after "
    "the session (`%jp export DIR` saves a copy)",
)
VS_CODE: Final = Surroundings("VS Code", "VS Code does not store conversations in notebooks")
PAGE: Final = Surroundings("a page without the jp-nb extension", NO_PAGE, may_have_page=True)
CONSOLE: Final = Surroundings("a console or program", "a console or program has no notebook")


def place_of(kernel: Any, user_ns: Mapping[str, Any]) -> Surroundings:
    """Return the place of `kernel`, None: there is none; on the cell's thread."""
    if kernel is None:
        return TERMINAL
    if "google.colab" in type(kernel).__module__:
        return COLAB
    if environment.PAGE in os.environ:
        return PAGE
    if VS_CODE_FILE in user_ns or "VSCODE_PID" in os.environ:
        return VS_CODE if _names_cell(kernel) else CONSOLE
    return PAGE if _names_cell(kernel) else CONSOLE


def notebook_path(user_ns: Mapping[str, Any]) -> Path | None:
    """Return the notebook's file where no page tells it, if the front end does."""
    told = user_ns.get(VS_CODE_FILE) or os.environ.get(environment.PAGE)
    path = Path(told) if isinstance(told, str) else None
    return path if path and path.is_absolute() and path.is_file() else None


def _names_cell(kernel: Any) -> bool:
    """Return True if a cell of a notebook is running; a console names none."""
    parent = kernel.get_parent("shell") if hasattr(kernel, "get_parent") else {}
    metadata = parent.get("metadata") if isinstance(parent, Mapping) else None
    return isinstance(metadata, Mapping) and "cellId" in metadata


BaseConfig = Mapping[str, JsonValue]


class NoStorage:
    """No kernel, so no notebook."""

    path = None
    headless = False

    def open(
        self, *, clock: Clock = utc_now, base_config: BaseConfig | None = None, go_on: bool = False
    ) -> Opened:
        """Begin a conversation."""
        document = Document.new(clock=clock, made="live", base_config=base_config)
        return Opened(document, MemoryStore(TERMINAL.why_not), by_folder=True)


class PageStorage:
    """A notebook in an open page; `hello` is None if no page answered, as in a console."""

    headless = False

    def __init__(self, path: Path | None, store: LiveStore, hello: Hello | None) -> None:
        self._known = path, hello.path if hello is not None else ""
        self.store = store
        self.hello = hello

    @property
    def path(self) -> Path | None:
        """The notebook's file, if it is known, also once it was renamed."""
        path, name = self._known
        now = self.store.path
        if path is not None and now not in ("", name):
            path = moved(path, name, now) or path
            self._known = path, now
        return path

    def open(
        self, *, clock: Clock = utc_now, base_config: BaseConfig | None = None, go_on: bool = False
    ) -> Opened:
        """Go on with the page's conversation, or begin one."""
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
        self.store.attach(document)
        notices = [text for text in notices if text not in self.store.where]
        restored = loaded is not None and len(loaded.conversation) > 0
        return Opened(document, self.store, restored, notices, by_folder=self.hello is None)


class HeadlessStorage:
    """A notebook that a runner executes; `path` is None if the runner does not say which."""

    headless = True

    def __init__(self, path: Path | None, shell: Any = None) -> None:
        self.path = path
        self.shell = shell

    def open(
        self, *, clock: Clock = utc_now, base_config: BaseConfig | None = None, go_on: bool = False
    ) -> Opened:
        """Begin a conversation, or go on with the notebook's if `go_on` or the runner says so."""
        go_on = go_on or os.environ.get(environment.CONTINUE) == "1"
        stored, damaged, notices = _read(self.path)
        loaded: Document | None = None
        store: RecordStore | None = None
        try:
            loaded = Document.load(stored, clock=clock) if stored is not None else None
        except NewerVersionError as exc:
            store = MemoryStore(str(exc))
        except StorageError as exc:
            notices.append(
                f"The record is damaged ({exc}). It is kept, and a new conversation starts."
            )
            damaged += apart(stored)
        if go_on and self.path is None:
            notices.append("No conversation is continued: the runner does not name the notebook.")
        if loaded is not None and go_on and len(loaded.conversation):
            document = loaded
            document.others += damaged
        else:
            document = begin_headless(loaded, clock=clock, base_config=base_config)
            if store is None:
                document.others += damaged
        store = store or CarrierStore(
            document,
            seen=entry_counts(stored),
            named=self.path is not None,
            shell=self.shell,
            clock=clock,
        )
        restored = document is loaded and len(document.conversation) > 0
        return Opened(document, store, restored, notices)


def moved(path: Path, name: str, now: str) -> Path | None:
    """Return the file that the server calls `now`, where it called that at `path` by `name`.

    None if there is none that this kernel can see.
    """
    before, after = PurePosixPath(name).parts, PurePosixPath(now).parts
    if path.parts[-len(before) :] != before:
        return None
    found = Path(*path.parts[: -len(before)], *after)
    return found if found.is_file() else None


def begin_headless(
    loaded: Document | None, *, clock: Clock = utc_now, base_config: BaseConfig | None = None
) -> Document:
    """Return a new headless conversation in the notebook that held `loaded`.

    Earlier ones that were made headless are replaced, all others are kept (D18).
    """
    made: Made = "headless"
    if loaded is None:
        return Document.new(clock=clock, made=made, base_config=base_config)
    taken = loaded.ids()
    if loaded.conversation.head.get("made") != made:
        loaded.shelve()
    others = [other for other in loaded.others if not made_headless(other)]
    if isinstance(clock, PositionClock):  # a run again has the id of the one that it replaces
        taken = set(map(conversation_id, others))
    extra = {key: item for key, item in loaded.extra.items() if key != "signature"}
    stream = ConversationStream.new(clock=clock, made=made, base_config=base_config, not_ids=taken)
    return Document(stream, others, extra)


def _read(path: Path | None) -> tuple[JsonValue, list[JsonValue], list[str]]:
    """Return the `jp` object of the notebook at `path`, its damaged carriers, and notices."""
    if path is None:
        return None, [], []
    try:
        metadata = _metadata(path)
    except (OSError, ValueError) as exc:
        return None, [], [f"{path.name} cannot be read: {exc}"]
    damaged = merge.unreadable_carrier(metadata)
    notices = (
        ["The notebook has a damaged copy of the record, which is kept unchanged."]
        if damaged
        else []
    )
    return merge.read_carrier(metadata), damaged, notices


def _metadata(path: Path) -> JsonObject:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    found = notebook.get("metadata") if isinstance(notebook, dict) else None
    return found if isinstance(found, dict) else {}


PAGE_TIMEOUT_S = 3.0
CONSOLE_TIMEOUT_S = 0.5
PAPERMILL_PATH = "PAPERMILL_INPUT_PATH"
"""The parameter that `papermill --inject-paths` sets in the notebook."""


def find(shell: Any, *, timeout: float | None = None) -> PageStorage | HeadlessStorage | NoStorage:
    """Find out where the shell's kernel runs: takes up to `timeout` seconds if no page answers.

    Call it in the cell's thread.
    """
    kernel, user_ns = getattr(shell, "kernel", None), getattr(shell, "user_ns", {})
    if kernel is None:
        return NoStorage()
    if is_headless(kernel):
        return HeadlessStorage(find_path(user_ns), shell)
    place = place_of(kernel, user_ns)
    if timeout is None:
        timeout = PAGE_TIMEOUT_S if place.may_have_page else CONSOLE_TIMEOUT_S
    store = LiveStore(kernel, no_page=place.why_not)
    hello = store.connect(timeout)
    path = notebook_path(user_ns) if hello is None else _live_path(hello)
    return PageStorage(path, store, hello)


def is_headless(kernel: Any) -> bool:
    """Return whether nobody can be asked in the running cell: its `allow_stdin` is false."""
    return not getattr(kernel, "_allow_stdin", False)


def _live_path(hello: Hello | None) -> Path | None:
    """Return the file of the notebook that a page shows: servers run kernels in its folder."""
    if hello is None or not hello.path:
        return None
    name = hello.path.rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    session = Path(os.environ.get("JPY_SESSION_NAME", ""))
    for candidate in (session, Path.cwd() / name):
        if candidate.name == name and candidate.is_absolute() and candidate.is_file():
            return candidate
    return None


def find_path(user_ns: Mapping[str, Any] | None = None) -> Path | None:
    """Return the notebook that a headless runner executes, if anything tells it."""
    injected = (user_ns or {}).get(PAPERMILL_PATH)
    explicit = os.environ.get(environment.PATH) or (injected if isinstance(injected, str) else "")
    arguments, folder = _parent()
    if explicit:
        found = folder / explicit
        return found.resolve() if found.is_file() else None
    return path_in(arguments, folder)


def _parent() -> tuple[Sequence[str], Path]:
    """Return arguments and working directory of the process that started this kernel."""
    try:
        import psutil  # ipykernel brings it

        parent = psutil.Process(os.getppid())
        return parent.cmdline(), Path(parent.cwd())
    except Exception:  # missing, or the system says no: in many ways
        return [], Path.cwd()


def path_in(arguments: Sequence[str], folder: Path) -> Path | None:
    """Return the one notebook that a runner's command line names; None: it names none or several.

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
    """Return `arguments` without options and without what `--output` and `-o` name."""
    pairs = zip(["", *arguments], arguments, strict=False)
    return [
        now
        for before, now in pairs
        if not now.startswith("-") and before not in ("--output", "-o", "--output-dir")
    ]
