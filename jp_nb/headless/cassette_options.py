"""The options of `jp-nb run` for cassettes, and what is said of a cassette when the run is over.

Source: `docs/cassettes.md`.
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
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from jp_nb.errors import UsageError
from jp_nb.workspace import variables

if TYPE_CHECKING:
    from jp_nb.workspace.cassette_file import OnFile

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
    from jp_nb.workspace.cassette_file import beside, refuse_unsafe_link

    mode = chosen[0]
    path = Path(os.path.abspath(given[mode])) if given[mode] else beside(notebook.resolve())
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
        before = os.environ.get(variables.CASSETTE_USE)
        os.environ[variables.CASSETTE_USE] = str(path)
        try:
            yield path
        finally:
            if before is None:
                del os.environ[variables.CASSETTE_USE]
            else:
                os.environ[variables.CASSETTE_USE] = before


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
    from jp_nb.rendering.cassette_report import exchanges

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
    from jp_nb.rendering.cassette_report import exchanges

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


def _before(path: Path, use: CassetteUse) -> list[OnFile]:
    """Return the exchanges that could answer: none that were written in the run."""
    from jp_nb.workspace.cassette_file import read_cassette

    if use.anew or not path.exists():
        return []
    found = read_cassette(path).exchanges
    return list(found[: len(found) - use.added])


def _unused(path: Path, use: CassetteUse) -> list[str]:
    from jp_nb.rendering.cassette_report import exchange_in_words, exchanges
    from jp_nb.workspace.cassette_file import read_cassette

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
