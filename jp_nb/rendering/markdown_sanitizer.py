"""Make untrusted Markdown safe.

Outside code the result has no HTML, no link except `http`, `https` and `mailto`, no image except
from hosts that the user allowed, and no TeX command that makes links or styles. Code has no
diagram, which front ends draw and nbconvert copies to its page as HTML. If Markdown parsers may
disagree whether a text is code, it is escaped as text: the user may then see `&lt;` for `<`, but
the result never has a tag. The run time is linear in the length of the text.

The parsers are marked (JupyterLab) and mistune with the math rules of nbconvert.

`_Sanitizer` separates blocks of code from paragraphs, line by line. `_sanitize_paragraph` handles
formulas first, then code spans, then the text between them. A *fence* is a line such as three
backticks, which starts or ends a block of code. An *inner* fence is one in a list or a quotation.
A *run* is several backticks or tildes in a row.

Source: `docs/decisions.md` D32; https://spec.commonmark.org/0.31.2/, sections 4.5, 5.1, 5.2, 6.1
and 6.3.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from jp_nb.rendering.markdown import MATH_DELIMITER, MAX_MARKDOWN_CHARS
from jp_nb.rendering.markdown_formulas import Formulas
from jp_nb.text import plain

# `*+` and `{3,}+` never try a shorter match, so that each search is linear.

# A line that starts a block of code at the left margin. Backticks allow no other ones after them.
_FENCE = re.compile(r"(?:(?P<ticks>`{3,}+)[^`]*+|(?P<tildes>~{3,}+).*+)")
_ONLY_FENCES = re.compile(r"[`~\s]*+")
# A fence behind blanks, marks of quotations, and marks of list items.
_INNER_FENCE = re.compile(
    r"((?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])++)(`{3,}+(?=[^`]*+\Z)|~{3,}+).*+"
)
# The same before `: `, which begins a definition for some parsers, with blocks of its own.
_DEFINITION_LIST = re.compile(r"(?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])*(?=:[ \t])")
# A run, and the text after it, which begins with the language of a block.
_INFO = re.compile(r"([`~]{3,}+)([^`~]*+)")
_NO_LETTER = re.compile(r"[\s\ufeff\\]+")  # what a parser may ignore in the name of a language
_MARKER = re.compile(r"[-+*]|\d{1,9}[.)]")  # of a list item
_RUNS = re.compile(r"`{3,}|~{3,}")
_BACKTICKS = re.compile(r"`+")
# The middle of a link to an address that is not allowed.
_LINK = re.compile(r"\]\((?!\s*(?:https?://|mailto:))", re.IGNORECASE)
# The backslash of a TeX command that makes links, styles, or other commands.
_TEX = re.compile(
    r"\\(?=(?:href|url|class|cssId|style|data|texttip|bbox|mmlToken|require|unicode"
    r"|[gex]?def|(?:re)?newcommand|providecommand|newenvironment|let"
    r"|html(?:Class|Id|Style|Data)|includegraphics)\b)"
)
# Signs of formulas and addresses, which some parsers read before code.
_READ_BEFORE_CODE = re.compile(r"[$@]|\\[\\`]|\\(?:begin|end)\{")
_ADDRESS = re.compile(r"(?:://|www\.)[^\s`]*+(`?)")
"""Addresses, which some parsers find before they look for code."""
_PICTURE = (
    r"!\[(?P<alt>[^][<>&`\\!]*+)\]"
    r"\((?P<url>https?://(?:[^][\s()<>\"'`\\]|\([^][\s()<>\"'`\\]*+\))++)"
    r"(?:[ \t]++(?:\"[^\"<>&`\\]*+\"|'[^'<>&`\\]*+'))?\)"
)
_IMAGE = re.compile(
    rf"(?P<badge>\[)?{_PICTURE}(?(badge)(?P<link>\]\((?=https?://|mailto:)))|!\[", re.IGNORECASE
)
"""An image that every parser finds, also as the text of a link; or the start of another one."""
_MARKUP = "[]<\\`~"
"""Characters of which `_sanitize_text` changes some."""
_HOST = re.compile(r"https?://([a-z0-9._-]+(?::[0-9]+)?)(?:[/?#]|\Z)", re.IGNORECASE)


def sanitize_markdown(text: str, *, image_hosts: Collection[str] = ()) -> str:
    """Return `text` as Markdown that neither runs nor loads anything in a front end.

    An image becomes a link, unless its host is one of `image_hosts` (`name` or `name:port`).
    A front end would request the image from its host without a click of the user.
    """
    lines = plain(text, limit=MAX_MARKDOWN_CHARS).split("\n")
    # Some parsers treat a byte order mark as blank.
    shown = []
    for line in lines:
        is_blank = not line.strip().strip("\ufeff")
        kept = "" if is_blank else line
        shown.append(kept)

    return "\n".join(_Sanitizer(shown, image_hosts).sanitize())


class _ParagraphLine(NamedTuple):
    """A line of a paragraph. If it `may_have_code`, its code spans are code for every parser."""

    text: str
    may_have_code: bool


class _Sanitizer:
    """Makes the lines of one text safe.

    A fence at the left margin starts code for every parser, unless another fence may be open there.
    A fence in a list or a quotation ends with it. A fence indented by up to three spaces may or may
    not be in a list. If that stays unclear, `_is_unclear` is set: all later lines are text, and all
    fences that may be open are closed at the end.
    """

    def __init__(self, lines: list[str], image_hosts: Collection[str]) -> None:
        self._lines = lines
        self._image_hosts = image_hosts
        self._inner: _InnerFence | None = None  # an open fence in a list or a quotation
        self._is_unclear = False

    def sanitize(self) -> Iterator[str]:
        """Yield the safe lines."""
        paragraph: list[_ParagraphLine] = []
        number = 0

        while number < len(self._lines):
            line = self._lines[number]
            is_inside = self._follow_inner_fence(line)
            fence = _read_fence(line)
            end = self._find_end_of_code(number, fence) if fence else None

            if end is None and line.strip():
                may_have_code = not is_inside and not self._is_unclear
                paragraph.append(_ParagraphLine(line, may_have_code))
                number += 1
                continue

            # A blank line, or a block of code, ends the paragraph.
            yield from _sanitize_paragraph(paragraph, self._image_hosts)
            paragraph = []

            if end is None:
                yield line
                number += 1
            else:
                yield _disable_diagrams(line)
                yield from self._lines[number + 1 : end]
                yield self._lines[end] if end < len(self._lines) else fence
                number = end + 1

        yield from _sanitize_paragraph(paragraph, self._image_hosts)

        if self._is_unclear or (self._inner and self._inner.is_unclear):
            yield from _close_open_fences(self._lines)

    def _find_end_of_code(self, start: int, fence: str) -> int | None:
        """Return the line that closes the block of code which begins in the line `start`.

        It is the number of lines if the block is never closed. It is None if parsers may disagree:
        `_is_unclear` is then set, and no later line is code.
        """
        if self._is_unclear:
            return None

        end = start + 1
        while end < len(self._lines):
            text = self._lines[end].lstrip()
            if text.startswith(fence) and _ONLY_FENCES.fullmatch(text):  # it may close the block
                break
            end += 1

        is_agreed = True
        if end < len(self._lines):
            text = self._lines[end].lstrip(" ")
            indentation = len(self._lines[end]) - len(text)
            is_agreed = indentation <= 3 and _is_closing(text, fence)

        has_table_sign = "|" in self._lines[start]  # some parsers read a part of a table there
        if not is_agreed or has_table_sign:
            self._is_unclear = True
            return None

        return end

    def _follow_inner_fence(self, line: str) -> bool:
        """Return True if the line belongs to a block of code in a list or a quotation.

        The open block is `_inner`. A line may close it, continue it, or leave the list, which ends
        it. It may also begin the next one.
        """
        if not line.strip():
            return self._inner is not None

        begins = _INNER_FENCE.fullmatch(line)
        if (inner := self._inner) is not None:
            if inner.is_closed_by(line):
                self._inner = None
                return True

            if not inner.is_left_by(line):
                if begins and _is_margin(begins[1]):
                    self._is_unclear = True
                return True

            # The list has ended. For parsers that see the fence at the left margin, it is open.
            self._is_unclear = self._is_unclear or inner.is_unclear
            self._inner = None

        if begins:
            self._inner = _InnerFence.of(begins[1], begins[2])

        return begins is not None


def _read_fence(line: str) -> str:
    """Return the backticks or tildes of a fence at the left margin; "" for another line."""
    found = _FENCE.fullmatch(line)
    if found is None:
        return ""

    return found["ticks"] or found["tildes"]


@dataclass(frozen=True, slots=True)
class _InnerFence:
    """An open fence in a list or a quotation.

    Attributes:
        prefix: The text before it, with spaces in place of list markers, as in later lines.
        is_quoted: True in a quotation.
        is_unclear: True if some parsers may see the fence at the left margin.
    """

    prefix: str
    fence: str
    is_quoted: bool
    is_unclear: bool

    @classmethod
    def of(cls, before: str, fence: str) -> _InnerFence:
        """Return the fence after the text `before` it, such as `- ` or `> 1. `."""
        prefix = _MARKER.sub(lambda found: " " * len(found[0]), before)
        return cls(prefix, fence, ">" in prefix, _is_margin(before))

    def is_closed_by(self, line: str) -> bool:
        return line.startswith(self.prefix) and _is_closing(line[len(self.prefix) :], self.fence)

    def is_left_by(self, line: str) -> bool:
        """Return True if `line` is outside of the list or the quotation, which ends the block."""
        if self.is_quoted:
            return not line.lstrip(" ").startswith(">")

        indentation = len(line) - len(line.lstrip(" \t"))
        return indentation < len(self.prefix)


def _is_margin(prefix: str) -> bool:
    """Return True if a fence after `prefix` counts as one at the left margin for some parsers."""
    return len(prefix) <= 3 and not prefix.strip(" ")


def _is_closing(text: str, fence: str) -> bool:
    """Return True if `text` has only the sign of `fence`, at least as often, and then spaces."""
    return text.startswith(fence) and not text.strip(" ").strip(fence[0])


def _close_open_fences(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines that close every fence which a parser may see open at the end.

    That are two fences of each sign, as long as the longest one in the text. The first one opens a
    block if none is open; otherwise it is a line of code. The second one closes the block.
    """
    runs = list(chain.from_iterable(map(_RUNS.findall, lines)))

    for sign in "`~":
        longest = max((len(run) for run in runs if run[0] == sign), default=0)
        if longest:
            yield f"{sign * longest} text"
            yield sign * longest


