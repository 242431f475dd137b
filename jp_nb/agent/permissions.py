"""Permission for a tool call, for delivery of its result, and for a configuration change.

A dialogue keeps the screen until the user has decided, even while the user edits or gives a
reason.

Source: `docs/turns.md`, `docs/decisions.md` D10, D52, D35.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from pydantic import JsonValue

from jp_nb.agent.display import Notice, Waits
from jp_nb.agent.prompts import (
    Action,
    ActionPrompt,
    Answered,
    Channel,
    DecisionKind,
    DeclinedByFile,
    GivenAnswer,
    NotAnswered,
    OpenDecision,
    PromptDetail,
    PromptEnd,
    ProposedChange,
    QuestionPrompt,
    SafeAsk,
    Unavailable,
    label_name,
)
from jp_nb.agent.tasks import PromptLine
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.agent.turn_state import Call, CallEnded, TurnContext, prepare_arguments
from jp_nb.config.tree.tools import Covers
from jp_nb.images import Image
from jp_nb.json_values import indented_json, read_json
from jp_nb.record.outcomes import NOT_IN_TIME
from jp_nb.text import escape_invisible, spell_invisible
from jp_nb.tools.base import CommandLine, ToolContext
from jp_nb.tools.outcome import Failure
from jp_nb.tools.parameters import TextArgument, text_arguments
from jp_nb.tools.question import Question


def permission_actions(tool: str, covers: Covers) -> tuple[Action, ...]:
    """Return the choices about a call of `tool`; their labels name the calls that they cover."""
    name = label_name(tool)
    allowed = {"tool": name, "arguments": "this exact call"}[covers]
    return (
        Action("y", f"Run {name}", "run"),
        Action("Y", f"Allow {allowed} for this turn", "run_turn"),
        Action("n", f"Skip {name}", "skip"),
        Action("N", f"Skip all calls of {name} in this turn", "skip_turn"),
        Action("p", "Print the arguments", "print", on_form=False),
        Action("r", "Skip and say why …", "reason"),
        Action("e", "Edit the arguments …", "edit"),
    )


DELIVERY = (
    Action("y", "Deliver the result", "deliver"),
    Action("n", "Withhold the result", "skip"),
    Action("e", "Edit the result …", "edit"),
)
APPROVAL = (Action("y", "Apply changes", "apply"), Action("n", "Reject changes", "reject"))
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
FIRST = "(for the first run; the next run gets the answers to its questions)"
FOLDER = "Folder"
IMAGES = "Images (delivered unless you edit the text)"
NO_COMMAND_LINE = "The tool cannot run: it has no command line"

Arguments = dict[str, JsonValue]
Prepare = Callable[[Arguments], Arguments | Failure]
"""Returns the arguments that the tool will get, or the reason why it cannot run with them."""
CommandFor = Callable[[Arguments], CommandLine | Failure | None]
"""Returns the command line for arguments, or why there is none. None: the tool is not a command."""


@dataclass(frozen=True, slots=True)
class Permission:
    """The choice of the user about running a tool.

    Attributes:
        runs: With `arguments` if the user edited them, through `channel`.
        remembered: True for the rest of the turn, for the calls that the tool's `covers` names.
    """

    runs: bool
    arguments: Arguments | None = None
    remembered: bool = False
    channel: Channel | None = None


class NoUserError(Exception):
    """No user was available for a decision, for the `reason`."""

    def __init__(self, unavailable: Unavailable) -> None:
        super().__init__(unavailable.reason)
        self.reason = unavailable.reason


INTERRUPT_FIRST = "an interrupt came first"
STOPPED_FIRST = "the user stopped the turn first"
_UNDECIDED = {"timed_out": NOT_IN_TIME, "interrupted": INTERRUPT_FIRST}
"""Outcomes of a prompt without a decision of the user."""


def _undecided(end: NotAnswered | Unavailable) -> Exception:
    return NoUserError(end) if isinstance(end, Unavailable) else _not_permitted(end)


def _not_permitted(end: PromptEnd[Answered]) -> CallEnded:
    why = _UNDECIDED.get(end.end) if isinstance(end, NotAnswered) else None
    return CallEnded(SKIPPED if why is None else f"Tool not run: {why}.", skipped=True)


def _not_delivered(end: PromptEnd[Answered]) -> CallEnded:
    why = _UNDECIDED.get(end.end) if isinstance(end, NotAnswered) else None
    return CallEnded(NOT_DELIVERED if why is None else UNDELIVERED.format(why), skipped=True)


def _no_command(_: Arguments) -> None: ...


async def ask_permission(
    ask: SafeAsk,
    tool: OfferedTool,
    arguments: Arguments,
    prepare: Prepare,
    formatted: str | None = None,
    command: CommandFor = _no_command,
) -> Permission:
    """Ask if `tool` may run with `arguments`. The mode `edit` edits them first.

    The user sees the final command line of a command before it runs. After edited arguments, the
    question returns. `prepare` validates edited arguments. `formatted` is displayed below the exact
    arguments.

    Raises:
        CallEnded: The user skipped the call with a reason, or made no choice.
        NoUserError: No user was available.
    """
    call = _PendingCall(tool, arguments, arguments, formatted, command)
    if tool.run == "edit":
        edited = await _edit_arguments(ask, call, prepare)
        if _is_back(edited):
            raise CallEnded(_skipped_because(EDIT_CANCELLED), skipped=True)
        if isinstance(edited, NotAnswered | Unavailable):
            raise _undecided(edited)
        if edited is not None:
            call = edited
            if not call.is_command:
                return call.permit()
    return await _ask_until_decided(ask, call, prepare)


async def _ask_until_decided(ask: SafeAsk, call: _PendingCall, prepare: Prepare) -> Permission:
    while True:
        end = await ask(call.prompt())
        if not isinstance(end, Answered):
            raise _undecided(end)
        match end.value:
            case "run" | "run_turn" as word:
                return call.permit(remembered=word == "run_turn")
            case "skip" | "skip_turn" as word:
                return Permission(runs=False, remembered=word == "skip_turn")
            case "reason":
                await _ask_reason(ask, call.tool)
            case "edit":
                edited = await _edit_arguments(ask, call, prepare)
                if isinstance(edited, NotAnswered | Unavailable) and not _is_back(edited):
                    raise _not_permitted(edited)
                if isinstance(edited, _PendingCall):
                    call = edited
                    if not call.is_command:
                        return call.permit()


@dataclass(frozen=True, slots=True)
class _PendingCall:
    """A call that waits for permission.

    Attributes:
        original_arguments: The model's arguments.
        edited: Channel through which the user changed the arguments.
    """

    tool: OfferedTool
    original_arguments: Arguments
    arguments: Arguments
    formatted: str | None
    command: CommandFor
    edited: Channel | None = None

    @property
    def is_command(self) -> bool:
        """True if the user has to see the command line of edited arguments."""
        return self.command(self.arguments) is not None

    def edit(self, arguments: Arguments, channel: Channel | None) -> _PendingCall:
        """Return the call with other arguments, which do not count as edited if the model's."""
        text = format_visible_json(arguments)  # 1 and true are equal to Python
        if text == format_visible_json(self.arguments):
            return self
        if text == format_visible_json(self.original_arguments):
            channel = None
        return replace(self, arguments=arguments, formatted=None, edited=channel)

    def details(self) -> Iterator[PromptDetail]:
        command = self.command(self.arguments)
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

    def prompt(self) -> ActionPrompt:
        return ActionPrompt(
            text=f"Run {self.tool.origin} {spell_invisible(self.tool.name)} tool?",
            actions=permission_actions(self.tool.name, self.tool.covers),
            exhibits=tuple(self.details()),
            only_buttons=True,
        )

    def permit(self, *, remembered: bool = False) -> Permission:
        """Return the permission for the arguments on display."""
        arguments = self.arguments if self.edited else None
        return Permission(True, arguments, remembered=remembered, channel=self.edited)


