"""Captured output of code: the same as in a page at the end, and bounded."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from jp_nb.notebook.display.capture import OutputCapture
from jp_nb.notebook.published import BoundedText

MAX_RUN_IMAGES = 20
MAX_RUN_OUTPUTS = 100
MAX_OUTPUT_TEXT_CHARS = 25_000


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n123").decode()


def kept(*pieces: str) -> str:
    text = BoundedText()
    for piece in pieces:
        text.add(piece)
    return str(text)


def display(text: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"data": {"text/plain": text, **more}, "transient": {"display_id": name}}


def test_text_is_kept_as_a_terminal_shows_it() -> None:
    rows: list[tuple[list[str], str]] = [
        (["a\n", "b"], "a\nb"),
        (["10%\r", "20%\r", "30%"], "30%"),
        (["\r10%", "\r20%", "\n", "done\n"], "20%\ndone\n"),
        (["a\r\nb\r\n"], "a\nb\n"),
        (["x\r"], "x"),
        (["a\rb\nc\rd"], "b\nd"),
    ]
    for pieces, text in rows:
        assert kept(*pieces) == text
        assert kept(*"".join(pieces)) == text  # however it is cut


@pytest.mark.parametrize("line", ["a line\n", "\r50%", "x"])
def test_only_beginning_and_end_of_a_flood_are_kept(line: str) -> None:
    text = BoundedText()
    for _ in range(60_000):
        text.add(line)
    sizes = [len(part) for part in vars(text).values() if isinstance(part, str)]
    assert sum(sizes) + len("".join(vars(text)["_tail"])) <= 4 * MAX_OUTPUT_TEXT_CHARS
    assert len(str(text)) <= 3 * MAX_OUTPUT_TEXT_CHARS + 100
    assert ("characters omitted" in str(text)) is ("\r" not in line)


def test_only_first_and_last_of_many_outputs_are_kept() -> None:
    capture = OutputCapture()
    for number in range(10_000):
        capture.add_message("display_data", display(str(number)))
    outputs = capture.outputs()
    assert len(outputs) == 2 * MAX_RUN_OUTPUTS + 1
    assert [outputs[0].text, outputs[-1].text] == ["0", "9999"]
    assert outputs[MAX_RUN_OUTPUTS].text == "[… 9800 outputs omitted …]"


def test_only_the_first_valid_images_are_kept() -> None:
    capture = OutputCapture()
    capture.add_message("display_data", display("lies", **{"image/png": "bm90IGEgcGljdHVyZQ=="}))
    for _ in range(MAX_RUN_IMAGES + 3):
        capture.add_message("display_data", display("figure", **{"image/png": PNG}))
    lies, *figures = capture.outputs()
    assert lies.images == ()
    assert [len(each.images) for each in figures] == [1] * MAX_RUN_IMAGES + [0] * 3
    assert figures[-1].text.startswith("figure [image omitted")


def test_updates_and_clearing_are_applied() -> None:
    capture = OutputCapture()
    capture.add_text("stdout", "gone\n")
    capture.add_message("clear_output", {"wait": True})
    assert [each.text for each in capture.outputs()] == ["gone\n"]
    capture.add_message("display_data", display("1", "a"))
    capture.add_text("stderr", "x")
    capture.add_message("update_display_data", display("2", "a"))
    capture.add_message("update_display_data", display("nobody's", "b"))
    assert [each.text for each in capture.outputs()] == ["2", "x"]
    capture.add_message("clear_output", {})
    assert capture.outputs() == ()


def test_terminal_escapes_are_removed() -> None:
    capture = OutputCapture()
    capture.add_text("stdout", "\x1b[31mred\x1b[0m \u202eback\x1b]0;title\x07\x00")
    assert capture.outputs()[0].text == "red ⟨U+202E⟩back"
