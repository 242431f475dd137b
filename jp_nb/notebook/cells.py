"""Executed cells, errors of cells, collaborators, and the busy status while a cell runs.

`%load_ext` loads this module, so it imports little.

Source: `docs/protocol.md`, `docs/prompts.md`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Final

from jp_nb.errors import JpNbError, UsageError
from jp_nb.notebook.cell_outputs import Bundle, CellOutputs
from jp_nb.notebook.published import OUTPUT_CHANGES, Published
from jp_nb.session.host import LastError
from jp_nb.text import MAX_USER_NAME_CHARS, one_line, spell_invisible

if TYPE_CHECKING:
    from jp_nb.rendering.status import TurnCounts
    from jp_nb.toolkit.base import CellState, NotebookCell


class ExecutedCells:
    """Source and state of each executed cell. Cells before `%load_ext` come from IPython.

    IPython's history omits cells that a runner executes with `store_history=False`.
    """

    def __init__(self, shell: Any) -> None:
        history = getattr(shell, "history_manager", None)
        earlier = enumerate(history.input_hist_raw) if history is not None else ()
        # IPython counts cells from 1; entry 0 is empty.
        self._cells: list[tuple[str, int | None, CellState]] = [
            (source, count, "ran") for count, source in earlier if count and source
        ]
        # The cell with `%load_ext` started before its `pre_run_cell` could be observed.
        kernel: Any = getattr(shell, "kernel", None)
        request: Mapping[str, Any] = {}
        if hasattr(kernel, "get_parent"):
            request = kernel.get_parent("shell") or {}
        content = request.get("content", {})
        if not content.get("code") or content.get("silent"):
            return

        if not content.get("store_history", True):
            self._cells.append((content["code"], None, "running"))
        elif self._cells:
            source, count, _ = self._cells[-1]
            self._cells[-1] = source, count, "running"

    def on_cell_start(self, info: Any) -> None:
        """Add a cell. This is a callback for `pre_run_cell`."""
        if info.raw_cell and not info.silent:
            self._cells.append((info.raw_cell, None, "running"))

    def on_cell_end(self, result: Any) -> None:
        """Set the state of the last cell. This is a callback for `post_run_cell`."""
        if self._cells and self._cells[-1][2] == "running":
            state: CellState = "done" if result.success else "failed"
            count = result.execution_count if result.info.store_history else None
            self._cells[-1] = self._cells[-1][0], count, state

    def __iter__(self) -> Iterator[NotebookCell]:
        """Yield the cells, the running one last."""
        from jp_nb.toolkit.base import NotebookCell

        for number, (source, count, state) in enumerate(self._cells):
            yield NotebookCell(number, source, execution_count=count, state=state)


CODE_FILE = "<code "  # prefix of the file names of code that a model ran


class LastErrors:
    """The last error of a cell or a tool, but no interrupts, and no errors of jp_nb."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._error: Exception | None = None
        self._raw_cell: str | None = None
        self._jp_nb_error: JpNbError | None = None

    def on_cell_end(self, result: Any) -> None:
        """Record the error of a cell. This is a callback for `post_run_cell`."""
        error = getattr(result, "error_before_exec", None) or getattr(result, "error_in_exec", None)
        raw_cell = getattr(getattr(result, "info", None), "raw_cell", None)
        if not isinstance(raw_cell, str):
            raw_cell = None
        self.record(error, raw_cell)

    def record(self, error: BaseException | None, raw_cell: str | None = None) -> None:
        """Record `error` of a tool, or of the cell with the source `raw_cell`."""
        if isinstance(error, JpNbError):
            self._jp_nb_error = error
        elif isinstance(error, Exception):
            self._error = error
            self._raw_cell = raw_cell

    def read(self) -> LastError:
        """Return the last error.

        Raises:
            UsageError: There is none.
        """
        error = self._error
        if error is None:  # a cell may have failed before the extension was loaded
            error = getattr(sys, "last_value", None)

        if isinstance(error, Exception) and not isinstance(error, JpNbError):
            return LastError(error, self._find_cell_label, self._raw_cell)
        if (ours := self._jp_nb_error) is None:
            message = "There is no error to explain: no cell of this kernel has failed yet."
            raise UsageError(message)

        raise UsageError(
            "There is nothing to explain: the last error came from jp_nb itself. "
            f"{type(ours).__name__}: {one_line(str(ours))}"
        )

    def _find_cell_label(self, filename: str) -> str | None:
        """Return IPython's label of the cell with this file name, such as `Cell In[3]`."""
        if filename.startswith(CODE_FILE):
            return "Code that the model ran"
        format_name = getattr(self._shell.compile, "format_code_name", None)
        label = format_name(filename) if format_name is not None else None
        return " ".join(label) if label else None


