from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.prompt import presence
from jp_nb.notebook.prompt.presence import FormRoute, Presence, StdinRoute
from tests.kit.questions import unavailable

NOTEBOOK = Presence(kernel=True, allow_stdin=True, cell_id=True)
CONSOLE = replace(NOTEBOOK, cell_id=False)
PAGE = replace(NOTEBOOK, page=True)
CONSOLE_BESIDE_A_PAGE = replace(PAGE, cell_id=False)
OTHER_KERNEL = replace(NOTEBOOK, no_forms="this kernel receives no form input")
HEADLESS = Presence(kernel=True)
TERMINAL = Presence(terminal=True)
PIPE = Presence()
CALLBACK = replace(NOTEBOOK, cell_runs=False)

HEADLESS_REASON = "the front end does not allow input (the notebook runs headless)"


@pytest.mark.req("RCP-26")
def test_front_end_and_channel_choose_form_stdin_or_no_prompt(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Presence, Any, Any]] = [
        (PAGE, "auto", FormRoute(3.0, stdin=True, stays=True)),
        (PAGE, "widget", FormRoute(3.0, stdin=False, stays=True)),
        (PAGE, "stdin", StdinRoute("stdin")),
        (CONSOLE_BESIDE_A_PAGE, "auto", FormRoute(1.5, stdin=True)),
        (NOTEBOOK, "auto", FormRoute(3.0, stdin=True)),
        (NOTEBOOK, "widget", FormRoute(3.0, stdin=False)),
        (NOTEBOOK, "stdin", StdinRoute("stdin")),
        (NOTEBOOK, "never", unavailable("prompt.channel is 'never'")),
        (CONSOLE, "auto", FormRoute(1.5, stdin=True)),
        (OTHER_KERNEL, "auto", StdinRoute("stdin")),
        (
            OTHER_KERNEL,
            "widget",
            unavailable("prompt.channel is 'widget', but this kernel receives no form input"),
        ),
        (HEADLESS, "auto", unavailable(HEADLESS_REASON)),
        (HEADLESS, "widget", unavailable(HEADLESS_REASON)),
        (HEADLESS, "stdin", unavailable(HEADLESS_REASON)),
        (TERMINAL, "auto", StdinRoute("terminal")),
        (TERMINAL, "stdin", StdinRoute("terminal")),
        (TERMINAL, "never", unavailable("prompt.channel is 'never'")),
        (
            TERMINAL,
            "widget",
            unavailable("prompt.channel is 'widget', but no kernel can show a form"),
        ),
        (PIPE, "auto", unavailable("neither a kernel nor a terminal is available")),
        (CALLBACK, "auto", unavailable("no cell is running")),
    ]
    for where, channel, route in rows:
        with subtests.test(where=where, channel=channel):
            assert where.route(PromptConfig(channel=channel)) == route


def test_console_waits_no_longer_than_its_timeout() -> None:
    assert CONSOLE.route(PromptConfig(rendered_timeout_s=0.5)) == FormRoute(0.5, stdin=True)


class Kernel:
    """A kernel with only the request of the running cell."""

    def __init__(self, **request: Any) -> None:
        self.request = request

    def get_parent(self, channel: str) -> dict[str, Any]:
        return self.request


def test_request_of_the_cell_describes_its_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(
        header={"msg_type": "execute_request"},
        content={"allow_stdin": True},
        metadata={"cellId": "c1"},
    )
    monkeypatch.setattr(presence, "get_running_kernel", lambda: kernel)
    there = Presence.here()
    assert (there.kernel, there.cell_runs, there.allow_stdin, there.cell_id) == (True,) * 4
    assert there.no_forms == (
        "this kernel receives no form input while a cell runs (it has no session.feed_identities)"
    )


@pytest.mark.req("RCP-26")
def test_request_without_allow_stdin_has_no_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = Kernel(header={"msg_type": "execute_request"})
    monkeypatch.setattr(presence, "get_running_kernel", lambda: silent)
    assert Presence.here().route(PromptConfig()) == unavailable(HEADLESS_REASON)


def test_without_a_kernel_a_terminal_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "get_running_kernel", lambda: None)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert Presence.here() == TERMINAL
