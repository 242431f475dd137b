r"""Show text so that each text has its own form and nothing in it is hidden, for decisions.

The exact form has two notations:

    escaped    for JSON: invisible and confusable characters are JSON escapes: `"ls \u200b"`
    spelled    for other text, in which a backslash is a backslash: `⟨U+200B⟩`; also for each `⟨`

A character is *confusable* if it looks like another one, such as a slash of mathematics. Each kind
of text has its function:

    escape_invisible  JSON and arguments, in one line; `format_exact_json` makes the JSON
    spell_invisible   names and labels, in one line
    spell_lines       code, line by line
    spell_editable    the text in an edit box; `unspell` reads it
    spell_prose       questions and plans, which may have emoji
    spell_hidden      files of the project: only characters that hide something are spelled
    format_user_name  names of users, as they are or as JSON

`make_lookalike_key` finds texts that look alike. `force_left_to_right` keeps the order of
characters in a console. For text that is only read, `text.py` is enough.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from pydantic import JsonValue

from jp_nb.text import begin_line

ONE_LINE: Final = "1 line"
MAX_KNOWN_CHARS: Final = 8
"""Maximum length of a run of characters whose escaped form is cached."""
MAX_MARKS_ON_LETTER: Final = 4
"""Maximum number of marks on one letter. More of them cover the lines above and below."""
MAX_USER_NAME_CHARS: Final = 60
"""Maximum length of a user's name."""

