"""The request about the last exception of a cell: cell, calls, causes, and values of names.

`%jp why` sends it. The request has sections of data: the source of the cell, the traceback with the
source lines of the user's code, and the values of the names in the failing lines. All sections have
limits, and secrets are hidden, also in source code.

Source: `docs/guide.md`, `docs/decisions.md` D85, D99.
"""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

from jp_nb.config.secrets.api_keys import looks_like_secret
from jp_nb.config.secrets.replacements import NOT_SHOWN
from jp_nb.session.host import LastError
from jp_nb.session.turns.code_places import CodePlaces
from jp_nb.session.turns.error_chain import format_error_group, list_error_chain
from jp_nb.session.turns.failed_code import (
    MAX_SOURCE_LINE_CHARS,
    find_failed_lines,
    find_written_line,
    format_excerpt,
    format_omitted,
    iter_named_values,
)
from jp_nb.text import one_line, plain
from jp_nb.toolkit.data_sections import DataSection, frame_sections
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets
from jp_nb.values.base import ValueBudget
from jp_nb.values.describe import describe

MAX_ERROR_FRAMES = 30  # limit of the calls of one exception: the first and the last of them
MAX_NAMES = 24  # limit of the names with values, nearest to the exception first
FRAMES_WITH_NAMES = 3  # number of the last calls in user code whose names have values
AROUND = 2  # lines of context above and below a failed statement
MAX_SECRET_LINES = 500  # lines above an excerpt that may begin a secret; a key has about 100
MAX_SHOWN_EXCEPTION_CHARS = 2000  # limit of the characters of an exception message
MAX_VALUE = 800  # limit of the characters of a value
MIN_CHARS = 2000  # lower bound of the configured limit of a request
DEFAULT_QUESTION = "Explain this error and how to fix it."
FIX_TEXT = (
    "Explain this error in a few sentences. Then propose the smallest edit that fixes it, with one "
    "call of edit_cells. The user reviews it. If no edit of a cell fixes it, say so."
)
FAILED_CELL_TEXT = "The cell that failed has the id `{}` and the version {}."
FIND_CELL_TEXT = "Find the cell with notebook_cells first."
_CAUSED = "The error above was the direct cause of the following error:"
_HANDLED = "During handling of the error above, another error occurred:"


class _Call(NamedTuple):
    """One call of a traceback."""

    frame: FrameType
    summary: traceback.FrameSummary


class _FailedCell(NamedTuple):
    """The cell that failed.

    Attributes:
        label: Its label for the user; "" if no place of the error is in a cell.
        source: Its source; "" if it is unknown.
        line: Number of the failed line; None if it is unknown.
    """

    label: str
    source: str
    line: int | None


class _NamedValue(NamedTuple):
    """A name in a failed line, the location of the line, and its value."""

    name: str
    location: str
    value: object


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


def _find_shown_lines(call: _Call, failing: range, line_count: int) -> range:
    """Return the numbers of the lines around the `failing` ones, inside of the function."""
    code = call.frame.f_code
    around = 0 if call.summary.name == "<module>" else AROUND
    start = max(failing.start - around, code.co_firstlineno, 1)

    code_lines = [number for *_, number in code.co_lines() if number is not None]
    code_stop = max(code_lines, default=0) + 1
    stop = max(min(failing.stop + around, code_stop), failing.start)
    return range(start, min(stop, line_count + 1))


