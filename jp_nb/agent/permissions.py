"""Permission for a tool call, for delivery of its result, and for a configuration change.

A dialogue keeps the screen until the user has decided, also while the user edits or gives a
reason.

Source: `docs/turns.md`, `docs/decisions.md` D10, D52, D35.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, assert_never

from pydantic import JsonValue

from jp_nb.agent.display import Display, Notice, Waits
from jp_nb.agent.prompts import (
    Action,
    ActionPrompt,
    Answered,
    Ask,
    Channel,
    DecisionKind,
    DeclinedByFile,
    GivenAnswer,
    NotAnswered,
    OpenDecision,
    PromptDetail,
    PromptEnd,
    Prompter,
    PromptEvent,
    Prompts,
    ProposedChange,
    QuestionPrompt,
    Unavailable,
)
from jp_nb.agent.questions import TurnState
from jp_nb.agent.tool_call import Call, EndCallbacks, prepare
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.config.tree.tools import Covers
from jp_nb.images import Image
from jp_nb.json_values import indented_json, read_json
from jp_nb.text import escape_unseen, spell_unseen
from jp_nb.tools.base import NOT_IN_TIME, CommandLine, ToolContext
from jp_nb.tools.outcome import Failure
from jp_nb.tools.parameters import TextArgument, text_arguments
from jp_nb.tools.question import Question

RUN_FOR_TURN: Mapping[Covers, str] = {
    "tool": "Run all its calls this turn",
    "arguments": "Run this exact call this turn",
}
"""The button that gives a permission for the turn, by the calls that it covers."""


def permission_actions(covers: Covers) -> tuple[Action, ...]:
    """Return the choices about a call, whose labels name the calls that a choice covers."""
    return (
        Action("y", "Run", "run"),
        Action("Y", RUN_FOR_TURN[covers], "run_turn"),
        Action("n", "Skip", "skip"),
        Action("N", "Skip all its calls this turn", "skip_turn"),
        Action("p", "Print arguments", "print", on_form=False),
        Action("r", "Reason", "reason"),
        Action("e", "Edit", "edit"),
    )


DELIVERY = (
    Action("y", "Deliver", "deliver"),
    Action("n", "Skip", "skip"),
    Action("e", "Edit", "edit"),
)
APPROVAL = (Action("y", "Apply", "apply"), Action("n", "Reject", "reject"))
APPROVAL_HELP = "Either all of the changes are applied or none. The tool gets your decision."

SKIPPED = "Tool skipped by user."
SKIPPED_REMEMBERED = "Tool skipped by user (remembered)."
EDIT_CANCELLED = "Edit cancelled"
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
FIRST = "(for the first run; answers to its questions go into the next run)"
FOLDER = "Folder"
IMAGES = "Images (delivered unless you edit the text)"
NO_COMMAND_LINE = "The tool cannot run: it has no command line"

Arguments = dict[str, JsonValue]
Prepare = Callable[[Arguments], Arguments | Failure]
"""Arguments as the tool will get them, or why it cannot run with them."""
CommandFor = Callable[[Arguments], CommandLine | Failure | None]
"""Tells what is executed for arguments: None if the tool is not a command; or why not."""


@dataclass(frozen=True, slots=True)
class Permission:
    """The decision if a tool runs.

    Attributes:
        runs: With `arguments` where somebody edited them, through `channel`.
        remembered: For the rest of the turn, for the calls that the tool's `covers` names.
        skipped: The response of one that does not run.
        unavailable: Why no user could be asked: it is refused.
    """

    runs: bool
    arguments: Arguments | None = None
    remembered: bool = False
    skipped: str = SKIPPED
    unavailable: Unavailable | None = None
    channel: Channel | None = None


SKIP = Permission(runs=False)
INTERRUPT_FIRST = "an interrupt came first"
STOPPED_FIRST = "the user stopped the turn first"
_UNDECIDED = {"timed_out": NOT_IN_TIME, "interrupted": INTERRUPT_FIRST}
"""How a prompt ends without anybody's decision, in words."""


