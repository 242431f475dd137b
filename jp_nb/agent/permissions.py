"""Permission for a tool call, and for delivery of its result.

A dialogue keeps the screen until the user has decided, even while the user edits or gives a
reason.

Source: `docs/turns.md`, `docs/decisions.md` D10, D52, D35.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue

from jp_nb.agent.argument_editor import ArgumentEditor, format_visible_json
from jp_nb.agent.call import Call, CallEnded
from jp_nb.agent.display import Notice, Waits
from jp_nb.agent.permission_rules import (
    SCOPE_WORDS,
    KeptRule,
    Ruling,
    describe_rule,
    find_kept,
    judge,
    may_keep,
)
from jp_nb.agent.prepared_answers import DecisionKind, DeclinedByFile, GivenAnswer, OpenDecision
from jp_nb.agent.prompt_queue import SafeAsk
from jp_nb.agent.prompts import (
    Action,
    ActionPrompt,
    Answered,
    Channel,
    FormEnd,
    NotAnswered,
    PromptDetail,
    PromptEnd,
    QuestionPrompt,
    Unavailable,
    is_back,
    label_name,
)
from jp_nb.agent.rule_editor import RuleEditor, RulePrompts, make_rule
from jp_nb.agent.tasks import PromptLine
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.agent.turn_state import TurnContext
from jp_nb.config.tree.tool_settings import Covers
from jp_nb.images import Image
from jp_nb.record.outcomes import NOT_IN_TIME
from jp_nb.text import escape_invisible, one_line, spell_invisible
from jp_nb.toolkit.base import CommandLine, ToolContext
from jp_nb.toolkit.outcome import Failure
from jp_nb.toolkit.parameters import TextArgument, text_arguments
from jp_nb.toolkit.question import Question


def permission_actions(
    tool: str, covers: Covers, *, can_keep_rule: bool = False
) -> tuple[Action, ...]:
    """Return the choices about a call of `tool`; their labels name the calls that they cover.

    With `can_keep_rule`, the user can make a rule for calls like this one.
    """
    name = label_name(tool)
    allowed = {"tool": name, "arguments": "this exact call"}[covers]
    always = Action("a", "Always allow calls like this …", "always")
    return (
        Action("y", f"Run {name}", "run"),
        Action("Y", f"Allow {allowed} for this turn", "run_turn"),
        *([always] if can_keep_rule else []),
        Action("n", f"Skip {name}", "skip", is_separated=True),
        Action("N", f"Skip all calls of {name} in this turn", "skip_turn"),
        Action("p", "Print the arguments", "print", on_form=False),
        Action("r", "Skip and say why …", "reason", is_separated=True),
        Action("e", "Edit the arguments …", "edit"),
    )


DELIVERY = (
    Action("y", "Deliver the result", "deliver"),
    Action("n", "Withhold the result", "skip", is_separated=True),
    Action("e", "Edit the result …", "edit", is_separated=True),
)

RUN_EDITED = "Run with these arguments"
USE_EDITED = "Use these arguments …"
"""For a program: the user sees its new command line, and decides again."""
DELIVER_EDITED = "Deliver this text"

SKIPPED = "Tool skipped by user."
SKIPPED_REMEMBERED = "Tool skipped by user (remembered)."
SKIPPED_BY_RULE = "Tool skipped by user: a rule does not allow this call ({})."
SKIPPED_WITH_REASON = "Tool skipped by user: {}"
NOT_DELIVERED = "Result delivery skipped by user."
UNDELIVERED = "The tool ran. Its result is not delivered: {}."
NOT_DELIVERED_BY_CONFIGURATION = "Result delivery skipped by configuration."
RESULT_EDIT_CANCELLED = "Result edit cancelled."

ARGUMENTS = "Arguments"
EDITED = "Arguments as you edited them"
EDITED_TEXT = "{} as you edited it"
FORMATTED = "Arguments, formatted for display (the tool receives those above)"
COMMAND = "Command line"
SHELL = "Command line, run by a shell (sh -c)"
SERVER_SAYS = "The server says about this tool (not checked)"
ASKING_RULE = "Your rule that asks about this call"
FIRST = "(for the first run; the next run gets the answers to its questions)"
FOLDER = "Folder"
IMAGES = "Images (delivered unless you edit the text)"
IMAGES_AND_PDFS = "Images and PDFs (delivered unless you edit the text)"
NO_COMMAND_LINE = "The tool cannot run: it has no command line"

Arguments = dict[str, JsonValue]

MAX_NOTICE_CHARS = 300
"""Maximum length of a rule in a notice."""

INTERRUPT_FIRST = "an interrupt came first"
STOPPED_FIRST = "the user stopped the turn first"
_UNDECIDED = {"timed_out": NOT_IN_TIME, "interrupted": INTERRUPT_FIRST}
"""Outcomes of a prompt without a decision of the user."""


def _not_permitted(end: PromptEnd[Answered]) -> CallEnded:
    why = _UNDECIDED.get(end.end) if isinstance(end, NotAnswered) else None
    return CallEnded(SKIPPED if why is None else f"Tool not run: {why}.", skipped=True)


def _not_delivered(end: PromptEnd[Answered]) -> CallEnded:
    why = _UNDECIDED.get(end.end) if isinstance(end, NotAnswered) else None
    return CallEnded(NOT_DELIVERED if why is None else UNDELIVERED.format(why), skipped=True)


@dataclass(frozen=True, slots=True)
class _PendingCall:
    """A call that waits for permission. `original_arguments` are the model's.

    `edited` is the channel through which the user changed the arguments. `ruling` is the permission
    of `arguments`, and `proposed_rule` the rule for calls with these, if the user may keep one.
    """

    tool: OfferedTool
    original_arguments: Arguments
    arguments: Arguments
    formatted: str | None
    context: ToolContext
    ruling: Ruling
    proposed_rule: KeptRule | None = None
    edited: Channel | None = None

    def command(self) -> CommandLine | Failure | None:
        """Return the command line, or why there is none; None if the tool is not a command."""
        return self.tool.executor.command_line(self.arguments, self.context)

    def edit(self, arguments: Arguments, channel: Channel | None) -> _PendingCall:
        """Return the call with other arguments, which do not count as edited if the model's."""
        text = format_visible_json(arguments)  # 1 and true are equal to Python
        if text == format_visible_json(self.arguments):
            return self
        if text == format_visible_json(self.original_arguments):
            channel = None
        ruling = judge(self.tool, arguments, self.context.root)
        changed = replace(self, arguments=arguments, formatted=None, edited=channel, ruling=ruling)
        return changed if self.proposed_rule is None else changed.propose_rule()

    def propose_rule(self) -> _PendingCall:
        """Return the call with a rule for its arguments, unless they are too long for one."""
        rule = make_rule(self.tool, self.arguments, self.context.root, self.ruling)
        return replace(self, proposed_rule=rule)

    def details(self) -> Iterator[PromptDetail]:
        command = self.command()
        if isinstance(command, Failure):
            yield PromptDetail(NO_COMMAND_LINE, command.message)
        elif command is not None:
            caption = SHELL if command.shell else COMMAND
            yield PromptDetail(
                f"{caption} {FIRST}" if command.is_first_run else caption, command.text
            )
            yield PromptDetail(FOLDER, command.folder)
        texts, others = _split_arguments(self.tool, self.arguments)
        for each, text in texts.items():
            caption = spell_invisible(each.caption)
            changed = self.edited and text != self.original_arguments.get(each.name)
            shown = EDITED_TEXT.format(caption) if changed else caption
            yield PromptDetail(shown, text, language=each.language)
        if others:
            yield PromptDetail(EDITED if self.edited else ARGUMENTS, others)
        if self.formatted:
            yield PromptDetail(FORMATTED, self.formatted)
        if hints := self.tool.executor.hints:
            yield PromptDetail(SERVER_SAYS, _format_hints(hints))
        if self.ruling.words is not None:
            yield PromptDetail(ASKING_RULE, escape_invisible(self.ruling.words))

    def prompt(self) -> ActionPrompt:
        text = f"Run the tool `{spell_invisible(self.tool.name)}`?"
        if self.tool.owner:
            text = f"{text[:-1]} of the server `{spell_invisible(self.tool.owner)}`?"
        return ActionPrompt(
            text=text,
            actions=permission_actions(
                self.tool.name, self.tool.covers, can_keep_rule=self.proposed_rule is not None
            ),
            exhibits=tuple(self.details()),
            only_buttons=True,
            origin=self.tool.origin,
        )


