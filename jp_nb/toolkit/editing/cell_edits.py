"""Read the edits of a proposal from the arguments of a call.

A *proposal* is one call of the tool `edit_cells`. The user reviews its edits together
(`edit_review.py`). `edit_planner.py` checks them against the cells of the notebook.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from jp_nb.errors import ToolError
from jp_nb.text import one_line
from jp_nb.toolkit.editing.edit_schema import CELL_KINDS, EDIT_KINDS, CellKind, EditKind

MAX_EDITS: Final = 50
MAX_EDIT_BYTES: Final = 200_000
"""Limit for the sources and patches of one proposal, in UTF-8."""

START: Final = "start"
END: Final = "end"
THIS: Final = "this"
"""Words for a place instead of a cell id: an edge of the notebook, or `this`, the running cell."""
SAME: Final = "same"
"""Word for a version: the one that an earlier edit of the proposal left."""

NEW_CELL_PREFIX: Final = "new:"
"""Beginning of the key of a new cell: the first `insert` of a proposal inserts `new:1`."""

_FIELDS: Final[Mapping[EditKind, tuple[frozenset[str], frozenset[str]]]] = {
    "insert": (frozenset({"source"}), frozenset({"after", "type", "run"})),
    "replace": (frozenset({"cell", "version", "source"}), frozenset({"run"})),
    "patch": (frozenset({"cell", "version", "old", "new"}), frozenset({"run"})),
    "delete": (frozenset({"cell", "version"}), frozenset()),
    "move": (frozenset({"cell", "version", "after"}), frozenset()),
    "run": (frozenset({"cell", "version"}), frozenset()),
}
"""Required and optional fields of each kind of edit, besides `op`."""

_NAMES: Final = ("op", "cell", "version", "after", "type", "source", "old", "new", "run")
"""All fields, in the order in which messages name them."""


@dataclass(frozen=True, slots=True)
class CellEdit:
    """One edit of a proposal.

    Attributes:
        number: Counts the edits of the proposal, from 1.
        kind: The kind of edit, `op` in the arguments.
        cell: The id of the cell, or the key of a cell that an earlier edit inserts.
        version: The version of the cell that the model has read.
        after: The place of an inserted or moved cell: it comes after the cell with this id.
        cell_kind: The type of an inserted cell.
        source: The whole source of an inserted or replaced cell.
        old: The text that a patch replaces. It occurs once in the cell.
        new: The text that replaces it.
        is_run: True if the model wants the cell to run afterwards.
        key: The name of an inserted cell in the proposal, such as `new:1`; "" for other kinds.
    """

    number: int
    kind: EditKind
    cell: str = ""
    version: str = ""
    after: str = THIS
    cell_kind: CellKind = "code"
    source: str = ""
    old: str = ""
    new: str = ""
    is_run: bool = False
    key: str = ""

    @property
    def target(self) -> str:
        """The id of the cell that the edit changes, or the key of the cell that it inserts."""
        return self.key or self.cell


def read_edits(arguments: Mapping[str, JsonValue]) -> tuple[CellEdit, ...]:
    """Return the edits in the arguments of a call.

    Raises:
        ToolError: They are not valid. The message names the edit by its number, for the model.
    """
    items = arguments.get("edits")
    if not isinstance(items, list) or not items:
        raise ToolError(f"`edits` must be a list of 1 to {MAX_EDITS} operations.")
    if len(items) > MAX_EDITS:
        raise ToolError(
            f"`edits` has {len(items)} operations. The limit is {MAX_EDITS}: propose fewer."
        )

    edits: list[CellEdit] = []
    insert_count = 0

    for number, item in enumerate(items, 1):
        fields = _read_fields(number, item)
        key = ""
        if fields["op"] == "insert":
            insert_count += 1
            key = f"{NEW_CELL_PREFIX}{insert_count}"
        edits.append(_make_edit(number, fields, key))

    byte_count = sum(map(_count_bytes, edits))
    if byte_count > MAX_EDIT_BYTES:
        raise ToolError(
            f"The sources have {byte_count:,} bytes. The limit is {MAX_EDIT_BYTES:,}: "
            "propose fewer or smaller edits, or use `patch`."
        )
    return tuple(edits)


def make_edit_error(number: int, reason: str) -> ToolError:
    """Return the error about one edit of a proposal."""
    return ToolError(f"Edit {number}: {reason} No edit was applied, and the user was not asked.")


def _read_fields(number: int, item: JsonValue) -> dict[str, JsonValue]:
    """Return the fields of one operation, without nulls, after a check of their names.

    Raises:
        ToolError: The kind is unknown, a field is missing, or it has another field.
    """
    if not isinstance(item, dict):
        raise make_edit_error(
            number, 'it must be an object such as {"op": "insert", "source": "…"}.'
        )

    # Models send null for a missing field.
    fields: dict[str, JsonValue] = {
        name: value for name, value in item.items() if value is not None
    }

    kind = next((known for known in EDIT_KINDS if known == fields.get("op")), None)
    if kind is None:
        known_kinds = ", ".join(EDIT_KINDS)
        shown = one_line(repr(fields.get("op")), limit=60)
        raise make_edit_error(number, f"`op` is {shown}. Use one of {known_kinds}.")

    required, optional = _FIELDS[kind]
    missing = [name for name in _NAMES if name in required and name not in fields]
    if missing:
        hint = ""
        if missing[0] in ("cell", "version"):
            hint = " Get ids and versions with notebook_cells()."
        raise make_edit_error(number, f"`{kind}` needs `{missing[0]}`.{hint}")

    allowed = {"op", *required, *optional}
    unknown = [name for name in fields if name not in allowed and not _is_blank(fields[name])]
    if unknown:
        shown = one_line(unknown[0], limit=60)
        allowed_names = ", ".join(name for name in _NAMES if name in allowed)
        raise make_edit_error(number, f"`{kind}` has no `{shown}`. It has {allowed_names}.")
    return fields


def _is_blank(value: JsonValue) -> bool:
    # Models whose schema requires each field send "" or false for the fields of other operations.
    return value in ("", False)


def _make_edit(number: int, fields: Mapping[str, JsonValue], key: str) -> CellEdit:
    """Return the edit with these fields, after a check of their values."""
    texts: dict[str, str] = {}
    for name in ("cell", "version", "after", "type", "source", "old", "new"):
        value = fields.get(name, "")
        if not isinstance(value, str):
            raise make_edit_error(number, f"`{name}` must be a text.")
        texts[name] = value

    is_run = fields.get("run", False)
    if not isinstance(is_run, bool):
        raise make_edit_error(number, "`run` must be true or false.")

    cell_kind = texts["type"] or "code"
    if cell_kind not in CELL_KINDS:
        raise make_edit_error(number, f"`type` must be one of {', '.join(CELL_KINDS)}.")
    if is_run and key and cell_kind != "code":
        raise make_edit_error(number, "only code cells can run.")

    kind = cast(EditKind, fields["op"])  # `_read_fields` has checked it
    if kind == "patch" and not texts["old"]:
        raise make_edit_error(number, "`old` is empty. Give a text that occurs exactly once.")
    _check_characters(number, texts)

    return CellEdit(
        number,
        kind,
        cell=texts["cell"],
        version=texts["version"],
        after=texts["after"] or THIS,
        cell_kind=cast(CellKind, cell_kind),
        source=texts["source"],
        old=texts["old"],
        new=texts["new"],
        is_run=is_run or kind == "run",
        key=key,
    )


def _check_characters(number: int, texts: Mapping[str, str]) -> None:
    """Refuse halves of surrogate pairs, which a model may write as escapes."""
    for name in ("source", "new"):
        if any("\ud800" <= char <= "\udfff" for char in texts[name]):
            raise make_edit_error(
                number,
                f"`{name}` has half a surrogate pair, which no file can contain. "
                "Write the character itself.",
            )


def _count_bytes(edit: CellEdit) -> int:
    texts = (edit.source, edit.old, edit.new)
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
