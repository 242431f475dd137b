"""Rules that the user kept in a permission prompt, for calls that may run without a question.

A turn reads and keeps them through the protocol `KeptRules`. In a notebook this is
`jp_nb/session/configuration/kept_rules.py`, which has the rules of the session and of the notebook.
`call_rulings.py` applies them: only to the same tool (`KeptRule.identity`), and only to a prompt
with the same cause as the one in which the user kept the rule (`KeptRule.asked_by`).

Source: `docs/turns.md`, `docs/configuration.md`, `docs/decisions.md` D230.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from pydantic import JsonValue

from jp_nb.config.tree.tool_settings import ArgumentRule

RuleScope = Literal["session", "notebook"]
SCOPE_WORDS: Final[Mapping[RuleScope, str]] = {
    "session": "for this session",
    "notebook": "in this notebook",
}


@dataclass(frozen=True, slots=True)
class KeptRule:
    """A rule that the user kept: calls of `tool` that match it run without a question.

    Attributes:
        tool: Name of the tool.
        identity: Digest of the tool's definition and of its server's entry. If they change, the
            user has to be asked again.
        when: Conditions about the arguments; see `jp_nb/config/argument_rules.py`.
        scope: Where it is kept: until the kernel ends, or in a file of the user for the notebook.
        only_these: True if a call with arguments beyond those of `when` does not match.
        asked_by: The rule of the configuration that caused the prompt, as text; "" if the cause was
            the tool's setting `run`.
    """

    tool: str
    identity: str
    when: Mapping[str, JsonValue]
    scope: RuleScope
    only_these: bool = True
    asked_by: str = ""

    @property
    def rule(self) -> ArgumentRule:
        """The rule in the form of the configuration, to compare with calls and to display."""
        return ArgumentRule(when=dict(self.when), only_these=self.only_these, run="unattended")


class KeptRules(Protocol):
    """The rules that the user kept. Called on the agent's thread."""

    @property
    def scopes(self) -> tuple[RuleScope, ...]:
        """The scopes for which the user can keep a rule."""

    def list_for_tool(self, tool: str) -> Sequence[KeptRule]:
        """Return the rules about the tool of this name, also if their `identity` is outdated."""

    def keep(self, rule: KeptRule) -> None:
        """Keep `rule` for its scope.

        Raises:
            StorageError: It cannot be stored.
        """


@dataclass(slots=True)
class SessionRules:
    """`KeptRules` in memory, for turns without a notebook.

    Without `scopes`, the user can keep no rule. This is the default of a turn (`TurnContext`).
    """

    rules: list[KeptRule] = field(default_factory=list)
    scopes: tuple[RuleScope, ...] = ("session",)

    def list_for_tool(self, tool: str) -> Sequence[KeptRule]:
        """Return the rules about the tool of this name."""
        return [rule for rule in self.rules if rule.tool == tool]

    def keep(self, rule: KeptRule) -> None:
        """Keep `rule`, once."""
        if rule not in self.rules:
            self.rules.append(rule)
