"""The list of options in a bare page: no kernel, no JupyterLab, the real script and styles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

import jp_nb as jp

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

    from tests.kit.forms import ControlUser


_FILES = files("jp_nb.notebook.prompt")
HTML = '<div class="jp-nb-form"><div class="jp-nb-control"></div></div><button>Next</button>'
MOUNT = """async ([source, state]) => {
    const listeners = [];
    const model = {
        get: name => state[name],
        set: changed => {
            for (const [name, value] of Object.entries(changed)) {
                if (JSON.stringify(state[name]) === JSON.stringify(value)) continue;
                state[name] = value;
                for (const [names, call] of listeners) {
                    if (names.split(" ").includes(`change:${name}`)) call();
                }
            }
        },
        on: (names, call) => listeners.push([names, call]),
        off: (names, call) => listeners.splice(listeners.findIndex(each => each[1] === call), 1),
        save_changes: () => {},
    };
    window.shown = model;
    window.state = state;
    window.widget ??= (await import(URL.createObjectURL(
        new Blob([source], { type: "text/javascript" })
    ))).default;
    window.draw = () => {
        window.leave?.();
        const el = Object.assign(document.createElement("div"), { className: "jp-nb-control" });
        document.querySelector(".jp-nb-control").replaceWith(el);
        window.leave = window.widget.render({ model, el });
    };
    window.draw();
}"""
STATIC = ("question", "options", "multi", "wanted", "recommended", "other", "optional")
STATE = (*STATIC, "picks", "custom", "draft", "search", "writing")


class ChoicesPage:
    """The list of a question in a page, read as a form reads it."""

    def __init__(self, page: Page, control: ControlUser) -> None:
        self.page = page
        self.control = control
        self.widget: Any = control.widget
        self.mount()

    def mount(self) -> None:
        """Draw it from the widget's state, as a page that is loaded again does."""
        state = {name: getattr(self.widget, name) for name in STATE}
        source = (_FILES / "modules" / "choices.js").read_text(encoding="utf-8")
        self.page.evaluate(MOUNT, [source, state])

    @property
    def state(self) -> dict[str, Any]:
        """Return the state of the page."""
        return dict(self.page.evaluate("state"))

    def sync(self) -> None:
        """Let the widget have what the page holds."""
        for name, value in self.state.items():
            setattr(self.widget, name, value)

    def read(self, **more: Any) -> Any:
        """Return what a click on Submit would answer."""
        state = self.state
        return self.control.read({"picks": state["picks"], "custom": state["custom"], **more})

    def option(self, label: str) -> Locator:
        """Return the radio button or the box of an option."""
        listed = self.page.locator(".jp-nb-options")
        if self.widget.multi:
            return listed.get_by_role("checkbox", name=label, exact=True)
        return listed.get_by_role("radio", name=label, exact=True)

    @property
    def own_text(self) -> Locator:
        """The box for an own text."""
        return self.page.locator(".jp-nb-own-text")

    @property
    def filter(self) -> Locator:
        """The field that the list is filtered by."""
        return self.page.get_by_role("searchbox", name="Filter the options")

    @property
    def counts(self) -> str:
        """Return the line with the numbers of shown and selected options."""
        return self.page.get_by_role("status").inner_text().strip()


OpenChoices = Callable[[jp.Question], ChoicesPage]


@pytest.fixture(scope="module")
def bare_page(chromium: Browser) -> Iterator[Page]:
    """A page with the styles of a form and nothing else."""
    page = chromium.new_page(viewport={"width": 800, "height": 700})
    page.set_default_timeout(20_000)
    page.set_content(HTML)
    for name in ("form.css", "choices.css"):
        page.add_style_tag(content=(_FILES / name).read_text(encoding="utf-8"))
    yield page
    page.close()


@pytest.fixture
def choices(bare_page: Page) -> OpenChoices:
    """A function that shows the list of a question."""
    from tests.kit.forms import ControlUser  # others may do without widgets

    def shown(question: jp.Question) -> ChoicesPage:
        return ChoicesPage(bare_page, ControlUser(question))

    return shown
