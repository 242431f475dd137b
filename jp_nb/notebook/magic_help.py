"""The texts of `%jp?` and `%%jp?`, from the tables in `ask_options.py` and `subcommands.py`.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Final

from jp_nb.notebook.ask_options import ASK_OPTIONS
from jp_nb.notebook.magic_options import MagicOption
from jp_nb.notebook.subcommands import SUBCOMMANDS

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "First steps": ("models", "log", "undo", "new", "doctor"),
    "Asking": ("q", "retry", "why", "fix", "resume", "code", "revert"),
    "Conversations": (
        "switch", "fork", "compact", "drop", "save", "qna", "usage", "timeline", "request",
        "export", "import",
    ),
    "Tools and configuration": (
        "tools", "call", "replay", "mcp", "config", "trust", "cassette",
    ),
}  # fmt: skip
"""Names of all subcommands, by the titles of their groups in the help."""

ASK_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Model and configuration": ("-m", "-c", "-C"),
    "Tools": ("-t", "-T", "-u", "-U"),
    "Data": ("-a", "-s", "-o"),
    "Conversation": ("-n", "-k", "--plan", "--strict"),
    "Rows": ("--each", "--cache"),
}
"""First flags of all options of `%%jp`, by the titles of their groups in the help."""
_HELP_COLUMNS: Final = 100


def list_groups() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the title and the help rows of each group."""
    groups = []
    for title, names in GROUPS.items():
        rows: list[tuple[str, str]] = []
        for name in names:
            rows += SUBCOMMANDS[name].rows
        groups.append((title, rows))

    return groups


def format_ask_help() -> str:
    """Return the text of `%%jp?`."""
    options = {option.flags[0]: option for option in ASK_OPTIONS}
    width = max(len(option.spellings) for option in ASK_OPTIONS)
    parts = ["Send the text below `%%jp [options]` to the model.", "%%jp [options]\nTEXT"]

    for title, flags in ASK_GROUPS.items():
        rows = [_format_option(options[flag], width) for flag in flags]
        parts.append("\n".join([f"{title}:", *rows]))

    parts.append("In the text, `{{name}}` is replaced by the value of that variable.")
    parts.append("`%jp?` lists the other commands.")
    return "\n\n".join(parts)


def _format_option(option: MagicOption, width: int) -> str:
    return textwrap.fill(
        option.help,
        _HELP_COLUMNS,
        initial_indent=f"  {option.spellings:<{width}}  ",
        subsequent_indent=" " * (width + 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


def format_subcommands_help() -> str:
    """Return the text of `%jp?`."""
    lists = "`%jp` without arguments lists the subcommands; `%jp SUBCOMMAND?` describes one."
    asks = "Write a request below `%%jp`; `%%jp?` lists its options."
    return "\n\n".join([lists, _format_groups(), asks])


def _format_groups() -> str:
    groups = list_groups()
    width = 0
    for _, rows in groups:
        width = max(width, *(len(f"%jp {syntax}") for syntax, _ in rows))

    parts = []
    for title, rows in groups:
        lines = [f"  {f'%jp {syntax}':<{width}}  {text}" for syntax, text in rows]
        parts.append("\n".join([f"{title}:", *lines]))

    return "\n\n".join(parts)
