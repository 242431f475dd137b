"""The form of a prompt: a question, a decision, or a form with several pages and a summary.

`FormDraft` (`jp_nb/agent/prompting/form_draft.py`) decides which screen is shown next, and
`FormScreens` makes it and handles its buttons. `Form` puts the screen and its buttons into a box of
ipywidgets, and replaces them at each step.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from itertools import chain

import ipywidgets as widgets

from jp_nb.agent.prompting.form_draft import FormDraft
from jp_nb.agent.prompting.prompt_ends import Answered, Unavailable
from jp_nb.agent.prompting.prompts import ActionPrompt, AnyPrompt, FormPrompt
from jp_nb.notebook.prompt.controls.form_messages import guard_widgets
from jp_nb.notebook.prompt.controls.form_widgets import make_box, make_html
from jp_nb.notebook.prompt.controls.widget_closing import close_widgets
from jp_nb.notebook.prompt.forms.form_buttons import FormButtons
from jp_nb.notebook.prompt.forms.form_labels import get_button_label
from jp_nb.notebook.prompt.forms.form_screen import FormScreen
from jp_nb.notebook.prompt.forms.form_screens import FormScreens
from jp_nb.notebook.prompt.forms.form_top_line import format_topic, render_top_line
from jp_nb.notebook.prompt.forms.prompt_form import FormContext, PromptForm
from jp_nb.notebook.prompt.forms.stock_signal import StockParts
from jp_nb.rendering.prompt_texts import form_text, prompt_text
from jp_nb.toolkit.function_tools.tool_errors import summarize_error
from jp_nb.toolkit.question_types.answer_types import SecretAnswer

log = logging.getLogger(__name__)


class Form(PromptForm):
    """The form of any prompt.

    The base class handles messages and deadlines, and runs the `_actions` of the current screen. It
    calls `_is_busy` and `_expire` when the time for an answer is over: a user who is entering
    something gets more. It has the parts `_hidden` and `_note`, and sets `_writing` while the user
    is in a text box, and `_over` once the form is closed.

    `FormDraft` knows no widgets. Each input may change its `screen` and the number `step`, which
    counts the displays. Once the prompt has ended, it has the `end`.
    """

    def __init__(self, prompt: AnyPrompt, context: FormContext) -> None:
        first = prompt.pages[0] if isinstance(prompt, FormPrompt) else prompt
        title = prompt_text.format_header(first) or format_topic(first)
        super().__init__(prompt, title, context)
        self._draft = FormDraft(prompt, "form")

        # The parts below each other: progress, screen, parts without modules, note, buttons.
        self._top = make_html("", "progress")
        self._body = make_box("body")
        self._stock: StockParts | None = None  # while stock widgets replace the modules
        self._buttons = FormButtons(first, self._press, self._answer_at_once)
        self._arrange()

        # The screens, of which one is in the body at any time.
        self._screens = FormScreens(
            self._draft,
            first,
            self._buttons,
            press=self._press,
            changed=self._handle_change,
            show_note=self._show_note,
            focus=self._bridge.focus,
        )
        self._temporary: widgets.Widget | None = None  # the current screen if it is shown only once

        if isinstance(prompt, ActionPrompt):
            self._prepare_for_decision(prompt)

        self._draw()

    def _prepare_for_decision(self, prompt: ActionPrompt) -> None:
        """Tell the page about the cells that the decision is about, and its keys."""
        self._bridge.only_buttons = prompt.only_buttons
        self._bridge.cells = [
            {
                "cell": cell.cell_id,
                "label": cell.label,
                "place": cell.is_place,
                "slot": f"jp-nb-item-{cell.item}",
            }
            for cell in prompt.cells
        ]
        if prompt.changes:  # a table of settings
            self._form.add_class("jp-nb-wide")

    def _arrange(self) -> None:
        """Put the parts of the form below each other."""
        stock = [] if self._stock is None else self._stock.widgets
        self._form.children = [
            self._top,
            self._body,
            self._hidden,
            *stock,
            self._note,
            self._buttons.row,
        ]

    @property
    def _step(self) -> int:
        return self._draft.step

    def _is_busy(self) -> bool:
        match self._draft.screen:
            case "page":
                fields = self._screens.page.fields
                return self._writing or any(field.control.in_use() for field in fields)
            case "menu":
                return self._writing or self._screens.menu.has_reply
            case _:
                return False

    def _expire(self) -> None:
        """Keep what the user has entered on the page, and turn to the next page.

        No click reports the state of the controls (`{}`), so it is read from the widgets.
        """
        page = self._screens.page
        entered = page.read_and_keep({}).draft.answer if page.is_touched({}) else None
        self._run_action(lambda: self._draft.expire(entered))
        if self._draft.end is None:
            self._show_note(form_text.TIME_WENT)

    def close_all_widgets(self) -> None:
        """Close all widgets, including those of hidden pages."""
        if self._stock is not None:
            self._stock.stop()

        super().close_all_widgets()
        self._screens.close()
        self._buttons.close()

    def _handle_change(self, is_new: bool) -> None:
        """Handle a change by the user; it `is_new` if the last click did not report it already."""
        self._show_checked_count()
        if is_new:  # the message was about the previous content
            self._show_note("")
        self._clock.restart()

    # --- stock widgets, for pages that cannot load a module --------------------------------------

    @property
    def is_stock(self) -> bool:
        """True while stock widgets replace all modules."""
        return self._stock is not None

    def use_stock_widgets(self) -> bool:
        """Show the form with stock widgets alone; return False if an answer needs a module.

        The form is shown as before once a page loads the module of the form.
        """
        if self._over or self._needs_module():
            return False

        self._stock = StockParts(
            self._loop,
            lambda: self._loop.post(self._handle_shown),
            form_id=self.widget.model_id,
        )
        self._redraw()
        return True

    def _needs_module(self) -> bool:
        """Return True if a secret is asked for.

        It must not be in the state of a stock widget, which a notebook may save.
        """
        fields = chain.from_iterable(page.fields for page in self._draft.questions)
        return any(isinstance(field.question.answer_type, SecretAnswer) for field in fields)

    def _handle_module(self) -> None:
        """Show the form with its own widgets again, because a page has loaded the module."""
        if self._stock is None or self._over:
            return

        previous = self._stock
        previous.stop()
        self._stock = None
        self._redraw()
        previous.close()

    def _redraw(self) -> None:
        """Show the current screen with other widgets, as a new step."""
        self._arrange()
        self._draft.redraw()
        self._draw()

    # --- screens ---------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Show the current screen of the draft."""
        self._show_screen(self._screens.make_current(stock=self.is_stock))
        if self._draft.screen == "page":
            self._draw_items()
            if self._draft.must_answer:
                self._show_missing_answer()

    def _show_missing_answer(self) -> None:
        """Show what the page needs: the user wanted to submit, but it has no valid answer."""
        page = self._screens.page
        reading = page.read_and_keep({})
        page.show_problems(reading)
        if not reading.problems:
            self._show_note(form_text.DEMANDED)

    def _show_screen(self, screen: FormScreen) -> None:
        """Show `screen` with its buttons, in place of the previous one."""
        outdated = [] if self._temporary is None else [self._temporary]
        self._temporary = None if screen.is_kept else screen.widget
        self._actions = {**screen.other_actions, **screen.buttons}
        self._writing = False
        self._note.value = ""
        self._top.value = render_top_line(self._draft, self._screens.page_prompt)
        screen.widget.add_class(screen.css_class)
        self._body.children = (screen.widget,)

        if self.is_stock:
            # The second click of a double click must not act on the next step.
            outdated += self._buttons.renew_step_buttons()
        disabled = {"back"} if self._draft.is_first else set[str]()
        outdated += self._buttons.show(
            {name: get_button_label(name, self._draft) for name in screen.buttons},
            primary=screen.primary,
            disabled=disabled,
            answers=screen.answers,
            items=screen.items,
        )
        guard_widgets(self.widget)

        with self._bridge.hold_sync():  # send one message, after those of the new widgets
            self._bridge.controls = list(screen.controls)
            self._bridge.screen = screen.css_class
            self._bridge.step = self._draft.step

        for widget in outdated:
            close_widgets(widget)

    def _draw_items(self) -> None:
        """Add the buttons beside each item, which decide about this item."""
        self._buttons.add_item_buttons(self._screens.page.items.values())
        guard_widgets(self.widget)
        self._show_checked_count()

    def _show_checked_count(self) -> None:
        if self._buttons.has_decisions:
            count = sum(item.is_checked for item in self._screens.page.items.values())
            self._buttons.show_checked_count(count)

    # --- actions ---------------------------------------------------------------------------------

    def _answer_at_once(self, answer: Answered) -> None:
        self._run_action(partial(self._draft.decide, answer))

    def _run_action(self, act: Callable[[], None]) -> None:
        """Run an action, then end the form or show the next screen, as the draft says."""
        step_before = self._draft.step
        super()._run_action(act)
        if self._draft.end is not None:
            self._finish(self._draft.end)
        elif self._draft.step != step_before:
            self._begin_step()
            try:
                self._draw()
            except Exception as exc:  # the user could not answer it, so the form ends
                log.exception("A page of a form could not be shown")
                self._finish(Unavailable(f"the form failed: {summarize_error(exc)}"))
