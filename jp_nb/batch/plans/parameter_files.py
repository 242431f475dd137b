"""Read files with many sets of parameters: one set in each line.

| file | content |
| --- | --- |
| `.jsonl`, `.ndjson` | an object in each line |
| `.csv` | names in the first line, a set in each further line |
| `.json` | a list of objects, or one object |
| `.yaml`, `.yml`, `.toml` | one object |

Files with a set in each line are streamed, so they may have millions of lines.
`ParameterSets.check` reads the file once before anything runs, and names every bad line. Then
`run_plan.py` iterates over the sets.

A value of CSV is `true`, `false`, a number, or text. A number with a leading zero or plus sign
stays text: it is an article, a postal code, or a phone number. Formulas are text like any other.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.batch.plans.parameter_checks import BadSetError, ParameterSet, check_set
from jp_nb.batch.plans.parameter_set import MAX_PARAMETER_FILE_BYTES, read_set
from jp_nb.errors import UsageError
from jp_nb.file_reading import open_regular, read_regular
from jp_nb.headless.parameter_cell import is_parameter_name
from jp_nb.json_reading import read_json
from jp_nb.text import MAX_LISTED_LINES, one_line

MAX_PARAMETER_LINE_BYTES: Final = 10_000_000
"""Length limit of one line of a file with a set in each line."""
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,300})(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LINE_SUFFIXES: Final = (".jsonl", ".ndjson", ".csv")


_NumberedLine = tuple[int, ParameterSet | BadSetError]
"""The number of a line, and its set, or the reason why it has none."""


class BadLine(NamedTuple):
    """A line of a file that is not a set of parameters."""

    number: int
    problem: str


def has_set_in_each_line(path: Path) -> bool:
    """Return True if the file's name says that each line is a set of parameters."""
    return path.suffix.lower() in _LINE_SUFFIXES


