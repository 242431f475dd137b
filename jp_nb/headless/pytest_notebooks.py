"""Notebooks as tests of pytest: `pytest --jp`.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from jp_nb.errors import JpNbError
from jp_nb.headless.files import shown_text
from jp_nb.headless.open_decisions import read_decisions, unused_answers
from jp_nb.headless.options import cassette_use, noting_use, unused_lines
from jp_nb.headless.report import (
    ReportedCell,
    RunReport,
    facts,
    report_of,
    turn_lines,
    undecided_lines,
    went_wrong,
)
from jp_nb.headless.runner import RunResult, print_cell, run_notebook
from jp_nb.storage import answers_file
from jp_nb.storage.cassette import default_cassette_path, refuse_unsafe_link


class NotebookFailed(Exception):  # noqa: N818 - it is no error of ours
    """A notebook did not do what its test demands; the message says where, and what."""


@dataclass(frozen=True, slots=True)
class ShownLine:
    """The line that pytest has for a failure in its summary, and in `message` of JUnit's XML."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class ShownFailure:
    """What pytest shows of a failure: all of `text` once, and its first line in the summary."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def reprcrash(self) -> ShownLine:
        """The first line. pytest asks for it under this name, and in CI would show all again."""
        return ShownLine(self.text.partition("\n")[0])


class NotebookFile(pytest.File):
    """A notebook, which is one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the test."""
        yield NotebookItem.from_parent(self, name="jp")


class NotebookItem(pytest.Item):
    """Runs a notebook with nobody there; its file stays as it is."""

    def runtest(self) -> None:
        """Run it, and fail with what went wrong."""
        strict = self.config.option.jp_strict
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of Jupyter are none of the notebook's
            result, report, unused = self._executed()
        self.user_properties += facts(report)
        self._show("turns", [line for turn in report.turns for line in turn_lines(turn)])
        self._show("not used", unused)
        failed = list(failures(report, strict=strict))
        if strict and result.ok:  # what ended early had no use for the rest
            failed += unused
        if failed:
            for cell in report.cells:
                if cell.status == "failed":  # as a person would have seen it
                    shown = io.StringIO()
                    print_cell(result.notebook.cells[cell.number], shown)
                    self._show(f"cell {cell.number + 1}", [shown.getvalue()])
            raise NotebookFailed("\n".join(failed))

    def _executed(self) -> tuple[RunResult, RunReport, list[str]]:
        """Return what the run left, what happened in it, and what beside it was not used."""
        option, answers = self.config.option, self.path.with_suffix(answers_file.SUFFIX)
        settings = settings_for(self.path, record=option.jp_record)
        with TemporaryDirectory(prefix="jp-nb-") as folder, noting_use() as used:
            log = Path(folder) / "decisions.jsonl"
            result = run_notebook(
                self.path,
                out=Path(folder) / self.path.name,
                strict=option.jp_strict,
                settings=settings,
                timeout=option.jp_timeout,
                decisions=log,
            )
            unused = [] if option.jp_record else unused_lines(cassette_use(used, settings))
            if answers.is_file():
                given = answers_file.read_answers_file(answers)
                unused += unused_answers(read_decisions(log), given)
            name = os.path.relpath(self.path, self.config.rootpath)
            return result, report_of(result, name, log), unused

    def _show(self, title: str, lines: list[str]) -> None:
        if lines:
            self.add_report_section("call", title, shown_text("\n".join(lines)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> ShownFailure:  # type: ignore[override]  # pytest takes what has a text
        """Return what is shown of a failure: where we are in our own code helps nobody."""
        if isinstance(excinfo.value, NotebookFailed | JpNbError):
            return ShownFailure(shown_text(str(excinfo.value)))
        return ShownFailure(str(super().repr_failure(excinfo)))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return where the test is, and its name."""
        return self.path, None, f"jp: {self.path.name}"


def settings_for(path: Path, *, record: bool) -> dict[str, str]:
    """Return the settings by which the files beside the notebook at `path` count, if there are."""
    settings = {}
    cassette, answers = default_cassette_path(path), path.with_suffix(answers_file.SUFFIX)
    if record:
        refuse_unsafe_link(cassette)
    if record or cassette.is_file():
        settings["providers.cassette.mode"] = "record" if record else "replay"
        settings["providers.cassette.path"] = str(cassette)
    if answers.is_file():
        settings["prompt.answers"] = str(answers)
    return settings


def failures(report: RunReport, *, strict: bool) -> Iterator[str]:
    """Yield the lines that say why the test fails; none if it passes."""
    failed = [cell for cell in report.cells if cell.status == "failed"]
    for cell in failed:
        yield from _failed_cell(report, cell)
    if report.failure is not None and not failed:
        yield f"{report.notebook}: {report.failure.name}: {report.failure.message}"
    if report.record_error:
        yield f"{report.notebook}: the record of the run cannot be read: {report.record_error}"
    if strict and not failed:
        yield from _undecided(report)


def _failed_cell(report: RunReport, cell: ReportedCell) -> Iterator[str]:
    yield f"{report.notebook}: cell {cell.number + 1} failed: {cell.source}"
    yield from went_wrong(cell)
    if not cell.traceback.endswith(cell.error):
        yield cell.error
    if cell.traceback:
        yield cell.traceback
    yield from undecided_lines(report)
    if report.undecided or any(turn.unanswered for turn in cell.turns):
        yield _how_to_answer(report)


def _undecided(report: RunReport) -> Iterator[str]:
    """Yield the open decisions, and the questions whose answer was chosen automatically.

    A question that the answers file skips, or that no model could answer, is neither.
    """
    lines = undecided_lines(report)
    for turn in report.turns:
        automatic = [each for each in turn.questions if each.end == "automatic"]
        if automatic:
            cell = "" if turn.cell is None else f"cell {turn.cell + 1}, "
            lines += [f"{report.notebook}: {cell}{turn}", *(f"  {each}" for each in automatic)]
    if lines:
        yield from lines
        yield _how_to_answer(report)


def _how_to_answer(report: RunReport) -> str:
    name = Path(report.notebook).with_suffix(answers_file.SUFFIX).name
    return f"Prepare these decisions in an answers file {name} next to the notebook."
