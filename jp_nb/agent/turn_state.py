"""State of a turn that its requests and its tool calls share, and the ports that they use.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from pydantic import JsonValue

from jp_nb.agent.approvals.permission_rules import KeptRules, SessionRules
from jp_nb.agent.calls.recorded_results import RecordedResult
from jp_nb.agent.display import Display
from jp_nb.agent.inquiries.inquiry import InquiryBackend
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prepared_answers import OpenDecision, PreparedAnswers
from jp_nb.agent.prompting.prompts import Prompter
from jp_nb.agent.turn_plan import TurnPlan
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.agent.turn_times import TurnTimes
from jp_nb.agent.usage_counter import UsageCounter
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.json_values import sorted_json
from jp_nb.record.entries.events import InquiryQuestion
from jp_nb.record.interrupted_turn import CallProgress
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.question import Question
from jp_nb.toolkit.secrets.secret_answers import SecretAnswers
from jp_nb.toolkit.tool_context import SharedContext


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """The answer to the same `question` of the same call, before the turn was interrupted."""

    question: InquiryQuestion
    answer: JsonValue
    channel: str | None = None


def is_reusable(question: Question) -> bool:
    """Return True if answers to `question` may be reused in the turn."""
    return question.persistence == "turn" and not question.answer_type.has_secret


@dataclass(slots=True)
class TurnContext:
    """Ports of a turn, and its answers and decisions, which its requests and tool calls share.

    `prepared` and `secrets` are those of the session. Answers and decisions are not stored.

    Attributes:
        recorded: Answers with precedence over all others, by the id of the inquiry.
        on_tool_error: Receives the exception of a tool, with a traceback that begins in the tool.
        progress: Stores the progress of calls, by their event ids, in the journal. Before a tool
            starts, it flushes the journal to disk. It is also called on the cell's thread.
        applies_changes: False outside of a turn, where no configuration change takes effect.
        clock: Seconds for the time between two interrupts, such as `last_interrupt`.
        answers: Remembered answers by `<tool>.<question id>`.
        permissions: Remembered permissions by tool, rule, and arguments ("" for all), each with its
            tool.
        kept_rules: Rules that the user kept for further turns.
        plan: The plan that the user has to approve before the turn may change something.
        attempts: Number of times a question was asked, by `<call>.<question>`.
        image_count: Number of images in the turn, including results that wait for delivery.
        unavailable_reason: Set when a decision needed a user and none was available.
    """

    record: TurnRecord
    prompter: Prompter
    cell: CellThread
    display: Display
    prepared: PreparedAnswers
    secrets: SecretAnswers = field(default_factory=SecretAnswers)
    recorded: Mapping[str, RecordedAnswer] = field(default_factory=dict)
    tokens: UsageCounter = field(default_factory=UsageCounter)
    times: TurnTimes = field(default_factory=TurnTimes)
    shared: SharedContext = field(default_factory=SharedContext)
    on_tool_error: Callable[[BaseException], None] | None = None
    progress: Callable[[Mapping[str, CallProgress]], None] | None = None
    applies_changes: bool = True
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = monotonic
    answers: dict[str, JsonValue] = field(default_factory=dict)
    permissions: dict[tuple[str, str], tuple[OfferedTool, bool]] = field(default_factory=dict)
    kept_rules: KeptRules = field(default_factory=lambda: SessionRules(scopes=()))
    plan: TurnPlan = field(default_factory=TurnPlan)
    attempts: Counter[str] = field(default_factory=Counter)
    last_interrupt: float | None = None
    image_count: int = 0
    unavailable_reason: str | None = None

    def find_permission(
        self, tool: OfferedTool, arguments: Mapping[str, JsonValue], asked_by: str = ""
    ) -> bool | None:
        """Return the remembered decision for `tool` with these arguments, if any.

        `asked_by` is the rule that asks about this call; "" without one. A permission for the whole
        tool does not cover a call that a rule asks about. Each permission ends when the server of
        the tool announces changes.
        """
        exact_call = f"{asked_by}{sorted_json(dict(arguments))}"
        for covered in ("", asked_by, exact_call):
            remembered = self.permissions.get((tool.name, covered))
            if remembered is None:
                continue

            remembered_tool, may_run = remembered
            is_for_whole_tool = not covered
            if remembered_tool != tool:
                continue
            if may_run and is_for_whole_tool and asked_by:
                continue
            if may_run and tool.executor.is_outdated:
                continue
            return may_run

        return None

    def remember_permission(
        self,
        tool: OfferedTool,
        arguments: Mapping[str, JsonValue],
        *,
        runs: bool,
        asked_by: str = "",
    ) -> None:
        """Reuse a decision about a call for the rest of the turn.

        A permission covers the displayed arguments, or the tool, and the rule `asked_by` which the
        user was asked. A refusal covers the tool.
        """
        covered = asked_by if runs else ""
        if runs and tool.covers == "arguments":
            covered += sorted_json(dict(arguments))
        self.permissions[tool.name, covered] = (tool, runs)

    def note_open(self, decision: OpenDecision) -> None:
        """Note a decision that needs the user, with this turn and the model's last words in it."""
        turn = max(self.record.stream.turn_count - 1, 0)
        self.prepared.note_open(replace(decision, turn=turn, words=self.record.last_words))

    def make_inquiry_id(self, call_id: str, question_id: str) -> str:
        """Return a new id `<call>.<question>.<attempt>`, unique in the turn."""
        key = f"{call_id}.{question_id}"  # ids may contain dots: equal texts share a count
        self.attempts[key] += 1
        return f"{key}.{self.attempts[key]}"

    def find_remembered_answer(self, tool: str, question: Question) -> JsonValue:
        """Return the remembered answer to `question` if it is valid, else None."""
        if not is_reusable(question):
            return None
        answer = self.answers.get(f"{tool}.{question.id}")
        if answer is None or question.misfit(answer):
            return None
        return answer

    def remember_answer(self, tool: str, question: Question, answer: JsonValue) -> None:
        """Reuse `answer` for the rest of the turn, if `question` allows it."""
        if is_reusable(question):
            self.answers[f"{tool}.{question.id}"] = answer


@dataclass(frozen=True, slots=True)
class BatchContext:
    """Context of all calls of a batch.

    Attributes:
        inquiry: Asks a model the questions that the configuration routes to it.
        catalog: Documentation of the offered tools.
        basis: The effective configuration.
        results: Recorded results in the order of the calls. If set, no tool runs.
    """

    inquiry: InquiryBackend | None = None
    catalog: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, OfferedTool] = field(default_factory=dict)
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    results: Sequence[RecordedResult] | None = None
