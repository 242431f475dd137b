"""Executed cells, errors of cells, collaborators, and the busy status while a cell runs.

The extension loads this module, so it imports little.

- **Executed cells**: IPython's history omits cells that a runner executes with
  `store_history=False`.
- **Collaborators**: a page of a shared document sends the name of its user and its session in
  `hello`. Every message has that session in its header, so each click, change and request has a
  name. A page can claim any name: nothing is permitted because of one.
- **Status**: a page shows the newest status of the kernel, for any request. Other requests end
  while a cell runs, each with `idle`. `RunningCells` wraps the kernel's publisher and publishes
  `busy` again. It also keeps the displays of the running cell, for a page that is reloaded before
  it is saved.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Final

from jp_nb.errors import JpNbError, UsageError
from jp_nb.text import MAX_NAME_CHARS, one_line, spell_unseen

if TYPE_CHECKING:
    from jp_nb.session.last_error import LastError
    from jp_nb.tools.notebook_access import CellState, NotebookCell


class ExecutedCells:
    """Keeps the source of each cell, and how it ended; of those before, what IPython kept.

    Args:
        shell: The IPython shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        history = getattr(shell, "history_manager", None)
        before = enumerate(history.input_hist_raw) if history is not None else ()
        # There is no cell with the number 0.
        self._ran: list[tuple[str, int | None, CellState]] = [
            (source, count, "ran") for count, source in before if count and source
        ]
        self._running_cell()

    def _running_cell(self) -> None:
        """Note the cell that runs now, if this is a kernel: it began before anybody looked."""
        kernel: Any = getattr(self._shell, "kernel", None)
        request = (kernel.get_parent("shell") if hasattr(kernel, "get_parent") else None) or {}
        asked = request.get("content", {})
        if not asked.get("code") or asked.get("silent"):
            return
        if not asked.get("store_history", True):
            self._ran.append((asked["code"], None, "running"))
        elif self._ran:
            source, count, _ = self._ran[-1]
            self._ran[-1] = source, count, "running"

    def cell_begins(self, info: Any) -> None:
        """Note that a cell runs."""
        if info.raw_cell and not info.silent:
            self._ran.append((info.raw_cell, None, "running"))

    def cell_ended(self, result: Any) -> None:
        """Note how the cell that ran last ended."""
        if self._ran and self._ran[-1][2] == "running":
            state: CellState = "done" if result.success else "failed"
            count = result.execution_count if result.info.store_history else None
            self._ran[-1] = self._ran[-1][0], count, state

    def __iter__(self) -> Iterator[NotebookCell]:
        """Yield the cells, the running one last."""
        from jp_nb.tools.notebook_access import NotebookCell

        for number, (source, count, state) in enumerate(self._ran):
            yield NotebookCell(number, source, execution_count=count, state=state)


CODE_FILE = "<code "
"""Prefix of the file names of code that a model ran."""
CODE = "Code that the model ran"


@dataclass(frozen=True, slots=True)
class _Failed:
    """What left a cell, and the cell's source; IPython keeps the error alive, too."""

    error: Exception
    raw_cell: str | None = None


