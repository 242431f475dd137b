"""The surroundings that a session needs: a notebook's home, the running cell, a person, a display.

A `Host` is given to a `Session` when it is made. `jp_nb.notebook.host` is the one for
IPython; a test, or another front end, has one of its own.

Source: `docs/architecture.md`, `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from jp_nb.record.events import BY

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from jp_nb.agent.display import DisplayEvent
    from jp_nb.agent.prompts import (
        FormPrompt,
        FormPromptEnd,
        Prompt,
        PromptEnd,
        Prompter,
    )
    from jp_nb.config.tree.app import AppConfig
    from jp_nb.record.clock import Clock
    from jp_nb.record.document import Document
    from jp_nb.session.cell_loop import CellLoop
    from jp_nb.session.last_error import LastError
    from jp_nb.tools.notebook_access import NotebookAccess


@dataclass(frozen=True, slots=True)
class CellRun:
    """One run of a cell, as far as the front end names it.

    Attributes:
        cell_id: The cell's id in the notebook.
        execution: The id of this run; None where no page runs cells.
        collaborator: Who runs it, where several people share the notebook: as a page claims.
    """

    cell_id: str | None = None
    execution: str | None = None
    collaborator: str | None = None

    def metadata(self) -> dict[str, JsonValue]:
        """Return what the record keeps of it beside a request."""
        known = {"cell_id": self.cell_id, BY: self.collaborator}
        return {key: said for key, said in known.items() if said}


class RecordStore(Protocol):
    """Keeps the record. Safe from any thread.

    `changed` and `replaced` return at once; the store decides how entries reach their home.
    """

    def changed(self) -> None:
        """Take what was appended to the active conversation."""
        ...

    def replaced(self) -> None:
        """Take the whole of the active conversation: it is another one, or was repaired."""
        ...

    @property
    def location(self) -> str:
        """The place of the record: `kept in this notebook` or `kept in memory only: …`."""
        ...

    @property
    def unsaved_reason(self) -> str | None:
        """Why no notebook keeps the record; None if one does."""
        ...

    def flush(self, timeout: float) -> bool:
        """Wait until the home has every entry; return whether it has them."""
        ...

    def flush_after_cell(self) -> None:
        """Wait a moment for the home, if one answers: who saves now, saves all of the cell."""
        ...

    def can_reload(self, timeout: float) -> bool:
        """Return whether a page answers with what it holds now, once it has every entry."""
        ...

    def save(self, timeout: float = 10.0) -> str:
        """Have the file written now; return in words where the record is.

        Raises:
            StorageError: If that failed; the message says why.
        """
        ...

    def saved_entries(self, conversation: str) -> int:
        """Return how many entries of `conversation` the notebook's file is known to hold."""
        ...

    def take_notices(self) -> list[str]:
        """Return what the person should be told since the last call."""
        ...

    def close(self) -> None:
        """Stop. What was not sent stays in memory."""
        ...


@dataclass(frozen=True, slots=True)
class OpenedConversation:
    """A conversation to go on with, and the store that keeps it.

    Attributes:
        restored: Whether the conversation was in the notebook before.
        notices: What the person should be told once.
        without_notebook: True if no notebook keeps the record: its journal is found by the folder.
    """

    document: Document
    store: RecordStore
    restored: bool = False
    notices: list[str] = field(default_factory=list)
    without_notebook: bool = False


class NotebookStorage(Protocol):
    """The notebook around a session, or the lack of one."""

    @property
    def path(self) -> Path | None:
        """The notebook's file, if it is known."""
        ...

    @property
    def headless(self) -> bool:
        """True if a runner executes the notebook and nobody is there."""
        ...

    def open(
        self, *, clock: Clock, base_config: Mapping[str, JsonValue], continues: bool = False
    ) -> OpenedConversation:
        """Load the notebook's conversation or begin one.

        A headless run begins a new one, unless `continues` (`record.headless = "continue"`) or the
        runner asks for the stored one (D18).
        """
        ...


class TurnOutput(Protocol):
    """The display of a turn in its cell; calling it takes an event."""

    def begin(self) -> None:
        """Show that the turn runs; on the cell's thread."""
        ...

    def __call__(self, event: DisplayEvent) -> None:
        """Show `event`; never blocks."""
        ...

    def finish(self) -> None:
        """Show the rest, as it will stay; on the cell's thread."""
        ...


class FrontEnd(Protocol):
    """The person's side of the cells: what they see, and how they are asked."""

    @property
    def prompter(self) -> Prompter:
        """The port through which the agent asks."""
        ...

    def unavailable_reason(self, config: AppConfig) -> str | None:
        """Return why nobody can be asked in the running cell; None if somebody may be there."""
        ...

    def begin_turn(self, config: AppConfig) -> TurnOutput:
        """Return what shows a turn in the running cell; prompts are put there from now on."""
        ...

    def begin_question(self, config: AppConfig) -> None:
        """Have prompts of ordinary code put in outputs of their own in the running cell."""
        ...

    def ask_form_in_cell(self, prompt: FormPrompt, *, keeps_record: bool) -> FormPromptEnd:
        """Put `prompt` to the person as `ask_here` does."""
        ...

    def ask_in_cell(self, prompt: Prompt, *, keeps_record: bool) -> PromptEnd:
        """Put `prompt` to the person and wait, on the cell's thread.

        Where the form was, a record of the answer stays if `keeps_record`.

        Raises:
            KeyboardInterrupt: If the kernel was interrupted; every prompt has ended by then.
        """
        ...

    def end(self) -> None:
        """Take away whatever is still open: no prompt outlives its cell."""
        ...


class Host(Protocol):
    """Where a session runs."""

    @property
    def namespace(self) -> dict[str, Any]:
        """The user's variables, by name."""
        ...

    def find_notebook(self) -> NotebookStorage:
        """Find out which notebook this is and who keeps it; may wait for a page to answer."""
        ...

    def cell_run(self) -> CellRun:
        """Return what names the running cell."""
        ...

    def front_end(
        self, cell: CellLoop, elsewhere: Callable[[Callable[[], None]], None]
    ) -> FrontEnd:
        """Make the person's side of the cells, at the first turn or question.

        Args:
            cell: What the cell's thread does while it waits.
            elsewhere: Has a job run on the agent's loop.
        """
        ...

    def notebook_access(self, store: RecordStore) -> NotebookAccess:
        """Return what tools may see of the notebook whose record `store` keeps."""
        ...

    def show(self, bundle: Mapping[str, str]) -> None:
        """Display a MIME `bundle` in the running cell."""
        ...

    def keep_error(self, error: BaseException) -> None:
        """Have a debugger open where a tool raised `error`, the last one; on the cell's thread."""
        ...

    def last_error(self) -> LastError:
        """Return the last error that left a cell of this kernel, as a model may be told of it.

        Raises:
            UsageError: If there is none; the message says what to do.
        """
        ...

    def show_in_one_line(self, error: BaseException) -> None:
        """Have `error`, which leaves the cell, shown without a traceback of our own."""
        ...
