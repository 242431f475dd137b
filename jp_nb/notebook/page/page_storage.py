"""The notebook that an open page shows, as the storage backend of its record.

`PageStorage` implements `NotebookStorage` of `session/host.py`.

Source: `docs/protocol.md`, `docs/record.md`, `docs/decisions.md` D18 and D33.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from jp_nb.errors import StorageError
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.live_store import LiveStore
from jp_nb.notebook.page.notebook_path import find_notebook_path, find_path_in_page
from jp_nb.notebook.page.page_refusal import is_text_notebook
from jp_nb.notebook.page.surroundings import find_surroundings
from jp_nb.record.documents.document import Document
from jp_nb.record.entries.clock import Clock
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.stream import ConversationStream
from jp_nb.session.host import OpenedConversation

if TYPE_CHECKING:
    from jp_nb.notebook.page.headless_storage import StoredBase

PAGE_TIMEOUT_S = 3.0
"""Time that a page has to answer at `%load_ext`."""
CONSOLE_TIMEOUT_S = 0.5
"""The same time where there is probably no page."""


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
            # A conversation without entries does not keep its base configuration: a new one begins
            # with the present configuration.
            loaded.conversation = ConversationStream.new(
                clock=clock, made="live", base_config=base_config, taken_ids=loaded.ids()
            )

        document = loaded or Document.new(clock=clock, made="live", base_config=base_config)
        self.store.attach(document)
        # The user reads the location too, which may already contain the reason.
        notices = [text for text in notices if text not in self.store.location]
        restored = loaded is not None and len(loaded.conversation) > 0
        without_notebook = self.hello is None or is_text_notebook(self.hello)

        return OpenedConversation(
            document, self.store, restored, notices, without_notebook=without_notebook
        )


def connect_page_storage(
    kernel: Any, user_ns: dict[str, Any], *, timeout: float | None = None
) -> PageStorage:
    """Return the storage of the notebook whose page answers. Call it in the cell's thread.

    This blocks for up to `timeout` seconds if no page answers.
    """
    surroundings = find_surroundings(kernel, user_ns)
    if timeout is None:
        timeout = PAGE_TIMEOUT_S if surroundings.may_have_page else CONSOLE_TIMEOUT_S

    store = LiveStore(kernel, no_page=surroundings.unsaved_reason)
    hello = store.connect(timeout)
    path = find_notebook_path(user_ns) if hello is None else find_path_in_page(hello)

    return PageStorage(path, store, hello)
