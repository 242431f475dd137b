"""Read an answers file: prepared answers and permissions in TOML, with their line numbers.

`prepared_answer_tables.py` describes the tables of the file, and reads them. The decisions of a
file, and their order of priority, are in `answers_content.py`.

The steps of the reading are functions of their own: some callers need the bytes, for which the user
consents to the file, or the text, whose comments an inbox keeps (the open decisions of a batch).
An *owned* file is one that no other user can have written (`files.py`).

Source: `docs/answers.md`, https://toml.io/en/v1.0.0.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from jp_nb.errors import ConfigError
from jp_nb.storage.configuration.answers_content import AnswersFile
from jp_nb.storage.configuration.prepared_answer_tables import AnswerLines, read_answer_tables
from jp_nb.storage.configuration.toml_lines import TomlLines
from jp_nb.storage.files import ForeignFileError, read_owned_file

ANSWERS_SUFFIX: Final = ".answers.toml"
"""Suffix of the answers file of a notebook, instead of `.ipynb`."""
MAX_ANSWERS_LINES: Final = 50_000
MAX_ANSWERS_BYTES: Final = 5_000_000


def read_answers_file(path: Path) -> AnswersFile:
    """Read the file at `path`.

    Raises:
        ConfigError: The file cannot be read, is not owned, is too long, is not TOML, or has unknown
            content. The message names the line of such content.
    """
    return parse_answers(decode_answers(path, read_answers(path)), path.name)


def read_answers(path: Path) -> bytes:
    """Return the bytes of the owned file at `path`.

    Raises:
        ConfigError: The file cannot be read, is not owned, or has more than `MAX_ANSWERS_BYTES`.
    """
    try:
        return read_owned_file(path, max_bytes=MAX_ANSWERS_BYTES)
    except ForeignFileError as exc:
        raise ConfigError(f"the answers file is not used: {exc}", file=str(path)) from exc
    except FileNotFoundError as exc:
        raise ConfigError(
            "there is no such answers file. Write a template: `jp-nb run NOTEBOOK "
            "--answers-template FILE`",
            file=str(path),
        ) from exc
    except OSError as exc:
        raise ConfigError(
            f"the answers file cannot be read: {exc.strerror}", file=str(path)
        ) from exc


def decode_answers(path: Path, content: bytes) -> str:
    """Return the text of `content`; `path` is the file for errors.

    Raises:
        ConfigError: The content is not UTF-8, or has too many lines.
    """
    try:
        text = content.decode("utf-8-sig")  # editors on Windows may write a byte order mark
    except UnicodeDecodeError as exc:
        raise ConfigError("the answers file is not UTF-8", file=str(path)) from exc

    if text.count("\n") > MAX_ANSWERS_LINES:
        raise ConfigError(
            f"the answers file has more than {MAX_ANSWERS_LINES} lines", file=str(path)
        )

    return text


def parse_answers(text: str, name: str) -> AnswersFile:
    """Parse `text`; `name` is the file name for errors.

    Raises:
        ConfigError: `text` is not TOML, or has unknown content. The message names the line.
    """
    text = text.replace("\r\n", "\n")

    try:
        tree = tomllib.loads(text)
        toml_lines = TomlLines(text)
    except RecursionError as exc:
        raise ConfigError("is nested too deeply", kind="malformed", file=name) from exc
    except ValueError as exc:  # the TOML error names line and column
        raise ConfigError(f"is not TOML: {exc}", kind="malformed", file=name) from exc

    lines = AnswerLines(name, toml_lines)
    return AnswersFile(name, tuple(read_answer_tables(tree, lines)))
