"""Tell whether a command executes arguments of a call, as a program, code, or a query.

A permission "for this turn" then covers only the exact arguments, not all calls of the tool.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import re
from typing import Final

from jp_nb.config.tree.tool_settings import Command


def runs_arguments(command: Command) -> bool:
    """Return True if `command` executes arguments of a call, as a program, code, or a query.

    This applies to a template in the program, and in an argument of a program that runs its
    arguments. It does not apply to the arguments of an interpreter's script.
    """
    if _ARGUMENTS.search(command.program):
        return True

    words = [command.program, *command.args]
    names = [_find_program_name(word) for word in words]
    for index, word in enumerate(words[1:], 1):
        if not _ARGUMENTS.search(word):
            continue

        before = names[:index]
        if _RUNNERS.intersection(before) or _CODE_OPTIONS.intersection(words[:index]):
            return True
        scripts = [name for name in before[1:] if not name.startswith("-")]
        if before[0] in _INTERPRETERS and not scripts:
            return True
    return False


def _find_program_name(word: str) -> str:
    # Without folder and version: `/usr/bin/python3.12` is `python`.
    name = word.rpartition("/")[2].rpartition("\\")[2].lower().removesuffix(".exe")
    return name.rstrip("0123456789.") or name


_ARGUMENTS: Final = re.compile(r"\{[{%].*(?:arguments|\btool\b(?!\s*[.\[]))", re.DOTALL)
"""A template that contains arguments of the call, or the complete `tool` object."""
_CODE_OPTIONS: Final = frozenset(
    ("-c", "-e", "-r", "-p", "--eval", "--exec", "--command", "--print", "/c", "-command", "-ec")
)
"""Options of interpreters whose value is code."""
_INTERPRETERS: Final = frozenset(
    (
        *("sh", "bash", "zsh", "dash", "ksh", "fish", "pwsh", "powershell", "cmd", "python", "py"),
        *("pypy", "ipython", "node", "deno", "bun", "perl", "ruby", "php", "lua", "julia", "r"),
        *("rscript", "osascript", "awk", "gawk", "sed", "jq", "make", "uv", "npx", "pipx"),
    )
)
"""Programs that run their first argument."""
_RUNNERS: Final = frozenset(
    (
        *("sudo", "doas", "env", "xargs", "nice", "nohup", "timeout", "time", "exec", "eval"),
        *("ssh", "docker", "podman", "kubectl", "find", "parallel", "watch", "strace"),
        *("psql", "mysql", "mariadb", "sqlite", "duckdb", "sqlcmd", "mongosh", "mongo"),
        *("redis-cli", "clickhouse", "clickhouse-client", "bq", "snowsql"),
    )
)
"""Programs that run other programs or queries in any of their arguments."""