MAX_ENDED: Final = 32
"""Limit of ended cells whose outputs no page has shown; the oldest is removed."""
MAX_SESSIONS: Final = 64
"""Limit of known pages. Each reload of a page counts; the oldest is removed."""
_KERNEL_ATTRIBUTE: Final = "_jp_nb_collaborators"

ShowEnd = Callable[[Mapping[str, Any], "TurnCounts"], None]


class Collaborators:
    """The user names of a kernel's pages, by the session in the header of their messages.

    A page can claim any name, so no permission depends on it. Thread-safe.

    Attributes:
        has_page: True after a page sent `hello` or showed a form.
        find_input: Returns True if a page can show an input box for this request, and None if no
            page can tell. The storage backend of an open notebook sets it.
        show_end: Shows the end of a turn below the cell of this request, in a page that can do so.
            The storage backend of an open notebook sets it.
    """

    def __init__(self) -> None:
        self.has_page = False
        self.find_input: Callable[[Mapping[str, Any]], bool | None] = lambda request: None
        self.show_end: ShowEnd = lambda request, end: None
        self._lock = Lock()  # `hello` arrives in the control thread
        self._names: dict[str, str] = {}

    @classmethod
    def of(cls, kernel: Any) -> Collaborators:
        """Return the collaborators of `kernel`."""
        collaborators = getattr(kernel, _KERNEL_ATTRIBUTE, None)
        if not isinstance(collaborators, cls):
            collaborators = cls()
            setattr(kernel, _KERNEL_ATTRIBUTE, collaborators)
        return collaborators

    def add_page(self, session: str, name: str | None) -> None:
        """Add a page that sent `hello`, with the name of its user, if the page has one."""
        self.has_page = True
        with self._lock:
            self._names.pop(session, None)
            if session and name is not None:
                self._names[session] = name
                while len(self._names) > MAX_SESSIONS:
                    del self._names[next(iter(self._names))]

    def sender_of(self, message: Mapping[str, Any]) -> str | None:
        """Return the name of the user whose page sent `message`, if it is known."""
        session = (message.get("header") or {}).get("session")
        with self._lock:
            return self._names.get(session) if isinstance(session, str) else None


def read_name(value: Any) -> str | None:
    """Return a user name from a page, bounded and escaped; None if it is empty."""
    text = value[: 4 * MAX_USER_NAME_CHARS].strip() if isinstance(value, str) else ""
    return spell_invisible(text[:MAX_USER_NAME_CHARS])[: 2 * MAX_USER_NAME_CHARS] or None


@dataclass(slots=True)
class RunningCell:
    """A running cell, and its outputs so far."""

    request: Mapping[str, Any]
    outputs: CellOutputs = field(default_factory=CellOutputs)

    @property
    def session(self) -> str:
        """The session of the page that runs the cell."""
        return str(self.request["header"].get("session", ""))

    @property
    def cell_id(self) -> str:
        """The id of the cell in the notebook. Cells of consoles have none."""
        cell_id = (self.request.get("metadata") or {}).get("cellId", "")
        return cell_id if isinstance(cell_id, str) else ""

    @property
    def code(self) -> str:
        """The source that runs."""
        return str((self.request.get("content") or {}).get("code", ""))


