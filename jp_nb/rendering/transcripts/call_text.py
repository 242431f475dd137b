"""Text of one tool call: its line, and the blocks below it. The transcript and the log use it.

The line has a mark, the call, and its outcome. Arguments with code (`ToolBegins.texts`), the
result, and a traceback are blocks below the line. For example, a call that has failed:

    ✗ read_file(path="a.csv") — There is no file a.csv

`ToolBegins` and `ToolEnds` are the events of the call (`jp_nb/agent/display.py`). Arguments are in
the line, as JSON below it, or hidden (`parameters`: `line`, `json`, `off`), or written by a
formatter below the line (`formatted`). The result is below the line with `result_lines` lines, or
can be unfolded there (`folds_result`). A short error is only in the line.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pydantic import JsonValue

from jp_nb.agent.approvals.argument_editor import format_visible_json
from jp_nb.agent.display import (
    ToolBegins,
    ToolEnds,
)
from jp_nb.agent.inquiries.question_route import format_no_user_error
from jp_nb.exact_form import escape_invisible, spell_invisible, spell_lines
from jp_nb.images import count_images
from jp_nb.json_writing import spaced_json
from jp_nb.record.reading.turn_view import ToolCall
from jp_nb.rendering.markdown import (
    escape_markup,
    make_code_block,
    make_code_span,
    make_details_block,
)
from jp_nb.rendering.report import (
    Report,
    indent_text,
    limit_text,
)
from jp_nb.rendering.transcripts.edit_text import make_edits_block
from jp_nb.text import MAX_LISTED_LINES, one_line, plain, pluralize, truncate
from jp_nb.toolkit.data_sections import remove_frame

EDITED_NOTE = " (arguments edited by you)"
RULE_NOTE = " (rule: {})"
MAX_RULE_CHARS = 160
"""Maximum length of the rule in the line of a call."""
MAX_CALL_LINE_CHARS = 120
MAX_CALL_REASON_CHARS = 300
MAX_OPEN_LINES = 40
"""Limit of lines of code in the arguments. Longer code is folded."""
MAX_FOLDED_LINES = 200
"""Limit of lines of a folded result."""
MAX_FOLDED_CHARS = 10_000
"""Limit of characters of a folded result."""
_CELL_FILE = re.compile(r'File "(?:[^"]*ipykernel_\d+/\d+\.py|<ipython-input-[^"]*>)"')


def render_call(begins: ToolBegins, ends: ToolEnds | None) -> Report:
    """Return the line of a call, and the blocks below it, which are indented in the text.

    `ends` is None while the call runs. The duration is only in the `live` form, because it differs
    in each run. The traceback is only in Markdown, where it is folded.
    """
    mark = "⚙"
    duration = ""
    result_note = " …"
    if ends is not None:
        mark = get_call_mark(ends)
        duration = f" {ends.seconds:.1f} s"
        result_note = _format_result_note(ends)

    call = _format_call_of_line(begins)
    edited = EDITED_NOTE if begins.edited else ""
    rule = "" if begins.rule is None else format_rule_note(begins.rule)
    line = f"{mark} {make_code_span(call)}{edited}{escape_markup(rule)}"

    blocks = [block for block in _list_blocks_below(begins, ends) if block.markdown]
    below = [block.markdown for block in blocks]
    if ends is not None and ends.traceback:
        traceback = make_code_block(normalize_traceback(ends.traceback))
        below.append(make_details_block("Traceback", traceback))

    texts = [block.text for block in blocks if block.text]
    return Report(
        markdown="\n\n".join([f"{line}{escape_markup(result_note)}", *below]),
        text="\n".join([f"{mark} {call}{edited}{rule}{result_note}", *texts]),
        live="\n\n".join([f"{line}{escape_markup(duration + result_note)}", *below]),
    )


def format_rule_note(words: str) -> str:
    """Return the part of a call's line about the rule that decided about the call."""
    return RULE_NOTE.format(one_line(escape_invisible(words), limit=MAX_RULE_CHARS))


def _format_result_note(ends: ToolEnds) -> str:
    """Return the end of the line: the images of the result, and the reason of a failure.

    The reason is omitted if the result is shown below.
    """
    note = "".join(f" · {words}" for words in _list_image_notes(ends))
    if (ends.skipped or ends.is_error) and not _format_result(ends):
        # Text after a blank line, such as advice for the model, is only in the record.
        first = format_content_for_user(ends.name, ends.content).strip().partition("\n\n")[0]
        if reason := one_line(first, limit=MAX_CALL_REASON_CHARS):
            note += f" — {reason}"

    return note


def get_call_mark(ended: ToolEnds | ToolCall) -> str:
    """Return the sign of a call that has ended."""
    if ended.skipped:
        return "⊘"

    return "✗" if ended.is_error else "✓"


def format_content_for_user(tool: str, content: str) -> str:
    """Return the response of a call for the user.

    The error for the model mentions a terminal if no user is available (`format_no_user_error`). A
    notebook has no terminal, so the user reads another message.
    """
    if content == format_no_user_error(tool):
        return (
            "no user is available to answer its question. Configure the answer, or give it in an "
            "answers file."
        )
    return content


def _list_image_notes(ends: ToolEnds) -> list[str]:
    """Return the number of images that the model sees, and why it does not see others."""
    listed = ends.omitted_images[:MAX_LISTED_LINES]
    words = count_images(ends.images)
    words += [one_line(text, limit=MAX_CALL_REASON_CHARS) for text in listed]

    more = len(ends.omitted_images) - len(listed)
    if more:
        words.append(f"{more} more omitted")

    return words


