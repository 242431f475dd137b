"""Complete `%jp` lines and `%%jp` cells with IPython.

Nothing is evaluated or run. After the name of a provider, its list of models may be requested in
the background.

Source: `docs/guide.md`, and the Matcher API of IPython,
https://ipython.readthedocs.io/en/stable/api/generated/IPython.core.completer.html.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from IPython.core.completer import SimpleCompletion

from jp_nb.notebook.completion_names import Names
from jp_nb.notebook.completion_offers import (
    OFFERED,
    TabCompletions,
    complete_path,
    match_prefix,
)
from jp_nb.notebook.magic_options import MagicOption, Offer, Subcommand
from jp_nb.notebook.subcommands import ASK_OPTIONS, SUBCOMMANDS
from jp_nb.session.session import Session

_log = logging.getLogger(__name__)

MAX_COMPLETIONS = 300
MAX_COMPLETION_CHARS = 200  # longer texts are not offered

_CELL_MAGIC = re.compile(r"\s*%%jp(\s|$)")
_MAGIC = re.compile(r"\s*(?P<mark>%%?)jp\s+(?P<asks>q\s)?")
_MENTION = re.compile(r"(?:^|[\s(\[{\"'>])@(?P<name>[\w./~-]*)$")
_PLACEHOLDER = re.compile(r"(?<!\\)\{\{\s*(?P<name>(?:[^\W\d]\w*)?)$")


def complete_cell(cell: str, line: int, column: int, names: Names) -> TabCompletions:
    """Return the completions at the cursor, in `line` and `column` of `cell`, counted from 0.

    Below `%%jp` is the text of the request, in which only names after `{{` and `@` are completed.
    """
    lines = cell.split("\n")
    before = lines[line][:column]
    first = next((i for i, text in enumerate(lines) if text.strip()), 0)
    if line != first and _CELL_MAGIC.match(lines[first]):
        return _limit(_complete_text(before, names))
    if line != first and _CELL_MAGIC.match(before):
        return TabCompletions(column, [])
    return complete_line(before, names)


def complete_line(before: str, names: Names) -> TabCompletions:
    """Return the completions of `before`, the line of a magic up to the cursor."""
    magic = _MAGIC.match(before)
    if magic is None:
        return TabCompletions(len(before), [])
    if magic["asks"] and magic["mark"] == "%":
        return _limit(_complete_text(before, names))

    begin = magic.start("asks") if magic["asks"] else magic.end()
    done, typed = _split_words(before, begin)
    word = _join_chars(typed)
    if magic["mark"] == "%%":
        found = _complete_word(_ASK, done, word, names)
    elif not done:
        found = match_prefix(word, SUBCOMMANDS)
    elif command := SUBCOMMANDS.get(done[0]):
        found = _complete_word(command, done[1:], word, names)
    else:
        return TabCompletions(len(before), [])

    _, start, quote = typed[found.start]
    escaped = {}
    for text in found.texts:
        if form := _escape(text, quote):
            escaped[text] = form

    notes = {escaped[text]: note for text, note in found.notes.items() if text in escaped}

    return _limit(TabCompletions(start, [*escaped.values()], notes))


def _limit(found: TabCompletions) -> TabCompletions:
    # Names of untrusted records must not contain control characters.
    texts = [
        text for text in found.texts if text.isprintable() and len(text) <= MAX_COMPLETION_CHARS
    ]
    return TabCompletions(found.start, list(dict.fromkeys(texts))[:MAX_COMPLETIONS], found.notes)


def _complete_text(before: str, names: Names) -> TabCompletions:
    """Complete a name after `{{`, or after `@`, in the text of a request."""
    mention = _MENTION.search(before)
    if mention is None:
        return _complete_placeholder(before, names)

    # `@data` becomes `{{data}}`, and `@notes.md` becomes its path as code.
    typed = mention["name"]
    start = mention.start("name") - 1
    hidden = () if typed.startswith("_") else ("_",)
    variables = [name for name in names.variables if not name.startswith(hidden)]
    notes: dict[str, str] = {}
    for name in match_prefix(typed, sorted(variables)).texts:
        notes[f"{{{{{name}}}}}"] = "variable"

    files = complete_path(typed, names)
    for name in files.texts:
        path = typed[: files.start] + name
        if path.endswith("/"):
            notes[f"@{path}"] = "folder"
        elif "`" not in path:
            notes[f"`{path}`"] = "file"

    return TabCompletions(start, list(notes), notes)


def _complete_placeholder(before: str, names: Names) -> TabCompletions:
    placeholder = _PLACEHOLDER.search(before)
    if placeholder is None:
        return TabCompletions(len(before), [])
    hidden = () if placeholder["name"].startswith("_") else ("_",)
    offered = sorted(name for name in names.variables if not name.startswith(hidden))
    return match_prefix(before, offered, placeholder.start("name"))


class _TypedChar(NamedTuple):
    """A character of the word before the cursor, without quotes and escapes; "" at the cursor.

    `position` is its position in the line, and `quote` the quote that is open there, or "".
    """

    char: str
    position: int
    quote: str


def _split_words(line: str, position: int) -> tuple[list[str], list[_TypedChar]]:
    """Split `line` from `position` as a shell does: complete words, and the word at the cursor."""
    done: list[str] = []
    typed: list[_TypedChar] = []
    begun = False
    quote = ""

    while position < len(line):
        char = line[position]
        following = line[position + 1 : position + 2]
        escapes = char == "\\" and (not quote or (quote == '"' and following in ('"', "\\")))
        if escapes and following:
            typed.append(_TypedChar(following, position, quote))
            position += 1
        elif char in ("'", '"') and quote in ("", char):
            quote = "" if quote else char
        elif char in " \t\r\n" and not quote:
            done += [_join_chars(typed)] if begun else []
            typed = []
        elif not escapes:
            typed.append(_TypedChar(char, position, quote))

        begun = bool(quote) or char not in " \t\r\n" or escapes
        position += 1

    return done, [*typed, _TypedChar("", position, quote)]


def _join_chars(typed: Iterable[_TypedChar]) -> str:
    return "".join(each.char for each in typed)


def _escape(text: str, quote: str) -> str | None:
    """Escape `text` inside of the open `quote`; None if that is not possible."""
    match quote:
        case "'":
            return None if "'" in text else text
        case '"':
            return re.sub(r'["\\]', r"\\\g<0>", text)

    return re.sub(r"[\s'\"\\]", r"\\\g<0>", text)


_ASK = Subcommand("", "", "", options=ASK_OPTIONS)


def _complete_word(
    command: Subcommand, done: Sequence[str], text: str, names: Names
) -> TabCompletions:
    """Complete the word `text`, after the words `done`."""
    by_flag: dict[str, MagicOption] = {}
    for option in command.options:
        by_flag |= dict.fromkeys(option.flags, option)

    takers = {flag for flag, option in by_flag.items() if option.takes}
    if done and done[-1] in takers:
        last = by_flag[done[-1]]
        found = _complete_offer(last.choices or last.offers, text, names)
        if found.texts or not last.has_optional_value:
            return found

    flag, equals, value = text.partition("=")
    if flag.startswith("--") and equals:
        if flag not in takers:
            return TabCompletions(len(text), [])
        found = _complete_offer(by_flag[flag].choices or by_flag[flag].offers, value, names)
        return TabCompletions(found.start + len(flag) + 1, found.texts)

    flags = match_prefix(text, by_flag)
    if text.startswith("-"):
        return flags

    arguments = [
        word
        for previous, word in zip(["", *done], done, strict=False)
        if previous not in takers and not word.startswith("-")
    ]
    if not command.accepts_word_count(len(arguments) + 1):
        return TabCompletions(len(text), []) if text else flags

    offer: Offer | Mapping[str, Offer | None] | None = command.offers
    if command.verbs:
        offer = command.verbs if not arguments else None
        if len(arguments) == 1:
            offer = command.verbs.get(arguments[0])

    found = _complete_offer(offer, text, names)
    return found if found.texts or text else flags


def _complete_offer(
    offer: Offer | tuple[str, ...] | Mapping[str, Offer | None] | None, text: str, names: Names
) -> TabCompletions:
    """Complete `text` as one kind of offer, or as one of several words."""
    if offer is None:
        return TabCompletions(len(text), [])
    return OFFERED[offer](text, names) if isinstance(offer, str) else match_prefix(text, offer)


def match_completions(session: Session | None, context: Any) -> dict[str, Any]:
    """Return IPython's `MatcherResult` for its `CompletionContext`. Raise no errors."""
    before: str = context.text_until_cursor
    found = TabCompletions(len(before), [])

    try:
        if session is not None:
            line = context.cursor_line
            column = context.cursor_position
            found = complete_cell(context.full_text, line, column, Names(session))
    except Exception:  # IPython would print the traceback below the cell
        _log.debug("Completion failed for %r", before, exc_info=True)

    return {
        "completions": [
            SimpleCompletion(text=text, type=found.notes.get(text, "param")) for text in found.texts
        ],
        "matched_fragment": before[found.start :],
        "suppress": bool(found.texts),
        "ordered": True,
    }
