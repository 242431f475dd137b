"""Find the notebook at `%load_ext`, and the storage backend for its record.

The backends without an open page are memory, and a widget state in headless runs.
`jp_nb/record/merge.py` describes the shape of that widget state (a *carrier*), and reads it.

Source: `docs/protocol.md`, `docs/record.md`, `docs/decisions.md` D18 and D33, `docs/guide.md`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.json_values import JsonObject, make_storable, make_storable_with_size
from jp_nb.notebook.page.live_store import (
    IN_NOTEBOOK,
    NO_PAGE,
    LiveStore,
    in_memory,
    is_text_notebook,
    not_saved,
)
from jp_nb.notebook.page.protocol import CellContext, Hello
from jp_nb.record import merge
from jp_nb.record.clock import Clock, ReproducibleClock, utc_now
from jp_nb.record.document import (
    Document,
    NewerVersionError,
    count_entries,
    get_conversation_id,
    is_headless_conversation,
    split_damaged,
)
from jp_nb.record.stream import ConversationStream, Made
from jp_nb.session.host import OpenedConversation, RecordStore
from jp_nb.storage import environment

IN_RUN = "kept in the notebook that the runner writes, if it writes one"


class _PagelessStore:
    """Storage backend that receives nothing from a page."""

    def can_reload(self, timeout: float) -> bool:
        """Return False: no page has a newer record."""
        return False

    def saved_entries(self, conversation: str) -> int:
        """Return 0: no file is known to have an entry before this kernel ends."""
        return 0

    def take_notices(self) -> list[str]:
        """Return no notices."""
        return []


class MemoryStore(_PagelessStore):
    """Storage backend without a notebook, or with one that must not be written."""

    def __init__(self, reason: str) -> None:
        self.location = in_memory(reason)
        self.unsaved_reason: str | None = reason

    def changed(self) -> None:
        """Do nothing."""

    replaced = flush_after_cell = close = changed

    def flush(self, timeout: float) -> bool:
        """Return False: no notebook has the record."""
        return False

    def save(self, timeout: float = 10.0) -> str:
        """Raise `StorageError`, because there is no file to save."""
        raise not_saved(f"it is {self.location}")


CARRIER_CHUNK_BYTES = 32 * 1024
"""An append sends its whole chunk again, so chunks are small."""
BURST = 200
"""After this many messages in one cell, a ZeroMQ socket may have dropped some."""

SendState = Callable[[JsonObject], None]
OpenWidget = Callable[[JsonObject], SendState]
"""Opens a widget with a state, and returns a function that updates it."""

_WIDGET_NUMBERS = count()


def _open_widget(state: JsonObject, cell: CellContext, clock: Clock) -> SendState:
    """Open a widget as ipywidgets does, without importing it."""
    from comm import create_comm

    comm_id = None
    if isinstance(clock, ReproducibleClock):
        comm_id = clock.widget_id(next(_WIDGET_NUMBERS))

    comm = cell.run(
        create_comm,
        comm_id=comm_id,
        target_name="jupyter.widget",
        data={"state": state, "buffer_paths": []},
        metadata={"version": "2.1.0"},
    )

    def send(update: JsonObject) -> None:
        cell.run(comm.send, data={"method": "update", "state": update, "buffer_paths": []})

    return send


class CarrierStore(_PagelessStore):
    """Storage backend of headless runs: a widget state that the runner saves in the notebook.

    Each entry is sent at once, because the runner may end after any cell. Create it in the cell's
    thread. `seen` is `count_entries` of the record in the notebook file, whose path may be `named`.
    """

    unsaved_reason = None

    def __init__(
        self,
        document: Document,
        *,
        seen: Mapping[str, int] | None = None,
        named: bool = True,
        shell: Any = None,
        clock: Clock = utc_now,
        open_widget: OpenWidget | None = None,
    ) -> None:
        self.location = IN_NOTEBOOK if named else IN_RUN
        self._document = document
        self._seen = dict(seen or {})
        self._cell = CellContext(shell)
        self._open_widget = open_widget or partial(_open_widget, cell=self._cell, clock=clock)
        self._send: SendState | None = None
        self._lock = Lock()
        self._head = ""
        self._stored = 0
        self._chunks: list[list[JsonValue]] = []
        self._room = 0
        self._messages = 0
        self._first_chunk = 0  # first chunk that the running cell has changed

    def changed(self) -> None:
        """Send the appended entries, and the head if it changed."""
        with self._lock:
            update = self._append()
            if (head := self._head_text()) != self._head:
                self._head = head
                update["jp"] = self._without_events()
            self._publish(update)

    def replaced(self) -> None:
        """Send the whole document."""
        with self._lock:
            before = len(self._chunks)
            self._stored = 0
            self._room = 0
            self._chunks = []
            self._first_chunk = 0
            update = self._append()
            update["length"] = self._stored

            # Widget states are merged by key: chunks that are not overwritten would remain.
            update.update({f"events.{i}": [] for i in range(len(self._chunks), before)})
            self._chunks += [[] for _ in range(len(self._chunks), before)]
            self._head = self._head_text()
            update["jp"] = self._without_events()
            self._publish(update)

    def _append(self) -> JsonObject:
        update: JsonObject = {}
        raw = self._document.conversation.raw

        for entry in raw[self._stored :]:
            clean, size = make_storable_with_size(entry)
            if not self._chunks or size > self._room:
                self._chunks.append([])
                self._room = CARRIER_CHUNK_BYTES

            self._room -= size
            self._chunks[-1].append(clean)
            update[f"events.{len(self._chunks) - 1}"] = self._chunks[-1]
            self._stored += 1

        if update:
            update["length"] = self._stored

        return update

    def _publish(self, update: JsonObject) -> None:
        if not update:
            return

        self._messages += 1
        if self._send is not None:
            self._send(update)
            return

        state: JsonObject = {
            "_model_module": merge.CARRIER_MODULE,
            "_model_module_version": "1",
            "_model_name": merge.CARRIER_MODEL,
            "seen": dict(self._seen),
            "jp": self._without_events(),
        }
        self._send = self._open_widget(state | update)

    def _without_events(self) -> JsonObject:
        document = self._document.to_json()
        return {key: make_storable(item) for key, item in document.items() if key != "events"}

    def _head_text(self) -> str:
        document = self._document.to_json()
        return json.dumps({k: v for k, v in document.items() if k not in ("events", "others")})

    def flush(self, timeout: float) -> bool:
        """Return True if everything was sent. The runner sends no answer."""
        with self._lock:
            return self._stored == len(self._document.conversation)

    def flush_after_cell(self) -> None:
        """Repeat the chunks of the cell if it sent a burst of messages."""
        with self._lock:
            if self._messages > BURST:
                for number in range(self._first_chunk, len(self._chunks)):
                    self._publish({f"events.{number}": self._chunks[number]})
                self._publish({"jp": self._without_events(), "length": self._stored})
            self._messages = 0
            self._first_chunk = max(0, len(self._chunks) - 1)

    def save(self, timeout: float = 10.0) -> str:
        """Return that the runner writes the file at the end of the run."""
        return f"{self.location}, at the end of the run"

    def close(self) -> None:
        """Stop following the cells. The runner keeps the widget state."""
        self._cell.close()


VS_CODE_FILE: Final = "__vsc_ipynb_file__"
"""Variable in which VS Code passes the notebook's path to the kernel.

