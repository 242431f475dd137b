"""`%jp code`: code of the last answer, or a call of the model, as a new cell.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation
from jp_nb.notebook.document.finding import is_headless
from jp_nb.rendering.call_source import call_source
from jp_nb.rendering.code_blocks import CodeBlock, code_blocks
from jp_nb.safe_text import escape_unseen, one_line
from jp_nb.session.recorded_calls import call_with_id
from jp_nb.tooling.python import REGISTRY

MAX_LISTED = 30
"""Number of blocks that an error lists."""


def code(call: Invocation) -> None:
    """Put a block of the last answer, or the call that `--call` names, into a new cell."""
    if call.options.call:
        if call.word is not None:
            raise UsageError("`%jp code` takes a number or `--call`, not both.")
        _insert(call.shell, *_call(call, call.options.call[-1]))
    else:
        _insert(call.shell, *_block(call))


def _block(call: Invocation) -> tuple[str, str]:
    """Return the text of the block that is wanted, and what to say of it."""
    number = call.number(at_least=1)
    turns = call.session.conversations.log(1)
    if not turns:
        raise UsageError("There is no answer yet. Send a request with `%%jp` first.")
    blocks = code_blocks(turns[-1].text)
    if not blocks:
        raise UsageError(f"The last answer (turn {turns[-1].number}) has no code block.")
    if number is None and len(blocks) > 1:
        raise UsageError(
            f"The last answer has {_many(blocks)}. Choose one with `%jp code N`:\n{_list(blocks)}"
        )
    if number is not None and number > len(blocks):
        raise UsageError(
            f"There is no code block {number}. The last answer has {_many(blocks)}:\n"
            f"{_list(blocks)}"
        )
    number = number or 1
    block = blocks[number - 1]
    said = f"code block {number} of the last answer ({_about(block)})"
    if not block.is_python:
        said += f", unchanged. Its language is {block.language}, not Python"
    return block.text, said


def _list(blocks: Sequence[CodeBlock]) -> str:
    rows = [
        f"  {number}  {_about(block)}: {escape_unseen(one_line(block.first_line, limit=60))}"
        for number, block in enumerate(blocks[:MAX_LISTED], start=1)
    ]
    left = len(blocks) - len(rows)
    return "\n".join([*rows, f"  … and {left} more"] if left else rows)


def _about(block: CodeBlock) -> str:
    lines = block.text.count("\n") + 1
    count = f"{lines} line{'' if lines == 1 else 's'}"
    return f"{block.language}, {count}" if block.language else count


def _many(blocks: Sequence[CodeBlock]) -> str:
    return "1 code block" if len(blocks) == 1 else f"{len(blocks)} code blocks"


def _call(call: Invocation, wanted: str | None) -> tuple[str, str]:
    """Return code that calls a tool as the model did, and what to say of it."""
    calls = [made for turn in call.session.conversations.log() for made in turn.tool_calls]
    if not calls:
        raise UsageError("The model has not called a tool in this conversation.")
    made = calls[-1] if wanted is None else call_with_id(calls, wanted)
    tool = REGISTRY.all().get(made.name)
    source = call_source(made, tool, call.shell.user_ns)
    return source, f"the call {escape_unseen(made.id)} of `{escape_unseen(made.name)}`"


def _insert(shell: Any, text: str, what: str) -> None:
    """Have the front end put `text` into a new cell, which does not run; or print it."""
    kernel = getattr(shell, "kernel", None)
    if kernel is not None and is_headless(kernel):
        print(f"jp_nb: No cell can be inserted in a headless run. This is {what}:\n\n{text}")
        return
    shell.set_next_input(text, replace=False)
    print(f"jp_nb: Inserted a new cell with {what}. The cell has not run.")
    if hidden := _hidden(text):
        print(f"jp_nb: Check the code before you run it: {hidden}.")


def _hidden(text: str) -> str:
    """Say which lines hold characters that nobody sees; "" if none does."""
    numbers = [
        str(number)
        for number, line in enumerate(text.split("\n"), start=1)
        if not line.isascii() and escape_unseen(line.replace("\t", " ")) != line.replace("\t", " ")
    ]
    if not numbers:
        return ""
    more = f" and {len(numbers) - 10} more" if len(numbers) > 10 else ""
    which = (
        f"line {numbers[0]} contains"
        if len(numbers) == 1
        else f"lines {', '.join(numbers[:10])}{more} contain"
    )
    return f"{which} characters that are invisible or look like other characters"
