"""Run `%jp mcp import`: add servers of other applications, after the user chose them.

Source: `docs/mcp.md`, Import what you have.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from jp_nb.errors import PromptCancelled, StorageError, UsageError
from jp_nb.exact_form import escape_invisible
from jp_nb.notebook.commands import Invocation
from jp_nb.rendering.report import Report, join_reports, make_note, make_table
from jp_nb.session.configuration.config_file_changes import write_config_file
from jp_nb.session.mcp_servers.mcp_import import (
    ImportChoice,
    ImportPlan,
    Target,
    find_servers,
    list_import_choices,
    plan_import,
)
from jp_nb.session.mcp_servers.mcp_import_rows import IMPORT_HEAD, list_import_rows
from jp_nb.storage.server_lists.mcp_files import ServerFiles
from jp_nb.text import MAX_LISTED_LINES, one_line
from jp_nb.toolkit.question import Question
from jp_nb.toolkit.question_types.select_options import Option

NO_SERVERS: Final = (
    "No MCP servers were found in the files of other applications. `%jp mcp import FILE` reads a "
    "file such as `.mcp.json`."
)
NONE_USABLE: Final = "None of these servers can be added."
NO_SERVER_CHOSEN: Final = "No server was chosen, and nothing was changed."
_PRIVATE: Final = 0o600
"""Mode of a file that only its owner can read and write."""


def import_servers(call: Invocation, words: Sequence[str]) -> None:
    """Show the servers of other applications, ask which to add, and write them."""
    if len(words) > 1:
        raise UsageError("`%jp mcp import` takes one file or folder, or none to search for files.")

    session = call.session
    session.active.refuse_while_running()
    place = words[0] if words else None
    found = find_servers(session.files, place)
    configured = session.config.providers.mcp
    choices = list_import_choices(found, configured)
    call.show(_make_report(call, found))

    if not choices:
        reason = NONE_USABLE if found.servers else NO_SERVERS
        print(f"jp_nb: {reason}")
        return

    plan, target = _ask_for_plan(call, choices)
    # The directives are changes of settings. With those of all other layers (`projection`), they
    # must give a valid configuration.
    notices = write_config_file(target, plan.directives, session.settings.projection, session.files)
    if plan.copies_keys:
        _make_private(session.files.workspace.find_config_file(target))

    session.notices += notices
    session.notices += session.files.notices.take()

    for line in _describe_result(plan, target):
        print(f"jp_nb: {line}")


def _make_report(call: Invocation, found: ServerFiles) -> Report:
    """Return the table of all servers that were found, and the problems of their files."""
    files = call.session.files
    short_paths = {file.path: files.workspace.shorten_paths(str(file.path)) for file in found.files}
    rows = []
    for row in list_import_rows(found, call.session.config.providers.mcp, short_paths):
        rows.append([escape_invisible(cell) for cell in row])

    parts: list[Report | str] = []
    if rows:  # the user has to see everything before a decision
        parts.append(make_table(IMPORT_HEAD, rows, limit=sys.maxsize))
    for problem in found.problems:
        parts.append(make_note(escape_invisible(files.workspace.shorten_paths(problem))))

    return join_reports(parts, between="\n\n")


def _ask_for_plan(call: Invocation, choices: Sequence[ImportChoice]) -> tuple[ImportPlan, Target]:
    """Ask which servers to add, to which file, and where their keys go.

    Raises:
        PromptCancelled: The user chose no server.
        UsageError: Keys would be copied into a file of the workspace.
    """
    by_label = {choice.label: choice for choice in choices}
    questions = _make_questions(choices)
    answers = call.session.turns.cell_questions.ask(questions, label="Import", tool=None)
    chosen = [by_label[label] for label in answers["servers"] or () if label in by_label]
    if not chosen:
        raise PromptCancelled(NO_SERVER_CHOSEN, end="declined")

    target: Target = "workspace" if answers["file"] == "workspace" else "user"
    copies = answers.get("keys") == "copy"
    if copies and target == "workspace":
        raise UsageError(
            "A file of the workspace gets no keys, because others read it. Nothing was changed. "
            "Choose environment variables, or your own configuration file."
        )

    keys_go_to: Literal["copy", "variables"] = "copy" if copies else "variables"
    return plan_import(chosen, target, keys_go_to), target


def _make_questions(choices: Sequence[ImportChoice]) -> list[Question]:
    """Return the questions `servers`, `file`, and, if a server has keys as text, `keys`."""
    labels = dict.fromkeys(choice.label for choice in choices)
    options = [Option(value=label, label=escape_invisible(label)) for label in labels]
    suggested = [choice.label for choice in choices if choice.is_suggested]
    places = [
        Option(value="user", label="your own configuration, for all notebooks"),
        Option(value="workspace", label="the workspace, for everyone who has the folder"),
    ]
    questions = [
        Question.select(
            "servers", "Which servers do you want to add?", options, multi=True
        ).with_default([*suggested]),
        Question.select("file", "Where?", places).with_default("user"),
    ]

    if any(choice.has_keys for choice in choices):
        key_places = [
            Option(value="variables", label="environment variables, which you set"),
            Option(value="copy", label="copy them into your own configuration file"),
        ]
        text = "Some entries contain keys as text. Where do the keys go?"
        questions.append(Question.select("keys", text, key_places).with_default("variables"))

    # Only the user may answer these questions, not a model.
    return [question.with_exclusive() for question in questions]


def _make_private(path: Path) -> None:
    """Let only the user read a file with keys."""
    try:
        os.chmod(path, _PRIVATE)
    except OSError as exc:
        raise StorageError(f"{path} contains keys, and cannot be made private: {exc}") from exc


def _describe_result(plan: ImportPlan, target: Target) -> list[str]:
    names = ", ".join(plan.names)
    lines = [
        one_line(f"Added to your {target} configuration file: {names}. Nothing was started."),
        f"Use them: `%%jp -t mcp.{plan.names[0]}`",
    ]
    if plan.variables:
        listed = ", ".join(plan.variables[:MAX_LISTED_LINES])
        lines.append(
            f"Set these environment variables before you use the servers: {listed}. For this "
            "kernel: `%env NAME=VALUE`"
        )

    return lines
