"""Replies about the messy notebook of tutorial 10, in place of a model that edits cells."""

from __future__ import annotations

import re
from typing import Any, Final

from tests.support.loopback import Received, Reply, ToolCall

WHY: Final = "The imports are scattered, a name says nothing, and a cell does nothing."
VERSION_OF_CELL: Final = re.compile(r"id ([\w-]+), version ([0-9a-f]{12})")


def reply_to_cleaning(request: Received) -> Reply:
    """Return the next step: read the cells, propose edits, then say what has changed."""
    messages: list[dict[str, Any]] = request.body["messages"]
    results = [str(each["content"]) for each in messages if each["role"] == "tool"]

    if not results:
        return Reply(tool_calls=(ToolCall("notebook_cells", {}),))

    if len(results) == 1:
        versions = dict(VERSION_OF_CELL.findall(results[0]))
        edits = {"why": WHY, "edits": _propose_edits(versions)}
        return Reply(text="I propose five edits.", tool_calls=(ToolCall("edit_cells", edits),))

    if not results[1].startswith("Applied"):
        return Reply(text="The notebook is as before: the edits need your decision.")
    if "rejected" in results[1]:
        return Reply(text="The notebook is tidy. The cell that you want to keep is still there.")
    return Reply(text="The notebook is tidy.")


def _propose_edits(versions: dict[str, str]) -> list[dict[str, Any]]:
    """Return the edits of the cells whose `versions` by id are those that the model has read."""
    imports = "import csv\nimport io\nfrom statistics import mean"
    heading = "## Visitors\n\nOne row for each day."

    def edit(op: str, cell: str, **fields: str) -> dict[str, Any]:
        return {"op": op, "cell": cell, "version": versions[cell], **fields}

    return [
        {"op": "insert", "after": "load", "source": imports},
        {"op": "insert", "after": "load", "type": "markdown", "source": heading},
        edit("patch", "read", old="import csv, io\n", new=""),
        edit(
            "replace",
            "mean",
            source="average = mean(int(row['visitors']) for row in rows)\nprint(average)",
        ),
        edit("delete", "old"),
    ]
