"""Find the notebook at `%load_ext`, and open the storage backend for its record.

`find_storage` selects one of three classes: `PageStorage` if a page may show the notebook,
`HeadlessStorage` if a runner executes it, and `NoStorage` without a kernel. They implement
`NotebookStorage` of `session/host.py`.

Source: `docs/protocol.md`, `docs/record.md`, `docs/decisions.md` D18 and D33, `docs/guide.md`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.json_values import JsonObject, as_object
from jp_nb.notebook.page.carrier_store import CarrierStore
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.live_store import LiveStore
from jp_nb.notebook.page.notebook_path import (
    find_executed_path,
    find_notebook_path,
    find_path_in_page,
)
from jp_nb.notebook.page.page_refusal import is_text_notebook
from jp_nb.notebook.page.pageless_stores import MemoryStore
from jp_nb.notebook.page.surroundings import TERMINAL, find_surroundings, is_headless
from jp_nb.record.documents import carrier
from jp_nb.record.documents.document import (
    Document,
    NewerVersionError,
    count_entries,
    get_conversation_id,
    is_headless_conversation,
    split_damaged,
)
from jp_nb.record.entries.clock import Clock, ReproducibleClock, utc_now
from jp_nb.record.stream import ConversationStream, Made
from jp_nb.session.host import OpenedConversation, RecordStore
from jp_nb.storage import environment

StoredBase = Mapping[str, JsonValue] | None
"""The base configuration of a new conversation, as it is stored."""


class NoStorage:
    """Storage of IPython in a terminal, which has no notebook."""

    path = None
    headless = False

    def open(
        self, *, clock: Clock = utc_now, base_config: StoredBase = None, continues: bool = False
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
            # The end of the file's path is the path on the server. A rename in the page changes
            # only this part.
            old_parts = PurePosixPath(self._server_path).parts
            new_parts = PurePosixPath(server_path).parts
            if self._path.parts[-len(old_parts) :] == old_parts:
                renamed = Path(*self._path.parts[: -len(old_parts)], *new_parts)
                self._path = renamed if renamed.is_file() else self._path

            self._server_path = server_path

        return self._path

    def open(
        self, *, clock: Clock = utc_now, base_config: StoredBase = None, continues: bool = False
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
        self, *, clock: Clock = utc_now, base_config: StoredBase = None, continues: bool = False
    ) -> OpenedConversation:
        """Start a conversation, or continue the notebook's if `continues` or JP_NB_CONTINUE=1."""
        continues = continues or os.environ.get(environment.CONTINUE_VARIABLE) == "1"
        stored, damaged, notices = _read_record(self.path)
        loaded: Document | None = None
        refusal = ""  # the reason why the record of the notebook must not be replaced

        try:
            loaded = Document.load(stored, clock=clock) if stored is not None else None
        except NewerVersionError as exc:
            refusal = str(exc)
        except StorageError as exc:
            notices.append(
                f"The record is damaged ({exc}). It is kept, and a new conversation starts."
            )
            damaged += split_damaged(stored)

        if continues and self.path is None:
            notices.append("No conversation is continued: the runner does not name the notebook.")

        restored = loaded is not None and continues and len(loaded.conversation) > 0
        if loaded is not None and restored:
            document = loaded
        else:
            document = begin_headless(loaded, clock=clock, base_config=base_config)
        if not refusal:
            document.others += damaged

        store: RecordStore
        if refusal:
            store = MemoryStore(refusal)
        else:
            seen = count_entries(stored)
            named = self.path is not None
            store = CarrierStore(document, seen=seen, named=named, shell=self.shell, clock=clock)
        return OpenedConversation(document, store, restored, notices)


def begin_headless(
    loaded: Document | None, *, clock: Clock = utc_now, base_config: StoredBase = None
) -> Document:
    """Return a document with a new headless conversation.

    It replaces earlier headless conversations of `loaded`. All others are kept (D18).
    """
    made: Made = "headless"
    if loaded is None:
        return Document.new(clock=clock, made=made, base_config=base_config)

    used_ids = loaded.ids()
    if loaded.conversation.properties.get("made") != made:
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

    metadata: JsonObject = as_object(as_object(notebook).get("metadata"))
    damaged = carrier.find_unreadable_carriers(metadata)
    notices = []
    if damaged:
        notices.append("The notebook has a damaged copy of the record, which is kept unchanged.")

    return carrier.read_carrier(metadata), damaged, notices


PAGE_TIMEOUT_S = 3.0
CONSOLE_TIMEOUT_S = 0.5


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
    path = find_notebook_path(user_ns) if hello is None else find_path_in_page(hello)

    return PageStorage(path, store, hello)