def _format_call_of_line(begins: ToolBegins) -> str:
    """Return the call with its arguments; code in them is replaced by the number of its lines.

    It is only the name if the arguments are hidden, or shown below the line.
    """
    if begins.parameters != "line" or begins.formatted is not None:
        return plain(spell_invisible(begins.name), limit=MAX_CALL_LINE_CHARS)

    sizes = {}
    for text in begins.texts:
        count = str(begins.arguments[text.name]).removesuffix("\n").count("\n") + 1
        sizes[text.name] = f"…{count} {pluralize('line', count)}"

    return format_call(begins.name, begins.arguments, sizes)


def format_call(
    name: str,
    arguments: Mapping[str, JsonValue],
    texts: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return a call in one line, such as `add(a=1, b=2)`. `texts` replace values of arguments."""
    shown_arguments: list[str] = []
    omitted_chars = 0
    for key, value in _drop_empty(arguments).items():
        text = texts[key] if key in texts else spaced_json(value)
        # Cut before escaping: an argument may have a megabyte.
        shown = escape_invisible(text[:MAX_CALL_LINE_CHARS])
        shown_arguments.append(f"{spell_invisible(key)}={shown}")
        omitted_chars += max(len(text) - MAX_CALL_LINE_CHARS, 0)

    listed = ", ".join(shown_arguments)
    line = f"{spell_invisible(name)}({listed})"
    return truncate(line, MAX_CALL_LINE_CHARS, cut=omitted_chars)


def _list_blocks_below(begins: ToolBegins, ends: ToolEnds | None) -> Iterator[Report]:
    """Yield the blocks with the arguments, the result, and the edits of cells.

    A prompt about the call shows its code, so the code is not repeated while the prompt is open.
    """
    if begins.formatted is not None:
        yield _make_block_below(limit_text(begins.formatted))
    elif begins.parameters != "off":
        is_shown_by_prompt = begins.asked and ends is None
        yield from _list_argument_blocks(begins, with_code=not is_shown_by_prompt)

    if ends is not None:
        yield _make_block_below(_format_result(ends))
        yield _make_folded_result(ends)
        if ends.edits is not None:
            yield make_edits_block(begins.arguments, ends.edits)


def _list_argument_blocks(begins: ToolBegins, *, with_code: bool) -> Iterator[Report]:
    """Yield the arguments as JSON, if they are shown so, and each argument with code."""
    if begins.parameters == "json":
        code_names = {text.name for text in begins.texts}
        arguments = _drop_empty(begins.arguments)
        others = {key: value for key, value in arguments.items() if key not in code_names}
        text = limit_text(format_visible_json(others)) if others else ""
        yield _make_block_below(text, "json")

    if with_code:
        for code in begins.texts:
            _, lines = spell_lines(str(begins.arguments[code.name]))
            yield _make_block_below(limit_text("\n".join(lines)), code.language, folds=True)


def _make_folded_result(ends: ToolEnds) -> Report:
    """Return the result for pages. A text cannot be unfolded, so it has none."""
    content = remove_frame(format_content_for_user(ends.name, ends.content))
    if not ends.folds_result or not content.strip() or _is_reason(ends):
        return Report("", "")

    shown = limit_text(content[:MAX_FOLDED_CHARS], lines=MAX_FOLDED_LINES)
    omitted_chars = len(content) - MAX_FOLDED_CHARS
    if omitted_chars > 0:
        noun = pluralize("character", omitted_chars)
        shown = f"{shown}\n… {omitted_chars:,} more {noun}"

    noun = "error" if ends.is_error else "result"
    size = f"{len(content):,} {pluralize('character', len(content))}"
    title = f"{noun} ({size})"
    return Report(make_details_block(title, make_code_block(shown)), "")


def _make_block_below(text: str, language: str = "text", *, folds: bool = False) -> Report:
    """Return a block of code; empty without a text. With `folds`, a long one is folded."""
    if not text:
        return Report("", "")

    block = make_code_block(text, language)
    count = text.count("\n") + 1
    if folds and count > MAX_OPEN_LINES:
        block = make_details_block(f"{count} lines of {language}", block)

    return Report(block, indent_text(text))


def add_printed(call: Report, printed: str) -> Report:
    """Return the text of a `call` with the text that its tool has `printed` below."""
    # Like all output of the cell, it is not folded. It was already cut to a beginning and an end.
    text = plain(printed, limit=len(printed)).strip("\n")
    if not text.strip():
        return call

    block = make_code_block(text, limit=len(text))
    live = None
    if call.live is not None:
        live = f"{call.live}\n\n{block}"

    return Report(f"{call.markdown}\n\n{block}", f"{call.text}\n{indent_text(text)}", live)


def _drop_empty(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the arguments that say something: models often pass null for optional ones."""
    return {key: value for key, value in arguments.items() if value not in (None, {}, [])}


def _format_result(ends: ToolEnds) -> str:
    """Return the result that is shown below the line; "" if it is hidden, or in the line."""
    if ends.skipped or ends.result_lines == 0 or _is_reason(ends):
        return ""

    content = format_content_for_user(ends.name, ends.content)
    return limit_text(content.strip("\n"), lines=ends.result_lines)


def _is_reason(ends: ToolEnds) -> bool:
    """Return True if the line of the call has the whole content, as the reason of its failure."""
    text = format_content_for_user(ends.name, ends.content).strip("\n")
    return ends.is_error and "\n" not in text and len(text) <= MAX_CALL_REASON_CHARS


def normalize_traceback(text: str) -> str:
    """Return `text` with `<cell>` for file names of cells, which differ in each run."""
    return _CELL_FILE.sub('File "<cell>"', text)
