"""Ask the user for the permission to run a tool call.

In the dialogue, the user can also edit the arguments, give a reason for a refusal, or keep a rule
for calls like this one. These are further prompts, from which the user can go back to the first
one. The call keeps the screen until the user has decided.

Before a prompt, earlier decisions are used: a rule that the user kept (it is a `Ruling`, as one of
the configuration), and a decision for the rest of the turn (`TurnMemory`: True, False, or None).

Source: `docs/turns.md`, `docs/decisions.md` D10, D52, D35.
"""

from __future__ import annotations

from dataclasses import dataclass

from jp_nb.agent.approvals.argument_editor import ArgumentEditor
from jp_nb.agent.approvals.call_draft import CallDraft
from jp_nb.agent.approvals.call_rulings import Ruling, find_kept_permission, may_keep_rule
from jp_nb.agent.approvals.permission_rules import SCOPE_WORDS, KeptRule
from jp_nb.agent.approvals.rule_editor import RuleEditor
from jp_nb.agent.approvals.rule_prompts import RulePrompts
from jp_nb.agent.approvals.rule_texts import describe_rule
from jp_nb.agent.calls.call import Call, CallEnded
from jp_nb.agent.calls.call_decisions import CallDecisions, describe_missing_decision
from jp_nb.agent.calls.screen_queue import ScreenQueue
from jp_nb.agent.display import Notice, Waits
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prompting.prompt_ends import (
    Answered,
    FormEnd,
    NotAnswered,
    PromptEnd,
    Unavailable,
    is_back,
)
from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.agent.prompting.safe_ask import SafeAsk
from jp_nb.agent.turn_state import TurnContext
from jp_nb.exact_form import escape_invisible, spell_invisible
from jp_nb.text import one_line
from jp_nb.toolkit.outcome import ToolFailure
from jp_nb.toolkit.question import Question
from jp_nb.toolkit.tool_context import ToolContext

RUN_EDITED_LABEL = "Run with these arguments"
USE_EDITED_LABEL = "Use these arguments …"
"""For a program: the user sees its new command line, and decides again."""

SKIPPED_BY_USER_TEXT = "Tool skipped by user."
SKIPPED_REMEMBERED_TEXT = "Tool skipped by user (remembered)."
SKIPPED_BY_RULE_TEXT = "Tool skipped by user: a rule does not allow this call ({})."
SKIPPED_WITH_REASON_TEXT = "Tool skipped by user: {}"

MAX_KEPT_RULE_CHARS = 300
"""Maximum length of a rule in a notice, or in the response to a skipped call."""


def format_skipped_call(ruling: Ruling) -> str:
    """Return the response to a call that the configuration skips."""
    if ruling.description is None:
        return SKIPPED_BY_USER_TEXT
    return SKIPPED_BY_RULE_TEXT.format(one_line(ruling.description, limit=MAX_KEPT_RULE_CHARS))


def _format_kept_rule(kept: KeptRule) -> str:
    shown = describe_rule(kept.when, only_these=kept.only_these)
    return one_line(escape_invisible(f"{kept.tool}: {shown}"), limit=MAX_KEPT_RULE_CHARS)


@dataclass(frozen=True, slots=True)
class _PermissionChoice:
    """The value of the button that the user pressed, and the call with the user's edits."""

    action: str
    draft: CallDraft


