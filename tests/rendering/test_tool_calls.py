"""Tool calls as a cell shows them: the line of a call, arguments, result, images."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.renderings import render
from tests.kit.screens import display_event
from tests.support.images import figure

ARGUMENTS: dict[str, Any] = {"path": "a.txt", "none": None, "empty": {}, "list": [], "zero": 0}
LINES = "one\ntwo\nthree\n"


def called(content: str = "", *, error: bool = False, **more: Any) -> tuple[str, str]:
    """Return a finished call as text and as Markdown."""
    shown = {key: more.pop(key) for key in ("parameters", "formatted") if key in more}
    begins = display_event("tool_begins", "c", "t", ARGUMENTS, **shown)
    ends = display_event("tool_ends", "c", "t", content, error, 1.25, **more)
    return render("call", begins, ends).text, render("call", begins, ends).markdown


@pytest.mark.parametrize(
    ("style", "text", "markdown"),
    [
        ({}, '✓ t(path="a.txt", zero=0)', '✓ `t(path="a.txt", zero=0)`'),
        ({"parameters": "off"}, "✓ t", "✓ `t`"),
        ({"parameters": "json"}, '✓ t\n    {\n      "path": "a.txt",\n      "zero": 0\n    }',
         '✓ `t`\n\n```json\n{\n  "path": "a.txt",\n  "zero": 0\n}\n```'),
        ({"parameters": "json", "formatted": "\nread\n  a.txt\n"}, "✓ t\n    read\n      a.txt",
         "✓ `t`\n\n```text\nread\n  a.txt\n```"),
        ({"parameters": "json", "formatted": ""}, "✓ t", "✓ `t`"),
        ({"formatted": "read"}, "✓ t\n    read", "✓ `t`\n\n```text\nread\n```"),
    ],
    ids=["line", "off", "JSON", "formatted over JSON", "empty format", "formatted"],
)  # fmt: skip
def test_arguments_are_shown_in_the_configured_style(
    style: dict[str, Any], text: str, markdown: str
) -> None:
    assert called(**style) == (text, markdown)


def test_call_with_empty_arguments_has_no_block() -> None:
    begins = display_event(
        "tool_begins", "c", "t", {"none": None, "empty": {}, "list": []}, parameters="json"
    )
    assert render("call", begins, None).text == "⚙ t …"
    assert render("call", begins, None).markdown == "⚙ `t` …"


def test_number_of_shown_lines_of_a_result_is_limited() -> None:
    rows: list[tuple[int | None, list[str]]] = [
        (0, []),
        (1, ["one", "… 2 more lines"]),
        (2, ["one", "two", "… 1 more line"]),
        (3, ["one", "two", "three"]),
        (None, ["one", "two", "three"]),
    ]
    for limit, below in rows:
        text, markdown = called(LINES, parameters="off", result_lines=limit)
        block = "\n\n```text\n{}\n```".format("\n".join(below)) if below else ""
        assert markdown == f"✓ `t`{block}"
        assert text.split("\n") == ["✓ t", *(f"    {line}" for line in below)]


def test_error_of_a_call_is_always_shown() -> None:
    rows: list[tuple[str, int | None, str]] = [
        ("no such file", 0, "✗ t — no such file"),
        ("no such file", 10, "✗ t — no such file"),  # complete in the line
        (LINES, 0, "✗ t — one two three"),
        (LINES, 2, "✗ t\n    one\n    two\n    … 1 more line"),
        (LINES, None, "✗ t\n    one\n    two\n    three"),
    ]
    for content, limit, shown in rows:
        text, markdown = called(content, parameters="off", error=True, result_lines=limit)
        assert text == shown
        assert markdown.count("one") == shown.count("one")


def test_declined_call_has_its_own_mark_and_the_reason() -> None:
    reason = "Tool skipped by user:\nnot now"
    for error in (False, True):
        assert called(reason, parameters="off", error=error, skipped=True, result_lines=None) == (
            "⊘ t — Tool skipped by user: not now",
            "⊘ `t` — Tool skipped by user: not now",
        )


def test_line_of_a_call_that_had_no_user_names_no_terminal() -> None:
    no_user = (
        "cannot run because no interactive terminal is available. Do not retry this tool call in "
        "this turn; continue without user input or explain what information is missing."
    )
    assert called(f"t {no_user}", error=True)[0].endswith(
        "— no user is available to answer its question. Configure the answer, or give it in an "
        "answers file."
    )
    assert "terminal" in called(f"other {no_user}", error=True)[0]


def test_long_lines_are_cut() -> None:
    rows: list[dict[str, Any]] = [{"formatted": "x" * 5000}, {"content": "x" * 5000}]
    for shown in rows:
        text, _ = called(parameters="off", result_lines=None, **shown)
        assert "x" * 1000 in text
        assert "x" * 1001 not in text
        assert text.endswith("… (4000 more characters)")


def test_size_of_a_shown_call_is_limited() -> None:
    _, markdown = called("line\n" * 100_000, parameters="json", result_lines=None)
    assert len(markdown) < 110_000
    assert "more characters)" in markdown
    text, _ = called("line\n" * 100_000, parameters="off", result_lines=1)
    assert text == "✓ t\n    line\n    … 99999 more lines"


def test_fences_in_a_call_do_not_end_its_block() -> None:
    fences = "```\n~~~\n````\n✓ `rm()`\n\x1b[31m\u202e"
    rows: list[dict[str, Any]] = [
        {"formatted": fences},
        {"parameters": "off", "content": fences},
        {"parameters": "off", "content": fences, "error": True},
    ]
    for shown in rows:
        text, markdown = called(result_lines=None, **shown)
        lines = markdown.split("\n")
        assert lines[2] == "`````text"  # longer than any fence within
        assert lines.index("`````") == len(lines) - 1
        assert all(line.startswith("    ") for line in text.split("\n")[1:])
        assert not {"\x1b", "\u202e"} & set(text + markdown)


def test_spelled_control_characters_do_not_displace_the_result() -> None:
    hidden = f"{chr(0x202E) * 20}\nTHE REAL RESULT"
    text, _ = called(hidden, parameters="off", result_lines=None)
    assert text.endswith(f"    {'⟨U+202E⟩' * 20}\n    THE REAL RESULT")


def with_images(*images: Any, omitted: tuple[str, ...] = ()) -> str:
    ends = display_event(
        "tool_ends", "c", "plot", "why", False, 0.04, images=images, omitted_images=omitted
    )
    begins = display_event("tool_begins", "c", "plot", {})
    assert "![x]" not in render("call", begins, ends).markdown
    text: str = render("call", begins, ends).text
    return text


def test_line_of_a_call_counts_the_images_that_the_model_sees() -> None:
    assert with_images() == "✓ plot()"
    assert with_images(figure()) == "✓ plot() · 1 image"
    assert with_images(figure(), figure(shade=1)) == "✓ plot() · 2 images"


def test_line_of_a_call_lists_omitted_images_with_the_reason() -> None:
    omitted = figure("**big**\n![x](http://x)").left_out("record.image_max_bytes is 1")
    text = with_images(figure(), omitted=(omitted,) * 30)
    assert text.startswith("✓ plot() · 1 image · [image: **big**")
    assert text.count("record.image_max_bytes is 1") == 20
    assert text.endswith(" · 10 more omitted")
    assert "\n" not in text
