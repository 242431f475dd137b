"""Settings of the access of a tool: `conversation.tools.NAME.access`.

`jp_nb` enforces the rules for settings (`access_rules.py`). The tool receives the other rules and
has to follow them.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from jp_nb.config.tree.base import ConfigTable
from jp_nb.config.tree.merge_rules import merge_by_keys
from jp_nb.config.tree.value_checks import Flag, before, not_blank
from jp_nb.config.tree.value_errors import UnexpectedValueError

RulePath = Annotated[str, not_blank("a path")]


class FileRule(ConfigTable):
    """Access of a tool to a path of the workspace. `jp_nb` does not enforce the rule."""

    path: RulePath
    """Path of a file or folder."""
    external: Flag | None = None
    """Also allow links that lead outside of the workspace."""
    read: Flag | None = None
    """Allow the tool to read."""
    write: Flag | None = None
    """Allow the tool to create, update, and delete."""
    create: Flag | None = None
    """Allow the tool to create files."""
    update: Flag | None = None
    """Allow the tool to change files."""
    delete: Flag | None = None
    """Allow the tool to delete files."""
    execute: Flag | None = None
    """Allow the tool to execute files."""


class HostRule(ConfigTable):
    """Access of a tool to a host. `jp_nb` does not enforce the rule."""

    host: str
    """Name of the host."""
    scheme: str | None = None
    """URL scheme, such as `https`."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port number."""
    path_prefix: str | None = None
    """Beginning of the URL's path."""
    allow: Flag | None = None
    """Allow or refuse the access."""


class VariableRule(ConfigTable):
    """Access of a tool to an environment variable. `jp_nb` does not enforce the rule."""

    name: str
    """Name of the variable."""
    read: Flag | None = None
    """Allow the tool to read the variable."""


def _check_write(value: Any) -> Any:
    if isinstance(value, bool) or value == "insecure_allow":
        return value
    raise UnexpectedValueError("true, false, or insecure_allow", value)


class ConfigRule(ConfigTable):
    """Permission for a tool to read settings and to propose changes to them.

    Example:
        >>> ConfigRule("assistant.model", read=True, write=True).apply
        'ask'

    Attributes:
        path: The setting. The rule includes all settings below it. `*` matches any key of a map.
        read: Show the values to the tool, in `ToolContext.config`.
        write: Allow the tool to propose values. `insecure_allow` also allows changes to
            `conversation.tools.*.access`, with which a tool can extend its own permissions.
        delete: Allow the tool to propose that a setting is unset.
        apply: `ask` the user to approve each proposal, or apply it `unattended`. Changes of
            commands, hosts, keys, and files outside of the workspace always need the user's
            approval.

    Raises:
        ConfigError: When the tool is registered, if `*` is not the key of a map, or if the rule
            grants a setting that no tool may change.
    """

    path: RulePath
    read: Flag = False
    write: Annotated[bool | Literal["insecure_allow"], before(_check_write)] = False
    delete: Flag = False
    apply: Literal["ask", "unattended"] = "ask"

    def __init__(self, path: str | None = None, /, **fields: Any) -> None:
        named = {} if path is None else {"path": path}
        super().__init__(**named, **fields)


class Access(ConfigTable):
    """Access rules of a tool."""

    fs: Annotated[list[FileRule], merge_by_keys("path")] = Field(default_factory=list)
    """Rules for files, which the tool has to follow. Without a rule, all are allowed."""
    net: Annotated[list[HostRule], merge_by_keys("host")] = Field(default_factory=list)
    """Rules for hosts, which the tool has to follow. Without a rule, all are allowed."""
    env: Annotated[list[VariableRule], merge_by_keys("name")] = Field(default_factory=list)
    """Rules for environment variables, which the tool has to follow. Without a rule, all are
    allowed."""
    config: Annotated[list[ConfigRule], merge_by_keys("path")] = Field(default_factory=list)
    """Rules for settings, which `jp_nb` enforces. Without a rule, none is allowed."""
