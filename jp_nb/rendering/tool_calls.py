"""A tool call as its cell shows it: one line, and below it what its style asks for.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.agent.display import ToolBegins, ToolEnds
from jp_nb.agent.permissions import format_visible_json
from jp_nb.agent.questions import no_user_error
from jp_nb.agent.tool_call import MAX_LISTED_OMISSIONS, format_image_count
from jp_nb.json_values import spaced_json
from jp_nb.rendering.markdown import break_math, code_block, code_span
from jp_nb.text import (
    escape_invisible,
    escape_markdown,
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
"""Of one line of arguments or of a result."""
MAX_BLOCK_CHARS = 100_000
MAX_OPEN_LINES = 40
"""Of code among the arguments; longer code is folded."""
_CELL_FILE = re.compile(r'File "[^"]*ipykernel_\d+/\d+\.py"')
_INPUT_FILE = re.compile(r'File "<ipython-input-[^"]*>"')


def call_markdown(begins: ToolBegins, ends: ToolEnds | None, *, live: bool) -> str:
    """The call in Markdown; `live` also says how long it took. `ends` is None while it runs."""
    mark, tail = _state(ends, live=live)
    parts = [f"{mark} {code_span(_head(begins))}{_edited(begins)}{no_markup(tail)}"]
    parts += [block.markdown for block in _below(begins, ends)]
    if ends is not None and ends.traceback:
        parts.append(details_block("Traceback", code_block(stable_traceback(ends.traceback))))
    return "\n\n".join(parts)


def call_plain(begins: ToolBegins, ends: ToolEnds | None) -> str:
    """The call as text. What is below its line is indented: nothing there looks like a call."""
    mark, tail = _state(ends, live=False)
    below = [line for block in _below(begins, ends) for line in block.text.split("\n")]
    head = f"{mark} {_head(begins)}{_edited(begins)}{tail}"
    return "\n".join([head, *(f"    {line}".rstrip() for line in below)])


def _state(ends: ToolEnds | None, *, live: bool) -> tuple[str, str]:
    """The mark before a call, and what follows it in its line."""
    if ends is None:
        return "⚙", " …"
    mark = "⊘" if ends.skipped else "✗" if ends.is_error else "✓"
    time = f" {ends.seconds:.1f} s" if live else ""
    time += "".join(f" · {words}" for words in _images(ends))
    told = (ends.skipped or ends.is_error) and not _result(ends)
    # What follows a blank line, such as advice for the model, is in the record.
    first = for_user(ends.name, ends.content).strip().partition("\n\n")[0]
    reason = one_line(first, limit=MAX_REASON_CHARS) if told else ""
    return mark, f"{time} — {reason}" if reason else time


def for_user(tool: str, content: str) -> str:
    """Return the response of a call as the user reads it.

    The model's words for a run without a user name a terminal, which a notebook does not have.
    """
    if content == no_user_error(tool):
        return (
            "no user is available to answer its question. Configure the answer, or give it in an "
            "answers file."
        )
    return content


def _images(ends: ToolEnds) -> list[str]:
    """Return what the line says of images, of which the model may have seen a part."""
    said = [format_image_count(ends.images)] if ends.images else []
    told = [
        one_line(text, limit=MAX_REASON_CHARS)
        for text in ends.omitted_images[:MAX_LISTED_OMISSIONS]
    ]
    more = len(ends.omitted_images) - len(told)
    return [*said, *told, *([f"{more} more omitted"] if more else [])]


def _edited(begins: ToolBegins) -> str:
    return EDITED if begins.edited else ""


def _head(begins: ToolBegins) -> str:
    """`name(a=1, b="x")`, shortened; the name alone where arguments are shown below or not."""
    if begins.parameters != "line" or begins.formatted is not None:
        return plain(spell_invisible(begins.name), limit=MAX_CALL_CHARS)
    below = {each.name for each in begins.texts}
    given = [
        (spell_invisible(key), _size(value) if key in below else spaced_json(value))
        for key, value in _said(begins.arguments).items()
    ]
    # Cut before it is escaped: an argument of a megabyte is drawn again and again.
    text = ", ".join(f"{key}={escape_invisible(value[:MAX_CALL_CHARS])}" for key, value in given)
    cut = sum(max(len(value) - MAX_CALL_CHARS, 0) for _, value in given)
    return truncate(f"{spell_invisible(begins.name)}({text})", MAX_CALL_CHARS, cut=cut)


def _size(text: JsonValue) -> str:
    """Return how long a text is that stands below the line."""
    count = str(text).removesuffix("\n").count("\n") + 1
    return f"…{count} line{'' if count == 1 else 's'}"


class _BlockBelow(NamedTuple):
    """What stands below the line of a call; one that `folds` is folded where it is long."""

    text: str
    language: str
    folds: bool = False

    @property
    def markdown(self) -> str:
        block, lines = code_block(self.text, self.language), self.text.count("\n") + 1
        if not self.folds or lines <= MAX_OPEN_LINES:
            return block
        return details_block(f"{lines} lines of {self.language}", block)


def _below(begins: ToolBegins, ends: ToolEnds | None) -> list[_BlockBelow]:
    """The blocks below the line of a call, bounded."""
    blocks = []
    if begins.formatted is not None:
        blocks.append(_BlockBelow(bounded(begins.formatted), "text"))
    elif begins.parameters != "off":
        blocks += _arguments(begins, asked=begins.asked and ends is None)
    if ends is not None:
        blocks.append(_BlockBelow(_result(ends), "text"))
    return [block for block in blocks if block.text]


def _arguments(begins: ToolBegins, *, asked: bool) -> Iterator[_BlockBelow]:
    """Yield the texts of their own as they are, and the other arguments where they are shown."""
    if begins.parameters != "json" and not begins.texts:
        return
    below = {each.name for each in begins.texts}
    others = {k: v for k, v in _said(begins.arguments).items() if k not in below}
    if begins.parameters == "json" and others:
        yield _BlockBelow(bounded(format_visible_json(others)), "json")
    for each in () if asked else begins.texts:
        _, lines = spell_lines(str(begins.arguments[each.name]))
        yield _BlockBelow(bounded("\n".join(lines)), each.language, folds=True)


def _said(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """`arguments` without those that say nothing."""
    return {key: value for key, value in arguments.items() if value not in (None, {}, [])}


def _result(ends: ToolEnds) -> str:
    """Return what is shown of a result below its line; "" if the line says it all."""
    if ends.skipped or ends.result_lines == 0:
        return ""
    text = for_user(ends.name, ends.content).strip("\n")
    if ends.is_error and "\n" not in text and len(text) <= MAX_REASON_CHARS:
        return ""
    return bounded(text, lines=ends.result_lines)


def bounded(text: str, *, lines: int | None = None) -> str:
    """`text` made plain, of at most so many `lines`, and one that says how many are left out."""
    # No limit yet: characters that are named grow, and would push out what comes after them.
    found = plain(text, limit=sys.maxsize).strip("\n").split("\n")
    shown = found if lines is None else found[:lines]
    left = len(found) - len(shown)
    cut = [truncate(line, MAX_LINE_CHARS).rstrip() for line in shown]
    more = [f"… {left} more line{'' if left == 1 else 's'}"] if left else []
    return "\n".join([truncate("\n".join(cut), MAX_BLOCK_CHARS), *more])


def stable_traceback(text: str) -> str:
    """`text` without the parts that differ from one run to the next."""
    return _INPUT_FILE.sub('File "<cell>"', _CELL_FILE.sub('File "<cell>"', text))


def details_block(title: str, markdown: str) -> str:
    """Our own tags around text in which no tag is left."""
    return f"<details><summary>{title}</summary>\n\n{markdown}\n\n</details>"


def no_markup(line: str) -> str:
    """One line of text in which no Markdown reader sees more than text."""
    return escape_markdown(break_math(line))