def _disable_diagrams(text: str) -> str:
    """Return `text` with `text` as the language of each Mermaid diagram.

    Front ends draw the diagrams and load their links. nbconvert copies them as HTML.
    """

    def as_text_code(found: re.Match[str]) -> str:
        info = _NO_LETTER.sub("", html.unescape(found[2]))
        return f"{found[1]}text {found[2]}" if info.lower().startswith("mermaid") else found[0]

    return _INFO.sub(as_text_code, text)


def _sanitize_paragraph(lines: list[_ParagraphLine], image_hosts: Collection[str]) -> Iterator[str]:
    """Yield the safe lines of a paragraph: code spans unchanged, and text without markup.

    If parsers may disagree about the code of one line, all later ones have no code spans.
    """
    may_have_code = all(line.may_have_code for line in lines)
    link_may_be_open = False
    texts = [line.text for line in lines]

    for text in _escape_open_math(texts, keeps_formulas=may_have_code):
        if begins := _DEFINITION_LIST.match(text):  # escape the colon
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
            pieces += [_sanitize_text(text[last_end:start], image_hosts), text[start:end]]
            last_end = end
        pieces.append(_sanitize_text(text[last_end:], image_hosts))

        has_bracket = any("[" in outside for outside in pieces[::2])
        link_may_be_open = link_may_be_open or has_bracket
        yield "".join(pieces)


