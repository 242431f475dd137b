"""The request about the last exception of a cell: cell, calls, causes, and values of names.

`%jp why` sends it. The request has sections of data: the source of the cell, the traceback with the
source lines of the user's code (`error_traceback.py`), and the values of the names in the failing
lines (`failed_values.py`). All sections have limits, and secrets are hidden, also in source code.

The *chain* of an error has the exceptions that led to it, the oldest first (`error_chain.py`). Each
has its calls (`ErrorCall`), with the place of each. The *raw cell* is the source of the cell as the
user wrote it. IPython may have run another one, as it translates lines such as `!ls`.

Source: `docs/guide.md`, `docs/decisions.md` D85, D99.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jp_nb.session.host import LastError
from jp_nb.session.turns.code_places import CodePlaces
from jp_nb.session.turns.error_chain import list_error_chain
from jp_nb.session.turns.error_secrets import hide_in_beginning, hide_in_code
from jp_nb.session.turns.error_traceback import (
    MAX_SHOWN_EXCEPTION_CHARS,
    ErrorTraceback,
    format_error,
    list_error_calls,
)
from jp_nb.session.turns.failed_code import (
    MAX_SOURCE_LINE_CHARS,
    find_written_line,
    format_excerpt,
)
from jp_nb.session.turns.failed_values import format_named_values, list_named_values
from jp_nb.text import one_line
from jp_nb.toolkit.data_sections import DataSection, frame_sections
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets

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


class ErrorRequest:
    """Writes a request about an error, without the secrets in `namespace`, on the cell's thread.

    Secrets are hidden if their name, their form, or a variable identifies them.
    """

    def __init__(self, last: LastError, namespace: Mapping[str, Any]) -> None:
        self._last = last
        self._places = CodePlaces(last.label_of)

        # The values in failed lines may be local variables, which `namespace` does not have. So
        # they are found first, and a secret among them is hidden in all sections.
        self._chain = list_error_chain(last.error)
        self._named_values = list_named_values(self._chain, self._places)
        local_values = {named.name: named.value for named in self._named_values}
        self._hide = NotebookSecrets({**namespace, **local_values})

    def write_for_model(self, question: str = "", *, room: int, fixes: bool = False) -> str:
        """Return the question, the cell, the traceback with causes, and the values of names.

        Content of the notebook has at most about `room` characters, and is marked as data. With
        `fixes`, the model is asked to propose an edit of the cell.
        """
        room = max(room, MIN_CHARS)
        # The rest is for the headings.
        sections = [
            *self._make_cell_sections(room * 3 // 10),
            self._make_traceback_section(room * 4 // 10),
            *self._make_value_sections(room // 4),
        ]

        request = question.strip() or DEFAULT_QUESTION
        if fixes:
            request = self._make_edit_request(question)
        return frame_sections(f"{request}\n", sections)

    def _make_edit_request(self, question: str) -> str:
        """Return the request for an edit, with the id and version of the cell, if it is known."""
        from jp_nb.toolkit.editing.document_cells import cell_version  # only `%jp fix` needs it

        last = self._last
        cell_text = FIND_CELL_TEXT
        if last.cell_id and last.raw_cell is not None:
            cell_text = FAILED_CELL_TEXT.format(
                one_line(last.cell_id, limit=64), cell_version(last.raw_cell)
            )
        return "\n".join(filter(None, [question.strip(), FIX_TEXT, cell_text]))

    def write_for_user(self, question: str = "", *, command: str = "why") -> str:
        """Return the short text that shows the request to the user: the question, and the error.

        The error is a line like `why: KeyError: 'price'`, with the `command` in front.
        """
        error = self._last.error
        text = format_error(error, self._places)
        shown_text = hide_in_beginning(text, MAX_SHOWN_EXCEPTION_CHARS, self._hide)
        lines = shown_text.splitlines() or [""]

        # The description of a syntax error begins with its place.
        error_line = lines[-1] if isinstance(error, SyntaxError) else lines[0]

        command_line = f"{command}: {one_line(error_line, limit=MAX_SOURCE_LINE_CHARS)}"
        return "\n".join(filter(None, [question.strip(), command_line]))

    def _make_cell_sections(self, room: int) -> Iterator[DataSection]:
        """Yield the section with the failed cell; none if its source is unknown."""
        cell = self._find_cell()
        if not cell.source.strip():
            return

        heading = cell.label or "the cell"
        failing = range(0)  # the numbers of the lines to mark
        if cell.line is not None:
            heading += f", which failed at line {cell.line}"
            failing = range(cell.line, cell.line + 1)

        numbered = dict(enumerate(cell.source.rstrip("\n").split("\n"), start=1))
        excerpt = format_excerpt(hide_in_code(numbered, self._hide), failing, room)
        yield DataSection(heading, "\n".join(excerpt))

    def _find_cell(self) -> _FailedCell:
        """Return the cell of the first call that is in a cell, or of a syntax error.

        Its source is the raw cell, unless IPython has changed the failed line: then it is the
        source that IPython made.
        """
        raw_cell = self._last.raw_cell
        error = self._last.error
        calls = list_error_calls(error, self._places)
        places = [(call.summary.filename, call.summary.lineno) for call in calls]
        if isinstance(error, SyntaxError) and error.filename:  # this code never ran
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

    def _make_traceback_section(self, room: int) -> DataSection:
        """Return the section with all exceptions of the chain, the newest last."""
        writer = ErrorTraceback(self._places, self._hide)
        room_for_each_error = room // len(self._chain)

        lines: list[str] = []
        for error, is_cause in self._chain:
            lines += writer.format_with_calls(error, room_for_each_error)
            if error is not self._last.error:  # the end of the chain
                relation = _CAUSED if is_cause else _HANDLED
                lines += ["", relation, ""]
        return DataSection("traceback, most recent call last", "\n".join(lines))

    def _make_value_sections(self, room: int) -> Iterator[DataSection]:
        """Yield the section with the values of names; none if there are no names."""
        lines = format_named_values(self._named_values, self._hide, room)
        if lines:
            heading = "values of the names in the failed lines, nearest first"
            yield DataSection(heading, "\n".join(lines))
