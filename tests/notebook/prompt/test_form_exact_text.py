"""A long text that a decision is about: in parts on a form, and code with colors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.forms import FormUser
from tests.kit.kinds import make
from tests.kit.questions import decision_prompt


@contextmanager
def shown(value: Any, **more: Any) -> Iterator[FormUser]:
    """Show a permission with `value` as its arguments."""
    detail = make("prompt_detail", "Arguments", value, **more)
    user = FormUser(prompt=decision_prompt("permission", "write", detail))
    yield user
    user.close()


def find(user: FormUser, name: str) -> list[str]:
    """Return the HTML of the widgets with the class `name`."""
    named = [each for each in user.widgets if name in getattr(each, "_dom_classes", ())]
    return [each.value for each in named]


def read_lines(user: FormUser) -> list[str]:
    """Return the lines of the visible part."""
    [html] = find(user, "jp-nb-exact")
    return unescape(re.sub("<[^>]*>", "", html.replace("</div><div>", "\n"))).split("\n")


def read_place(user: FormUser) -> str:
    """Return the words that name the visible part; "" if the text has only one."""
    return "".join(find(user, "jp-nb-part"))


def read_parts(user: FormUser) -> list[tuple[str, list[str]]]:
    """Turn to each part; return its words and its lines."""
    parts = [(read_place(user), read_lines(user))]
    while parts[0][0]:
        user.click("Next part")
        if read_place(user) == parts[0][0]:
            break
        parts.append((read_place(user), read_lines(user)))

    return parts


def read_numbers(place: str) -> tuple[int, int]:
    """Return the numbers of the first and of the last line of a part: (1, 2) of "lines 1 to 2"."""
    numbers = [int(each) for each in re.findall("[0-9]+", place.partition(": ")[2])]
    *named, _ = numbers or [1, 0]
    return named[0], named[-1]


def test_long_text_is_shown_in_parts() -> None:
    lines = [f"line {n}" for n in range(1, 2501)]
    with shown("\n".join(lines)) as user:
        parts = read_parts(user)
        assert [place for place, _ in parts] == [
            "Part 1 of 3: lines 1 to 1000 of 2500",
            "Part 2 of 3: lines 1001 to 2000 of 2500",
            "Part 3 of 3: lines 2001 to 2500 of 2500",
        ]
        assert [line for _, part in parts for line in part] == lines

        assert read_place(user).startswith("Part 1 of 3")
        user.click("Previous part")
        assert read_place(user).startswith("Part 3 of 3")


def test_short_text_has_one_part_and_no_buttons() -> None:
    with shown("a <b>\n\nb\n") as user:
        assert find(user, "jp-nb-caption") == ['<bdi dir="auto">Arguments: 3 lines</bdi>']
        assert read_lines(user) == ["a <b>", "", "b"]
        assert find(user, "jp-nb-part") == []


@given(
    st.lists(st.text(alphabet="ab⟨⟩\\U+2000\u200b", max_size=30), max_size=6),
    st.integers(1, 5),
    st.integers(10, 20),
)
def test_parts_hold_every_character_once(lines: list[str], most: int, chars: int) -> None:
    value = "\n".join(lines)
    with shown(value) as user:
        whole = read_lines(user)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jp_nb.notebook.prompt.forms.exact_text.MAX_PART_LINES", most)
        patch.setattr("jp_nb.notebook.prompt.forms.exact_text.MAX_PART_CHARS", chars)
        with shown(value) as user:
            parts = read_parts(user)

    found: list[str] = []
    last_number = 0
    for place, part in parts:
        number, last_number_here = read_numbers(place)
        first, *others = part
        if number == last_number:
            found[-1] += first
        else:
            found.append(first)

        found += others
        last_number = last_number_here
        assert len(part) <= most
        assert len("".join(part)) <= chars

    assert found == whole


def test_part_does_not_end_within_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jp_nb.notebook.prompt.forms.exact_text.MAX_PART_CHARS", 10)
    with shown("12345\u200b6") as user:
        assert [lines for _, lines in read_parts(user)] == [["12345"], ["⟨U+200B⟩6"]]


def test_code_is_highlighted_and_keeps_every_character() -> None:
    code = ["def f(x):  # <b>", '    return "a & b", 12', "%%bash", '"""open', "\t⟨U+200B⟩ 'x"]
    with shown("\n".join(code), language="python") as user:
        [html] = find(user, "jp-nb-exact")
        colored = read_lines(user)

    with shown("\n".join(code)) as user:
        assert colored == read_lines(user)

    first, second, *_ = html.split("</div><div>")
    assert '<span class="jp-nb-code-keyword">def</span>' in first
    assert '<span class="jp-nb-code-comment"># &lt;b&gt;</span>' in first
    assert '<span class="jp-nb-code-number">12</span>' in second


def test_unknown_language_has_no_colors() -> None:
    with shown("a < b", language="no-such-language") as user:
        [html] = find(user, "jp-nb-exact")
    assert html == '<div><bdo dir="ltr">a &lt; b</bdo></div>'


MEGABYTE = {"content": "\n".join(f"zeile {n} ä ö é — “x” \u200b" for n in range(35_000))}


@pytest.mark.parametrize("arguments", [MEGABYTE, {"content": MEGABYTE["content"].split("\n")}])
def test_megabyte_of_arguments_is_drawn_quickly(arguments: dict[str, Any]) -> None:
    began = process_time()
    with shown(arguments) as user:
        assert find(user, "jp-nb-exact")
    assert process_time() - began < 8  # a quadratic loop takes minutes
