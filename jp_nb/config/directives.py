"""Options of one turn that change its configuration, such as `-c`, `-t`, and `-u`.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jp_nb.errors import UsageError

DirectiveKind = Literal["cfg", "no_cfg", "unset", "tool", "no_tool", "attach"]


@dataclass(frozen=True, slots=True)
class Directive:
    """One configuration change from an option."""

    kind: DirectiveKind
    """The options, and what they change:

    - `cfg`, for `-c`, sets values. `no_cfg`, for `-C`, undoes such a change.
    - `unset` removes a value, so that its default is used again.
    - `tool`, for `-t`, switches a tool on, and `no_tool`, for `-T`, off.
    - `attach`, for `-a`, adds an attachment.
    """
    text: str
    """For `cfg` and `no_cfg` an assignment, a JSON object, or the name of a configuration file. For
    `unset` a path, for tools a name or "" for all, for `attach` the attachment."""


def parse_tool_choice(*uses: str | bool | None) -> str | None:
    """Return the value of `assistant.tool_choice` for the options `-u` and `-U`.

    Args:
        uses: One value for each of the options: the name of the tool that the model has to call
            first (`-u NAME`), True for any tool (`-u`), or False for none (`-U`). None is an option
            that is not given.

    Returns:
        The value, or None without an option: the configured value is used.

    Raises:
        UsageError: More than one option is given, or a name is empty.
    """
    match [use for use in uses if use is not None]:
        case []:
            return None
        case [True]:
            return "required"
        case [False]:
            return "none"
        case [str(name)] if name.strip():
            return f"tool:{name}"
        case [str()]:
            raise UsageError("-u takes the name of a tool, or no name for any tool")
    raise UsageError("-u, -u NAME, and -U exclude each other: use one of them")
