"""The options of a run that answer in a person's place, and what is said of that at its end.

Source: `docs/answers.md`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from jp_nb.errors import UsageError

if TYPE_CHECKING:
    from jp_nb.workspace.answers_file import AnswersFile


def add_answers_options(parser: argparse.ArgumentParser) -> None:
    """Let a command take an answers file, and write one to fill in."""
    parser.add_argument(
        "--answers", type=Path, metavar="FILE", help="prepared answers and permissions, in TOML"
    )
    parser.add_argument(
        "--answers-template",
        type=Path,
        metavar="FILE",
        help="write the open decisions to a new answers file, to fill in",
    )


@dataclass(frozen=True, slots=True)
class RunDecisions:
    """The decisions of one run.

    Attributes:
        options: Its options.
        log: The file that its kernel notes them in.
    """

    options: argparse.Namespace
    log: Path

    def told(self) -> Iterator[str]:
        """Yield what is said of them at the end of the run; write the template, if one is wanted.

        Raises:
            UsageError: If it cannot be written.
        """
        from jp_nb.headless.open_decisions import read_decisions, report_lines, write_template

        template = self.options.answers_template
        found = read_decisions(self.log)
        yield from report_lines(found, self._answers())
        if template is not None and found.undecided:
            write_template(template, found.undecided, self.options.notebook.name)
            yield f"{template} written: fill it in and pass it with `--answers`"
        elif template is not None:
            yield f"there are no open decisions: {template} was not written"

    def has_misspelt_answers(self) -> bool:
        """Return True if a key of the answers file is close to that of an open decision."""
        from jp_nb.headless.open_decisions import misspelt_answers, read_decisions

        answers = self._answers()
        return answers is not None and bool(misspelt_answers(read_decisions(self.log), answers))

    def _answers(self) -> AnswersFile | None:
        from jp_nb.workspace.answers_file import read_answers_file

        path = self.options.answers
        return read_answers_file(path) if path else None


@contextmanager
def noting_decisions(options: argparse.Namespace) -> Iterator[RunDecisions]:
    """A block in which a run may note its decisions.

    Raises:
        ConfigError: If the answers file cannot be read, or is wrong.
        UsageError: If there is a file where the template is to be.
    """
    if options.answers is not None:
        from jp_nb.workspace.answers_file import read_answers_file

        read_answers_file(options.answers)  # before anything runs
    template: Path | None = options.answers_template
    if template is not None and os.path.lexists(template):
        from jp_nb.headless.open_decisions import already_there

        raise UsageError(already_there(template))
    with TemporaryDirectory(prefix="jp-nb-") as folder:
        yield RunDecisions(options, Path(folder) / "decisions.jsonl")
