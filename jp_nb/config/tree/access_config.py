"""Access of a tool to files, hosts, environment variables, and settings.

`jp_nb` enforces the rules for settings. The tool receives the other rules and has to follow them.

Source: `docs/configuration.md`, `docs/turns.md`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from jp_nb.config.tree.node import ConfigTable, Flag, before, found, word
from jp_nb.config.tree.strategy import keyed


def _a_path(value: str) -> str:
    if not value.strip():
        raise ValueError("expected a path, found nothing")
    return value


RulePath = Annotated[str, AfterValidator(_a_path)]


class FileRule(ConfigTable):
    """Access of a tool to a path of the workspace. `jp_nb` does not enforce the rule.

    Attributes:
        path: Path of a file or folder.
        external: Also allow links that lead outside of the workspace.
        read: Allow the tool to read.
        write: Allow the tool to create, update, and delete.
        create: Allow the tool to create files.
        update: Allow the tool to change files.
        delete: Allow the tool to delete files.
        execute: Allow the tool to execute files.
    """

    path: RulePath
    external: Flag | None = None
    read: Flag | None = None
    write: Flag | None = None
    create: Flag | None = None
    update: Flag | None = None
    delete: Flag | None = None
    execute: Flag | None = None


class HostRule(ConfigTable):
    """Access of a tool to a host. `jp_nb` does not enforce the rule.

    Attributes:
        host: Name of the host.
        scheme: URL scheme, such as `https`.
        port: Port number.
        path_prefix: Beginning of the URL's path.
        allow: Allow or refuse the access.
    """

    host: str
    scheme: str | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    path_prefix: str | None = None
    allow: Flag | None = None


class VariableRule(ConfigTable):
    """Access of a tool to an environment variable. `jp_nb` does not enforce the rule.

    Attributes:
        name: Name of the variable.
        read: Allow the tool to read the variable.
    """

    name: str
    read: Flag | None = None


def _write(value: Any) -> Any:
    if isinstance(value, bool) or value == "insecure_allow":
        return value
    raise ValueError(f"expected true, false or insecure_allow, {found(value)}")


Apply = Literal["ask", "unattended"]


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
    write: Annotated[bool | Literal["insecure_allow"], before(_write)] = False
    delete: Flag = False
    apply: Annotated[Apply, word(Apply)] = "ask"

    def __init__(self, path: str | None = None, /, **fields: Any) -> None:
        named = {} if path is None else {"path": path}
        super().__init__(**named, **fields)


class Access(ConfigTable):
    """Access rules of a tool.

    Attributes:
        fs: Rules for files, which the tool has to follow. Without a rule, all are allowed.
        net: Rules for hosts, which the tool has to follow. Without a rule, all are allowed.
        env: Rules for environment variables, which the tool has to follow. Without a rule, all are
            allowed.
        config: Rules for settings, which `jp_nb` enforces. Without a rule, none is allowed.
    """

    fs: Annotated[list[FileRule], keyed("path")] = Field([])
    net: Annotated[list[HostRule], keyed("host")] = Field([])
    env: Annotated[list[VariableRule], keyed("name")] = Field([])
    config: Annotated[list[ConfigRule], keyed("path")] = Field([])
