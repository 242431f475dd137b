"""State of one tool call, and the limits for its images.

Source: `docs/turns.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from pydantic import JsonValue

from jp_nb.agent.prompts import Channel
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.config.tree.app import Record
from jp_nb.images import Image, unfit
from jp_nb.json_values import copied
from jp_nb.record.events import ToolCallRequest, ToolCallResponse
from jp_nb.tools.base import DeltaRejection, QuestionEnd, error_summary
from jp_nb.tools.outcome import Failure
from jp_nb.tools.parameters import coerce_arguments

MAX_TOLD: Final = 20
"""Images that are left out, each in a line of its own; the rest are counted."""


@dataclass(frozen=True, slots=True)
class LimitedImages:
    """The images that are kept and sent.

    Attributes:
        images: Each once, in order.
        omitted: Why the others are not, one line for each: a model reads them in their place.
    """

    images: tuple[Image, ...] = ()
    omitted: tuple[str, ...] = ()

    def added_to(self, text: str) -> str:
        """Return `text` with what is said of the images that are left out."""
        told = self.omitted[:MAX_TOLD]
        more = len(self.omitted) - len(told)
        lines = [*told, *([f"[{more} more omitted]"] if more else [])]
        return "\n".join([*([text] if text else []), *lines])


NO_IMAGES: Final = LimitedImages()


def limit_images(images: Iterable[Image], limits: Record, *, before: int) -> LimitedImages:
    """Return those of `images` within `limits`; the turn shows so many `before` them."""
    kept: dict[str, Image] = {}
    omitted: list[str] = []
    for image in images:
        if image.digest in kept:
            continue
        why = _why_not(image, limits, before + len(kept))
        if why is None:
            kept[image.digest] = image
        else:
            omitted.append(image.left_out(why))
    return LimitedImages(tuple(kept.values()), tuple(omitted))


def _why_not(image: Image, limits: Record, before: int) -> str | None:
    if len(image.content) > limits.image_max_bytes:
        return f"record.image_max_bytes is {limits.image_max_bytes}"
    if before >= limits.images_per_turn:
        return f"record.images_per_turn is {limits.images_per_turn}"
    return unfit(image)


def format_image_count(images: Sequence[object]) -> str:
    """Return how many images there are: `1 image`."""
    return f"{len(images)} image{'' if len(images) == 1 else 's'}"


@dataclass(slots=True, eq=False)
class Call:
    """One tool call. `tool` is None if it is not on offer.

    Attributes:
        index: Its place among the calls of the batch.
        number: Which of the calls with its id in the batch: models give one id twice.
        bad_arguments: What is wrong with the model's arguments as JSON.
        arguments: What the tool runs with.
        edited: Where a person changed them; None if nobody did.
        answers: Answers to the tool's questions so far.
        ends: How these questions ended.
        reply: What the person said to the model in place of answers.
        automatic_answer_counts: How often a question was answered without a person, by question id.
        rejections: How often a configuration change that it proposed was not applied.
        rejection: Why the last one was not, for the tool.
        formatted: What a formatter made of the arguments.
        begun: True if the call was shown.
        changed: True if it is to be shown otherwise since.
        asked: True if it was shown without what a prompt shows.
        ran: True if it began to run.
        may_have_run: True if it was run before, or may have been: before a restart, or a crash.
        delivering: True if it ran to its end and somebody is asked what the model reads of it.
        structured: What goes into the record beside the text that the tool gave last, if that
            is what the model reads: whoever edits the text does not mean this to stay.
        delivered: That text, as it is to be delivered.
        given: The images that came with it.
        shown: Those of them that the model sees, and what is said of the others. Whoever edits
            the text does not mean these to stay either.
        whole_chars: How long it was, if it was cut to what the model may read.
        cut: True if an interrupt of the cell ended its function; what follows is decided then.
        response: Once there is one, nothing changes any more.
        traceback: For the person alone.
        seconds: How long the tool ran, in all its runs; the time of its prompts is not included.
    """

    request: ToolCallRequest
    tool: OfferedTool | None
    bad_arguments: str | None = None
    index: int = 0
    number: int = 1
    arguments: dict[str, JsonValue] = field(default_factory=dict)
    edited: Channel | None = None
    answers: dict[str, JsonValue] = field(default_factory=dict)
    ends: dict[str, QuestionEnd] = field(default_factory=dict)
    reply: str | None = None
    automatic_answer_counts: Counter[str] = field(default_factory=Counter)
    rejections: int = 0
    rejection: DeltaRejection | None = None
    formatted: str | None = None
    begun: bool = False
    changed: bool = False
    asked: bool = False
    ran: bool = False
    may_have_run: bool = False
    delivering: bool = False
    structured: JsonValue = None
    delivered: str | None = None
    given: tuple[Image, ...] = ()
    shown: LimitedImages = NO_IMAGES
    whole_chars: int | None = None
    cut: bool = False
    response: ToolCallResponse | None = None
    traceback: str | None = None
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """A text that tells it from every other call of its batch."""
        return self.request.id if self.number == 1 else f"{self.request.id}#{self.number}"

    @property
    def title(self) -> str:
        """The name of its tool, as the person may know it."""
        return "a tool" if self.tool is not None and self.tool.hidden else self.request.name

    def begin_again(self) -> None:
        """Forget all that happened to it so far, but for that it may have run."""
        self.may_have_run |= self.ran
        self.arguments, self.answers, self.ends = {}, {}, {}
        self.reply = self.structured = self.delivered = self.whole_chars = None
        self.given, self.shown = (), NO_IMAGES
        self.automatic_answer_counts.clear()
        self.rejections, self.rejection = 0, None
        self.begun = self.changed = self.asked = False
        self.ran = self.delivering = self.cut = False
        self.edited = self.formatted = self.traceback = self.response = None
        self.seconds = 0.0


class EndCallbacks(Protocol):
    """Ends calls, for those who see to a part of them."""

    def finish(
        self, call: Call, content: str, *, is_error: bool = False, skipped: bool = False
    ) -> None:
        """End `call` with that response."""
        ...

    def note_unavailable(self, reason: str) -> None:
        """Note why no user was available for a decision that needed one."""
        ...


def prepare(tool: OfferedTool, given: Mapping[str, JsonValue]) -> dict[str, JsonValue] | Failure:
    """Return the arguments `given` as `tool` will get them, or why it cannot run with them."""
    schema = tool.definition.parameters
    own = copied(dict(given))  # the record's are nobody else's
    try:
        prepared = tool.executor.prepare(tool.name, coerce_arguments(own, schema), schema)
    except Exception as exc:  # a tool's own code
        return Failure(error_summary(exc))
    return prepared if isinstance(prepared, Failure) else dict(prepared)
