"""Complete `%jp` lines and `%%jp` cells with Tab in IPython.

The last word of a line is completed, up to the cursor. `completion_offers.py` completes a word as
one kind of name, `completion_names.py` has the names, and `completion_words.py` splits a line.

Nothing is evaluated or run. After the name of a provider, its list of models may be requested in
the background.

Source: `docs/guide.md`, and the Matcher API of IPython,
https://ipython.readthedocs.io/en/stable/api/generated/IPython.core.completer.html.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from IPython.core.completer import SimpleCompletion

from jp_nb.notebook.ask_options import ASK_OPTIONS
from jp_nb.notebook.completion.completion_names import Names
from jp_nb.notebook.completion.completion_offers import OFFERED, complete_path
from jp_nb.notebook.completion.completion_words import (
    TypedChar,
    escape_typed,
    join_typed_chars,
    split_typed_words,
)
from jp_nb.notebook.completion.tab_completions import TabCompletions, match_prefix
from jp_nb.notebook.magic_options import MagicOption, Offer, Subcommand
from jp_nb.notebook.subcommands import SUBCOMMANDS
from jp_nb.session.session import Session

_log = logging.getLogger(__name__)

MAX_COMPLETIONS = 300
"""Limit of completions that IPython gets."""
MAX_COMPLETION_CHARS = 200  # longer texts are not offered

# The options of `%%jp`, in the form of a subcommand.
_ASK = Subcommand("", "", "", options=ASK_OPTIONS)

_CELL_MAGIC = re.compile(r"\s*%%jp(\s|$)")
_MAGIC = re.compile(r"\s*(?P<mark>%%?)jp\s+(?P<asks>q\s)?")
"""Matches `%jp `, `%%jp `, and `%jp q ` (`asks`), after which the text of a request follows."""
_MENTION = re.compile(r"(?:^|[\s(\[{\"'>])@(?P<name>[\w./~-]*)$")
"""Matches `@data` at the cursor: a variable or a file."""
_PLACEHOLDER = re.compile(r"(?<!\\)\{\{\s*(?P<name>(?:[^\W\d]\w*)?)$")
"""Matches `{{data` at the cursor: a variable."""


def complete_cell(cell: str, line: int, column: int, names: Names) -> TabCompletions:
    """Return the completions at the cursor, in `line` and `column` of `cell`, counted from 0.

    Below `%%jp` is the text of the request, in which only names after `{{` and `@` are completed.
    """
    lines = cell.split("\n")
    before = lines[line][:column]
    first_line = next((index for index, text in enumerate(lines) if text.strip()), 0)
    if line == first_line:
        return complete_line(before, names)
    if _CELL_MAGIC.match(lines[first_line]):
        return _limit(_complete_text(before, names))
    if _CELL_MAGIC.match(before):  # IPython does not run a cell magic below the first line
        return TabCompletions(column, [])
    return complete_line(before, names)


def complete_line(before: str, names: Names) -> TabCompletions:
    """Return the completions of `before`, the line of a magic up to the cursor."""
    magic = _MAGIC.match(before)
    if magic is None:
        return TabCompletions(len(before), [])
    if magic["asks"] and magic["mark"] == "%":
        return _limit(_complete_text(before, names))

    # In `%%jp q `, the `q` is no subcommand but a word.
    start = magic.start("asks") if magic["asks"] else magic.end()
    words, typed = split_typed_words(before, start)
    word = join_typed_chars(typed)
    if magic["mark"] == "%%":
        completions = _complete_word(_ASK, words, word, names)
    elif not words:
        completions = match_prefix(word, SUBCOMMANDS)
    elif command := SUBCOMMANDS.get(words[0]):
        completions = _complete_word(command, words[1:], word, names)
    else:
        return TabCompletions(len(before), [])

    return _limit(_escape_completions(completions, typed))


def _escape_completions(completions: TabCompletions, typed: Sequence[TypedChar]) -> TabCompletions:
    """Convert completions of the last word, as it is without quotes and escapes, to the line's.

    Their start becomes a position in the line, and their texts are escaped for the open quote. A
    text that cannot be typed there is omitted.
    """
    first = typed[completions.start]  # the first replaced character, or the cursor at the end
    escaped = {}
    for text in completions.texts:
        typable = escape_typed(text, first.quote)
        if typable:
            escaped[text] = typable

    notes = {escaped[text]: note for text, note in completions.notes.items() if text in escaped}
    return TabCompletions(first.position, [*escaped.values()], notes)


def _limit(completions: TabCompletions) -> TabCompletions:
    """Drop long texts, and those with control characters: names may come from untrusted records."""
    texts = [
        text
        for text in completions.texts
        if text.isprintable() and len(text) <= MAX_COMPLETION_CHARS
    ]
    unique = list(dict.fromkeys(texts))
    return TabCompletions(completions.start, unique[:MAX_COMPLETIONS], completions.notes)


def _complete_text(before: str, names: Names) -> TabCompletions:
    """Complete a name after `{{`, or after `@`, in the text of a request."""
    mention = _MENTION.search(before)
    if mention is None:
        return _complete_placeholder(before, names)

    # `@data` becomes `{{data}}`, and `@notes.md` becomes its path as code.
    typed = mention["name"]
    start = mention.start("name") - 1  # with the `@`
    hidden = () if typed.startswith("_") else ("_",)
    variables = [name for name in names.variables if not name.startswith(hidden)]
    notes: dict[str, str] = {}  # by the text of the completion
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


def _complete_word(
    command: Subcommand, earlier: Sequence[str], text: str, names: Names
) -> TabCompletions:
    """Complete the word `text`, after the words `earlier`.

    It is the value of an option, a flag, or an argument of the command. If nothing was typed yet
    and no argument fits, all flags are offered.
    """
    options: dict[str, MagicOption] = {}  # by flag
    for option in command.options:
        options |= dict.fromkeys(option.flags, option)
    options_with_value = {flag: option for flag, option in options.items() if option.takes}

    previous = options_with_value.get(earlier[-1]) if earlier else None
    if previous is not None:  # `-m TEXT`
        completions = _complete_value(previous, text, names)
        if completions.texts or not previous.has_optional_value:
            return completions

    flag, equals, value = text.partition("=")
    if flag.startswith("--") and equals:  # `--model=TEXT`
        if flag not in options_with_value:
            return TabCompletions(len(text), [])
        completions = _complete_value(options_with_value[flag], value, names)
        return TabCompletions(completions.start + len(flag) + 1, completions.texts)

    flags = match_prefix(text, options)
    if text.startswith("-"):
        return flags

    arguments = _list_arguments(earlier, options_with_value)
    if not command.accepts_word_count(len(arguments) + 1):
        return TabCompletions(len(text), []) if text else flags

    completions = _complete_offer(_find_offer(command, arguments), text, names)
    return completions if completions.texts or text else flags


def _complete_value(option: MagicOption, text: str, names: Names) -> TabCompletions:
    return _complete_offer(option.choices or option.offers, text, names)


def _list_arguments(
    words: Sequence[str], options_with_value: Mapping[str, MagicOption]
) -> list[str]:
    """Return the words that are neither flags nor values of options."""
    return [
        word
        for previous, word in zip(["", *words], words, strict=False)
        if previous not in options_with_value and not word.startswith("-")
    ]


def _find_offer(
    command: Subcommand, arguments: Sequence[str]
) -> Offer | Mapping[str, Offer | None] | None:
    """Return the kind of word that follows `arguments`."""
    if not command.verbs:
        return command.offers
    if not arguments:
        return command.verbs
    if len(arguments) == 1:
        return command.verbs.get(arguments[0])
    return None


def _complete_offer(
    offer: Offer | tuple[str, ...] | Mapping[str, Offer | None] | None, text: str, names: Names
) -> TabCompletions:
    """Complete `text` as one kind of name, such as "model", or as one of the words in `offer`."""
    if offer is None:
        return TabCompletions(len(text), [])
    if isinstance(offer, str):
        return OFFERED[offer](text, names)
    return match_prefix(text, offer)


def match_completions(session: Session | None, context: Any) -> dict[str, Any]:
    """Return IPython's `MatcherResult` for its `CompletionContext`. Raise no errors."""
    before: str = context.text_until_cursor
    completions = TabCompletions(len(before), [])

    try:
        if session is not None:
            line = context.cursor_line
            column = context.cursor_position
            completions = complete_cell(context.full_text, line, column, Names(session))
    except Exception:  # IPython would print the traceback below the cell
        _log.debug("Completion failed for %r", before, exc_info=True)

    return {
        "completions": [
            SimpleCompletion(text=text, type=completions.notes.get(text, "param"))
            for text in completions.texts
        ],
        "matched_fragment": before[completions.start :],
        "suppress": bool(completions.texts),
        "ordered": True,
    }