class PermissionRequests:
    """Asks the user for permission, call by call."""

    def __init__(self, turn: TurnContext, screen: ScreenQueue, decisions: CallDecisions) -> None:
        self._turn = turn
        self._screen = screen
        self._decisions = decisions

    def use_kept_rule(self, call: Call, tool: OfferedTool, ruling: Ruling, root: str) -> bool:
        """Return True if a rule that the user kept permits `call`, and note the rule.

        `ruling` is the permission by the configuration. `root` is the folder to which a rule about
        paths is relative. A decision in the answers file, or a refusal for the rest of the turn,
        has precedence.
        """
        if tool.executor.is_outdated:  # its server has announced that it changed
            return False

        arguments = call.state.arguments
        kept_ruling = find_kept_permission(self._turn.kept_rules, tool, arguments, root, ruling)
        if kept_ruling is None:
            return False
        # Unlike a permission, a refusal covers the whole tool. So it does not matter here if a rule
        # of the configuration asks (`asked_by`).
        if self._turn.memory.find_permission(tool, arguments) is False:
            return False
        if self._turn.prepared.find_decision("permission", tool.name, arguments) is not None:
            return False

        call.state.ruling = kept_ruling
        call.view.needs_redisplay = True
        return True

    async def request_run(
        self, call: Call, tool: OfferedTool, context: ToolContext, ruling: Ruling
    ) -> None:
        """Wait until the user permits `call`, and perhaps edits its arguments.

        There is no question if the user has decided about it together with another call.

        Raises:
            CallEnded: The user does not permit it.
        """
        self._turn.display(Waits(call.key, f"your permission to run {call.title}", person=True))
        draft = CallDraft(
            tool=tool,
            original_arguments=call.state.arguments,
            arguments=call.state.arguments,
            formatted=call.view.formatted,
            context=context,
            ruling=ruling,
        )
        # The user may keep no rule about a tool whose arguments are code.
        if may_keep_rule(tool) and self._turn.kept_rules.scopes:
            draft = draft.propose_rule()  # with the button "Always allow calls like this …"

        async with self._screen.take_screen() as ask:
            # The user may have decided about this call together with another one meanwhile.
            if self.use_kept_rule(call, tool, ruling, context.root):
                return
            remembered = self._turn.memory.find_permission(
                tool, call.state.arguments, ruling.asked_by
            )
            if remembered is False:
                raise CallEnded(SKIPPED_REMEMBERED_TEXT, skipped=True)
            if remembered:
                return
            choice = await self._ask_permission(ask, draft)

        self._apply_choice(call, choice.action, choice.draft)

    def _apply_choice(self, call: Call, action: str, draft: CallDraft) -> None:
        """Give `call` its edited arguments, or end it. A choice for the turn is remembered.

        `action` is `run`, `run_turn`, `skip`, or `skip_turn`.
        """
        # `draft.ruling` is for the edited arguments. A rule of the configuration may skip those.
        if action in ("run", "run_turn") and draft.ruling.run == "skip":
            call.state.ruling = draft.ruling
            raise CallEnded(format_skipped_call(draft.ruling), skipped=True)
        if action in ("run_turn", "skip_turn"):
            self._turn.memory.remember_permission(
                draft.tool,
                draft.arguments,
                may_run=action == "run_turn",
                asked_by=draft.ruling.asked_by,
            )
        if action in ("skip", "skip_turn"):
            raise CallEnded(SKIPPED_BY_USER_TEXT, skipped=True)

        if draft.edited_through is not None:
            call.state.arguments = draft.arguments
            call.state.edited_through = draft.edited_through
            call.view.formatted = None
            call.view.needs_redisplay = True

    async def _ask_permission(self, ask: SafeAsk, draft: CallDraft) -> _PermissionChoice:
        """Return the user's choice about the call, perhaps with edited arguments.

        The mode `edit` edits them first. The user sees the final command line of a command before
        it runs: after edited arguments, the question returns.
        """
        if draft.ruling.run == "edit":
            edited = await _edit_arguments(ask, draft)
            if is_back(edited):
                raise CallEnded(SKIPPED_WITH_REASON_TEXT.format("Edit cancelled"), skipped=True)
            if isinstance(edited, NotAnswered | Unavailable):
                raise self._end_without_decision(draft, edited)

            draft = edited
            if not draft.is_command:
                return _PermissionChoice("run", draft)
        return await self._ask_until_decided(ask, draft)

    async def _ask_until_decided(self, ask: SafeAsk, draft: CallDraft) -> _PermissionChoice:
        """Show the prompt until the user decides. Each dialogue that follows may return to it."""
        while True:
            end = await ask(draft.make_prompt())
            if not isinstance(end, Answered):
                raise self._end_without_decision(draft, end)

            match end.value:
                case "reason":
                    await _ask_reason(ask, draft.tool)
                case "always":
                    if await self._keep_rule(ask, draft):
                        return _PermissionChoice("run", draft)
                case "edit":
                    edited = await _edit_or_go_back(ask, draft)
                    if edited is not None and not edited.is_command:
                        return _PermissionChoice("run", edited)
                    draft = edited or draft
                case "run" | "run_turn" | "skip" | "skip_turn" as action:
                    return _PermissionChoice(action, draft)

    async def _keep_rule(self, ask: SafeAsk, draft: CallDraft) -> bool:
        """Show the rule for calls like this one; return True if the user keeps it."""
        assert draft.proposed_rule is not None  # else there is no button
        editor = RuleEditor(draft.tool, draft.arguments, draft.context.root)
        kept = await RulePrompts(ask, editor, self._turn.kept_rules).ask(draft.proposed_rule)
        if isinstance(kept, NotAnswered | Unavailable):
            raise _end_unpermitted(kept)
        if kept is None:
            return False

        self._turn.display(
            Notice(f"▸ Rule kept {SCOPE_WORDS[kept.scope]}: {_format_kept_rule(kept)}")
        )
        return True

    def _end_without_decision(self, draft: CallDraft, end: NotAnswered | Unavailable) -> CallEnded:
        """Return the end of a call whose first prompt ended without an answer.

        If no user was there, the decision is noted for an answers file. After a later prompt it is
        not (`_end_unpermitted`): a user has answered the first one.
        """
        if isinstance(end, Unavailable):
            return self._decisions.make_end_without_user(
                draft.tool, "permission", end.reason, arguments=draft.arguments
            )
        return _end_unpermitted(end)


