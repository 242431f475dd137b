"""Command `jp-nb inbox`.

It opens JupyterLab with a generated notebook, whose cell calls `jp.inbox` (`inbox_in_cell.py`).
With `--text` it asks on the terminal, and with `--list` it prints the open decisions.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Final

import nbformat

from jp_nb.agent.prompting.prompt_ends import AnyEnd
from jp_nb.agent.prompting.prompts import AnyPrompt
from jp_nb.batch.inboxes.inbox import Inbox
from jp_nb.batch.inboxes.inbox_dialogue import InboxDialogue
from jp_nb.batch.inboxes.inbox_printing import print_inbox_lines, print_inbox_result
from jp_nb.batch.inboxes.inbox_text import format_inbox_heading, list_inbox_lines
from jp_nb.errors import UsageError
from jp_nb.headless.commands.lab import explain_no_display, open_in_lab

NOTEBOOK_NAME: Final = "inbox.ipynb"
_HEADING: Final = (
    "# Inbox\n\nRun the cell below (Shift+Enter). Each answer is written to `answers.toml` in the "
    "folder of the batch."
)


def run_inbox(options: argparse.Namespace) -> int:
    """Show the open decisions of a batch, and ask the user about them."""
    inbox = Inbox(options.folder)
    if options.list:
        print_inbox_lines(list_inbox_lines(inbox))
        return 0

    if options.text:
        return _ask_on_terminal(inbox)

    if not inbox.groups:
        print_inbox_lines([format_inbox_heading(inbox)])
        return 0
    if problem := explain_no_display():
        raise UsageError(f"{problem} Use `--text` to answer here, or `--list` to see what is open")
    return open_in_lab(write_inbox_notebook(options.folder))


def write_inbox_notebook(folder: Path) -> Path:
    """Write a notebook that asks about the batch in `folder` to a temporary folder."""
    path = os.path.abspath(folder)
    source = f"%load_ext jp_nb\nimport jp_nb as jp\n\njp.inbox({path!r})"

    notebook = nbformat.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    notebook.cells = [
        nbformat.v4.new_markdown_cell(_HEADING),
        nbformat.v4.new_code_cell(source),
    ]
    target = Path(tempfile.mkdtemp(prefix="jp-nb-inbox-")) / NOTEBOOK_NAME
    target.write_text(nbformat.writes(notebook), encoding="utf-8")
    return target


def _ask_on_terminal(inbox: Inbox) -> int:
    """Ask about the decisions line by line on the terminal."""
    from jp_nb.notebook.prompt.stdin_prompts.input_console import InputConsole
    from jp_nb.notebook.prompt.stdin_prompts.stdin import ask_on_stdin

    if not inbox.groups:
        print_inbox_lines([format_inbox_heading(inbox)])
        return 0

    console = InputConsole(None)  # without a kernel: the terminal of this process

    def ask(prompt: AnyPrompt) -> AnyEnd:
        print()
        return ask_on_stdin(prompt, console, "terminal")

    try:
        InboxDialogue(inbox, ask).run()
    finally:
        print_inbox_result(inbox)
    return 0