def _not_run(end: PromptEnd) -> Permission:
    """Return that the tool does not run: somebody decided so, or nobody decided."""
    why = _UNDECIDED.get(end.end) if isinstance(end, NotAnswered) else None
    return SKIP if why is None else Permission(runs=False, skipped=f"Tool not run: {why}.")


def _not_delivered(end: PromptEnd) -> Delivery:
    """Return that the result is not delivered: somebody decided so, or nobody decided."""
    why = _UNDECIDED.get(end.end) if isinstance(end, NotAnswered) else None
    return Delivery(NOT_DELIVERED if why is None else UNDELIVERED.format(why), withheld=True)


def _no_command(_: Arguments) -> None:
    """Return None: the tool is not a command."""


async def permission(
    ask: Ask,
    tool: OfferedTool,
    arguments: Arguments,
    prepare: Prepare,
    formatted: str | None = None,
    command: CommandFor = _no_command,
) -> Permission:
    """Ask if `tool` may run with `arguments`: mode `ask`, or `edit`, which edits them first.

    Of a command somebody sees what is executed before it is: once its arguments are edited, it is
    asked whether it runs.

    Args:
        ask: Puts a prompt to the person.
        tool: What runs.
        arguments: What with.
        prepare: Reads other ones.
        formatted: What a formatter made of them, shown below the exact ones.
        command: Tells what is executed, if the tool is a command, or why it cannot be told.
    """
    call = _Asked(tool, arguments, arguments, formatted, command)
    if tool.run == "edit":
        edited = await _edit_arguments(ask, tool, arguments, prepare)
        if isinstance(edited, Permission):
            call, decided = call.after(edited)
            if decided is not None:
                return decided
        if isinstance(edited, Unavailable):
            return Permission(runs=False, unavailable=edited)
        if isinstance(edited, NotAnswered):
            cancelled = Permission(runs=False, skipped=_skipped(EDIT_CANCELLED))
            return cancelled if _goes_back(edited) else _not_run(edited)
    return await _ask_permission(ask, call, prepare)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call that waits for permission.

    Attributes:
        own: The model's arguments.
        edited: The channel through which somebody made others of them.
    """

    tool: OfferedTool
    own: Arguments
    arguments: Arguments
    formatted: str | None
    command: CommandFor
    edited: Channel | None = None

    def after(self, edited: Permission) -> tuple[_Asked, Permission | None]:
        """Return the edited call and its decision; None: its new command is to be seen first."""
        call, given = self, edited.arguments
        if given is not None:
            channel = edited.channel if to_text(given) != to_text(self.own) else None
            call = replace(self, arguments=given, formatted=None, edited=channel)
        if self.command(call.arguments) is None:
            return call, edited
        return call, None

    def exhibits(self) -> Iterator[PromptDetail]:
        """Return what is decided about."""
        command = self.command(self.arguments)
        if isinstance(command, Failure):
            yield PromptDetail(NO_COMMAND_LINE, command.message)
        elif command is not None:
            caption = SHELL if command.shell else COMMAND
            yield PromptDetail(
                f"{caption} {FIRST}" if command.is_first_run else caption, command.text
            )
            yield PromptDetail(FOLDER, command.folder)
        texts, others = _apart(self.tool, self.arguments)
        for each, text in texts.items():
            caption = spell_unseen(each.caption)
            changed = self.edited and text != self.own.get(each.name)
            shown = EDITED_TEXT.format(caption) if changed else caption
            yield PromptDetail(shown, text, language=each.language)
        if others:
            yield PromptDetail(EDITED if self.edited else ARGUMENTS, others)
        if self.formatted:
            yield PromptDetail(FORMATTED, self.formatted)

    def prompt(self) -> ActionPrompt:
        """Return the prompt that asks if it runs."""
        return ActionPrompt(
            text=f"Run {self.tool.origin} {spell_unseen(self.tool.name)} tool?",
            actions=permission_actions(self.tool.covers),
            exhibits=tuple(self.exhibits()),
            only_buttons=True,
        )

    def runs(self, *, remembered: bool) -> Permission:
        """Return the decision that it runs, with what was shown."""
        arguments = self.arguments if self.edited else None
        return Permission(True, arguments, remembered=remembered, channel=self.edited)


async def _ask_permission(ask: Ask, call: _Asked, prepare: Prepare) -> Permission:
    while True:
        end = await ask(call.prompt())
        if isinstance(end, Unavailable):
            return Permission(runs=False, unavailable=end)
        if not isinstance(end, Answered):
            return _not_run(end)
        decided: Permission | None = None
        match end.value:
            case "run" | "run_turn" as word:
                return call.runs(remembered=word == "run_turn")
            case "skip" | "skip_turn" as word:
                return Permission(runs=False, remembered=word == "skip_turn")
            case "reason":
                decided = await _with_reason(ask, call.tool)
            case "edit":
                decided = await _with_edits(ask, call.tool, call.arguments, prepare)
                if decided is not None and decided.runs:
                    call, decided = call.after(decided)
        if decided is not None:
            return decided


async def _with_reason(ask: Ask, tool: OfferedTool) -> Permission | None:
    """Return the decision to skip for a reason; None to ask again."""
    end = await ask(QuestionPrompt(_reason(tool)))
    if not isinstance(end, Answered):
        return None if _goes_back(end) else _not_run(end)
    text = str(end.value).strip()
    return Permission(runs=False, skipped=_skipped(text)) if text else SKIP


async def _with_edits(
    ask: Ask, tool: OfferedTool, arguments: Arguments, prepare: Prepare
) -> Permission | None:
    """Return the decision to run with other arguments; None to ask again."""
    edited = await _edit_arguments(ask, tool, arguments, prepare)
    if isinstance(edited, Permission):
        return edited
    return None if edited is None or _goes_back(edited) else _not_run(edited)


def _goes_back(end: PromptEnd) -> bool:
    """Return True if somebody closed the prompt to get back to the one before."""
    return isinstance(end, NotAnswered) and end.end in ("cancelled", "declined")


def _skipped(reason: str) -> str:
    return f"{SKIPPED[:-1]}: {reason}"


def _reason(tool: OfferedTool) -> Question:
    return Question.text(
        "reason", f"Why should {spell_unseen(tool.name)} not run? (sent to the model)"
    )


async def _edit_arguments(
    ask: Ask, tool: OfferedTool, arguments: Arguments, prepare: Prepare
) -> Permission | NotAnswered | Unavailable | None:
    """Return the decision to run with edited arguments; None if they were emptied.

    Each argument that is a text of its own is edited as it is, then the others as JSON.
    """
    texts, others = _apart(tool, arguments)
    edited = dict(arguments)
    channel: Channel | None = None
    for question, name in _to_edit(tool, texts, others):
        while True:
            end = await ask(QuestionPrompt(question, consents=True, is_code=name is not None))
            if not isinstance(end, Answered):
                return end
            text = str(end.value)
            if not text.strip():
                return None
            read = _read_edited(text, name, edited, others, prepare)
            if isinstance(read, dict):
                break
            question = question.with_default(text).with_context(read)
        edited, channel = read, end.channel
    changed = to_text(edited) != to_text(arguments)  # 1 and true are equal to Python
    return Permission(True, edited if changed else None, channel=channel)


def _apart(tool: OfferedTool, arguments: Arguments) -> tuple[dict[TextArgument, str], Arguments]:
    """Return the arguments that are texts of their own, and the others."""
    texts = {
        x: str(arguments[x.name]) for x in text_arguments(tool.definition.parameters, arguments)
    }
    names = {each.name for each in texts}
    return texts, {name: value for name, value in arguments.items() if name not in names}


def _to_edit(
    tool: OfferedTool, texts: Mapping[TextArgument, str], others: Arguments
) -> Iterator[tuple[Question, str | None]]:
    """Yield each question for a text, with the name of its argument; None: all that are left."""
    name = spell_unseen(tool.name)
    for each, text in texts.items():
        question = Question.text("arguments", f"{spell_unseen(each.caption)} of {name}:")
        yield question.with_default(text), each.name
    if others or not texts:
        which = "Other arguments" if texts else "Arguments"
        question = Question.text("arguments", f"{which} of {name}, as JSON:")
        yield question.with_default(to_text(others)), None


def _read_edited(
    text: str, name: str | None, edited: Arguments, others: Arguments, prepare: Prepare
) -> Arguments | str:
    """Return all arguments with what `text` says of one, or of the others; or what is wrong."""
    if name is not None:
        return _prepared({**edited, name: text}, prepare)
    kept = {key: value for key, value in edited.items() if key not in others}
    return _read_arguments(text, lambda given: prepare({**kept, **given}))


def _read_arguments(text: str, prepare: Prepare) -> Arguments | str:
    """Return the arguments that `text` holds, or what is wrong with it."""
    try:
        value = read_json(text)
    except ValueError as exc:
        return f"Invalid JSON: {exc}"
    if not isinstance(value, dict):
        return "Invalid JSON: expected an object"
    return _prepared(value, prepare)


def _prepared(arguments: Arguments, prepare: Prepare) -> Arguments | str:
    prepared = prepare(arguments)
    return prepared.message if isinstance(prepared, Failure) else prepared


def to_text(value: JsonValue) -> str:
    """Return `value` as JSON for a person, in which every character can be seen."""
    lines = indented_json(value).split("\n")
    return "\n".join(map(escape_unseen, lines)).replace("⟨", "\\u27e8")


# --- delivery ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the model reads of a result.

    Attributes:
        images: What it sees beside that, if the text is not edited.
        withheld: True if somebody wanted that the model does not read it.
        unavailable: Why no user could be asked. The result is withheld with an error.
    """

    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    withheld: bool = False
    unavailable: Unavailable | None = None


