"""Make a paragraph of Markdown safe: its formulas, its code spans, and the text between them.

Code spans and formulas stay as they are, so only those count that every parser reads as such. All
other text passes `sanitize_text`, which removes HTML, unsafe links, and images of other hosts. If a
parser could read a part of a code span as text, the whole line is treated as text.

Source: `docs/decisions.md` D32; https://spec.commonmark.org/0.31.2/#code-spans.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from jp_nb.rendering.markdown import MATH_DELIMITER
from jp_nb.rendering.markdown_formulas import Formulas
from jp_nb.rendering.markdown_inline import sanitize_text

# Marks of quotations and of list items before `: `, which begins a definition for some parsers,
# with blocks of its own.
_DEFINITION_LIST = re.compile(r"(?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])*(?=:[ \t])")
_BACKTICKS = re.compile(r"`+")
# Signs of formulas, of mail addresses, and of escapes, which some parsers read before code.
_READ_BEFORE_CODE = re.compile(r"[$@]|\\[\\`]|\\(?:begin|end)\{")
# Addresses of pages, which some parsers find before they look for code. `*+` never tries a shorter
# match, so that the search is linear.
_ADDRESS = re.compile(r"(?:://|www\.)[^\s`]*+(`?)")


class ParagraphLine(NamedTuple):
    """A line of a paragraph.

    `may_have_code` is False in lists and quotations, and after a line that some parsers read as the
    start of a block of code. There, parsers may disagree about code spans and formulas. One such
    line is enough: its whole paragraph has none.
    """

    text: str
    may_have_code: bool


def sanitize_paragraph(lines: list[ParagraphLine], image_hosts: Collection[str]) -> Iterator[str]:
    """Yield the safe lines of a paragraph: code spans unchanged, and text without markup.

    If parsers may disagree about the code of one line, all later ones have no code spans.
    """
    may_have_code = all(line.may_have_code for line in lines)
    link_may_be_open = False
    texts = [line.text for line in lines]

    for text in _escape_open_math(texts, keeps_formulas=may_have_code):
        if begins := _DEFINITION_LIST.match(text):  # escape the colon, so that it begins no block
            text = f"{begins[0]}\\{text[begins.end() :]}"

        if may_have_code and _is_read_before_code(text):
            may_have_code = False

        spans: list[tuple[int, int]] = []
        if may_have_code:
            spans, may_have_code = _find_code_spans(text, link_may_be_open=link_may_be_open)

        # Text outside of code and code alternate, beginning and ending with text.
        pieces: list[str] = []
        last_end = 0
        for start, end in spans:
            pieces += [sanitize_text(text[last_end:start], image_hosts), text[start:end]]
            last_end = end
        pieces.append(sanitize_text(text[last_end:], image_hosts))

        has_bracket = any("[" in outside_of_code for outside_of_code in pieces[::2])
        link_may_be_open = link_may_be_open or has_bracket
        yield "".join(pieces)


def _is_read_before_code(text: str) -> bool:
    """Return True if `text` has something that some parsers look for before they look for code.

    These are formulas and addresses. An address may include the backtick of a code span.
    """
    if _READ_BEFORE_CODE.search(text):
        return True
    if "`" not in text:
        return False

    return any(found[1] for found in _ADDRESS.finditer(text))


def _escape_open_math(lines: list[str], *, keeps_formulas: bool) -> Iterator[str]:
    """Yield `lines` with the delimiters of formulas escaped, except of formulas with an end.

    A formula without an end would include all later text, even code of later blocks. Without
    `keeps_formulas`, all delimiters are escaped.
    """
    formulas = Formulas(lines) if keeps_formulas else None
    number = 0

    while number < len(lines):
        # The last line of the formulas that start in this line; the line itself if it has none;
        # None if not all of them have an end.
        end = formulas.find_end(number) if formulas else None
        if end is None:
            yield MATH_DELIMITER.sub(_escape_delimiter, lines[number])
            number += 1
        else:
            yield from lines[number : end + 1]
            number = end + 1


def _escape_delimiter(found: re.Match[str]) -> str:
    r"""Return the first sign of a delimiter as text. `MATH_DELIMITER` finds only this sign.

    `$$` becomes `\$\$`: the second backslash is for the second dollar sign, which follows. In `\\[`
    and `\begin{`, the backslash becomes an entity.
    """
    return "\\$\\" if found[0] == "$" else "&#92;"


def _find_code_spans(line: str, *, link_may_be_open: bool) -> tuple[list[tuple[int, int]], bool]:
    """Return the spans that every parser reads as code, and True if later lines may have code.

    With `link_may_be_open`, the text of a link may have started in an earlier line.
    """
    runs = list(_BACKTICKS.finditer(line))
    spans: list[tuple[int, int]] = []
    number = 0
    text_start = 0

    while number < len(runs):
        opening = runs[number]
        closing_number = _find_equal_run(runs, number)
        if closing_number is None:
            return spans, False  # the span may end in a later line

        closing = runs[closing_number]
        link_may_be_open = link_may_be_open or "[" in line[text_start : opening.start()]
        code = line[opening.end() : closing.start()]

        if "|" in code or (link_may_be_open and "]" in code):
            return [], False  # for some parsers, a table cell or a link may end in the code

        spans.append((opening.start(), closing.end()))
        number = closing_number + 1
        text_start = closing.end()

    return spans, True


def _find_equal_run(runs: Sequence[re.Match[str]], number: int) -> int | None:
    """Return the number of the next run of the same length, which closes a code span."""
    length = runs[number].end() - runs[number].start()
    for later in range(number + 1, len(runs)):
        if runs[later].end() - runs[later].start() == length:
            return later

    return None