async def _ask_reason(ask: SafeAsk, tool: OfferedTool) -> None:
    """Skip the call with the user's reason; return to ask again.

    Raises:
        CallEnded: Unless the user went back.
    """
    end = await ask(QuestionPrompt(_reason_question(tool)))
    if isinstance(end, Answered):
        text = str(end.value).strip()
        raise CallEnded(_skipped_because(text) if text else SKIPPED, skipped=True)
    if not _is_back(end):
        raise _not_permitted(end)


def _is_back(end: object) -> bool:
    """Return True if the user closed the prompt to return to the previous one."""
    return isinstance(end, NotAnswered) and end.end in ("cancelled", "declined")


def _skipped_because(reason: str) -> str:
    return f"{SKIPPED[:-1]}: {reason}"


def _reason_question(tool: OfferedTool) -> Question:
    return Question.text(
        "reason", f"Why should {spell_invisible(tool.name)} not run? (sent to the model)"
    )


async def _edit_arguments(
    ask: SafeAsk, call: _PendingCall, prepare: Prepare
) -> _PendingCall | NotAnswered | Unavailable | None:
    """Return the call with edited arguments; None if the user deleted all text.

    The user edits each text argument as text, and then the others as JSON.
    """
    texts, others = _split_arguments(call.tool, call.arguments)
    edited = dict(call.arguments)
    channel: Channel | None = None
    for question, name in _edit_questions(call.tool, texts, others):
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
    return call.edit(edited, channel)


