"""What the program reads in a conversation: requests, turns, compactions, calls, and answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

import jp_nb as jp
from jp_nb.agent.inquiries.question_entries import make_closing_entry, make_inquiry_request
from jp_nb.config.tree.turn_bounds import parse_bound
from jp_nb.interop.directory_reader import read_directory
from jp_nb.interop.directory_writer import build_directory
from jp_nb.record.changes.changes_by_turn import (
    select_changes_before_first_turn,
    select_changes_since_last_turn,
)
from jp_nb.record.compactions.compaction import (
    find_compactions,
    find_last_step,
    list_active_compactions,
)
from jp_nb.record.compactions.compaction_range import (
    CompactionBounds,
    TurnRange,
    widen_to_summaries,
)
from jp_nb.record.documents.conversation_fork import fork_conversation
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.entry_notices import list_notices
from jp_nb.record.entries.entry_kinds import KNOWN
from jp_nb.record.entries.inquiry_events import InquirySource
from jp_nb.record.entries.outcomes import QuestionOutcome
from jp_nb.record.entries.pairs import match_pairs
from jp_nb.record.reading import question_history, question_log_entries
from jp_nb.record.reading.question_history import QuestionHistory
from jp_nb.record.reading.recorded_answers import format_recorded_answer
from jp_nb.record.reading.request_spans import find_requests
from jp_nb.record.reading.turn_reader import read_turn
from jp_nb.record.request_context.context_builder import build_context, build_turns_context
from jp_nb.record.unfinished_calls import (
    CallProgress,
    list_open_calls,
    make_finished_entries,
    pick_latest_progress,
    read_progress,
)
from tests.kit.kinds import is_kind

FORKED_AT = datetime(2026, 3, 18, 13, 19, 6, tzinfo=UTC)


class RecordView:
    """What the program reads in a conversation, as plain data.

    `RecordView(new_stream(*entries))` is for stored entries, `RecordView(session.stream)` and
    `RecordView(turn.record.stream)` are for the conversation of a session and of a turn. Each call
    reads the conversation again.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    @staticmethod
    def event_kinds() -> list[str]:
        """Return the stored kinds of all events of a record."""
        return list(KNOWN)

    # --- requests ----------------------------------------------------------------------------

    def sent(self, providers: Sequence[str] = ("",), **options: Any) -> list[dict[str, Any]]:
        """Return the entries that the next request sends, as stored, each with its `images` and the
        `provider` that it was recorded with. The arguments are those of `context`.
        """
        return [
            {**item.entry.to_raw(), "images": list(item.images), "provider": item.provider}
            for item in self.context(providers, **options)
        ]

    def sent_kinds(self, **options: Any) -> list[str]:
        """Return the kinds of the entries that the next request sends."""
        return [entry["type"] for entry in self.sent(**options)]

    def sent_texts(self, **options: Any) -> list[str]:
        """Return the text, or the arguments as text, of each entry that the next request sends."""
        payload = ("content", "message", "reasoning", "arguments")
        return [
            next(str(entry[key]) for key in payload if key in entry)
            for entry in self.sent(**options)
        ]

    def context(
        self,
        providers: Sequence[str] = ("",),
        *,
        in_turn: bool = False,
        only_turns: tuple[int, int] | None = None,
    ) -> Any:
        """Return the context of the next request, for a provider of a test.

        Args:
            providers: The provider at the beginning, and after each configuration change.
            in_turn: True while the last turn runs.
            only_turns: First and last turn to send, whole. By default, all turns as compacted.
        """
        if only_turns is not None:
            return build_turns_context(self.stream, providers, TurnRange(*only_turns))
        return build_context(self.stream, providers, in_turn=in_turn)

    def requests(self) -> list[tuple[str, int, int, bool]]:
        """Return the requests to models: name, number of entries before it, end of its response,
        and True if it begins a cycle.
        """
        found = find_requests(self.stream)
        return [(each.name, each.position, each.end, each.is_new_cycle) for each in found]

    # --- turns -------------------------------------------------------------------------------

    def turns(self, status: str = "") -> list[jp.Turn]:
        """Return the turns as `jp.conversation().turns` has them."""
        images = self.stream.images
        return [
            read_turn(turn.number, turn.entries, status=status, images=images)
            for turn in self.stream.turns()
        ]

    def open_inquiries(self) -> list[str]:
        """Return the ids of the questions of the current turn that have no end."""
        turn = self.stream.current_turn()
        unanswered = sorted(match_pairs(enumerate(turn)).unanswered)
        entries = [turn[index] for index in unanswered]
        return [entry.id for entry in entries if is_kind(entry, "inquiry_request")]

    def open_calls(self, *journal: Any) -> list[tuple[str, str | None, bool]]:
        """Return the calls of the current turn without a result: id, last known stage, and True if
        the tool may have run. `journal` has the stored progress of calls.
        """
        calls = list_open_calls(self.stream, _read_journal(journal))
        return [(call.request.id, call.stage, call.may_have_run) for call in calls]

    def open_call_events(self) -> list[str]:
        """Return the event ids of the calls of the current turn without a result."""
        return [call.event_id for call in list_open_calls(self.stream, {})]

    def append_finished(self, *journal: Any) -> list[dict[str, Any]]:
        """Append the entries of open calls that have finished, and return them as stored."""
        start = len(self.stream)
        self.stream.append(*make_finished_entries(self.stream, _read_journal(journal)))
        return list(self.stream.raw[start:])

    def notices(self) -> list[str]:
        """Return a line for each entry that is kept but not fully used."""
        return list_notices(self.stream)

    # --- compactions -------------------------------------------------------------------------

    def compactions(self, *, with_reverted: bool = False) -> list[tuple[int, int, str | None]]:
        """Return the first turn, the last turn, and the summary of each compaction that applies."""
        placed = find_compactions(self.stream.entries)
        if not with_reverted:
            placed = [each for each in placed if not each.is_reverted]
        return [_describe_compaction(each) for each in placed]

    def last_compaction_step(self) -> list[tuple[int, int, str | None]]:
        """Return the compactions that the next undo reverts, as `compactions` does."""
        found = find_last_step(list_active_compactions(self.stream.entries))
        return [_describe_compaction(each) for each in found]

    def find_range(
        self,
        now: datetime,
        *,
        keep: tuple[str, str] | None = None,
        bounds: tuple[str, str] | None = None,
        in_turn: bool = False,
    ) -> tuple[int, int] | None:
        """Return the first and the last turn to compact, or None if there are none.

        Args:
            keep: The bounds of a rule, `keep_first` and `keep_last`.
            bounds: The bounds of a command, `--from` and `--to`.
        """
        found = CompactionBounds(self.stream, now, in_turn=in_turn)
        if bounds is not None:
            begin, end = map(parse_bound, bounds)
            turns = found.find_between(begin, end)
        else:
            assert keep is not None
            first, last = keep
            turns = found.find_between_kept(
                parse_bound(first), parse_bound(last, allows_last_compaction=False)
            )

        return None if turns is None else (turns.first, turns.last)

    @staticmethod
    def widen(turns: tuple[int, int], summaries: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return the first and the last of `turns` after they are extended to whole `summaries`."""
        ranges = [TurnRange(*each) for each in summaries]
        found = widen_to_summaries(TurnRange(*turns), ranges)
        return found.first, found.last

    # --- copies ------------------------------------------------------------------------------

    def fork(self, keep_turns: int | None = None, *, clock: Any = None) -> Any:
        """Return the conversation that begins with the first `keep_turns` turns, or with all.

        Without a `clock`, the ids of its new entries are `id-1`, `id-2`, and so on.
        """
        numbers = count(1)
        number_ids = None if clock else lambda: f"id-{next(numbers)}"
        return fork_conversation(
            self.stream,
            keep_turns=keep_turns,
            clock=clock or (lambda: FORKED_AT),
            made="live",
            taken_ids={self.stream.id},
            new_id=number_ids,
        )

    def inherited_changes(self) -> list[dict[str, Any]]:
        """Return the settings of the changes before the first turn and after the last one, which
        another conversation inherits.
        """
        before = select_changes_before_first_turn(self.stream)
        since = select_changes_since_last_turn(self.stream)
        return [dict(delta.delta) for delta in (*before, *since)]

    def export(self, dialect: Any = "native") -> tuple[dict[str, Any], list[str]]:
        """Return the entries of `events.json` of a directory of JP, and the dropped fields."""
        written = build_directory(Document(self.stream).to_json(), dialect=dialect)
        return dict(written.files), list(written.dropped)

    def exported_again(self) -> dict[str, Any]:
        """Return the `jp` object after an export to a directory of JP, and an import of it."""
        files, _ = self.export()
        return read_directory("17700000001-x", files, clock=lambda: FORKED_AT)

    # --- questions ---------------------------------------------------------------------------

    def record_question(
        self, question: jp.Question, answer: Any = None, *marks: Any, tool: str = "t"
    ) -> None:
        """Append `question` of a tool and its answer in a form, with `marks` such as `auto`."""
        outcome = QuestionOutcome("answered", "form", frozenset(marks))
        source = InquirySource.tool(tool)
        self.stream.append(
            make_inquiry_request("c.q.1", source, question),
            make_closing_entry("c.q.1", question, outcome, answer),
        )

    def logged_questions(self, start: int = 0) -> list[dict[str, Any]]:
        """Return the log entries of the questions that ended from entry `start` on."""
        return [
            dict(entry) for entry in question_log_entries.iter_ended_questions(self.stream, start)
        ]

    def answers(self) -> Any:
        """Return the history of the answered questions, as `%jp qna` and the models read it."""
        return QuestionHistory(question_history.list_recorded_answers(self.stream))

    @staticmethod
    def answer_text(answer_type: Any, answer: Any) -> str:
        """Return `answer` as text, for the recorded `answer_type` of its question."""
        return format_recorded_answer(answer_type, answer)


def _read_journal(journal: Sequence[Any]) -> dict[str, CallProgress]:
    latest: dict[str, CallProgress] = {}
    for read in filter(None, map(read_progress, journal)):
        call, progress = read
        latest[call] = pick_latest_progress(latest.get(call, progress), progress)
    return latest


def _describe_compaction(placed: Any) -> tuple[int, int, str | None]:
    summary = placed.entry.summary
    text = None if summary is None else summary.summary
    return placed.entry.from_turn, placed.entry.to_turn, text
