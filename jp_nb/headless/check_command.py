"""`jp-nb check`: whether notebooks and their cassettes may be shared.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.headless.cassette_check import check_answers_file, check_cassette_file, check_up_to_date
from jp_nb.headless.key_search import KeySearch
from jp_nb.headless.notebook_check import Finding, check_notebook
from jp_nb.workspace import answers_file, cassette_file

NOTEBOOK: Final = ".ipynb"
ENDS: Final = (NOTEBOOK, cassette_file.SUFFIX, answers_file.SUFFIX)
"""Of the names of the files that are checked."""
MAX_LISTED: Final = 20
"""Findings of one kind in one file."""


def check(options: argparse.Namespace) -> int:
    """Print a line for each finding; return 1 if there are any."""
    files = _files(options.files)
    keys = KeySearch(os.environ)
    found = False
    for path in files.notebooks:
        found |= _tell(path, check_notebook(path, keys), keys)
    for path in files.cassettes:
        found |= _tell(path, check_cassette_file(path, keys), keys)
    for path in files.answers:
        found |= _tell(path, check_answers_file(path, keys), keys)
    for notebook, cassette in files.pairs:
        found |= _tell(notebook, check_up_to_date(notebook, cassette, keys), keys)
    if not found:
        count = len(files.notebooks) + len(files.cassettes) + len(files.answers)
        print(f"{count} file{'' if count == 1 else 's'} checked: no problems found")
    return 1 if found else 0


@dataclass(slots=True)
class CheckedFiles:
    """What is looked at, each file once: dictionaries keep the order in which it was named."""

    notebooks: dict[Path, None] = field(default_factory=dict)
    cassettes: dict[Path, None] = field(default_factory=dict)
    answers: dict[Path, None] = field(default_factory=dict)
    pairs: dict[tuple[Path, Path], None] = field(default_factory=dict)


def _files(named: Sequence[Path]) -> CheckedFiles:
    """Return what is to be looked at: what is named, and what lies beside notebooks among it.

    Raises:
        UsageError: If there is no such file, or it is none of those.
    """
    files = CheckedFiles()
    for path in (file for each in named for file in _listed(each)):
        found = next((end for end in ENDS if path.name.endswith(end)), None)
        if found is None:
            raise UsageError(f"{path} cannot be checked: supported are *{', *'.join(ENDS)}")
        _add(files, path, path.with_name(path.name.removesuffix(found) + NOTEBOOK))
    return files


def _listed(named: Path) -> list[Path]:
    """Return `named`, or what is to be checked in that folder; what is hidden is not."""
    if named.is_file():
        return [named]
    if not named.is_dir():
        raise UsageError(f"there is no file or folder {named}")
    found: list[Path] = []
    for folder, below, names in os.walk(named):
        below[:] = sorted(name for name in below if not name.startswith("."))
        shown = (name for name in sorted(names) if not name.startswith("."))
        found += [Path(folder) / name for name in shown if name.endswith(ENDS)]
    if not found:
        raise UsageError(f"{named} contains no files to check: *{', *'.join(ENDS)}")
    return found


def _add(files: CheckedFiles, path: Path, notebook: Path) -> None:
    """Add `path`, which is `notebook` or a file beside it, and what it is held against."""
    cassette, answers = cassette_file.beside(notebook), notebook.with_suffix(answers_file.SUFFIX)
    if path == notebook:
        files.notebooks[path] = None
    if path in (notebook, cassette) and cassette.is_file():
        files.cassettes[cassette] = None
        if notebook.is_file():
            files.pairs[notebook, cassette] = None
    if path in (notebook, answers) and answers.is_file():
        files.answers[answers] = None


def _tell(path: Path, findings: Iterator[Finding], keys: KeySearch) -> bool:
    """Print the first `findings` about one file; return True if there is one."""
    first = list(islice(findings, MAX_LISTED))
    for finding in first:
        print(keys.hide(str(finding)))
    if (more := sum(1 for _ in findings)) > 0:
        print(keys.hide(str(Finding(path, "", f"and {more} more"))))
    return bool(first)
