"""Subcommand `%jp code`: insert code of an answer, or a tool call, as a new cell.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from jp_nb.errors import UsageError
from jp_nb.exact_form import escape_invisible
from jp_nb.notebook.commands import Invocation, report_cancellation
from jp_nb.notebook.page.live_store import LiveStore
from jp_nb.notebook.page.surroundings import is_headless
from jp_nb.notebook.running_cells import RunningCell
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.reading.turn_view import ToolCall
from jp_nb.rendering.code_blocks import CodeBlock, find_code_blocks
from jp_nb.rendering.transcripts.call_source import write_call_source
from jp_nb.session.past_turns.call_ids import find_call
from jp_nb.session.past_turns.user_edits import review_user_edits
from jp_nb.text import one_line
from jp_nb.toolkit.editing.cell_edits import CellEdit
from jp_nb.toolkit.editing.confusing_characters import find_suspect_lines
from jp_nb.toolkit.editing.document_cells import DocumentCells
from jp_nb.toolkit.editing.edit_review import EditReview
from jp_nb.toolkit.function_tools.tool_registry import REGISTRY

MAX_LISTED_BLOCKS = 30  # limit of code blocks that an error lists
MAX_SUSPECT_LINES = 10  # limit of lines that a warning names


def insert_code(call: Invocation) -> None:
    """Run `%jp code`: insert a code block of the last answer, or a tool call, as a new cell."""
    if not call.options.call:  # the values of all `--call`, if there are any
        text, description = _find_code_block(call)
    elif call.word is not None:
        raise UsageError("`%jp code` takes a number or `--call`, not both.")
    else:
        text, description = _find_tool_call(call)

    kernel = getattr(call.shell, "kernel", None)
    if kernel is not None and is_headless(kernel):
        print(f"jp_nb: No cell can be inserted in a headless run. This is {description}:\n\n{text}")
        return

    if _page_can_edit(call, kernel):
        # The user reviews the new cell as an edit that a model proposes. `_make_review` is called
        # with the cells of the page.
        with report_cancellation():
            review_user_edits(call.session.bench, "code", partial(_make_review, text, description))
        return

    call.shell.set_next_input(text, replace=False)
    print(f"jp_nb: Inserted a new cell with {description}. The cell has not run.")
    _warn_of_hidden_characters(text)


def _find_tool_call(call: Invocation) -> tuple[str, str]:
    """Return the code of the call that `--call` names, by default the last, and its description."""
    tool_calls: list[ToolCall] = []
    for turn in call.session.conversations.log():
        tool_calls += turn.tool_calls
    if not tool_calls:
        raise UsageError("The model has not called a tool in this conversation.")

    call_id = call.options.call[-1]  # None for `--call` without an id
    chosen = tool_calls[-1] if call_id is None else find_call(tool_calls, call_id)
    text = write_call_source(chosen, REGISTRY.all().get(chosen.name), call.shell.user_ns)
    name = escape_invisible(chosen.name)
    return text, f"the call {escape_invisible(chosen.id)} of `{name}`"


def _warn_of_hidden_characters(text: str) -> None:
    """Name the lines with characters that are invisible, or look like others."""
    suspect = list(map(str, find_suspect_lines(text)))
    if not suspect:
        return

    more_count = len(suspect) - MAX_SUSPECT_LINES
    more = f" and {more_count} more" if more_count > 0 else ""
    contain = f"lines {', '.join(suspect[:MAX_SUSPECT_LINES])}{more} contain"
    if len(suspect) == 1:
        contain = f"line {suspect[0]} contains"
    print(
        f"jp_nb: Check the code before you run it: {contain} characters that are invisible or "
        "look like other characters."
    )


def _page_can_edit(call: Invocation, kernel: Any) -> bool:
    """Return True if the page that runs this cell can insert cells after a review."""
    store = call.session.store
    if kernel is None or not isinstance(store, LiveStore):
        return False
    running = RunningCell(kernel.get_parent("shell"))
    refusal = store.requests.check_edits(running.session)
    return refusal is None


def _make_review(text: str, description: str, document: DocumentCells) -> EditReview:
    """Return the review of a new cell with the source `text` below the running cell."""
    # A key names an inserted cell until it has an id. This is the first edit, of one.
    edit = CellEdit(1, "insert", source=text, key="new:1")
    return EditReview((edit,), document, f"A new cell with {description}", proposer="user")


def _find_code_block(call: Invocation) -> tuple[str, str]:
    """Return the text of the code block that the user chose, and its description."""
    number = call.number(at_least=1)
    turns = call.session.conversations.log(1)
    if not turns:
        raise UsageError("There is no answer yet. Send a request with `%%jp` first.")

    blocks = find_code_blocks(turns[-1].text)
    if not blocks:
        last = to_shown_turn(turns[-1].number)
        raise UsageError(f"The last answer (turn {last}) has no code block.")

    count = "1 code block" if len(blocks) == 1 else f"{len(blocks)} code blocks"
    problem = ""
    if number is None and len(blocks) > 1:
        problem = f"The last answer has {count}. Choose one with `%jp code N`"
    elif number is not None and number > len(blocks):
        problem = f"There is no code block {number}. The last answer has {count}"

    if problem:
        raise UsageError(f"{problem}:\n{_list_blocks(blocks)}")

    number = number or 1  # the only one
    block = blocks[number - 1]
    description = f"code block {number} of the last answer ({_describe_block(block)})"
    if not block.is_python:
        description += f", unchanged. Its language is {block.language}, not Python"

    return block.text, description


def _list_blocks(blocks: Sequence[CodeBlock]) -> str:
    """Return the number, kind, and first line of each code block, for an error."""
    rows = []
    for number, block in enumerate(blocks[:MAX_LISTED_BLOCKS], start=1):
        first_line = escape_invisible(one_line(block.first_line, limit=60))
        rows.append(f"  {number}  {_describe_block(block)}: {first_line}")
    omitted = len(blocks) - len(rows)
    if omitted:
        rows.append(f"  … and {omitted} more")

    return "\n".join(rows)


def _describe_block(block: CodeBlock) -> str:
    lines = block.text.count("\n") + 1
    count = "1 line" if lines == 1 else f"{lines} lines"
    return f"{block.language}, {count}" if block.language else count