Source: https://github.com/microsoft/vscode-jupyter/pull/8531
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The kind of front end that a kernel runs in, and the reason why no notebook keeps the record.

    A page with the jp-nb extension keeps it, if it `may_have_page` and one answers.
    """

    name: str
    unsaved_reason: str
    may_have_page: bool = False


TERMINAL: Final = Surroundings("IPython in a terminal", "IPython in a terminal has no notebook")
COLAB: Final = Surroundings(
    "Google Colab",
    "Google Colab does not store conversations in notebooks, and it deletes this machine after "
    "the session (`%jp export DIR` saves a copy)",
)
VS_CODE: Final = Surroundings("VS Code", "VS Code does not store conversations in notebooks")
PLAIN_PAGE: Final = Surroundings("a page without the jp-nb extension", NO_PAGE, may_have_page=True)
CONSOLE: Final = Surroundings("a console or program", "a console or program has no notebook")


def find_surroundings(kernel: Any, user_ns: Mapping[str, Any]) -> Surroundings:
    """Return the kind of front end of `kernel`, which is None in a terminal.

    Call it on the cell's thread.
    """
    if kernel is None:
        return TERMINAL
    if "google.colab" in type(kernel).__module__:
        return COLAB
    if environment.PAGE_VARIABLE in os.environ:
        return PLAIN_PAGE
    if VS_CODE_FILE in user_ns or "VSCODE_PID" in os.environ:
        return VS_CODE if _has_cell_id(kernel) else CONSOLE

    return PLAIN_PAGE if _has_cell_id(kernel) else CONSOLE


def notebook_path(user_ns: Mapping[str, Any]) -> Path | None:
    """Return the path of the notebook from VS Code or the Jupyter server, if it is a file."""
    value = user_ns.get(VS_CODE_FILE) or os.environ.get(environment.PAGE_VARIABLE)
    path = Path(value) if isinstance(value, str) else None
    return path if path and path.is_absolute() and path.is_file() else None


def _has_cell_id(kernel: Any) -> bool:
    # Notebooks put the id of the running cell into the metadata of its request; consoles do not.
    parent = kernel.get_parent("shell") if hasattr(kernel, "get_parent") else {}
    metadata = parent.get("metadata") if isinstance(parent, Mapping) else None
    return isinstance(metadata, Mapping) and "cellId" in metadata


BaseConfig = Mapping[str, JsonValue] | None


class NoStorage:
    """Storage of IPython in a terminal, which has no notebook."""

    path = None
    headless = False

    def open(
        self, *, clock: Clock = utc_now, base_config: BaseConfig = None, continues: bool = False
    ) -> OpenedConversation:
        """Start a conversation in memory."""
        document = Document.new(clock=clock, made="live", base_config=base_config)
        store = MemoryStore(TERMINAL.unsaved_reason)
        return OpenedConversation(document, store, without_notebook=True)


class PageStorage:
    """A notebook in an open page; `hello` is None if no page answered, as in a console."""

    headless = False

    def __init__(self, path: Path | None, store: LiveStore, hello: Hello | None) -> None:
        self._path = path
        self._server_path = hello.path if hello is not None else ""
        self.store = store
        self.hello = hello

    @property
    def path(self) -> Path | None:
        """The notebook's file, if it is known. After a rename, it is the new file."""
        server_path = self.store.path
        if self._path is not None and server_path not in ("", self._server_path):
            before = PurePosixPath(self._server_path).parts
            after = PurePosixPath(server_path).parts
            if self._path.parts[-len(before) :] == before:
                found = Path(*self._path.parts[: -len(before)], *after)
                self._path = found if found.is_file() else self._path

            self._server_path = server_path

        return self._path

    def open(
        self, *, clock: Clock = utc_now, base_config: BaseConfig = None, continues: bool = False
    ) -> OpenedConversation:
        """Continue the page's conversation, or start one."""
        loaded = None
        notices = []
        if self.hello is not None and self.hello.has_document:
            try:
                loaded = Document.load(self.hello.document, clock=clock)
            except StorageError as exc:
                notices.append(str(exc))

        if loaded is not None and not len(loaded.conversation):
            # A conversation without entries does not keep its base configuration.
            loaded.conversation = ConversationStream.new(
                clock=clock, made="live", base_config=base_config, taken_ids=loaded.ids()
            )

        document = loaded or Document.new(clock=clock, made="live", base_config=base_config)
        self.store.attach(document)
        # The location may already contain the reason.
        notices = [text for text in notices if text not in self.store.location]
        restored = loaded is not None and len(loaded.conversation) > 0
        without_notebook = self.hello is None or is_text_notebook(self.hello)

        return OpenedConversation(
            document, self.store, restored, notices, without_notebook=without_notebook
        )