def _split_arguments(
    tool: OfferedTool, arguments: Arguments
) -> tuple[dict[TextArgument, str], Arguments]:
    """Return the text arguments, and the others."""
    texts = {
        x: str(arguments[x.name]) for x in text_arguments(tool.definition.parameters, arguments)
    }
    names = {each.name for each in texts}
    return texts, {name: value for name, value in arguments.items() if name not in names}


def _edit_questions(
    tool: OfferedTool, texts: Mapping[TextArgument, str], others: Arguments
) -> Iterator[tuple[Question, str | None]]:
    """Yield each question of the editor, and the name of its argument (None: all others)."""
    name = spell_invisible(tool.name)
    for each, text in texts.items():
        question = Question.text("arguments", f"{spell_invisible(each.caption)} of {name}:")
        yield question.with_default(text), each.name
    if others or not texts:
        which = "Other arguments" if texts else "Arguments"
        question = Question.text("arguments", f"{which} of {name}, as JSON:")
        yield question.with_default(format_visible_json(others)), None


def _read_edited(
    text: str, name: str | None, edited: Arguments, others: Arguments, prepare: Prepare
) -> Arguments | str:
    """Return all arguments after an edit, or an error message."""
    if name is not None:
        return _prepare_or_explain({**edited, name: text}, prepare)
    kept = {key: value for key, value in edited.items() if key not in others}
    return _read_arguments(text, lambda given: prepare({**kept, **given}))


def _read_arguments(text: str, prepare: Prepare) -> Arguments | str:
    """Return the arguments in the JSON `text`, or an error message."""
    try:
        value = read_json(text)
    except ValueError as exc:
        return f"Invalid JSON: {exc}"
    if not isinstance(value, dict):
        return "Invalid JSON: expected an object"
    return _prepare_or_explain(value, prepare)


def _prepare_or_explain(arguments: Arguments, prepare: Prepare) -> Arguments | str:
    prepared = prepare(arguments)
    return prepared.message if isinstance(prepared, Failure) else prepared


