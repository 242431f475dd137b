"""Command-line options for cassettes and answers, and their reports at the end of a run.

Source: `docs/cassettes.md`, `docs/answers.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from jp_nb.errors import UsageError
from jp_nb.storage import environment

if TYPE_CHECKING:
    from jp_nb.storage.answers_file import AnswersFile
    from jp_nb.storage.cassette import StoredExchange

PATH: Final = "providers.cassette"
"""Path of the settings for cassettes."""
MODES: Final = ("record", "replay", "replay-or-record")
MAX_LISTED: Final = 20
"""Maximum number of listed exchanges."""


def add_cassette_options(parser: argparse.ArgumentParser) -> None:
    """Add `--record`, `--replay`, `--replay-or-record`, and `--tools` to `parser`."""
    group = parser.add_mutually_exclusive_group()
    for mode, text in zip(
        MODES,
        (
            "record requests to models and their responses in FILE (default: NB.cassette.jsonl)",
            "replay responses from FILE instead of models: no key, no network",
            "replay the responses that FILE contains, and record the others",
        ),
        strict=True,
    ):
        group.add_argument(
            f"--{mode}", metavar="FILE", nargs="?", const="", dest=mode.replace("-", "_"), help=text
        )
    parser.add_argument(
        "--tools",
        choices=("run", "recorded"),
        help="in a replay: run the tools (default), or take their results from FILE",
    )


def make_cassette_settings(options: argparse.Namespace, notebook: Path) -> dict[str, str]:
    """Return the settings for a run of `notebook`, by path.

    Raises:
        UsageError: `--tools` is given without a replay.
        StorageError: The cassette is a link to a file that must not be written.
    """
    files = {mode: getattr(options, mode.replace("-", "_")) for mode in MODES}
    chosen = [mode for mode, file in files.items() if file is not None]
    if options.tools is not None and chosen in ([], ["record"]):
        raise UsageError("--tools selects where a replay takes tool results from: add `--replay`")
    if not chosen:
        return {}
    from jp_nb.storage.cassette import default_cassette_path, refuse_unsafe_link

    mode = chosen[0]
    path = (
        Path(os.path.abspath(files[mode]))
        if files[mode]
        else default_cassette_path(notebook.resolve())
    )
    if mode != "replay":
        refuse_unsafe_link(path)
    settings = {f"{PATH}.mode": mode, f"{PATH}.path": str(path)}
    if options.tools is not None:
        settings[f"{PATH}.tools"] = options.tools
    return settings


@contextmanager
def log_cassette_use() -> Iterator[Path]:
    """Set the environment variable that makes kernels log cassette use, and yield the log file.

    The log file is temporary.
    """
    with tempfile.TemporaryDirectory(prefix="jp-nb-") as folder:
        path = Path(folder) / "used"
        before = os.environ.get(environment.CASSETTE_USE)
        os.environ[environment.CASSETTE_USE] = str(path)
        try:
            yield path
        finally:
            if before is None:
                del os.environ[environment.CASSETTE_USE]
            else:
                os.environ[environment.CASSETTE_USE] = before


@dataclass(slots=True)
class CassetteUse:
    """Use of one cassette in a run.

    Attributes:
        used: The numbers (ids) of the replayed exchanges.
        added: Number of recorded exchanges.
        is_new: True if the run recorded a new cassette, in place of an existing one.
    """

    used: set[int] = field(default_factory=set)
    added: int = 0
    is_new: bool = False


def read_cassette_use(
    log: Path, settings: Mapping[str, str] | None = None
) -> dict[Path, CassetteUse]:
    """Return the use of each cassette in a run.

    Args:
        log: Log file of the kernels.
        settings: Settings of the run, whose cassette is included even if it was not used.
    """
    found: dict[Path, CassetteUse] = {}
    if settings and (file := settings.get(f"{PATH}.path")):
        found[Path(file)] = CassetteUse(is_new=settings.get(f"{PATH}.mode") == "record")
    for line in log.read_bytes().splitlines() if log.exists() else ():
        note = json.loads(line)
        use = found.setdefault(Path(note["cassette"]), CassetteUse())
        use.used.update(note.get("used", ()))
        use.added += note.get("added", 0)
        use.is_new |= note.get("anew", False)
    return found


def format_recorded(uses: Mapping[Path, CassetteUse]) -> list[str]:
    """Return lines about recorded exchanges."""
    return [line for path, use in uses.items() for line in _format_recorded(path, use)]


def _format_recorded(path: Path, use: CassetteUse) -> Iterator[str]:
    from jp_nb.rendering.tables import format_exchange_count

    place = str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
    if use.is_new and not use.added:
        stays = "; the file is unchanged" if path.exists() else ""
        yield f"no model answered: nothing was recorded in {place}{stays}"
    elif use.added:
        count = format_exchange_count(use.added)
        yield f"{count} {'recorded in' if use.is_new else 'added to'} {place}"


def format_fully_used(uses: Mapping[Path, CassetteUse]) -> list[str]:
    """Return a line for each cassette whose exchanges were all replayed.

    Raises:
        StorageError: A cassette cannot be read.
    """
    from jp_nb.rendering.tables import format_exchange_count

    counts = {path: len(_list_replayable(path, use)) for path, use in uses.items() if use.used}
    return [
        f"{count} of {format_exchange_count(count)} of {path.name} used"
        for path, count in counts.items()
        if len(uses[path].used) == count
    ]


def format_unused(uses: Mapping[Path, CassetteUse]) -> list[str]:
    """Return lines about exchanges that were not replayed.

    Raises:
        StorageError: A cassette cannot be read.
    """
    return [line for path, use in uses.items() for line in _format_unused(path, use)]


def _list_replayable(path: Path, use: CassetteUse) -> list[StoredExchange]:
    from jp_nb.storage.cassette import read_cassette

    if use.is_new or not path.exists():
        return []
    stored = read_cassette(path).exchanges
    return list(stored[: len(stored) - use.added])


def _format_unused(path: Path, use: CassetteUse) -> list[str]:
    from jp_nb.rendering.tables import describe_exchange, format_exchange_count
    from jp_nb.storage.cassette import read_cassette

    before = _list_replayable(path, use)
    rest = [each for each in before if each.number not in use.used]
    if not rest:
        return []
    content = read_cassette(path)
    lines = [f"{len(rest)} of {format_exchange_count(len(before))} of {path.name} not used:"]
    lines += [f"  {describe_exchange(content, each)}" for each in rest[:MAX_LISTED]]
    if len(rest) > MAX_LISTED:
        lines.append(f"  … and {len(rest) - MAX_LISTED} more")
    return lines


def add_answers_options(parser: argparse.ArgumentParser) -> None:
    """Add `--answers` and `--answers-template` to `parser`."""
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
    """Questions, permissions, and approvals of one run.

    Attributes:
        options: Options of the command.
        log: Log file of the kernel.
    """

    options: argparse.Namespace
    log: Path

    def finish(self) -> Iterator[str]:
        """Yield lines about open decisions, and write the template if one is requested.

        Raises:
            UsageError: The template cannot be written.
        """
        from jp_nb.headless.open_decisions import format_decisions, read_decisions, write_template

        template = self.options.answers_template
        found = read_decisions(self.log)
        yield from format_decisions(found, self._answers())
        if template is not None and found.undecided:
            write_template(template, found.undecided, self.options.notebook.name)
            yield f"{template} written: fill it in and pass it with `--answers`"
        elif template is not None:
            yield f"there are no open decisions: {template} was not written"

    def has_misspelled_answers(self) -> bool:
        """Return True if an unused answer has a key close to that of an open decision."""
        from jp_nb.headless.open_decisions import find_misspelled_answers, read_decisions

        answers = self._answers()
        return answers is not None and bool(
            find_misspelled_answers(read_decisions(self.log), answers)
        )

    def _answers(self) -> AnswersFile | None:
        from jp_nb.storage.answers_file import read_answers_file

        path = self.options.answers
        return read_answers_file(path) if path else None


@contextmanager
def log_decisions(options: argparse.Namespace) -> Iterator[RunDecisions]:
    """Check the options for answers, and yield a temporary log file for the decisions of a run.

    Raises:
        ConfigError: The answers file cannot be read or is not valid.
        UsageError: The file for the template exists.
    """
    if options.answers is not None:
        from jp_nb.storage.answers_file import read_answers_file

        read_answers_file(options.answers)  # fail before the run
    template: Path | None = options.answers_template
    if template is not None and os.path.lexists(template):
        from jp_nb.headless.open_decisions import format_exists_error

        raise UsageError(format_exists_error(template))
    with TemporaryDirectory(prefix="jp-nb-") as folder:
        yield RunDecisions(options, Path(folder) / "decisions.jsonl")