def _format_hints(hints: Mapping[str, bool]) -> str:
    words = {True: "yes", False: "no"}
    lines = [f"{name.replace('_', ' ')}: {words[value]}" for name, value in hints.items()]
    return "\n".join(lines)


async def _ask_reason(ask: SafeAsk, tool: OfferedTool) -> None:
    """End the call with the user's reason; return if the user went back."""
    name = spell_invisible(tool.name)
    question = Question.text("reason", f"Why should {name} not run? (sent to the model)")
    end = await ask(QuestionPrompt(question))
    if isinstance(end, Answered):
        text = str(end.value).strip()
        raise CallEnded(SKIPPED_WITH_REASON.format(text) if text else SKIPPED, skipped=True)
    if not is_back(end):
        raise _not_permitted(end)


async def _edit_arguments(
    ask: SafeAsk, call: _PendingCall
) -> _PendingCall | NotAnswered | Unavailable:
    """Return the call with the arguments that the user edited."""
    editor = ArgumentEditor(call.tool, call.arguments)
    submit = RUN_EDITED if call.command() is None else USE_EDITED
    while True:
        end = await ask(editor.prompt(submit))
        if not isinstance(end, FormEnd):
            return end
        [edited] = end.ends
        if not isinstance(edited, Answered):
            return edited
        # A form sends only what fits. Nothing else may run.
        arguments = editor.read(edited.value)
        if not isinstance(arguments, Failure):
            return call.edit(arguments, edited.channel)


