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
from jp_nb.agent.turn_memory import TurnMemory
from jp_nb.agent.turn_plan import TurnPlan
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.agent.turn_times import TurnTimes
from jp_nb.agent.usage_counter import UsageCounter
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.record.entries.inquiry_events import InquiryQuestion
from jp_nb.record.unfinished_calls import CallProgress
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.secrets.secret_answers import SecretAnswers
from jp_nb.toolkit.tool_context import SharedContext


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """The answer to the same `question` of the same call, before the turn was interrupted.

    `channel` is the source of the answer, such as `form`; None if it is unknown.
    """

    question: InquiryQuestion
    answer: JsonValue
    channel: str | None = None


@dataclass(slots=True)
class TurnContext:
    """Ports of a turn, and the state that its requests and tool calls share.

    The first group of attributes are ports: the session sets them before the turn. The second group
    is state that the turn changes.

    Attributes:
        record: The conversation, and the context of its requests.
        prompter: Asks the user.
        cell: Runs functions in the cell's thread.
        display: Receives the events of the turn.
        prepared: The answers file of the session.
        secrets: The secrets that users of the session entered, to hide them.
        recorded: Answers with precedence over all others, by the id of the inquiry.
        kept_rules: Rules that the user kept for further turns.
        shared: The fields of a `ToolContext` that all calls share.
        on_tool_error: Receives the exception of a tool, with a traceback that begins in the tool.
        progress: Stores the progress of calls, by their event ids, in the journal. Before a tool
            starts, it flushes the journal to disk. It is also called on the cell's thread.
        applies_changes: False outside of a turn, where no configuration change takes effect.
        sleep: Waits for a number of seconds before a request is sent again.
        clock: Seconds for the time between two interrupts, such as `last_interrupt`.

        tokens: Counts the tokens of the turn.
        times: Measures the times of the turn.
        memory: Answers and decisions of the user for the rest of the turn.
        plan: The plan that the user has to approve before the turn may change something.
        attempts: Number of times a question was asked, by `<call>.<question>`.
        last_interrupt: Time of the last interrupt by `clock`; None without one.
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
    kept_rules: KeptRules = field(default_factory=lambda: SessionRules(scopes=()))
    shared: SharedContext = field(default_factory=SharedContext)
    on_tool_error: Callable[[BaseException], None] | None = None
    progress: Callable[[Mapping[str, CallProgress]], None] | None = None
    applies_changes: bool = True
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = monotonic

    tokens: UsageCounter = field(default_factory=UsageCounter)
    times: TurnTimes = field(default_factory=TurnTimes)
    memory: TurnMemory = field(default_factory=TurnMemory)
    plan: TurnPlan = field(default_factory=TurnPlan)
    attempts: Counter[str] = field(default_factory=Counter)
    last_interrupt: float | None = None
    image_count: int = 0
    unavailable_reason: str | None = None

    def note_open(self, decision: OpenDecision) -> None:
        """Note a decision that needs the user, with this turn and the model's last words in it."""
        turn = max(self.record.stream.turn_count - 1, 0)
        self.prepared.note_open(replace(decision, turn=turn, words=self.record.last_model_text))

    def make_inquiry_id(self, call_id: str, question_id: str) -> str:
        """Return a new id `<call>.<question>.<attempt>`, unique in the turn."""
        key = f"{call_id}.{question_id}"  # ids may contain dots: equal texts share a count
        self.attempts[key] += 1
        return f"{key}.{self.attempts[key]}"


@dataclass(frozen=True, slots=True)
class BatchContext:
    """Context of a batch, which is all tool calls of one response of the model.

    Attributes:
        inquiry: Asks a model the questions that the configuration routes to it.
        catalog: Documentation of the offered tools.
        tools: The offered tools, by name.
        basis: The effective configuration.
        results: Recorded results in the order of the calls. If set, no tool runs.
    """

    inquiry: InquiryBackend | None = None
    catalog: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, OfferedTool] = field(default_factory=dict)
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    results: Sequence[RecordedResult] | None = None
