"""A long text that a decision is about: in parts on a form, and code with colors."""

from __future__ import annotations

import re
from html import unescape
from time import process_time
from typing import Any

import ipywidgets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.notebook.prompt import exact_text
from jp_nb.notebook.prompt.exact_text import highlight_code, show_exact_text, split_parts
from jp_nb.rendering.transcript import render_call
from jp_nb.text import format_object
from tests.kit.screens import display_event

MEGABYTE = {"content": "\n".join(f"zeile {n} ä ö é — “x” \u200b" for n in range(35_000))}


def shown(widget: ipywidgets.HTML) -> list[str]:
    return unescape(re.sub("<[^>]*>", "", widget.value.replace("</div><div>", "\n"))).split("\n")


def test_long_text_is_shown_in_parts() -> None:
    lines = [f"line {n}" for n in range(1, 2501)]
    _, box, pager = show_exact_text("Arguments", lines)
    previous_part, next_part, place = pager.children
    seen = []
    for words in (
        "Part 1 of 3: lines 1 to 1000 of 2500",
        "Part 2 of 3: lines 1001 to 2000 of 2500",
        "Part 3 of 3: lines 2001 to 2500 of 2500",
    ):
        assert place.value == words
        seen += shown(box.children[0])
        next_part.click()
    assert seen == lines
    assert place.value.startswith("Part 1 of 3")
    previous_part.click()
    assert place.value.startswith("Part 3 of 3")


def test_short_text_has_one_part_and_no_buttons() -> None:
    caption, box = show_exact_text("Arguments", ["a <b>", ""])
    assert caption.value == '<bdi dir="auto">Arguments</bdi>'
    assert shown(box) == ["a <b>", ""]


@given(
    st.lists(st.text(alphabet="ab⟨⟩\\U+2000", max_size=40)),
    st.integers(1, 5),
    st.integers(1, 20),
)
def test_parts_hold_every_character_once(lines: list[str], most: int, chars: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_text, "MAX_PART_LINES", most)
        patch.setattr(exact_text, "MAX_PART_CHARS", chars)
        parts = list(split_parts(lines))
    found: list[str] = []
    for part in parts:
        first, *others = part.lines or ("",)
        if part.continues:
            found[-1] += first
        elif part.lines:
            found.append(first)
        found += others
        assert len(part.lines) <= most
        assert len("".join(part.lines)) <= chars
    assert found == lines


def test_part_does_not_end_within_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_text, "MAX_PART_CHARS", 10)
    assert [part.lines for part in split_parts(["12345⟨U+200B⟩6"])] == [("12345",), ("⟨U+200B⟩6",)]


def test_code_is_highlighted_and_keeps_every_character() -> None:
    code = ["def f(x):  # <b>", '    return "a & b", 12', "%%bash", '"""open', "\t⟨U+200B⟩ 'x"]
    found = highlight_code(code, "python")
    assert [unescape(re.sub("<[^>]*>", "", line)) for line in found] == code
    assert found[0].startswith('<span class="jp-nb-code-keyword">def</span>')
    assert '<span class="jp-nb-code-comment"># &lt;b&gt;</span>' in found[0]
    assert '<span class="jp-nb-code-number">12</span>' in found[1]


def test_unknown_language_has_no_colors() -> None:
    assert highlight_code(["a < b"], "no-such-language") == ["a &lt; b"]


@pytest.mark.parametrize("arguments", [MEGABYTE, {"content": MEGABYTE["content"].split("\n")}])
def test_megabyte_of_arguments_is_drawn_quickly(arguments: dict[str, Any]) -> None:
    begins = display_event("tool_begins", "c1", "write", arguments, hidden=False)
    began = process_time()
    for _ in range(10):
        render_call(begins, None)
    list(show_exact_text("Arguments", format_object(arguments)))
    assert process_time() - began < 3  # escaping the arguments for each drawing took 15 s
