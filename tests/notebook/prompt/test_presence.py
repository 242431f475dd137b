"""The way to ask a user, by the facts about the kernel and its front end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from jp_nb.notebook.prompt.running_cell import presence
from tests.kit.kinds import is_kind, make

AFTERWARDS = {
    (True, False): "then stdin",
    (False, False): "then none",
    (True, True): "then stdin after an interrupt",
    (False, True): "then still the form",
}
"""The way to ask after no page has shown the form, by fields of the route."""


def prompt_route(facts: Mapping[str, Any] | None, **settings: Any) -> str:
    """Return the way to ask the user of a front end, in words.

    `facts` are fields of `Presence`; None means those of this process. `settings` are those of
    `prompt` in the configuration.
    """
    known = presence.Presence.detect() if facts is None else presence.Presence(**facts)
    route = known.choose_route(make("prompt_settings", **settings))
    if isinstance(route, presence.FormRoute):
        return (
            f"form for {route.patience_s:g} s, {AFTERWARDS[route.falls_back_to_stdin, route.stays]}"
        )
    if isinstance(route, presence.StdinRoute):
        return route.channel

    assert is_kind(route, "unavailable")
    return f"unavailable: {route.reason}"


NOTEBOOK = {"has_kernel": True, "allows_stdin": True, "has_cell_id": True}
CONSOLE = {"has_kernel": True, "allows_stdin": True}
PAGE = {**NOTEBOOK, "has_page": True}
CONSOLE_BESIDE_A_PAGE = {**CONSOLE, "has_page": True}
NO_FORMS = "this kernel receives no form input"
OTHER_KERNEL = {**NOTEBOOK, "no_forms_reason": NO_FORMS}
HEADLESS = {"has_kernel": True}
TERMINAL = {"has_terminal": True}
PIPE: dict[str, bool] = {}
CALLBACK = {**NOTEBOOK, "runs_cell": False}

RUNS_HEADLESS = "unavailable: the front end does not allow input (the notebook runs headless)"
NEVER = "unavailable: prompt.channel is 'never'"
WIDGET_ONLY = "unavailable: prompt.channel is 'widget', but"

ROUTES: list[tuple[dict[str, Any], str, str]] = [
    (PAGE, "auto", "form for 3 s, then stdin after an interrupt"),
    (PAGE, "widget", "form for 3 s, then still the form"),
    (PAGE, "stdin", "stdin"),
    (CONSOLE_BESIDE_A_PAGE, "auto", "form for 1.5 s, then stdin"),
    (NOTEBOOK, "auto", "form for 3 s, then stdin"),
    (NOTEBOOK, "widget", "form for 3 s, then none"),
    (NOTEBOOK, "stdin", "stdin"),
    (NOTEBOOK, "never", NEVER),
    (CONSOLE, "auto", "form for 1.5 s, then stdin"),
    (OTHER_KERNEL, "auto", "stdin"),
    (OTHER_KERNEL, "widget", f"{WIDGET_ONLY} {NO_FORMS}"),
    (HEADLESS, "auto", RUNS_HEADLESS),
    (HEADLESS, "widget", RUNS_HEADLESS),
    (HEADLESS, "stdin", RUNS_HEADLESS),
    (TERMINAL, "auto", "terminal"),
    (TERMINAL, "stdin", "terminal"),
    (TERMINAL, "never", NEVER),
    (TERMINAL, "widget", f"{WIDGET_ONLY} no kernel can show a form"),
    (PIPE, "auto", "unavailable: neither a kernel nor a terminal is available"),
    (CALLBACK, "auto", "unavailable: no cell is running"),
]


@pytest.mark.req("RCP-26")
def test_front_end_and_channel_choose_form_stdin_or_no_prompt(subtests: pytest.Subtests) -> None:
    for facts, channel, route in ROUTES:
        with subtests.test(facts=facts, channel=channel):
            assert prompt_route(facts, channel=channel) == route


def test_console_waits_no_longer_than_its_timeout() -> None:
    assert prompt_route(CONSOLE, rendered_timeout_s=0.5) == "form for 0.5 s, then stdin"


class Kernel:
    """A kernel with only the request of the running cell."""

    def __init__(self, **request: Any) -> None:
        self.request = request

    def get_parent(self, channel: str) -> dict[str, Any]:
        return self.request


def run_in(monkeypatch: pytest.MonkeyPatch, kernel: Kernel | None) -> None:
    """Let this process be the one of `kernel`."""
    monkeypatch.setattr(
        "jp_nb.notebook.prompt.running_cell.presence.get_running_kernel", lambda: kernel
    )


def test_request_of_the_cell_describes_its_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    request = {
        "header": {"msg_type": "execute_request"},
        "content": {"allow_stdin": True},
        "metadata": {"cellId": "c1"},
    }
    run_in(monkeypatch, Kernel(**request))
    lacks = "while a cell runs (it has no session.feed_identities)"
    assert prompt_route(None) == "stdin"
    assert prompt_route(None, channel="widget") == f"{WIDGET_ONLY} {NO_FORMS} {lacks}"

    run_in(monkeypatch, Kernel(**request | {"header": {"msg_type": "comm_msg"}}))
    assert prompt_route(None) == "unavailable: no cell is running"


@pytest.mark.req("RCP-26")
def test_request_without_allow_stdin_has_no_user(monkeypatch: pytest.MonkeyPatch) -> None:
    run_in(monkeypatch, Kernel(header={"msg_type": "execute_request"}))
    assert prompt_route(None) == RUNS_HEADLESS


def test_without_a_kernel_a_terminal_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    run_in(monkeypatch, None)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert prompt_route(None) == "terminal"
