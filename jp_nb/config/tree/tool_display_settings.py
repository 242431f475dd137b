"""Settings of the display of tool calls, in `conversation.tools.NAME.style`.

The readers accept short forms such as `true`, and the forms that JP writes, the program whose
configuration this one extends.

Source: `docs/configuration.md`, `docs/turns.md`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from jp_nb.config.tree.base import PLAIN_FORM, TABLE_FORM, TABLE_OR_PLAIN_FORM, ConfigTable, table
from jp_nb.config.tree.command_settings import Command
from jp_nb.config.tree.value_checks import Flag, before, read_number
from jp_nb.config.tree.value_errors import UnexpectedValueError


def _read_inline_results(value: Any) -> Any:
    """Return `off`, `full`, or a number of lines. No lines are `off`."""
    if isinstance(value, bool):
        return "full" if value else "off"
    if value in ("off", "full"):
        return value
    # JP writes a number of lines as `{"truncate": {"lines": 10}}`.
    if isinstance(value, dict) and value.keys() == {"truncate"}:
        value = value["truncate"]
        value = value.get("lines") if isinstance(value, dict) else value

    if (number := read_number(value)) is not None:
        return number or "off"
    raise UnexpectedValueError("off, full, true, false, or a number of lines", value)


InlineResults = Annotated[Literal["off", "full"] | int, before(_read_inline_results)]
_PARAMETER_STYLES = ("json", "function_call", "off")


def _read_parameters_style(value: Any) -> Any:
    """Return the name of a style, or the table of a command; `false` is `off`."""
    if value in _PARAMETER_STYLES or isinstance(value, (dict, Command)):
        return value
    if value is False:
        return "off"
    if isinstance(value, str) and value.strip():
        return Command.expand(value)
    raise UnexpectedValueError(
        f"{', '.join(_PARAMETER_STYLES)}, or a command that formats the arguments", value
    )


ParametersStyle = Annotated[
    Annotated[Literal["json", "function_call", "off"], PLAIN_FORM] | Annotated[Command, TABLE_FORM],
    TABLE_OR_PLAIN_FORM,
    before(_read_parameters_style),
]


class ErrorStyle(ConfigTable):
    """Display of failed results."""

    inline_results: InlineResults | None = None
    """As `style.inline_results`, for failed results."""


class ToolStyle(ConfigTable):
    """Display of a tool's calls. Unset settings are inherited from `*`."""

    hidden: Flag | None = None
    """`true` to hide the calls."""
    inline_results: InlineResults | None = None
    """Number of lines of a result in the cell, `full`, or `off`. Unset, the result is folded."""
    parameters: ParametersStyle | None = None
    """Display of the arguments: `json`, `function_call`, `off`, or a command that formats them.
    Unset, they are in the line of the call."""
    error: ErrorStyle = table()
