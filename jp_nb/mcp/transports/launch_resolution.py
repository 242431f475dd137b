"""Resolve the settings of a server to the command that runs, or to the address.

References to variables are replaced here, when the server starts, and not before. This module adds
the configured variables to those that each program needs (`INHERITED_VARIABLES`,
`server_process.py`). A server gets no other variable of the kernel: no key of a provider, unless
the configuration names it.

Source: `docs/mcp.md`, Configure servers.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from jp_nb.config.secret_settings.references import Reference, expand_references
from jp_nb.config.secret_settings.server_risks import is_loading_variable
from jp_nb.config.secret_settings.server_secrets import hide_arguments
from jp_nb.config.secrets.secret_names import is_secret, is_secret_name
from jp_nb.config.setting_paths import format_path
from jp_nb.config.tree.server_settings import MCP_PATH, McpChecksum, McpServer
from jp_nb.errors import ConfigError
from jp_nb.file_reading import open_regular, read_regular
from jp_nb.mcp.transports.env_file import parse_env_line
from jp_nb.mcp.transports.launches import HttpLaunch, Launch, StdioLaunch
from jp_nb.mcp.transports.loopback import is_loopback

MAX_ENV_FILE_BYTES: Final = 1_000_000
MAX_PROGRAM_BYTES: Final = 2 * 1024**3
_CHUNK_BYTES: Final = 1024 * 1024


def read_env_file(path: Path) -> bytes:
    """Return the content of a file of variables."""
    return read_regular(path, max_bytes=MAX_ENV_FILE_BYTES)


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """The values that references name.

    Attributes:
        workspace: Folder of the workspace. Programs run there, and relative paths begin there.
        environ: Variables of the kernel.
        home: Folder of the user, for `${userHome}` and `~`.
        inputs: The user's answers for `${input:ID}`, by id.
        read_file: Reads the file of `env_file`.
    """

    workspace: Path
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    home: Path = field(default_factory=lambda: Path(os.path.expanduser("~")))
    inputs: Mapping[str, str] = field(default_factory=dict, repr=False)
    read_file: Callable[[Path], bytes] = read_env_file


def resolve_launch(name: str, server: McpServer, context: LaunchContext) -> Launch:
    """Return the command or the address of the server `name`, with all references replaced.

    It reads files: the one with variables, and the program if its digest is configured.

    Raises:
        ConfigError: A variable or input is not set, settings do not fit together, or the program is
            not found or has another digest. The error has the path of the setting.
    """
    return _Resolution(name, server, context).resolve()


class _Resolution:
    """The resolution of one server, with the secret values that it has used.

    The secrets grow while settings are resolved. The launch gets them, to hide them in messages.
    """

    def __init__(self, name: str, server: McpServer, context: LaunchContext) -> None:
        self._name = name
        self._server = server
        self._context = context
        self._secrets: set[str] = set()

    def resolve(self) -> Launch:
        server = self._server
        if server.command is not None and server.url is not None:
            raise self._make_error("a server has a `command` or a `url`: remove one of them", "url")
        if server.transport == "http":
            return self._resolve_http()
        return self._resolve_stdio()

    def _make_error(self, message: str, *keys: str) -> ConfigError:
        """Return an error about the setting of the server at `keys`, such as `env` and `TOKEN`."""
        return ConfigError(message, path=format_path((*MCP_PATH, self._name, *keys)))

    # --- programs --------------------------------------------------------------------------------

    def _resolve_stdio(self) -> StdioLaunch:
        """Return the command of a server on this computer."""
        server = self._server
        if server.command is None:
            hint = "set `command` to a program, or `url` to an address"
            raise self._make_error(f"the program of the server is missing: {hint}", "command")

        environment = self._resolve_environment()
        arguments = [
            self._expand(text, "arguments", str(number))
            for number, text in enumerate(server.arguments)
        ]

        folder = self._resolve_folder()
        command = self._find_program(self._expand(server.command, "command"), folder, environment)
        if server.checksum is not None:
            self._verify(command, server.checksum)

        # An argument that is not shown whole has a secret, such as `--token=KEY`, or the word after
        # `--token`.
        for text, shown in zip(arguments, hide_arguments(arguments), strict=True):
            if text != shown:
                self._secrets.add(_find_hidden_part(text, shown))

        return StdioLaunch(
            command,
            tuple(arguments),
            environment=environment,
            folder=folder,
            secrets=frozenset(self._secrets),
        )

    def _resolve_environment(self) -> dict[str, str]:
        """Return the configured variables: `env` before `env_file` before `variables`."""
        server = self._server
        environ = self._context.environ
        environment = {name: environ[name] for name in server.variables if name in environ}
        if server.env_file is not None:
            environment |= self._read_env_file(self._expand(server.env_file, "env_file"))
        for name, text in server.env.items():
            environment[name] = self._expand(text, "env", name)

        self._secrets |= {value for name, value in environment.items() if is_secret(name, value)}
        return environment

    def _read_env_file(self, text: str) -> dict[str, str]:
        """Return the variables in the file at the path `text`."""
        path = self._make_path(text)
        try:
            lines = self._context.read_file(path).decode("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError, ValueError) as exc:
            reason = getattr(exc, "strerror", None) or exc
            raise self._make_error(f"{path} cannot be read: {reason}", "env_file") from exc

        variables: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            parsed = parse_env_line(line)
            if parsed is None:
                problem = f"line {number} of {path} is not a line such as NAME=VALUE"
                raise self._make_error(problem, "env_file")
            variables[parsed.name] = parsed.value

        # The user consented to the settings of the server, not to the content of this file.
        for name in variables:
            if is_loading_variable(name) and name not in self._server.env:
                raise self._make_error(
                    f"{path} sets {name}, which changes the code that a program loads. Set it in "
                    "`env` of the server if this is intended",
                    "env_file",
                )
        return variables

    def _resolve_folder(self) -> Path:
        if self._server.cwd is None:
            return self._context.workspace

        folder = self._make_path(self._expand(self._server.cwd, "cwd"))
        if not folder.is_dir():
            raise self._make_error(f"the folder {folder} does not exist", "cwd")
        return folder

    def _find_program(self, command: str, folder: Path, environment: Mapping[str, str]) -> str:
        """Return the path of the program: one with a folder is a path, others are on the PATH."""
        if not command.strip():
            raise self._make_error("the program is empty after references were replaced", "command")

        path = environment.get("PATH", self._context.environ.get("PATH"))
        has_folder = os.path.dirname(command) or command.startswith("~")
        searched = command
        if has_folder:
            searched = str(self._make_path(command, folder))

        program = shutil.which(searched, path=path)
        if program is not None:
            # `which` may return a relative path, if the PATH has an empty or relative folder.
            return os.path.abspath(program)

        if has_folder and os.path.exists(searched):
            raise self._make_error(f"{searched} is not an executable program", "command")
        if len(command.split()) > 1 and not has_folder:
            hint = "`command` is only the program: put the other words into `arguments`"
            raise self._make_error(f"there is no program {command!r}. {hint}", "command")

        where = "" if has_folder else " on the PATH"
        problem = f"the program {command!r} was not found{where}. Install it, or give its path"
        raise self._make_error(problem, "command")

    def _verify(self, command: str, checksum: McpChecksum) -> None:
        """Check that the program is the one whose digest is configured."""
        if not checksum.is_complete:
            expected = f"the hexadecimal digits of a {checksum.algorithm} digest"
            raise self._make_error(f"expected {expected}", "checksum", "value")

        try:
            digest = _hash_file(Path(command), checksum.algorithm)
        except (OSError, ValueError) as exc:
            reason = getattr(exc, "strerror", None) or exc
            raise self._make_error(f"{command} cannot be read: {reason}", "checksum") from exc

        if not hmac.compare_digest(digest, checksum.value.lower()):
            raise self._make_error(
                f"{command} has the {checksum.algorithm} digest {digest}, not the configured one. "
                "It was changed or replaced, so it was not started. If you updated it, set "
                "`checksum.value` to the new digest",
                "checksum",
                "value",
            )

    # --- addresses -------------------------------------------------------------------------------

    def _resolve_http(self) -> HttpLaunch:
        """Return the address of a server on the network. All values of its headers are secrets."""
        server = self._server
        if server.url is None:
            raise self._make_error("the address of the server is missing: set `url`", "url")

        url = self._expand(server.url, "url").strip()
        self._check_address(url)
        headers = {
            name: self._expand(value, "headers", name) for name, value in server.headers.items()
        }

        for name, value in headers.items():
            if any(ord(sign) < 32 and sign != "\t" for sign in value):
                raise self._make_error("the value has control characters", "headers", name)

        self._secrets.update(headers.values())
        return HttpLaunch(url, headers, server.insecure, secrets=frozenset(self._secrets))

    def _check_address(self, url: str) -> None:
        """Check that `url` may be used. A password in it is a secret."""
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
            _ = parts.port  # raises for a port that is no number
        except ValueError as exc:
            raise self._make_error("expected an address such as https://host/mcp", "url") from exc

        if parts.scheme not in ("http", "https") or not host:
            raise self._make_error("expected an address such as https://host/mcp", "url")
        if parts.scheme == "http" and not is_loopback(host) and not self._server.insecure:
            raise self._make_error(
                f"plain HTTP to {host}: anyone on the way could read and change the messages. Use "
                "https, or set `insecure = true` for this server",
                "url",
            )

        if parts.password:
            self._secrets.add(parts.password)

    # --- references ------------------------------------------------------------------------------

    def _expand(self, text: str, *keys: str) -> str:
        """Return `text` with its references replaced; `keys` is the path of its setting."""

        def get_value(reference: Reference) -> str:
            match reference.kind:
                case "workspaceFolder":
                    return str(self._context.workspace)
                case "userHome":
                    return str(self._context.home)
                case "input":
                    return self._get_input(reference.name, keys)
                case "variable":
                    return self._get_variable(reference, keys)

        try:
            expanded = expand_references(text, get_value)
        except ValueError as exc:
            raise self._make_error(str(exc), *keys) from exc

        if "\0" in expanded:
            raise self._make_error("the value has a null character", *keys)
        return expanded

    def _get_input(self, name: str, keys: Sequence[str]) -> str:
        """Return the user's answer for `${input:NAME}` in the setting at `keys`, as a secret."""
        value = self._context.inputs.get(name)
        if value is None:
            raise self._make_error(
                f"the value of `${{input:{name}}}` is needed, and no user is available to give it. "
                "Use an environment variable such as `${TOKEN}` instead",
                *keys,
            )
        self._secrets.add(value)
        return value

    def _get_variable(self, reference: Reference, keys: Sequence[str]) -> str:
        """Return the value of `${NAME}` or `${NAME:-default}` in the setting at `keys`.

        It is a secret if the name of the variable or of the setting says so.
        """
        value = self._context.environ.get(reference.name)
        if reference.default is not None:
            value = value or reference.default  # also for an empty variable, as in a shell
        if value is None:
            raise self._make_error(
                f"the environment variable {reference.name} is not set. Set it before the kernel "
                f"starts, or give a default: `${{{reference.name}:-value}}`",
                *keys,
            )

        if is_secret_name(reference.name) or is_secret(keys[-1], value):
            self._secrets.add(value)
        return value

    def _make_path(self, text: str, folder: Path | None = None) -> Path:
        """Return a path: a relative one begins at `folder`, by default that of the workspace."""
        if text == "~" or text.startswith(("~/", "~\\")):
            return self._context.home / text[2:]
        return Path(os.path.normpath((folder or self._context.workspace) / text))


def _find_hidden_part(text: str, shown: str) -> str:
    """Return the part of `text` that `shown` replaces: `KEY` of `--token=KEY`."""
    begin = _count_equal(text, shown)
    hidden = text[begin:]
    replacement = shown[begin:]
    same_end = _count_equal(hidden[::-1], replacement[::-1])
    return hidden[: len(hidden) - same_end]


def _count_equal(first: str, second: str) -> int:
    """Return the number of characters with which both texts begin."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _hash_file(path: Path, algorithm: str) -> str:
    digest = hashlib.new(algorithm)
    with os.fdopen(open_regular(path), "rb") as file:
        size = 0
        while chunk := file.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > MAX_PROGRAM_BYTES:
                raise ValueError(f"it has more than {MAX_PROGRAM_BYTES:,} bytes")
            digest.update(chunk)
    return digest.hexdigest()