class HeadlessStorage:
    """A notebook that a runner executes; `path` is None if the runner does not say which."""

    headless = True

    def __init__(self, path: Path | None, shell: Any = None) -> None:
        self.path = path
        self.shell = shell

    def open(
        self, *, clock: Clock = utc_now, base_config: BaseConfig = None, continues: bool = False
    ) -> OpenedConversation:
        """Start a conversation, or continue the notebook's if `continues` or JP_NB_CONTINUE=1."""
        continues = continues or os.environ.get(environment.CONTINUE_VARIABLE) == "1"
        stored, damaged, notices = _read_record(self.path)
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
            damaged += split_damaged(stored)

        if continues and self.path is None:
            notices.append("No conversation is continued: the runner does not name the notebook.")

        if loaded is not None and continues and len(loaded.conversation):
            document = loaded
            document.others += damaged
        else:
            document = begin_headless(loaded, clock=clock, base_config=base_config)
            if store is None:
                document.others += damaged

        if store is None:
            seen = count_entries(stored)
            named = self.path is not None
            store = CarrierStore(document, seen=seen, named=named, shell=self.shell, clock=clock)

        restored = document is loaded and len(document.conversation) > 0
        return OpenedConversation(document, store, restored, notices)


def begin_headless(
    loaded: Document | None, *, clock: Clock = utc_now, base_config: BaseConfig = None
) -> Document:
    """Return a document with a new headless conversation.

    It replaces earlier headless conversations of `loaded`. All others are kept (D18).
    """
    made: Made = "headless"
    if loaded is None:
        return Document.new(clock=clock, made=made, base_config=base_config)

    used_ids = loaded.ids()
    if loaded.conversation.head.get("made") != made:
        loaded.archive_active()

    others = [other for other in loaded.others if not is_headless_conversation(other)]
    if isinstance(clock, ReproducibleClock):  # a repeated run reuses the id of the replaced one
        used_ids = set(map(get_conversation_id, others))

    extra = {key: item for key, item in loaded.extra.items() if key != "signature"}
    stream = ConversationStream.new(
        clock=clock, made=made, base_config=base_config, taken_ids=used_ids
    )
    return Document(stream, others, extra)


