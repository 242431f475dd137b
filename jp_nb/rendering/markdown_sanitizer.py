"""Make untrusted Markdown safe.

Outside code the result has no HTML, no link except `http`, `https` and `mailto`, no image except
from hosts that the user allowed, and no TeX command that makes links or styles. Code has no
diagram, which front ends draw and nbconvert copies to its page as HTML. If Markdown parsers may
disagree whether a text is code, it is escaped as text: the user may then see `&lt;` for `<`, but
the result never has a tag. The run time is linear in the length of the text.

The parsers are marked (JupyterLab) and mistune with the math rules of nbconvert.

`_Sanitizer` separates blocks of code from paragraphs, line by line. A *fence* starts or ends a
block, also in a list or a quotation (`markdown_fences.py`). `markdown_paragraphs.py` makes a
paragraph safe.

Source: `docs/decisions.md` D32; https://spec.commonmark.org/0.31.2/, sections 4.5, 5.1, and 5.2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from jp_nb.rendering.markdown import MAX_MARKDOWN_CHARS
from jp_nb.rendering.markdown_fences import (
    InnerFence,
    close_open_fences,
    is_closing,
    read_margin_fence,
)
from jp_nb.rendering.markdown_inline import disable_diagrams
from jp_nb.rendering.markdown_paragraphs import ParagraphLine, sanitize_paragraph
from jp_nb.text import plain

# `*+` never tries a shorter match, so that each search is linear.
_ONLY_FENCES = re.compile(r"[`~\s]*+")


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


class _Sanitizer:
    """Makes the lines of one text safe.

    A fence at the left margin starts code for every parser, unless another fence may be open there.
    The block of a fence in a list or a quotation ends with it. A fence indented by up to three
    spaces may or may not be in a list:

        - item
          ```       in a list, this block ends before "text"; at the margin, it continues
          code
        text

    If that stays unclear, `_is_unclear` is set: all later lines are text, and all fences that may
    be open are closed at the end.
    """

    def __init__(self, lines: list[str], image_hosts: Collection[str]) -> None:
        self._lines = lines
        self._image_hosts = image_hosts
        self._inner: InnerFence | None = None  # an open fence in a list or a quotation
        self._is_unclear = False

    def sanitize(self) -> Iterator[str]:
        """Yield the safe lines."""
        paragraph: list[ParagraphLine] = []
        number = 0

        while number < len(self._lines):
            line = self._lines[number]
            is_inside = self._follow_inner_block(line)

            # A fence at the left margin is in no inner block: it ends each list and quotation.
            end = None
            fence = read_margin_fence(line)
            if fence and not self._is_unclear:
                end = self._find_end_of_code(number, fence)
                self._is_unclear = end is None

            if end is None and line.strip():
                may_have_code = not is_inside and not self._is_unclear
                paragraph.append(ParagraphLine(line, may_have_code))
                number += 1
                continue

            # A blank line, or a block of code, ends the paragraph.
            yield from sanitize_paragraph(paragraph, self._image_hosts)
            paragraph = []

            if end is None:
                yield line
                number += 1
            else:
                yield disable_diagrams(line)
                yield from self._lines[number + 1 : end]
                is_closed = end < len(self._lines)
                yield self._lines[end] if is_closed else fence  # or what follows would be code
                number = end + 1

        yield from sanitize_paragraph(paragraph, self._image_hosts)

        if self._is_unclear or (self._inner and self._inner.may_be_at_margin):
            yield from close_open_fences(self._lines)

    def _find_end_of_code(self, start: int, fence: str) -> int | None:
        """Return the line that closes the block of code which begins in the line `start`.

        It is the number of lines if the block is never closed. It is None if parsers may disagree.
        """
        if "|" in self._lines[start]:  # some parsers read a part of a table there
            return None

        end = start + 1
        while end < len(self._lines) and not _may_close(self._lines[end], fence):
            end += 1

        is_closed = end < len(self._lines)
        if is_closed and not _closes_for_all_parsers(self._lines[end], fence):
            return None

        return end

    def _follow_inner_block(self, line: str) -> bool:
        """Return True if the line belongs to a block of code in a list or a quotation.

        The open block is `_inner`. A line may close it, continue it, or leave the list, which ends
        it. A line outside of a block may begin the next one.
        """
        if not line.strip():
            return self._inner is not None

        begun = InnerFence.read(line)
        inner = self._inner
        if inner is None:
            self._inner = begun
            return begun is not None

        if inner.is_closed_by(line):
            self._inner = None
            return True

        if not inner.is_left_by(line):
            # A fence in the code may be one at the left margin for parsers that see no list.
            if begun and begun.may_be_at_margin:
                self._is_unclear = True
            return True

        # The list has ended. For parsers that see the fence at the left margin, it is still open.
        if inner.may_be_at_margin:
            self._is_unclear = True

        self._inner = begun
        return begun is not None


def _may_close(line: str, fence: str) -> bool:
    """Return True if some parser may take `line` for the end of a block that `fence` started."""
    text = line.lstrip()
    return text.startswith(fence) and _ONLY_FENCES.fullmatch(text) is not None


def _closes_for_all_parsers(line: str, fence: str) -> bool:
    """Return True if every parser takes `line` for the end of the block that `fence` started."""
    text = line.lstrip(" ")
    indentation = len(line) - len(text)
    return indentation <= 3 and is_closing(text, fence)