class LastErrors:
    """Knows with what the last cell failed that did; an interrupt is not an error.

    What jp_nb says itself is passed over: its message tells what to do.

    Args:
        shell: The IPython shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._failed: _Failed | None = None
        self._own: JpNbError | None = None

    def after_cell(self, result: Any) -> None:
        """Look at how a cell ended."""
        error = getattr(result, "error_before_exec", None) or getattr(result, "error_in_exec", None)
        raw_cell = getattr(getattr(result, "info", None), "raw_cell", None)
        self.keep(error, raw_cell if isinstance(raw_cell, str) else None)

    def keep(self, error: BaseException | None, raw_cell: str | None = None) -> None:
        """Take `error`, which came of a cell's code or of a tool's, for the last one."""
        if isinstance(error, JpNbError):
            self._own = error
        elif isinstance(error, Exception):
            self._failed = _Failed(error, raw_cell)

    def read(self) -> LastError:
        """Return the last error that is not jp_nb's own.

        Raises:
            UsageError: If there is none.
        """
        failed = self._failed or self._before_loading()
        if failed is None:
            raise UsageError(self._nothing())
        from jp_nb.session.last_error import read_error

        return read_error(failed.error, self._label_of, raw_cell=failed.raw_cell)

    def _before_loading(self) -> _Failed | None:
        """Return the error of a cell that was run before the extension was loaded."""
        error = getattr(sys, "last_value", None)
        if not isinstance(error, Exception) or isinstance(error, JpNbError):
            return None
        return _Failed(error)

    def _nothing(self) -> str:
        if self._own is None:
            return "There is no error to explain: no cell of this kernel has failed yet."
        said = f"{type(self._own).__name__}: {one_line(str(self._own))}"
        return f"There is nothing to explain: the last error came from jp_nb itself. {said}"

    def _label_of(self, filename: str) -> str | None:
        """Return what IPython calls the cell of a file name, such as `Cell In[3]`."""
        if filename.startswith(CODE_FILE):
            return CODE
        name_of = getattr(self._shell.compile, "format_code_name", None)
        found = name_of(filename) if name_of is not None else None
        return " ".join(found) if found else None


MAX_SESSIONS: Final = 64
"""Pages that are known, each reload of one counted: the oldest is forgotten."""


class Collaborators:
    """The names of a kernel's pages, by session. Safe from any thread.

    Attributes:
        has_page: True once a page said hello or showed a form: a front end that shows forms exists.
    """

    def __init__(self) -> None:
        self.has_page = False
        self._lock = Lock()  # hellos come in the control thread
        self._names: dict[str, str] = {}

    @classmethod
    def of(cls, kernel: Any) -> Collaborators:
        """Return those of `kernel`."""
        found = getattr(kernel, _KEPT, None)
        if not isinstance(found, cls):
            found = cls()
            setattr(kernel, _KEPT, found)
        return found

    def greet(self, session: str, name: str | None) -> None:
        """Note that a page said hello, and the user name of its `session`, if it has one."""
        self.has_page = True
        with self._lock:
            self._names.pop(session, None)
            if session and name is not None:
                self._names[session] = name
                while len(self._names) > MAX_SESSIONS:
                    del self._names[next(iter(self._names))]

    def sender_of(self, message: Mapping[str, Any]) -> str | None:
        """Return whose page sent `message`; None if none said."""
        session = (message.get("header") or {}).get("session")
        with self._lock:
            return self._names.get(session) if isinstance(session, str) else None


_KEPT: Final = "_jp_nb_people"


def read_name(value: Any) -> str | None:
    """Return the name that a page gave, in one line that hides nothing; None if it gave none."""
    text = value[: 4 * MAX_NAME_CHARS].strip() if isinstance(value, str) else ""
    return spell_unseen(text[:MAX_NAME_CHARS])[: 2 * MAX_NAME_CHARS] or None


Bundle = dict[str, Any]


@dataclass(slots=True)
class _Running:
    """A cell that runs: its request, and its outputs by display id."""

    request: Mapping[str, Any]
    outputs: dict[str, tuple[Bundle, Bundle]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CellOutputs:
    """The outputs of a running cell that our code shows.

    Attributes:
        request: The id of the request that runs the cell.
        session: Of the page that sent it.
        cell: The cell's id in the notebook.
        code: Its source as it was run.
        outputs: Display id, data and metadata of each output, in order.
    """

    request: str
    session: str
    cell: str
    code: str
    outputs: tuple[tuple[str, Bundle, Bundle], ...]


class RunningCells:
    """Keeps a kernel's status true, and what its running cells show. Safe from any thread."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._publish: Callable[..., None] = kernel._publish_status
        self._lock = RLock()  # or a cell's end and another request's would cross
        self._cells: dict[str, _Running] = {}
        self._begins(kernel.get_parent("shell"))

    @classmethod
    def of(cls, kernel: Any) -> RunningCells | None:
        """Return that of `kernel`, put in place if it has none; None if it cannot have one.

        Call it in a cell first: that cell runs.
        """
        publish = getattr(kernel, "_publish_status", None)
        if isinstance(publish, cls):
            return publish
        if publish is None or not hasattr(kernel, "get_parent"):
            return None
        made = kernel._publish_status = cls(kernel)
        return made

    def __call__(self, status: str, channel: str, parent: Any = None) -> None:
        """Publish `status`, as the kernel's own method does."""
        about = parent or self._kernel.get_parent(channel) or {}
        with self._lock:
            if status == "busy":
                self._begins(about)
            elif status == "idle":
                self._cells.pop(_id(about), None)
            if status != "idle" or not self._cells or not _id(about):
                return self._publish(status, channel, parent)
            self._publish(status, channel, _untracked(about))
            # For pages and servers that follow what every request ends with.
            self._publish("busy", "shell", next(reversed(self._cells.values())).request)

    def shows(
        self, request: Mapping[str, Any], display_id: str, data: Bundle, metadata: Bundle
    ) -> None:
        """Note that the cell which was run by `request` shows `data` under `display_id` now."""
        with self._lock:
            if (running := self._cells.get(_id(request))) is not None:
                running.outputs[display_id] = (data, metadata)

    def for_each_output(self, show: Callable[[CellOutputs], None]) -> None:
        """Call `show` with what is shown in each running cell: none of them ends meanwhile."""
        with self._lock:
            for running in self._cells.values():
                shown = _shown(running)
                if shown.cell and shown.outputs:
                    show(shown)

    def cell_ids(self) -> frozenset[str]:
        """Return the ids of the cells that run now, as far as their pages name them."""
        with self._lock:
            return frozenset(name for x in self._cells.values() if (name := _shown(x).cell))

    def _begins(self, request: Any) -> None:
        if (name := _id(request)) and request["header"].get("msg_type") == "execute_request":
            self._cells.setdefault(name, _Running(request))


def _untracked(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return `request` as one that says nothing about the kernel: its `idle` ends it alone.

    A page finds what waits for this end by the request's id, and leaves its own status as it is
    after requests of some types (`untracked_message_types`, JupyterLab 4.3 and later).
    """
    return {**request, "header": {**request["header"], "msg_type": "kernel_info_request"}}


def _id(request: Any) -> str:
    header = request.get("header") if isinstance(request, Mapping) else None
    return str(header.get("msg_id", "")) if isinstance(header, Mapping) else ""


def _shown(running: _Running) -> CellOutputs:
    cell = (running.request.get("metadata") or {}).get("cellId", "")
    code = (running.request.get("content") or {}).get("code", "")
    outputs = tuple((name, *output) for name, output in running.outputs.items())
    name = cell if isinstance(cell, str) else ""
    session = str(running.request["header"].get("session", ""))
    return CellOutputs(_id(running.request), session, name, str(code), outputs)