class RunningCells:
    """Publishes the kernel's status, and keeps the running cells and their outputs. Thread-safe.

    It replaces the kernel's `_publish_status`. A page shows the newest status, whichever request it
    belongs to. So if another request ends while a cell runs, the kernel must stay busy.

    It also replaces `send` of the kernel's session, through which all outputs leave the kernel.

    Attributes:
        send: The method of the session that it replaces.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._publish: Callable[..., None] = kernel._publish_status
        self._lock = RLock()  # two requests may end at the same time
        self._cells: dict[str, RunningCell] = {}
        self._unseen: dict[str, RunningCell] = {}  # ended, and not shown by a page
        self._process = os.getpid()
        self._add(kernel.get_parent("shell"))

        session = getattr(kernel, "session", None)
        self.send: Callable[..., Any] | None = getattr(session, "send", None)
        if session is not None and self.send is not None:
            session.send = self.record_and_send

    @classmethod
    def of(cls, kernel: Any) -> RunningCells | None:
        """Return the publisher of `kernel`; None if it is not ipykernel's.

        The first call, in a running cell, installs it.
        """
        publish = getattr(kernel, "_publish_status", None)
        if isinstance(publish, cls):
            return publish
        if publish is None or not hasattr(kernel, "get_parent"):
            return None

        installed = kernel._publish_status = cls(kernel)
        return installed

    def __call__(self, status: str, channel: str, parent: Any = None) -> None:
        """Publish `status` for the request `parent`, and `busy` again if other cells still run."""
        request = parent or self._kernel.get_parent(channel) or {}
        with self._lock:
            if status == "busy":
                self._add(request)
            elif status == "idle":
                self._end(message_id(request))

            if status != "idle" or not self._cells or not message_id(request):
                return self._publish(status, channel, parent)

            # JupyterLab 4.3 and later ignore the status after some types of requests
            # (`untracked_message_types`), but still end the request by its id.
            header = {**request["header"], "msg_type": "kernel_info_request"}
            self._publish(status, channel, {**request, "header": header})
            # Other pages and servers use every status.
            self._publish("busy", "shell", next(reversed(self._cells.values())).request)

    def set_output(
        self,
        request: Mapping[str, Any],
        display_id: str,
        data: Bundle,
        metadata: Bundle,
        *,
        update: bool = False,
    ) -> None:
        """Set the output `display_id` of the cell that `request` runs, as jp_nb displays it."""
        cell = self._cells.get(message_id(request))
        if cell is not None:
            with cell.outputs.lock:
                cell.outputs.set_own(display_id, data, metadata, update=update)

    @contextmanager
    def recording(self, published: Published) -> Iterator[None]:
        """Add an output to its cell if that runs. Send the message inside of the block.

        Nothing else is sent to a page inside of the block, so that a page gets each output either
        with the outputs that the cell has, or as a message that follows them.
        """
        cell = None
        # Another thread may have held the lock when this process was forked.
        is_forked = os.getpid() != self._process
        if published.kind in OUTPUT_CHANGES and not is_forked:
            cell = self._cells.get(str(published.parent.get("msg_id", "")))

        if cell is None:
            yield
            return

        with cell.outputs.lock:
            cell.outputs.add_published(published)
            yield

    def record_and_send(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a message as `Session.send` does, and add an output to its cell."""
        assert self.send is not None
        with self.recording(Published.read(message, *args, **kwargs)):
            return self.send(stream, message, *args, **kwargs)

    def for_each_cell(self, send: Callable[[RunningCell], None], request: str = "") -> None:
        """Call `send` for each running notebook cell with own outputs. None ends during the call.

        With the id of a `request`, do so only for its cell.
        """
        with self._lock:
            for name, cell in self._cells.items():
                if cell.cell_id and cell.outputs.has_own and request in ("", name):
                    send(cell)

    def for_each_unseen(self, send: Callable[[RunningCell], None]) -> None:
        """Call `send` for each cell that has ended while no page showed its outputs."""
        with self._lock:
            for cell in self._unseen.values():
                send(cell)

    def note_seen(self, request: str) -> None:
        """Note that a page shows the final outputs of the cell that `request` ran."""
        with self._lock:
            self._unseen.pop(request, None)

    def cell_ids(self) -> frozenset[str]:
        """Return the ids of the running cells."""
        with self._lock:
            return frozenset(cell.cell_id for cell in self._cells.values()) - {""}

    def _add(self, request: Any) -> None:
        name = message_id(request)
        if name and request["header"].get("msg_type") == "execute_request":
            self._cells.setdefault(name, RunningCell(request))

    def _end(self, request: str) -> None:
        ended = self._cells.pop(request, None)
        if ended is None or not ended.cell_id:
            return

        for earlier, cell in list(self._unseen.items()):
            if cell.cell_id == ended.cell_id:
                del self._unseen[earlier]  # the page shows the last run of a cell

        if ended.outputs.has_own:
            self._unseen[request] = ended

        while len(self._unseen) > MAX_ENDED:
            del self._unseen[next(iter(self._unseen))]


def message_id(request: Any) -> str:
    """Return the id of a Jupyter message; "" if it has none."""
    header = request.get("header") if isinstance(request, Mapping) else None
    return str(header.get("msg_id", "")) if isinstance(header, Mapping) else ""