def _is_read_before_code(text: str) -> bool:
    """Return True if `text` has something that some parsers look for before they look for code.

    That are formulas and addresses. An address may include the backtick of a code span.
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
        end = formulas.find_end(number) if formulas else None
        if end is None:
            yield MATH_DELIMITER.sub(_escape_delimiter, lines[number])
            number += 1
        else:
            yield from lines[number : end + 1]
            number = end + 1


def _escape_delimiter(found: re.Match[str]) -> str:
    """Return the first sign of a delimiter (`$` of `$$`, or a backslash) as text."""
    return f"\\{found[0]}\\" if found[0] == "$" else "&#92;"


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
            return spans, False

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


def _sanitize_text(text: str, image_hosts: Collection[str]) -> str:
    """Return text outside of code without HTML, unsafe links, and images of other hosts."""
    if not any(sign in text for sign in _MARKUP):
        return text

    pieces: list[str] = []
    last_end = 0
    for image in _IMAGE.finditer(text):
        before = _disable_markup(text[last_end : image.start()])
        space = " " if before.endswith("]") else ""  # `](` would be a link
        pieces += [before, space, _render_image(image, image_hosts)]
        last_end = image.end()

    pieces.append(_disable_markup(text[last_end:]))
    return "".join(pieces)


def _disable_markup(text: str) -> str:
    """Return text without diagrams, HTML, unsafe TeX commands, and unsafe links."""
    without_tags = _disable_diagrams(text).replace("<", "&lt;")
    without_tex = _TEX.sub(r"\\\\", without_tags)
    without_links = _LINK.sub(r"]\\(", without_tex)
    return without_links.replace("]:", "]\\:")  # `[name]: address` would define a link


def _render_image(found: re.Match[str], image_hosts: Collection[str]) -> str:
    """Return an image of an allowed host as it is, and another one as a link.

    A *badge* is an image that is the text of a link: the link of the image comes before it.
    """
    url = found["url"]
    if url is None:
        return "! ["  # a bracket after a space begins no image

    host = _HOST.match(url)  # no match if browsers may disagree about the host
    if host and host[1].lower() in image_hosts:
        return found[0]

    link = f"(image) [{found['alt'] or 'open'}]({url})"  # `[` after a `!` would begin another
    return f"{link} [↗](" if found["link"] else link
