"""The screens of a form, and the effect of their buttons and keys.

`FormDraft` (`jp_nb/agent/prompting/form_draft.py`) names the current screen: a page, the summary,
the menu, or the question before input is discarded. `FormScreens` makes a `FormScreen` for it,
which `Form` shows. It has an action for each button: a function that reads the user's input from
the message of the page, keeps it in the draft (`store_draft`), and calls the method of the draft
that the button stands for.

The name of a button is its action, perhaps with a number: `submit`, `next`, or `go-2`. Keys have
actions too: Esc is `cancel`. A key such as Enter is `unchosen` if it would submit a value that the
user has not touched.

If the browser cannot load the form's modules, the form has *stock* widgets alone: those that
ipywidgets itself has.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import assert_never

from jp_nb.agent.prompting.form_draft import FormDraft
from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import SimplePrompt
from jp_nb.notebook.prompt.controls.form_control import FormMessage
from jp_nb.notebook.prompt.controls.form_widgets import make_box, make_text
from jp_nb.notebook.prompt.forms.form_buttons import FormButtons
from jp_nb.notebook.prompt.forms.form_labels import get_button_label
from jp_nb.notebook.prompt.forms.form_menu import FormMenu
from jp_nb.notebook.prompt.forms.form_page import FormPage
from jp_nb.notebook.prompt.forms.form_screen import FormScreen
from jp_nb.notebook.prompt.forms.form_summary import make_stock_summary, make_summary
from jp_nb.notebook.prompt.forms.page_input import ALL_FIELDS, NO_PROBLEMS
from jp_nb.notebook.prompt.forms.prompt_form import FormAction
from jp_nb.rendering.prompt_texts import form_text, prompt_text


class FormScreens:
    """Makes the screens of `draft`. `first` is the prompt, or the first page of a form.

    A page is created when it is first shown, and keeps its content while other screens are visible.

    Args:
        buttons: The buttons of the form, which have the decisions by number.
        press: Called with the name of a button in the summary that was clicked.
        changed: Called after a change by the user: with True, or with False if the last click
            already reported it.
        show_note: Shows a message below the form.
        focus: Focuses the control with this number.

    Attributes:
        pages: The pages that were created, by their numbers.
    """

    def __init__(
        self,
        draft: FormDraft,
        first: SimplePrompt,
        buttons: FormButtons,
        *,
        press: Callable[[str], None],
        changed: Callable[[bool], None],
        show_note: Callable[[str], None],
        focus: Callable[[int], None],
    ) -> None:
        self._draft = draft
        self._first = first
        self._buttons = buttons
        self._press = press
        self._changed = changed
        self._show_note = show_note
        self._focus = focus
        self.pages: dict[int, FormPage] = {}
        self._menu: FormMenu | None = None

    @property
    def page(self) -> FormPage:
        """The current page, also while another screen covers it."""
        number = self._draft.page
        if number not in self.pages:
            in_form = not self._draft.is_single
            self.pages[number] = FormPage(self.page_prompt, self._changed, in_form=in_form)
        return self.pages[number]

    @property
    def page_prompt(self) -> SimplePrompt:
        """The question of the current page, or the decision."""
        return self._draft.question if self._draft.questions else self._first

    @property
    def menu(self) -> FormMenu:
        """The menu, which is created on first use."""
        if self._menu is None:
            self._menu = FormMenu(lambda: self._changed(True))
        return self._menu

    def close(self) -> None:
        """Close all widgets, including those of hidden pages."""
        for page in self.pages.values():
            page.close()

        if self._menu is not None:
            self._menu.close()

    # --- screens -----------------------------------------------------------------------------

    def make_current(self, *, stock: bool) -> FormScreen:
        """Return the screen that the draft names; with `stock`, of stock widgets alone."""
        match self._draft.screen:
            case "page":
                self.page.use_stock_views(stock=stock)
                return self._make_page_screen()
            case "summary":
                return self._make_summary_screen(stock=stock)
            case "menu":
                return self._make_menu_screen()
            case "discard":
                return self._make_discard_screen()
            case other:
                assert_never(other)

    def _make_page_screen(self) -> FormScreen:
        page = self.page
        items = list(page.items.values())
        field_controls = [field.control for field in page.fields]

        return FormScreen(
            widget=page.widget,
            buttons=self._list_page_buttons(),
            other_actions=self._list_other_page_actions(),
            primary=self._get_primary(),
            controls=[
                *(control.model_id for control in field_controls if control.widget is not None),
                *(item.model_id for item in items),
            ],
            answers=page.choices,
            items=items,
        )

    def _get_primary(self) -> str:
        """Return the name of the button of a page that Enter presses."""
        return "submit" if self._draft.is_last else "next"

    def _list_page_buttons(self) -> dict[str, FormAction]:
        """Return the actions of the page's buttons, by their names."""
        draft = self._draft
        buttons: dict[str, FormAction] = {}

        if len(draft.pages) > 1:
            buttons["back"] = self._go_back
        if not draft.is_last:
            buttons["next"] = lambda message: self._leave_page(message, draft.next)
        if draft.can_submit and self.page.choices is None:  # else its own buttons answer at once
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
        if self.page.items:
            actions["decide"] = self._decide

        return actions

    def _make_summary_screen(self, *, stock: bool) -> FormScreen:
        draft = self._draft
        lines = form_text.summarize_form(draft)
        summary = make_stock_summary(lines, self._press) if stock else make_summary(lines)
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
        return FormScreen(
            widget=self.menu.widget,
            buttons={
                "reply": self._reply,
                "stop": lambda _: self._draft.stop(),
                "resume": self._resume,
            },
            other_actions={"cancel": self._resume, "unchosen": self._reply},
            primary="reply",
            controls=[str(self.menu.reply_box.model_id)],
        )

    def _make_discard_screen(self) -> FormScreen:
        return FormScreen(
            widget=make_box("page", make_text(form_text.DISCARD_WARNING, "question")),
            buttons={"resume": self._resume, "discard": lambda _: self._draft.discard()},
            other_actions={"cancel": self._resume, "unchosen": self._report_no_choice},
            is_kept=False,
        )

    # --- actions of a page -------------------------------------------------------------------

    def _go_back(self, message: FormMessage) -> None:
        """Keep the input of the page, even with an error, and go to the previous page.

        `read_and_keep` keeps what the widgets of the page show, and `store_draft` the answer.
        """
        self._draft.store_draft(self.page.read_and_keep(message).draft)
        self.page.show_problems(NO_PROBLEMS)
        self._draft.back()

    def _leave_page(self, message: FormMessage, go: Callable[[], None]) -> None:
        """Keep the input of the page, and `go` to the next step if it has no error."""
        page = self.page
        reading = page.read_and_keep(message)
        self._draft.store_draft(reading.draft)
        # A page of a form may stay open, but a single question is only there to be answered.
        is_missed = self._draft.is_single and reading.draft.answer is None
        if not reading.draft.problem and not is_missed:
            page.show_problems(NO_PROBLEMS)
            go()
            return

        page.show_problems(reading)
        first = min(reading.problems)  # the number of a field
        if first == ALL_FIELDS:
            first = 0
        self._focus(first)

    def _cancel(self, message: FormMessage) -> None:
        """Cancel the prompt, or show the menu. The answer of the page is kept if the user gave it.

        A proposal, with which the widgets are filled at first, is not an answer if the user did not
        touch it. `cancel` asks before the input of a user who `entered` something is discarded.
        """
        entered = self.page.is_touched(message)
        reading = self.page.read_and_keep(message).draft
        was_answered = self._draft.pages[self._draft.page].answer is not None
        if reading.answer is not None and (entered or was_answered):
            self._draft.store_draft(reading)

        self._draft.cancel(entered=entered)

    def _decline(self, message: FormMessage) -> None:
        self.page.show_problems(NO_PROBLEMS)
        self._draft.decline(entered=self.page.is_touched(message))

    def _submit_untouched(self, message: FormMessage) -> None:
        """Handle a key that submits the page although the user changed nothing on it.

        It counts only if the page was answered before. A key that the user pressed by mistake must
        not send a proposal.
        """
        draft = self._draft
        if draft.pages[draft.page].answer is not None:
            self._leave_page(message, draft.submit if draft.is_last else draft.next)
        elif draft.is_single:
            self._note_no_answer(message)
        else:
            label = get_button_label(self._get_primary(), draft)
            self._show_note(form_text.UNTOUCHED.format(label))

    def _note_no_answer(self, message: FormMessage) -> None:
        """Tell the user why a key has not sent the only page."""
        problems = self.page.read_and_keep(message).problems
        if problems:
            self._show_note(next(iter(problems.values())))
        else:
            label = get_button_label("submit", self._draft)
            self._show_note(prompt_text.NOTHING_CHANGED.format(label))

    def _decide(self, message: FormMessage) -> None:
        """Send a decision, with the items that are checked."""
        number = _parse_number(message)
        if self._buttons.has_decision(number):
            picks = self.page.read_picks(message)
            self._draft.decide(Answered(self._buttons.get_decision(number), "form", picks=picks))

    # --- actions of the other screens --------------------------------------------------------

    def _resume(self, _: FormMessage) -> None:
        self._draft.resume()

    def _reply(self, message: FormMessage) -> None:
        reply = self.menu.read_reply(message)
        if reply.strip():
            self._draft.reply(reply)
        else:
            self._show_note(form_text.REPLY_IS_BLANK)
            self._focus(0)

    def _report_no_choice(self, _: FormMessage) -> None:
        self._show_note(prompt_text.NO_BUTTON_CHOSEN)


def _parse_number(message: FormMessage) -> int:
    """Return the number in the name of a button, such as 2 for `go-2`; -1 without one."""
    place = str(message.get("place"))
    return int(place) if re.fullmatch("[0-9]{1,3}", place) else -1