def _read_record(path: Path | None) -> tuple[JsonValue, list[JsonValue], list[str]]:
    """Return the `jp` object of the notebook at `path`, its damaged carriers, and notices."""
    if path is None:
        return None, [], []

    try:
        notebook = json.loads(read_regular(path, max_bytes=MAX_NOTEBOOK_BYTES))
    except (OSError, ValueError) as exc:
        return None, [], [f"{path.name} cannot be read: {exc}"]

    found = notebook.get("metadata") if isinstance(notebook, dict) else None
    metadata: JsonObject = found if isinstance(found, dict) else {}
    damaged = merge.find_unreadable_carriers(metadata)
    notices = []
    if damaged:
        notices.append("The notebook has a damaged copy of the record, which is kept unchanged.")

    return merge.read_carrier(metadata), damaged, notices


PAGE_TIMEOUT_S = 3.0
CONSOLE_TIMEOUT_S = 0.5
PAPERMILL_PATH = "PAPERMILL_INPUT_PATH"
"""Parameter that `papermill --inject-paths` sets in the notebook."""


def find_storage(
    shell: Any, *, timeout: float | None = None
) -> PageStorage | HeadlessStorage | NoStorage:
    """Find the notebook of the shell's kernel, and its storage. Call it in the cell's thread.

    This blocks for up to `timeout` seconds if no page answers.
    """
    kernel = getattr(shell, "kernel", None)
    user_ns = getattr(shell, "user_ns", {})
    if kernel is None:
        return NoStorage()
    if is_headless(kernel):
        return HeadlessStorage(find_executed_path(user_ns), shell)

    surroundings = find_surroundings(kernel, user_ns)
    if timeout is None:
        timeout = PAGE_TIMEOUT_S if surroundings.may_have_page else CONSOLE_TIMEOUT_S

    store = LiveStore(kernel, no_page=surroundings.unsaved_reason)
    hello = store.connect(timeout)
    path = notebook_path(user_ns) if hello is None else _path_in_page(hello)

    return PageStorage(path, store, hello)


def is_headless(kernel: Any) -> bool:
    """Return True if the running cell cannot prompt a user: its `allow_stdin` is false."""
    return not getattr(kernel, "_allow_stdin", False)


def _path_in_page(hello: Hello) -> Path | None:
    # Servers start a kernel in the folder of its notebook, and most set JPY_SESSION_NAME.
    if not hello.path:
        return None
    name = hello.path.rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    session = Path(os.environ.get("JPY_SESSION_NAME", ""))
    named = [path for path in (session, Path.cwd() / name) if path.name == name]
    return next((path for path in named if path.is_absolute() and path.is_file()), None)


def find_executed_path(user_ns: Mapping[str, Any] | None = None) -> Path | None:
    """Return the notebook that a headless runner executes, if it can be found."""
    injected = (user_ns or {}).get(PAPERMILL_PATH)
    explicit = os.environ.get(environment.PATH_VARIABLE)
    if not explicit and isinstance(injected, str):
        explicit = injected
    arguments, folder = _parent_process()
    if explicit:
        found = folder / explicit
        return found.resolve() if found.is_file() else None

    return notebook_in_arguments(arguments, folder)


def _parent_process() -> tuple[Sequence[str], Path]:
    """Return the arguments and working directory of the process that started this kernel."""
    try:
        import psutil  # a dependency of ipykernel

        parent = psutil.Process(os.getppid())
        return parent.cmdline(), Path(parent.cwd())
    except Exception:  # missing, or one of many errors of the operating system
        return [], Path.cwd()


def notebook_in_arguments(arguments: Sequence[str], folder: Path) -> Path | None:
    """Return the notebook in a runner's command line; None if there are none or several.

    papermill's first notebook is its input. `jupyter execute` accepts a name without the suffix.
    """
    names = [
        argument
        for previous, argument in zip(["", *arguments], arguments, strict=False)
        if not argument.startswith("-") and previous not in ("--output", "-o", "--output-dir")
    ]
    programs = {Path(name).name for name in arguments[:3]}
    found = [folder / name for name in names if name.endswith(".ipynb")]
    if not found and "execute" in " ".join(programs):
        found = [(folder / name).with_suffix(".ipynb") for name in names[1:]]

    found = list(dict.fromkeys(path.resolve() for path in found if path.is_file()))
    if len(found) == 1 or (found and "papermill" in " ".join(programs)):
        return found[0]

    return None
