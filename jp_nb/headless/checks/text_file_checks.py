"""Find the errors of cassettes and answers files, and the secrets in their lines.

Source: `docs/cassettes.md`, `docs/answers.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jp_nb.errors import ConfigError, StorageError
from jp_nb.headless.checks.key_search import Finding, KeySearch
from jp_nb.storage.cassettes.cassette_file import read_cassette_bytes
from jp_nb.storage.cassettes.cassette_parser import parse_cassette
from jp_nb.storage.configuration.answers_file import (
    decode_answers,
    parse_answers,
    read_answers,
)


def check_cassette_file(path: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield the problems of a cassette: damage and secrets."""
    content = b""  # a file that cannot be read has no lines to search
    try:
        content = read_cassette_bytes(path)
        parse_cassette(path, content)
    except StorageError as exc:
        yield _locate_cassette_error(exc, path)

    yield from _find_secrets_in_lines(content, keys)


def _locate_cassette_error(error: StorageError, path: Path) -> Finding:
    """Return the finding of an error whose `place` is `NAME:4`, or "" for the whole file."""
    if not error.place:
        return Finding("", str(error))

    line = error.place.removeprefix(f"{path.name}:")
    message = str(error).removeprefix(f"{error.place}: ")
    return Finding(f"line {line}", message)


def check_answers_file(path: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield the problems of an answers file: errors and secrets."""
    content = b""  # a file that cannot be read has no lines to search
    try:
        content = read_answers(path)
        parse_answers(decode_answers(path, content), path.name)
    except ConfigError as exc:
        yield _locate_answers_error(exc, path)

    yield from _find_secrets_in_lines(content, keys)


def _locate_answers_error(error: ConfigError, path: Path) -> Finding:
    """Return the finding of an error whose `file` is `NAME, line 4`, or the name or path alone."""
    place = (error.file or "").removeprefix(f"{path.name}, ")
    if not place.startswith("line "):
        place = ""

    message = "; ".join(problem.message for problem in error.problems)
    return Finding(place, message)


def _find_secrets_in_lines(content: bytes, keys: KeySearch) -> Iterator[Finding]:
    for number, line in enumerate(content.split(b"\n"), 1):
        for secret in keys.find(line.decode("utf-8", "replace")):
            yield Finding(f"line {number}", f"contains {secret}")