async def delivery(ask: Ask, tool: OfferedTool, result: Delivery) -> Delivery:
    """Ask what the model reads of `result`: mode `ask`, or `edit` which edits it at once.

    An editor that is closed or emptied decides nothing: whether to deliver is asked then.
    """
    if tool.result == "edit" and (edited := await _edit_result(ask, tool, result)) is not None:
        return edited
    prompt = ActionPrompt(
        text=f"Deliver {spell_unseen(tool.name)} result to assistant?",
        actions=DELIVERY,
        exhibits=tuple(_result_exhibits(result)),
        only_buttons=True,
    )
    while True:
        end = await ask(prompt)
        if isinstance(end, Unavailable):
            return replace(result, unavailable=end)
        match end.value if isinstance(end, Answered) else "none":
            case "deliver":
                return result
            case "edit":
                edited = await _edit_result(ask, tool, result)
                if edited is not None and edited.unavailable is not None:
                    return Delivery(RESULT_EDIT_CANCELLED, withheld=True)
                if edited is not None:
                    return edited
            case _:
                return _not_delivered(end)


def _result_exhibits(result: Delivery) -> Iterator[PromptDetail]:
    yield PromptDetail("Error" if result.is_error else "Result", result.content)
    if result.images:
        yield PromptDetail(IMAGES, "\n".join(map(repr, result.images)))


