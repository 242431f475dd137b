"""Fences of code blocks in Markdown, at the left margin and in lists and quotations.

A *fence* is a line such as three backticks, which starts or ends a block of code. An *inner* fence
is one in a list or a quotation, whose block also ends with the list or the quotation. A *run* is
several backticks or tildes in a row.

Source: https://spec.commonmark.org/0.31.2/, sections 4.5, 5.1, and 5.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

# `*+` and `{3,}+` never try a shorter match, so that each search is linear.

# A line that starts a block of code at the left margin. Backticks allow no other ones after them.
_FENCE = re.compile(r"(?:(?P<ticks>`{3,}+)[^`]*+|(?P<tildes>~{3,}+).*+)")
# A fence behind blanks, marks of quotations, and marks of list items.
_INNER_FENCE = re.compile(
    r"((?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])++)(`{3,}+(?=[^`]*+\Z)|~{3,}+).*+"
)
_MARKER = re.compile(r"[-+*]|\d{1,9}[.)]")  # of a list item
_RUNS = re.compile(r"`{3,}|~{3,}")


def read_margin_fence(line: str) -> str:
    """Return the backticks or tildes of a fence at the left margin; "" for another line."""
    found = _FENCE.fullmatch(line)
    if found is None:
        return ""

    return found["ticks"] or found["tildes"]


@dataclass(frozen=True, slots=True)
class InnerFence:
    """A fence in a list or a quotation, which opens a block of code.

    Attributes:
        prefix: The text before it, with spaces in place of list markers, as in later lines.
        fence: Its backticks or tildes.
        is_quoted: True in a quotation.
        may_be_at_margin: True if some parsers may see the fence at the left margin. For these, the
            end of the list or the quotation does not end the block.
    """

    prefix: str
    fence: str
    is_quoted: bool
    may_be_at_margin: bool

    @classmethod
    def read(cls, line: str) -> InnerFence | None:
        """Return the fence in `line`, after a text such as `- ` or `> 1. `; None without one."""
        found = _INNER_FENCE.fullmatch(line)
        if found is None:
            return None

        before = found[1]
        prefix = _MARKER.sub(lambda marker: " " * len(marker[0]), before)
        return cls(prefix, found[2], ">" in prefix, _is_margin(before))

    def is_closed_by(self, line: str) -> bool:
        """Return True if `line` is a fence that ends the block, at the same place."""
        return line.startswith(self.prefix) and is_closing(line[len(self.prefix) :], self.fence)

    def is_left_by(self, line: str) -> bool:
        """Return True if `line` is outside of the list or the quotation, which ends the block."""
        if self.is_quoted:
            return not line.lstrip(" ").startswith(">")

        indentation = len(line) - len(line.lstrip(" \t"))
        return indentation < len(self.prefix)


def _is_margin(prefix: str) -> bool:
    """Return True if a fence after `prefix` counts as one at the left margin for some parsers."""
    return len(prefix) <= 3 and not prefix.strip(" ")


def is_closing(text: str, fence: str) -> bool:
    """Return True if `text` has only the sign of `fence`, at least as often, and then spaces."""
    return text.startswith(fence) and not text.strip(" ").strip(fence[0])


def close_open_fences(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines that close every fence which a parser may see open at the end.

    These are two fences of each sign, as long as the longest one in the text. The first one opens a
    block if none is open; otherwise it is a line of code, because a closing fence has no text after
    it. The second one closes the block.
    """
    runs = list(chain.from_iterable(map(_RUNS.findall, lines)))

    for sign in "`~":
        longest = max((len(run) for run in runs if run[0] == sign), default=0)
        if longest:
            yield f"{sign * longest} text"
            yield sign * longest
