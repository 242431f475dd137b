r"""Text of models, tools and files, as a person may safely read it.

Three things are done with it, by what the reader needs:

    exactly            what people decide about: it stands for one value alone and hides nothing
    made plain         what people only read: no controls, no terminal escapes, no reordering
    Markdown-escaped   one line of plain text in which a Markdown reader sees no markup

What is shown exactly has two notations, each for its own kind of text:

    escaped    JSON: a character that nobody would see, or that looks like another one, is escaped
               as JSON does: `"ls \u200b"`
    spelled    other text: it is spelled out as `⟨U+200B⟩`, because a backslash means itself there;
               so is each `⟨`

An object is shown key by key. A text of several lines is counted and stands in lines of its own,
each behind a bar, so that nothing in it can pass for a key:

    path: "notes.md"
    content: 2 lines
      │ first
      │ second
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import MAX_SHOWN_LEVELS

BAR: Final = "│ "
"""Stands before each line of a text."""
ONE_LINE: Final = "1 line"
MAX_INLINE_CHARS: Final = 100
"""Of a list or an object that is shown in one line."""
MAX_KNOWN_CHARS: Final = 8
"""Of a run of characters whose escaped form is kept for the next one."""
MAX_MARKS: Final = 4
"""Marks on one letter: more of them cover the lines above and below."""
MAX_NAME_CHARS: Final = 60
"""Of a person's name."""
MAX_CHARS: Final = 20_000
"""Longest text made plain; beyond it one reads how much is missing."""

