"""pytest items for notebooks: `pytest --jp`.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from jp_nb.errors import JpNbError
from jp_nb.headless.cell_printing import print_cell
from jp_nb.headless.run_reports.cassette_lines import format_unused_exchanges
from jp_nb.headless.run_reports.decision_lines import format_unused_answers
from jp_nb.headless.run_reports.failure_lines import format_failures
from jp_nb.headless.run_reports.report_lines import format_turn, list_counts
from jp_nb.headless.run_reports.report_reading import make_report
from jp_nb.headless.run_reports.run_report import RunReport
from jp_nb.headless.runner import RunResult, run_notebook
from jp_nb.headless.terminal_text import format_text
from jp_nb.storage.cassettes.cassette_file import (
    make_default_cassette_path,
    refuse_unsafe_cassette_link,
)
from jp_nb.storage.configuration import answers_file


class NotebookFailedError(Exception):
    """A notebook test failed. The message gives cells and reasons."""


@dataclass(frozen=True, slots=True)
class FailureText:
    """Text of a failure, with the attributes that pytest reads of an exception's representation.

    Pytest's summary and JUnit XML have its first line, the `message` of `reprcrash`.
    """

    message: str

    def __str__(self) -> str:
        return self.message

    @property
    def reprcrash(self) -> FailureText:
        """The first line."""
        return FailureText(self.message.partition("\n")[0])


class NotebookFile(pytest.File):
    """A notebook, which contains one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the test."""
        yield NotebookItem.from_parent(self, name="jp")


class NotebookItem(pytest.Item):
    """Test that runs a notebook headless. The notebook file is not changed.

    pytest calls its public methods: to run the test, and to report a failure.
    """

    def runtest(self) -> None:
        """Run the notebook, and raise `NotebookFailedError` if the test fails."""
        strict = self.config.option.jp_strict
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Jupyter's own code
            result, report, unused = self._execute()

        self.user_properties += list_counts(report)
        self._add_section("turns", list(chain.from_iterable(map(format_turn, report.turns))))
        self._add_section("not used", unused)

        failure_lines = list(format_failures(report, strict=strict))
        if strict and result.ok:  # a run that ended early may not need the rest
            failure_lines += unused

        if failure_lines:
            self._add_failed_cells(result, report)
            raise NotebookFailedError("\n".join(failure_lines))

    def _add_failed_cells(self, result: RunResult, report: RunReport) -> None:
        """Add each failed cell with its outputs to the report of pytest."""
        for cell in report.cells:
            if cell.status == "failed":
                text = io.StringIO()
                print_cell(result.notebook.cells[cell.number], text)
                self._add_section(f"cell {cell.number + 1}", [text.getvalue()])

    def _execute(self) -> tuple[RunResult, RunReport, list[str]]:
        """Run the notebook; return the result, its report, and lines about what it did not use."""
        option = self.config.option
        answers = self.path.with_suffix(answers_file.ANSWERS_SUFFIX)
        settings = make_file_settings(self.path, record=option.jp_record)

        with TemporaryDirectory(prefix="jp-nb-") as folder:
            result = run_notebook(
                self.path,
                out=Path(folder) / self.path.name,
                strict=option.jp_strict,
                settings=settings,
                timeout=option.jp_timeout,
            )

        unused: list[str] = []
        if not option.jp_record:  # a new recording replaces all exchanges of the cassette
            unused += format_unused_exchanges(result.events.cassettes)
        if answers.is_file():
            prepared = answers_file.read_answers_file(answers)
            unused += format_unused_answers(result.events, prepared)

        name = os.path.relpath(self.path, self.config.rootpath)
        return result, make_report(result, name), unused

    def _add_section(self, title: str, lines: list[str]) -> None:
        if lines:
            self.add_report_section("call", title, format_text("\n".join(lines)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> FailureText:  # type: ignore[override]
        """Return the message without a traceback into `jp_nb`.

        pytest accepts any object with a `__str__` and a `reprcrash`.
        """
        if isinstance(excinfo.value, NotebookFailedError | JpNbError):
            return FailureText(format_text(str(excinfo.value)))
        return FailureText(str(super().repr_failure(excinfo)))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return path, line, and name of the test."""
        return self.path, None, f"jp: {self.path.name}"


def make_file_settings(path: Path, *, record: bool) -> dict[str, str]:
    """Return the settings that select the cassette and the answers file next to a notebook."""
    settings = {}
    cassette = make_default_cassette_path(path)
    answers = path.with_suffix(answers_file.ANSWERS_SUFFIX)

    if record:
        refuse_unsafe_cassette_link(cassette)
    if record or cassette.is_file():
        settings["providers.cassette.mode"] = "record" if record else "replay"
        settings["providers.cassette.path"] = str(cassette)
    if answers.is_file():
        settings["prompt.answers"] = str(answers)

    return settings
