"""Batches without kernels: runs with open decisions, their groups, answers, and reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jp_nb.batch import (
    batch_report,
    inbox,
    inbox_answers,
    inbox_command,
    inbox_dialogue,
    open_decisions,
    run_log,
)
from jp_nb.storage.answers_file import EnvironmentVariable, parse_answers

TIME = "2026-11-29T12:00:00Z"


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
    (folder / run_log.LOG_NAME).write_text(text, encoding="utf-8")
    return folder


def read_runs(folder: Path) -> Any:
    """Return the states of the runs in the log of `folder`."""
    return run_log.read_run_log(folder / run_log.LOG_NAME).runs


def group_runs(runs: Any) -> Any:
    """Return the open decisions of these states of runs, grouped."""
    return open_decisions.group_open_decisions(runs)


def group_decisions(folder: Path) -> Any:
    """Return the open decisions of the log in `folder`, grouped."""
    return group_runs(read_runs(folder))


def open_answers(folder: Path, groups: Iterable[Any]) -> Any:
    """Return the answers of the inbox in `folder`."""
    return inbox_answers.InboxAnswers(folder / inbox_answers.ANSWERS_NAME, list(groups))


def find_unused(source: str, used: Mapping[str, Any]) -> list[Any]:
    """Return the identities of answers in the text of a file that no run used."""
    found = inbox_answers.find_unused(parse_answers(source, "answers.toml"), used)
    return [answer.identity for answer in found]


def an_answer(value: Any = None, *, skip: bool = False, env: str = "") -> Any:
    """Return an answer of the user; `env` is the name of a variable."""
    if env:
        value = EnvironmentVariable(env)
    return inbox_answers.InboxAnswer(value, skip)


def write_reports(folder: Path) -> str:
    """Write the reports of the log in `folder`, and return the page."""
    batch_report.write_reports(folder, run_log.read_run_log(folder / run_log.LOG_NAME))
    return (folder / batch_report.HTML_NAME).read_text(encoding="utf-8")


def format_junit(folder: Path, *, strict: bool = False) -> str:
    """Return the JUnit XML of the log in `folder`."""
    return batch_report.format_batch_junit(read_runs(folder), strict=strict).decode()


def open_inbox(folder: Path) -> Any:
    """Return the inbox of the batch in `folder`."""
    return inbox.Inbox(folder)


def ask_about(folder: Path, ask: Any) -> None:
    """Ask about the open decisions in `folder`; `ask` ends each prompt."""
    inbox_dialogue.InboxDialogue(open_inbox(folder), ask).run()


def write_inbox_notebook(folder: Path) -> Path:
    """Write the notebook that `jp-nb inbox` opens, and return its path."""
    return inbox_command.write_inbox_notebook(folder)
