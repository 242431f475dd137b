"""Remove outputs and the record from the text of a notebook file.

Parts of the text are cut out. Indentation, order of keys, spelling of numbers, and unknown keys
stay, so that a diff shows only the removed parts.

Source: `docs/decisions.md` D120,
https://nbformat.readthedocs.io/en/latest/format_description.html.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from jp_nb.errors import StorageError
from jp_nb.record.documents.carrier import CARRIER_MODULE, WIDGET_STATE, WIDGETS

_RECORD: Final = re.compile(r"jp(\.[0-9]+|_edit)?")
"""Keys of the notebook's metadata with the record, its segments (`jp.1`), and its edits."""
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SEPARATOR: Final = re.compile(r"[ \t\n\r]*[,:][ \t\n\r]*")
# Numbers stay text, because Python limits their length.
_READ: Final = json.JSONDecoder(parse_int=str, parse_float=str)
_EMPTY: Final = {"outputs": "[]", "execution_count": "null"}
"""Members of a cell that are emptied, and their text then."""


class _Removal(NamedTuple):
    """The part of the text from `start` to before `end`, and the `text` that replaces it."""

    start: int
    end: int
    text: str = ""


class _Member(NamedTuple):
    """A member of a JSON object, with its positions in the text.

    Attributes:
        key: Its key.
        value: Its parsed value.
        start: Start of the key.
        value_start: Start of the value.
        end: End of the value.
    """

    key: str
    value: Any
    start: int
    value_start: int
    end: int


_FindRemovals = Callable[[_Member], list[_Removal] | None]
"""Returns the removals inside a member; None to remove the whole member."""


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
    kept_from = 0
    for removal in removals:
        pieces += [text[kept_from : removal.start], removal.text]
        kept_from = removal.end

    return "".join([*pieces, text[kept_from:]]).encode("utf-8", "surrogateescape")


def _check_notebook(notebook: Any, text_after: str) -> None:
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise StorageError("not a notebook: it has no cells")
    if notebook.get("nbformat") != "4":
        raise StorageError("not a notebook of nbformat 4: open it in Jupyter and save it")
    if text_after.strip(" \t\n\r"):
        raise StorageError("not a notebook: the JSON object is followed by more text")


def _find_removals(text: str, start: int, parts: Parts) -> Iterator[_Removal]:
    """Yield the removals in the notebook, the object at `start`."""
    for member in _read_members(text, start):
        if member.key == "metadata" and isinstance(member.value, dict):
            in_member = partial(_find_in_metadata, text, parts=parts)
            removals = _find_in_object(text, member.value_start, in_member)
            if removals is None:  # the key `metadata` itself is required
                yield _Removal(member.value_start, member.end, "{}")
            else:
                yield from removals
        elif member.key == "cells" and isinstance(member.value, list) and parts.outputs:
            yield from _find_outputs(text, member.value_start)


def _find_outputs(text: str, cells_start: int) -> Iterator[_Removal]:
    """Yield the outputs and execution counts of the cells in the list at `cells_start`."""
    cell_start = _skip_separator(text, cells_start + 1)

    while text[cell_start] != "]":
        cell, end = _READ.raw_decode(text, cell_start)
        members = _read_members(text, cell_start) if isinstance(cell, dict) else []
        for member in members:
            if member.key in _EMPTY and member.value not in (None, []):
                yield _Removal(member.value_start, member.end, _EMPTY[member.key])
        cell_start = _skip_separator(text, end)


def _find_in_metadata(text: str, member: _Member, parts: Parts) -> list[_Removal] | None:
    """Return the removals inside a member of the notebook's metadata; None to remove it.

    The states of widgets are in `metadata.widgets`, one of which may be a carrier of the record:

        {"application/vnd.jupyter.widget-state+json": {"state": {"MODEL_ID": {…}}}}
    """
    if _RECORD.fullmatch(member.key):
        return None if parts.record else []
    if member.key == WIDGETS:
        return _find_in_value(text, member, partial(_find_in_widgets, text, parts=parts))
    return []


def _find_in_widgets(text: str, member: _Member, parts: Parts) -> list[_Removal] | None:
    """Return the removals inside a member of `metadata.widgets`; None to remove it."""
    if member.key != WIDGET_STATE or not isinstance(member.value, dict):
        return []

    removals: list[_Removal] = []
    for inner in _read_members(text, member.value_start):
        if inner.key == "state":
            in_models = _find_in_value(text, inner, partial(_find_in_model, parts=parts))
            if in_models is None:  # no model would stay
                return None
            removals += in_models

    return removals


def _find_in_model(model: _Member, parts: Parts) -> list[_Removal] | None:
    """Return None to remove the state of a widget as a whole, or no removals to keep it."""
    is_object = isinstance(model.value, dict)
    is_carrier = is_object and model.value.get("model_module") == CARRIER_MODULE
    is_removed = parts.record if is_carrier else parts.outputs
    return None if is_removed else []


def _find_in_value(text: str, member: _Member, in_member: _FindRemovals) -> list[_Removal] | None:
    """Return the removals in the value of `member` if it is an object, as `_find_in_object`."""
    if not isinstance(member.value, dict):
        return []
    return _find_in_object(text, member.value_start, in_member)


def _find_in_object(text: str, start: int, in_member: _FindRemovals) -> list[_Removal] | None:
    """Return the removals in the object at `start`; None if no member would stay."""
    members = _read_members(text, start)
    removals_by_member = [in_member(member) for member in members]
    staying = [index for index, inside in enumerate(removals_by_member) if inside is not None]
    if members and not staying:
        return None

    removals: list[_Removal] = []
    for index, inside in enumerate(removals_by_member):
        if inside is not None:
            removals += inside
        elif index < staying[0]:  # with the comma after it
            removals.append(_Removal(members[index].start, members[index + 1].start))
        else:  # with the comma before it
            removals.append(_Removal(members[index - 1].end, members[index].end))
    return removals


def _read_members(text: str, start: int) -> list[_Member]:
    """Return the members of the object at `start`."""
    members = []
    key_start = _skip_separator(text, start + 1)

    while text[key_start] != "}":
        key, key_end = _READ.raw_decode(text, key_start)
        value_start = _SEPARATOR.match(text, key_end).end()  # type: ignore[union-attr]
        value, end = _READ.raw_decode(text, value_start)
        members.append(_Member(key, value, start=key_start, value_start=value_start, end=end))
        key_start = _skip_separator(text, end)
    return members


def _skip_separator(text: str, start: int) -> int:
    """Return the position after white space and a comma."""
    end = _SPACE.match(text, start).end()  # type: ignore[union-attr]
    if text[end] != ",":
        return end
    return _SPACE.match(text, end + 1).end()  # type: ignore[union-attr]
