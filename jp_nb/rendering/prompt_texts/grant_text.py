"""The access of a tool in words, such as `config style: read; files data/: read, write`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from jp_nb.config.access_rule_checks import Approval, find_approval, matches_nothing
from jp_nb.config.tree.access_settings import Access, ConfigRule, FileRule, HostRule, VariableRule

_Rule = ConfigRule | FileRule | HostRule | VariableRule


def format_grants(access: Access | None) -> str:
    """Return the rules of a tool's access in one line; `-` without any."""
    if access is None:
        return "-"

    rules: list[_Rule] = [*access.config, *access.fs, *access.net, *access.env]
    return "; ".join(map(_format_rule, rules)) or "-"


def _format_rule(rule: _Rule) -> str:
    """Return one rule in words. A rule may also deny something (`no write`)."""
    match rule:
        case ConfigRule():
            return f"config {rule.path}: {_format_config_verbs(rule)}"
        case FileRule():
            verbs = ("read", "write", "create", "update", "delete", "execute")
            granted = [verb for verb in verbs if getattr(rule, verb)]
            denied = [f"no {verb}" for verb in verbs if getattr(rule, verb) is False]
            outside = ["links that lead outside"] if rule.external else []
            words = ", ".join([*granted, *denied, *outside]) or "nothing"
            return f"files {rule.path}: {words}"
        case HostRule():
            scheme = f"{rule.scheme}://" if rule.scheme else ""
            port = f":{rule.port}" if rule.port else ""
            place = f"{scheme}{rule.host}{port}{rule.path_prefix or ''}"
            allowed = "yes" if rule.allow else "no"
            return f"host {place}: {allowed}"
        case VariableRule():
            access = "read" if rule.read else "no"
            return f"variable {rule.name}: {access}"
        case _:
            assert_never(rule)


# Words for the question to the user before a change is applied.
_ASKS: Mapping[Approval, str] = {
    "always": "asks",
    "never": "does not ask",
    "sometimes": "asks about settings with authority",
}


def _format_config_verbs(rule: ConfigRule) -> str:
    """Return what the tool may do with settings: `read, write and unset (asks)`."""
    if matches_nothing(rule):
        return "matches no setting"

    verbs = ["read"] if rule.read else []

    changes = []
    if rule.write == "insecure_allow":
        changes.append("write, including grants")
    elif rule.write is True:
        changes.append("write")
    if rule.delete:
        changes.append("unset")
    if changes:
        changed = " and ".join(changes)
        verbs.append(f"{changed} ({_ASKS[find_approval(rule)]})")

    return ", ".join(verbs) or "nothing"
