"""Find the notebook at `%load_ext`, and open the storage backend for its record.

`find_storage` selects one of three classes, which implement `NotebookStorage` of `session/host.py`:
`PageStorage` (`page_storage.py`) if a page may show the notebook, `HeadlessStorage`
(`headless_storage.py`) if a runner executes it, and `NoStorage` without a kernel.

Source: `docs/protocol.md`, `docs/record.md`, `docs/decisions.md` D18 and D33, `docs/guide.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jp_nb.notebook.page.pageless_stores import MemoryStore
from jp_nb.notebook.page.surroundings import TERMINAL, is_headless
from jp_nb.record.documents.document import Document
from jp_nb.record.entries.clock import Clock
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.session.host import OpenedConversation

if TYPE_CHECKING:
    from jp_nb.notebook.page.headless_storage import HeadlessStorage, StoredBase
    from jp_nb.notebook.page.page_storage import PageStorage


class NoStorage:
    """Storage of IPython in a terminal, which has no notebook."""

    path = None
    headless = False

    def open(
        self, *, clock: Clock = utc_now, base_config: StoredBase = None, continues: bool = False
    ) -> OpenedConversation:
        """Start a conversation in memory. There is none to continue, so `continues` is ignored."""
        document = Document.new(clock=clock, made="live", base_config=base_config)
        store = MemoryStore(TERMINAL.unsaved_reason)
        return OpenedConversation(document, store, without_notebook=True)


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
    # `%load_ext` waits for these imports, so each front end loads only what it needs.
    if is_headless(kernel):
        from jp_nb.notebook.page.headless_storage import HeadlessStorage
        from jp_nb.notebook.page.notebook_path import find_executed_path

        return HeadlessStorage(find_executed_path(user_ns), shell)

    from jp_nb.notebook.page.page_storage import connect_page_storage

    return connect_page_storage(kernel, user_ns, timeout=timeout)
