"""Find the damage of a cassette, and the secrets in its lines.

`cassette_coverage.py` finds the requests that a cassette lacks.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jp_nb.errors import StorageError
from jp_nb.headless.checks.key_search import Finding, KeySearch
from jp_nb.storage.cassettes.cassette_file import read_cassette_bytes
from jp_nb.storage.cassettes.cassette_parser import parse_cassette


def check_cassette_file(path: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield the problems of a cassette: damage and secrets."""
    content = b""  # a file that cannot be read has no lines to search
    try:
        content = read_cassette_bytes(path)
        parse_cassette(path, content)
    except StorageError as exc:
        yield _locate_cassette_error(exc, path)

    yield from keys.find_in_lines(content)


def _locate_cassette_error(error: StorageError, path: Path) -> Finding:
    """Return the finding of an error whose `place` is `NAME:4`, or "" for the whole file."""
    if not error.place:
        return Finding("", str(error))

    line = error.place.removeprefix(f"{path.name}:")
    message = str(error).removeprefix(f"{error.place}: ")
    return Finding(f"line {line}", message)
