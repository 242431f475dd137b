"""The homes that a record can have, and how its conversation is restored or begun in each.

Source: `docs/protocol.md`, `docs/decisions.md` D18 and D33.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.notebook.document.carrier_store import CarrierStore
from jp_nb.notebook.document.live import LiveStore
from jp_nb.notebook.document.places import TERMINAL
from jp_nb.notebook.document.stores import MemoryStore
from jp_nb.notebook.document.wire import Hello
from jp_nb.record import carrier
from jp_nb.record.by_position import PositionClock
from jp_nb.record.document import Document, NewerVersionError
from jp_nb.record.jp_object import apart, conversation_id, entry_counts, made_headless
from jp_nb.record.stream import ConversationStream, Made
from jp_nb.record.timestamps import Clock, utc_now
from jp_nb.session.host import Opened, RecordStore
from jp_nb.workspace import variables

BaseConfig = Mapping[str, JsonValue]


class NoHome:
    """No kernel, so no notebook."""

    path = None
    headless = False

    def open(
        self, *, clock: Clock = utc_now, base_config: BaseConfig | None = None, go_on: bool = False
    ) -> Opened:
        """Begin a conversation."""
        document = Document.new(clock=clock, made="live", base_config=base_config)
        return Opened(document, MemoryStore(TERMINAL.why_not), by_folder=True)


class PageHome:
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


class HeadlessHome:
    """A notebook that a runner executes; `path` is None if the runner does not say which."""

    headless = True

    def __init__(self, path: Path | None, shell: Any = None) -> None:
        self.path = path
        self.shell = shell

    def open(
        self, *, clock: Clock = utc_now, base_config: BaseConfig | None = None, go_on: bool = False
    ) -> Opened:
        """Begin a conversation, or go on with the notebook's if `go_on` or the runner says so."""
        go_on = go_on or os.environ.get(variables.CONTINUE) == "1"
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
    damaged = carrier.unreadable(metadata)
    notices = (
        ["The notebook has a damaged copy of the record, which is kept unchanged."]
        if damaged
        else []
    )
    return carrier.read(metadata), damaged, notices


def _metadata(path: Path) -> JsonObject:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    found = notebook.get("metadata") if isinstance(notebook, dict) else None
    return found if isinstance(found, dict) else {}
