"""State of one tool call, and limits for its images.

Source: `docs/turns.md`, `docs/record.md`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.prompts import Channel
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.config.tree.app import Record
from jp_nb.images import Image, find_image_problem
from jp_nb.json_values import copy_json
from jp_nb.record.events import ToolCallRequest, ToolCallResponse
from jp_nb.record.outcomes import QuestionOutcome
from jp_nb.tools.base import DeltaRejection, error_summary
from jp_nb.tools.outcome import Failure
from jp_nb.tools.parameters import coerce_arguments

MAX_LISTED_OMISSIONS: Final = 20
"""Maximum number of omitted images that are listed. The others are counted."""


@dataclass(frozen=True, slots=True)
class LimitedImages:
    """Images within the limits of a turn.

    Attributes:
        images: Without duplicates, in order.
        omitted: One line for each other image, which replaces the image for the model.
    """

    images: tuple[Image, ...] = ()
    omitted: tuple[str, ...] = ()

    def add_omissions_to(self, text: str) -> str:
        """Return `text` followed by the lines about omitted images."""
        lines = list(self.omitted[:MAX_LISTED_OMISSIONS])
        more = len(self.omitted) - len(lines)
        if more:
            lines.append(f"[{more} more omitted]")
        return "\n".join([text, *lines] if text else lines)


NO_IMAGES: Final = LimitedImages()


def limit_images(images: Iterable[Image], limits: Record, *, before: int) -> LimitedImages:
    """Return the `images` within `limits`, if the turn has that many images `before` them."""
    kept: dict[str, Image] = {}
    omitted: list[str] = []
    for image in images:
        if image.digest in kept:
            continue
        why = _omission_reason(image, limits, before + len(kept))
        if why is None:
            kept[image.digest] = image
        else:
            omitted.append(image.left_out(why))
    return LimitedImages(tuple(kept.values()), tuple(omitted))


def _omission_reason(image: Image, limits: Record, before: int) -> str | None:
    if len(image.content) > limits.image_max_bytes:
        return f"record.image_max_bytes is {limits.image_max_bytes}"
    if before >= limits.images_per_turn:
        return f"record.images_per_turn is {limits.images_per_turn}"
    return find_image_problem(image)


def format_image_count(images: Sequence[object]) -> str:
    """Return the number of images: `1 image`."""
    return f"{len(images)} image{'' if len(images) == 1 else 's'}"


@dataclass(slots=True, eq=False)
class Call:
    """One tool call. `tool` is None if it is not available.

    Attributes:
        index: Position among the calls of the batch.
        number: Position among the calls of the batch with the same id. Models repeat ids.
        bad_arguments: Parse error of the model's arguments.
        event_id: Event id of the request, for the journal.
        arguments: Effective arguments.
        edited: Set if the user changed the arguments.
        answers: Answers to the tool's questions so far.
        question_ends: Outcomes of these questions.
        reply: Message of the user to the model, in place of answers.
        automatic_answer_counts: Number of answers without the user, by question id.
        rejections: Number of proposed configuration changes that were not applied.
        rejection: Reason for the last of them, for the tool.
        formatted: Arguments as a formatter wrote them.
        is_displayed: True if the call is on display.
        needs_redisplay: True if its display is out of date.
        texts_in_prompt: True if a prompt displays the text arguments.
        may_have_run: True if the call may have run before a restart or a crash.
        delivering: True if the user is asked about the result.
        structured: Data of the result for the record. It is recorded only with the text
            `delivered`, because the user may edit the text.
        delivered: Text of the result, before the user edits it.
        shown_images: Images for the model. They are omitted if the user edits the text.
        whole_chars: Length of the result before truncation, in characters.
        was_interrupted: True if an interrupt ended the tool's function.
        task: The task that runs the call. Another one is abandoned: it must not change the call.
        response: Final: once it is set, nothing changes.
        traceback: For the user only.
        seconds: Duration of all runs, without the time for prompts.
    """

    request: ToolCallRequest
    tool: OfferedTool | None
    bad_arguments: str | None = None
    event_id: str = ""
    index: int = 0
    number: int = 1
    arguments: dict[str, JsonValue] = field(default_factory=dict)
    edited: Channel | None = None
    answers: dict[str, JsonValue] = field(default_factory=dict)
    question_ends: dict[str, QuestionOutcome] = field(default_factory=dict)
    reply: str | None = None
    automatic_answer_counts: Counter[str] = field(default_factory=Counter)
    rejections: int = 0
    rejection: DeltaRejection | None = None
    formatted: str | None = None
    is_displayed: bool = False
    needs_redisplay: bool = False
    texts_in_prompt: bool = False
    ran: bool = False
    may_have_run: bool = False
    delivering: bool = False
    structured: JsonValue = None
    delivered: str | None = None
    shown_images: LimitedImages = NO_IMAGES
    whole_chars: int | None = None
    was_interrupted: bool = False
    task: asyncio.Task[bool] | None = None
    response: ToolCallResponse | None = None
    traceback: str | None = None
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """Unique id in the batch."""
        return self.request.id if self.number == 1 else f"{self.request.id}#{self.number}"

    @property
    def title(self) -> str:
        """Display name of the tool."""
        return "a tool" if self.tool is not None and self.tool.hidden else self.request.name

    def reset(self) -> None:
        """Reset the call for another run. `may_have_run` remembers the earlier one."""
        self.may_have_run |= self.ran
        fresh = Call(self.request, self.tool)
        for each in fields(self):
            if each.name not in _KEPT_ON_RESET:
                setattr(self, each.name, getattr(fresh, each.name))


_KEPT_ON_RESET: Final = {
    *("request", "tool", "bad_arguments", "event_id", "index", "number", "may_have_run", "task")
}


class CallEnded(Exception):  # noqa: N818 - mostly a decision of the user, and no error
    """A tool call ends without the result of its tool.

    Attributes:
        content: The response.
        stops_turn: True if the user stopped the turn.
    """

    def __init__(
        self,
        content: str,
        *,
        is_error: bool = False,
        skipped: bool = False,
        stops_turn: bool = False,
    ) -> None:
        super().__init__(content)
        self.content = content
        self.is_error = is_error
        self.skipped = skipped
        self.stops_turn = stops_turn


def prepare_arguments(
    tool: OfferedTool, arguments: Mapping[str, JsonValue]
) -> dict[str, JsonValue] | Failure:
    """Return the arguments that `tool` will get, or the reason why it cannot run with them."""
    schema = tool.definition.parameters
    copy = copy_json(dict(arguments))  # tools may modify what they get, but not the record
    try:
        prepared = tool.executor.prepare(tool.name, coerce_arguments(copy, schema), schema)
    except Exception as exc:  # a tool's own code
        return Failure(error_summary(exc))
    return prepared if isinstance(prepared, Failure) else dict(prepared)
