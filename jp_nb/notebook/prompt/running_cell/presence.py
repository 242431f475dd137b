"""Availability of a user for a prompt, and the way to ask.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal, Self

from jp_nb.agent.prompting.prompt_ends import Unavailable
from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.kernel_pages import KernelPages
from jp_nb.notebook.prompt.running_cell.pump import find_missing_internals
from jp_nb.notebook.prompt.running_cell.running_kernel import get_running_kernel

RENDERED_TIMEOUT_WITHOUT_CELL_ID = 1.5
"""Seconds that a front end without cell ids has to show a form. Consoles rarely show widgets."""


@dataclass(frozen=True, slots=True)
class FormRoute:
    """Show a form.

    Attributes:
        patience_s: Seconds that a page has to show the form.
        falls_back_to_stdin: True to use stdin if no page shows it.
        stays: True to use stdin only after an interrupt: a page is known, and an input box would
            take the focus from a user who types there.
        tries_stock: True to show the form with stock widgets before stdin is used. They replace the
            JavaScript module of the form, which reports that a page shows it.
    """

    patience_s: float
    falls_back_to_stdin: bool
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
        has_kernel: True if a kernel runs the code. Without one, only a terminal can ask the user.
        runs_cell: True if the kernel runs a cell, not a callback of a comm.
        allows_stdin: True if the front end accepts requests for input.
        has_cell_id: True if the front end sent the id of the cell, as notebooks do.
        has_terminal: True if stdin of a process without a kernel is a terminal.
        no_forms_reason: The reason why the kernel cannot receive clicks while a cell runs; None if
            it can.
        has_page: True if a page of this kernel is known, because it sent `hello` or showed a form.
    """

    has_kernel: bool = False
    runs_cell: bool = True
    allows_stdin: bool = False
    has_cell_id: bool = False
    has_terminal: bool = False
    no_forms_reason: str | None = None
    has_page: bool = False

    @classmethod
    def detect(cls) -> Self:
        """Detect the facts from the request of the running cell. Call it on the cell's thread."""
        if (kernel := get_running_kernel()) is None:
            return cls(has_terminal=sys.stdin is not None and sys.stdin.isatty())

        request = kernel.get_parent("shell")
        content = request.get("content") or {}
        metadata = request.get("metadata") or {}

        return cls(
            has_kernel=True,
            runs_cell=(request.get("header") or {}).get("msg_type") == "execute_request",
            allows_stdin=bool(content.get("allow_stdin", False)),
            has_cell_id=bool(metadata.get("cellId")),
            no_forms_reason=find_missing_internals(kernel),
            has_page=KernelPages.of(kernel).has_page,
        )

    @property
    def is_console(self) -> bool:
        """True for a front end without cells, which cannot update displays."""
        return self.has_kernel and self.runs_cell and self.allows_stdin and not self.has_cell_id

    def choose_route(self, settings: PromptConfig) -> PromptRoute:
        """Return the way to ask the user, or the reason why no user can be asked.

        The first rule that applies decides:

        - No user is asked if the settings forbid it, no cell runs, or the front end takes no input.
        - Without a kernel, IPython asks in its terminal.
        - Stdin is used if the settings want it, or if the kernel cannot receive clicks.
        - Otherwise a form is shown. If no page shows it, stdin may follow (`FormRoute`).

        The channel `widget` never falls back to stdin.
        """
        if settings.channel == "never":
            return Unavailable("prompt.channel is 'never'")
        if not self.has_kernel:
            return self._choose_terminal_route(settings)
        if not self.runs_cell:
            return Unavailable("no cell is running")
        if not self.allows_stdin:
            return Unavailable("the front end does not allow input (the notebook runs headless)")
        if settings.channel == "stdin":
            return StdinRoute("stdin")
        if self.no_forms_reason is not None:
            if settings.channel == "widget":
                return Unavailable(f"prompt.channel is 'widget', but {self.no_forms_reason}")
            return StdinRoute("stdin")

        patience_s = settings.rendered_timeout_s
        if not self.has_cell_id:
            patience_s = min(patience_s, RENDERED_TIMEOUT_WITHOUT_CELL_ID)

        # A console has no cell ids, and may share the kernel with a page. Its own prompts then
        # continue on its stdin.
        stays = self.has_page and self.has_cell_id
        return FormRoute(
            patience_s,
            falls_back_to_stdin=settings.channel == "auto",
            stays=stays,
            tries_stock=self.has_cell_id,
        )

    def _choose_terminal_route(self, settings: PromptConfig) -> PromptRoute:
        if settings.channel == "widget":
            return Unavailable("prompt.channel is 'widget', but no kernel can show a form")
        if not self.has_terminal:
            return Unavailable("neither a kernel nor a terminal is available")
        return StdinRoute("terminal")
