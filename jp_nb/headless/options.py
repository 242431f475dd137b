"""Command-line options of a run: cassette and answers.

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
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from jp_nb.errors import UsageError
from jp_nb.storage import environment

if TYPE_CHECKING:
    from jp_nb.storage.answers_file import AnswersFile
    from jp_nb.storage.cassette import StoredExchange

PATH: Final = "providers.cassette"
"""Where settings say which cassette is used, and what for."""
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
MODES: Final = ("record", "replay", "replay-or-record")
MAX_LISTED: Final = 20
"""Of exchanges that answered nothing."""


def add_cassette_options(parser: argparse.ArgumentParser) -> None:
    """Have `parser` take `--record`, `--replay`, `--replay-or-record` and `--tools`."""
    one = parser.add_mutually_exclusive_group()
    for mode, what in zip(
        MODES,
        (
            "record requests to models and their responses in FILE (default: NB.cassette.jsonl)",
            "replay responses from FILE instead of models: no key, no network",
            "replay the responses that FILE contains, and record the others",
        ),
        strict=True,
    ):
        one.add_argument(
            f"--{mode}", metavar="FILE", nargs="?", const="", dest=mode.replace("-", "_"), help=what
        )
    parser.add_argument(
        "--tools",
        choices=("run", "recorded"),
        help="in a replay: run the tools (default), or take their results from FILE",
    )


def cassette_settings(options: argparse.Namespace, notebook: Path) -> dict[str, str]:
    """Return the settings that `options` make for a run of `notebook`, by path.

    Raises:
        UsageError: If results of tools are wanted from no file.
        StorageError: If a link is where the file is to be written.
    """
    given = {mode: getattr(options, mode.replace("-", "_")) for mode in MODES}
    chosen = [mode for mode, file in given.items() if file is not None]
    if options.tools is not None and chosen in ([], ["record"]):
        raise UsageError("--tools selects where a replay takes tool results from: add `--replay`")
    if not chosen:
        return {}
    from jp_nb.storage.cassette import default_cassette_path, refuse_unsafe_link

    mode = chosen[0]
    path = (
        Path(os.path.abspath(given[mode]))
        if given[mode]
        else default_cassette_path(notebook.resolve())
    )
    if mode != "replay":
        refuse_unsafe_link(path)
    found = {f"{PATH}.mode": mode, f"{PATH}.path": str(path)}
    if options.tools is not None:
        found[f"{PATH}.tools"] = options.tools
    return found


@contextmanager
def noting_use() -> Iterator[Path]:
    """Have kernels note which exchanges they use, in a file that is there meanwhile."""
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
    """What a run did with one cassette.

    Attributes:
        used: The numbers of the exchanges that answered.
        added: So many were written.
        anew: Whether these are all that there are.
    """

    used: set[int] = field(default_factory=set)
    added: int = 0
    anew: bool = False


def cassette_use(noted: Path, settings: Mapping[str, str] = NOTHING) -> dict[Path, CassetteUse]:
    """Return what a run did with its cassettes.

    Args:
        noted: What kernels noted of that.
        settings: Of the run: a cassette that it was to use counts, if no model was asked, too.
    """
    found: dict[Path, CassetteUse] = {}
    if named := settings.get(f"{PATH}.path"):
        found[Path(named)] = CassetteUse(anew=settings.get(f"{PATH}.mode") == "record")
    for line in noted.read_bytes().splitlines() if noted.exists() else ():
        note = json.loads(line)
        use = found.setdefault(Path(note["cassette"]), CassetteUse())
        use.used.update(note.get("used", ()))
        use.added += note.get("added", 0)
        use.anew |= note.get("anew", False)
    return found


def written_lines(uses: Mapping[Path, CassetteUse]) -> list[str]:
    """Return how much was written on which cassette."""
    return [line for path, use in uses.items() for line in _written(path, use)]


def _written(path: Path, use: CassetteUse) -> Iterator[str]:
    from jp_nb.rendering.tables import exchanges

    place = str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
    if use.anew and not use.added:
        stays = "; the file is unchanged" if path.exists() else ""
        yield f"no model answered: nothing was recorded in {place}{stays}"
    elif use.added:
        yield f"{exchanges(use.added)} {'recorded in' if use.anew else 'added to'} {place}"


def used_lines(uses: Mapping[Path, CassetteUse]) -> list[str]:
    """Return on which cassettes all that there was has answered.

    Raises:
        StorageError: If a cassette cannot be read any more.
    """
    from jp_nb.rendering.tables import exchanges

    counts = {path: len(_before(path, use)) for path, use in uses.items() if use.used}
    return [
        f"{count} of {exchanges(count)} of {path.name} used"
        for path, count in counts.items()
        if len(uses[path].used) == count
    ]


def unused_lines(uses: Mapping[Path, CassetteUse]) -> list[str]:
    """Return what is to be said of the exchanges that did not answer.

    Raises:
        StorageError: If a cassette cannot be read any more.
    """
    return [line for path, use in uses.items() for line in _unused(path, use)]


def _before(path: Path, use: CassetteUse) -> list[StoredExchange]:
    """Return the exchanges that could answer: none that were written in the run."""
    from jp_nb.storage.cassette import read_cassette

    if use.anew or not path.exists():
        return []
    found = read_cassette(path).exchanges
    return list(found[: len(found) - use.added])


def _unused(path: Path, use: CassetteUse) -> list[str]:
    from jp_nb.rendering.tables import exchange_in_words, exchanges
    from jp_nb.storage.cassette import read_cassette

    before = _before(path, use)
    rest = [each for each in before if each.number not in use.used]
    if not rest:
        return []
    content = read_cassette(path)
    lines = [f"{len(rest)} of {exchanges(len(before))} of {path.name} not used:"]
    lines += [f"  {exchange_in_words(content, each)}" for each in rest[:MAX_LISTED]]
    if len(rest) > MAX_LISTED:
        lines.append(f"  … and {len(rest) - MAX_LISTED} more")
    return lines


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
        from jp_nb.storage.answers_file import read_answers_file

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
        from jp_nb.storage.answers_file import read_answers_file

        read_answers_file(options.answers)  # before anything runs
    template: Path | None = options.answers_template
    if template is not None and os.path.lexists(template):
        from jp_nb.headless.open_decisions import already_there

        raise UsageError(already_there(template))
    with TemporaryDirectory(prefix="jp-nb-") as folder:
        yield RunDecisions(options, Path(folder) / "decisions.jsonl")


# --- at the end of a run -----------------------------------------------------------------------


# --- a file to fill in -------------------------------------------------------------------------
