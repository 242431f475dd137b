"""Command `jp-nb strip`: remove outputs and the record from a notebook file.

Parts of the text are cut out. Indentation, order of keys, spelling of numbers, and unknown keys
stay, so that a diff shows only the removed parts.

Source: `docs/guide.md`, https://git-scm.com/docs/gitattributes#_filter, `docs/decisions.md` D120,
https://nbformat.readthedocs.io/en/latest/format_description.html.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from jp_nb.errors import StorageError
from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.file_writing import replace_file
from jp_nb.record.documents.carrier import CARRIER_MODULE, WIDGET_STATE, WIDGETS
from jp_nb.text import plain

_RECORD: Final = re.compile(r"jp(\.[0-9]+|_edit)?")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SEPARATOR: Final = re.compile(r"[ \t\n\r]*[,:][ \t\n\r]*")
# Numbers stay text, because Python limits their length.
_READ: Final = json.JSONDecoder(parse_int=str, parse_float=str)
_EMPTY: Final = {"outputs": "[]", "execution_count": "null"}


class _Removal(NamedTuple):
    start: int
    end: int
    text: str = ""


class _Member(NamedTuple):
    key: str
    start: int
    at: int
    end: int
    value: Any


_Judge = Callable[[_Member], list[_Removal] | None]
"""Returns the removals inside a member; None to remove the member."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts to remove: the `record` with its carriers, and the `outputs` with widgets."""

    record: bool = True
    outputs: bool = True


def strip_notebook(data: bytes, parts: Parts) -> bytes:
    """Return the notebook file `data` of nbformat 4 without `parts`.

    Raises:
        StorageError: It is no such notebook.
    """
    text = data.decode("utf-8", "surrogateescape")  # keep bytes that are not UTF-8
    start = _SPACE.match(text, text.startswith("\ufeff")).end()  # type: ignore[union-attr]

    try:
        notebook, end = _READ.raw_decode(text, start)
        _check_notebook(notebook, text[end:])
        removals = sorted(_find_removals(text, start, parts))
    except RecursionError:
        raise StorageError("not a notebook: it is nested too deeply") from None
    except json.JSONDecodeError as exc:
        raise StorageError(f"not a notebook: {exc}") from exc

    pieces = []
    at = 0
    for removal in removals:
        pieces += [text[at : removal.start], removal.text]
        at = removal.end

    return "".join([*pieces, text[at:]]).encode("utf-8", "surrogateescape")


def _check_notebook(notebook: Any, rest: str) -> None:
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise StorageError("not a notebook: it has no cells")
    if notebook.get("nbformat") != "4":
        raise StorageError("not a notebook of nbformat 4: open it in Jupyter and save it")
    if rest.strip(" \t\n\r"):
        raise StorageError("not a notebook: the JSON object is followed by more text")


def _find_removals(text: str, start: int, parts: Parts) -> Iterator[_Removal]:
    for member in _read_members(text, start):
        if member.key == "metadata" and isinstance(member.value, dict):
            judge = partial(_judge_metadata, text, parts=parts)
            removals = _remove_in_object(text, member.at, judge)
            yield from [_Removal(member.at, member.end, "{}")] if removals is None else removals
        elif member.key == "cells" and isinstance(member.value, list) and parts.outputs:
            at = _skip_separator(text, member.at + 1)
            while text[at] != "]":
                cell, end = _READ.raw_decode(text, at)
                for part in _read_members(text, at) if isinstance(cell, dict) else ():
                    if part.key in _EMPTY and part.value not in (None, []):
                        yield _Removal(part.at, part.end, _EMPTY[part.key])
                at = _skip_separator(text, end)


def _judge_metadata(text: str, member: _Member, parts: Parts) -> list[_Removal] | None:
    if _RECORD.fullmatch(member.key):
        return None if parts.record else []
    if member.key != WIDGETS:
        return []

    def judge_model(model: _Member) -> list[_Removal] | None:
        is_carrier = (
            isinstance(model.value, dict) and model.value.get("model_module") == CARRIER_MODULE
        )
        is_removed = parts.record if is_carrier else parts.outputs
        return None if is_removed else []

    def judge_states(states: _Member) -> list[_Removal] | None:
        if states.key != WIDGET_STATE or not isinstance(states.value, dict):
            return []
        found = [each for each in _read_members(text, states.at) if each.key == "state"]
        removals = [_remove_in_value(text, each, judge_model) for each in found]
        if removals and None in removals:
            return None
        return list(chain.from_iterable(each or () for each in removals))

    return _remove_in_value(text, member, judge_states)


def _remove_in_value(text: str, member: _Member, judge: _Judge) -> list[_Removal] | None:
    return _remove_in_object(text, member.at, judge) if isinstance(member.value, dict) else []


def _remove_in_object(text: str, at: int, judge: _Judge) -> list[_Removal] | None:
    """Return the removals in the object at `at`; None if no member would stay."""
    members = _read_members(text, at)
    judged = [judge(member) for member in members]
    stay = [index for index, cuts in enumerate(judged) if cuts is not None]
    if members and not stay:
        return None

    found: list[_Removal] = []
    for index, cuts in enumerate(judged):
        if cuts is not None:
            found += cuts
        elif index < stay[0]:
            found.append(_Removal(members[index].start, members[index + 1].start))
        else:
            found.append(_Removal(members[index - 1].end, members[index].end))
    return found


def _read_members(text: str, at: int) -> list[_Member]:
    members = []
    at = _skip_separator(text, at + 1)

    while text[at] != "}":
        key, end = _READ.raw_decode(text, at)
        value_at = _SEPARATOR.match(text, end).end()  # type: ignore[union-attr]
        value, end = _READ.raw_decode(text, value_at)
        members.append(_Member(key, at, value_at, end, value))
        at = _skip_separator(text, end)
    return members


def _skip_separator(text: str, at: int) -> int:
    at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    return _SPACE.match(text, at + 1).end() if text[at] == "," else at  # type: ignore[union-attr]


PIPE = Path("-")  # argument that selects stdin and stdout


def strip(options: argparse.Namespace) -> int:
    """Strip each notebook, and return 1 if one is not valid. Such a file is not changed."""
    is_part = options.record or options.outputs
    parts = Parts(options.record, options.outputs) if is_part else Parts()
    code = 0

    for path in options.notebooks:
        try:
            _strip_pipe(parts) if path == PIPE else _strip_file(path, parts)
        except StorageError as exc:
            print(f"jp-nb: {plain(f'{path}: {exc}')}", file=sys.stderr)
            code = 1
    return code


def _strip_pipe(parts: Parts) -> None:
    data = sys.stdin.buffer.read()
    try:
        data = strip_notebook(data, parts)
    finally:  # after an error, git may use the output despite the exit code
        sys.stdout.buffer.write(data)
        sys.stdout.flush()


def _strip_file(path: Path, parts: Parts) -> None:
    try:
        data = read_regular(path, max_bytes=MAX_NOTEBOOK_BYTES)
        stripped = strip_notebook(data, parts)
        if stripped != data:
            replace_file(path, stripped)
    except OSError as exc:
        raise StorageError(exc.strerror or str(exc)) from exc
