r"""Find the ends of displayed formulas in Markdown, such as `$$ … $$`, or a TeX environment.

A formula without an end would include all later text, so only those with an end stay formulas. A
displayed formula starts with `$$` or `\begin{NAME}`, and ends with `$$` or `\end{NAME}`: its *end
delimiter*. Two parsers read the text: MathJax in JupyterLab, and the math rules of nbconvert. A
formula stays only if both find its end.

Source: `docs/decisions.md` D32.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

_DISPLAY_MATH = re.compile(r"\$\$|\\begin\{([a-z]*\*?)\}")
_END_OF_MATH = re.compile(r"\$\$|\\end\{[a-z]*\*?\}")
_UNCLEAR_MATH = re.compile(
    r"\\\$"  # an escaped dollar sign, or the first one of `$$`: `costs \$$5`
    r"|\\\\\["  # a row break with its height, or a delimiter: `a \\[2pt] b`, `\\[ x \\]`
    r"|\\begin\{"  # an environment, which may end in a later line: `\begin{align}`
)
"""Text for which an even number of `$$` does not show that all formulas of the line have an end."""


class Formulas:
    """Ends of the displayed formulas of one paragraph.

    The lines are searched once, when the first formula of several lines appears. Otherwise a block
    of formulas without an end would take quadratic time.
    """

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

        # The index of the lines, which is made when it is first needed: by end delimiter, the
        # numbers of the lines that have it; by line, the delimiter at its end; and for each line,
        # the next line that is indented less.
        self._places: dict[str, list[int]] | None = None
        self._last: dict[int, str | None] = {}
        self._outside: list[int] = []

    def find_end(self, start: int) -> int | None:
        """Return the last line of the formulas that start in the line `start`.

        It is None unless they all end in this line, or the line starts with one that ends in a
        later line of the same indentation. Such an end must be the last text of its line, because
        later text could start another formula.
        """
        line = self._lines[start]
        # The usual cases: a line without formulas, or with complete ones, as in `$$x$$ and $$y$$`.
        has_pairs = line.count("$$") % 2 == 0
        if has_pairs and not _UNCLEAR_MATH.search(line):
            return start

        text = line.lstrip(" \t")
        begins = _DISPLAY_MATH.match(text)
        if begins is None:  # the line starts with other text
            return None

        environment = begins[1]
        end_delimiter = begins[0] if environment is None else f"\\end{{{environment}}}"
        rest = text[begins.end() :]

        if end_delimiter in rest:
            return start if _find_last_delimiter(rest) == end_delimiter else None

        end = self._find_later_line(end_delimiter, start)
        if end is None or self._last[end] != end_delimiter:
            return None

        return end

    def _find_later_line(self, end_delimiter: str, start: int) -> int | None:
        """Return the next line with `end_delimiter`, before a line that is indented less."""
        if self._places is None:
            self._places = self._index_end_delimiters()
            self._outside = _find_ends_of_indentation(self._lines)

        places = self._places.get(end_delimiter, [])
        found = bisect_right(places, start)
        if found == len(places) or places[found] >= self._outside[start]:
            return None

        return places[found]

    def _index_end_delimiters(self) -> dict[str, list[int]]:
        """Return the lines of each end delimiter; set `_last`."""
        places: dict[str, list[int]] = {}
        for number, line in enumerate(self._lines):
            found = set(_END_OF_MATH.findall(line))
            if found:
                self._last[number] = _find_last_delimiter(line)

            for end_delimiter in found:
                places.setdefault(end_delimiter, []).append(number)

        return places


def _find_ends_of_indentation(lines: Sequence[str]) -> list[int]:
    """Return for each line the first later line whose indentation does not begin with its own.

    It goes from the last line to the first: lines that are skipped once need not be read again.
    """
    indentations = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
    outside = [len(lines)] * len(lines)

    for number in reversed(range(len(lines))):
        end = number + 1
        while end < len(lines) and indentations[end].startswith(indentations[number]):
            end = outside[end]

        outside[number] = end

    return outside


def _find_last_delimiter(text: str) -> str | None:
    """Return the end delimiter at the end of the text, such as `$$` in `x $$.`.

    It is None if there is none, if it is escaped, or if the text has another `$$`.
    """
    text = text.rstrip(" \t.,;")

    if text.endswith("$$"):
        delimiter = "$$"
        before = text.removesuffix(delimiter)
        # nbconvert ends no formula after a backslash, even after the two of a row break.
        is_escaped = before.endswith("\\")
    else:
        start = text.rfind("\\end{")
        delimiter = text[start:] if start >= 0 else ""
        if not _END_OF_MATH.fullmatch(delimiter):
            return None

        before = text[:start]
        backslashes = len(before) - len(before.rstrip("\\"))
        is_escaped = backslashes % 2 == 1  # two are a row break, as in `x \\\end{align}`

    if is_escaped or "$$" in before:
        return None

    return delimiter
