"""Rules of `access.config` and the rights that they grant."""

from __future__ import annotations

import jp_nb as jp
from jp_nb.config.access_rules import Grants
from jp_nb.config.setting_paths import parse_path
from tests.kit.settings import Settings

RULES = "conversation.tools.x.access.config"


def grants(*rules: jp.ConfigRule) -> Grants:
    return Grants(rules)


def format_rights(found: Grants, path: str) -> str:
    """Return the initials of the rights at `path`: r(ead), w(rite), d(elete)."""
    keys = parse_path(path)
    can = {"r": found.may_read(keys), "w": found.may_write(keys), "d": found.may_unset(keys)}
    return "".join(letter for letter, yes in can.items() if yes)


def format_sensitive_problem(path: str) -> str:
    """Return the problem of a rule that grants `write = true` to a sensitive path."""
    return (
        f"tool 'X' grants write = true to path '{path}' which is a sensitive path. "
        'Use write = "insecure_allow" to explicitly acknowledge this grant.'
    )


def list_problems(*rules: jp.ConfigRule, tool: str = "X") -> list[tuple[str, str]]:
    """Return path and message of each problem of a file with the `rules` of `tool`."""
    own = [dict(rule) for rule in rules]
    try:
        Settings.read({"conversation": {"tools": {tool: {"access": {"config": own}}}}})
    except jp.ConfigError as exc:
        return [(problem.path, problem.message) for problem in exc.problems]
    return []
