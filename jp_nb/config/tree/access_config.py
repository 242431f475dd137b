"""Access of a tool to files, hosts, variables, and the configuration itself.

Rules of files, hosts and variables are told to the tool, which keeps to them; rules of the
configuration are enforced here.

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
    """Access to a path of the workspace. `write` means create, update and delete."""

    path: RulePath
    external: Flag | None = None
    read: Flag | None = None
    write: Flag | None = None
    create: Flag | None = None
    update: Flag | None = None
    delete: Flag | None = None
    execute: Flag | None = None


class HostRule(ConfigTable):
    """The right to reach a host."""

    host: str
    scheme: str | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    path_prefix: str | None = None
    allow: Flag | None = None


class VariableRule(ConfigTable):
    """The right to read an environment variable."""

    name: str
    read: Flag | None = None


def _write(value: Any) -> Any:
    if isinstance(value, bool) or value == "insecure_allow":
        return value
    raise ValueError(f"expected true, false or insecure_allow, {found(value)}")


Apply = Literal["ask", "unattended"]


class ConfigRule(ConfigTable):
    """Rights to read settings below a path, and to propose changes of them.

    In Python the path needs no name:

    >>> ConfigRule("assistant.model", read=True, write=True).apply
    'ask'

    Attributes:
        path: What it is about, with all below it; `*` stands for any key of a map.
        read: Let the tool see the values, in `ToolContext.config`.
        write: Let it propose values. `insecure_allow` is for rules that reach
            `conversation.tools.*.access`, with which a tool grants itself more.
        delete: Let it propose to unset paths.
        apply: `ask` a person about each proposal, or `unattended`; what reaches out (commands,
            hosts, keys, files outside the folder) needs a person in any case.

    Raises:
        ConfigError: Where the tool is registered, if `*` stands where there is no map, or the rule
            grants what no tool may have.
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
    """Access rules by type. An empty `config` grants nothing; other empty lists grant all."""

    fs: Annotated[list[FileRule], keyed("path")] = Field([])
    net: Annotated[list[HostRule], keyed("host")] = Field([])
    env: Annotated[list[VariableRule], keyed("name")] = Field([])
    config: Annotated[list[ConfigRule], keyed("path")] = Field([])