_OF_NAMES: Final = " .-_'\u2019@"
"""Beside letters, marks and digits."""
_ODD = re.compile("[ -~]?[^ -~]+")  # with what a mark at its beginning would stand on
_UNSEEN = re.compile(  # by nobody, although they count as printable
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
_LOOKALIKES: Final = frozenset(  # of the signs that paths, addresses and command lines are made of
    "\u00b4\u02b9\u02bc\u02cb\u02d0\u2010\u2011\u2012\u2024\u2025\u2032\u2033\u2035\u2044\u204e"
    "\u2215\u2216\u2217\u2219\u2223\u2236\u223c\u2571\u2572\u2758\u27cb\u27cd\u29f5\u29f8\u29f9"
    "\ua4f8\ua4fa\ua4fd\ua789\ua78c"
)
_SPELLED = re.compile("⟨U\\+([0-9A-F]{4,6})⟩")
_SPACE_AT_END = re.compile(" $", re.MULTILINE)
_WHITE_AT_END = re.compile("[ \t]$", re.MULTILINE)
_HIDDEN_SPACES = re.compile("^ | $|(?<= ) ")
_EMOJI = re.compile("(?<=[\u2190-\u2bff\u3030-\u3299\U0001f000-\U0001faff])(\ufe0f)")
_KEY = re.compile("[A-Za-z_][A-Za-z0-9_-]*")
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

_LINE_BREAKS = re.compile("\r\n?|[\v\f\x85\u2028\u2029]")
_TERMINAL_ESCAPES = re.compile(
    r"\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # strings: titles, links, clipboards
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_MARKUP = re.compile(
    r"[`*\[\]<>~|&#]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])"
    r"|^[-+=](?=\s)|(?<=^\d)[.)]|(?<=^\d\d)[.)]"  # lists
)
_MATHEMATICS = re.compile(r"[$\\]")

_Escape = Callable[[str], str]


def escape_invisible(text: str) -> str:
    """Return `text` in one line, with a JSON escape for each character that nobody would see.

    Of JSON text it is JSON text with the same meaning.
    """
    return _replaced(text, _as_json)


def spell_invisible(text: str) -> str:
    """Return `text`, such as a name, in one line with every unseen character spelled out.

    So are spaces at either end, and each but the first of several.
    """
    return _HIDDEN_SPACES.sub(_spelled_match, _replaced(text, _spelled, "⟨"))


def spell_editable(text: str) -> str:
    """Return `text` as it is put into a box for editing; `unspell` takes it back."""
    return _WHITE_AT_END.sub(_spelled_match, _replaced(text, _as_in_box, "⟨"))


def unspell(text: str) -> str:
    """Return the text that `text` spells."""
    return _SPELLED.sub(_meant, text)


def spell_prose(text: str) -> str:
    """Return prose with what is unseen spelled out, but for what emoji are made of.

    It may hold what `spell_unseen` made of a name.
    """
    return "".join(
        part if index % 2 else _replaced(part, _as_in_box)
        for index, part in enumerate(_EMOJI.split(text))
    )


def spell_lines(text: str) -> tuple[str, list[str]]:
    """Return how many lines `text` has, in words, and each of them exactly."""
    if not text:
        return "empty", []
    lines = text.split("\n")
    ended = lines[-1] == "" and len(lines) > 1
    if ended:
        lines.pop()
    if len(lines) == 1:
        count = f"{ONE_LINE} with a line break" if ended else ONE_LINE
    else:
        count = f"{len(lines)} lines" if ended else f"{len(lines)} lines, no line break at the end"
    return count, [_line(line) for line in lines]


def format_object(values: Mapping[str, JsonValue]) -> list[str]:
    """Return the lines that show `values`, key by key."""
    return list(_children(values, "", MAX_SHOWN_LEVELS))


def lookalike_key(text: str) -> str:
    """Return something that two texts have in common if somebody may take one for the other."""
    bare = unicodedata.normalize("NFKD", text).translate(_LATIN)
    # Which of its letters comes first may depend on what is around a text from right to left.
    return "".join(sorted(bare)) if _RIGHT_TO_LEFT.search(bare) else bare


def has_right_to_left(text: str) -> bool:
    """Return True if there is a letter in `text` that is read from right to left."""
    return _RIGHT_TO_LEFT.search(text) is not None


def force_left_to_right(line: str) -> str:
    """Return `line` such that a console shows its characters in their order."""
    return f"\u202d{line}\u202c" if has_right_to_left(line) else line


def plain(text: str, *, limit: int = MAX_CHARS) -> str:
    """Return `text` with nothing in it but printable characters, tabs and line breaks."""
    text = _LINE_BREAKS.sub("\n", text)
    text = _CONTROLS.sub("", _TERMINAL_ESCAPES.sub("", text))
    text = _REORDERING.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)
    text = _SURROGATES.sub("\ufffd", text)
    return truncate(text, limit)


def truncate(text: str, limit: int, *, cut: int = 0) -> str:
    """Return at most `limit` characters of `text`, and how many more there are.

    `cut` characters were removed from `text` before.
    """
    more = len(text) - limit + cut
    return f"{text[:limit]}… ({more} more characters)" if len(text) > limit else text


def one_line(text: str, *, limit: int = 500) -> str:
    """Return `text` made plain, in one line."""
    return plain(re.sub(r"[\n\t]+", " ", plain(text)).strip(), limit=limit)


def format_user_name(name: str) -> str:
    """Return the name of a person as it is shown; in quotes if it may pass for other words."""
    line = one_line(name[: 4 * MAX_NAME_CHARS])
    if len(line) > MAX_NAME_CHARS:
        line = f"{line[: MAX_NAME_CHARS - 1]}…"
    return line if _is_plain_name(line) else escape_invisible(json.dumps(line, ensure_ascii=False))


def _is_plain_name(line: str) -> bool:
    return bool(line) and all(
        char in _OF_NAMES or unicodedata.category(char)[0] in "LMN" for char in line
    )


def escape_markdown(text: str) -> str:
    """Return one line of plain `text` such that no Markdown reader sees more than text in it."""
    if _MATHEMATICS.search(text):
        # A page looks for mathematics in what it has rendered, where an escaped dollar sign is a
        # dollar sign; it looks everywhere but in code.
        fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
        return f"{fence} {text} {fence}"
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", text)


# --- characters ------------------------------------------------------------------------------


def _replaced(text: str, escape: _Escape, also: str = "") -> str:
    """Return `text` with an escape for what is not seen, and for the characters `also`."""
    if text.isascii() and text.isprintable():  # none of `also` is ASCII
        return text

    def shown(found: re.Match[str]) -> str:
        run = found[0]
        known = len(run) <= MAX_KNOWN_CHARS
        return _shown_once(run, escape, also) if known else _shown(run, escape, also)

    return _ODD.sub(shown, text)


def _shown(run: str, escape: _Escape, also: str) -> str:
    out = []
    cluster = ""  # a letter and the marks on it
    for char in run:
        if char in also or not _is_seen(char, cluster):
            cluster = ""
            out.append(escape(char))
        else:
            cluster = cluster + char if _is_mark(char) else char
            out.append(char)
    return "".join(out)


_shown_once = lru_cache(maxsize=4096)(_shown)  # a long text repeats the same few runs


@lru_cache(maxsize=4096)
def _is_seen(char: str, cluster: str) -> bool:
    """Return True if somebody who sees `char` behind `cluster` can tell that it is this one."""
    if char.isascii():
        return char.isprintable()
    if not char.isprintable() or char in _LOOKALIKES or _UNSEEN.match(char):
        return False
    if _is_mark(char) and not _carries(cluster):
        return False
    return unicodedata.is_normalized("NFC", cluster + char)


@lru_cache(maxsize=4096)
def _is_mark(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Me")


def _carries(cluster: str) -> bool:
    """Return True if a mark may stand on `cluster`."""
    return 0 < len(cluster) <= MAX_MARKS and unicodedata.category(cluster[0])[0] in "LNM"


def _as_json(char: str) -> str:
    return json.dumps(char)[1:-1]


def _spelled(char: str) -> str:
    return f"⟨U+{ord(char):04X}⟩"


def _as_in_box(char: str) -> str:
    return char if char in "\t\n" else _spelled(char)


def _spelled_match(found: re.Match[str]) -> str:
    return _spelled(found[0])


def _meant(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return chr(code) if code <= 0x10FFFF else found[0]


def _line(line: str) -> str:
    """Return one line of a text; tabs and a space at its end are seen."""
    shown = _replaced(line, _as_in_line, "⟨⇥")
    return _SPACE_AT_END.sub(_spelled_match, shown) if shown.endswith(" ") else shown


def _as_in_line(char: str) -> str:
    return "⇥\t" if char == "\t" else _spelled(char)


# --- objects ---------------------------------------------------------------------------------


def _children(values: Mapping[str, JsonValue], indent: str, depth: int) -> Iterator[str]:
    for key, value in values.items():
        yield from _entry(key if _KEY.fullmatch(key) else _json(key), value, indent, depth)


def _entry(name: str, value: JsonValue, indent: str, depth: int) -> Iterator[str]:
    if isinstance(value, str) and _has_lines(value):
        count, lines = spell_lines(value)
        yield f"{indent}{name}: {count}"
        yield from (f"{indent}  {BAR}{line}" for line in lines)
    elif not isinstance(value, (dict, list)) or not depth or _is_short(value):
        yield f"{indent}{name}: {_json(value)}"
    elif isinstance(value, dict):
        yield f"{indent}{name}: {_many(len(value), 'key')}"
        yield from _children(value, f"{indent}  ", depth - 1)
    else:
        yield f"{indent}{name}: {_many(len(value), 'item')}"
        for index, item in enumerate(value):
            yield from _entry(f"[{index}]", item, f"{indent}  ", depth - 1)


def _has_lines(text: str) -> bool:
    return "\n" in text[:-1]


def _is_short(value: dict[str, JsonValue] | list[JsonValue]) -> bool:
    """Return True if one line shows `value` well."""
    items: Iterable[JsonValue] = value.values() if isinstance(value, dict) else value
    if isinstance(value, list) and not any(isinstance(x, (str, dict, list)) for x in items):
        return True  # numbers
    if len(value) > MAX_INLINE_CHARS:
        return False
    return len(text := _json(value)) <= MAX_INLINE_CHARS and "\\n" not in text


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _json(value: JsonValue) -> str:
    return escape_invisible(json.dumps(value, ensure_ascii=False))
