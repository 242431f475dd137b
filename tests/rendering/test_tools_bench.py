"""Report on a call of a tool outside a conversation: content for the model, processes, images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.renderings import render
from tests.support.images import figure


def report_text(content: str = "done", *, timed: bool = False, **outcome: Any) -> str:
    outcome_of_call = jp.CallOutcome("t", {}, content, **outcome)
    text: str = render("call_outcome", outcome_of_call, timed=timed).text
    return text


def test_content_for_the_model_is_counted_and_shown() -> None:
    assert report_text() == "The model reads (4 characters):\n    done"
    assert (
        report_text("x", timed=True, seconds=1.25) == "The model reads (1 character, 1.2 s):\n    x"
    )
    assert (
        report_text("", is_error=True) == "The model reads as an error (0 characters):\n(nothing)"
    )
    assert report_text(whole_chars=9_000).startswith(
        "The model reads (4 characters, truncated: the whole result has 9,000):"
    )


def test_structured_content_for_the_record_is_shown() -> None:
    shown = report_text(structured={"a": [1]})
    assert "The record would also keep:\n    {\n" in shown
    assert '"a": [' in shown


def test_failed_call_can_be_debugged() -> None:
    assert report_text(exception=ValueError()).endswith(
        "\n%debug opens the debugger where it failed"
    )
    assert "%debug" not in report_text()


def test_end_of_each_process_is_shown() -> None:
    runs = (
        make("process_run", "{}", "text", "", 0, formats=True),
        make("process_run", "{}", "", "", 3),
        make("process_run", "{}", "out\n", "err\n", -9),
    )
    lines = report_text(processes=runs).split("\n")
    heads = [line for line in lines if not line.startswith("    ")][:-1]
    assert heads == [
        "Its formatter got on stdin:",
        "printed on stdout:",
        "ended with exit status 0",
        "Run 1 got on stdin:",
        "printed nothing and ended with exit status 3",
        "Run 2 got on stdin:",
        "printed on stdout:",
        "printed on stderr:",
        "ended with signal 9",
    ]
    alone = report_text(processes=runs[:2])
    assert "The command got on stdin:" in alone


def test_escape_sequences_of_a_tool_are_removed() -> None:
    report = render(
        "call_outcome", jp.CallOutcome("t", {}, "\x1b[31mred\u202e\n```\n<b>"), timed=False
    )
    for text in (report.text, report.markdown):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "````" in report.markdown  # a fence of the tool's own does not end the block


def test_call_without_images_names_none() -> None:
    assert "images" not in repr(make("tool_call", "c", "plot", {}))
    assert "figure 1, image/png 4×3" in repr(make("tool_call", "c", "plot", {}, images=(figure(),)))


def test_image_has_the_same_name_in_every_report() -> None:
    image = jp.Image("image/gif", b"GIF89a\x04\0\x03\0\0", "[figure] 1")
    words = "(figure) 1, image/gif 4×3, 11 B"
    assert repr(image) == f"<{words}>"
    assert (
        words
        in render(
            "call_outcome", jp.CallOutcome("plot", {}, "Here.", images=(image,)), timed=False
        ).text
    )
    assert f"[image: {words}]" in repr(replace(jp.describe(7), images=(image,)))
    assert repr(jp.Image("image/gif", image.content)) == "<image/gif 4×3, 11 B>"
