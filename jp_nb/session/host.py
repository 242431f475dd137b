"""Ports of a session: the notebook, the storage backend, the front end, and the running cell.

A `Host` is given to a `Session`. `jp_nb.notebook.host` implements it for IPython.

Source: `docs/architecture.md`, `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from jp_nb.record.entries.events import BY

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from jp_nb.agent.display import DisplayEvent
    from jp_nb.agent.prompting.prompts import Prompter
    from jp_nb.config.tree.app import AppConfig
    from jp_nb.record.documents.document import Document
    from jp_nb.record.entries.clock import Clock
    from jp_nb.session.rows.progress_display import ProgressDisplay
    from jp_nb.session.threads.cell_loop import CellLoop
    from jp_nb.toolkit.notebook_access import NotebookAccess


@dataclass(frozen=True, slots=True)
class CellRun:
    """One run of a cell.

    Attributes:
        cell_id: Id of the cell in the notebook; None if it is unknown.
        execution: Id of the run, which is another one each time the cell runs; None without a page.
        collaborator: The user who runs it in a shared notebook, as claimed by a page.
    """

    cell_id: str | None = None
    execution: str | None = None
    collaborator: str | None = None

    def make_metadata(self) -> dict[str, JsonValue]:
        """Return the metadata that the record keeps with a request.

        `execution` is only compared with other runs in the same kernel, and not stored.
        """
        values = {"cell_id": self.cell_id, BY: self.collaborator}
        return {key: value for key, value in values.items() if value}


class RecordStore(Protocol):
    """Storage backend of the record. Safe from any thread.

    The active conversation calls `changed` or `replaced` after it has changed. Both return at once:
    the backend decides when it sends the entries.
    """

    def changed(self) -> None:
        """Store the entries that were appended to the active conversation."""

    def replaced(self) -> None:
        """Store the whole active conversation: it is another one, or was repaired."""

    @property
    def location(self) -> str:
        """The place of the record, such as `kept in this notebook`."""

    @property
    def unsaved_reason(self) -> str | None:
        """The reason that no notebook keeps the record; None if one does."""

    def flush(self, timeout: float) -> bool:
        """Wait until every entry is stored; return False after `timeout` seconds."""

    def flush_after_cell(self) -> None:
        """Wait briefly for the page, so that a save after the cell includes its entries."""

    def can_reload(self, timeout: float) -> bool:
        """Return True if a page has every entry and replies with its record."""

    def save(self, timeout: float = 10.0) -> str:
        """Save the notebook file now; return the place of the record in words.

        Raises:
            StorageError: The file was not saved; the message has the reason.
        """

    def count_saved_entries(self, conversation: str) -> int:
        """Return how many entries of `conversation` the notebook file is known to have."""

    def take_notices(self) -> list[str]:
        """Return the notices for the user since the last call."""

    def close(self) -> None:
        """Stop. Unsent entries stay in memory."""


@dataclass(frozen=True, slots=True)
class OpenedConversation:
    """A conversation to continue, and its storage backend.

    Attributes:
        document: All conversations of the notebook.
        store: The storage backend.
        restored: True if the notebook had the conversation.
        notices: Notices for the user.
        without_notebook: True if no notebook keeps the record.
    """

    document: Document
    store: RecordStore
    restored: bool = False
    notices: list[str] = field(default_factory=list)
    without_notebook: bool = False


class NotebookStorage(Protocol):
    """The notebook of a session, or its absence."""

    @property
    def path(self) -> Path | None:
        """The notebook file, if it is known."""

    @property
    def headless(self) -> bool:
        """True if a runner executes the notebook without a user."""

    def open(
        self, *, clock: Clock, base_config: Mapping[str, JsonValue], continues: bool = False
    ) -> OpenedConversation:
        """Load the notebook's conversation or begin one.

        A headless run begins a new one, unless `continues` (`record.headless = "continue"`) or the
        runner asks for the stored one (D18).
        """


@dataclass(frozen=True, slots=True)
class LastError:
    """The last exception of a cell or a tool.

    Attributes:
        error: The exception.
        label_of: Returns the label of the cell whose code has this file name; None for other files.
        raw_cell: The source of the cell as the user wrote it; None if it is not known.
        cell_id: The id of the cell in the notebook; None if it is not known.
    """

    error: BaseException
    label_of: Callable[[str], str | None]
    raw_cell: str | None = None
    cell_id: str | None = None


class TurnOutput(Protocol):
    """Display of a turn in its cell. Call it with a display event."""

    def begin(self) -> None:
        """Show that the turn runs; on the cell's thread.

        Called twice if the turn was shown early: when servers of its tools start, and when it
        begins.
        """

    def __call__(self, event: DisplayEvent) -> None:
        """Show `event`; never blocks."""

    def finish(self) -> None:
        """Show the final state; on the cell's thread."""


class FrontEnd(Protocol):
    """Output and prompts in the cells."""

    @property
    def prompter(self) -> Prompter:
        """The prompter of the agent, and of code in the cell."""

    def find_unavailable_reason(self, config: AppConfig) -> str | None:
        """Return why no user can answer in the running cell; None if one may be there."""

    def begin_turn(self, config: AppConfig) -> TurnOutput:
        """Return the display of a turn in the running cell; later prompts appear in that cell."""

    def begin_question(self, config: AppConfig) -> None:
        """Show later prompts of the user's code in their own outputs of the running cell."""

    def end(self) -> None:
        """Close open prompts: none outlives its cell."""

    def cell_interrupted(self) -> None:
        """Show no further prompt in the cell: it has ended, but another thread runs a turn."""


class Host(Protocol):
    """The environment of a session."""

    @property
    def namespace(self) -> dict[str, Any]:
        """The user's variables, by name."""

    def find_notebook(self) -> NotebookStorage:
        """Identify the notebook and its storage; may wait for a page to reply."""

    def get_cell_run(self) -> CellRun:
        """Return the run of the current cell."""

    def make_front_end(
        self, cell: CellLoop, run_in_agent_loop: Callable[[Callable[[], None]], None]
    ) -> FrontEnd:
        """Create the front end, at the first turn or question."""

    def make_notebook_access(self, store: RecordStore) -> NotebookAccess:
        """Return the access of tools to the notebook whose record is in `store`."""

    def show(self, bundle: Mapping[str, str]) -> None:
        """Display a MIME `bundle` in the running cell."""

    def make_row_progress(self) -> ProgressDisplay:
        """Return a display in the running cell for a table whose rows a model completes."""

    def keep_error(self, error: BaseException) -> None:
        """Let a debugger open at `error`, the last exception of a tool; on the cell's thread."""

    def find_last_error(self) -> LastError:
        """Return the last exception of a cell in this kernel.

        Raises:
            UsageError: There is none.
        """

    def show_in_one_line(self, error: BaseException) -> None:
        """Show `error` without jp_nb's traceback when it leaves the cell."""
