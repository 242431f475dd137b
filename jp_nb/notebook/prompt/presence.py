"""Availability of a user for a prompt, outputs that show forms, and the deadlines of prompts.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import sleep
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from jp_nb.agent.prompts import Unavailable
from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.cells import Collaborators
from jp_nb.notebook.display.turn_display import DisplayPublisher
from jp_nb.notebook.prompt.pump import missing_internals
from jp_nb.rendering.prompt_text import PromptSummary
from jp_nb.session.cell_loop import CellLoop, Timer

RENDERED_TIMEOUT_WITHOUT_CELL_ID = 1.5
"""Seconds that a front end without cell ids has to show a form. Consoles rarely show widgets."""


@dataclass(frozen=True, slots=True)
class FormRoute:
    """Show a form. If no page shows it within `patience` seconds, use `stdin`, if that is True.

    If it `stays`, use stdin only after an interrupt: a page is known, and an input box would take
    the focus from a user who types there.
    """

    patience: float
    stdin: bool
    stays: bool = False


@dataclass(frozen=True, slots=True)
class StdinRoute:
    """Ask with `input()`: in the front end, or in the terminal."""

    channel: Literal["stdin", "terminal"]


PromptRoute = FormRoute | StdinRoute | Unavailable


@dataclass(frozen=True, slots=True)
class Presence:
    """Facts about the kernel and the front end of the running cell.

    Attributes:
        kernel: Whether a kernel runs the code. Without one, only a terminal can ask the user.
        cell_runs: Whether the kernel runs a cell, not a callback of a comm.
        cell_id: Whether the front end sent the id of the cell, as notebooks do.
        no_forms: Reason why the kernel cannot receive clicks while a cell runs; None if it can.
        page: Whether a page of this kernel is known, because it sent `hello` or showed a form.
    """

    kernel: bool = False
    cell_runs: bool = True
    allow_stdin: bool = False
    cell_id: bool = False
    terminal: bool = False
    no_forms: str | None = None
    page: bool = False

    @classmethod
    def here(cls) -> Self:
        """Detect the facts from the request of the running cell. Call it on the cell's thread."""
        if (kernel := running_kernel()) is None:
            return cls(terminal=sys.stdin is not None and sys.stdin.isatty())

        request = kernel.get_parent("shell")
        content = request.get("content") or {}
        metadata = request.get("metadata") or {}

        return cls(
            kernel=True,
            cell_runs=(request.get("header") or {}).get("msg_type") == "execute_request",
            allow_stdin=bool(content.get("allow_stdin", False)),
            cell_id=bool(metadata.get("cellId")),
            no_forms=missing_internals(kernel),
            page=Collaborators.of(kernel).has_page,
        )

    @property
    def is_console(self) -> bool:
        """True for a front end without cells, which cannot update displays."""
        return self.kernel and self.cell_runs and self.allow_stdin and not self.cell_id

    def route(self, settings: PromptConfig) -> PromptRoute:
        """Return the way to ask the user, or the reason why no user can be asked."""
        if settings.channel == "never":
            return Unavailable("prompt.channel is 'never'")
        if not self.kernel:
            return self._terminal_route(settings)
        if not self.cell_runs:
            return Unavailable("no cell is running")
        if not self.allow_stdin:
            return Unavailable("the front end does not allow input (the notebook runs headless)")
        if settings.channel == "stdin":
            return StdinRoute("stdin")
        if self.no_forms is not None:
            if settings.channel == "widget":
                return Unavailable(f"prompt.channel is 'widget', but {self.no_forms}")
            return StdinRoute("stdin")

        patience = settings.rendered_timeout_s
        if not self.cell_id:
            patience = min(patience, RENDERED_TIMEOUT_WITHOUT_CELL_ID)

        # A console may share the kernel with a page. Its own prompts then continue on its stdin.
        stays = self.page and self.cell_id
        return FormRoute(patience, stdin=settings.channel == "auto", stays=stays)

    def _terminal_route(self, settings: PromptConfig) -> PromptRoute:
        if settings.channel == "widget":
            return Unavailable("prompt.channel is 'widget', but no kernel can show a form")
        if not self.terminal:
            return Unavailable("neither a kernel nor a terminal is available")
        return StdinRoute("terminal")


def note_page() -> None:
    """Record that a page of this kernel shows forms."""
    if (kernel := running_kernel()) is not None:
        Collaborators.of(kernel).has_page = True


def who_sent(kind: Literal["comm_msg", "execute_request"]) -> str | None:
    """Return the collaborator whose page sent the current message, if it is of that kind.

    It is None if collaborators have no names, as for a single user.
    """
    kernel = running_kernel()
    message = kernel.get_parent("shell") if kernel is not None else {}
    if (message.get("header") or {}).get("msg_type") != kind:
        return None

    return Collaborators.of(kernel).sender_of(message)


