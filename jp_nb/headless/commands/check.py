"""Command `jp-nb check`: find secrets, and check records, cassettes, and answers files.

Source: `docs/ci.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from jp_nb.config.secrets.api_keys import hide_api_keys
from jp_nb.errors import UsageError
from jp_nb.headless.checks.answers_check import check_answers_file
from jp_nb.headless.checks.cassette_check import check_cassette_file
from jp_nb.headless.checks.cassette_coverage import check_up_to_date
from jp_nb.headless.checks.key_search import Finding, KeySearch
from jp_nb.headless.checks.notebook_check import check_notebook
from jp_nb.storage.cassettes.cassette_file import CASSETTE_SUFFIX
from jp_nb.storage.configuration.answers_file import (
    ANSWERS_SUFFIX,
)
from jp_nb.text import MAX_LISTED_LINES, one_line

NOTEBOOK_SUFFIX: Final = ".ipynb"
CHECKS: Final[Mapping[str, Callable[[Path, KeySearch], Iterator[Finding]]]] = {
    NOTEBOOK_SUFFIX: check_notebook,
    CASSETTE_SUFFIX: check_cassette_file,
    ANSWERS_SUFFIX: check_answers_file,
}
"""The check of each kind of file, by suffix."""


def check(options: argparse.Namespace) -> int:
    """Print the findings, at most `MAX_LISTED_LINES` for each file. Return 1 if there are any."""
    files = _find_files(options.files)
    keys = KeySearch(os.environ)
    has_findings = False

    for suffix, check_file in CHECKS.items():
        for path in files:
            if path.name.endswith(suffix):
                has_findings |= _print_findings(path, check_file(path, keys), keys)

    # Requests of a notebook that its cassette does not have.
    for path in files:
        notebook = _replace_suffix(path, NOTEBOOK_SUFFIX)
        if path.name.endswith(CASSETTE_SUFFIX) and notebook.is_file():
            has_findings |= _print_findings(notebook, check_up_to_date(notebook, path, keys), keys)

    if has_findings:
        return 1

    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    print(f"{count} checked: no problems found")
    return 0


def _find_files(named: Sequence[Path]) -> list[Path]:
    """Find the files to check, each once.

    These are the named files, those in named folders, and the cassettes and answers files of the
    notebooks among them.
    """
    found: dict[Path, None] = {}  # a set that keeps the order

    for argument in named:
        for path in _expand_folder(argument):
            if not path.name.endswith(tuple(CHECKS)):
                supported = ", *".join(CHECKS)
                raise UsageError(f"{path} cannot be checked: supported are *{supported}")

            found[path] = None
            if path.name.endswith(NOTEBOOK_SUFFIX):
                possible = (_replace_suffix(path, suffix) for suffix in CHECKS)
                found |= dict.fromkeys(file for file in possible if file.is_file())

    return [*found]


def _replace_suffix(path: Path, suffix: str) -> Path:
    """Return the file of the same notebook with another suffix: `a.ipynb`, `a.answers.toml`."""
    present = next(each for each in CHECKS if path.name.endswith(each))
    return path.with_name(path.name.removesuffix(present) + suffix)


def _expand_folder(named: Path) -> list[Path]:
    """Return the files in a folder that can be checked, or the file itself."""
    if named.is_file():
        return [named]
    if not named.is_dir():
        raise UsageError(f"there is no file or folder {named}")

    files: list[Path] = []
    for folder, subfolders, names in os.walk(named):
        # `os.walk` enters the folders that are left in this list.
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        visible = (name for name in sorted(names) if not name.startswith("."))
        files += [Path(folder) / name for name in visible if name.endswith(tuple(CHECKS))]

    if not files:
        raise UsageError(f"{named} contains no files to check: *{', *'.join(CHECKS)}")
    return files


def _print_findings(path: Path, findings: Iterator[Finding], keys: KeySearch) -> bool:
    """Print the findings of one file, and return True if there are any."""
    shown = list(islice(findings, MAX_LISTED_LINES))
    omitted_count = sum(1 for _ in findings)
    if omitted_count:
        shown.append(Finding("", f"and {omitted_count} more"))

    for place, message in shown:
        where = f"{one_line(place)}: " if place else ""
        line = one_line(hide_api_keys(f"{path}: {where}{message}"), limit=2000)
        print(keys.hide(line))

    return bool(shown)
