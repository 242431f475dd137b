"""Read the entries of a turn into `Turn`, the value that users and displays read.

A call or a question is one part of the turn together with its result or answer.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jp_nb.images import Image
from jp_nb.json_values import copy_json
from jp_nb.record.entries.entry_images import NO_ENTRY_IMAGES, EntryImages, RecordedImages
from jp_nb.record.entries.events import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
    is_usage_mark,
    read_recorded_by,
    read_typed,
)
from jp_nb.record.entries.inquiry_events import InquiryRequest, InquiryResponse
from jp_nb.record.entries.outcomes import read_question_outcome
from jp_nb.record.entries.proposed_by import read_proposed_by
from jp_nb.record.entries.token_usage import sum_usage
from jp_nb.record.entries.tool_choice_marks import find_missing_call
from jp_nb.record.entries.unanswered_turns import NoAnswer, is_unanswered, read_no_answer
from jp_nb.record.reading.call_marks import EDITED_ARGUMENTS_KEY, is_skipped, read_rule
from jp_nb.record.reading.marks import is_continuation, is_note_to_model, is_schema_retry
from jp_nb.record.reading.turn_view import (
    ConfigChange,
    Inquiry,
    NoteToModel,
    RejectedAnswer,
    StructuredData,
    ToolCall,
    Turn,
    TurnPart,
    TurnText,
)
from jp_nb.record.stream import ConversationStream

EDIT_CELLS_NAME = "edit_cells"
"""The tool whose structured result has edits of cells."""


def read_turn(
    number: int,
    entries: Sequence[Entry],
    *,
    status: str = "completed",
    images: RecordedImages | None = None,
) -> Turn:
    """Return the turn with `entries`. `images` are those of its conversation.

    `status` is that of the turn in this kernel. The record has it only for a turn without an
    answer, in the mark at its end (`unanswered_turns.py`).
    """
    reader = _TurnReader(images)
    for entry in entries:
        reader.add(entry)

    left_out = is_unanswered(entries)
    mark = reader.mark if left_out else None
    uncalled = None if left_out else find_missing_call(entries)  # the tool that was required
    taken_back = 0  # the number of changes that the mark reverts
    if mark is not None:
        changes = sum(isinstance(part, ConfigChange) for part in reader.parts)
        status = mark.ended
        taken_back = min(mark.takes_back, changes)

    return Turn(
        number=number,
        parts=tuple(reader.parts),
        usage=sum_usage(entries),
        status=status,
        left_out=left_out,
        taken_back=taken_back,
        uncalled=uncalled,
        images=reader.request_images,
    )


def read_turns(stream: ConversationStream) -> list[Turn]:
    """Return all turns of `stream`, with unknown status unless the record contains it."""
    return [
        read_turn(turn.number, turn.entries, status="", images=stream.images)
        for turn in stream.turns()
    ]


class _TurnReader:
    """Reads the entries of a turn in their order. A call or a question and its end are one part.

    The entries may begin with the changes of an earlier attempt that failed before its request was
    recorded, and its mark (`NoAnswer`). These are not part of the turn.

    Attributes:
        parts: The parts so far.
        request_images: The images of the requests.
        mark: The mark of the turn, if it ended without an answer.
    """

    def __init__(self, images: RecordedImages | None) -> None:
        self._images = images
        self.request_images: tuple[Image, ...] = ()
        self.parts: list[TurnPart] = []
        self.mark: NoAnswer | None = None
        self._began = False  # True after the first request
        # Indexes in `parts` of calls without a result, and of questions without an end, by id.
        self._calls: dict[str, list[int]] = {}
        self._inquiries: dict[str, list[int]] = {}

    def add(self, entry: Entry) -> None:
        """Add the part of the turn that `entry` is, or complete the call or question it ends."""
        match entry:
            case ChatRequest():
                self._add_request(entry)
            case ChatResponse(kind="message", message=message):
                self._add_text(message or "", continues=is_continuation(entry))
            case ChatResponse(kind="structured"):
                self.parts.append(StructuredData(copy_json(entry.data)))
            case ToolCallRequest(id=key, name=name, arguments=arguments):
                self._calls.setdefault(key, []).append(len(self.parts))
                self.parts.append(ToolCall(key, name, copy_json(arguments)))
            case ToolCallResponse(id=key) if self._calls.get(key):
                self._end_call(self._calls[key].pop(0), entry)
            case InquiryRequest(id=key):
                self._inquiries.setdefault(key, []).append(len(self.parts))
                kind = entry.question.answer_type.to_raw()
                self.parts.append(Inquiry(key, entry.question.text, answer_type=kind))
            case InquiryResponse(id=key) if self._inquiries.get(key):
                self._end_inquiry(self._inquiries[key].pop(0), entry)
            case ConfigDelta():
                self._add_change(entry)

    def _add_request(self, entry: ChatRequest) -> None:
        """Add a request of the user, or a message of the program, which never is the first one."""
        if self._began and is_schema_retry(entry):
            self.parts.append(RejectedAnswer(entry.content))
            return
        if self._began and is_note_to_model(entry):
            self.parts.append(NoteToModel(entry.content))
            return

        self._began = True
        shown = self._find_images(entry)
        self.request_images += shown.images
        text = "\n".join([entry.content, *shown.notes])
        by = read_recorded_by(entry.metadata)
        typed = read_typed(entry.metadata)
        self.parts.append(TurnText(text, by_person=True, by=by, typed=typed))

    def _find_images(self, entry: Entry) -> EntryImages:
        return NO_ENTRY_IMAGES if self._images is None else self._images.images_of(entry)

    def _add_change(self, entry: ConfigDelta) -> None:
        mark = read_no_answer(entry)
        if mark is not None:
            self._add_mark(mark)
        elif not is_usage_mark(entry):
            change = ConfigChange(
                copy_json(entry.delta),
                entry.unsets,
                begins_again=entry.op == "reset",
                proposed_by=read_proposed_by(entry),
                uncovers=entry.uncovers,
            )
            self.parts.append(change)

    def _add_mark(self, mark: NoAnswer) -> None:
        """Note the mark of this turn. That of an earlier turn removes the changes before it."""
        if self._began:
            self.mark = mark
            return

        count = mark.takes_back
        while count and self.parts and isinstance(self.parts[-1], ConfigChange):
            del self.parts[-1]
            count -= 1

    def _add_text(self, message: str, *, continues: bool) -> None:
        previous = self.parts[-1] if continues and self.parts else None
        if isinstance(previous, TurnText) and not previous.by_person:
            self.parts[-1] = TurnText(previous.content + message)
        else:
            self.parts.append(TurnText(message))

    def _end_inquiry(self, index: int, entry: InquiryResponse) -> None:
        asked = self.parts[index]
        assert isinstance(asked, Inquiry)
        self.parts[index] = replace(
            asked, ended=read_question_outcome(entry), answer=copy_json(entry.answer)
        )

    def _end_call(self, index: int, entry: ToolCallResponse) -> None:
        """Complete the call at `index` with its result and the arguments that it ran with."""
        called = self.parts[index]
        assert isinstance(called, ToolCall)

        shown = self._find_images(entry)
        call = replace(
            called,
            content="\n".join([entry.content, *shown.notes]),
            is_error=entry.is_error,
            images=shown.images,
            skipped=is_skipped(entry),
            rule=read_rule(entry),
        )
        if called.name == EDIT_CELLS_NAME:  # other structured results may be large
            call = replace(call, structured=copy_json(entry.metadata.get("structured")))

        self.parts[index] = _put_edited_arguments(call, entry)


def _put_edited_arguments(call: ToolCall, entry: ToolCallResponse) -> ToolCall:
    """Return `call` with the arguments that a person edited, according to its result `entry`."""
    edited = entry.metadata.get(EDITED_ARGUMENTS_KEY)
    if not isinstance(edited, dict):
        return call

    channel = entry.metadata.get("channel")
    return replace(
        call,
        arguments=copy_json(edited),  # a copy: the caller may change it
        edited_by="person",
        channel=channel if isinstance(channel, str) else None,
        requested_arguments=call.arguments,
    )
