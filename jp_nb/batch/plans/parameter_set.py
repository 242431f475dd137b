"""Read one set of parameters: of options `-p`, or of a JSON, YAML, or TOML file.

A set is an object with a value for each name.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date, time
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import JsonValue

from jp_nb.batch.plans.parameter_checks import BadSetError, ParameterSet, check_set
from jp_nb.errors import UsageError
from jp_nb.file_reading import read_regular
from jp_nb.json_reading import read_json
from jp_nb.text import one_line

MAX_PARAMETER_FILE_BYTES: Final = 10_000_000
"""Size limit of a file with one set."""


def read_option(name: str, text: str) -> JsonValue:
    """Return the value of `-p NAME VALUE`, with papermill's types.

    `True`, `False`, and `None` are these values, and numbers are numbers. The rest is text.

    Raises:
        UsageError: The name or the value cannot be a parameter.
    """
    try:
        return check_set({name: _parse_option(text)})[name]
    except BadSetError as exc:
        raise UsageError(f"-p {one_line(name)}: {exc}") from exc


def _parse_option(text: str) -> JsonValue:
    """Return the value that papermill reads from the text of an option."""
    constants: Mapping[str, JsonValue] = {"True": True, "False": False, "None": None}
    if text in constants:
        return constants[text]

    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def read_set(path: Path) -> ParameterSet:
    """Return the one set of parameters in a JSON, YAML, or TOML file.

    Raises:
        UsageError: The file cannot be read, or its content is not a set.
    """
    try:
        text = read_regular(path, max_bytes=MAX_PARAMETER_FILE_BYTES).decode("utf-8-sig")
        return check_set(_parse_file(path, text))
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except (ValueError, RecursionError) as exc:  # also `BadSetError`
        raise UsageError(f"{path} has no parameters: {one_line(str(exc))}") from exc


def _parse_file(path: Path, text: str) -> object:
    """Return the content of a file in the format that its suffix names."""
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
    """Return the content of a YAML file, with dates as text."""
    try:
        import yaml
    except ImportError as exc:
        raise UsageError(
            "YAML files need the package pyyaml: `pip install 'jp-nb[batch]'`, or use JSON or TOML"
        ) from exc

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
        """Leaves dates as text, as papermill does."""

        # By their first character, the patterns of texts that are not strings, with their tags.
        yaml_implicit_resolvers: ClassVar[Any] = {
            character: [
                (tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"
            ]
            for character, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as exc:
        raise ValueError(str(exc)) from exc


def _to_json(value: Any) -> Any:
    """Return a value of TOML or YAML as JSON; dates become text."""
    match value:
        case dict():
            return {str(name): _to_json(item) for name, item in value.items()}
        case list():
            return [_to_json(item) for item in value]
        case date() | time():  # `datetime` is a `date`
            return value.isoformat()
        case str() | bool() | int() | float() | None:
            return value
        case _:
            raise ValueError(f"a value of the type {type(value).__name__} is no JSON")