class ParameterSets:
    """The sets of parameters in the file at `path`, in its order.

    Each iteration reads the file again.

    Lines have numbers from 1. The number of a set in a list of JSON is its position in the list.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self) -> dict[str, int]:
        """Read the whole file, and return the number of the first line with each name.

        Raises:
            UsageError: The file cannot be read, or has bad lines. The message lists them.
        """
        first_lines: dict[str, int] = {}
        listed_lines: list[BadLine] = []
        bad_count = 0
        set_count = 0

        for number, content in self._read():
            if isinstance(content, BadSetError):
                bad_count += 1
                if len(listed_lines) < MAX_LISTED_LINES:
                    listed_lines.append(BadLine(number, str(content)))
                continue

            set_count += 1
            line_of_names = 1 if self._suffix == ".csv" else number
            for name in content:
                first_lines.setdefault(name, line_of_names)

        if bad_count:
            listed = "\n  ".join(_format_bad_lines(listed_lines, bad_count))
            raise UsageError(f"{self.path} has bad lines, and nothing was run:\n  {listed}")
        if not set_count:
            raise UsageError(f"{self.path} has no set of parameters")
        return first_lines

    def __iter__(self) -> Iterator[ParameterSet]:
        for number, content in self._read():
            if isinstance(content, BadSetError):  # changed since it was checked
                raise UsageError(f"line {number} of {self.path}: {content}")
            yield content

    @property
    def _suffix(self) -> str:
        return self.path.suffix.lower()

    def _read(self) -> Iterator[_NumberedLine]:
        """Yield the number of each line, and its set or its problem."""
        try:
            if self._suffix == ".csv":
                yield from self._read_csv()
            elif self._suffix in _LINE_SUFFIXES:
                yield from self._read_json_lines()
            elif self._suffix == ".json":
                yield from self._read_json_list()
            else:
                yield 1, read_set(self.path)
        except OSError as exc:
            raise UsageError(f"{self.path} cannot be read: {exc.strerror or exc}") from exc

    def _read_json_list(self) -> Iterator[_NumberedLine]:
        """Yield the sets of a JSON file: a list of objects, or one object."""
        content = read_regular(self.path, max_bytes=MAX_PARAMETER_FILE_BYTES)
        try:
            value = read_json(content.decode("utf-8-sig"))
        except ValueError as exc:
            raise UsageError(f"{self.path} is not JSON: {one_line(str(exc))}") from exc

        sets = value if isinstance(value, list) else [value]
        for number, parameters in enumerate(sets, 1):
            yield number, _try_set(parameters)

    def _read_json_lines(self) -> Iterator[_NumberedLine]:
        with open(open_regular(self.path), "rb") as file:
            number = 0
            while line := file.readline(MAX_PARAMETER_LINE_BYTES):
                number += 1
                if line.strip():
                    yield number, _parse_json_line(line, is_first=number == 1)
                # The rest of a line that is too long is not another line.
                while len(line) == MAX_PARAMETER_LINE_BYTES and not line.endswith(b"\n"):
                    line = file.readline(MAX_PARAMETER_LINE_BYTES)

    def _read_csv(self) -> Iterator[_NumberedLine]:
        """Yield the rows below the header. A quoted value may have several lines.

        The number of a row is that of its first line.
        """
        with open(open_regular(self.path), encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            names: list[str] | None = None
            while True:
                number = rows.line_num + 1
                try:
                    row = next(rows)
                except StopIteration:
                    return
                except UnicodeDecodeError:  # the reader cannot continue
                    yield number, BadSetError("it is not UTF-8")
                    return
                except csv.Error as exc:
                    yield number, BadSetError(str(exc))
                    continue

                if not row:
                    continue
                if names is None:
                    names = row
                    _check_header(self.path, names)
                else:
                    yield number, _make_csv_set(names, row)


def _format_bad_lines(listed_lines: Sequence[BadLine], bad_count: int) -> Iterator[str]:
    for line in listed_lines:
        yield f"line {line.number}: {one_line(line.problem, limit=200)}"
    if bad_count > len(listed_lines):
        yield f"and {bad_count - len(listed_lines)} more"


def _try_set(value: object) -> ParameterSet | BadSetError:
    """Return `value` as a set of parameters, or the problem that it has."""
    try:
        return check_set(value)
    except BadSetError as exc:
        return exc


def _parse_json_line(line: bytes, *, is_first: bool) -> ParameterSet | BadSetError:
    """Return the set in a line, or its problem. The first line may have a byte order mark."""
    if len(line) >= MAX_PARAMETER_LINE_BYTES:
        return BadSetError(f"it is longer than {MAX_PARAMETER_LINE_BYTES:,} bytes")
    try:
        value = read_json(line.decode("utf-8-sig" if is_first else "utf-8"))
    except UnicodeDecodeError:
        return BadSetError("it is not UTF-8")
    except ValueError as exc:
        return BadSetError(f"it is not JSON ({exc})")
    return _try_set(value)


def _check_header(path: Path, names: list[str]) -> None:
    """Check the names in the first line of a CSV file.

    Raises:
        UsageError: A name is not one of Python, or is there twice.
    """
    for name in names:
        if not is_parameter_name(name):
            shown = one_line(repr(name), limit=80)
            raise UsageError(f"line 1 of {path}: {shown} is not a name of Python")
    if len({*names}) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"line 1 of {path} has the name {repeated} twice")


def _make_csv_set(names: list[str], row: list[str]) -> ParameterSet | BadSetError:
    if len(row) != len(names):
        return BadSetError(f"it has {len(row)} values, and the first line {len(names)} names")
    return _try_set({name: _parse_csv_value(text) for name, text in zip(names, row, strict=True)})


def _parse_csv_value(text: str) -> JsonValue:
    """Return a value of CSV as a boolean, a number, or text."""
    if text in ("true", "false"):
        return text == "true"

    number = _NUMBER.fullmatch(text)
    if number is None:
        return text

    has_fraction_or_exponent = number[2] is not None or number[3] is not None
    if not has_fraction_or_exponent:
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else text  # `1e999` is text
