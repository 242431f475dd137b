"""Complete one word as a model, a file, a tool, a setting, or another kind of name.

`OFFERED` has a function for each kind (`Offer`). It gets the word up to the cursor, and the names
of the session. `setting_completions.py` completes paths of settings, and `setting_values.py` the
values in assignments to them.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from jp_nb.notebook.completion.completion_names import Names
from jp_nb.notebook.completion.setting_completions import complete_setting_path
from jp_nb.notebook.completion.setting_values import complete_assignment, offer_models
from jp_nb.notebook.completion.tab_completions import (
    TabCompletions,
    combine_completions,
    match_prefix,
)
from jp_nb.notebook.magic_options import Offer


def _complete_setting(text: str, names: Names) -> TabCompletions:
    """Complete a path of a setting, or an assignment to one."""
    if "=" in text:
        return complete_assignment(text, names)
    return complete_setting_path(text, names)


def _complete_change(text: str, names: Names) -> TabCompletions:
    """Complete an assignment, or the name of a configuration file to apply."""
    if "=" in text:
        return complete_assignment(text, names)

    path = complete_setting_path(text, names)
    return combine_completions(path, _complete_config_file(text, names))


def _complete_config_file(text: str, names: Names) -> TabCompletions:
    """Complete the name of a configuration file, or the path of one, as after `@` or `./`."""
    if not text.startswith(("@", ".", "/", "~")):
        return _complete_file(text, names.list_config_files, suffixes=("",))

    path = text.removeprefix("@")
    completions = _complete_file(path, names.list_entries, suffixes=(".toml", ".json"))
    return replace(completions, start=completions.start + len(text) - len(path))


def _complete_attachment(text: str, names: Names) -> TabCompletions:
    found = complete_path(text, names)
    variables = [name for name in names.variables if text and not name.startswith("_")]
    return combine_completions(found, match_prefix(text, sorted(variables)))


def complete_path(text: str, names: Names) -> TabCompletions:
    """Return the files and folders that complete the path `text`; folders end with `/`."""
    return _complete_file(text, names.list_entries, suffixes=("",))


def _complete_file(
    text: str, entries: Callable[[str], Sequence[str]], *, suffixes: tuple[str, ...]
) -> TabCompletions:
    """Complete a path with the `entries` of its folder that are folders or have a suffix.

    All files have the suffix "", and none has one of ().
    """
    start = text.rfind("/") + 1
    names = [name for name in entries(text[:start]) if name.endswith(("/", *suffixes))]
    if not text.startswith(".", start):
        names = [name for name in names if not name.startswith(".")]
    return match_prefix(text, sorted(names), start)


def _complete_tool(text: str, names: Names) -> TabCompletions:
    """Complete the name of a tool, or of a toolset with the number of its tools."""
    sizes = names.toolsets
    notes = {name: f"{size} tools" for name, size in sizes.items()}
    notes |= {name: "1 tool" for name, size in sizes.items() if size == 1}
    return replace(match_prefix(text, [*names.tools, *sizes]), notes=notes)


OFFERED: Final[Mapping[Offer, Callable[[str, Names], TabCompletions]]] = {
    "path": complete_setting_path,
    "setting": _complete_setting,
    "change": _complete_change,
    "model": lambda text, names: match_prefix(text, offer_models(text, names)),
    "provider": lambda text, names: match_prefix(text, names.providers),
    "server": lambda text, names: match_prefix(text, names.mcp_servers),
    "tool": lambda text, names: match_prefix(text, names.tools),
    "tool or toolset": _complete_tool,
    "conversation": lambda text, names: match_prefix(
        text, (name for name, is_damaged in names.conversations.items() if not is_damaged)
    ),
    "stored conversation": lambda text, names: match_prefix(text, names.conversations),
    "answer": lambda text, names: match_prefix(text, names.answers),
    "turn": lambda text, names: match_prefix(text, map(str, range(names.turn_count, 0, -1))),
    "folder": lambda text, names: _complete_file(text, names.list_entries, suffixes=()),
    "file": complete_path,
    "attachment": _complete_attachment,
    "schema": lambda text, names: match_prefix(text, sorted(names.schemas)),
    "rows": lambda text, names: match_prefix(text, sorted(names.rows)),
}
"""The function that completes each kind of text."""
