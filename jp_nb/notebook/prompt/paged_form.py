"""Several questions as one form in the running cell: pages, a summary, and the ways out.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, Final, assert_never

import ipywidgets as widgets

from jp_nb.agent.form_draft import FormDraft
from jp_nb.agent.prompts import FormPrompt, Unavailable
from jp_nb.notebook.prompt.beacon import Beacon, close_widgets
from jp_nb.notebook.prompt.form_control import Message
from jp_nb.notebook.prompt.form_page import FormPage
from jp_nb.notebook.prompt.form_parts import (
    FormEvents,
    FormFrame,
    actions,
    button,
    html,
    isolated,
    text,
)
from jp_nb.notebook.prompt.form_place import FormPlace
from jp_nb.notebook.prompt.form_screens import ReplyMenu, discard_screen, summary_screen
from jp_nb.rendering import form_words, wording
from jp_nb.rendering.form_record import without_form
from jp_nb.rendering.wording import StaticRecord
from jp_nb.tooling.faults import summary

log = logging.getLogger(__name__)

Act = Callable[[Message], None]

LABELS: Final = {
    "back": form_words.BACK,
    "next": form_words.NEXT,
    "submit": wording.SUBMIT,
    "cancel": wording.CANCEL,
    "discard": form_words.DISCARD,
    "reply": form_words.REPLY,
    "stop": form_words.STOP,
    "resume": form_words.BACK,
}
"""Label of each button, by its action; the label of `send` depends on the answers."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What is up: a widget, the models of its controls, and what its buttons do, in order.

    `primary` is what Enter does, too; "" for nothing.
    """

    widget: widgets.Widget
    does: Sequence[str]
    primary: str = ""
    model_ids: Sequence[str] = ()


class PagedForm:
    """Several questions in a page, from `show` to `close`.

    A page is made when it is first shown; then it stays what it is while others are up.
    """

    def __init__(
        self, prompt: FormPrompt, *, place: FormPlace, notify: bool, timed: bool, events: FormEvents
    ) -> None:
        self._prompt = prompt
        self._events = events
        self._draft = FormDraft(prompt, "form")
        self._pages: dict[int, FormPage] = {}
        self._menu: ReplyMenu | None = None
        self._fleeting: widgets.Widget | None = None  # made for the step that is up
        self._shown: int | None = None  # the last step that a page showed
        self._writing = False
        self._buttons: dict[str, widgets.Button] = {}  # each made when it is first up
        self._top = html("", "progress")
        self._body = widgets.VBox()
        self._body.add_class("jp-nb-body")
        self._note = text("", "note")
        self._actions = actions(prompt.pages[0], ())
        self._by = self._actions.children
        self._beacon = Beacon(notify=notify, timed=timed)
        self._beacon.on_msg(self._hear)
        self._frame = FormFrame(
            place, [self._top, self._body, self._beacon, self._note, self._actions]
        )
        self.widget = self._frame.widget
        self._draw()

    def show(self) -> None:
        """Display the form in the running cell."""
        self._frame.show(without_form(self._prompt))

    def announce(self) -> None:
        """Tell the person of the form where nobody sees it."""
        first = self._prompt.pages[0]
        self._beacon.announce(wording.header(first) or form_words.page_header(first))

    def is_busy(self) -> bool:
        """Return True while a text is being written in it."""
        match self._draft.screen:
            case "page":
                return self._writing or self._page.is_busy()
            case "menu":
                return self._writing or bool(self._reply_menu().text.strip())
            case _:
                return False

    def expire(self) -> None:
        """Take what there is on the page, and turn to the next one: the time for it is over."""
        page = self._page
        picked = page.read(page.untold).draft.answer if page.touched else None
        self._do(lambda: self._draft.expire(picked))
        if self._draft.end is None:
            self._say(form_words.TIME_WENT)

    def give_way(self) -> None:
        """Say that the prompt is answered below, on stdin."""
        self._frame.end(wording.ANSWERED_BELOW, None)
        self.discard()

    def close(self, record: StaticRecord | None) -> None:
        """Take the form away and leave `record` (nothing, if there is none) in its place."""
        self._frame.end(None, record)
        self.discard()

    def discard(self) -> None:
        """Close the widgets, also of pages that are not up."""
        self._frame.discard()
        for page in self._pages.values():
            page.close()
        menu = [] if self._menu is None else [self._menu.widget]
        for hidden in (*menu, *self._buttons.values()):
            close_widgets(hidden)

    # --- what is up --------------------------------------------------------------------------

    @property
    def _page(self) -> FormPage:
        """The page that is up, or that the other screens lead back to."""
        page = self._pages.get(self._draft.page)
        if page is None:
            page = FormPage(self._draft.asked, self._changed)
            self._pages[self._draft.page] = page
        return page

    def _reply_menu(self) -> ReplyMenu:
        if self._menu is None:
            self._menu = ReplyMenu()
            self._menu.area.observe(lambda _: self._changed(), names="value")
        return self._menu

    def _changed(self, anew: bool = True) -> None:
        if anew:  # what was said was about what stood there before
            self._say("")
        self._events.changed()

    def _draw(self) -> None:
        """Show what is up."""
        passed, self._fleeting = self._fleeting, None
        step = self._step()
        self._writing = False
        self._note.value = ""
        self._top.value = self._progress()
        self._body.children = (step.widget,)
        self._actions.children = (*self._row(step), *self._by)
        with self._beacon.hold_sync():  # what the page looks for comes at once, and last
            self._beacon.controls = list(step.model_ids)
            self._beacon.screen = _screen_class(step.widget)
            self._beacon.step = self._draft.step
        if passed is not None:
            close_widgets(passed)
        if self._draft.demanded:
            self._demand()

    def _row(self, step: _Step) -> list[widgets.Button]:
        return [self._button(name, primary=name == step.primary) for name in step.does]

    def _button(self, name: str, *, primary: bool) -> widgets.Button:
        made = self._buttons.get(name)
        if made is None:
            made = button("", partial(self._press, name), does=name)
            self._buttons[name] = made
        made.description = LABELS.get(name) or form_words.send_label(self._draft)
        made.button_style = "primary" if primary else ""
        (made.add_class if primary else made.remove_class)("jp-nb-primary")
        made.disabled = name == "back" and self._draft.is_first
        return made

    def _progress(self) -> str:
        """Return the line above: the label, where one is, and what it is about."""
        label, topic = wording.header(self._draft.asked), form_words.page_header(self._draft.asked)
        on_page = self._draft.screen == "page"
        parts = [label, form_words.progress(self._draft) if on_page else None]
        said = "".join(f"<span>{isolated(part)}</span>" for part in parts if part)
        return f"{said}<b>{isolated(topic)}</b>" if topic and on_page else said

    def _step(self) -> _Step:
        match self._draft.screen:
            case "page":
                return self._page_step()
            case "summary":
                self._fleeting = summary_screen(self._draft)
                return _Step(self._fleeting, ["resume", "send"])
            case "menu":
                menu = self._reply_menu()
                return _Step(
                    menu.widget, ["reply", "stop", "resume"], "reply", [menu.area.model_id]
                )
            case "discard":
                self._fleeting = discard_screen()
                return _Step(self._fleeting, ["resume", "discard"])
            case other:
                assert_never(other)

    def _page_step(self) -> _Step:
        draft = self._draft
        does = [
            *(["back"] if len(self._prompt.pages) > 1 else []),
            *([] if draft.is_last else ["next"]),
            *(["submit"] if draft.can_submit else []),
            "cancel",
        ]
        primary = "submit" if draft.is_last else "next"
        return _Step(self._page.widget, does, primary, self._page.model_ids)

    # --- what the person does ----------------------------------------------------------------

    def _hear(self, _: Any, message: Message, __: Any) -> None:
        current = message.get("step", self._draft.step) == self._draft.step
        match message.get("type"):
            case "rendered":
                self._writing = False
                if current and self._shown != self._draft.step:
                    self._shown = self._draft.step
                    self._events.shown()
            case "writing":
                self._writing = message.get("value") is True
                self._events.changed()
            case str() as name if current:
                self._press(name, message)
            case _:
                self._say(form_words.STALE)

    def _press(self, name: str, message: Message | None = None) -> None:
        verb, _, place = name.partition("-")
        act = self._acts().get(verb)
        if act is None:
            log.debug("Unexpected message from the page of a form: %r", name)
            return
        self._events.changed()
        self._do(partial(act, {**(message or {}), "place": place}))

    def _do(self, act: Callable[[], None]) -> None:
        """Do what leads to another step, or to the end; if it fails, the form stays as it is."""
        before = self._draft.step
        try:
            act()
        except Exception as exc:
            log.exception("A form failed")
            self._say(form_words.FAILED.format(type(exc).__name__))
        if self._draft.end is not None:
            self._events.ended(self._draft.end)
        elif self._draft.step != before:
            self._turn()

    def _turn(self) -> None:
        """Show the next step. One that cannot be shown ends the form: nobody is left before it."""
        self._events.turned()
        try:
            self._draw()
        except Exception as exc:
            log.exception("A page of a form could not be shown")
            self._events.ended(Unavailable(f"the form failed: {summary(exc)}"))

    def _acts(self) -> Mapping[str, Act]:
        draft, resume = self._draft, self._resume
        match draft.screen:
            case "page":
                return {
                    "back": self._back,
                    "next": self._next,
                    **({"submit": self._submit} if draft.can_submit else {}),
                    "cancel": self._cancel,
                    "unchosen": self._unchosen,
                }
            case "summary":
                return {
                    "go": lambda told: draft.go(_place(told)),
                    "empty": lambda told: draft.confirm_empty(_place(told)),
                    "send": lambda _: draft.send(),
                    **dict.fromkeys(("resume", "cancel"), resume),
                    "unchosen": self._nothing_chosen,
                }
            case "menu":
                return {
                    **dict.fromkeys(("reply", "unchosen"), self._reply),
                    "stop": lambda _: draft.stop(),
                    **dict.fromkeys(("resume", "cancel"), resume),
                }
            case "discard":
                return {
                    "discard": lambda _: draft.discard(),
                    **dict.fromkeys(("resume", "cancel"), resume),
                    "unchosen": self._nothing_chosen,
                }
            case other:
                assert_never(other)

    def _next(self, message: Message) -> None:
        if self._leave(message):
            self._draft.next()

    def _submit(self, message: Message) -> None:
        if self._leave(message):
            self._draft.submit()

    def _back(self, message: Message) -> None:
        page = self._page
        self._draft.hold(page.read(page.told(message)).draft)
        page.say_nothing()
        self._draft.back()

    def _leave(self, message: Message) -> bool:
        """Keep what stands on the page; return False, and say why, if something is wrong there."""
        page = self._page
        reading = page.read(page.told(message))
        self._draft.hold(reading.draft)
        if not reading.draft.problem:
            page.say_nothing()
            return True
        page.say(reading)
        self._beacon.focus(max(0, min(reading.problems)))
        return False

    def _demand(self) -> None:
        """Say what is missing on the page to which Submit has led."""
        page = self._page
        reading = page.read(page.untold)
        page.say(reading)
        if not self._draft.pages[self._draft.page].problem:
            self._say(form_words.DEMANDED)

    def _cancel(self, message: Message) -> None:
        page = self._page
        told = page.told(message)
        entered = page.is_touched(told)
        reading = page.read(told).draft
        if reading.answer is not None and (entered or self._draft.pages[self._draft.page].answer):
            self._draft.hold(reading)
        self._draft.cancel(entered=entered)

    def _unchosen(self, message: Message) -> None:
        """A key went down on a page where nothing was touched since it came up."""
        primary = "submit" if self._draft.is_last else "next"
        if self._draft.pages[self._draft.page].answer is not None:  # it was sent before
            self._acts()[primary](message)
        else:
            self._say(form_words.UNTOUCHED.format(LABELS[primary]))

    def _reply(self, message: Message) -> None:
        value = message.get("value")
        words = value if isinstance(value, str) else self._reply_menu().text
        if words.strip():
            self._draft.reply(words)
        else:
            self._say(form_words.REPLY_IS_BLANK)
            self._beacon.focus(0)

    def _resume(self, _: Message) -> None:
        self._draft.resume()

    def _nothing_chosen(self, _: Message) -> None:
        self._say(wording.NOTHING_CHOSEN)

    def _say(self, words: str) -> None:
        self._note.value = escape(words)


def _screen_class(widget: widgets.Widget) -> str:
    """Return the class by which the page finds `widget`."""
    name = f"jp-nb-screen-{widget.model_id}"
    widget.add_class(name)
    return name


def _place(message: Message) -> int:
    """Return the page that a button of the summary is about; -1 if it is none."""
    place = message.get("place")
    known = isinstance(place, str) and place.isascii() and place.isdigit() and len(place) < 4
    return int(str(place)) if known else -1
