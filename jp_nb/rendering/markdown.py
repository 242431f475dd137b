"""Make untrusted Markdown safe.

Outside code the result has no HTML, no link except `http`, `https` and `mailto`, no image except
from hosts that the user allowed, and no TeX command that makes links or styles. Code has no
diagram, which front ends draw and nbconvert copies to its page as HTML. If Markdown parsers may
disagree whether a text is code, it is escaped as text: the user may then see `&lt;` for `<`, but
the result never has a tag. The run time is linear in the length of the text.

The parsers are marked (JupyterLab) and mistune with the math rules of nbconvert.

Source: `docs/decisions.md` D32; https://spec.commonmark.org/0.31.2/, sections 4.5, 5.1, 5.2, 6.1
and 6.3.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from jp_nb.text import escape_markdown, plain

_FENCE = re.compile(r"(?:(?P<ticks>`{3,}+)[^`]*+|(?P<tildes>~{3,}+).*+)")
_ONLY_FENCES = re.compile(r"[`~\s]*+")
_INNER_FENCE = re.compile(
    r"((?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])++)(`{3,}+(?=[^`]*+\Z)|~{3,}+).*+"
)
_DEFINITION_LIST = re.compile(r"(?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])*(?=:[ \t])")
_INFO = re.compile(r"([`~]{3,}+)([^`~]*+)")
_NO_LETTER = re.compile(r"[\s\ufeff\\]+")
_MARKER = re.compile(r"[-+*]|\d{1,9}[.)]")
_RUNS = re.compile(r"`{3,}|~{3,}")
_BACKTICKS = re.compile(r"`+")
_LINK = re.compile(r"\]\((?!\s*(?:https?://|mailto:))", re.IGNORECASE)
_TEX = re.compile(
    r"\\(?=(?:href|url|class|cssId|style|data|texttip|bbox|mmlToken|require|unicode"
    r"|[gex]?def|(?:re)?newcommand|providecommand|newenvironment|let"
    r"|html(?:Class|Id|Style|Data)|includegraphics)\b)"
)
_DISPLAY_MATH = re.compile(r"\$\$|\\begin\{([a-z]*\*?)\}")
_END_OF_MATH = re.compile(r"\$\$|\\end\{[a-z]*\*?\}")
_UNCLEAR_MATH = re.compile(r"\\\$|\\\\\[|\\begin\{")
_MATH = re.compile(r"\$(?=\$)|\\(?=\\[\[\]]|(?:begin|end)\{)")
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
"""Characters of which `_escape` changes some."""
_HOST = re.compile(r"https?://([a-z0-9._-]+(?::[0-9]+)?)(?:[/?#]|\Z)", re.IGNORECASE)
MAX_MARKDOWN_CHARS = 1_000_000


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

    return "\n".join(_Sanitizer(shown, image_hosts).lines())


class _Sanitizer:
    """Makes the lines of one text safe.

    A fence at the left margin starts code for every parser, unless another fence may be open there.
    A fence in a list or a quotation ends with it. A fence indented by up to three spaces may or may
    not be in a list. If that stays unclear, `_doubtful` is set: all later lines are text, and all
    fences that may be open are closed at the end.
    """

    def __init__(self, lines: list[str], image_hosts: Collection[str]) -> None:
        self._lines = lines
        self._image_hosts = image_hosts
        self._inner: _InnerFence | None = None
        self._doubtful = False

    def lines(self) -> Iterator[str]:
        paragraph: list[tuple[str, bool]] = []

        at = 0
        while at < len(self._lines):
            line = self._lines[at]
            inside = self._follow_inner_fence(line)
            found = _FENCE.fullmatch(line)
            fence = (found["ticks"] or found["tildes"]) if found else ""
            end = self._end_of_code(at, fence) if fence else None

            if end is not None or not line.strip():
                yield from _sanitize_block(paragraph, self._image_hosts)
                paragraph = []

            if end is not None:
                yield _disable_diagrams(line)
                yield from self._lines[at + 1 : end]
                yield self._lines[end] if end < len(self._lines) else fence
                at = end
            elif line.strip():
                paragraph.append((line, not inside and not self._doubtful))
            else:
                yield line

            at += 1
        yield from _sanitize_block(paragraph, self._image_hosts)

        if self._doubtful or (self._inner and self._inner.unclear):
            yield from _close_open_fences(self._lines)

    def _end_of_code(self, start: int, fence: str) -> int | None:

        # None if parsers may disagree about the closing line.
        if self._doubtful:
            return None  # until the end of the text

        end = start + 1
        while end < len(self._lines):
            text = self._lines[end].lstrip()
            if text.startswith(fence) and _ONLY_FENCES.fullmatch(text):  # it may close the block
                break
            end += 1

        agreed = end == len(self._lines)
        if not agreed:
            text = self._lines[end].lstrip(" ")
            agreed = len(self._lines[end]) - len(text) <= 3 and _is_closing(text, fence)
        if not agreed or "|" in self._lines[start]:  # some parsers read a part of a table there
            self._doubtful = True

        return None if self._doubtful else end

    def _follow_inner_fence(self, line: str) -> bool:
        # Returns True if the line belongs to a block in a list or a quotation.
        if not line.strip():
            return self._inner is not None

        begins = _INNER_FENCE.fullmatch(line)
        if (inner := self._inner) is not None:
            if inner.is_closed_by(line):
                self._inner = None
                return True
            if not inner.is_left_by(line):
                if begins and _is_margin(begins[1]):
                    self._doubtful = True
                return True

            self._doubtful = self._doubtful or inner.unclear
            self._inner = None

        if begins:
            self._inner = _InnerFence.of(begins[1], begins[2])
        return begins is not None


@dataclass(frozen=True, slots=True)
class _InnerFence:
    """A fence after `prefix`. `unclear`: some parsers may see it at the left margin."""

    prefix: str
    fence: str
    quoted: bool
    unclear: bool

    @classmethod
    def of(cls, before: str, fence: str) -> _InnerFence:
        prefix = _MARKER.sub(lambda found: " " * len(found[0]), before)
        return cls(prefix, fence, ">" in prefix, _is_margin(before))

    def is_closed_by(self, line: str) -> bool:
        return line.startswith(self.prefix) and _is_closing(line[len(self.prefix) :], self.fence)

    def is_left_by(self, line: str) -> bool:

        if self.quoted:
            return not line.lstrip(" ").startswith(">")
        indentation = len(line) - len(line.lstrip(" \t"))
        return indentation < len(self.prefix)


def _is_margin(prefix: str) -> bool:
    return len(prefix) <= 3 and not prefix.strip(" ")


def _is_closing(text: str, fence: str) -> bool:
    return text.startswith(fence) and not text.strip(" ").strip(fence[0])


def _close_open_fences(lines: Iterable[str]) -> Iterator[str]:
    # The first fence of a pair opens a block if none is open; otherwise it is a line of code.
    runs = list(chain.from_iterable(map(_RUNS.findall, lines)))

    for sign in "`~":
        longest = max((len(run) for run in runs if run[0] == sign), default=0)
        if longest:
            yield f"{sign * longest} text"
            yield sign * longest


def _disable_diagrams(text: str) -> str:
    # Front ends draw Mermaid diagrams and load their links. nbconvert copies them as HTML.
    def as_text_code(found: re.Match[str]) -> str:
        info = _NO_LETTER.sub("", html.unescape(found[2]))
        return f"{found[1]}text {found[2]}" if info.lower().startswith("mermaid") else found[0]

    return _INFO.sub(as_text_code, text)


def _sanitize_block(lines: list[tuple[str, bool]], image_hosts: Collection[str]) -> Iterator[str]:
    # The flag of a line is True if no fence can be open there, so that its code spans are code.
    certain = all(certain for _, certain in lines)
    bracket = False
    for line in _escape_open_math([line for line, _ in lines], certain):
        if begins := _DEFINITION_LIST.match(line):
            line = f"{begins[0]}\\{line[begins.end() :]}"

        # Some parsers look for math and addresses before they look for code.
        addresses = (found[1] for found in _ADDRESS.finditer(line)) if "`" in line else ()
        certain = certain and not _READ_BEFORE_CODE.search(line) and not any(addresses)

        spans, certain = _find_code_spans(line, bracket) if certain else ([], False)

        pieces: list[str] = []
        at = 0
        for start, end in spans:
            pieces += [_escape(line[at:start], image_hosts), line[start:end]]
            at = end
        pieces.append(_escape(line[at:], image_hosts))

        bracket = bracket or any("[" in text for text in pieces[::2])
        yield "".join(pieces)


def _escape_open_math(lines: list[str], certain: bool) -> Iterator[str]:
    # A formula without an end would include all later text, even code of later blocks. If the lines
    # may be code, no formula is kept.
    formulas = _Formulas(lines) if certain else None
    at = 0

    while at < len(lines):
        end = formulas.end(at) if formulas else None
        if end is None:
            yield _MATH.sub(lambda x: f"\\{x[0]}\\" if x[0] == "$" else "&#92;", lines[at])
            at += 1
        else:
            yield from lines[at : end + 1]
            at = end + 1


class _Formulas:
    """Ends of the displayed formulas of one block.

    The lines are searched once, when the first formula of several lines appears. Otherwise a block
    of formulas without an end would take quadratic time.
    """

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._ends: dict[str, list[int]] | None = None
        self._last: dict[int, str | None] = {}
        self._outside: list[int] = []

    def end(self, start: int) -> int | None:
        # Returns the last line of the formulas that start in this line. None unless they all end
        # in it, or the line starts with one that ends in a later line of the same indentation.
        line = self._lines[start]
        if not _UNCLEAR_MATH.search(line) and line.count("$$") % 2 == 0:
            return start

        text = line.lstrip(" \t")
        begins = _DISPLAY_MATH.match(text)
        if begins is None:
            return None
        ends = begins[0] if begins[1] is None else f"\\end{{{begins[1]}}}"
        rest = text[begins.end() :]

        if ends in rest:
            return start if _find_last_delimiter(rest) == ends else None

        if self._ends is None:
            self._ends = self._index_ends()
            self._outside = _find_ends_of_indentation(self._lines)

        places = self._ends.get(ends, [])
        found = bisect_right(places, start)
        if found == len(places) or places[found] >= self._outside[start]:
            return None
        at = places[found]
        return at if self._last[at] == ends else None

    def _index_ends(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for at, line in enumerate(self._lines):
            if found := set(_END_OF_MATH.findall(line)):
                self._last[at] = _find_last_delimiter(line)

            for ends in found:
                places.setdefault(ends, []).append(at)
        return places


def _find_ends_of_indentation(lines: Sequence[str]) -> list[int]:
    indented = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
    outside = [len(lines)] * len(lines)

    for at in range(len(lines) - 1, -1, -1):
        end = at + 1
        while end < len(lines) and indented[end].startswith(indented[at]):
            end = outside[end]
        outside[at] = end
    return outside


def _find_last_delimiter(text: str) -> str | None:
    text = text.rstrip(" \t.,;")
    if text.endswith("$$"):
        ends = "$$"
    else:
        at = text.rfind("\\end{")
        ends = text[at:] if at >= 0 else ""
        if not _END_OF_MATH.fullmatch(ends):
            return None

    escaped = text.endswith(f"\\{ends}")
    return ends if not escaped and text.count("$$") == (ends == "$$") else None


def _find_code_spans(line: str, after_bracket: bool) -> tuple[list[tuple[int, int]], bool]:
    # Returns the spans that every parser reads as code, and True if later lines may have code.
    # `after_bracket`: the text of a link may have started in an earlier line.
    runs = [(run.start(), run.end()) for run in _BACKTICKS.finditer(line)]
    spans: list[tuple[int, int]] = []
    at = text = 0

    while at < len(runs):
        start, end = runs[at]
        closing = next(
            (i for i in range(at + 1, len(runs)) if runs[i][1] - runs[i][0] == end - start), None
        )

        if closing is None:
            return spans, False

        after_bracket = after_bracket or "[" in line[text:start]
        code = line[end : runs[closing][0]]

        if "|" in code or (after_bracket and "]" in code):
            return [], False  # for some parsers, a table cell or a link may end in the code

        spans.append((start, runs[closing][1]))
        at = closing + 1
        text = runs[closing][1]
    return spans, True


def _escape(text: str, image_hosts: Collection[str]) -> str:

    if not any(sign in text for sign in _MARKUP):
        return text
    pieces: list[str] = []

    at = 0
    for image in _IMAGE.finditer(text):
        before = _escape_markup(text[at : image.start()])
        apart = " " if before.endswith("]") else ""  # `](` would be a link
        pieces += [before, apart, _render_image(image, image_hosts)]
        at = image.end()

    pieces.append(_escape_markup(text[at:]))
    return "".join(pieces)


def _escape_markup(text: str) -> str:
    text = _TEX.sub(r"\\\\", _disable_diagrams(text).replace("<", "&lt;"))
    return _LINK.sub(r"]\\(", text).replace("]:", "]\\:")


def _render_image(found: re.Match[str], image_hosts: Collection[str]) -> str:
    url = found["url"]
    if url is None:
        return "! ["  # a bracket after a space begins no image

    host = _HOST.match(url)  # no match if browsers may disagree about the host
    if host and host[1].lower() in image_hosts:
        return found[0]

    link = f"(image) [{found['alt'] or 'open'}]({url})"  # `[` after a `!` would begin another
    return f"{link} [↗](" if found["link"] else link


def break_math(text: str) -> str:
    """Return `text` with a zero-width space inside each delimiter of a displayed formula."""
    return _MATH.sub(lambda found: f"{found[0]}\u200b", text)


def escape_markup(line: str) -> str:
    """Return one line of text without any Markdown, and without addresses that become links."""
    return escape_markdown(break_math(line))


def make_code_span(text: str) -> str:
    """Return any `text` as inline code."""
    text = break_math(plain(text).replace("\n", " "))

    fence = "`" * (_longest_backticks(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else "``` ```"


def make_code_block(text: str, language: str = "text", *, limit: int = MAX_MARKDOWN_CHARS) -> str:
    """Return any `text` as a block of code in `language`."""
    text = plain(text, limit=limit).rstrip("\n")

    fence = "`" * max(3, _longest_backticks(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def make_details_block(title: str, markdown: str) -> str:
    """Return a folded block. `markdown` must not contain HTML tags."""
    return f"<details><summary>{title}</summary>\n\n{markdown}\n\n</details>"


def quote_markdown(markdown: str) -> str:
    """Return Markdown as a quotation."""
    lines = []
    for line in markdown.split("\n"):
        quoted = f"> {line}" if line else ">"
        lines.append(quoted)

    return "\n".join(lines)


def _longest_backticks(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
