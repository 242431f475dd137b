"""Permission and delivery in a real kernel: executed calls, the model's results, and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cells import calls, contents, error, kernel_with, start, static, value
from tests.support.exact_blocks import blocks, parse_object
from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

TOOLS = """
import jp_nb as jp

@jp.tool(run="ask")
def send(to: str) -> str:
    return f"sent to {to}"
"""
ASK = "Run the tool `send`?"
EDIT = "Arguments of send"
DELIVER = "Deliver send result to assistant?"
EDIT_RESULT = "Result of send, as sent to the model:"
SCRIPT = calls(("send", {"to": "Ada"}), ("send", {"to": "Bob"})) + '[[replies]]\ntext = "Done."\n'
RESULT = "-c conversation.tools.send.run=unattended -c conversation.tools.send.result="
SKIPPED = "Tool skipped by user"

Steps = list[tuple[str, str | None]]
"""Labels of a form, and the button to click: `=text` submits a text, None closes it."""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("permissions")
    hostile = calls(("send", {"to": HOSTILE})) + '[[replies]]\ntext = "Done."\n'
    with kernel_with(folder, {"send": SCRIPT, "hostile": hostile}, TOOLS) as user:
        yield user


def play(user: FrontEnd, options: str, steps: Steps) -> str:
    """Answer the forms of a turn; return its static output."""
    user.forget()
    request = start(user, "send", options)
    for text, answer in steps:
        beacon = user.form(text)
        user.forget(widgets=False)
        if answer is None:
            user.send(beacon, {"type": "cancel"})
        elif answer.startswith("="):
            user.send(beacon, {"type": "submit", "value": answer[1:]})
        else:
            user.click(answer)
    user.finish(request)
    assert error(user, request) is None
    return static(user, request)


@pytest.mark.parametrize(
    ("options", "steps", "told", "shown"),
    [
        ("", [(ASK, "Allow send for this turn")], ["sent to Ada", "sent to Bob"], ["✓", "✓"]),
        (
            "",
            [
                (ASK, "Skip and say why …"),
                ("Why should send not run?", "=Not her."),
                (ASK, "Run send"),
            ],
            [f"{SKIPPED}: Not her.", "sent to Bob"],
            ["⊘", "✓"],
        ),
        (
            "",
            [
                (ASK, "Edit the arguments …"),
                (EDIT, "=Eve"),
                (ASK, "Edit the arguments …"),
                (EDIT, None),
                (ASK, "Run send"),
            ],
            ["sent to Eve", "sent to Bob"],
            ['✓ send(to="Eve") (arguments edited by you)', "✓"],
        ),
        (
            RESULT + "ask",
            [
                (DELIVER, "Edit the result …"),
                (EDIT_RESULT, "=more or less"),
                (DELIVER, "Withhold the result"),
            ],
            ["more or less", "Result delivery skipped by user."],
            ["✓", "⊘"],
        ),
        (
            RESULT + "edit",
            [(EDIT_RESULT, "=edited"), (EDIT_RESULT, None), (DELIVER, "Deliver the result")],
            ["edited", "sent to Bob"],
            ["✓", "✓"],
        ),
    ],
)
def test_user_decides_about_calls_and_results_on_forms(
    kernel: FrontEnd, options: str, steps: Steps, told: list[str], shown: list[str]
) -> None:
    text = play(kernel, options, steps)
    assert ("Invalid JSON: " in str(kernel.models)) is ('={"to": }' in str(steps))
    assert contents(kernel) == told
    lines = text.splitlines()
    assert [line.startswith(mark) for line, mark in zip(lines, shown, strict=False)] == [True] * 2
    for line, content in zip(lines, told, strict=False):
        assert not line.startswith("⊘") or line.endswith(content)


HOSTILE = "ls \u009b>~/.bashrc\u200b\n\u2028rm e\u0301\nSkip? \u202e"


def test_every_character_of_the_arguments_is_printed_on_stdin(kernel: FrontEnd) -> None:
    kernel.forget(widgets=False)
    request: Any = start(kernel, "hostile", "-c prompt.channel=stdin")
    for key in ("p", "y"):  # `p` prints the same once more
        assert kernel.input_request()["prompt"] == "[y/Y/a/n/N/p/r/e/?] "
        kernel.type(key)
    kernel.finish(request)
    shown = blocks(kernel.printed(request).split("\n"))["Arguments"]
    half = len(shown) // 2
    assert shown[:half] == shown[half:]
    assert parse_object(shown[:half]) == {"to": HOSTILE}
    assert contents(kernel) == [f"sent to {HOSTILE}"]


def test_edited_call_is_marked_in_the_cell_the_log_and_the_turn(kernel: FrontEnd) -> None:
    text = play(
        kernel, "", [(ASK, "Edit the arguments …"), (EDIT, "=Eve"), (ASK, "Run send")]
    )  # and the second as it was
    assert text.splitlines()[:2] == [
        '✓ send(to="Eve") (arguments edited by you)',
        '✓ send(to="Bob")',
    ]
    said = "[[dict(c.arguments), c.edited_by, c.channel, c.requested_arguments and dict("
    said += "c.requested_arguments)] for c in _jp.tool_calls]"
    assert value(kernel, said) == [
        [{"to": "Eve"}, "person", "form", {"to": "Ada"}],
        [{"to": "Bob"}, None, None, None],
    ]
    log = kernel.start("%jp log")
    kernel.finish(log)
    shown = [str(data["text/plain"]) for data in kernel.displays(log)]
    assert 'send(to="Eve") (arguments edited by you, form)' in "".join(shown)
