"""Forms without a kernel or a page: their widgets, and a user who clicks on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import ipywidgets

import jp_nb as jp
from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.prompt.controls.controls import make_question_control
from jp_nb.notebook.prompt.controls.form_messages import walk_widgets
from jp_nb.notebook.prompt.forms.form import Form
from jp_nb.notebook.prompt.forms.form_output import SeparateOutput
from jp_nb.notebook.prompt.forms.prompt_form import FormContext
from jp_nb.notebook.prompt.running_cell.pump import FORM_COMMS
from tests.kit.kinds import make


@dataclass
class _ManualLoop:
    """A loop of a cell with a manual clock. It runs each posted job at once."""

    now: float = 0.0
    timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    timer_count: int = 0

    @property
    def idle_s(self) -> float:
        return self.now

    def post(self, job: Callable[[], None]) -> None:
        job()

    def call_after_idle(self, seconds: float, job: Callable[[], None]) -> _ManualTimer:
        self.timer_count += 1
        timer = self.now + seconds, job
        self.timers.append(timer)
        return _ManualTimer(self, timer)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [each for each in self.timers if each[0] <= until]:
            self.timers.remove(due[0])
            self.now = due[0][0]
            due[0][1]()

        self.now = until


@dataclass
class _ManualTimer:
    loop: _ManualLoop
    timer: tuple[float, Callable[[], None]]

    def cancel(self) -> None:
        if self.timer in self.loop.timers:
            self.loop.timers.remove(self.timer)


class FormUser:
    """A user of an open form, who changes the widgets, and sends their state with each click.

    `FormUser(question, …)` opens a form with a page for each question; `FormUser(prompt=prompt)`
    shows any prompt.

    Attributes:
        prompt: The prompt that the form shows.
        ends: The ends that the form reported.
        widget: The widget that contains the form.
    """

    def __init__(
        self,
        *questions: jp.Question,
        prompt: Any = None,
        timeout_s: float = 10.0,
        partial: bool = True,
        menu: bool = True,
        declines: bool = False,
    ) -> None:
        if prompt is None:
            pages = tuple(make("question_prompt", question) for question in questions)
            prompt = make("form_prompt", pages, partial=partial, menu=menu, declines=declines)

        self.prompt = prompt
        self.ends: list[Any] = []
        self._loop = _ManualLoop()
        context = FormContext(
            self._loop,  # type: ignore[arg-type]  # as much of a loop as it needs
            SeparateOutput(),
            PromptConfig(timeout_s=timeout_s),
            on_seen=lambda: None,
            on_end=self.ends.append,
        )
        self._form: Any
        self._form = Form(prompt, context)
        self.widget: Any = self._form.widget

    # --- what the form shows ---------------------------------------------------------------------

    @property
    def screen(self) -> str:
        """The screen of a form with pages: `page`, `summary`, `menu`, or `discard`."""
        return str(self._form._draft.screen)

    @property
    def page(self) -> int:
        """The index of the current page."""
        return int(self._form._draft.page)

    @property
    def step(self) -> int:
        """The number of the current step, which a click names."""
        return int(self._form._step)

    @property
    def boxes(self) -> list[Any]:
        """The widgets of the controls that are up."""
        widgets = [control.widget for control in self._controls]
        return [widget for widget in widgets if widget is not None]

    @property
    def reply_box(self) -> Any:
        """The text box of the menu."""
        return self._form._screens.menu.reply_box

    @property
    def labels(self) -> list[str]:
        """The labels of the buttons that are up."""
        return [each.description for each in self._buttons]

    @property
    def disabled(self) -> list[str]:
        """The labels of the buttons that are up and cannot be pressed."""
        return [each.description for each in self._buttons if each.disabled]

    @property
    def progress(self) -> str:
        """The HTML of the line above the page."""
        return str(self._form._top.value)

    @property
    def note(self) -> str:
        """The message of the form to the user."""
        return str(self._form._note.value)

    @property
    def problems(self) -> list[str]:
        """The messages next to the fields of the page."""
        return [_read_text(each.problem.value) for each in self._form._screens.page.fields]

    @property
    def page_problem(self) -> str:
        """The message below all fields of the page."""
        return _read_text(self._form._screens.page._problem.value)

    @property
    def heading(self) -> str:
        """The HTML above the summary."""
        return str(self._form._body.children[0].children[0].value)

    @property
    def summary(self) -> str:
        """The HTML of the rows of the summary."""
        return str(self._form._body.children[0].children[1].value)

    @property
    def widgets(self) -> list[Any]:
        """All widgets of the form, with their layouts and styles."""
        return [*walk_widgets(self.widget)]

    @property
    def made_pages(self) -> dict[int, Any]:
        """The widgets of the pages that exist, by index."""
        return {index: page.widget for index, page in self._form._screens.pages.items()}

    @property
    def guarded_comms(self) -> set[str]:
        """The ids of the comms that no page can close or open again."""
        return set(FORM_COMMS)

    # --- what the user and the page do -----------------------------------------------------------

    def send(self, action: str, **more: Any) -> None:
        """Send a message of the page, such as `submit`, with the state of its controls."""
        message: dict[str, Any] = {"type": action, "step": self.step}
        if self.screen == "page":
            fields = [_read_state(box) for box in self.boxes]
            message |= fields[0] if len(fields) == 1 else {"fields": [*fields]}
        self.post(message | more)

    def post(self, message: Any) -> None:
        """Send `message` as the part of the form that runs in the page."""
        self._form._bridge._handle_custom_msg(message, [])

    def deliver(self, widget: Any, data: Any) -> None:
        """Send `data` to one of the widgets, as the comm manager of a kernel does."""
        widget.comm.handle_msg({"content": {"comm_id": widget.comm.comm_id, "data": data}})

    def tell(self, action: str, **state: Any) -> None:
        """Send a message of the page with this `state`, through its comm."""
        message = {**state, "type": action, "step": self.step}
        self.deliver(self._form._bridge, {"method": "custom", "content": message})

    def click(self, label: str) -> None:
        """Click the button with `label` where the script of the form does not run."""
        buttons = [each for each in self.widgets if isinstance(each, ipywidgets.Button)]
        [found] = [each for each in buttons if each.description == label]
        self.deliver(found, {"method": "custom", "content": {"event": "click"}})

    def lose_modules(self) -> bool:
        """Show the form in a page without modules; return False if it cannot be shown there."""
        return bool(self._form.use_stock_widgets())

    def pass_time(self, seconds: float) -> None:
        """Let time pass while the user is idle."""
        self._loop.pass_time(seconds)

    @property
    def timer_count(self) -> int:
        """The number of timers that the form has started."""
        return self._loop.timer_count

    def close(self) -> None:
        """Close the form, as at the end of its prompt."""
        self._form.close(None)

    @property
    def _controls(self) -> list[Any]:
        return [each.control for each in self._form._screens.page.fields]

    @property
    def _buttons(self) -> list[Any]:
        return [*_find_buttons(self._form._buttons.row)]


class ControlUser:
    """The control of one question, on a page of a form, or `alone`.

    Attributes:
        widget: Its widget; None for buttons.
        buttons: The labels of buttons that answer at once; None if the answer is submitted.
    """

    def __init__(self, question: jp.Question, *, alone: bool = False) -> None:
        prompt = make("question_prompt", question)
        self._control = make_question_control(prompt, in_form=not alone)
        self.widget: Any = self._control.widget
        buttons = self._control.buttons
        self.buttons = None if buttons is None else [*buttons]

    def read(self, message: Mapping[str, Any]) -> Any:
        """Return the answer that `message` of a page gives, or a `"no_valid_answer"`."""
        return self._control.read_report(message, confirmed=message.get("confirmed") is True)

    def is_in_use(self) -> bool:
        """Return True while the user writes a text."""
        return self._control.in_use()

    def observe(self, call: Callable[[], None]) -> None:
        """Call `call` after each change by the user."""
        self._control.observe(call)


def _find_buttons(row: Any) -> Iterator[Any]:
    for child in row.children:
        if isinstance(child, ipywidgets.Button):
            yield child
        elif hasattr(child, "children"):
            yield from _find_buttons(child)


def _read_state(box: Any) -> dict[str, Any]:
    match type(box).__name__:
        case "Choices":
            return {"picks": list(box.picks), "custom": box.custom}
        case "SecretField":
            return {"value": ""}

    return {"index": box.index} if hasattr(box, "index") else {"value": box.value}


def _read_text(html: str) -> str:
    return html.partition(">")[2].partition("<")[0]
