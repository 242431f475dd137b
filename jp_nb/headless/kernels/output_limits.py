"""Limit the output of each cell of an unattended run, which no user would stop.

The client of the kernel (`kernel_client.py`) has an `OutputLimit`, and asks it before it adds an
output to a cell. It knows cells by their index, which changes when cells are added or deleted.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from nbformat.v4 import new_output

V = TypeVar("V")


class OutputLimit:
    """The limit of the output of each cell of one notebook.

    The first output beyond `max_chars` is cut, with a note below it. Further ones are dropped,
    except for errors. None is no limit. `warnings` gets a line about each cell that is cut.
    """

    def __init__(self, max_chars: int | None, warnings: list[str]) -> None:
        self._max_chars = max_chars
        self._warnings = warnings
        self._sizes: dict[int, int] = {}  # characters of output, by the index of the cell

    def clear(self, cell_index: int) -> None:
        """Start to count from 0, because the outputs of a cell were cleared."""
        self._sizes.pop(cell_index, None)

    def move_cells(self, moved: Mapping[int, int | None]) -> None:
        """Note the new index of each cell by its old one; None for a deleted cell."""
        self._sizes = move_keys(self._sizes, moved)

    def admit(self, outs: list[Any], msg: Any, cell_index: int) -> bool:
        """Return True if the whole output of the message `msg` may be added to a cell.

        Otherwise, the part that still fits is added here to `outs`, the outputs of the cell.
        """
        limit = self._max_chars
        if limit is None:
            return True

        content = msg["content"]
        earlier_size = self._sizes.get(cell_index, 0)
        size = earlier_size + _count_chars(content)
        self._sizes[cell_index] = size

        is_error = msg["msg_type"] == "error"
        if size <= limit or is_error:
            return True

        is_noted = earlier_size > limit  # an earlier output was dropped
        if is_noted:
            return False

        if msg["msg_type"] == "stream":
            text = content["text"][: limit - earlier_size]
            outs.append(new_output("stream", name=content["name"], text=text))

        note = f"cell {cell_index + 1} has more than {limit:,} characters of output"
        self._warnings.append(f"{note}: the rest was dropped")
        outs.append(new_output("stream", name="stderr", text=f"\n[jp-nb: {note}]\n"))
        return False


def move_keys(values: Mapping[int, V], moved: Mapping[int, int | None]) -> dict[int, V]:
    """Return `values` with the new index of each cell, without those of deleted cells."""
    kept: dict[int, V] = {}
    for old, value in values.items():
        index = moved.get(old)
        if index is not None:
            kept[index] = value
    return kept


def _count_chars(content: Any) -> int:
    """Return the number of characters of an output: the text of a stream, or all data."""
    text = content.get("text")
    if isinstance(text, str):
        return len(text)

    count = 0
    for value in content.get("data", {}).values():
        shown = value if isinstance(value, str) else json.dumps(value)
        count += len(shown)
    return count
