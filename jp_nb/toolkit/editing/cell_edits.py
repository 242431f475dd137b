"""Read the edits of a proposal from the arguments of a call.

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
SAME: Final = "same"

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


@dataclass(frozen=True, slots=True)
class CellEdit:
    """One operation of a proposal. `number` counts from 1.

    `key` is the name of an inserted cell in the proposal, such as `new:1`. `old` and `new` belong
    to a patch. `is_run` is True if the model wants the cell to run afterwards.
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
    given = arguments.get("edits")
    if not isinstance(given, list) or not given:
        raise ToolError("`edits` must be a list of 1 to 50 operations.")
    if len(given) > MAX_EDITS:
        raise ToolError(
            f"`edits` has {len(given)} operations. The limit is {MAX_EDITS}: propose fewer."
        )

    edits: list[CellEdit] = []
    inserted = 0
    size = 0

    for number, item in enumerate(given, 1):
        fields = _read_fields(number, item)
        key = ""
        if fields["op"] == "insert":
            inserted += 1
            key = f"new:{inserted}"
        edit = _make_edit(number, fields, key)
        size += _count_bytes(edit)
        edits.append(edit)

    if size > MAX_EDIT_BYTES:
        raise ToolError(
            f"The sources have {size:,} bytes. The limit is {MAX_EDIT_BYTES:,}: "
            "propose fewer or smaller edits, or use `patch`."
        )
    return tuple(edits)


def refuse(number: int, reason: str) -> ToolError:
    """Return the error about one edit of a proposal."""
    return ToolError(f"Edit {number}: {reason} No edit was applied, and the user was not asked.")


def _read_fields(number: int, item: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(item, dict):
        raise refuse(number, 'it must be an object such as {"op": "insert", "source": "…"}.')

    fields: dict[str, JsonValue] = {}
    fields |= {name: value for name, value in item.items() if value is not None}
    kind = next((each for each in EDIT_KINDS if each == fields.get("op")), None)
    if kind is None:
        known = ", ".join(EDIT_KINDS)
        shown = one_line(repr(fields.get("op")), limit=60)
        raise refuse(number, f"`op` is {shown}. Use one of {known}.")

    required, optional = _FIELDS[kind]
    for name in _NAMES[1:]:
        if name in required and name not in fields:
            hint = ""
            if name in ("cell", "version"):
                hint = " Get ids and versions with notebook_cells()."
            raise refuse(number, f"`{kind}` needs `{name}`.{hint}")

    allowed = {"op", *required, *optional}
    unused = [name for name in fields if name not in allowed and not _is_blank(fields[name])]
    if unused:
        known = ", ".join(name for name in _NAMES if name in allowed)
        name = one_line(unused[0], limit=60)
        raise refuse(number, f"`{kind}` has no `{name}`. It has {known}.")
    return fields


def _is_blank(value: JsonValue) -> bool:
    # Models whose schema requires each field send "" or false for the fields of other operations.
    return value in ("", False)


def _make_edit(number: int, fields: Mapping[str, JsonValue], key: str) -> CellEdit:
    texts: dict[str, str] = {}
    for name in ("cell", "version", "after", "type", "source", "old", "new"):
        value = fields.get(name, "")
        if not isinstance(value, str):
            raise refuse(number, f"`{name}` must be a text.")
        texts[name] = value

    is_run = fields.get("run", False)
    if not isinstance(is_run, bool):
        raise refuse(number, "`run` must be true or false.")

    cell_kind = texts["type"] or "code"
    if cell_kind not in CELL_KINDS:
        raise refuse(number, f"`type` must be one of {', '.join(CELL_KINDS)}.")
    if is_run and key and cell_kind != "code":
        raise refuse(number, "only code cells can run.")

    kind = cast(EditKind, fields["op"])
    if kind == "patch" and not texts["old"]:
        raise refuse(number, "`old` is empty. Give a text that occurs exactly once.")
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
    for name in ("source", "new"):
        if any("\ud800" <= char <= "\udfff" for char in texts[name]):
            raise refuse(
                number,
                f"`{name}` has half a surrogate pair, which no file can contain. "
                "Write the character itself.",
            )


def _count_bytes(edit: CellEdit) -> int:
    texts = (edit.source, edit.old, edit.new)
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
