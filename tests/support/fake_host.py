"""A `Host` without Jupyter: a notebook in memory, and a user with prepared answers.

It only needs `jp_nb/session/`, as any other front end would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.notebook_record import open_document
from tests.support.fakes import FakePrompter


class FakeStore:
    """Keeps the entries of the active conversation, as a notebook would."""

    location = "kept in a test"
    unsaved_reason: str | None = None

    def __init__(self, document: Any) -> None:
        self._document = document
        self.entries: list[dict[str, Any]] = []
        self.saved: dict[str, int] = {}

    def changed(self) -> None:
        self.entries += self._document.conversation.raw[len(self.entries) :]

    def replaced(self) -> None:
        self.entries = list(self._document.conversation.raw)

    def flush(self, timeout: float) -> bool:
        return True

    def flush_after_cell(self) -> None:
        return None

    def can_reload(self, timeout: float) -> bool:
        return False

    def save(self, timeout: float = 10.0) -> str:
        return self.location

    def count_saved_entries(self, conversation: str) -> int:
        return self.saved.get(conversation, 0)

    def take_notices(self) -> list[str]:
        return []

    def close(self) -> None:
        return None


@dataclass
class FakeHome:
    """A notebook in the folder of `path`, with the `jp` object `stored`."""

    path: Path | None = None
    headless: bool = False
    stored: JsonValue = None

    def open(
        self, *, clock: Any, base_config: Mapping[str, JsonValue], continues: bool = False
    ) -> Any:
        is_stored = self.stored is not None
        options = {} if is_stored else {"base_config": base_config}
        document = open_document(self.stored, clock=clock, **options)
        return make("opened_conversation", document, FakeStore(document), is_stored)


@dataclass
class FakeOutput:
    """Collects the display events of a turn."""

    events: list[Any] = field(default_factory=list)
    has_begun: bool = False
    done: bool = False

    def begin(self) -> None:
        assert self.has_begun or not self.events
        self.has_begun = True

    def __call__(self, event: Any) -> None:
        self.events.append(event)

    def finish(self) -> None:
        self.done = True


class FakeFrontEnd:
    """A front end with `prompter` as its user.

    Attributes:
        outputs: The output of each turn.
    """

    def __init__(self, prompter: FakePrompter) -> None:
        self.prompter = prompter
        self.outputs: list[FakeOutput] = []

    def find_unavailable_reason(self, config: Any) -> str | None:
        return self.prompter.away

    def begin_turn(self, config: Any) -> FakeOutput:
        self.outputs.append(FakeOutput())
        return self.outputs[-1]

    def begin_question(self, config: Any) -> None:
        return None

    def end(self) -> None:
        return None

    def cell_interrupted(self) -> None:
        self.prompter.away = "no cell is running"


@dataclass
class FakeNotebook:
    """A notebook with the cells `listed`. Code runs in `namespace` without output.

    `edited` is a document that can be edited; None: nothing can be edited.
    `offered` are the new cells that were given to the user.
    """

    namespace: dict[str, Any]
    listed: tuple[Any, ...] = ()
    edited: Any = None
    offered: list[Any] = field(default_factory=list)

    async def cells(self, whole: int | str | None = None) -> Any:
        return make("notebook_cells", self.listed, "kernel")

    @property
    def is_shared(self) -> bool:
        return self.edited is not None and self.edited.is_shared

    async def document(self) -> Any:
        if self.edited is None:
            raise jp.ToolError("Nothing can be edited here.")
        return self.edited.document()

    async def change(self, change: Any) -> Any:
        return self.edited.change(change)

    def offer(self, sources: Any) -> None:
        self.offered += sources

    def run_cell(self, cell_id: str, source: str) -> Any:
        return self.execute(source)

    def execute(self, code: str) -> Any:
        exec(code, self.namespace)
        return make("code_run")


class FakeHost:
    """Runs cells one after the other, with `prompter` as the user.

    Attributes:
        person: The front end, with its outputs and prompts.
        cell: The running cell.
        errors: The errors that ended a cell.
        shown: Texts that were displayed outside of turns.
        kept: The errors that tools raised.
        failed: The last error that is not from `jp_nb`.
        edited: The cells that tools can edit; None: they can edit nothing.
    """

    def __init__(self, prompter: FakePrompter | None = None, home: FakeHome | None = None) -> None:
        self.namespace: dict[str, Any] = {}
        self.home = home or FakeHome()
        self.person = FakeFrontEnd(prompter or FakePrompter(away="this is a test"))
        self.cell = make("cell_run")
        self.errors: list[BaseException] = []
        self.shown: list[str] = []
        self.kept: list[BaseException] = []
        self.failed: Any | None = None
        self.edited: Any | None = None

    def find_notebook(self) -> FakeHome:
        return self.home

    def start_cell(self, cell_id: str | None, execution: str | None = None) -> None:
        """Let the next turns belong to this run of a cell."""
        self.cell = make("cell_run", cell_id, execution)

    def get_cell_run(self) -> Any:
        return self.cell

    def make_front_end(
        self, cell: Any, run_in_agent_loop: Callable[[Callable[[], None]], None]
    ) -> FakeFrontEnd:
        return self.person

    def make_notebook_access(self, store: Any) -> FakeNotebook:
        return FakeNotebook(self.namespace, edited=self.edited)

    def show(self, bundle: Mapping[str, str]) -> None:
        self.shown.append(bundle["text/plain"])

    def make_row_progress(self) -> Any:
        from jp_nb.session.rows.progress_display import PlainProgress

        return PlainProgress()

    def keep_error(self, error: BaseException) -> None:
        self.kept.append(error)

    def find_last_error(self) -> Any:
        if self.failed is None:
            raise jp.UsageError("no cell has failed")
        return self.failed

    def show_in_one_line(self, error: BaseException) -> None:
        self.errors.append(error)
