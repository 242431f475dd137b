"""Find the errors of an answers file, and the secrets in its lines.

Source: `docs/answers.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jp_nb.errors import ConfigError
from jp_nb.headless.checks.key_search import Finding, KeySearch
from jp_nb.storage.configuration.answers_file import (
    decode_answers,
    parse_answers,
    read_answers,
)


def check_answers_file(path: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield the problems of an answers file: errors and secrets."""
    content = b""  # a file that cannot be read has no lines to search
    try:
        content = read_answers(path)
        parse_answers(decode_answers(path, content), path.name)
    except ConfigError as exc:
        yield _locate_answers_error(exc, path)

    yield from keys.find_in_lines(content)


def _locate_answers_error(error: ConfigError, path: Path) -> Finding:
    """Return the finding of an error whose `file` is `NAME, line 4`, or the name or path alone."""
    place = (error.file or "").removeprefix(f"{path.name}, ")
    if not place.startswith("line "):
        place = ""

    message = "; ".join(problem.message for problem in error.problems)
    return Finding(place, message)
