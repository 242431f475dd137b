"""Warn of characters in a new source that a reader does not see, or takes for others.

Source: `docs/cells.md`.
"""

from __future__ import annotations

import re
from typing import Final

from jp_nb.exact_form import escape_invisible, make_lookalike_key, spell_lines
from jp_nb.text import pluralize

_NAMING_LIMIT: Final = 8
_CODE_POINT: Final = re.compile(r"⟨U\+([0-9A-F]{4,6})⟩")
"""A character as `spell_lines` spells it, such as `⟨U+200B⟩`."""
_WORD: Final = re.compile(r"\w+")


def describe_hidden_characters(before: str, after: str) -> list[str]:
    """Return warnings about characters of `after` that a reader does not see or takes for others.

    Such characters are invisible, change the order of text, or look like letters of `before`.
    """
    warnings: list[str] = []

    # Invisible characters, and those that change the order of text, are spelled as code points.
    _, spelled_lines = spell_lines(after)
    code_points = _CODE_POINT.findall("\n".join(spelled_lines))
    if code_points:
        named = sorted(set(code_points))[:_NAMING_LIMIT]
        names = ", ".join(f"U+{code_point}" for code_point in named)
        count = len(code_points)
        noun = pluralize("character", count)
        warnings.append(
            f"{count} {noun} that cannot be seen or may confuse, shown as code points: {names}"
        )

    if "\r" in after:
        warnings.append(
            "a carriage return (U+000D): JupyterLab puts text that is typed into such a cell "
            "at the wrong place"
        )

    lookalikes = _find_lookalikes(before, after)[:_NAMING_LIMIT]
    if lookalikes:
        names = ", ".join(f"{char} U+{ord(char):04X}" for char in lookalikes)
        warnings.append(f"letters that look like Latin ones: {names}")
    return warnings


def find_suspect_lines(code: str) -> list[int]:
    """Return the numbers, from 1, of lines with characters that are invisible or look like others.

    `js/src/page/hidden_characters.ts` has the same rules, for code that a page inserts.
    """
    # `escape_invisible` also escapes characters that look like others. It escapes tabs too, which
    # are usual in code.
    lines = enumerate(code.replace("\t", " ").split("\n"), start=1)
    return [n for n, line in lines if not line.isascii() and escape_invisible(line) != line]


def _find_lookalikes(before: str, after: str) -> list[str]:
    """Return the letters in `after` that look like Latin ones, and may deceive.

    A whole text in another alphabet deceives no reader. The letters count in a line that looks like
    a line of `before`, and in a word that also has Latin letters.
    """
    if after.isascii():
        return []

    old_lines = {make_lookalike_key(line): line for line in before.split("\n")}
    lookalikes: dict[str, None] = {}
    for line in after.split("\n"):
        if line.isascii():
            continue

        old_line = old_lines.get(make_lookalike_key(line), line)
        if old_line != line:
            suspicious_texts = [line]
        else:
            suspicious_texts = [word for word in _WORD.findall(line) if _has_latin_letter(word)]

        for text in suspicious_texts:
            lookalikes |= dict.fromkeys(filter(_is_lookalike, text))

    return list(lookalikes)


def _has_latin_letter(word: str) -> bool:
    return any(char.isascii() and char.isalpha() for char in word)


def _is_lookalike(char: str) -> bool:
    """Return True for a letter of another alphabet that looks like a Latin one."""
    if char.isascii() or not char.isalpha():
        return False
    key = make_lookalike_key(char)
    return key != char and key.isascii() and key.isalpha() and len(key) == 1
