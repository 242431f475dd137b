"""Markdown that a model or a tool wrote, made safe to render.

Outside code no HTML is left, no link or image but `http`, `https` and `mailto`, and no TeX command
that makes links or styles. Where readers of Markdown may disagree about what is code, it counts
as text: what is shown may then have a `&lt;` too many, and never a tag.

Source: `design/architecture.md` D32; CommonMark 0.31, sections 4.5, 6.1, 6.3; where marked and
mistune (with nbconvert's mathematics) differ from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jp_nb.notebook.prompt.plain import plain

_FENCE = re.compile(r"(`{3,})[^`]*|(~{3,}).*")
_INNER_FENCE = re.compile(r"((?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])+)(`{3,}|~{3,})[^`]*")
_DEFINITION_LIST = re.compile(r"(?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])*(?=:[ \t])")
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
_UNCLEAR_MATH = re.compile(r"\\\$|\\\\\[|\\begin\{")
_MATH = re.compile(r"\$(?=\$)|\\(?=\\[\[\]]|(?:begin|end)\{)")
_READ_BEFORE_CODE = re.compile(r"[$@]|\\[\\`]|\\(?:begin|end)\{|(?:://|www\.)\S*`")
"""Mathematics and addresses: some readers find them before they look for code."""
MAX_CHARS = 1_000_000


def safe_markdown(text: str) -> str:
    """`text` with its Markdown, and without anything in it that a front end would run or load."""
    lines = plain(text, limit=MAX_CHARS).split("\n")
    return "\n".join(_Neutraliser(["" if _is_blank(line) else line for line in lines]).lines())


def _is_blank(line: str) -> bool:
    """Whether some reader sees nothing in `line`; for others, only spaces and tabs are nothing."""
    return not line.strip().strip("\ufeff")


class _Neutraliser:
    """Goes through the lines of one text.

    A fence at the left margin begins code for every reader, unless another one may be open there
    already. A fence in a list or a quotation ends with that; one that is indented by up to three
    spaces may or may not be in a list. If that stays unclear, `doubtful` is set: from there on
    everything is text, and at the end whatever may be open is closed.
    """

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._inner: tuple[str, str] | None = None
        self._unclear = False  # whether the inner fence may be at the left margin after all
        self._doubtful = False

    def lines(self) -> Iterator[str]:
        """The lines made safe."""
        paragraph: list[tuple[str, bool]] = []
        at = 0
        while at < len(self._lines):
            line = self._lines[at]
            inside = self._follow_inner_fence(line)
            end = self._end_of_code(at) if _FENCE.fullmatch(line) else None
            if end is not None or not line.strip():
                yield from _text(paragraph)
                paragraph = []
            if end is not None:
                yield from self._lines[at:end]
                yield self._lines[end] if end < len(self._lines) else _RUNS.findall(line)[0]
                at = end
            elif line.strip():
                paragraph.append((line, not inside and not self._doubtful))
            else:
                yield line
            at += 1
        yield from _text(paragraph)
        if self._doubtful or (self._inner and self._unclear):
            yield from _close_whatever_is_open(self._lines)

    def _end_of_code(self, start: int) -> int | None:
        """The line that closes the fence in line `start`; None if readers may disagree."""
        fence = _RUNS.findall(self._lines[start])[0]
        end = start + 1
        closes = re.compile(rf" {{0,3}}{fence}{fence[0]}* *")
        may_close = re.compile(rf"\s*{fence}[`~\s]*")
        while end < len(self._lines) and not may_close.fullmatch(self._lines[end]):
            end += 1
        agreed = end == len(self._lines) or closes.fullmatch(self._lines[end])
        if not agreed or "|" in self._lines[start]:  # a table may take that line
            self._doubtful = True
        return None if self._doubtful else end

    def _follow_inner_fence(self, line: str) -> bool:
        """Whether `line` belongs to a fence that is not at the left margin."""
        if not line.strip():
            return self._inner is not None
        begins = _INNER_FENCE.fullmatch(line)
        if self._inner is not None:
            prefix, fence = self._inner
            if line.startswith(prefix) and _is_closing(line[len(prefix) :], fence):
                self._inner = None
                return True
            if not self._left(line, prefix):
                if begins and _is_margin(begins[1]):
                    self._doubtful = True
                return True
            self._doubtful = self._doubtful or self._unclear
            self._inner = None
        if begins:
            prefix = _MARKER.sub(lambda found: " " * len(found[0]), begins[1])
            self._inner, self._unclear = (prefix, begins[2]), _is_margin(begins[1])
        return begins is not None

    def _left(self, line: str, prefix: str) -> bool:
        """Whether `line` is outside what holds the inner fence."""
        if ">" in prefix:
            return not line.lstrip(" ").startswith(">")
        indentation = len(line) - len(line.lstrip(" \t"))
        return indentation < len(prefix)


def _is_margin(prefix: str) -> bool:
    return len(prefix) <= 3 and not prefix.strip(" ")


def _is_closing(text: str, fence: str) -> bool:
    return text.startswith(fence) and not text.strip(" ").strip(fence[0])


def _close_whatever_is_open(lines: Iterable[str]) -> Iterator[str]:
    """Fences after which none is open, whether or not one was.

    The first of a pair opens one if there is none, and is a line of code otherwise.
    """
    runs = [run for line in lines for run in _RUNS.findall(line)]
    for sign in "`~":
        longest = max((len(run) for run in runs if run[0] == sign), default=0)
        if longest:
            yield f"{sign * longest} text"
            yield sign * longest


def _text(lines: list[tuple[str, bool]]) -> Iterator[str]:
    """The lines of one block of text; each comes with whether code in it counts as code."""
    certain = all(certain for _, certain in lines)
    bracket = False
    for line in _without_open_math([line for line, _ in lines], certain):
        if begins := _DEFINITION_LIST.match(line):
            line = f"{begins[0]}\\{line[begins.end() :]}"
        certain = certain and not _READ_BEFORE_CODE.search(line)
        spans, certain = _code_spans(line, bracket) if certain else ([], False)
        pieces: list[str] = []
        at = 0
        for start, end in spans:
            pieces += [_escape(line[at:start]), line[start:end]]
            at = end
        pieces.append(_escape(line[at:]))
        bracket = bracket or any("[" in text for text in pieces[::2])
        yield "".join(pieces)


def _without_open_math(lines: list[str], certain: bool) -> Iterator[str]:
    """`lines` of one block in which every displayed formula that begins also ends.

    One that did not would take in whatever follows, code of later blocks included. Where it is
    not `certain` that the lines are text, no formula is left.
    """
    at = 0
    while at < len(lines):
        end = _end_of_math(lines, at) if certain else None
        if end is None:
            yield _MATH.sub(
                lambda found: f"\\{found[0]}\\" if found[0] == "$" else "&#92;", lines[at]
            )
            at += 1
        else:
            yield from lines[at : end + 1]
            at = end + 1


def _end_of_math(lines: list[str], start: int) -> int | None:
    """The line in which the formula of line `start` ends; None if something else is the case.

    Either every formula of the line ends in it, or the line begins with one that goes on at the
    same indentation.
    """
    line = lines[start]
    if not _UNCLEAR_MATH.search(line) and line.count("$$") % 2 == 0:
        return start
    text = line.lstrip(" \t")
    indentation = line[: len(line) - len(text)]
    begins = _DISPLAY_MATH.match(text)
    if begins is None:
        return None
    ends = begins[0] if begins[1] is None else f"\\end{{{begins[1]}}}"
    if ends in text[begins.end() :]:
        return start if _ends_with(text[begins.end() :], ends) else None
    for at in range(start + 1, len(lines)):
        if not lines[at].startswith(indentation):
            return None
        if ends in lines[at]:
            return at if _ends_with(lines[at], ends) else None
    return None


def _ends_with(text: str, ends: str) -> bool:
    """Whether a formula ends at the end of `text`, and nothing of another one is in it."""
    text = text.rstrip(" \t.,;")
    last = text.endswith(ends) and not text.endswith(f"\\{ends}")
    return last and text.count("$$") == (ends == "$$")


def _code_spans(line: str, after_bracket: bool) -> tuple[list[tuple[int, int]], bool]:
    """Where `line` holds code for certain, and whether the lines after it may.

    `after_bracket` says whether the text of a link may have begun above.
    """
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
        if _may_end_inside(line[end : runs[closing][0]], after_bracket):
            return [], False
        spans.append((start, runs[closing][1]))
        at, text = closing + 1, runs[closing][1]
    return spans, True


def _may_end_inside(code: str, after_bracket: bool) -> bool:
    """Whether a cell of a table or the text of a link may end inside `code` for some reader."""
    return "|" in code or (after_bracket and "]" in code)


def _escape(text: str) -> str:
    text = _TEX.sub(r"\\\\", text.replace("<", "&lt;"))
    return _LINK.sub(r"]\\(", text).replace("]:", "]\\:")


def break_math(text: str) -> str:
    """`text` in which no displayed formula begins or ends."""
    return _MATH.sub(lambda found: f"{found[0]}\u200b", text)


def code_span(text: str) -> str:
    """`text` as inline code, whatever it holds."""
    text = break_math(plain(text).replace("\n", " "))
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else "``` ```"


def code_block(text: str, language: str = "text") -> str:
    """`text` as a block of code in `language`, whatever it holds."""
    text = plain(text, limit=MAX_CHARS).rstrip("\n")
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
