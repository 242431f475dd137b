"""Edits that a model proposes in a page, and the cells that the page then has."""

from __future__ import annotations

import hashlib
from typing import Any

import tomlkit

from tests.support.browser import Lab, NotebookPage
from tests.support.page_actions import MODEL

ASK = "%%jp -m scripted/edits -t cells\nTidy up."
FILL = f"""cells => {{
    const {{ sharedModel }} = {MODEL};
    cells.forEach(([id, source], index) => sharedModel.insertCell(index + 2, {{
        cell_type: "code", id, source, metadata: {{ trusted: true }}, execution_count: 7,
        outputs: [{{ output_type: "stream", name: "stdout", text: `output of ${{id}}` }}],
    }}));
    sharedModel.undoManager?.clear();
}}"""
CELLS = f"""() => Array.from({MODEL}.cells, cell => [
    cell.id, cell.sharedModel.getSource(), JSON.stringify(cell.sharedModel.toJSON().outputs ?? []),
])"""


def version(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def on(op: str, cell: str, present: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "cell": cell, "version": version(present), **more}


def write_script(lab: Lab, *edits: dict[str, Any]) -> None:
    """Write the script of a model that proposes `edits`."""
    arguments = {"edits": list(edits), "why": "It is untidy."}
    replies = [
        {"tool_calls": [{"name": "edit_cells", "arguments": arguments}]},
        {"text": "That is all."},
    ]
    script = tomlkit.dumps({"replies": replies})
    (lab.root / "edits.toml").write_text(script, encoding="utf-8")


def propose(lab: Lab, page: NotebookPage, *edits: dict[str, Any]) -> None:
    """Let the model propose `edits` of four cells, and wait for the review."""
    write_script(lab, *edits)
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.page.evaluate(FILL, [["a", "one"], ["b", "two"], ["c", "three"], ["d", "four"]])
    page.run_cell(1)
    page.form().get_by_text("It is untidy.").wait_for()


def cells(page: NotebookPage) -> list[list[str]]:
    """Return id, source, and outputs of the cells below the request."""
    found: list[list[str]] = page.page.evaluate(CELLS)
    return found[2:]


def result(page: NotebookPage) -> str:
    """Wait for the result that the model read."""
    page.wait_for_record("record.events.filter(e => e.type === 'tool_call_response').length === 1")
    events = page.page.evaluate(f"{MODEL}.getMetadata('jp').events")
    [found] = [event["content"] for event in events if event["type"] == "tool_call_response"]
    return str(found)
