"""What the turn loop needs from outside: a model, a person, tools, a display, a store.

Everything here is a value or a `Protocol`; the rooms around the agent implement them and a
composition module wires them together, so that tests drive the loop with no kernel at all.

Source: `docs/providers.md`, `docs/architecture.md` sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from pydantic import JsonValue

from jp_nb.record.thread import Thread
from jp_nb.tooling.base import CellThread as CellThread
from jp_nb.tooling.question import Question

# --- a model answers -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text of item `index` of the response."""

    index: int
    kind: Literal["message", "reasoning", "structured"]
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """Item `index` is a tool call; its arguments follow."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """A fragment of the JSON text of the arguments of item `index`."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Flush:
    """Item `index` is complete; `metadata` is stored with it and replayed to the provider."""

    index: int
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The server is alive; resets the idle timer and nothing else."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of this request so far. None: not reported. A later report overrides by field."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


FinishReason = Literal["completed", "max_tokens", "refused", "other"]


@dataclass(frozen=True, slots=True)
class Finished:
    """The response is complete. Exactly one, and last; a stream without it broke off.

    `detail` is the provider's word or explanation for `refused` and `other`.
    """

    reason: FinishReason = "completed"
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The provider mended its own rendering of the thread: build the request again and call.

    `drop_metadata` is the key of stored metadata that the provider rejected and no longer sends.
    """

    reason: str
    drop_metadata: str | None = None


ProviderEvent = (
    TextPart | ToolCallStart | ToolCallArguments | Flush | KeepAlive | Usage | Finished | Retry
)

ToolChoice = str  # "auto", "none", "required", or "tool:NAME"


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model sees it: `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ModelParameters:
    """Sampling settings; None means that the provider decides. Unknown keys are in `other`."""

    max_tokens: int | None = None
    reasoning: JsonValue = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_words: tuple[str, ...] = ()
    other: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attachment:
    """Material that a model is given before the conversation begins.

    Attributes:
        source: Where it is from, as the model is told: `notes.md`.
        media_type: `text/plain` for whatever is text, else such as `image/png`.
        content: The text, or the bytes of what is none.
    """

    source: str
    media_type: str
    content: str | bytes


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to a model.

    Attributes:
        model: The provider's own name of the model.
        system: System texts in order, kept apart.
        attachments: What the model is given before the thread: those of the configuration in
            force, whichever turn attached them. The same object as long as nothing changed.
        thread: The visible entries. The same object, grown, comes with the next request of the
            conversation: providers keep their rendering of it and render what was appended. One
            that ends in an answer of the model broke off there: the provider has it continued.
        tool_choice: `auto`, `none`, `required`, or `tool:NAME`.
        schema: JSON schema of a structured answer; None for text.
        idle_timeout: Seconds without any event after which the stream counts as dead; 0 is off.
        max_response_bytes: Ceiling of the streamed text; 0 is off.
        conversation_id: Stable for the conversation, for prompt caching.
    """

    model: str
    thread: Thread
    system: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = "auto"
    parameters: ModelParameters = ModelParameters()
    schema: Mapping[str, JsonValue] | None = None
    idle_timeout: float = 60.0
    max_response_bytes: int = 1_048_576
    conversation_id: str = ""


class Provider(Protocol):
    """A model provider, such as `anthropic`."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response, ending with `Finished` (or `Retry`).

        Closing the generator closes the connection.

        Raises:
            ProviderError: If the request fails or the stream breaks; `retryable` says whether
                the same request may succeed later. Events already yielded stay valid.
        """
        ...

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """See whether a structured answer can be asked for with `schema`. Sends nothing.

        Raises:
            UsageError: If not; the message names the place in the schema and what to do.
        """
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


# --- a person answers ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Action:
    """A button that decides at once; `key` is its single key on stdin (decision D35).

    `on_form` is false for what only makes sense on stdin, such as printing once more.
    """

    key: str
    label: str
    value: str
    on_form: bool = True


