"""Reasons why an MCP server did not start, or ended, in words for the user.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

from jp_nb.mcp.transports.launches import StdioLaunch


def explain_failed_spawn(launch: StdioLaunch, exc: Exception) -> str:
    """Return the reason why the process of `launch` did not start, without secrets."""
    folder = launch.folder
    if folder is not None and not folder.is_dir():
        return f"its folder {folder} does not exist"
    if isinstance(exc, FileNotFoundError):
        return f"the program {launch.hide(launch.command)} was not found"
    return launch.hide(str(exc)) or type(exc).__name__


def describe_exit(return_code: int | None) -> str:
    """Return the reason for the end of a process; None stands for one that still runs."""
    if return_code is None:
        return "it closed its stdout"
    if return_code >= 0:
        return f"its process ended with exit code {return_code}"
    return f"its process was ended by signal {-return_code}"


def describe_large_message(max_bytes: int) -> str:
    """Return the reason for the end of a server whose message was too large."""
    return f"it sent a message of more than {max_bytes:,} bytes (max_response_bytes)"


def describe_long_greeting(max_bytes: int) -> str:
    """Return the reason for the end of a server that wrote other text instead of messages."""
    return f"it wrote more than {max_bytes:,} bytes to stdout that are no messages"
