"""One prompt in the running cell: a form in an output of the cell, or a dialogue on stdin.

`prompter.py` selects the prompt that is shown. A form that no page shows is tried with stock
widgets, then stays with a notice below it, or is replaced by the dialogue (`timed_stdin.py`).

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, assert_never

from jp_nb.agent.prompting.prompt_ends import AnyEnd, Unavailable
from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.prompt.forms.form_output import FormOutput, SeparateOutput
from jp_nb.notebook.prompt.open_prompt import OpenPrompt
from jp_nb.notebook.prompt.running_cell.current_page import can_show_input_box
from jp_nb.notebook.prompt.running_cell.presence import (
    FormRoute,
    Presence,
    PromptRoute,
    StdinRoute,
)
from jp_nb.notebook.prompt.running_cell.pump import CommPump
from jp_nb.notebook.prompt.running_cell.running_kernel import get_running_kernel
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import StdinChannel
from jp_nb.notebook.prompt.timed_stdin import ask_until_end
from jp_nb.rendering.prompt_texts import prompt_text
from jp_nb.rendering.prompt_texts.prompt_summary import PromptSummary
from jp_nb.session.threads.cell_loop import CellLoop

if TYPE_CHECKING:
    from jp_nb.notebook.prompt.forms.form import Form

log = logging.getLogger(__name__)

STOCK_TIMEOUT_S: Final = 2.0
"""Seconds that a page has to show the stock widgets of a form."""


class PromptView:
    """Shows a prompt, and removes it. Used on the cell's thread.

    `on_end` is called with each end of a shown prompt, possibly several times. Only the first one
    counts.

    A `FormRoute` (`presence.py`) has the time that a page has to show a form (`patience_s`). If no
    page shows it, stock widgets are tried (`tries_stock`). Then the form stays with a notice
    (`stays`), or the question is asked on stdin (`falls_back_to_stdin`).

    Attributes:
        settings: The settings of prompts, valid until the next cell.
        presence: Facts about the front end of the running cell.
        place: The output in which forms are shown; None if each form has its own output.
    """

    def __init__(self, loop: CellLoop, on_end: Callable[[OpenPrompt[Any], AnyEnd], None]) -> None:
        self.settings = PromptConfig()
        self.presence = Presence()
        self.place: FormOutput | None = None
        self._loop = loop
        self._on_end = on_end
        self._form: Form | None = None
        self._notice: SeparateOutput | None = None  # that no page shows the form
        self._pump: CommPump | None = None

    def find_route(self) -> PromptRoute:
        """Return the way to ask the user, or the reason why no user can be asked."""
        return self.presence.choose_route(self.settings)

    def show(self, open_prompt: OpenPrompt[Any]) -> None:
        """Show the form of a prompt, or ask it on stdin, which blocks until it ends."""
        match self.find_route():
            case Unavailable() as unavailable:
                self._on_end(open_prompt, unavailable)
            case FormRoute() as route:
                self._show_form(open_prompt, route)
            case StdinRoute(channel="stdin") if not can_show_input_box():
                self._show_form_without_input(open_prompt)
            case StdinRoute(channel=channel):
                self._read_stdin(open_prompt, channel)
            case other:
                assert_never(other)

    def remove(self, record: PromptSummary | None) -> None:
        """Remove the form, if there is one. The `record` replaces it."""
        self._remove_notice()
        if self._form is not None:
            self._form.close(record)
            self._form = None

    def stop_listening(self) -> None:
        """Receive no clicks any more, until another form is shown."""
        if self._pump is not None:
            self._pump.close()
            self._pump = None

    # --- forms -----------------------------------------------------------------------------------

    def _show_form(self, open_prompt: OpenPrompt[Any], route: FormRoute) -> None:
        """Show a form. If no page shows it, try stock widgets, and then do as the `route` says."""
        reason = f"no page showed the form within {route.patience_s:g} s"
        try:
            if self._pump is None:
                self._pump = CommPump(get_running_kernel(), self._loop)
                self._pump.open()

            from jp_nb.notebook.prompt.forms.form import Form
            from jp_nb.notebook.prompt.forms.prompt_form import FormContext

            context = FormContext(
                self._loop,
                self.place or SeparateOutput(),
                self.settings,
                on_seen=self._remove_notice,
                on_end=lambda end: self._on_end(open_prompt, end),
            )
            self._form = Form(open_prompt.prompt, context)
            self._form.show(
                route.patience_s, lambda: self._try_stock_widgets(open_prompt, route, reason)
            )
        except Exception:
            log.warning("The form could not be shown", exc_info=True)
            self._handle_unseen_form(open_prompt, route, "the form could not be shown")

    def _show_form_without_input(self, open_prompt: OpenPrompt[Any]) -> None:
        """Show a form in place of stdin: the page that ran the cell shows no input box.

        Any page of the notebook can show the form.
        """
        if self.presence.no_forms_reason is not None:
            self._on_end(open_prompt, Unavailable(prompt_text.NO_INPUT))
            return

        route = FormRoute(self.settings.rendered_timeout_s, falls_back_to_stdin=False, stays=True)
        self._show_form(open_prompt, route)

    def _try_stock_widgets(
        self, open_prompt: OpenPrompt[Any], route: FormRoute, reason: str
    ) -> None:
        """Show the form without modules of jp_nb, which the page may be unable to load."""
        if open_prompt.future.done() or self._form is None:
            return

        if route.tries_stock and self._form.use_stock_widgets():
            self._form.await_page(
                STOCK_TIMEOUT_S, lambda: self._handle_unseen_form(open_prompt, route, reason)
            )
        else:
            self._handle_unseen_form(open_prompt, route, reason)

    def _handle_unseen_form(
        self, open_prompt: OpenPrompt[Any], route: FormRoute, reason: str
    ) -> None:
        """Keep a form that no page shows, ask on stdin, or end the prompt with the `reason`."""
        if open_prompt.future.done():
            return

        if route.stays:
            self._keep_unseen_form(open_prompt, route)
        elif route.falls_back_to_stdin:
            self._switch_to_stdin(open_prompt)
        else:
            self._on_end(open_prompt, Unavailable(f"{reason} and prompt.channel is 'widget'"))

    def _keep_unseen_form(self, open_prompt: OpenPrompt[Any], route: FormRoute) -> None:
        """Keep the form, with a notice below it that an interrupt leads to stdin.

        No input box opens by itself. It would take the focus from a user who types in the page, and
        a line typed for a cell would answer the prompt.
        """
        if route.falls_back_to_stdin:
            # Before the notice, which tells the user to interrupt the kernel. The next interrupt
            # then does not stop the turn, but calls this function on the cell's thread.
            self._loop.replace_next_interrupt(lambda: self._answer_interrupt(open_prompt))

        self._notice = SeparateOutput(of_turn=self.place is not None)
        self._notice.show_note(prompt_text.format_unseen_notice(stdin=route.falls_back_to_stdin))
        if self._form is not None:
            self._form.stay()

    def _remove_notice(self) -> None:
        """Remove the notice, and let an interrupt stop the cell again."""
        self._loop.replace_next_interrupt(None)
        if self._notice is not None:
            self._notice.end(None, None)
            self._notice = None

    # --- stdin -----------------------------------------------------------------------------------

    def _answer_interrupt(self, open_prompt: OpenPrompt[Any]) -> None:
        """Ask on stdin, because the user interrupted the kernel as the notice says."""
        if open_prompt.future.done():
            return
        if can_show_input_box():
            self._switch_to_stdin(open_prompt)
            return

        # An input box would be in a page that is gone, and the kernel would wait forever.
        self._remove_notice()
        self._loop.interrupt()

    def _switch_to_stdin(self, open_prompt: OpenPrompt[Any]) -> None:
        """Ask on stdin in place of the form."""
        if open_prompt.future.done():
            return

        self._remove_notice()
        if self._form is not None:
            self._form.close(None, note=prompt_text.ANSWERED_BELOW)
        self._read_stdin(open_prompt, "stdin")

    def _read_stdin(self, open_prompt: OpenPrompt[Any], channel: StdinChannel) -> None:
        """Ask on stdin until the prompt ends. This blocks the cell's thread and its loop."""
        open_prompt.channel = channel
        if self.place is not None:
            self.place.catch_up()

        end = ask_until_end(open_prompt, channel, self._loop, timeout_s=self.settings.timeout_s)
        self._on_end(open_prompt, end)
