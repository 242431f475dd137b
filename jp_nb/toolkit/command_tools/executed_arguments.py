"""Tell whether a command line executes values of a call: as a program, as code, or as a query.

The *words* of a command line are its program and the configured `args`. They are templates, which
may insert values of the model's call:

    sudo {{tool.arguments.command}}          the value is a program: executed
    python -c {{tool.arguments.code}}        the value is code: executed
    bash {{tool.arguments.script}}           the value is a script: executed
    bash build.sh {{tool.arguments.target}}  the script receives the value: not executed

A permission "for this turn" covers only calls with the same values if they are executed, and
otherwise all calls of the tool. In doubt, a value counts as executed.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import re
from typing import Final

from jp_nb.config.tree.command_settings import Command

_CALL_VALUE: Final = re.compile(r"\{[{%].*(?:arguments|\btool\b(?!\s*[.\[]))", re.DOTALL)
"""A template that inserts arguments of the call, or the complete `tool` object."""
_RUNNERS: Final = frozenset(
    (
        "sudo",
        "doas",
        "env",
        "xargs",
        "nice",
        "nohup",
        "timeout",
        "time",
        "exec",
        "eval",
        "ssh",
        "docker",
        "podman",
        "kubectl",
        "find",
        "parallel",
        "watch",
        "strace",
        "psql",
        "mysql",
        "mariadb",
        "sqlite",
        "duckdb",
        "sqlcmd",
        "mongosh",
        "mongo",
        "redis-cli",
        "clickhouse",
        "clickhouse-client",
        "bq",
        "snowsql",
    )
)
"""Programs that run a program or a query in any later word, such as `sudo` and `psql`."""
_CODE_OPTIONS: Final = frozenset(
    ("-c", "-e", "-r", "-p", "--eval", "--exec", "--command", "--print", "/c", "-command", "-ec")
)
"""Options of interpreters whose value is code."""
_INTERPRETERS: Final = frozenset(
    (
        "sh",
        "bash",
        "zsh",
        "dash",
        "ksh",
        "fish",
        "pwsh",
        "powershell",
        "cmd",
        "python",
        "py",
        "pypy",
        "ipython",
        "node",
        "deno",
        "bun",
        "perl",
        "ruby",
        "php",
        "lua",
        "julia",
        "r",
        "rscript",
        "osascript",
        "awk",
        "gawk",
        "sed",
        "jq",
        "make",
        "uv",
        "uvx",
        "npx",
        "bunx",
        "pipx",
    )
)
"""Programs that run their first word that is not an option."""
_SUBCOMMANDS: Final = {
    "uv": frozenset(("run", "tool")),
    "deno": frozenset(("run",)),
    "bun": frozenset(("run", "x")),
    "pipx": frozenset(("run",)),
}
"""Words of interpreters before the script: `uv run SCRIPT`, `uv tool run PROGRAM`."""


def executes_call_values(command: Command) -> bool:
    """Return True if `command` executes values of the model's call."""
    words = [command.program, *command.args]
    return any(
        _CALL_VALUE.search(word) and _is_executed(words, index) for index, word in enumerate(words)
    )


def _is_executed(words: list[str], index: int) -> bool:
    """Return True if the word at `index` is executed, judged by the words to the left of it.

    It is executed as the program itself, as a command or query of a runner such as `sudo`, as the
    code of an option such as `-c`, or as the script of an interpreter, its first word.
    """
    is_program = index == 0
    if is_program:
        return True

    earlier_words = words[:index]
    program, *earlier_names = [_find_program_name(word) for word in earlier_words]
    if _RUNNERS.intersection((program, *earlier_names)):
        return True
    if _CODE_OPTIONS.intersection(earlier_words):
        return True

    subcommands = _SUBCOMMANDS.get(program, frozenset())
    has_script = any(not name.startswith("-") and name not in subcommands for name in earlier_names)
    return program in _INTERPRETERS and not has_script


def _find_program_name(word: str) -> str:
    """Return `word` without folder and version: `/usr/bin/python3.12` is `python`."""
    name = word.rpartition("/")[2].rpartition("\\")[2].lower().removesuffix(".exe")
    return name.rstrip("0123456789.") or name