def has_input() -> bool:
    """Return False if the page that sent the request of the running cell shows no input box.

    The page was reloaded, or has run the cell again. Call it on the cell's thread.
    """
    kernel = running_kernel()
    if kernel is None:
        return True

    return Collaborators.of(kernel).find_input(kernel.get_parent("shell")) is not False


def running_kernel() -> Any:
    """Return the IPython kernel of this process; None without a kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None)


class FormOutput(Protocol):
    """Output that shows a form: a separate one, or the output of a turn."""

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Show the form `bundle`; call `so_far` to show earlier content above the form."""

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Replace the form with a temporary `note` or a permanent `record`."""

    def catch_up(self) -> None:
        """Show all pending output before a question is asked on stdin."""


class SeparateOutput:
    """An output that only the form uses, `of_turn` or of a tool; implements `FormOutput`."""

    def __init__(self, *, of_turn: bool = False) -> None:
        from IPython.display import publish_display_data  # imported only when a user is asked

        kernel = running_kernel()
        self._publish = DisplayPublisher(publish_display_data, kernel, of_turn=of_turn)()

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Display the form below the current outputs of the cell."""
        self._publish(bundle, update=False, final=False)

    def show_note(self, note: str) -> None:
        """Display `note` until `end` is called."""
        self._publish(_note(note), update=False, final=False)

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Replace the form with the note or the record."""
        data = _note(note) if note else {}
        if record is not None:
            data = {"text/plain": record.plain, "text/markdown": record.markdown}
        self._publish(data, update=True, final=not note)

    def catch_up(self) -> None:
        """Do nothing, because nothing is pending."""


def _note(words: str) -> dict[str, str]:
    return {"text/plain": words, "text/markdown": words}


class IdleClock:
    """Calls back when the user has been idle for some time. Used on the cell's thread.

    The clock stops while the thread is busy, because clicks are not read then. It also stops while
    `busy` returns True, and restarts afterwards. With 0 `seconds`, `expired` is never called.
    """

    def __init__(
        self,
        loop: CellLoop,
        seconds: float,
        *,
        busy: Callable[[], bool],
        expired: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._busy = busy
        self._expired = expired
        self._deadline = 0.0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start the time."""
        self.stop()
        if self._seconds > 0:
            self._deadline = self._loop.idle_s + self._seconds
            self._timer = self._loop.call_after_idle(self._seconds, self._check)

    def restart(self) -> None:
        """Restart the time if it runs."""
        self._deadline = self._loop.idle_s + self._seconds  # keeps the timer, which checks it again

    def stop(self) -> None:
        """Stop the time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        if self._busy():
            self.restart()

        left = self._deadline - self._loop.idle_s
        if left > 0:
            self._timer = self._loop.call_after_idle(left, self._check)
        else:
            self._timer = None
            self._expired()


class Expired(Exception):  # noqa: N818 - not an error
    """The deadline ended its block."""


class Deadline:
    """Context manager that ends its block with `Expired` after `seconds` (0: never) or `expire`.

    Only an interrupt ends a read from stdin. So a deadline interrupts the main thread, as the
    kernel's stop button does, and raises `Expired` instead of its own `KeyboardInterrupt`. In other
    threads, it cannot end a running block. A deadline that expired earlier raises `Expired` before
    its block starts.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._guard = threading.Lock()
        self._armed = False
        self._expired = False
        self._interrupted = False
        self._timer: threading.Timer | None = None

    @property
    def expired(self) -> bool:
        """True after it expired."""
        return self._expired

    def expire(self) -> None:
        """End the block now, or when it starts; from any thread."""
        with self._guard:
            interrupts = self._armed and not self._expired
            self._expired = True  # before the interrupt, whose handler reads it
            if interrupts:
                self._interrupted = True
                main = threading.main_thread().ident
                if hasattr(signal, "pthread_kill") and main is not None:
                    signal.pthread_kill(main, signal.SIGINT)  # also ends a system call
                else:
                    _thread.interrupt_main()

    def __enter__(self) -> Self:
        with self._guard:
            if self._expired:
                raise Expired
            self._armed = threading.current_thread() is threading.main_thread()

        if self._armed and self._seconds > 0:
            self._timer = threading.Timer(self._seconds, self.expire)
            self._timer.daemon = True
            self._timer.start()

        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._timer is not None:
                self._timer.cancel()

            with self._guard:
                self._armed = False

            if self._interrupted and kind is None:
                sleep(1.0)  # wait for our own pending interrupt, or it would end later code
        except KeyboardInterrupt:
            if not self._interrupted:
                raise

        if self._interrupted and (kind is None or kind is KeyboardInterrupt):
            raise Expired from None
