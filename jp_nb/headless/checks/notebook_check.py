"""Find the problems of a notebook file: secrets in any text of it, and errors of its record.

`record_check.py` checks the record. No cell runs.

Source: `docs/ci.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jp_nb.errors import StorageError
from jp_nb.headless.checks.key_search import Finding, KeySearch
from jp_nb.headless.checks.record_check import check_record
from jp_nb.headless.files import read_notebook
from jp_nb.text import one_line


def check_notebook(path: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield the problems of a notebook: secrets, and errors of its record."""
    try:
        notebook = read_notebook(path)
    except StorageError as exc:
        # `nb.ipynb: Permission denied`, or `nb.ipynb is not a notebook: …`
        message = str(exc).removeprefix(f"{path}: ").removeprefix(f"{path} ")
        yield Finding("", message)
        return

    for place, text in iter_texts(notebook, keys):
        for secret in keys.find(text):
            yield Finding(place, f"contains {secret}")

    yield from check_record(notebook.metadata, keys)


def iter_texts(value: Any, keys: KeySearch) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each string in a JSON value, in their order in the file.

    A key of an object has the place of the object.
    """
    # A stack instead of recursion, because the file may nest values deeper than Python recurses.
    # Values are pushed in reverse, so that the first one is on top.
    stack = [("", value)]

    while stack:
        place, value = stack.pop()

        if isinstance(value, str):
            yield place, value
        elif isinstance(value, Mapping):
            yield from ((place, str(name)) for name in value)
            members = [(_join_key(place, key, keys), item) for key, item in value.items()]
            stack += reversed(members)
        elif isinstance(value, list):
            items = [(f"{place}[{index}]", item) for index, item in enumerate(value)]
            stack += reversed(items)


def _join_key(place: str, key: object, keys: KeySearch) -> str:
    name = one_line(keys.hide(str(key)), limit=80)
    return f"{place}.{name}" if place else name
