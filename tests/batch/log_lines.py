"""Lines of the log of a batch, as plain data: its runs, and their open decisions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TIME = "2026-11-29T12:00:00Z"
BATCH: dict[str, Any] = {"type": "batch", "time": "2026-01-31", "pid": 4711, "host": "ada"}


def started(run: str, notebook: str = "walk.ipynb", **fields: Any) -> dict[str, Any]:
    """Return the line of the start of a run."""
    return {"type": "started", "run": run, "notebook": notebook, "time": "", **fields}


def ended(run: str, outcome: str = "passed", **fields: Any) -> dict[str, Any]:
    """Return the line of the end of a run."""
    return {"type": "ended", "run": run, "outcome": outcome, **fields}


def asked_question(tool: str, name: str, text: str, context: str = "", **more: Any) -> Any:
    """Return an open question of the log, asked in cell 3 and the first turn.

    `more` has further fields of the question, such as `answer_type`.
    """
    question = {"id": name, "text": text, "answer_type": {"type": "text"}, **more}
    if context:
        question["context"] = context
    return {"kind": "question", "tool": tool, "question": question, "asked": [asked_at()]}


def asked_permission(tool: str, *calls: Mapping[str, Any]) -> Any:
    """Return an open permission of the log for calls with these arguments."""
    asked = [asked_at(arguments=dict(call)) for call in calls]
    return {"kind": "permission", "tool": tool, "question": None, "asked": asked}


def asked_at(**more: Any) -> Any:
    """Return the place of an open decision, with the model's last words or other fields."""
    return {"cell": 2, "cell_id": "c", "turn": 0, "words": "I publish it.", **more}


def waiting_run(run: str, *decisions: Any, notebook: str = "walk.ipynb", **end: Any) -> list[Any]:
    """Return the lines of the log for a run that ended with open `decisions`."""
    return ended_run(run, "waiting", notebook=notebook, open_decisions=list(decisions), **end)


def ended_run(
    run: str,
    outcome: str = "passed",
    *,
    notebook: str = "walk.ipynb",
    parameters: Mapping[str, Any] | None = None,
    **end: Any,
) -> list[Any]:
    """Return the lines of the log for a run; `end` has further fields of its end."""
    started = {
        "type": "started",
        "run": run,
        "notebook": notebook,
        "parameters": dict(parameters or {}),
        "time": TIME,
    }
    ended = {
        "type": "ended",
        "run": run,
        "outcome": outcome,
        "notebook": f"{run}.ipynb",
        "time": TIME,
        **end,
    }
    return [started, ended]


def write_log(folder: Path, runs: Iterable[list[Any]]) -> Path:
    """Write `folder/runs.jsonl` with these runs, and return the folder."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)
    begin = {"type": "batch", "version": 1, "time": TIME, "pid": 1, "host": "ada"}
    lines = [begin]
    for run in runs:
        lines += run
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "runs.jsonl").write_text(text, encoding="utf-8")
    return folder
