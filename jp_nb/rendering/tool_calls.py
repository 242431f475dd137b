"""Format a tool call for its cell: one line, and the details that the tool's style selects.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.agent.display import ToolBegins, ToolEnds
from jp_nb.agent.permissions import format_visible_json
from jp_nb.agent.questions import no_user_error
from jp_nb.agent.turn_state import MAX_LISTED_OMISSIONS
from jp_nb.json_values import spaced_json
from jp_nb.rendering.markdown import code_block, code_span, details_block, no_markup
from jp_nb.rendering.report import Rendered, indent
from jp_nb.text import (
    escape_invisible,
    one_line,
    plain,
    spell_invisible,
    spell_lines,
    truncate,
)

EDITED = " (arguments edited by you)"
MAX_CALL_CHARS = 120
MAX_REASON_CHARS = 300
MAX_LINE_CHARS = 1000
"""Limit of one line of arguments or of a result."""
MAX_BLOCK_CHARS = 100_000
MAX_OPEN_LINES = 40
"""Limit of lines of code in the arguments. Longer code is folded."""
_CELL_FILE = re.compile(r'File "[^"]*ipykernel_\d+/\d+\.py"')
_INPUT_FILE = re.compile(r'File "<ipython-input-[^"]*>"')


class TurnPiece:
    """A piece of a turn as it is shown. Each of its states is rendered once.

    Attributes:
        is_final: True if the piece cannot change.
    """

    def __init__(self) -> None:
        self.is_final = True
        self._rendered: Rendered | None = None

    def render(self) -> Rendered:
        """Return the piece as it is now."""
        if self._rendered is None:
            self._rendered = self._render()
        return self._rendered

    def _render(self) -> Rendered:
        raise NotImplementedError


class CallPiece(TurnPiece):
    """One tool call: its line, and the blocks below it.

    Attributes:
        begins: The latest event before the call runs.
        ends: The end of the call; None while it runs.
    """

    def __init__(self, begins: ToolBegins) -> None:
        super().__init__()
        self.ends: ToolEnds | None = None
        self.begin_again(begins)

    def begin_again(self, begins: ToolBegins) -> None:
        """Show the call as in `begins` from now on."""
        self.begins = begins
        self.is_final = False
        self._head = _format_head(begins)
        self._rendered = None

    def end(self, ends: ToolEnds) -> None:
        """Show the end of the call."""
        self.ends, self.is_final, self._rendered = ends, True, None

    def _render(self) -> Rendered:
        return render_call(self.begins, self.ends, self._head)


def render_call(begins: ToolBegins, ends: ToolEnds | None, head: str | None = None) -> Rendered:
    """Return the line of a call, and the blocks below it.

    The blocks are indented in the text, so that they do not look like a call.
    """
    mark, seconds, about = _format_state(ends)
    head = _format_head(begins) if head is None else head
    edited = EDITED if begins.edited else ""
    line = f"{mark} {code_span(head)}{edited}"
    blocks = _blocks_below(begins, ends)
    below = [block.markdown for block in blocks]
    if ends is not None and ends.traceback:
        below.append(details_block("Traceback", code_block(stable_traceback(ends.traceback))))
    lines = [indent(block.text) for block in blocks]
    return Rendered(
        "\n\n".join([f"{line}{no_markup(about)}", *below]),
        "\n".join([f"{mark} {head}{edited}{about}", *lines]),
        "\n\n".join([f"{line}{no_markup(seconds + about)}", *below]),
    )


def _format_state(ends: ToolEnds | None) -> tuple[str, str, str]:
    # Returns the mark, the duration, and the text after it.
    if ends is None:
        return "⚙", "", " …"
    mark = "⊘" if ends.skipped else "✗" if ends.is_error else "✓"
    about = "".join(f" · {words}" for words in _format_images(ends))
    if (ends.skipped or ends.is_error) and not _format_result(ends):
        # Text after a blank line, such as advice for the model, is only in the record.
        first = for_user(ends.name, ends.content).strip().partition("\n\n")[0]
        if reason := one_line(first, limit=MAX_REASON_CHARS):
            about += f" — {reason}"
    return mark, f" {ends.seconds:.1f} s", about


def for_user(tool: str, content: str) -> str:
    """Return the response of a call for the user.

    The error for the model mentions a terminal if no user is available (`no_user_error`). A
    notebook has no terminal, so the user reads another message.
    """
    if content == no_user_error(tool):
        return (
            "no user is available to answer its question. Configure the answer, or give it in an "
            "answers file."
        )
    return content


def _format_images(ends: ToolEnds) -> list[str]:
    # The model may have seen only some of the images.
    images = len(ends.images)
    count = [f"{images} image{'' if images == 1 else 's'}"] if images else []
    omitted = [
        one_line(text, limit=MAX_REASON_CHARS)
        for text in ends.omitted_images[:MAX_LISTED_OMISSIONS]
    ]
    more = len(ends.omitted_images) - len(omitted)
    return [*count, *omitted, *([f"{more} more omitted"] if more else [])]


def _format_head(begins: ToolBegins) -> str:
    # Only the name if the arguments are hidden, or shown below the line.
    if begins.parameters != "line" or begins.formatted is not None:
        return plain(spell_invisible(begins.name), limit=MAX_CALL_CHARS)
    lines = {each.name: _format_line_count(begins.arguments[each.name]) for each in begins.texts}
    return format_call(begins.name, begins.arguments, lines)


def format_call(
    name: str,
    arguments: Mapping[str, JsonValue],
    texts: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return a call in one line, such as `add(a=1, b=2)`. `texts` replace values of arguments."""
    given = [
        (spell_invisible(key), texts[key] if key in texts else spaced_json(value))
        for key, value in _drop_empty(arguments).items()
    ]
    # Cut before escaping: an argument may have a megabyte.
    text = ", ".join(f"{key}={escape_invisible(value[:MAX_CALL_CHARS])}" for key, value in given)
    cut = sum(max(len(value) - MAX_CALL_CHARS, 0) for _, value in given)
    return truncate(f"{spell_invisible(name)}({text})", MAX_CALL_CHARS, cut=cut)


