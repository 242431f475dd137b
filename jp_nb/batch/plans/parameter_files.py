"""Read parameters: of the command line, of a file with one set, and of a file with a set a line.

| file | content |
| --- | --- |
| `.json`, `.yaml`, `.yml`, `.toml` | one set: an object with a value for each name |
| `.jsonl`, `.ndjson` | an object in each line |
| `.csv` | names in the first line, a set in each further line |

Files with a set a line are streamed, so they may have millions of lines. `ParameterSets.check`
reads the file once before anything runs, and names every bad line. `jp_nb/batch/plans/run_plan.py`
then iterates over the sets.

A value of CSV is `true`, `false`, a number, or text. A number with a leading zero or plus sign
stays text: it is an article, a postal code, or a phone number. Formulas are text like any other.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import csv
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, time
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from pydantic import JsonValue

from jp_nb.config.secrets import looks_like_secret
from jp_nb.errors import UsageError
from jp_nb.file_reading import open_regular, read_regular
from jp_nb.headless.parameter_cell import is_parameter_name
from jp_nb.json_values import read_json
from jp_nb.text import MAX_LISTED_LINES, one_line

MAX_PARAMETER_FILE_BYTES: Final = 10_000_000
"""Size limit of a file with one set."""
MAX_PARAMETER_LINE_BYTES: Final = 10_000_000
"""Length limit of one line of a file with a set a line."""
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,300})(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LINE_SUFFIXES: Final = (".jsonl", ".ndjson", ".csv")

ParameterSet = dict[str, JsonValue]


class BadLine(NamedTuple):
    """A line of a file that is no set of parameters."""

    number: int
    problem: str


class _BadSetError(ValueError):
    """Raised for values that are no set of parameters. The message has the reason."""


def read_option(name: str, text: str) -> JsonValue:
    """Return the value of `-p NAME VALUE`, with papermill's types.

    `True`, `False`, and `None` are these values, and numbers are numbers. The rest is text.

    Raises:
        UsageError: The name or the value cannot be a parameter.
    """
    values: Mapping[str, JsonValue] = {"True": True, "False": False, "None": None}
    value: JsonValue = text
    if text in values:
        value = values[text]
    else:
        for number in (int, float):
            try:
                value = number(text)
                break
            except ValueError:
                continue

    try:
        return _check_set({name: value})[name]
    except _BadSetError as exc:
        raise UsageError(f"-p {one_line(name)}: {exc}") from exc


def read_set(path: Path) -> ParameterSet:
    """Return the one set of parameters in a JSON, YAML, or TOML file.

    Raises:
        UsageError: The file cannot be read, or contains no set.
    """
    try:
        text = read_regular(path, max_bytes=MAX_PARAMETER_FILE_BYTES).decode("utf-8-sig")
        return _check_set(_parse_file(path, text))
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"{path} has no parameters: {one_line(str(exc))}") from exc


def _parse_file(path: Path, text: str) -> object:
    match path.suffix.lower():
        case ".json":
            return read_json(text)
        case ".toml":
            return _to_json(tomllib.loads(text))
        case ".yaml" | ".yml":
            return _to_json(_parse_yaml(text))
        case other:
            raise UsageError(
                f"{path}: files of parameters end in .json, .yaml, .toml, .jsonl, or .csv, "
                f"not in {other!r}"
            )


def _parse_yaml(text: str) -> object:
    try:
        import yaml
    except ImportError as exc:
        raise UsageError(
            "YAML files need the package pyyaml: `pip install 'jp-nb[batch]'`, or use JSON or TOML"
        ) from exc

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
        """Leaves dates as text, as papermill does."""

        yaml_implicit_resolvers: ClassVar[Any] = {
            first: [each for each in found if each[0] != "tag:yaml.org,2002:timestamp"]
            for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as exc:
        raise ValueError(str(exc)) from exc


def _to_json(value: Any) -> Any:
    """Return a value of TOML or YAML as JSON; dates become text."""
    match value:
        case dict():
            return {str(name): _to_json(each) for name, each in value.items()}
        case list():
            return [_to_json(each) for each in value]
        case date() | time():  # `datetime` is a `date`
            return value.isoformat()
        case str() | bool() | int() | float() | None:
            return value
        case _:
            raise ValueError(f"a value of the type {type(value).__name__} is no JSON")


def _check_set(value: object) -> ParameterSet:
    if not isinstance(value, dict):
        raise _BadSetError("expected names and values: an object")

    for name, each in value.items():
        if not is_parameter_name(name):
            raise _BadSetError(f"{one_line(repr(name), limit=80)} is not a name of Python")
        if isinstance(each, float) and not math.isfinite(each):
            raise _BadSetError(f"{name} is {each}, which JSON cannot store")
        if isinstance(each, str) and looks_like_secret(each):
            raise _BadSetError(
                f"{name} looks like an API key, which would be stored in the notebook: "
                "read it from the environment in the notebook"
            )
    return value


def has_set_in_each_line(path: Path) -> bool:
    """Return True if the file's name says that each line is a set of parameters."""
    return path.suffix.lower() in _LINE_SUFFIXES


