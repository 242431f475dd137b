"""Resolve MCP servers when they start, with the user's answers for `${input:ID}`.

Source: `docs/mcp.md`, Configure servers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from jp_nb.config.tree.server_settings import McpServer
from jp_nb.mcp.transports.launch_resolution import (
    MAX_ENV_FILE_BYTES,
    LaunchContext,
    resolve_launch,
)
from jp_nb.mcp.transports.launches import HttpLaunch, Launch
from jp_nb.mcp.transports.server_references import (
    find_inputs,
    find_unset_listed_variables,
    has_inputs_in_place,
)
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.files import ForeignFileError, read_owned_file
from jp_nb.storage.server_lists.mcp_credentials import StoredCredentials

AskInputs = Callable[[str, Mapping[str, str]], Awaitable[Mapping[str, str]]]
"""Ask the user for secret inputs of a server: its name, and the label of each input by id."""


class ServerLaunches:
    """Resolves the MCP servers of one session, on the agent's event loop.

    Args:
        ask: Asks the user for inputs. Without it, no user is available.
    """

    def __init__(self, files: ConfigFiles, ask: AskInputs | None = None) -> None:
        self._files = files
        self._ask = ask
        # The user's answers, by the name and the settings of a server.
        self._inputs: dict[tuple[str, str], Mapping[str, str]] = {}

    async def resolve(self, name: str, server: McpServer) -> Launch:
        """Return the command or address of the server, in the environment of the kernel.

        The user is asked once for the inputs of a server, until its settings change.

        Raises:
            ConfigError: The server cannot start. The error has the path of the setting.
        """
        inputs = await self._get_inputs(name, server)
        for variable in find_unset_listed_variables(server, os.environ):
            self._files.notices.add(
                f"MCP server {name}: the environment variable {variable} of its setting "
                "`variables` is not set, so it starts without it"
            )

        context = LaunchContext(self._files.root, inputs=inputs, read_file=_read_own_file)
        # In a worker thread, because it may read a large program to verify its digest.
        launch = await asyncio.to_thread(resolve_launch, name, server, context)
        if isinstance(launch, HttpLaunch):
            return replace(launch, credentials=StoredCredentials(launch.url))
        return launch

    def preview(self, name: str, server: McpServer) -> Launch | None:
        """Return the command or address of the server, for `%jp mcp`. It asks the user nothing.

        Inputs have their labels as values. None: the path of the program, or the address, depends
        on inputs, so it is not known yet.

        Raises:
            ConfigError: The server cannot start. The error has the path of the setting.
        """
        if has_inputs_in_place(server):
            return None

        labels = find_inputs(server)
        context = LaunchContext(self._files.root, inputs=labels, read_file=_read_own_file)
        return resolve_launch(name, server, context)

    async def _get_inputs(self, name: str, server: McpServer) -> Mapping[str, str]:
        """Return the user's answers for the inputs of a server; ask for them the first time."""
        needed = find_inputs(server)
        if not needed or self._ask is None:  # `resolve_launch` reports a missing answer
            return {}

        # A changed entry could send an answer somewhere else, so it asks again.
        key = (name, server.model_dump_json())
        if key not in self._inputs:
            self._inputs[key] = await self._ask(name, needed)
        return self._inputs[key]


def _read_own_file(path: Path) -> bytes:
    """Read a file of environment variables (`env_file`), which must belong to the user.

    Raises:
        ValueError: It is too long, or belongs to someone else, as `LaunchContext` expects.
        OSError: It cannot be read.
    """
    try:
        return read_owned_file(path, max_bytes=MAX_ENV_FILE_BYTES)
    except ForeignFileError as exc:
        raise ValueError(str(exc)) from exc
