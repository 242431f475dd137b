"""Availability of a user for a prompt, and the way to ask.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Literal, Self

from jp_nb.agent.prompting.prompts import Unavailable
from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.kernel_pages import KernelPages
from jp_nb.notebook.prompt.pump import find_missing_internals

RENDERED_TIMEOUT_WITHOUT_CELL_ID = 1.5
"""Seconds that a front end without cell ids has to show a form. Consoles rarely show widgets."""


@dataclass(frozen=True, slots=True)
class FormRoute:
    """Show a form. If no page shows it within `patience` seconds, use `stdin`, if that is True.

    If it `stays`, use stdin only after an interrupt: a page is known, and an input box would take
    the focus from a user who types there. If it `tries_stock`, stock widgets replace the module
    that tells that a page shows the form, before stdin is used.
    """

    patience: float
    stdin: bool
    stays: bool = False
    tries_stock: bool = True


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
    def detect(cls) -> Self:
        """Detect the facts from the request of the running cell. Call it on the cell's thread."""
        if (kernel := get_running_kernel()) is None:
            return cls(terminal=sys.stdin is not None and sys.stdin.isatty())

        request = kernel.get_parent("shell")
        content = request.get("content") or {}
        metadata = request.get("metadata") or {}

        return cls(
            kernel=True,
            cell_runs=(request.get("header") or {}).get("msg_type") == "execute_request",
            allow_stdin=bool(content.get("allow_stdin", False)),
            cell_id=bool(metadata.get("cellId")),
            no_forms=find_missing_internals(kernel),
            page=KernelPages.of(kernel).has_page,
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
        return FormRoute(
            patience,
            stdin=settings.channel == "auto",
            stays=stays,
            tries_stock=self.cell_id,
        )

    def _terminal_route(self, settings: PromptConfig) -> PromptRoute:
        if settings.channel == "widget":
            return Unavailable("prompt.channel is 'widget', but no kernel can show a form")
        if not self.terminal:
            return Unavailable("neither a kernel nor a terminal is available")
        return StdinRoute("terminal")


def note_page() -> None:
    """Record that a page of this kernel shows forms."""
    if (kernel := get_running_kernel()) is not None:
        KernelPages.of(kernel).has_page = True


def find_sender(kind: Literal["comm_msg", "execute_request"]) -> str | None:
    """Return the collaborator whose page sent the current message, if it is of that kind.

    It is None if collaborators have no names, as for a single user.
    """
    kernel = get_running_kernel()
    message = kernel.get_parent("shell") if kernel is not None else {}
    if (message.get("header") or {}).get("msg_type") != kind:
        return None

    return KernelPages.of(kernel).find_sender(message)


def has_input() -> bool:
    """Return False if the page that sent the request of the running cell shows no input box.

    The page was reloaded, or has run the cell again. Call it on the cell's thread.
    """
    kernel = get_running_kernel()
    if kernel is None:
        return True

    return KernelPages.of(kernel).can_show_input(kernel.get_parent("shell")) is not False


def get_running_kernel() -> Any:
    """Return the IPython kernel of this process; None without a kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None)
