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
from pathlib import Path
from types import MappingProxyType
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.workspace import variables

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
            "write what models are asked and answer to FILE (NB.cassette.jsonl)",
            "have FILE answer in place of models: no key, no network",
            "have FILE answer what it knows, and record the rest",
        ),
        strict=True,
    ):
        one.add_argument(
            f"--{mode}", metavar="FILE", nargs="?", const="", dest=mode.replace("-", "_"), help=what
        )
    parser.add_argument(
        "--tools",
        choices=("run", "recorded"),
        help="in a replay: run tools (as usual), or take their results from FILE, too",
    )


def cassette_settings(options: argparse.Namespace, notebook: Path) -> dict[str, str]:
    """Return the settings that `options` make for a run of `notebook`, by path.

    Raises:
        UsageError: If results of tools are wanted from no file.
    """
    given = {mode: getattr(options, mode.replace("-", "_")) for mode in MODES}
    chosen = [mode for mode, file in given.items() if file is not None]
    if options.tools is not None and chosen in ([], ["record"]):
        raise UsageError("--tools goes with --replay: it says where results come from")
    if not chosen:
        return {}
    from jp_nb.workspace.cassette_file import beside

    mode = chosen[0]
    path = Path(os.path.abspath(given[mode])) if given[mode] else beside(notebook.resolve())
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


def unused_lines(noted: Path, settings: Mapping[str, str] = NOTHING) -> list[str]:
    """Return what is to be said of the exchanges that did not answer.

    Args:
        noted: What kernels noted of those that did.
        settings: Of the run: a cassette that it was to use counts, if no model was asked, too.

    Raises:
        StorageError: If a cassette cannot be read any more.
    """
    used: dict[str, set[int]] = {}
    named = settings.get(f"{PATH}.path")
    if named and settings.get(f"{PATH}.mode") != "record" and os.path.exists(named):
        used[named] = set()
    for line in noted.read_bytes().splitlines() if noted.exists() else ():
        note = json.loads(line)
        used.setdefault(note["cassette"], set()).update(note["used"])
    return [line for path, numbers in used.items() for line in _unused(Path(path), numbers)]


def _unused(cassette: Path, used: set[int]) -> list[str]:
    from jp_nb.rendering.cassette_report import exchange_in_words, exchanges
    from jp_nb.workspace.cassette_file import read_cassette

    content = read_cassette(cassette)
    rest = [each for each in content.exchanges if each.number not in used]
    if not rest:
        return []
    whole = exchanges(len(content.exchanges))
    lines = [f"{len(rest)} of {whole} of {cassette.name} not used:"]
    lines += [f"  {exchange_in_words(content, each)}" for each in rest[:MAX_LISTED]]
    if len(rest) > MAX_LISTED:
        lines.append(f"  … and {len(rest) - MAX_LISTED} more")
    return lines
