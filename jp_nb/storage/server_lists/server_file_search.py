"""Find the files in which other applications list MCP servers.

Source: `docs/mcp.md`, Import what you have. Each application's own documentation of its file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

ServerScope = Literal["workspace", "user"]

_WORKSPACE_FILES: Final = (
    (".mcp.json", "project file"),
    (".vscode/mcp.json", "VS Code"),
    (".cursor/mcp.json", "Cursor"),
    (".github/mcp.json", "GitHub Copilot"),
    (".codex/config.toml", "Codex"),
    (".gemini/settings.json", "Gemini CLI"),
)
CLAUDE_FILE: Final = ".claude.json"
_HOME_FILES: Final = (
    (".cursor/mcp.json", "Cursor"),
    (".codeium/windsurf/mcp_config.json", "Windsurf"),
    (".copilot/mcp-config.json", "GitHub Copilot"),
    (".gemini/settings.json", "Gemini CLI"),
    (".jupyter/nbi/mcp.json", "Notebook Intelligence"),
)
_JUPYTER_FILES: Final = ("mcp_servers.json", "mcp_settings.json")


@dataclass(frozen=True, slots=True)
class ServerFile:
    """A file that may list servers.

    Attributes:
        application: Name of the application that reads it.
        scope: `workspace` if the file comes with the folder, `user` if it is the user's own.
    """

    path: Path
    application: str
    scope: ServerScope


def find_server_files(workspace: Path, *, home: Path | None = None) -> list[ServerFile]:
    """Return the existing files of known applications, by decreasing priority.

    Files of the workspace come before those of the user.
    """
    home = Path(os.path.expanduser("~")) if home is None else home

    candidates = [
        *(ServerFile(workspace / name, title, "workspace") for name, title in _WORKSPACE_FILES),
        ServerFile(home / CLAUDE_FILE, "Claude Code", "user"),
        *(ServerFile(path, title, "user") for path, title in _list_user_files(home)),
    ]

    found: dict[Path, ServerFile] = {}
    for candidate in candidates:
        with suppress(OSError):
            # A broken link counts: the user reads why it was not read.
            if candidate.path.is_file() or candidate.path.is_symlink():
                found.setdefault(candidate.path, candidate)

    return list(found.values())


def _list_user_files(home: Path) -> Iterator[tuple[Path, str]]:
    yield from ((home / name, title) for name, title in _HOME_FILES)
    codex = os.environ.get("CODEX_HOME")
    codex_folder = Path(codex) if codex else home / ".codex"
    yield codex_folder / "config.toml", "Codex"

    settings = _find_application_folder(home)
    yield settings / "Claude" / "claude_desktop_config.json", "Claude Desktop"
    yield settings / "Code" / "User" / "mcp.json", "VS Code"
    for folder in _list_jupyter_folders():
        for name in _JUPYTER_FILES:
            yield folder / name, "Jupyter"
    yield Path(sys.prefix, "share", "jupyter", "nbi", "mcp.json"), "Notebook Intelligence"


def _find_application_folder(home: Path) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")


def _list_jupyter_folders() -> list[Path]:
    try:
        from jupyter_core.paths import jupyter_config_path
    except ImportError:  # a runner without Jupyter
        return []
    return [Path(folder) for folder in jupyter_config_path()]