async def _edit_result(ask: Ask, tool: OfferedTool, result: Delivery) -> Delivery | None:
    """Return the edited result; None if the text was emptied or the editing cancelled."""
    question = Question.text(
        "result", f"Result of {spell_unseen(tool.name)}, as sent to the model:"
    )
    question = question.with_default(result.content)
    end = await ask(QuestionPrompt(question, consents=True))
    if isinstance(end, Unavailable):
        return replace(result, unavailable=end)
    if isinstance(end, NotAnswered):
        return None if _goes_back(end) else _not_delivered(end)  # nobody looked at it
    text = str(end.value)
    if not text.strip():
        return None
    return Delivery(text) if text != result.content else result


# --- a configuration change --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Approval:
    """The decision about proposed configuration changes, the same for all of them.

    Attributes:
        decision: `unavailable` if no user could be asked or answered in time; `reason`
            says which. `interrupted`: the prompt was on screen when the turn was interrupted.
        by: Who made it, where several people share the notebook.
    """

    decision: Literal["applied", "rejected", "interrupted", "unavailable"]
    channel: Channel | None = None
    reason: str = ""
    by: str | None = None


async def approval(ask: Ask, tool: str, changes: Sequence[ProposedChange]) -> Approval:
    """Ask, in one prompt, if the `changes` that `tool` proposed are applied.

    The tool is named even if its style hides it: nobody may change things unseen.
    """
    prompt = ActionPrompt(
        text=f"⟳ Configuration delta proposed by tool '{spell_unseen(tool)}'",
        actions=APPROVAL,
        changes=tuple(changes),
        last_line="Apply delta?",
        help=APPROVAL_HELP,
        only_buttons=True,
    )
    match await ask(prompt):
        case Answered(value="apply", channel=channel, by=by):
            return Approval("applied", channel, by=by)
        case Unavailable(reason=reason):
            return Approval("unavailable", reason=reason)
        case NotAnswered(end="timed_out", channel=channel):
            return Approval("unavailable", channel, NOT_IN_TIME)
        case NotAnswered(end="interrupted", channel=channel):
            return Approval("interrupted", channel)
        case Answered(channel=channel, by=by) | NotAnswered(channel=channel, by=by):
            return Approval("rejected", channel, by=by)
        case other:
            assert_never(other)