def format_visible_json(value: JsonValue) -> str:
    """Return `value` as JSON for the user, in which every character is visible."""
    lines = indented_json(value).split("\n")
    return "\n".join(map(escape_invisible, lines)).replace("⟨", "\\u27e8")


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result that the model gets. `images` are sent only with an unedited text."""

    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


async def ask_delivery(ask: SafeAsk, tool: OfferedTool, result: Delivery) -> Delivery:
    """Ask if the model gets `result`. The mode `edit` edits it first.

    An editor that is closed or emptied decides nothing: the question follows.

    Raises:
        CallEnded: The user withholds the result, or made no choice.
        NoUserError: No user was available.
    """
    if tool.result == "edit" and (edited := await _edit_result(ask, tool, result)) is not None:
        return edited
    prompt = ActionPrompt(
        text=f"Deliver {spell_invisible(tool.name)} result to assistant?",
        actions=DELIVERY,
        exhibits=tuple(_result_details(result)),
        only_buttons=True,
    )
    while True:
        end = await ask(prompt)
        if isinstance(end, Unavailable):
            raise NoUserError(end)
        match end.value if isinstance(end, Answered) else "none":
            case "deliver":
                return result
            case "edit":
                try:
                    edited = await _edit_result(ask, tool, result)
                except NoUserError:
                    raise CallEnded(RESULT_EDIT_CANCELLED, skipped=True) from None
                if edited is not None:
                    return edited
            case _:
                raise _not_delivered(end)


def _result_details(result: Delivery) -> Iterator[PromptDetail]:
    yield PromptDetail("Error" if result.is_error else "Result", result.content)
    if result.images:
        yield PromptDetail(IMAGES, "\n".join(map(repr, result.images)))


async def _edit_result(ask: SafeAsk, tool: OfferedTool, result: Delivery) -> Delivery | None:
    """Return the edited result; None if the text was emptied or editing was cancelled."""
    question = Question.text(
        "result", f"Result of {spell_invisible(tool.name)}, as sent to the model:"
    )
    question = question.with_default(result.content)
    end = await ask(QuestionPrompt(question, consents=True))
    if isinstance(end, Unavailable):
        raise NoUserError(end)
    if _is_back(end):
        return None
    if isinstance(end, NotAnswered):
        raise _not_delivered(end)
    text = str(end.value)
    if not text.strip():
        return None
    return Delivery(text) if text != result.content else result


@dataclass(frozen=True, slots=True)
class Approval:
    """The decision about all configuration changes of one proposal.

    Attributes:
        decision: `unavailable` if no user was available or the time was over, with the `reason`.
            `interrupted` if an interrupt closed the prompt.
        by: Name of the user in a shared notebook.
    """

    decision: Literal["applied", "rejected", "interrupted", "unavailable"]
    channel: Channel | None = None
    reason: str = ""
    by: str | None = None


async def ask_approval(ask: SafeAsk, tool: str, changes: Sequence[ProposedChange]) -> Approval:
    """Ask, in one prompt, if the `changes` that `tool` proposed are applied.

    The prompt names the tool even if its style hides it.
    """
    prompt = ActionPrompt(
        text=f"⟳ Configuration delta proposed by tool '{spell_invisible(tool)}'",
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


_FILE_NOTICES: Mapping[tuple[DecisionKind, bool], str] = {
    ("permission", True): "▸ {} allows {} to run",
    ("permission", False): "▸ {} does not allow {} to run",
    ("result", True): "▸ {} allows the model to read the result of {}",
    ("result", False): "▸ {} withholds the result of {} from the model",
}
"""Notices about decisions of an answers file."""


class PermissionRequests:
    """Asks the user for permission and delivery, call by call."""

    def __init__(self, turn: TurnContext, line: PromptLine) -> None:
        self._turn = turn
        self._line = line

    def decide_by_file(self, kind: DecisionKind, tool: OfferedTool) -> bool | None:
        """Return the decision in the answers file, which is displayed; None: ask the user.

        Raises:
            CallEnded: No user is available.
        """
        decided = self._turn.state.prepared.decision(kind, tool.name)
        if isinstance(decided, GivenAnswer | DeclinedByFile):
            agrees = isinstance(decided, GivenAnswer)
            text = _FILE_NOTICES[kind, agrees].format(decided.place, spell_invisible(tool.name))
            self._turn.display(Notice(text))
            return agrees
        unavailable = self._turn.prompter.unavailable()
        if unavailable is not None:
            raise self._fail_without_user(tool, kind, unavailable.reason)
        return None

    async def request_run(self, call: Call, tool: OfferedTool, context: ToolContext) -> None:
        """Wait until the user permits `call`, or remembers an earlier permission for it.

        The user may edit the arguments.

        Raises:
            CallEnded: The user does not permit it.
        """
        self._turn.display(Waits(call.key, f"your permission to run {call.title}", person=True))
        async with self._line.turn() as ask:
            # The user may have decided about this call together with another one meanwhile.
            remembered = self._turn.state.permission(tool, call.arguments)
            if remembered is False:
                raise CallEnded(SKIPPED_REMEMBERED, skipped=True)
            if remembered:
                return
            try:
                decided = await ask_permission(
                    ask,
                    tool,
                    call.arguments,
                    lambda given: prepare_arguments(tool, given),
                    formatted=call.formatted,
                    command=lambda arguments: tool.executor.command_line(arguments, context),
                )
            except NoUserError as exc:
                raise self._fail_without_user(tool, "permission", exc.reason) from None
        if decided.remembered:
            shown = call.arguments if decided.arguments is None else decided.arguments
            self._turn.state.remember_permission(tool, shown, runs=decided.runs)
        if not decided.runs:
            raise CallEnded(SKIPPED, skipped=True)
        if decided.arguments is not None:
            call.arguments, call.edited, call.formatted = decided.arguments, decided.channel, None
            call.needs_redisplay = True

    async def request_delivery(self, call: Call, tool: OfferedTool, result: Delivery) -> Delivery:
        """Return the result that the user, or the answers file, lets the model read.

        Raises:
            CallEnded: The result is withheld, or no user is available.
        """
        delivered = self.decide_by_file("result", tool)
        if delivered is not None:
            if delivered:
                return result
            raise CallEnded(NOT_DELIVERED, skipped=True)
        call.delivering = True
        self._turn.display(
            Waits(call.key, f"your decision on the result of {call.title}", person=True)
        )
        async with self._line.turn(after_run=True) as ask:
            try:
                return await ask_delivery(ask, tool, result)
            except NoUserError as exc:
                raise self._fail_without_user(tool, "result", exc.reason) from None

    def _fail_without_user(self, tool: OfferedTool, kind: DecisionKind, reason: str) -> CallEnded:
        """Note that a decision needs a user, and return the end of the call."""
        self._turn.state.unavailable_reason = reason
        self._turn.state.prepared.note_open(OpenDecision(kind, tool.name, reason))
        what, setting = f"{tool.name} did not run: it needs the user's permission", "run"
        if kind == "result":
            setting = "result"
            what = (
                f"{tool.name} ran, but its result is not delivered: that needs the user's approval"
            )
        return CallEnded(
            f"{what}, and no user is available: {reason}. The user can set "
            f'conversation.tools.{tool.name}.{setting} = "unattended". Do not retry '
            "this tool call in this turn.",
            is_error=True,
        )