@dataclass(frozen=True, slots=True)
class QuestionPrompt:
    """A tool's question. `remember` offers "for this turn" (boolean questions only).

    `label` is the header's text, `tool` the name of the tool that really asks (None if hidden).
    `consents`: to answer with the default lets something happen, such as a call with arguments
    that were to be edited: an empty line must not do that.
    """

    question: Question
    label: str | None = None
    tool: str | None = None
    remember: bool = False
    consents: bool = False


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Something that is decided about, shown exactly and whole under its `caption`.

    Attributes:
        value: An object is shown key by key, a text line by line.
    """

    caption: str
    value: Mapping[str, JsonValue] | str


@dataclass(frozen=True, slots=True)
class ActionPrompt:
    """A decision among buttons: permission, result delivery, a changed configuration, a menu.

    None of them is preselected: nothing happens that nobody chose.

    Attributes:
        text: One line: what is to be decided.
        exhibits: What is decided about, below it, such as the arguments of a call.
        changes: What would change, below it: a table on a form, a line for each on stdin.
        last_line: What stands before the keys on stdin, where a form has its buttons. Case makes
            no difference there.
        help: One line that `?` shows on stdin below the keys.
    """

    text: str
    actions: tuple[Action, ...]
    label: str | None = None
    tool: str | None = None
    exhibits: tuple[Exhibit, ...] = ()
    changes: tuple[ProposedChange, ...] = ()
    last_line: str | None = None
    help: str | None = None


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """One line of a proposed configuration change, as a person reads it.

    Attributes:
        path: What changes.
        now: What it is, as JSON; None if it is not set.
        proposed: What it is to become, as JSON; None if it is to be unset.
        added: Whether `proposed` is one more item of the list at `path`, which keeps the others.
        then: What shows when it is unset, because the program or a tool brings it along.
    """

    path: str
    now: str | None
    proposed: str | None
    added: bool = False
    then: str | None = None

    @property
    def becomes(self) -> str:
        """What is at `path` afterwards."""
        if self.proposed is None:
            return UNSET if self.then is None else f"{UNSET}, then {self.then}"
        return f"+ {self.proposed}" if self.added else self.proposed

    def __str__(self) -> str:
        """`path: now → proposed`, `path: + item` or `path: (unset)` (section 8.5)."""
        if self.proposed is None or self.added:
            return f"{self.path}: {self.becomes}"
        return f"{self.path}: {UNSET if self.now is None else self.now} → {self.becomes}"


UNSET = "(unset)"
"""Stands for what is not set, or is to be so no more."""

Prompt = QuestionPrompt | ActionPrompt
Channel = Literal["form", "stdin", "terminal"]


@dataclass(frozen=True, slots=True)
class Answered:
    """Somebody answered. `value` fits the question, or is an action's value."""

    value: JsonValue
    channel: Channel
    remember: bool = False


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """Somebody was there and no answer came: never an empty or default answer.

    `channel` is None for a prompt that was dropped before it was shown.
    """

    end: Literal["declined", "cancelled", "timed_out", "interrupted"]
    channel: Channel | None = None


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Nobody can be asked; `reason` says why, in words."""

    reason: str


PromptEnd = Answered | NotAnswered | Unavailable


class Prompter(Protocol):
    """Asks the person in front of the notebook."""

    def nobody(self) -> Unavailable | None:
        """Why nobody can be asked in the running cell; None if somebody may be there.

        Cheap, and safe from any thread: the one predicate of routing (R083-99).
        """
        ...

    async def ask(self, prompt: Prompt) -> PromptEnd:
        """Put `prompt` to the person and wait. Cancelling the task takes the prompt away."""
        ...

    def interrupt(self) -> None:
        """End every prompt that was put so far as interrupted, soon; from the agent's loop."""
        ...


# --- the cell shows --------------------------------------------------------------------------


class ShowText(NamedTuple):  # thousands are made, and a frozen dataclass takes twice the time
    """A piece of assistant text or reasoning, in order."""

    kind: Literal["message", "reasoning", "structured"]
    text: str


@dataclass(frozen=True, slots=True)
class DiscardText:
    """What the current response has shown so far is withdrawn (a refusal)."""


