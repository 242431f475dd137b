"""The permission rules that the user kept for the session and for the notebook.

In a prompt for permission, the user can keep the decision as a rule about later calls of the tool
(`agent/approvals/permission_rules.py`). The rules of the notebook apply only while its record is
trusted, so that a notebook of someone else at the same path gets no permission, not even for a
conversation that begins in it.

Source: `docs/turns.md`, `docs/decisions.md` D230.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from jp_nb.agent.approvals.permission_rules import KeptRule, RuleScope
from jp_nb.errors import StorageError, UsageError
from jp_nb.record.documents.record_trust import Trust
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.configuration.permission_rules_file import NotebookRules


class RulesOwner(Protocol):
    """The part of the active conversation on which the rules depend."""

    @property
    def files(self) -> ConfigFiles:
        """The configuration files of the notebook."""

    @property
    def trust(self) -> Trust:
        """The signature of the conversation."""

    @property
    def opened_untrusted(self) -> bool:
        """True if the notebook had an untrusted record when this kernel opened it."""

    @property
    def notebook_path(self) -> Path | None:
        """The notebook's file, if it is known."""

    @property
    def notices(self) -> list[str]:
        """Messages for the user."""

    @property
    def session_rules(self) -> list[KeptRule]:
        """The rules that the user kept for this session."""


class PermissionRules:
    """The rules for one turn, or for one command of the user. Created on the cell's thread.

    It implements `KeptRules` (`agent/approvals/permission_rules.py`), with which a turn reads and
    keeps rules.

    Rules of the *session* are kept until the kernel ends, rules of the *notebook* in a file of the
    user. Without a known, trusted notebook, there are only those of the session.
    """

    def __init__(self, active: RulesOwner) -> None:
        self._session = active.session_rules
        self._file: NotebookRules | None = None
        self._stored: list[KeptRule] = []  # the rules in the file

        path = active.notebook_path
        is_own = active.trust.trusted and not active.opened_untrusted
        if path is None or not is_own:
            return

        self._file = NotebookRules(path, active.files.root)
        try:
            self._stored = self._file.load()
        except StorageError as exc:
            active.notices.append(str(exc))

    @property
    def scopes(self) -> tuple[RuleScope, ...]:
        """The scopes for which the user can keep a rule."""
        return ("session",) if self._file is None else ("session", "notebook")

    def list_for_tool(self, tool: str) -> Sequence[KeptRule]:
        """Return the rules about the tool of this name."""
        return [rule for rule in (*self._session, *self._stored) if rule.tool == tool]

    def keep(self, rule: KeptRule) -> None:
        """Keep `rule`, once.

        Raises:
            StorageError: It cannot be stored, or the file cannot be read.
        """
        if rule.scope == "session":
            if rule not in self._session:
                self._session.append(rule)
            return

        assert self._file is not None  # only `scopes` are offered
        self._file.add(rule)
        # The file keeps a rule once, and forgets the oldest ones.
        self._stored = self._file.load()

    def remove(self, tool: str, number: int) -> KeptRule:
        """Forget and return the rule about `tool` with this number, counted from 1.

        Raises:
            UsageError: There is no such rule.
            StorageError: The change cannot be stored.
        """
        rules = self.list_for_tool(tool)
        if not 0 < number <= len(rules):
            raise UsageError(
                f"there is no kept rule {number} about {tool}. `%jp tools {tool}` lists the rules"
            )

        rule = rules[number - 1]
        if rule.scope == "session":
            self._session.remove(rule)
            return rule

        assert self._file is not None  # the rule is from there
        self._file.remove(rule)
        self._stored = self._file.load()
        return rule
