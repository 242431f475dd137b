"""Show a rule for calls like the current one until the user keeps it, or goes back.

The button "Always allow calls like this …" of a permission prompt leads here. Back leads to that
prompt, and a kept rule also permits the current call. The user can change the conditions of the
rule before: `RuleEditor` (`rule_editor.py`) has the form for them, and reads its answer.

Source: `docs/turns.md`, `docs/decisions.md` D230.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from jp_nb.agent.approvals.permission_rules import KeptRule, KeptRules, RuleScope
from jp_nb.agent.approvals.rule_editor import RuleEditor
from jp_nb.agent.approvals.rule_texts import format_rule_table
from jp_nb.agent.prompting.prompt_ends import Answered, FormEnd, NotAnswered, Unavailable, is_back
from jp_nb.agent.prompting.prompts import Action, ActionPrompt, PromptDetail
from jp_nb.agent.prompting.safe_ask import SafeAsk
from jp_nb.errors import StorageError
from jp_nb.exact_form import spell_invisible

RULE_PROMPT: Final = "Always allow these calls of `{}`?"
RULE_CAPTION: Final = "Rule: calls that meet all conditions run without a question"
KEEP_ACTIONS: Final[Mapping[RuleScope, Action]] = {
    "session": Action("s", "Run, and keep the rule for this session", "session"),
    "notebook": Action("k", "Run, and keep the rule in this notebook", "notebook"),
}
_CHANGE: Final = Action("c", "Change the conditions …", "change", is_separated=True)
_BACK: Final = Action("b", "Back", "back", is_separated=True)


class RulePrompts:
    """Shows a rule until the user keeps it or goes back."""

    def __init__(self, ask: SafeAsk, editor: RuleEditor, kept: KeptRules) -> None:
        self._ask = ask
        self._editor = editor
        self._kept = kept

    async def ask(self, rule: KeptRule) -> KeptRule | NotAnswered | Unavailable | None:
        """Return the kept rule, or the end of the prompt; None if the user went back."""
        problem = ""  # the reason why the rule could not be stored

        while True:
            end = await self._ask(self._make_prompt(rule, problem))
            if not isinstance(end, Answered):
                return None if is_back(end) else end

            problem = ""
            match end.value:
                case "session" | "notebook" as scope:
                    kept = replace(rule, scope=scope)
                    try:
                        self._kept.keep(kept)
                    except StorageError as exc:
                        problem = str(exc)
                    else:
                        return kept
                case "change":
                    changed = await self._ask_conditions(rule)
                    if not isinstance(changed, KeptRule):
                        return changed
                    rule = changed
                case _:  # the button Back
                    return None

    async def _ask_conditions(self, rule: KeptRule) -> KeptRule | NotAnswered | Unavailable:
        """Return `rule` with the conditions of the user, or as it is if the user went back."""
        end = await self._ask(self._editor.make_prompt())
        if not isinstance(end, FormEnd):
            return rule if is_back(end) else end

        [answered] = end.ends
        if isinstance(answered, Answered):
            return self._editor.change(rule, answered.value)
        return rule if is_back(answered) else answered

    def _make_prompt(self, rule: KeptRule, problem: str) -> ActionPrompt:
        details = [PromptDetail(RULE_CAPTION, format_rule_table(rule.tool, rule.rule), "toml")]
        if problem:
            details.append(PromptDetail("The rule was not kept", problem))

        actions = [KEEP_ACTIONS[scope] for scope in self._kept.scopes]
        if self._editor.can_change:
            actions.append(_CHANGE)
        actions.append(_BACK)

        return ActionPrompt(
            text=RULE_PROMPT.format(spell_invisible(rule.tool)),
            actions=tuple(actions),
            exhibits=tuple(details),
        )
