"""Captured output of code: the same as in a page at the end, and bounded."""

from __future__ import annotations

import base64
import tracemalloc
from typing import Any

import pytest

from jp_nb.notebook.display.capture import OutputCapture

MAX_RUN_IMAGES = 20
MAX_RUN_OUTPUTS = 100
MAX_OUTPUT_TEXT_CHARS = 25_000


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n123").decode()


Message = tuple[str, dict[str, Any]]
CLEAR: Message = ("clear_output", {})
CLEAR_LATER: Message = ("clear_output", {"wait": True})


def write(text: str, name: str = "stdout") -> Message:
    return "stream", {"name": name, "text": text}


def show(text: str, name: str | None = None, **more: Any) -> Message:
    data = {"text/plain": text, **more}
    return "display_data", {"data": data, "transient": {"display_id": name}}


def update(text: str, name: str) -> Message:
    return "update_display_data", show(text, name)[1]


def capture_outputs(*messages: Message) -> list[tuple[str, int]]:
    """Return the captured outputs of code that published `messages`, as kinds and contents.

    Each output has its text, and its number of images.
    """
    capture = OutputCapture()
    for kind, content in messages:
        capture.add_message(kind, content)
    return [(output.text, len(output.images)) for output in capture.list_outputs()]


def texts_of(*messages: Message) -> list[str]:
    return [text for text, _ in capture_outputs(*messages)]


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
        assert texts_of(*map(write, pieces)) == [text]
        assert texts_of(*map(write, "".join(pieces))) == [text]  # however it is cut


@pytest.mark.parametrize("line", ["a line\n", "\r50%", "x"])
def test_only_beginning_and_end_of_a_flood_are_kept(line: str) -> None:
    flood = [write(line * 200)] * 10_000
    tracemalloc.start()
    [text] = texts_of(*flood)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    sent = len(flood) * len(line) * 200
    assert peak < sent / 2
    assert len(text) <= 3 * MAX_OUTPUT_TEXT_CHARS + 100
    assert ("characters omitted" in text) is ("\r" not in line)


def test_only_first_and_last_of_many_outputs_are_kept() -> None:
    texts = texts_of(*(show(str(number)) for number in range(10_000)))
    assert len(texts) == 2 * MAX_RUN_OUTPUTS + 1
    assert [texts[0], texts[-1]] == ["0", "9999"]
    assert texts[MAX_RUN_OUTPUTS] == "[… 9800 outputs omitted …]"


def test_only_the_first_valid_images_are_kept() -> None:
    lies = show("lies", **{"image/png": "bm90IGEgcGljdHVyZQ=="})
    figure = show("figure", **{"image/png": PNG})
    found = capture_outputs(lies, *[figure] * (MAX_RUN_IMAGES + 3))
    assert [images for _, images in found] == [0, *[1] * MAX_RUN_IMAGES, 0, 0, 0]
    assert found[-1][0].startswith("figure [image omitted")


def test_frames_of_an_animation_do_not_use_up_the_limit_of_images() -> None:
    figure = show("frame", "figure", **{"image/png": PNG})
    drawn_again = [CLEAR_LATER, figure] * (MAX_RUN_IMAGES + 3)
    assert capture_outputs(*drawn_again) == [("frame", 1)]

    other = show("other", **{"image/png": PNG})
    updates = [("update_display_data", figure[1])] * MAX_RUN_IMAGES
    found = capture_outputs(figure, *[other] * (MAX_RUN_IMAGES - 1), *updates)
    assert found[0] == ("frame", 1)


def test_updates_and_clearing_are_applied() -> None:
    cleared = [write("gone\n"), CLEAR_LATER]
    assert texts_of(*cleared) == ["gone\n"]
    shown = [show("1", "a"), write("x", "stderr"), update("2", "a"), update("nobody's", "b")]
    assert texts_of(*cleared, *shown) == ["2", "x"]
    assert texts_of(*cleared, *shown, CLEAR) == []


def test_terminal_escapes_are_removed() -> None:
    written = write("\x1b[31mred\x1b[0m \u202eback\x1b]0;title\x07\x00")
    assert texts_of(written) == ["red ⟨U+202E⟩back"]
