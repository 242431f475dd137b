"""The form of a prompt: a question, a decision, or a form with several pages and a summary.

`FormDraft` decides what is shown next. `Form` shows it with ipywidgets.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from html import escape
from itertools import chain
from typing import Final, assert_never

import ipywidgets as widgets

from jp_nb.agent.prompting.form_draft import FormDraft
from jp_nb.agent.prompting.prompt_ends import Answered, Unavailable
from jp_nb.agent.prompting.prompts import (
    ActionPrompt,
    AnyPrompt,
    FormPrompt,
    QuestionPrompt,
    SimplePrompt,
)
from jp_nb.notebook.prompt.controls.form_control import FormControl, FormMessage
from jp_nb.notebook.prompt.controls.form_messages import guard_widgets
from jp_nb.notebook.prompt.controls.form_widgets import (
    close_widgets,
    isolate_direction,
    make_box,
    make_html,
    make_text,
)
from jp_nb.notebook.prompt.forms.decision_items import DecisionItem
from jp_nb.notebook.prompt.forms.form_buttons import FormButtons
from jp_nb.notebook.prompt.forms.form_page import ALL_FIELDS, NO_PROBLEMS, FormPage
from jp_nb.notebook.prompt.forms.form_summary import make_stock_summary, make_summary
from jp_nb.notebook.prompt.forms.prompt_form import (
    FormAction,
    FormContext,
    PromptForm,
)
from jp_nb.notebook.prompt.forms.stock_signal import StockSignal
from jp_nb.rendering.prompt_texts import form_text, prompt_text
from jp_nb.toolkit.function_tools.tool_errors import summarize_error
from jp_nb.toolkit.question_types.answer_types import SecretAnswer

log = logging.getLogger(__name__)

LABELS: Final = {
    "back": form_text.BACK_LABEL,
    "next": form_text.NEXT_LABEL,
    "submit": prompt_text.SUBMIT_LABEL,
    "decline": prompt_text.DECLINE_LABEL,
    "cancel": prompt_text.CANCEL_LABEL,
    "discard": form_text.DISCARD_LABEL,
    "reply": form_text.REPLY_BUTTON_LABEL,
    "stop": form_text.STOP_TURN_LABEL,
    "resume": form_text.BACK_LABEL,
}
"""Label of each button, by its action. The label of `send` depends on the answers."""


class Form(PromptForm):
    """The form of any prompt.

    `FormDraft` has a *screen*: a page, the summary, a menu, or a question about what would be lost.
    A page is created when it is first shown, and keeps its content while other pages are visible.
    """

    def __init__(self, prompt: AnyPrompt, context: FormContext) -> None:
        first = prompt.pages[0] if isinstance(prompt, FormPrompt) else prompt
        title = prompt_text.format_header(first) or _format_topic(first)
        super().__init__(prompt, title, context)
        self._first = first
        self._draft = FormDraft(prompt, "form")
        self._pages: dict[int, FormPage] = {}
        self._temporary: widgets.Widget | None = None  # a screen that is shown only once
        self._buttons = FormButtons(first, self._press, self._answer_at_once)
        self._menu: widgets.VBox | None = None  # created on first use
        self._signal: StockSignal | None = None  # while stock widgets replace the modules
        self._stock_note: widgets.Widget | None = None
        self._top = make_html("", "progress")
        self._body = make_box("body")
        self._arrange()

        if isinstance(prompt, ActionPrompt):
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
            if prompt.changes:
                self._form.add_class("jp-nb-wide")

        self._draw()

    def _arrange(self) -> None:
        """Put the parts of the form below each other."""
        stock: list[widgets.Widget] = []
        if self._signal is not None:
            stock.append(self._signal.widget)
        if self._stock_note is not None:
            stock.append(self._stock_note)

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
                return self._writing or bool(self._reply_box.value.strip())
            case _:
                return False

    def _expire(self) -> None:
        # Keep the page's answer and turn to the next page.
        page = self._page
        picked = page.read_and_keep({}).draft.answer if page.is_touched({}) else None
        self._run_action(lambda: self._draft.expire(picked))
        if self._draft.end is None:
            self._show_note(form_text.TIME_WENT)

    def close_all_widgets(self) -> None:
        """Close all widgets, including those of hidden pages."""
        if self._signal is not None:
            self._signal.stop()

        super().close_all_widgets()
        for page in self._pages.values():
            page.close()

        if self._menu is not None:
            close_widgets(self._menu)

        self._buttons.close()

    @property
    def _page(self) -> FormPage:
        # The current page, also while another screen covers it.
        number = self._draft.page
        if number not in self._pages:
            prompt = self._get_page_prompt()
            in_form = not self._draft.is_single
            self._pages[number] = FormPage(prompt, self._on_change, in_form=in_form)
        return self._pages[number]

    def _get_page_prompt(self) -> SimplePrompt:
        return self._draft.question if self._draft.questions else self._first

    @cached_property
    def _reply_box(self) -> widgets.Textarea:
        reply_box = widgets.Textarea(rows=3)
        reply_box.add_class("jp-nb-control")
        reply_box.observe(lambda _: self._on_change(), names="value")
        return reply_box

    def _make_menu(self) -> widgets.VBox:
        label = make_text(form_text.REPLY_LABEL, "field-name")
        return make_box(
            "page",
            make_text(form_text.MENU_QUESTION, "question"),
            make_text(form_text.MENU_HINT, "hint"),
            make_box("field", label, self._reply_box),
        )

    def _on_change(self, is_new: bool = True) -> None:
        self._show_checked_count()
        if is_new:  # the message was about the previous content
            self._show_note("")
        self._clock.restart()

    # --- stock widgets, for pages that cannot load a module --------------------------------------

    @property
    def is_stock(self) -> bool:
        """True while stock widgets replace all modules."""
        return self._signal is not None

    def use_stock_widgets(self) -> bool:
        """Show the form with stock widgets alone; return False if an answer needs a module.

        The form is shown as before once a page loads the module of the form.
        """
        if self._over or self._needs_module():
            return False

        self._signal = StockSignal(self._loop, lambda: self._loop.post(self._handle_shown))
        self._stock_note = make_html(self._render_stock_note(), "hint")
        self._redraw()
        return True

    def _needs_module(self) -> bool:
        # A secret must not be in the state of a widget, which a notebook may save.
        fields = chain.from_iterable(page.fields for page in self._draft.questions)
        return any(isinstance(field.question.answer_type, SecretAnswer) for field in fields)

    def _render_stock_note(self) -> str:
        # The lab extension looks for this role, which `form.ts` sets, before it shows a form above
        # the notebook too.
        mark = f"jp-nb-form-{self.widget.model_id}"
        return f'<span class="{mark}" role="group">{escape(form_text.STOCK_WIDGETS)}</span>'

    def _handle_module(self) -> None:
        if self._signal is None or self._over:
            return

        self._signal.stop()
        previous = [self._signal.widget, self._stock_note]
        self._signal = None
        self._stock_note = None
        self._redraw()

        for widget in previous:
            if widget is not None:
                close_widgets(widget)

    def _redraw(self) -> None:
        self._arrange()
        self._draft.redraw()
        self._draw()

    # --- screens ---------------------------------------------------------------------------------

    def _draw(self) -> None:
        match self._draft.screen:
            case "page":
                self._draw_page()
            case "summary":
                self._draw_summary()
            case "menu":
                self._draw_menu()
            case "discard":
                self._draw_discard()
            case other:
                assert_never(other)

    def _draw_page(self) -> None:
        draft = self._draft
        page = self._page
        page.use_stock_views(stock=self.is_stock)
        items = list(page.items.values())
        buttons, others = self._list_page_actions()
        field_controls = [field.control for field in page.fields]

        self._show_step(
            page.widget,
            buttons,
            others,
            primary="submit" if draft.is_last else "next",
            controls=[
                *(control.model_id for control in field_controls if control.widget is not None),
                *(item.model_id for item in items),
            ],
            answers=page.choices,
            items=items,
        )
        self._draw_items()

        if draft.must_answer:
            reading = page.read_and_keep({})
            page.show_problems(reading)
            if not reading.problems:
                self._show_note(form_text.DEMANDED)

    def _list_page_actions(self) -> tuple[dict[str, FormAction], dict[str, FormAction]]:
        """Return the actions of the page's buttons, and those without a button."""
        draft = self._draft
        page = self._page
        buttons: dict[str, FormAction] = {}
        others: dict[str, FormAction] = {"unchosen": self._submit_untouched}

        if len(draft.pages) > 1:
            buttons["back"] = self._go_back
        if not draft.is_last:
            buttons["next"] = lambda message: self._leave_page(message, draft.next)
        if draft.can_submit and page.choices is None:
            buttons["submit"] = lambda message: self._leave_page(message, draft.submit)
        if draft.can_decline:
            buttons["decline"] = self._decline

        if draft.can_cancel:
            # Esc also cancels a decision, which has no button for it.
            cancels = buttons if draft.questions else others
            cancels["cancel"] = self._cancel
        if page.items:
            others["decide"] = self._decide
        return buttons, others

    def _draw_summary(self) -> None:
        draft = self._draft
        lines = form_text.summarize_form(draft)
        screen = make_box(
            "page",
            make_text(form_text.get_summary_heading(draft), "question"),
            make_stock_summary(lines, self._press) if self.is_stock else make_summary(lines),
        )
        buttons: dict[str, FormAction] = {
            "resume": self._resume,
            "send": lambda _: draft.send(),
        }
        others: dict[str, FormAction] = {
            "go": lambda message: draft.go(_parse_number(message)),
            "empty": lambda message: draft.confirm_empty(_parse_number(message)),
            "cancel": self._resume,
            "unchosen": self._report_no_choice,
        }
        primary = "" if draft.open_pages else "send"
        self._show_step(screen, buttons, others, primary=primary, is_kept=False)

    def _draw_menu(self) -> None:
        if self._menu is None:
            self._menu = self._make_menu()

        buttons: dict[str, FormAction] = {
            "reply": self._reply,
            "stop": lambda _: self._draft.stop(),
            "resume": self._resume,
        }
        self._show_step(
            self._menu,
            buttons,
            {"cancel": self._resume, "unchosen": self._reply},
            primary="reply",
            controls=[self._reply_box.model_id],
        )

    def _draw_discard(self) -> None:
        screen = make_box("page", make_text(form_text.DISCARD_WARNING, "question"))
        buttons: dict[str, FormAction] = {
            "resume": self._resume,
            "discard": lambda _: self._draft.discard(),
        }
        others = {"cancel": self._resume, "unchosen": self._report_no_choice}
        self._show_step(screen, buttons, others, is_kept=False)

    def _show_step(
        self,
        widget: widgets.Widget,
        buttons: Mapping[str, FormAction],
        others: Mapping[str, FormAction],
        *,
        primary: str = "",
        controls: Sequence[str] = (),
        answers: FormControl | None = None,
        items: Sequence[DecisionItem] = (),
        is_kept: bool = True,
    ) -> None:
        """Show `widget` with `buttons`. `others` are actions without a button; Enter is `primary`.

        `controls` are the ids of its models. The buttons of `answers`, which may be about `items`,
        are the first ones. If `widget` `is_kept`, it may be shown again later.
        """
        previous = [] if self._temporary is None else [self._temporary]
        self._temporary = None if is_kept else widget
        self._actions = {**others, **buttons}
        self._writing = False
        self._note.value = ""
        self._top.value = self._format_progress()
        widget.add_class(f"jp-nb-screen-{widget.model_id}")
        self._body.children = (widget,)

        if self.is_stock:
            # The second click of a double click must not act on the next step.
            previous += self._buttons.renew_step_buttons()
        previous += self._buttons.show(
            {name: self._get_label(name) for name in buttons},
            primary=primary,
            disabled={"back"} if self._draft.is_first else (),
            answers=answers,
            items=items,
        )
        guard_widgets(self.widget)

        with self._bridge.hold_sync():  # send one message, after those of the new widgets
            self._bridge.controls = list(controls)
            self._bridge.screen = f"jp-nb-screen-{widget.model_id}"
            self._bridge.step = self._draft.step

        for earlier in previous:
            close_widgets(earlier)

    # --- decisions, also about parts that the user can leave out ---------------------------------

    def _answer_at_once(self, answer: Answered) -> None:
        self._run_action(partial(self._draft.decide, answer))

    def _draw_items(self) -> None:
        self._buttons.add_item_buttons(self._page.items.values())
        guard_widgets(self.widget)
        self._show_checked_count()

    def _show_checked_count(self) -> None:
        if self._buttons.has_decisions:
            count = sum(item.is_checked for item in self._page.items.values())
            self._buttons.show_checked_count(count)

    def _decide(self, message: FormMessage) -> None:
        number = _parse_number(message)
        if self._buttons.has_decision(number):
            picks = self._page.read_picks(message)
            self._draft.decide(Answered(self._buttons.get_decision(number), "form", picks=picks))

    def _get_label(self, name: str) -> str:
        if name == "send":
            if self._draft.open_pages:
                return form_text.SEND_AS_IS_LABEL
            return form_text.SEND_ALL_LABEL

        if name == "submit" and len(self._draft.pages) == 1:
            return prompt_text.get_submit_label(self._draft.question)
        return LABELS[name]

    def _format_progress(self) -> str:
        asked = self._get_page_prompt()
        parts = [prompt_text.format_header(asked)]
        topic = None
        if self._draft.screen == "page":
            parts.append(form_text.format_progress(self._draft))
            topic = _format_topic(asked)

        code = "".join(f"<span>{isolate_direction(part)}</span>" for part in parts if part)
        if topic:
            code += f"<b>{isolate_direction(topic)}</b>"

        return code

    # --- actions ---------------------------------------------------------------------------------

    def _run_action(self, act: Callable[[], None]) -> None:
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
        self._draft.store_draft(self._page.read_and_keep(message).draft)
        self._page.show_problems(NO_PROBLEMS)
        self._draft.back()

    def _leave_page(self, message: FormMessage, go: Callable[[], None]) -> None:
        """Keep the input of the page, and `go` to the next step if it has no error."""
        page = self._page
        reading = page.read_and_keep(message)
        self._draft.store_draft(reading.draft)
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
        page = self._page
        entered = page.is_touched(message)
        reading = page.read_and_keep(message).draft
        was_answered = self._draft.pages[self._draft.page].answer is not None
        # A proposal that the user did not touch is not an answer.
        if reading.answer is not None and (entered or was_answered):
            self._draft.store_draft(reading)
        self._draft.cancel(entered=entered)

    def _decline(self, message: FormMessage) -> None:
        self._page.show_problems(NO_PROBLEMS)
        self._draft.decline(entered=self._page.is_touched(message))

    def _resume(self, _: FormMessage) -> None:
        self._draft.resume()

    def _submit_untouched(self, message: FormMessage) -> None:
        # A key submitted the page, but the user changed nothing on it.
        draft = self._draft
        primary = "submit" if draft.is_last else "next"
        if draft.pages[draft.page].answer is not None:  # answered before
            self._actions[primary](message)
        elif draft.is_single:
            self._note_no_answer(message)
        else:
            self._show_note(form_text.UNTOUCHED.format(self._get_label(primary)))

    def _note_no_answer(self, message: FormMessage) -> None:
        problems = self._page.read_and_keep(message).problems
        if problems:
            self._show_note(next(iter(problems.values())))
        else:
            self._show_note(prompt_text.NOTHING_CHANGED.format(self._get_label("submit")))

    def _reply(self, message: FormMessage) -> None:
        value = message.get("value")
        words = value if isinstance(value, str) else str(self._reply_box.value)
        if words.strip():
            self._draft.reply(words)
        else:
            self._show_note(form_text.REPLY_IS_BLANK)
            self._bridge.focus(0)

    def _report_no_choice(self, _: FormMessage) -> None:
        self._show_note(prompt_text.NO_BUTTON_CHOSEN)


def _format_topic(prompt: SimplePrompt) -> str | None:
    return form_text.format_page_header(prompt) if isinstance(prompt, QuestionPrompt) else None


def _parse_number(message: FormMessage) -> int:
    """Return the number in the name of a button, such as 2 for `go-2`; -1 without one."""
    place = str(message.get("place"))
    return int(place) if re.fullmatch("[0-9]{1,3}", place) else -1