_NAME_SIGNS: Final = " .-_'\u2019@"
"""Allowed characters of names, in addition to letters, marks, and digits."""
_NON_ASCII_RUNS = re.compile("[ -~]?[^ -~]+")  # with the letter that carries a mark at its start
_INVISIBLE = re.compile(  # although `str.isprintable` is True
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
_LOOKALIKES: Final = frozenset(  # of characters in paths, addresses, and command lines
    "\u00b4\u02b9\u02bc\u02cb\u02d0\u2010\u2011\u2012\u2024\u2025\u2032\u2033\u2035\u2044\u204e"
    "\u2215\u2216\u2217\u2219\u2223\u2236\u223c\u2571\u2572\u2758\u27cb\u27cd\u29f5\u29f8\u29f9"
    "\ua4f8\ua4fa\ua4fd\ua789\ua78c"
)
_SPELLED = re.compile("⟨U\\+([0-9A-F]{4,6})⟩")
_SPACE_AT_END = re.compile(" $", re.MULTILINE)
_WHITE_AT_END = re.compile("[ \t]$", re.MULTILINE)
_HIDDEN_SPACES = re.compile("^ | $|(?<= ) ")
_EMOJI = re.compile("(?<=[\u2190-\u2bff\u3030-\u3299\U0001f000-\U0001faff])(\ufe0f)")
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_LATIN = str.maketrans(  # the letters of Greek and Cyrillic that look like Latin ones
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455\u0458\u0501\u04bb\u051b\u051d"
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0423"
    "\u03b1\u03b9\u03bd\u03bf\u03c1\u03c5"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7",
    "aeopcyxisjdhqwABESIJKMHOPCTXYaivopuABEZHIKMNOPTYX",
)

_EscapeChar = Callable[[str], str]
"""Returns the escape of a character, in one of the two notations."""


def escape_invisible(text: str) -> str:
    """Return `text` in one line, with JSON escapes for invisible and confusable characters.

    JSON text stays JSON text with the same meaning.
    """
    return _escape(text, _escape_json)


def format_exact_json(value: JsonValue) -> str:
    """Return `value` as JSON in exact form: invisible and confusable characters are escaped."""
    return escape_invisible(json.dumps(value, ensure_ascii=False))


def spell_invisible(text: str) -> str:
    """Return `text`, such as a name, in one line, with invisible characters spelled out.

    Spaces at both ends and repeated spaces are also spelled out.
    """
    return _HIDDEN_SPACES.sub(_spell_match, _escape(text, _spell, "⟨"))


def spell_editable(text: str) -> str:
    """Return `text` for an edit box; `unspell` is the inverse.

    A space or tab at the end of a line is spelled out, because a box does not show it.
    """
    return _WHITE_AT_END.sub(_spell_match, _escape(text, _spell_in_box, "⟨"))


def unspell(text: str) -> str:
    """Return `text` with characters in place of their spelled form."""

    def replace(match: re.Match[str]) -> str:
        code = int(match[1], 16)
        return chr(code) if code <= 0x10FFFF else match[0]

    return _SPELLED.sub(replace, text)


def spell_prose(text: str) -> str:
    """Return prose with invisible characters spelled out, except those of emoji.

    `text` may contain results of `spell_invisible`.
    """
    parts = _EMOJI.split(text)  # every second part makes the sign before it an emoji
    parts[::2] = [_escape(part, _spell_in_box) for part in parts[::2]]
    return "".join(parts)


def spell_hidden(text: str) -> str:
    """Return `text` with characters spelled out that are invisible or reverse the order of others.

    Spaces, letters, and signs of any script stay, so that ordinary text is the same.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text

    def spell_if_hidden(char: str) -> str:
        return _spell(char) if _is_hidden(char) else char

    return "".join(map(spell_if_hidden, text))


@lru_cache(maxsize=4096)
def _is_hidden(char: str) -> bool:
    if char in "\t\n\ufe0f":  # the last one makes the sign before it an emoji
        return False
    return unicodedata.category(char)[0] == "C" or _INVISIBLE.match(char) is not None


def spell_lines(text: str) -> tuple[str, list[str]]:
    """Return the number of lines of `text` in words, and each line in exact form.

    A tab is shown as `⇥` and a tab.
    """
    if not text:
        return "empty", []

    lines = text.split("\n")
    has_final_break = lines[-1] == "" and len(lines) > 1
    if has_final_break:
        lines.pop()

    if len(lines) == 1:
        count = f"{ONE_LINE} with a line break" if has_final_break else ONE_LINE
    elif has_final_break:
        count = f"{len(lines)} lines"
    else:
        count = f"{len(lines)} lines, no line break at the end"

    spelled = (_escape(line, _spell_in_line, "⟨⇥") for line in lines)
    return count, [_SPACE_AT_END.sub(_spell_match, line) for line in spelled]


def make_lookalike_key(text: str) -> str:
    """Return a key that is equal for texts that look alike."""
    bare = unicodedata.normalize("NFKD", text).translate(_LATIN)
    # The displayed order of a text from right to left depends on the text around it.
    return "".join(sorted(bare)) if _RIGHT_TO_LEFT.search(bare) else bare


def has_right_to_left(text: str) -> bool:
    """Return True if `text` contains letters that are read from right to left."""
    return _RIGHT_TO_LEFT.search(text) is not None


def force_left_to_right(line: str) -> str:
    """Return `line` with controls that make a console keep the order of characters."""
    return f"\u202d{line}\u202c" if has_right_to_left(line) else line


def format_user_name(name: str) -> str:
    """Return the name of a user for display, in quotes if it could pass for other text.

    In quotes, it is in exact form.
    """
    line, is_cut = begin_line(name, MAX_USER_NAME_CHARS)
    if is_cut:
        line = f"{line[: MAX_USER_NAME_CHARS - 1]}…"

    has_name_chars = all(
        char in _NAME_SIGNS or unicodedata.category(char)[0] in "LMN" for char in line
    )
    is_plain = bool(line) and has_name_chars and not _INVISIBLE.search(line)
    return line if is_plain else format_exact_json(line)


def _escape(text: str, escape: _EscapeChar, also: str = "") -> str:
    """Return `text` with escapes of characters that are not recognizable, and of those in `also`.

    Only runs of other characters than printable ASCII are looked at.
    """
    if text.isascii() and text.isprintable():  # none of `also` is ASCII
        return text

    def escape_match(match: re.Match[str]) -> str:
        run = match[0]
        escape_run = _escape_run_cached if len(run) <= MAX_KNOWN_CHARS else _escape_run
        return escape_run(run, escape, also)

    return _NON_ASCII_RUNS.sub(escape_match, text)


def _escape_run(run: str, escape: _EscapeChar, also: str) -> str:
    """Escape the characters of `run` that a reader cannot recognize, and those in `also`."""
    escaped: list[str] = []
    cluster = ""  # the last letter, and the marks on it so far

    for char in run:
        if char in also or not _is_recognizable(char, cluster):
            cluster = ""
            escaped.append(escape(char))
        else:
            cluster = cluster + char if _is_mark(char) else char
            escaped.append(char)

    return "".join(escaped)


_escape_run_cached = lru_cache(maxsize=4096)(_escape_run)  # runs are often repeated


@lru_cache(maxsize=4096)
def _is_recognizable(char: str, cluster: str) -> bool:
    """Return True if a reader can tell `char` from all others, after the letter in `cluster`.

    A mark must be on a letter, a digit, or another mark. A letter with its marks must be in its
    normal form, because `é` also has another one that looks the same.
    """
    if char.isascii():
        return char.isprintable()
    if not char.isprintable() or char in _LOOKALIKES or _INVISIBLE.match(char):
        return False

    if _is_mark(char):
        has_room = 0 < len(cluster) <= MAX_MARKS_ON_LETTER
        if not has_room or unicodedata.category(cluster[0])[0] not in "LNM":
            return False

    return unicodedata.is_normalized("NFC", cluster + char)


@lru_cache(maxsize=4096)
def _is_mark(char: str) -> bool:
    """Return True for a character that is drawn on the one before it, such as an accent."""
    return unicodedata.category(char) in ("Mn", "Me")


def _escape_json(char: str) -> str:
    return json.dumps(char)[1:-1]


def _spell(char: str) -> str:
    return f"⟨U+{ord(char):04X}⟩"


def _spell_in_box(char: str) -> str:
    return char if char in "\t\n" else _spell(char)


def _spell_match(match: re.Match[str]) -> str:
    return _spell(match[0])


def _spell_in_line(char: str) -> str:
    return "⇥\t" if char == "\t" else _spell(char)
