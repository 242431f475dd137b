"""Rules about tool calls that the user kept in a notebook.

A record could come from someone else, so no record has them, but a private file of the user's data
folder. A notebook is found by the digest of its path and of its workspace: a copy, or a notebook
that moved, has no rules.

Source: `docs/security.md`, `docs/decisions.md` D230.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.approvals.permission_rules import KeptRule
from jp_nb.config.argument_rules import check_conditions
from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file
from jp_nb.storage.file_locks import hold_file_lock
from jp_nb.storage.files import ForeignFileError, read_owned_file
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
    """The rules that the user kept in the notebook at `path`, in the workspace with this `root`."""

    def __init__(self, path: Path, root: Path) -> None:
        place = f"{root.resolve()}\0{path.resolve()}"
        self._name = hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:32]

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
            kept = [each for each in notebooks.pop(self._name, []) if each != rule]
            notebooks[self._name] = [*kept, rule][-MAX_RULES:]

        _change(change)

    def remove(self, rule: KeptRule) -> None:
        """Forget `rule`.

        Raises:
            StorageError: The file cannot be read or written.
        """

        def change(notebooks: _Notebooks) -> None:
            kept = [each for each in notebooks.pop(self._name, []) if each != rule]
            if kept:
                notebooks[self._name] = kept

        _change(change)


def _change(change: Callable[[_Notebooks], None]) -> None:
    path = get_permission_rules_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with hold_file_lock(path.with_suffix(".lock"), timeout_s=_LOCK_TIMEOUT_S):
            notebooks = _load()
            change(notebooks)
            replace_file(path, _encode(notebooks), mode=0o600)
    except OSError as exc:
        raise StorageError(f"{path} cannot be written: {exc.strerror or exc}") from exc


def _load() -> _Notebooks:
    path = get_permission_rules_path()
    try:
        return _parse(read_owned_file(path))
    except (FileNotFoundError, NotADirectoryError):  # perhaps the user has no home folder
        return {}
    except ForeignFileError as exc:
        raise StorageError(f"the rules that you kept are ignored: {exc}") from exc
    except OSError as exc:
        raise StorageError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def _parse(data: bytes) -> _Notebooks:
    """Return the rules of the file. Damaged parts are ignored, so they permit nothing."""
    found: object = None
    with suppress(ValueError, RecursionError):
        found = json.loads(data)

    listed = found.get("notebooks") if isinstance(found, dict) else None
    notebooks: _Notebooks = {}
    for name, stored in (listed if isinstance(listed, dict) else {}).items():
        items = stored if isinstance(stored, list) else []
        rules = [rule for rule in map(_parse_rule, items) if rule is not None]
        if rules:
            notebooks[name] = rules

    return notebooks


def _parse_rule(stored: object) -> KeptRule | None:
    match stored:
        case {"tool": str(tool), "identity": str(identity), "when": dict(when), **rest}:
            asked_by = rest.get("asked_by", "")
            try:
                checked = check_conditions(when)
            except (ValueError, RecursionError):
                return None
            if not isinstance(asked_by, str):
                return None
            only_these = rest.get("only_these") is not False
            return KeptRule(
                tool, identity, checked, "notebook", only_these=only_these, asked_by=asked_by
            )
    return None


def _encode(notebooks: Mapping[str, list[KeptRule]]) -> bytes:
    kept = list(notebooks.items())[-MAX_NOTEBOOKS:]
    stored = {name: list(map(_to_json, rules)) for name, rules in kept}
    return json.dumps({"version": 1, "notebooks": stored}, indent=1).encode()


def _to_json(rule: KeptRule) -> dict[str, JsonValue]:
    return {
        "tool": rule.tool,
        "identity": rule.identity,
        "when": dict(rule.when),
        "only_these": rule.only_these,
        "asked_by": rule.asked_by,
    }
