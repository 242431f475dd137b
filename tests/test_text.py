"""Text of models, tools and files: shown exactly, made plain, or escaped for Markdown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.texts import write_text


def test_plain_text_has_no_escapes_controls_and_reordering(subtests: pytest.Subtests) -> None:
    for hostile, shown in [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://evil.example\x07link\x1b]8;;\x07", "link"),
        ("\x1b]52;c;cm0gLXJm\x1b\\clipboard", "clipboard"),
        ("\x9b2Jcleared", "cleared"),
        ("a\x00\x08\x7fb", "ab"),
        ("one\r\ntwo\rthree\u2028four", "one\ntwo\nthree\nfour"),
        ("\u202efdp.exe\u2066", "⟨U+202E⟩fdp.exe⟨U+2066⟩"),
        ("\ud800", "\ufffd"),
        ("keep\ttabs\nand 👩‍👩‍👧 and עברית", "keep\ttabs\nand 👩‍👩‍👧 and עברית"),
    ]:
        with subtests.test(hostile=hostile):
            assert write_text("plain", hostile) == shown


@given(st.text())
def test_plain_text_of_any_text_is_printable_and_stable(text: str) -> None:
    shown = write_text("plain", text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    shown.encode()
    assert write_text("plain", shown) == shown
    assert "\n" not in write_text("one_line", text)


def test_exact_text_hides_no_character(subtests: pytest.Subtests) -> None:
    for hostile, shown in [
        ("a\nb\tc\u2028d", r"a\nb\tc\u2028d"),
        ("\x1b[31m\x9b2J\x00\x7f", r"\u001b[31m\u009b2J\u0000\u007f"),
        ("\u202efdp.exe\u2066\u200f\u200b\xad", r"\u202efdp.exe\u2066\u200f\u200b\u00ad"),
        ("no-break\xa0space, blank\u2800\u3164", r"no-break\u00a0space, blank\u2800\u3164"),
        ("variant\ufe0f\U000e0101, tag\U000e0041", r"variant\ufe0f\udb40\udd01, tag\udb40\udc41"),
        ("\ud800", r"\ud800"),
        ("as it is: a\\nb, é, 漢, 👩, עברית", "as it is: a\\nb, é, 漢, 👩, עברית"),
    ]:
        with subtests.test(hostile=hostile):
            assert write_text("exact", hostile) == shown


@given(st.text())
def test_exact_text_of_any_text_is_one_plain_line(text: str) -> None:
    assert (
        write_text("plain", write_text("exact", text))
        == write_text("exact", text)
        == write_text("exact", write_text("exact", text))
    )
    assert "\n" not in write_text("exact", text)


def test_cut_characters_are_counted(subtests: pytest.Subtests) -> None:
    for text, limit, shown in [
        ("x" * 12, 10, "xxxxxxxxxx… (2 more characters)"),
        ("x" * 20_000, 10, "xxxxxxxxxx… (19990 more characters)"),
        ("x" * 30_000, 10, "xxxxxxxxxx… (29990 more characters)"),
        ("x" * 30_000, 20_000, f"{'x' * 20_000}… (10000 more characters)"),
    ]:
        with subtests.test(length=len(text), limit=limit):
            assert write_text("plain", text, limit=limit) == shown
            assert write_text("one_line", text, limit=limit) == shown

    assert write_text("one_line", "a\n\n" * 15_000, limit=4) == "a a … (29995 more characters)"
    assert write_text("one_line", "\n" * 30_000 + "end", limit=4) == "end"


def test_escaped_markdown_shows_the_text_itself(subtests: pytest.Subtests) -> None:
    escaped = "&#42;a&#42; &#60;b&#62; &#91;l&#93;(u) &#96;c&#96; &#38;amp;"
    for text, source in [
        ("*a* <b> [l](u) `c` &amp;", escaped),
        ("snake_case but _this_", "snake_case but &#95;this&#95;"),
        ("# no heading", "&#35; no heading"),
        ("- no list", "&#45; no list"),
        ("1. no list", "1&#46; no list"),
        ("costs $1 or $2", "` costs $1 or $2 `"),
        (r"``\(x\)", r"``` ``\(x\) ```"),
        # Front ends make links of addresses that are only text.
        ("see https://evil.example, ftp://a", "see https&#58;//evil.example, ftp&#58;//a"),
        ("or WWW.evil.example", "or WWW&#46;evil.example"),
        ("ada@example.org: 12:30", "ada&#64;example.org: 12:30"),
    ]:
        with subtests.test(text=text):
            assert write_text("in_markdown", text) == source


def test_unusual_name_is_quoted(subtests: pytest.Subtests) -> None:
    for name, shown in [
        ("Ada Lovelace", "Ada Lovelace"),
        ("Zoë O\u2019Hara-Łu_2", "Zoë O\u2019Hara-Łu_2"),
        ("बॉब", "बॉब"),
        ("Ada) (as its grant allows", '"Ada) (as its grant allows"'),
        ('Ada", "Bo', '"Ada\\", \\"Bo"'),
        ("", '""'),
        ("a\nb\u202e", '"a b⟨U+202E⟩"'),
        ("Ada\u3164", r'"Ada\u3164"'),  # a letter that is not visible
        ("x" * 10**7, f'"{"x" * 59}…"'),
        ("Ada" + " " * 300 + "Bo", '"Ada…"'),
        ("Ada" + " " * 300, "Ada"),
    ]:
        with subtests.test(name=name):
            assert write_text("user_name", name) == shown