@dataclass(frozen=True, slots=True)
class EndOfText:
    """The current piece of assistant text is complete."""


@dataclass(frozen=True, slots=True)
class ToolBegins:
    """A tool call is about to run, or waits for permission; again if it is shown otherwise.

    Attributes:
        parameters: How its arguments are shown: `line` in the line of the call, `json` below it,
            `off` not at all.
        formatted: What a formatter made of them, shown below the line instead.
        edited: Whether they are not the model's own: a person changed them.
    """

    call_id: str
    name: str
    arguments: Mapping[str, JsonValue]
    hidden: bool = False
    parameters: Literal["line", "json", "off"] = "line"
    formatted: str | None = None
    edited: bool = False


@dataclass(frozen=True, slots=True)
class ToolEnds:
    """A tool call has its response.

    Attributes:
        traceback: Shown folded to the person alone.
        skipped: Whether the tool did not run, or was cut short, because somebody wanted that.
        result_lines: How many lines of `content` are shown; None: all of them.
    """

    call_id: str
    name: str
    content: str
    is_error: bool
    seconds: float
    hidden: bool = False
    traceback: str | None = None
    skipped: bool = False
    result_lines: int | None = 0


@dataclass(frozen=True, slots=True)
class QuestionEnds:
    """A question was settled: `answer` is None unless `outcome` is `answered`."""

    call_id: str
    tool: str
    question: Question
    outcome: Literal["answered", "redacted", "cancelled"]
    answer: JsonValue = None
    reason: str | None = None
    end: str | None = None
    channel: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeEnds:
    """A proposed configuration change was decided; it counts when all calls of the batch are done.

    Attributes:
        applied: False if it was rejected.
        by: `person`, through `channel`; `grant` if the tool need not ask; `nobody` if it had to
            and nobody was there.
        reason: Why nobody could be asked.
    """

    call_id: str
    tool: str
    changes: tuple[ProposedChange, ...]
    applied: bool
    by: Literal["person", "grant", "nobody"]
    channel: Channel | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the person should know, such as an answer that was cut off."""

    text: str


@dataclass(frozen=True, slots=True)
class PersonSays:
    """What the person said to the model in the middle of the turn."""

    text: str


@dataclass(frozen=True, slots=True)
class Waits:
    """What is waited for from now on; shown while it lasts, and nothing of it is kept.

    Attributes:
        key: Who waits: `MODEL_WAITS`, or a tool call. What it waited for before is over.
        text: What for, such as `anthropic/claude-opus`; "": for nothing any more.
        until: When the wait ends by itself, by `time.monotonic`; None if nobody knows.
        person: Whether the person is to decide: that may stand in line behind something else.
    """

    key: str
    text: str
    until: float | None = None
    person: bool = False


MODEL_WAITS = "model"
"""Key of the wait for the model that leads the turn."""


@dataclass(frozen=True, slots=True)
class FunctionBegins:
    """A tool's function takes the cell's thread, on which this is said."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class FunctionEnds:
    """It gives the thread back, on which this is said."""

    call_id: str


@dataclass(frozen=True, slots=True)
class InterruptHeard:
    """The kernel was interrupted. `then` is what comes of it; None until that is known."""

    then: Literal["menu", "continue", "reply", "restart", "stop", "abort"] | None = None


Passing = Waits | FunctionBegins | FunctionEnds | InterruptHeard
"""What is shown while it lasts; nothing of it is kept."""

DisplayEvent = (
    ShowText
    | DiscardText
    | EndOfText
    | ToolBegins
    | ToolEnds
    | QuestionEnds
    | ChangeEnds
    | Notice
    | PersonSays
    | Passing
)
Display = Callable[[DisplayEvent], None]
"""Takes events in order, from the agent's thread as a rule; never blocks it."""


# --- the record is kept ----------------------------------------------------------------------


class Store(Protocol):
    """Keeps the record. Calls return at once; the store decides how entries reach their home."""

    def changed(self) -> None:
        """Entries were appended to the active conversation."""
        ...

    def replaced(self) -> None:
        """The active conversation is another one, or was repaired: send the whole of it."""
        ...
