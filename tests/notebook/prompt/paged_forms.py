"""A form with pages without a kernel or a page: its widgets, and whoever clicks on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ipywidgets

import jp_nb as jp
from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.prompt.controls import Choices, SecretField
from jp_nb.notebook.prompt.form import FormContext
from jp_nb.notebook.prompt.form_output import SeparateOutput
from jp_nb.notebook.prompt.form_pages import PagedForm
from tests.kit.questions import new_prompt


@dataclass
class ManualLoop:
    """A loop of a cell with a manual clock. It runs each posted job at once."""

    now: float = 0.0
    timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    made: int = 0

    @property
    def idle_s(self) -> float:
        return self.now

    def post(self, job: Callable[[], None]) -> None:
        job()

    def call_after_idle(self, seconds: float, job: Callable[[], None]) -> ManualLoop:
        self.made += 1
        self.timers.append((self.now + seconds, job))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def pass_(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [each for each in self.timers if each[0] <= until]:
            self.timers.remove(due[0])
            self.now = due[0][0]
            due[0][1]()
        self.now = until


TIMEOUT = 10.0


def context_of(ends: list[Any], loop: ManualLoop | None = None) -> FormContext:
    """Return the surroundings of a form that reports its ends in `ends`."""
    return FormContext(
        loop or ManualLoop(),  # type: ignore[arg-type]  # as much of a loop as it needs
        SeparateOutput(),
        PromptConfig(timeout_s=TIMEOUT),
        on_seen=lambda: None,
        on_end=ends.append,
    )


class FormUser:
    """Fills in a form like a page: changes widget states, and sends them with each click.

    Attributes:
        loop: The loop of the form. Each page has `TIMEOUT` seconds.
        ends: Reported ends of the form.
    """

    def __init__(
        self,
        *questions: jp.Question,
        partial: bool = True,
        menu: bool = True,
        declines: bool = False,
    ) -> None:
        self.loop = ManualLoop()
        self.ends: list[Any] = []
        pages = tuple(new_prompt("question_prompt", question) for question in questions)
        prompt = new_prompt("form_prompt", pages, partial=partial, menu=menu, declines=declines)
        self.form = PagedForm(prompt, context_of(self.ends, self.loop))

    @property
    def draft(self) -> Any:
        return self.form._draft

    @property
    def fields(self) -> list[Any]:
        """The fields of the page that is up."""
        return self.form._page.fields

    @property
    def boxes(self) -> list[Any]:
        """The widgets of the controls of the page that is up."""
        widgets = [each.control.widget for each in self.fields]
        return [widget for widget in widgets if widget is not None]

    @property
    def labels(self) -> list[str]:
        """The labels of the buttons that are up."""
        row = self.form._row.children
        return [each.description for each in row if isinstance(each, ipywidgets.Button)]

    @property
    def note(self) -> str:
        return str(self.form._note.value)

    @property
    def problems(self) -> list[str]:
        """Return the messages next to the fields."""
        return [text_of(each.problem.value) for each in self.fields]

    def shown(self) -> list[dict[str, Any]]:
        """Return the state of each control on the page."""
        return [state_of(box) for box in self.boxes]

    def send(self, name: str, **more: Any) -> None:
        """Send a message of the page with the state of its controls."""
        message: dict[str, Any] = {"type": name, "step": self.draft.step}
        if self.draft.screen == "page":
            fields = self.shown()
            message |= fields[0] if len(fields) == 1 else {"fields": [*fields]}
        self.form._bridge._handle_custom_msg(message | more, [])


def state_of(box: Any) -> dict[str, Any]:
    if isinstance(box, Choices):
        return {"picks": list(box.picks), "custom": box.custom}
    if isinstance(box, SecretField):
        return {"value": ""}
    return {"index": box.index} if hasattr(box, "index") else {"value": box.value}


def text_of(html: str) -> str:
    return html.partition(">")[2].partition("<")[0]
