"""Form with several pages, one for each question, and a summary before it is sent.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from html import escape
from typing import Final, assert_never

import ipywidgets as widgets

from jp_nb.agent.prompting.form_draft import FormDraft
from jp_nb.agent.prompting.prompts import FormPrompt, Unavailable
from jp_nb.notebook.prompt.form_control import FormMessage
from jp_nb.notebook.prompt.form_messages import guard_widgets
from jp_nb.notebook.prompt.form_page import ALL_FIELDS, NO_PROBLEMS, FormPage
from jp_nb.notebook.prompt.form_widgets import (
    close_widgets,
    isolate_direction,
    make_box,
    make_button,
    make_html,
    make_text,
)
from jp_nb.notebook.prompt.prompt_form import FormAction, FormContext, PromptForm, make_action_row
from jp_nb.rendering.prompt_texts import form_text, prompt_text
from jp_nb.rendering.prompt_texts.form_text import SummaryLine
from jp_nb.toolkit.function_tools.tool_errors import error_summary

log = logging.getLogger(__name__)


def _render_summary_row(number: int, line: SummaryLine) -> str:
    # The rows are HTML of one widget, because many widgets are slow.
    change = form_text.ANSWER_LABEL if line.is_open else form_text.CHANGE_LABEL
    buttons = [_render_inner_button(f"go-{number}", change, line.asked)]
    if line.empty is not None:
        buttons.append(_render_inner_button(f"empty-{number}", line.empty, line.asked))

    state = ' class="jp-nb-open"' if line.is_open else ""
    return (
        f"<li{state}><div><span>{number + 1}. {isolate_direction(line.asked)}</span>"
        f"<b>{isolate_direction(line.answer)}</b></div><div>{''.join(buttons)}</div></li>"
    )


def _render_inner_button(does: str, label: str, about: str) -> str:
    name = escape(f"{label}: {about}")
    return (
        f'<button type="button" class="jupyter-button jp-nb-do-{does}" aria-label="{name}">'
        f"{escape(label)}</button>"
    )


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


class PagedForm(PromptForm):
    """A form with several questions.

    A page is created when it is first shown, and keeps its content while other pages are visible.
    """

    def __init__(self, prompt: FormPrompt, context: FormContext) -> None:
        first = prompt.pages[0]
        title = prompt_text.format_header(first) or form_text.format_page_header(first)
        super().__init__(prompt, title, context)
        self._prompt = prompt
        self._draft = FormDraft(prompt, "form")
        self._pages: dict[int, FormPage] = {}
        self._temporary: widgets.Widget | None = None  # closed when another step is shown
        self._buttons: dict[str, widgets.Button] = {}  # created on first use
        self._menu: widgets.VBox | None = None  # created on first use
        self._top = make_html("", "progress")
        self._body = make_box("body")
        self._row = make_action_row(first, ())
        self._asked_by = self._row.children
        self._form.children = [self._top, self._body, self._bridge, self._note, self._row]
        self._draw()

    @property
    def _step(self) -> int:
        return self._draft.step

    def _is_busy(self) -> bool:
        match self._draft.screen:
            case "page":
                return self._writing or any(each.control.in_use() for each in self._page.fields)
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
        super().close_all_widgets()
        for page in self._pages.values():
            page.close()

        if self._menu is not None:
            close_widgets(self._menu)

        for hidden in self._buttons.values():
            close_widgets(hidden)

    @property
    def _page(self) -> FormPage:
        # The current page, also while another screen covers it.
        number = self._draft.page
        if number not in self._pages:
            self._pages[number] = FormPage(self._draft.question, self._on_change)
        return self._pages[number]

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
        if is_new:  # the message was about the previous content
            self._show_note("")
        self._clock.restart()

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
        buttons: dict[str, FormAction] = {}
        if len(self._prompt.pages) > 1:
            buttons["back"] = self._go_back

        if not draft.is_last:
            buttons["next"] = lambda message: self._leave_page(message, draft.next)

        if draft.can_submit:
            buttons["submit"] = lambda message: self._leave_page(message, draft.submit)

        if self._prompt.declines:
            buttons["decline"] = self._decline

        buttons["cancel"] = self._cancel
        primary = "submit" if draft.is_last else "next"
        controls = [each.control for each in page.fields]
        self._show_step(
            page.widget,
            buttons,
            {"unchosen": self._submit_untouched},
            primary=primary,
            controls=[control.model_id for control in controls if control.widget is not None],
        )
        if draft.must_answer:
            reading = page.read_and_keep({})
            page.show_problems(reading)
            if not reading.problems:
                self._show_note(form_text.DEMANDED)

    def _draw_summary(self) -> None:
        draft = self._draft
        lines = enumerate(form_text.summarize_form(draft))
        rows = [_render_summary_row(number, line) for number, line in lines]
        screen = make_box(
            "page",
            make_text(form_text.get_summary_heading(draft), "question"),
            make_html(f"<ol>{''.join(rows)}</ol>", "summary"),
        )
        buttons: dict[str, FormAction] = {
            "resume": self._resume,
            "send": lambda _: draft.send(),
        }
        others: dict[str, FormAction] = {
            "go": lambda message: draft.go(_parse_page_number(message)),
            "empty": lambda message: draft.confirm_empty(_parse_page_number(message)),
            "cancel": self._resume,
            "unchosen": self._report_no_choice,
        }
        self._show_step(screen, buttons, others, is_kept=False)

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
        is_kept: bool = True,
    ) -> None:
        """Show `widget` with `buttons`. `others` are actions without a button; Enter is `primary`.

        `controls` are the ids of its models. If it `is_kept`, it may be shown again later.
        """
        previous = self._temporary
        self._temporary = None if is_kept else widget
        self._actions = {**others, **buttons}
        self._writing = False
        self._note.value = ""
        self._top.value = self._format_progress()
        widget.add_class(f"jp-nb-screen-{widget.model_id}")
        self._body.children = (widget,)
        row = [self._get_button(name, primary=name == primary) for name in buttons]
        self._row.children = (*row, *self._asked_by)
        guard_widgets(self.widget)

        with self._bridge.hold_sync():  # send one message, after those of the new widgets
            self._bridge.controls = list(controls)
            self._bridge.screen = f"jp-nb-screen-{widget.model_id}"
            self._bridge.step = self._draft.step

        if previous is not None:
            close_widgets(previous)

    def _get_button(self, name: str, *, primary: bool) -> widgets.Button:
        if name not in self._buttons:
            self._buttons[name] = make_button("", partial(self._press, name), does=name)

        made = self._buttons[name]
        made.description = self._get_label(name)
        made.button_style = "primary" if primary else ""
        if primary:
            made.add_class("jp-nb-primary")
        else:
            made.remove_class("jp-nb-primary")
        made.disabled = name == "back" and self._draft.is_first

        return made

    def _get_label(self, name: str) -> str:
        if name == "send":
            if self._draft.open_pages:
                return form_text.SEND_AS_IS_LABEL
            return form_text.SEND_ALL_LABEL

        if name == "submit" and len(self._prompt.pages) == 1:
            return prompt_text.get_submit_label(self._prompt.pages[0])
        return LABELS[name]

    def _format_progress(self) -> str:
        asked = self._draft.question
        parts = [prompt_text.format_header(asked)]
        topic = None
        if self._draft.screen == "page":
            parts.append(form_text.format_progress(self._draft))
            topic = form_text.format_page_header(asked)

        code = "".join(f"<span>{isolate_direction(part)}</span>" for part in parts if part)
        if topic:
            code += f"<b>{isolate_direction(topic)}</b>"

        return code

    def _run_action(self, act: Callable[[], None]) -> None:
        before = self._draft.step
        super()._run_action(act)
        if self._draft.end is not None:
            self._finish(self._draft.end)
        elif self._draft.step != before:
            self._begin_step()
            try:
                self._draw()
            except Exception as exc:  # the user could not answer it, so the form ends
                log.exception("A page of a form could not be shown")
                self._finish(Unavailable(f"the form failed: {error_summary(exc)}"))

    def _go_back(self, message: FormMessage) -> None:
        self._draft.store_draft(self._page.read_and_keep(message).draft)
        self._page.show_problems(NO_PROBLEMS)
        self._draft.back()

    def _leave_page(self, message: FormMessage, go: Callable[[], None]) -> None:
        page = self._page
        reading = page.read_and_keep(message)
        self._draft.store_draft(reading.draft)
        if reading.draft.problem:
            page.show_problems(reading)
            first = min(reading.problems)
            if first == ALL_FIELDS:
                first = 0
            self._bridge.focus(first)
        else:
            page.show_problems(NO_PROBLEMS)
            go()

    def _cancel(self, message: FormMessage) -> None:
        page = self._page
        entered = page.is_touched(message)
        reading = page.read_and_keep(message).draft
        if reading.answer is not None and (entered or self._draft.pages[self._draft.page].answer):
            self._draft.store_draft(reading)
        self._draft.cancel(entered=entered)

    def _decline(self, message: FormMessage) -> None:
        self._page.show_problems(NO_PROBLEMS)
        self._draft.decline(entered=self._page.is_touched(message))

    def _resume(self, _: FormMessage) -> None:
        self._draft.resume()

    def _submit_untouched(self, message: FormMessage) -> None:
        # A key submitted the page, but the user changed nothing on it.
        primary = "submit" if self._draft.is_last else "next"
        if self._draft.pages[self._draft.page].answer is not None:  # answered before
            self._actions[primary](message)
        else:
            self._show_note(form_text.UNTOUCHED.format(self._get_label(primary)))

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


def _parse_page_number(message: FormMessage) -> int:
    place = str(message.get("place"))
    return int(place) if re.fullmatch("[0-9]{1,3}", place) else -1