class ParameterSets:
    """The sets of parameters in a file, in its order. Iterating reads the file again each time.

    A file with one set counts as one line. A JSON file may also contain a list of sets.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self) -> dict[str, int]:
        """Read the whole file, and return the number of the first line with each name.

        Raises:
            UsageError: The file cannot be read, or has bad lines. The message lists them.
        """
        names: dict[str, int] = {}
        bad: list[BadLine] = []
        count = 0
        sets = 0

        for number, found in self._read():
            if isinstance(found, _BadSetError):
                count += 1
                if len(bad) < MAX_LISTED_LINES:
                    bad.append(BadLine(number, str(found)))
                continue
            sets += 1
            line = 1 if self.path.suffix.lower() == ".csv" else number
            for name in found:
                names.setdefault(name, line)

        if bad:
            lines = [f"line {each.number}: {one_line(each.problem, limit=200)}" for each in bad]
            if count > len(bad):
                lines.append(f"and {count - len(bad)} more")
            listed = "\n  ".join(lines)
            raise UsageError(f"{self.path} has bad lines, and nothing was run:\n  {listed}")

        if not sets:
            raise UsageError(f"{self.path} has no set of parameters")
        return names

    def __iter__(self) -> Iterator[ParameterSet]:
        for number, found in self._read():
            if isinstance(found, _BadSetError):  # changed since it was checked
                raise UsageError(f"line {number} of {self.path}: {found}")
            yield found

    def _read(self) -> Iterator[tuple[int, ParameterSet | _BadSetError]]:
        """Yield the number of each line, and its set or its problem."""
        suffix = self.path.suffix.lower()
        try:
            if suffix == ".csv":
                yield from self._read_csv()
            elif suffix in _LINE_SUFFIXES:
                yield from self._read_json_lines()
            elif suffix == ".json":
                yield from self._read_json_list()
            else:
                yield 1, read_set(self.path)
        except OSError as exc:
            raise UsageError(f"{self.path} cannot be read: {exc.strerror or exc}") from exc

    def _read_json_list(self) -> Iterator[tuple[int, ParameterSet | _BadSetError]]:
        text = read_regular(self.path, max_bytes=MAX_PARAMETER_FILE_BYTES).decode("utf-8-sig")
        try:
            value = read_json(text)
        except ValueError as exc:
            raise UsageError(f"{self.path} is not JSON: {one_line(str(exc))}") from exc

        sets = value if isinstance(value, list) else [value]
        for number, each in enumerate(sets, 1):
            yield number, _try_set(each)

    def _read_json_lines(self) -> Iterator[tuple[int, ParameterSet | _BadSetError]]:
        with open(open_regular(self.path), "rb") as file:
            number = 0
            while line := file.readline(MAX_PARAMETER_LINE_BYTES):
                number += 1
                if line.strip():
                    yield number, _parse_json_line(line, is_first=number == 1)

    def _read_csv(self) -> Iterator[tuple[int, ParameterSet | _BadSetError]]:
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
                    yield number, _BadSetError("it is not UTF-8")
                    return
                except csv.Error as exc:
                    yield number, _BadSetError(str(exc))
                    continue

                if not row:
                    continue
                if names is None:
                    names = row
                    _check_header(self.path, names)
                else:
                    yield number, _make_csv_set(names, row)


def _try_set(value: object) -> ParameterSet | _BadSetError:
    try:
        return _check_set(value)
    except _BadSetError as exc:
        return exc


def _parse_json_line(line: bytes, *, is_first: bool) -> ParameterSet | _BadSetError:
    if len(line) >= MAX_PARAMETER_LINE_BYTES:
        return _BadSetError(f"it is longer than {MAX_PARAMETER_LINE_BYTES:,} bytes")
    try:
        value = read_json(line.decode("utf-8-sig" if is_first else "utf-8"))
    except UnicodeDecodeError:
        return _BadSetError("it is not UTF-8")
    except ValueError as exc:
        return _BadSetError(f"it is not JSON ({exc})")
    return _try_set(value)


def _check_header(path: Path, names: list[str]) -> None:
    for name in names:
        if not is_parameter_name(name):
            shown = one_line(repr(name), limit=80)
            raise UsageError(f"line 1 of {path}: {shown} is not a name of Python")
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"line 1 of {path} has the name {twice} twice")


def _make_csv_set(names: list[str], row: list[str]) -> ParameterSet | _BadSetError:
    if len(row) != len(names):
        return _BadSetError(f"it has {len(row)} values, and the first line {len(names)} names")
    return _try_set({name: _parse_csv_value(text) for name, text in zip(names, row, strict=True)})


def _parse_csv_value(text: str) -> JsonValue:
    if text in ("true", "false"):
        return text == "true"

    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    if number[2] is None and number[3] is None:
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else text