async def _edit_or_go_back(ask: SafeAsk, call: _PendingCall) -> _PendingCall | None:
    """Return the call with edited arguments; None if the user went back."""
    edited = await _edit_arguments(ask, call)
    if isinstance(edited, _PendingCall):
        return edited
    if is_back(edited):
        return None
    raise _not_permitted(edited)


def _split_arguments(
    tool: OfferedTool, arguments: Arguments
) -> tuple[dict[TextArgument, str], Arguments]:
    """Return the text arguments, and the others."""
    texts = {
        x: str(arguments[x.name]) for x in text_arguments(tool.definition.parameters, arguments)
    }
    names = {each.name for each in texts}
    return texts, {name: value for name, value in arguments.items() if name not in names}


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result that the model gets. `images` are sent only with an unedited text."""

    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


async def _edit_result(
    ask: SafeAsk, tool: OfferedTool, result: Delivery
) -> Delivery | Unavailable | None:
    """Return the edited result; None if the text was emptied or editing was cancelled."""
    question = Question.text(
        "result", f"Result of {spell_invisible(tool.name)}, as sent to the model:"
    )
    edits = QuestionPrompt(
        question.with_default(result.content), consents=True, submit=DELIVER_EDITED
    )
    end = await ask(edits)
    if isinstance(end, Unavailable):
        return end
    if isinstance(end, NotAnswered) and not is_back(end):
        raise _not_delivered(end)
    text = str(end.value) if isinstance(end, Answered) else ""
    if not text.strip():
        return None
    return Delivery(text) if text != result.content else result


_FILE_NOTICES: Mapping[tuple[DecisionKind, bool], str] = {
    ("permission", True): "▸ {} allows {} to run",
    ("permission", False): "▸ {} does not allow {} to run",
    ("result", True): "▸ {} allows the model to read the result of {}",
    ("result", False): "▸ {} withholds the result of {} from the model",
}
"""Notices about decisions of an answers file."""


def skipped_text(ruling: Ruling) -> str:
    """Return the response to a call that the configuration skips."""
    if ruling.words is None:
        return SKIPPED
    return SKIPPED_BY_RULE.format(one_line(ruling.words, limit=MAX_NOTICE_CHARS))


def _words(kept: KeptRule) -> str:
    shown = describe_rule(kept.when, only_these=kept.only_these)
    return one_line(escape_invisible(f"{kept.tool}: {shown}"), limit=MAX_NOTICE_CHARS)


class PermissionRequests:
    """Asks the user for permission and delivery, call by call."""

    def __init__(self, turn: TurnContext, line: PromptLine) -> None:
        self._turn = turn
        self._line = line

    def decide_by_file(self, kind: DecisionKind, tool: OfferedTool) -> bool | None:
        """Return and display the decision in the answers file; None: ask the user.

        Raises:
            CallEnded: The file has no decision, and no user is available.
        """
        decided = self._turn.prepared.decision(kind, tool.name)
        if isinstance(decided, GivenAnswer | DeclinedByFile):
            agrees = isinstance(decided, GivenAnswer)
            text = _FILE_NOTICES[kind, agrees].format(decided.place, spell_invisible(tool.name))
            self._turn.display(Notice(text))
            return agrees
        unavailable = self._turn.prompter.unavailable()
        if unavailable is not None:
            raise self._fail_without_user(tool, kind, unavailable.reason)
        return None

    def find_kept_rule(self, call: Call, tool: OfferedTool, ruling: Ruling, root: str) -> bool:
        """Return True if a rule that the user kept permits `call`, and note the rule.

        A decision in the answers file, or a refusal for the rest of the turn, has precedence.
        """
        if tool.executor.is_outdated:
            return False
        found = find_kept(self._turn.kept_rules, tool, call.state.arguments, root, ruling)
        if found is None or self._turn.permission(tool, call.state.arguments) is False:
            return False
        if self._turn.prepared.decision("permission", tool.name) is not None:
            return False
        call.state.ruling = found
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
        pending = _PendingCall(
            tool, call.state.arguments, call.state.arguments, call.view.formatted, context, ruling
        )
        if may_keep(tool) and self._turn.kept_rules.scopes:
            pending = pending.propose_rule()
        async with self._line.turn() as ask:
            # The user may have decided about this call together with another one meanwhile.
            if self.find_kept_rule(call, tool, ruling, context.root):
                return
            remembered = self._turn.permission(tool, call.state.arguments, ruling.asked_by)
            if remembered is False:
                raise CallEnded(SKIPPED_REMEMBERED, skipped=True)
            if remembered:
                return
            choice, pending = await self._ask_permission(ask, pending)
        if choice in ("run", "run_turn") and pending.ruling.run == "skip":  # edited arguments
            call.state.ruling = pending.ruling
            raise CallEnded(skipped_text(pending.ruling), skipped=True)
        if choice in ("run_turn", "skip_turn"):
            runs = choice == "run_turn"
            self._turn.remember_permission(
                tool, pending.arguments, runs=runs, asked_by=pending.ruling.asked_by
            )
        if choice in ("skip", "skip_turn"):
            raise CallEnded(SKIPPED, skipped=True)
        if pending.edited is not None:
            call.state.arguments = pending.arguments
            call.state.edited = pending.edited
            call.view.formatted = None
            call.view.needs_redisplay = True

    async def _ask_permission(self, ask: SafeAsk, call: _PendingCall) -> tuple[str, _PendingCall]:
        """Return the user's choice about `call`, perhaps with edited arguments.

        The mode `edit` edits them first. The user sees the final command line of a command before
        it runs: after edited arguments, the question returns.
        """
        if call.ruling.run == "edit":
            edited = await _edit_arguments(ask, call)
            if is_back(edited):
                raise CallEnded(SKIPPED_WITH_REASON.format("Edit cancelled"), skipped=True)
            if isinstance(edited, NotAnswered | Unavailable):
                raise self._undecided(call.tool, edited)
            call = edited
            if call.command() is None:
                return "run", call
        return await self._ask_until_decided(ask, call)

    async def _ask_until_decided(
        self, ask: SafeAsk, call: _PendingCall
    ) -> tuple[str, _PendingCall]:
        while True:
            end = await ask(call.prompt())
            if not isinstance(end, Answered):
                raise self._undecided(call.tool, end)
            match end.value:
                case "reason":
                    await _ask_reason(ask, call.tool)
                case "always":
                    if await self._keep_rule(ask, call):
                        return "run", call
                case "edit":
                    edited = await _edit_or_go_back(ask, call)
                    if edited is not None and edited.command() is None:
                        return "run", edited
                    call = edited or call
                case "run" | "run_turn" | "skip" | "skip_turn" as choice:
                    return choice, call

    async def _keep_rule(self, ask: SafeAsk, call: _PendingCall) -> bool:
        """Show the rule for calls like this one; return True if the user keeps it."""
        assert call.proposed_rule is not None  # else there is no button
        editor = RuleEditor(call.tool, call.arguments, call.context.root)
        kept = await RulePrompts(ask, editor, self._turn.kept_rules).ask(call.proposed_rule)
        if isinstance(kept, NotAnswered | Unavailable):
            raise _not_permitted(kept)
        if kept is None:
            return False
        self._turn.display(Notice(f"▸ Rule kept {SCOPE_WORDS[kept.scope]}: {_words(kept)}"))
        return True

    def _undecided(self, tool: OfferedTool, end: NotAnswered | Unavailable) -> CallEnded:
        if isinstance(end, Unavailable):
            return self._fail_without_user(tool, "permission", end.reason)
        return _not_permitted(end)

    async def request_delivery(self, call: Call, tool: OfferedTool, result: Delivery) -> Delivery:
        """Return the result that the user, or the answers file, lets the model read.

        The mode `edit` edits it first. An editor that is closed or emptied decides nothing: the
        question follows.

        Raises:
            CallEnded: The result is withheld, or no user is available.
        """
        delivered = self.decide_by_file("result", tool)
        if delivered is not None:
            if delivered:
                return result
            raise CallEnded(NOT_DELIVERED, skipped=True)
        call.state.result.is_under_review = True
        self._turn.display(
            Waits(call.key, f"your decision on the result of {call.title}", person=True)
        )
        async with self._line.turn(after_run=True) as ask:
            if tool.result == "edit":
                edited = await _edit_result(ask, tool, result)
                if isinstance(edited, Unavailable):
                    raise self._fail_without_user(tool, "result", edited.reason)
                if edited is not None:
                    return edited
            return await self._ask_delivery(ask, tool, result)

    async def _ask_delivery(self, ask: SafeAsk, tool: OfferedTool, result: Delivery) -> Delivery:
        exhibits = [PromptDetail("Error" if result.is_error else "Result", result.content)]
        if result.images:
            has_pdf = any(image.noun == "PDF" for image in result.images)
            title = IMAGES_AND_PDFS if has_pdf else IMAGES
            exhibits.append(PromptDetail(title, "\n".join(map(repr, result.images))))
        prompt = ActionPrompt(
            text=f"Deliver {spell_invisible(tool.name)} result to assistant?",
            actions=DELIVERY,
            exhibits=tuple(exhibits),
            only_buttons=True,
        )
        while True:
            match end := await ask(prompt):
                case Unavailable(reason=reason):
                    raise self._fail_without_user(tool, "result", reason)
                case Answered(value="deliver"):
                    return result
                case Answered(value="edit"):
                    edited = await _edit_result(ask, tool, result)
                    if isinstance(edited, Unavailable):
                        raise CallEnded(RESULT_EDIT_CANCELLED, skipped=True)
                    if edited is not None:
                        return edited
                case _:
                    raise _not_delivered(end)

    def _fail_without_user(self, tool: OfferedTool, kind: DecisionKind, reason: str) -> CallEnded:
        """Note that a decision needs a user, and return the end of the call."""
        self._turn.unavailable_reason = reason
        self._turn.prepared.note_open(OpenDecision(kind, tool.name, reason))
        what = "did not run: it needs the user's permission"
        setting = "run"
        if kind == "result":
            what = "ran, but its result is not delivered: that needs the user's approval"
            setting = "result"
        return CallEnded(
            f"{tool.name} {what}, and no user is available: {reason}. The user can set "
            f'conversation.tools.{tool.name}.{setting} = "unattended". Do not retry '
            "this tool call in this turn.",
            is_error=True,
        )
