"""The traceback of an exception for the model: its calls, with the lines of the user's code.

Only *own* code is shown: that of cells, and of files outside of the installed libraries
(`CodePlaces`). A call of other code has only its location.

Source: `docs/guide.md`, `docs/decisions.md` D85, D99.
"""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NamedTuple

from jp_nb.session.turns.code_places import CodePlaces
from jp_nb.session.turns.error_secrets import hide_in_beginning, hide_in_code
from jp_nb.session.turns.failed_code import (
    MAX_SOURCE_LINE_CHARS,
    find_failed_lines,
    format_excerpt,
    format_omitted,
)
from jp_nb.text import one_line
from jp_nb.toolkit.function_tools import tool_errors
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets

MAX_ERROR_FRAMES = 30  # limit of the calls of one exception: the first and the last of them
AROUND = 2  # lines of context above and below a failed statement
MAX_SECRET_LINES = 500  # lines above an excerpt that may begin a secret; a key has about 100
MAX_IN_GROUPS = 30  # limit of the exceptions of a group, with nested groups
MAX_SHOWN_EXCEPTION_CHARS = 2000  # limit of the characters of an exception message


class ErrorCall(NamedTuple):
    """One call of a traceback."""

    frame: FrameType
    summary: traceback.FrameSummary


def list_error_calls(error: BaseException, places: CodePlaces) -> list[ErrorCall]:
    """Return the calls that led to `error`, from the first one in own code on."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    summaries = traceback.extract_tb(error.__traceback__)
    # `sys.tracebacklimit` limits only the summaries.
    calls = [ErrorCall(*parts) for parts in zip(frames, summaries, strict=False)]

    for index, call in enumerate(calls):
        if places.is_own(call.summary.filename):
            return calls[index:]
    # Code with a syntax error did not run.
    return [] if isinstance(error, SyntaxError) else calls


def format_error(error: BaseException, places: CodePlaces) -> str:
    """Return the message of `error` with its type, and those of the exceptions in a group."""
    if isinstance(error, BaseExceptionGroup):
        return "\n".join(_format_error_group(error, places))

    message = "".join(traceback.format_exception_only(error)).rstrip()
    if isinstance(error, SyntaxError) and error.filename:  # the message has its place
        file = f'File "{error.filename}"'
        path = places.shorten_path(error.filename)
        message = message.replace(file, path, 1)
    return message


def _format_error_group(
    error: BaseExceptionGroup[BaseException], places: CodePlaces
) -> Iterator[str]:
    """Yield lines for a group and its first exceptions, at any depth.

    The traceback module visits every exception of a group, which can be very many.
    """
    # A stack: the next exception is at its end.
    pending: list[tuple[int, str, BaseException]] = [(0, "", error)]
    count = 0
    while pending and count < MAX_IN_GROUPS:
        depth, mark, member = pending.pop()
        count += 1
        indentation = "  " * depth

        if not isinstance(member, BaseExceptionGroup):
            yield f"{indentation}{mark}{format_error(member, places)}"
            continue

        yield f"{indentation}{mark}{tool_errors.summarize_error(member)}"
        first_members = member.exceptions[:MAX_IN_GROUPS]
        nested = [(depth + 1, f"[{index}] ", inner) for index, inner in enumerate(first_members)]
        pending += reversed(nested)

    if pending:
        yield "  … (more errors of the group are omitted)"


class ErrorTraceback:
    """Writes the calls and the message of exceptions, without secrets, on the cell's thread."""

    def __init__(self, places: CodePlaces, hide: NotebookSecrets) -> None:
        self._places = places
        self._hide = hide

    def format_with_calls(self, error: BaseException, room: int) -> Iterator[str]:
        """Yield the calls that led to `error`, and its message, in about `room` characters.

        Of many calls, those in the middle are omitted first, then the earliest. A line has the
        number of the omitted ones.
        """
        message = self._format_message(error, room)

        calls = list_error_calls(error, self._places)
        # The calls from `middle` on that exceed the limit, as in a long recursion.
        middle = MAX_ERROR_FRAMES // 3
        middle_count = max(len(calls) - MAX_ERROR_FRAMES, 0)
        del calls[middle : middle + middle_count]

        texts = [list(self._format_call(call)) for call in calls]
        first = _find_first_fitting(texts, room - len(message))

        # If the earliest calls up to the middle are omitted, one line counts them all.
        is_middle_shown = first <= middle
        omitted_count = first if is_middle_shown else first + middle_count
        yield from format_omitted(omitted_count, "call")

        for number, lines in enumerate(texts[first:], start=first):
            if is_middle_shown and number == middle:
                yield from format_omitted(middle_count, "call")
            yield from lines

        yield message

    def _format_call(self, call: ErrorCall) -> Iterator[str]:
        """Yield the location of a call, and for user code the lines around it."""
        frame, summary = call
        yield one_line(self._places.format_location(summary))
        if not self._places.is_own(summary.filename):
            return

        lines = linecache.getlines(summary.filename, frame.f_globals)
        failing = find_failed_lines(summary)
        shown = _find_shown_lines(call, failing, len(lines))
        if not shown:
            return

        # A secret may begin above the excerpt.
        searched = range(max(shown.start - MAX_SECRET_LINES, 1), shown.stop)
        searched_lines = {number: lines[number - 1].rstrip() for number in searched}
        code = hide_in_code(searched_lines, self._hide)
        source = {number: code[number] for number in shown}
        excerpt = format_excerpt(source, failing, len(source) * MAX_SOURCE_LINE_CHARS)
        yield from (f"  {line}" for line in excerpt)

    def _format_message(self, error: BaseException, room: int) -> str:
        """Return the message of `error`, shortened to `room`, but not below the size of a line."""
        text = format_error(error, self._places)
        message = hide_in_beginning(text, MAX_SHOWN_EXCEPTION_CHARS, self._hide)
        return message[: max(room, MAX_SOURCE_LINE_CHARS)]


def _find_first_fitting(texts: Sequence[Sequence[str]], room: int) -> int:
    """Return the index from which on all `texts` fit into `room` characters; at most the last."""
    first = len(texts)
    for index in range(len(texts) - 1, -1, -1):
        size = sum(len(line) + 1 for line in texts[index])
        if size > room:
            break
        room -= size
        first = index
    return min(first, max(len(texts) - 1, 0))


def _find_shown_lines(call: ErrorCall, failing: range, line_count: int) -> range:
    """Return the numbers of the lines around the `failing` ones, inside of the function.

    Code outside of functions has no lines around: the section of the cell shows it.
    """
    code = call.frame.f_code
    around = 0 if call.summary.name == "<module>" else AROUND
    start = max(failing.start - around, code.co_firstlineno, 1)

    code_lines = [number for *_, number in code.co_lines() if number is not None]
    code_stop = max(code_lines, default=0) + 1
    stop = max(min(failing.stop + around, code_stop), failing.start)
    return range(start, min(stop, line_count + 1))