def _format_line_count(text: JsonValue) -> str:
    count = str(text).removesuffix("\n").count("\n") + 1
    return f"…{count} line{'' if count == 1 else 's'}"


class _BlockBelow(NamedTuple):
    """A block below the line of a call. `folds`: a block of many lines is folded."""

    text: str
    language: str
    folds: bool = False

    @property
    def markdown(self) -> str:
        block, lines = code_block(self.text, self.language), self.text.count("\n") + 1
        if not self.folds or lines <= MAX_OPEN_LINES:
            return block
        return details_block(f"{lines} lines of {self.language}", block)


def _blocks_below(begins: ToolBegins, ends: ToolEnds | None) -> list[_BlockBelow]:
    blocks = []
    if begins.formatted is not None:
        blocks.append(_BlockBelow(bounded(begins.formatted), "text"))
    elif begins.parameters != "off":
        blocks += _argument_blocks(begins, asked=begins.asked and ends is None)
    if ends is not None:
        blocks.append(_BlockBelow(_format_result(ends), "text"))
    return [block for block in blocks if block.text]


def _argument_blocks(begins: ToolBegins, *, asked: bool) -> Iterator[_BlockBelow]:
    if begins.parameters != "json" and not begins.texts:
        return
    below = {each.name for each in begins.texts}
    others = {k: v for k, v in _drop_empty(begins.arguments).items() if k not in below}
    if begins.parameters == "json" and others:
        yield _BlockBelow(bounded(format_visible_json(others)), "json")
    for each in () if asked else begins.texts:  # the prompt shows them while it asks
        _, lines = spell_lines(str(begins.arguments[each.name]))
        yield _BlockBelow(bounded("\n".join(lines)), each.language, folds=True)


def _drop_empty(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in arguments.items() if value not in (None, {}, [])}


def _format_result(ends: ToolEnds) -> str:
    if ends.skipped or ends.result_lines == 0:
        return ""
    text = for_user(ends.name, ends.content).strip("\n")
    if ends.is_error and "\n" not in text and len(text) <= MAX_REASON_CHARS:
        return ""
    return bounded(text, lines=ends.result_lines)


def bounded(text: str, *, lines: int | None = None) -> str:
    """Return `text` as plain text of at most `lines` lines, with the number of omitted lines."""
    # `plain` spells out invisible characters. Its limit would count the longer spelling, and cut
    # text that the limits below allow.
    found = plain(text, limit=sys.maxsize).strip("\n").split("\n")
    shown = found if lines is None else found[:lines]
    left = len(found) - len(shown)
    cut = [truncate(line, MAX_LINE_CHARS).rstrip() for line in shown]
    more = [f"… {left} more line{'' if left == 1 else 's'}"] if left else []
    return "\n".join([truncate("\n".join(cut), MAX_BLOCK_CHARS), *more])


def stable_traceback(text: str) -> str:
    """Return `text` with `<cell>` for file names of cells, which differ in each run."""
    return _INPUT_FILE.sub('File "<cell>"', _CELL_FILE.sub('File "<cell>"', text))
