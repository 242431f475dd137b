"""Settings of MCP servers: `providers.mcp.NAME`, `providers.mcp_files`, and `style.mcp_startup`.

The keys of JP have its names. Texts keep their references to variables, such as `${TOKEN}`, until
the server starts (`references.py`). Settings that do not fit together, such as `command`
and `url`, are an error of this server when it starts, so that the other servers stay usable.

Source: `docs/mcp.md`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from jp_nb.config.tree.base import ConfigTable
from jp_nb.config.tree.merge_rules import APPEND_MERGE
from jp_nb.config.tree.value_checks import Count, Flag, Positive, before, not_blank
from jp_nb.config.tree.value_errors import UnexpectedValueError, shorten_for_error

MCP_PATH: Final = ("providers", "mcp")
"""Keys of the table of servers."""
MAX_SERVER_NAME_CHARS: Final = 32
_SERVER_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_SERVER_NAME_CHARS}}}")
_VARIABLE_NAME: Final = re.compile(r"[^\s=\0]{1,200}")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_INPUT_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_DIGITS: Final = {"sha256": 64, "sha1": 40}
"""Number of hexadecimal digits of a digest."""
_STREAMABLE: Final = ("http", "streamable-http", "streamable_http", "streamablehttp")


def is_server_name(name: str) -> bool:
    """Return True if `name` can be the name of an MCP server in the configuration."""
    return _SERVER_NAME.fullmatch(name) is not None


def _check_server_name(name: str) -> str:
    if is_server_name(name):
        return name
    raise UnexpectedValueError(
        f"at most {MAX_SERVER_NAME_CHARS} letters, digits, `-`, and `_`",
        cause=f"{shorten_for_error(name)!r} cannot be the name of an MCP server",
    )


McpServerName = Annotated[str, AfterValidator(_check_server_name)]


def read_transport(value: Any) -> Any:
    """Return `stdio` or `http` for a `type` in any spelling that other applications use.

    Raises:
        ValueError: It is another transport.
    """
    word = value.strip().lower() if isinstance(value, str) else value
    if word in _STREAMABLE:
        return "http"
    if word == "stdio":
        return "stdio"
    if word == "sse":
        raise UnexpectedValueError(
            "stdio or http", cause="the transport `sse` is outdated and not supported"
        )
    raise UnexpectedValueError("stdio or http", value)


def _check_variable_name(name: str) -> str:
    if _VARIABLE_NAME.fullmatch(name):
        return name
    cause = f"{shorten_for_error(name)!r} is not the name of an environment variable"
    raise UnexpectedValueError("a name without spaces and `=`", cause=cause)


def _check_header_name(name: str) -> str:
    if _HEADER_NAME.fullmatch(name):
        return name
    cause = f"{shorten_for_error(name)!r} is not the name of a header"
    raise UnexpectedValueError("letters, digits, and `-`", cause=cause)


def _check_input_id(name: str) -> str:
    if _INPUT_ID.fullmatch(name):
        return name
    cause = f"{shorten_for_error(name)!r} is not the id of an input"
    raise UnexpectedValueError("letters, digits, `-`, `_`, and `.`", cause=cause)


def _check_text(value: str) -> str:
    # No system passes such a text to a program.
    if "\0" in value:
        raise ValueError("expected a text without null characters")
    return value


def _check_header(value: str) -> str:
    if any(ord(sign) < 32 and sign != "\t" for sign in value):
        raise ValueError("expected one line without control characters")
    return value


ServerText = Annotated[str, AfterValidator(_check_text)]
VariableName = Annotated[str, AfterValidator(_check_variable_name)]
HeaderName = Annotated[str, AfterValidator(_check_header_name)]
HeaderValue = Annotated[str, AfterValidator(_check_header)]


class McpChecksum(ConfigTable):
    """Digest of the program of an MCP server."""

    algorithm: Literal["sha256", "sha1"] = "sha256"
    """Function that made the digest."""
    value: str
    """The digest, in hexadecimal digits."""

    @property
    def is_complete(self) -> bool:
        """True if `value` has the length of a digest of the algorithm, in hexadecimal digits."""
        return re.fullmatch(rf"[0-9a-fA-F]{{{_DIGITS[self.algorithm]}}}", self.value) is not None


class McpServer(ConfigTable):
    """An MCP server: a program, or the address of a remote server."""

    type: Annotated[Literal["stdio", "http"], before(read_transport)] | None = None
    """`stdio` for a program, `http` for streamable HTTP. Unset, it depends on `command` and
    `url`."""
    command: Annotated[str, not_blank("a program"), AfterValidator(_check_text)] | None = None
    """The program."""
    arguments: Annotated[list[ServerText], APPEND_MERGE] = Field(default_factory=list)
    """Its arguments."""
    variables: Annotated[list[VariableName], APPEND_MERGE] = Field(default_factory=list)
    """Names of environment variables that the program gets."""
    env: dict[VariableName, ServerText] = Field(default_factory=dict)
    """Further environment variables of the program, by name, such as `"${TOKEN}"`."""
    env_file: str | None = None
    """File with lines `NAME=VALUE`: further environment variables of the program."""
    cwd: str | None = None
    """Folder in which the program runs. Unset, it is the folder of the workspace."""
    checksum: McpChecksum | None = None
    """Digest of the file of the program, which is checked before each start."""
    url: str | None = None
    """Address of a remote server."""
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)
    """Headers of each request to a remote server, such as `"Bearer ${TOKEN}"`."""
    insecure: Flag = False
    """`true` to allow `http:` to another computer. Anyone on the way can read and change it."""
    optional: Flag = False
    """`true` to continue without the server's tools if it does not start."""
    startup_timeout_secs: Count = 60
    """Seconds to start and list the tools. 0 means no limit."""
    call_timeout_secs: Count = 300
    """Seconds of a call without progress. The time of questions does not count. 0 means no
    limit."""
    max_response_bytes: Positive = 16 * 1024 * 1024
    """Maximum size of one message of the server, in bytes."""
    repeat_lost_calls: Flag = False
    """`true` to send a call again, once, if its answer was lost and the server says that a
    repetition changes nothing (`idempotentHint`)."""
    trust_read_only_hint: Flag = False
    """`true` to believe the server that its tools with `readOnlyHint` change nothing: they also run
    before the user has approved the plan of a turn. A folder cannot set it."""
    instructions: Flag = False
    """`true` to send the server's instructions to the model."""
    inputs: dict[Annotated[str, AfterValidator(_check_input_id)], str] = Field(default_factory=dict)
    """Labels of the inputs that `${input:ID}` asks for, by id."""

    @property
    def transport(self) -> Literal["stdio", "http"]:
        """The transport: `type`, or what `command` and `url` imply."""
        if self.type is not None:
            return self.type
        return "http" if self.url is not None and self.command is None else "stdio"


class McpStartup(ConfigTable):
    """Line that shows the start of MCP servers."""

    show: Flag = True
    """`false` to hide the line."""
    delay_secs: Count = 4
    """Seconds until the line appears."""
    interval_ms: Positive = 100
    """Interval between its updates, in milliseconds."""
