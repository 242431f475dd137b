"""Rules about tool calls that the user kept for a notebook.

They are in a private file of the user's data folder, not in the record, which could come from
someone else. The file names a notebook by a digest of its path and its workspace: a copy, or a
notebook that moved, has no rules.

| field of a rule | meaning |
|---|---|
| `tool`, `identity` | the tool, and a digest of it: after a change of the tool, the rule is void |
| `when`, `only_these` | the conditions of the arguments (`argument_rules.py`) |
| `asked_by` | the configured rule because of which the user was asked; "" for the tool's setting |

Source: `docs/security.md`, `docs/decisions.md` D230.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.approvals.permission_rules import KeptRule
from jp_nb.config.argument_rules import check_conditions
from jp_nb.json_values import JsonObject, as_object
from jp_nb.storage.private_files import (
    lock_private_file,
    read_private_file,
    replace_private_file,
)
from jp_nb.storage.user_folders import get_data_folder

MAX_NOTEBOOKS: Final = 500
"""Maximum number of notebooks with rules."""
MAX_RULES: Final = 100
"""Maximum number of rules of a notebook."""
_LOCK_TIMEOUT_S: Final = 2.0

_Notebooks = dict[str, list[KeptRule]]
"""Rules by the digest of the notebook, the one that changed last at the end."""


def get_permission_rules_path() -> Path:
    """Return the path of the file. It may not exist."""
    return get_data_folder() / "permission-rules.json"


class NotebookRules:
    """The rules that the user kept for the notebook at `path`, in the workspace at `root`."""

    def __init__(self, path: Path, root: Path) -> None:
        identity = f"{root.resolve()}\0{path.resolve()}"
        digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass"))
        self._name = digest.hexdigest()[:32]

    def load(self) -> list[KeptRule]:
        """Return the rules, oldest first.

        Raises:
            StorageError: The file cannot be read.
        """
        return _load().get(self._name, [])

    def add(self, rule: KeptRule) -> None:
        """Keep `rule`. The oldest rules beyond the limit are forgotten.

        Raises:
            StorageError: The file cannot be read or written.
        """

        def change(notebooks: _Notebooks) -> None:
            # Out, and in again at the end: the order tells which notebook changed last.
            stored = notebooks.pop(self._name, [])
            others = [known for known in stored if known != rule]
            notebooks[self._name] = [*others, rule][-MAX_RULES:]

        _change_file(change)

    def remove(self, rule: KeptRule) -> None:
        """Forget `rule`.

        Raises:
            StorageError: The file cannot be read or written.
        """

        def change(notebooks: _Notebooks) -> None:
            stored = notebooks.pop(self._name, [])
            others = [known for known in stored if known != rule]
            if others:
                notebooks[self._name] = others

        _change_file(change)


def _change_file(change: Callable[[_Notebooks], None]) -> None:
    """Apply `change` to the rules of all notebooks, which other kernels change as well."""
    path = get_permission_rules_path()
    with lock_private_file(path, timeout_s=_LOCK_TIMEOUT_S):
        notebooks = _load()
        change(notebooks)
        replace_private_file(path, _encode(notebooks))


def _load() -> _Notebooks:
    """Return the rules of the file. Damaged parts are ignored, so they permit nothing."""
    content = read_private_file(get_permission_rules_path(), ignored="the rules that you kept are")
    notebooks: _Notebooks = {}

    for name, stored in as_object(content.get("notebooks")).items():
        items = stored if isinstance(stored, list) else []
        rules = [rule for rule in map(_parse_rule, items) if rule is not None]
        if rules:
            notebooks[name] = rules

    return notebooks


def _parse_rule(stored: object) -> KeptRule | None:
    """Return the stored rule; None if it is damaged so that its extent is unknown."""
    match stored:
        case {"tool": str(tool), "identity": str(identity), "when": dict(when), **rest}:
            try:
                conditions = check_conditions(when)
            except (ValueError, RecursionError):
                return None

            asked_by = rest.get("asked_by", "")
            if not isinstance(asked_by, str):
                return None

            # A damaged value gives the narrower rule.
            only_these = rest.get("only_these") is not False
            return KeptRule(
                tool, identity, conditions, "notebook", only_these=only_these, asked_by=asked_by
            )
    return None


def _encode(notebooks: Mapping[str, list[KeptRule]]) -> JsonObject:
    kept = list(notebooks.items())[-MAX_NOTEBOOKS:]
    stored: JsonObject = {name: [_to_json(rule) for rule in rules] for name, rules in kept}
    return {"version": 1, "notebooks": stored}


def _to_json(rule: KeptRule) -> dict[str, JsonValue]:
    return {
        "tool": rule.tool,
        "identity": rule.identity,
        "when": dict(rule.when),
        "only_these": rule.only_these,
        "asked_by": rule.asked_by,
    }
