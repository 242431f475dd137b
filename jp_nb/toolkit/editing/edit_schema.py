"""JSON schema of the arguments of `edit_cells`, and the kinds of edits and cells.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

from pydantic import JsonValue

from jp_nb.toolkit.arguments.parameters import argument

CellKind = Literal["code", "markdown", "raw"]
CELL_KINDS: Final[Sequence[CellKind]] = ("code", "markdown", "raw")

EditKind = Literal["insert", "replace", "patch", "delete", "move", "run"]
EDIT_KINDS: Final[tuple[EditKind, ...]] = get_args(EditKind)

EDITS_SCHEMA: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "edits": {
            "type": "array",
            "description": "1 to 50 operations, applied in order.",
            "items": {
                "type": "object",
                "properties": {
                    "op": argument("string", "The operation.", enum=[*EDIT_KINDS]),
                    "cell": argument(
                        "string", 'Cell id. "new:1" is the first cell that this call inserts.'
                    ),
                    "version": argument(
                        "string", '`version` of the cell as you read it. "same" for a later edit.'
                    ),
                    "after": argument(
                        "string", 'Cell id, "start", "end", or "this" (the running cell, default).'
                    ),
                    "type": argument("string", "Of a new cell. Default: code.", enum=[*CELL_KINDS]),
                    "source": argument("string", "The whole new source."),
                    "old": argument("string", "Text that occurs exactly once in the source."),
                    "new": argument("string", "Its replacement."),
                    "run": argument("boolean", "Run the code cell afterwards."),
                },
                "required": ["op"],
                "additionalProperties": False,
            },
        },
        "why": argument("string", "The reason, one sentence for the user."),
    },
    "required": ["edits", "why"],
    "additionalProperties": False,
}
"""JSON schema of the arguments of `edit_cells`."""