class ErrorRequest:
    """Writes a request about an error, without the secrets in `namespace`, on the cell's thread.

    Secrets are hidden if their name, their form, or a variable identifies them. Only *own* code is
    shown: that of cells, and of files outside of the installed libraries (`CodePlaces`).

    A method with `room` uses at most about that many characters.
    """

    def __init__(self, last: LastError, namespace: Mapping[str, Any]) -> None:
        self._last = last
        self._places = CodePlaces(last.label_of)

        # `_hide` hides secrets in a text, and `_hide.name` a whole value that is secret. The values
        # in failed lines may be local variables, which `namespace` does not have.
        self._chain = list_error_chain(last.error)
        self._named_values = list(self._find_named_values())
        local_values = {named.name: named.value for named in self._named_values}
        self._hide = NotebookSecrets({**namespace, **local_values})

    def write_for_model(self, question: str = "", *, room: int, fixes: bool = False) -> str:
        """Return the question, the cell, the traceback with causes, and the values of names.

        Content of the notebook has at most about `room` characters, and is marked as data. With
        `fixes`, the model is asked to propose an edit of the cell.
        """
        room = max(room, MIN_CHARS)
        room_for_each_error = room * 4 // 10 // len(self._chain)

        lines: list[str] = []
        for error, is_cause in self._chain:
            lines += self._format_with_calls(error, room_for_each_error)
            if error is not self._last.error:
                relation = _CAUSED if is_cause else _HANDLED
                lines += ["", relation, ""]

        sections = [
            *self._make_cell_sections(room * 3 // 10),
            DataSection("traceback, most recent call last", "\n".join(lines)),
            *self._make_value_sections(room // 4),
        ]

        request = question.strip() or DEFAULT_QUESTION
        if fixes:
            request = self._make_edit_request(question)
        return frame_sections(f"{request}\n", sections)

    def _make_edit_request(self, question: str) -> str:
        """Return the request for an edit, with the id and version of the cell, if it is known."""
        from jp_nb.toolkit.editing.document_cells import cell_version

        last = self._last
        cell_text = FIND_CELL_TEXT
        if last.cell_id and last.raw_cell is not None:
            cell_text = FAILED_CELL_TEXT.format(
                one_line(last.cell_id, limit=64), cell_version(last.raw_cell)
            )
        return "\n".join(filter(None, [question.strip(), FIX_TEXT, cell_text]))

    def write_for_user(self, question: str = "", *, command: str = "why") -> str:
        """Return the request as the user knows it: the question, and the name of the error."""
        error = self._last.error
        text = self._format_error(error)[:MAX_SHOWN_EXCEPTION_CHARS]
        lines = self._hide_secrets(text).splitlines() or [""]

        # The description of a syntax error begins with its place.
        error_line = lines[-1] if isinstance(error, SyntaxError) else lines[0]

        command_line = f"{command}: {one_line(error_line, limit=MAX_SOURCE_LINE_CHARS)}"
        return "\n".join(filter(None, [question.strip(), command_line]))

    def _hide_secrets(self, text: str) -> str:
        return self._hide(plain(text, limit=len(text)))

    def _hide_in_code(self, lines: Mapping[int, str]) -> dict[int, str]:
        """Return source lines by number without secrets, such as literals that are assigned.

        All lines are searched as one text, because a secret may have several lines.
        """
        plain_lines = (plain(line, limit=len(line)).replace("\n", " ") for line in lines.values())
        cleared = self._hide("\n".join(plain_lines), code=True).split("\n")
        return dict(zip(lines, cleared, strict=True))

    def _make_cell_sections(self, room: int) -> Iterator[DataSection]:
        """Yield the section with the failed cell; none if its source is unknown."""
        cell = self._find_cell()
        if not cell.source.strip():
            return

        heading = cell.label or "the cell"
        failing = range(0)
        if cell.line is not None:
            heading += f", which failed at line {cell.line}"
            failing = range(cell.line, cell.line + 1)

        numbered = dict(enumerate(cell.source.rstrip("\n").split("\n"), start=1))
        excerpt = format_excerpt(self._hide_in_code(numbered), failing, room)
        yield DataSection(heading, "\n".join(excerpt))

    def _find_cell(self) -> _FailedCell:
        """Return the cell of the first call that is in a cell, or of a syntax error.

        Its source is as the user wrote it, unless IPython has changed the failed line, such as
        `!ls`: then it is the source that IPython made.
        """
        raw_cell = self._last.raw_cell
        error = self._last.error
        places = [(call.summary.filename, call.summary.lineno) for call in self._list_calls(error)]
        if isinstance(error, SyntaxError) and error.filename:
            places.append((error.filename, error.lineno))

        for filename, line in places:
            label = self._last.label_of(filename)
            if label is None:  # not the file of a cell
                continue

            source = "".join(linecache.getlines(filename))
            if raw_cell is not None:
                written = find_written_line(raw_cell, source, line)
                if written is not None:
                    return _FailedCell(label, *written)
            return _FailedCell(label, source, line)

        return _FailedCell("", raw_cell or "", None)

    def _format_with_calls(self, error: BaseException, room: int) -> Iterator[str]:
        """Yield the calls that led to `error`, and its message, in about `room` characters.

        Of many calls, those in the middle are omitted first, then the earliest. A line has the
        number of the omitted ones.
        """
        text = self._format_error(error)
        message = self._hide_secrets(text[:MAX_SHOWN_EXCEPTION_CHARS])
        if len(text) > MAX_SHOWN_EXCEPTION_CHARS:
            message += "…"
        message = message[: max(room, MAX_SOURCE_LINE_CHARS)]

        calls = self._list_calls(error)
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

    def _list_calls(self, error: BaseException) -> list[_Call]:
        """Return the calls of `error` from the first one in user code on."""
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        summaries = traceback.extract_tb(error.__traceback__)
        # `sys.tracebacklimit` limits only the summaries.
        calls = [_Call(*parts) for parts in zip(frames, summaries, strict=False)]

        for index, call in enumerate(calls):
            if self._places.is_own(call.summary.filename):
                return calls[index:]
        # Code with a syntax error did not run.
        return [] if isinstance(error, SyntaxError) else calls

    def _format_call(self, call: _Call) -> Iterator[str]:
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
        code = self._hide_in_code({number: lines[number - 1].rstrip() for number in searched})
        source = {number: code[number] for number in shown}
        excerpt = format_excerpt(source, failing, len(source) * MAX_SOURCE_LINE_CHARS)
        yield from (f"  {line}" for line in excerpt)

    def _format_error(self, error: BaseException) -> str:
        if isinstance(error, BaseExceptionGroup):
            return "\n".join(format_error_group(error, self._format_error))

        message = "".join(traceback.format_exception_only(error)).rstrip()
        if isinstance(error, SyntaxError) and error.filename:
            file = f'File "{error.filename}"'
            path = self._places.shorten_path(error.filename)
            message = message.replace(file, path, 1)
        return message

    def _find_named_values(self) -> Iterator[_NamedValue]:
        """Yield the values of names in failed lines of own code, the nearest first.

        A name with the same value is yielded once, and `MAX_NAMES` names at most.
        """
        seen: set[tuple[str, int]] = set()
        for frame, summary in self._list_nearest_calls():
            for name, value in iter_named_values(frame, summary):
                if (name, id(value)) in seen:
                    continue
                if len(seen) == MAX_NAMES:
                    return

                seen.add((name, id(value)))
                yield _NamedValue(name, self._places.format_location(summary), value)

    def _list_nearest_calls(self) -> Iterator[_Call]:
        """Yield the last calls of own code, of each exception from the newest one on."""
        for error, _ in reversed(self._chain):
            calls = self._list_calls(error)
            own_calls = [call for call in calls if self._places.is_own(call.summary.filename)]
            yield from reversed(own_calls[-FRAMES_WITH_NAMES:])

    def _make_value_sections(self, room: int) -> Iterator[DataSection]:
        """Yield the section with the values of names; none if there are no names."""
        lines: list[str] = []
        for index, (name, location, value) in enumerate(self._named_values):
            shown = self._format_value(name, value, min(MAX_VALUE, room))
            text = f"{name} ({one_line(location)}): {shown}"
            room -= len(text) + 1
            if room < 0:
                lines += format_omitted(len(self._named_values) - index, "name")
                break
            lines.append(text)

        if lines:
            heading = "values of the names in the failed lines, nearest first"
            yield DataSection(heading, "\n".join(lines))

    def _format_value(self, name: str, value: object, room: int) -> str:
        """Return the description of a value, or a placeholder if it may be a secret."""
        hidden = self._hide.name(name, value)
        if hidden is not None:
            return hidden

        # Values in a failed line are more often secrets than other values. So a short text in one
        # word is also hidden if it only looks like a key.
        if isinstance(value, str | bytes) and len(value) < MAX_VALUE:
            text = value if isinstance(value, str) else value.decode(errors="replace")
            is_word = len(text.split()) == 1
            if is_word and looks_like_secret(text):
                return NOT_SHOWN

        budget = ValueBudget(chars=max(room, 1), images=0, privacy=self._hide)
        return self._hide_secrets(describe(value, budget).text)