async def _ask_reason(ask: SafeAsk, tool: OfferedTool) -> None:
    """End the call with the user's reason; return if the user went back."""
    name = spell_invisible(tool.name)
    question = Question.text("reason", f"Why should {name} not run? (sent to the model)")
    end = await ask(QuestionPrompt(question))

    if isinstance(end, Answered):
        text = str(end.value).strip()
        content = SKIPPED_WITH_REASON_TEXT.format(text) if text else SKIPPED_BY_USER_TEXT
        raise CallEnded(content, skipped=True)
    if not is_back(end):
        raise _end_unpermitted(end)


async def _edit_arguments(ask: SafeAsk, draft: CallDraft) -> CallDraft | NotAnswered | Unavailable:
    """Return the call with the arguments that the user edited."""
    editor = ArgumentEditor(draft.tool, draft.arguments)
    submit = USE_EDITED_LABEL if draft.is_command else RUN_EDITED_LABEL

    while True:
        end = await ask(editor.make_prompt(submit))
        if not isinstance(end, FormEnd):
            return end
        [edited] = end.ends
        if not isinstance(edited, Answered):
            return edited

        # The form checks the arguments before it sends them. If they do not fit nevertheless, the
        # form opens again: nothing may run with them.
        arguments = editor.read(edited.value)
        if not isinstance(arguments, ToolFailure):
            return draft.edit(arguments, edited.channel)


async def _edit_or_go_back(ask: SafeAsk, draft: CallDraft) -> CallDraft | None:
    """Return the call with edited arguments; None if the user went back."""
    edited = await _edit_arguments(ask, draft)
    if isinstance(edited, CallDraft):
        return edited
    if is_back(edited):
        return None
    raise _end_unpermitted(edited)


def _end_unpermitted(end: PromptEnd[Answered]) -> CallEnded:
    """Return the end of a call whose prompt was closed, or ended without the user's decision."""
    why = describe_missing_decision(end)
    content = SKIPPED_BY_USER_TEXT if why is None else f"Tool not run: {why}."
    return CallEnded(content, skipped=True)
