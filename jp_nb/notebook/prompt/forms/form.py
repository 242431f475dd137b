"""The form of a prompt: a question, a decision, or a form with several pages and a summary.

`FormDraft` decides what is shown next. `Form` shows it with ipywidgets: it makes a `FormScreen` of
the draft, and calls a method of the draft for each click. The name of a button is its action:
`submit`, `next`, or `go-2`.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import assert_never

import ipywidgets as widgets

from jp_nb.agent.prompting.form_draft import FormDraft
from jp_nb.agent.prompting.prompt_ends import Answered, Unavailable
from jp_nb.agent.prompting.prompts import (
    ActionPrompt,
    AnyPrompt,
    FormPrompt,
    SimplePrompt,
)
from jp_nb.notebook.prompt.controls.form_control import FormMessage
from jp_nb.notebook.prompt.controls.form_messages import guard_widgets
from jp_nb.notebook.prompt.controls.form_widgets import make_box, make_html, make_text
from jp_nb.notebook.prompt.controls.widget_sharing import close_widgets
from jp_nb.notebook.prompt.forms.form_buttons import FormButtons
from jp_nb.notebook.prompt.forms.form_labels import (
    format_topic,
    get_button_label,
    render_progress,
)
from jp_nb.notebook.prompt.forms.form_menu import FormMenu
from jp_nb.notebook.prompt.forms.form_page import ALL_FIELDS, NO_PROBLEMS, FormPage
from jp_nb.notebook.prompt.forms.form_screen import FormScreen
from jp_nb.notebook.prompt.forms.form_summary import make_stock_summary, make_summary
from jp_nb.notebook.prompt.forms.prompt_form import (
    FormAction,
    FormContext,
    PromptForm,
)
from jp_nb.notebook.prompt.forms.stock_signal import StockParts
from jp_nb.rendering.prompt_texts import form_text, prompt_text
from jp_nb.toolkit.function_tools.tool_errors import summarize_error
from jp_nb.toolkit.question_types.answer_types import SecretAnswer

log = logging.getLogger(__name__)


class Form(PromptForm):
    """The form of any prompt.

    A *screen* of `FormDraft` is a page, the summary, the menu, or a question about what would be
    lost. A page is created when it is first shown, and keeps its content while other screens are
    visible. The base class handles messages and deadlines. It calls `_is_busy`, `_expire`, and
    `_handle_module`, and runs the `_actions` of the current screen.

    `FormDraft` (`jp_nb/agent/prompting/form_draft.py`) knows no widgets. It keeps the answer or the
    problem of each page (`store_draft`), and changes `screen` and the number `step` with each call
    such as `next`. Once the prompt has ended, it has the `end`.
    """

    def __init__(self, prompt: AnyPrompt, context: FormContext) -> None:
        first = prompt.pages[0] if isinstance(prompt, FormPrompt) else prompt
        title = prompt_text.format_header(first) or format_topic(first)
        super().__init__(prompt, title, context)

        # The state of the prompt, and the screens that were created for it.
        self._first = first
        self._draft = FormDraft(prompt, "form")
        self._pages: dict[int, FormPage] = {}
        self._menu: FormMenu | None = None  # created on first use
        self._temporary: widgets.Widget | None = None  # the current screen if it is shown only once

        # The parts below each other: progress, screen, parts without modules, note, buttons.
        self._top = make_html("", "progress")
        self._body = make_box("body")
        self._stock: StockParts | None = None  # while stock widgets replace the modules
        self._buttons = FormButtons(first, self._press, self._answer_at_once)
        self._arrange()

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
                return self._writing or any(field.control.in_use() for field in self._page.fields)
            case "menu":
                return self._writing or self._get_menu().has_reply
            case _:
                return False

    def _expire(self) -> None:
        """Keep what the user has entered on the page, and turn to the next page.

        No click reports the state of the controls (`{}`), so it is read from the widgets.
        """
        page = self._page
        entered = page.read_and_keep({}).draft.answer if page.is_touched({}) else None
        self._run_action(lambda: self._draft.expire(entered))
        if self._draft.end is None:
            self._show_note(form_text.TIME_WENT)

    def close_all_widgets(self) -> None:
        """Close all widgets, including those of hidden pages."""
        if self._stock is not None:
            self._stock.stop()

        super().close_all_widgets()
        for page in self._pages.values():
            page.close()

        if self._menu is not None:
            self._menu.close()

        self._buttons.close()

    @property
    def _page(self) -> FormPage:
        """The current page, also while another screen covers it."""
        number = self._draft.page
        if number not in self._pages:
            prompt = self._get_page_prompt()
            in_form = not self._draft.is_single
            self._pages[number] = FormPage(prompt, self._on_change, in_form=in_form)
        return self._pages[number]

    def _get_page_prompt(self) -> SimplePrompt:
        return self._draft.question if self._draft.questions else self._first

    def _get_menu(self) -> FormMenu:
        if self._menu is None:
            self._menu = FormMenu(self._on_change)
        return self._menu

    def _on_change(self, is_new: bool = True) -> None:
        """Handle a change by the user, also one that the last click already reported."""
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
        match self._draft.screen:
            case "page":
                self._draw_page()
            case "summary":
                self._show_screen(self._make_summary_screen())
            case "menu":
                self._show_screen(self._make_menu_screen())
            case "discard":
                self._show_screen(self._make_discard_screen())
            case other:
                assert_never(other)

    def _draw_page(self) -> None:
        """Show the current page. If Submit led to it, also show what it needs."""
        page = self._page
        page.use_stock_views(stock=self.is_stock)
        self._show_screen(self._make_page_screen())
        self._draw_items()

        # The user wanted to submit, but the page needs an answer.
        if self._draft.must_answer:
            reading = page.read_and_keep({})
            page.show_problems(reading)
            if not reading.problems:
                self._show_note(form_text.DEMANDED)

    def _make_page_screen(self) -> FormScreen:
        draft = self._draft
        page = self._page
        primary = "submit" if draft.is_last else "next"
        items = list(page.items.values())
        field_controls = [field.control for field in page.fields]

        return FormScreen(
            widget=page.widget,
            buttons=self._list_page_buttons(),
            other_actions=self._list_other_page_actions(),
            primary=primary,
            controls=[
                *(control.model_id for control in field_controls if control.widget is not None),
                *(item.model_id for item in items),
            ],
            answers=page.choices,
            items=items,
        )

    def _list_page_buttons(self) -> dict[str, FormAction]:
        """Return the actions of the page's buttons, by their names."""
        draft = self._draft
        buttons: dict[str, FormAction] = {}

        if len(draft.pages) > 1:
            buttons["back"] = self._go_back
        if not draft.is_last:
            buttons["next"] = lambda message: self._leave_page(message, draft.next)
        if draft.can_submit and self._page.choices is None:
            buttons["submit"] = lambda message: self._leave_page(message, draft.submit)
        if draft.can_decline:
            buttons["decline"] = self._decline
        if draft.can_cancel and draft.questions:  # a decision has a button for each action instead
            buttons["cancel"] = self._cancel

        return buttons

    def _list_other_page_actions(self) -> dict[str, FormAction]:
        """Return the actions of a page that have no button, by their names."""
        draft = self._draft
        actions: dict[str, FormAction] = {"unchosen": self._submit_untouched}
        if draft.can_cancel and not draft.questions:  # Esc cancels a decision
            actions["cancel"] = self._cancel
        if self._page.items:
            actions["decide"] = self._decide

        return actions

    def _make_summary_screen(self) -> FormScreen:
        draft = self._draft
        lines = form_text.summarize_form(draft)
        summary = make_stock_summary(lines, self._press) if self.is_stock else make_summary(lines)
        heading = make_text(form_text.get_summary_heading(draft), "question")
        # Enter must not send a form in which a question is open.
        primary = "" if draft.open_pages else "send"

        return FormScreen(
            widget=make_box("page", heading, summary),
            buttons={"resume": self._resume, "send": lambda _: draft.send()},
            other_actions={
                "go": lambda message: draft.go(_parse_number(message)),
                "empty": lambda message: draft.confirm_empty(_parse_number(message)),
                "cancel": self._resume,
                "unchosen": self._report_no_choice,
            },
            primary=primary,
            is_kept=False,
        )

    def _make_menu_screen(self) -> FormScreen:
        menu = self._get_menu()
        return FormScreen(
            widget=menu.widget,
            buttons={
                "reply": self._reply,
                "stop": lambda _: self._draft.stop(),
                "resume": self._resume,
            },
            other_actions={"cancel": self._resume, "unchosen": self._reply},
            primary="reply",
            controls=[str(menu.reply_box.model_id)],
        )

    def _make_discard_screen(self) -> FormScreen:
        return FormScreen(
            widget=make_box("page", make_text(form_text.DISCARD_WARNING, "question")),
            buttons={"resume": self._resume, "discard": lambda _: self._draft.discard()},
            other_actions={"cancel": self._resume, "unchosen": self._report_no_choice},
            is_kept=False,
        )

    def _show_screen(self, screen: FormScreen) -> None:
        """Show `screen` with its buttons, in place of the previous one."""
        outdated = [] if self._temporary is None else [self._temporary]
        self._temporary = None if screen.is_kept else screen.widget
        self._actions = {**screen.other_actions, **screen.buttons}
        self._writing = False
        self._note.value = ""
        self._top.value = render_progress(self._draft, self._get_page_prompt())
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

    # --- decisions, also about parts that the user can exclude ---------------------------------

    def _answer_at_once(self, answer: Answered) -> None:
        self._run_action(partial(self._draft.decide, answer))

    def _draw_items(self) -> None:
        """Add the buttons beside each item, which decide about this item."""
        self._buttons.add_item_buttons(self._page.items.values())
        guard_widgets(self.widget)
        self._show_checked_count()

    def _show_checked_count(self) -> None:
        if self._buttons.has_decisions:
            count = sum(item.is_checked for item in self._page.items.values())
            self._buttons.show_checked_count(count)

    def _decide(self, message: FormMessage) -> None:
        """Send a decision, with the items that are checked."""
        number = _parse_number(message)
        if self._buttons.has_decision(number):
            picks = self._page.read_picks(message)
            self._draft.decide(Answered(self._buttons.get_decision(number), "form", picks=picks))

    # --- actions ---------------------------------------------------------------------------------

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

    def _go_back(self, message: FormMessage) -> None:
        """Keep the input of the page, even with an error, and go to the previous page."""
        self._draft.store_draft(self._page.read_and_keep(message).draft)
        self._page.show_problems(NO_PROBLEMS)
        self._draft.back()

    def _leave_page(self, message: FormMessage, go: Callable[[], None]) -> None:
        """Keep the input of the page, and `go` to the next step if it has no error."""
        page = self._page
        reading = page.read_and_keep(message)
        self._draft.store_draft(reading.draft)
        # A page of a form may stay open, but a single question is only there to be answered.
        is_missed = self._draft.is_single and reading.draft.answer is None
        if not reading.draft.problem and not is_missed:
            page.show_problems(NO_PROBLEMS)
            go()
            return

        page.show_problems(reading)
        first = min(reading.problems)
        if first == ALL_FIELDS:
            first = 0
        self._bridge.focus(first)

    def _cancel(self, message: FormMessage) -> None:
        """Cancel the prompt, or show the menu. The answer of the page is kept if the user gave it.

        A proposal that the user did not touch is not an answer.
        """
        page = self._page
        entered = page.is_touched(message)
        reading = page.read_and_keep(message).draft
        was_answered = self._draft.pages[self._draft.page].answer is not None
        if reading.answer is not None and (entered or was_answered):
            self._draft.store_draft(reading)
        self._draft.cancel(entered=entered)

    def _decline(self, message: FormMessage) -> None:
        self._page.show_problems(NO_PROBLEMS)
        self._draft.decline(entered=self._page.is_touched(message))

    def _resume(self, _: FormMessage) -> None:
        self._draft.resume()

    def _submit_untouched(self, message: FormMessage) -> None:
        """Handle a key that submits the page although the user changed nothing on it.

        It counts only if the page was answered before. A key that the user pressed by mistake must
        not send a proposal.
        """
        draft = self._draft
        primary = "submit" if draft.is_last else "next"
        if draft.pages[draft.page].answer is not None:
            self._actions[primary](message)
        elif draft.is_single:
            self._note_no_answer(message)
        else:
            label = get_button_label(primary, draft)
            self._show_note(form_text.UNTOUCHED.format(label))

    def _note_no_answer(self, message: FormMessage) -> None:
        """Tell the user why a key has not sent the only page."""
        problems = self._page.read_and_keep(message).problems
        if problems:
            self._show_note(next(iter(problems.values())))
        else:
            label = get_button_label("submit", self._draft)
            self._show_note(prompt_text.NOTHING_CHANGED.format(label))

    def _reply(self, message: FormMessage) -> None:
        reply = self._get_menu().read_reply(message)
        if reply.strip():
            self._draft.reply(reply)
        else:
            self._show_note(form_text.REPLY_IS_BLANK)
            self._bridge.focus(0)

    def _report_no_choice(self, _: FormMessage) -> None:
        self._show_note(prompt_text.NO_BUTTON_CHOSEN)


def _parse_number(message: FormMessage) -> int:
    """Return the number in the name of a button, such as 2 for `go-2`; -1 without one."""
    place = str(message.get("place"))
    return int(place) if re.fullmatch("[0-9]{1,3}", place) else -1
