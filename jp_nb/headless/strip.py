"""`jp-nb strip`: remove outputs and the record from the text of a notebook.

The text is cut, not written anew: indentation, order of keys, spelling of numbers and unknown keys
stay as they are, so that a diff shows only what was removed.

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
from pathlib import Path
from typing import Any, Final, NamedTuple

from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file
from jp_nb.record.merge import MODULE, WIDGET_STATE, WIDGETS
from jp_nb.text import plain

_RECORD: Final = re.compile(r"jp(\.[0-9]+)?")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SEPARATOR: Final = re.compile(r"[ \t\n\r]*[,:][ \t\n\r]*")
# Numbers stay text: one may be longer than Python reads.
_READ: Final = json.JSONDecoder(parse_int=str, parse_float=str)
_EMPTY: Final = {"outputs": "[]", "execution_count": "null"}


class _Removal(NamedTuple):
    """From `start` until before `end` stands `text` instead."""

    start: int
    end: int
    text: str = ""


class _Member(NamedTuple):
    """A key of an object, and where it, its value and the end of that are."""

    key: str
    start: int
    at: int
    end: int
    value: Any


_Judge = Callable[[_Member], list[_Removal] | None]
"""Returns the cuts inside of a member; None if all of it goes."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What goes: the `record` with its carriers; `outputs` with their numbers and widgets."""

    record: bool = True
    outputs: bool = True


def strip_notebook(data: bytes, parts: Parts) -> bytes:
    """Return the notebook file `data` without `parts`; the same bytes if it has none of them.

    Raises:
        StorageError: If it is no notebook of nbformat 4; the message says why.
    """
    text = data.decode("utf-8", "surrogateescape")  # what is not UTF-8 stays what it is
    start = _SPACE.match(text, text.startswith("\ufeff")).end()  # type: ignore[union-attr]
    try:
        notebook, end = _READ.raw_decode(text, start)
        cuts = list(_cuts(text, start, _checked(notebook, text[end:]), parts))
    except RecursionError:
        raise StorageError("not a notebook: it is nested too deeply") from None
    except json.JSONDecodeError as exc:
        raise StorageError(f"not a notebook: {exc}") from exc
    pieces, at = [], 0
    for cut in sorted(cuts):
        pieces += [text[at : cut.start], cut.text]
        at = cut.end
    return "".join([*pieces, text[at:]]).encode("utf-8", "surrogateescape")


def _checked(notebook: Any, behind: str) -> dict[str, Any]:
    """Return `notebook` if it has the shape of one, and nothing is `behind` it."""
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise StorageError("not a notebook: it has no cells")
    if notebook.get("nbformat") != "4":
        raise StorageError("not a notebook of nbformat 4: open it in Jupyter and save it")
    if behind.strip(" \t\n\r"):
        raise StorageError("not a notebook: the JSON object is followed by more text")
    return notebook


def _cuts(text: str, start: int, notebook: dict[str, Any], parts: Parts) -> Iterator[_Removal]:
    for member in _members(text, start):
        if member.key == "metadata" and isinstance(member.value, dict):
            kept = _without(text, member.at, lambda each: _in_metadata(text, each, parts))
            yield from [_Removal(member.at, member.end, "{}")] if kept is None else kept
        elif member.key == "cells" and isinstance(member.value, list) and parts.outputs:
            for at, cell in _items(text, member.at):
                if isinstance(cell, dict):
                    yield from _emptied(text, at)


def _emptied(text: str, cell: int) -> Iterator[_Removal]:
    """Yield the cuts that take the outputs from the cell at `cell`."""
    for member in _members(text, cell):
        if member.key in _EMPTY and member.value not in (None, []):
            yield _Removal(member.at, member.end, _EMPTY[member.key])


def _in_metadata(text: str, member: _Member, parts: Parts) -> list[_Removal] | None:
    if _RECORD.fullmatch(member.key):
        return None if parts.record else []
    if member.key != WIDGETS:
        return []

    def of_a_model(model: _Member) -> list[_Removal] | None:
        carries = isinstance(model.value, dict) and model.value.get("model_module") == MODULE
        return None if (parts.record if carries else parts.outputs) else []

    def of_states(states: _Member) -> list[_Removal] | None:
        if states.key != WIDGET_STATE or not isinstance(states.value, dict):
            return []
        found = [each for each in _members(text, states.at) if each.key == "state"]
        kept = [_inside(text, each, of_a_model) for each in found]
        return None if kept and None in kept else [cut for cuts in kept for cut in cuts or ()]

    return _inside(text, member, of_states)


def _inside(text: str, member: _Member, judge: _Judge) -> list[_Removal] | None:
    return _without(text, member.at, judge) if isinstance(member.value, dict) else []


def _without(text: str, at: int, judge: _Judge) -> list[_Removal] | None:
    """Return the cuts in the object at `at`; None if that leaves none of its members."""
    members = _members(text, at)
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


# --- where things are ------------------------------------------------------------------------


def _members(text: str, at: int) -> list[_Member]:
    """Return the members of the object at `at`, which is sound: equal keys each count."""
    found = []
    at = _next(text, at + 1)
    while text[at] != "}":
        key, end = _READ.raw_decode(text, at)
        value_at = _SEPARATOR.match(text, end).end()  # type: ignore[union-attr]
        value, end = _READ.raw_decode(text, value_at)
        found.append(_Member(key, at, value_at, end, value))
        at = _next(text, end)
    return found


def _items(text: str, at: int) -> Iterator[tuple[int, Any]]:
    """Yield the items of the list at `at`, which is sound, and where they begin."""
    at = _next(text, at + 1)
    while text[at] != "]":
        value, end = _READ.raw_decode(text, at)
        yield at, value
        at = _next(text, end)


def _next(text: str, at: int) -> int:
    """Return where the next thing begins, behind space and a comma."""
    at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    return _SPACE.match(text, at + 1).end() if text[at] == "," else at  # type: ignore[union-attr]


PIPE = Path("-")
"""In place of a file: what comes in goes out."""


def strip(options: argparse.Namespace) -> int:
    """Strip each notebook; return 1 if one of them is none. That one stays as it is."""
    chosen = Parts(options.record, options.outputs)
    parts = chosen if options.record or options.outputs else Parts()
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
        stripped = strip_notebook(data, parts)
    except StorageError:
        _write_out(data)  # git may go on with what comes out, whatever the exit code
        raise
    _write_out(stripped)


def _write_out(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _strip_file(path: Path, parts: Parts) -> None:
    try:
        data = path.read_bytes()
        stripped = strip_notebook(data, parts)
        if stripped != data:
            replace_file(path, stripped)
    except OSError as exc:
        raise StorageError(exc.strerror or str(exc)) from exc
