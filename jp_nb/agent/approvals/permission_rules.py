"""Rules that the user kept in a permission prompt, for calls that may run without a question.

They are kept for the session or in the notebook (`jp_nb/session/configuration/kept_rules.py`).
`call_rulings.py` applies them.

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
        identity: Digest of the tool's definition and of its server's entry.
        when: Conditions about the arguments; see `jp_nb/config/argument_rules.py`.
        scope: For how long it is kept.
        only_these: True if a call with arguments beyond those of `when` does not match.
        asked_by: The rule of the configuration that caused the prompt; "" if it was `run`.
    """

    tool: str
    identity: str
    when: Mapping[str, JsonValue]
    scope: RuleScope
    only_these: bool = True
    asked_by: str = ""

    @property
    def rule(self) -> ArgumentRule:
        """The rule as one of the configuration."""
        return ArgumentRule(when=dict(self.when), only_these=self.only_these, run="unattended")


class KeptRules(Protocol):
    """The rules that the user kept. Called on the agent's thread."""

    @property
    def scopes(self) -> tuple[RuleScope, ...]:
        """The scopes for which the user can keep a rule."""

    def list_for_tool(self, tool: str) -> Sequence[KeptRule]:
        """Return the rules about the tool of this name."""

    def keep(self, rule: KeptRule) -> None:
        """Keep `rule`.

        Raises:
            StorageError: It cannot be stored.
        """


@dataclass(slots=True)
class SessionRules:
    """Rules that are kept in memory, for as long as the kernel runs."""

    rules: list[KeptRule] = field(default_factory=list)
    scopes: tuple[RuleScope, ...] = ("session",)

    def list_for_tool(self, tool: str) -> Sequence[KeptRule]:
        """Return the rules about the tool of this name."""
        return [rule for rule in self.rules if rule.tool == tool]

    def keep(self, rule: KeptRule) -> None:
        """Keep `rule`, once."""
        if rule not in self.rules:
            self.rules.append(rule)