PERMITTED = "▸ {} allows {} to run"
NOT_PERMITTED = "▸ {} does not allow {} to run"
DELIVERED = "▸ {} allows the model to read the result of {}"
WITHHELD = "▸ {} withholds the result of {} from the model"


class ConsentCallbacks(EndCallbacks, Protocol):
    """Receives the calls that a person decided about."""

    def start(self, call: Call, tool: OfferedTool) -> None:
        """Run `tool`: that is permitted."""
        ...

    def formatted(self, call: Call, tool: OfferedTool, then: PromptEvent) -> None:
        """Have the arguments written for the person, and go on with `then`."""
        ...

    def tool_context(self, call: Call, tool: OfferedTool) -> ToolContext:
        """Return what a run of `tool` is told."""
        ...

    def fail(self, call: Call, text: str) -> None:
        """End `call` with an error."""
        ...


class PermissionRequests:
    """Asks for consent, call by call. All of it in the coordinator's loop.

    Args:
        calls: What becomes of the calls.
        display: Shows who is waited for.
        prompter: Says if somebody is there.
        prompts: Where prompts wait.
        state: What is remembered in this turn.
    """

    def __init__(
        self,
        calls: ConsentCallbacks,
        *,
        display: Display,
        prompter: Prompter,
        prompts: Prompts,
        state: TurnState,
    ) -> None:
        self._calls = calls
        self._display = display
        self._prompter = prompter
        self._prompts = prompts
        self._state = state

    def to_run(self, call: Call, tool: OfferedTool) -> None:
        """Have a person decide if `tool` runs, if it was not decided beforehand."""
        match self._state.prepared.decision("permission", tool.name):
            case GivenAnswer(place=place):
                self._display(Notice(PERMITTED.format(place, spell_unseen(tool.name))))
                self._calls.start(call, tool)
                return
            case DeclinedByFile(place=place):
                self._display(Notice(NOT_PERMITTED.format(place, spell_unseen(tool.name))))
                self._calls.finish(call, SKIPPED, skipped=True)
                return
        unavailable = self._prompter.unavailable()
        if unavailable is not None:
            self._refuse(call, tool, "permission", unavailable)
        elif tool.format == "unattended":
            self._calls.formatted(call, tool, lambda: self._queue_permission(call, tool))
        else:
            self._queue_permission(call, tool)

    def _queue_permission(self, call: Call, tool: OfferedTool) -> None:
        def decide(ask: Ask) -> Awaitable[Permission]:
            context = self._calls.tool_context(call, tool)
            return permission(
                ask,
                tool,
                call.arguments,
                lambda given: prepare(tool, given),
                formatted=call.formatted,
                command=lambda arguments: tool.executor.command_line(arguments, context),
            )

        self._display(Waits(call.key, f"your permission to run {call.title}", person=True))
        self._prompts.add(
            decide,
            settle=lambda decided: self._settle_permission(call, tool, decided),
            skip=lambda: self._use_remembered_permission(call, tool),
        )

    def _use_remembered_permission(self, call: Call, tool: OfferedTool) -> bool:
        remembered = self._state.permission(tool, call.arguments)
        if remembered is None:
            return False
        if remembered:
            self._calls.start(call, tool)
        else:
            self._calls.finish(call, SKIPPED_REMEMBERED, skipped=True)
        return True

    def _settle_permission(self, call: Call, tool: OfferedTool, decided: Permission) -> None:
        if decided.unavailable is not None:
            self._refuse(call, tool, "permission", decided.unavailable)
            return
        if decided.remembered:
            shown = call.arguments if decided.arguments is None else decided.arguments
            self._state.remember_permission(tool, shown, runs=decided.runs)
        if not decided.runs:
            self._calls.finish(call, decided.skipped, skipped=True)
            return
        if decided.arguments is not None:
            call.arguments, call.edited, call.formatted = decided.arguments, decided.channel, None
            call.changed = True
        self._calls.start(call, tool)

    def _refuse(
        self, call: Call, tool: OfferedTool, kind: DecisionKind, unavailable: Unavailable
    ) -> None:
        self._calls.note_unavailable(unavailable.reason)
        self._state.prepared.note_open(OpenDecision(kind, tool.name, unavailable.reason))
        what, setting = f"{tool.name} did not run: it needs the user's permission", "run"
        if kind == "result":
            setting = "result"
            what = (
                f"{tool.name} ran, but its result is not delivered: that needs the user's approval"
            )
        self._calls.fail(
            call,
            f"{what}, and no user is available: {unavailable.reason}. The user can set "
            f'conversation.tools.{tool.name}.{setting} = "unattended". Do not retry '
            "this tool call in this turn.",
        )

    def to_deliver(self, call: Call, tool: OfferedTool, result: Delivery) -> None:
        """Have a person decide what the model reads of `result`."""

        def settle(decided: Delivery) -> None:
            if decided.unavailable is not None:
                self._refuse(call, tool, "result", decided.unavailable)
                return
            self._calls.finish(
                call, decided.content, is_error=decided.is_error, skipped=decided.withheld
            )

        match self._state.prepared.decision("result", tool.name):
            case GivenAnswer(place=place):
                self._display(Notice(DELIVERED.format(place, spell_unseen(tool.name))))
                settle(result)
                return
            case DeclinedByFile(place=place):
                self._display(Notice(WITHHELD.format(place, spell_unseen(tool.name))))
                settle(Delivery(NOT_DELIVERED, withheld=True))
                return
        unavailable = self._prompter.unavailable()
        if unavailable is not None:
            self._refuse(call, tool, "result", unavailable)
            return
        call.delivering = True
        self._display(Waits(call.key, f"your decision on the result of {call.title}", person=True))
        self._prompts.add(lambda ask: delivery(ask, tool, result), settle=settle)
