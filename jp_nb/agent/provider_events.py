"""The events of a model's response, which a provider streams.

A response consists of numbered output items, such as a text and two tool calls. Each event of an
item has its `index`:

    ToolCallStart(0, "c1", "read_file"), ToolCallArguments(0, '{"path": "a"}'), Flush(0), Finished()

Other events are reports about the response, the request, or the server. A provider may report
`Usage` several times: each count that is not None replaces the previous one.

Source: `docs/providers.md`, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

# The tokens of a response are one of its events, so other modules import `Usage` from here.
from jp_nb.record.entries.token_usage import Usage as Usage

TextKind = Literal["message", "reasoning", "structured"]


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text of output item `index`."""

    index: int
    kind: TextKind
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """Start of a tool call in output item `index`. Its arguments follow."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """A fragment of the JSON arguments of the tool call in output item `index`."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Flush:
    """End of output item `index`. `metadata` is stored with it and sent back to the provider."""

    index: int
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """A sign that the server is alive. It only resets the idle timer."""


FinishReason = Literal["completed", "max_tokens", "refused", "other"]


@dataclass(frozen=True, slots=True)
class Finished:
    """End of a complete response, always the last event. A stream without it is incomplete.

    `detail` is the provider's term or explanation for `refused` and `other`.
    """

    reason: FinishReason = "completed"
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """A sign to send the request again: the provider repaired its rendering of the conversation.

    Attributes:
        reason: The error of the server that made the repair necessary.
        drop_metadata: Key of the stored metadata that the server rejected, and that is no longer
            sent; None if it was something else.
        notice: Tells the user what the next request omits; "" if there is nothing to tell.
    """

    reason: str
    drop_metadata: str | None = None
    notice: str = ""


@dataclass(frozen=True, slots=True)
class InputChange:
    """A report of the server about reasoning in the request that does not fit the conversation.

    Attributes:
        reason: `prefix` (something before the reasoning changed), `model`, `organization`,
            `end_user`, `turn_boundary`, or another word of the provider.
        is_dropped: True if the model did not get the reasoning.
        mark: A value in the metadata of the entry with this reasoning, such as its signature; "" if
            it is unknown.
    """

    reason: str
    is_dropped: bool = True
    mark: str = ""


@dataclass(frozen=True, slots=True)
class PrefixLoss:
    """A request that does not begin like the previous one of its conversation.

    Caches and signatures are valid only for the common beginning.

    Attributes:
        kept: Percent of the previous request that are the common beginning.
        part: The first part that differs, such as `tools`.
    """

    kept: int
    part: str


@dataclass(frozen=True, slots=True)
class PromptCut:
    """A server that read only the end of a request, because its context is too small.

    Attributes:
        read: Number of tokens that the server read.
        sent: Number of tokens that the request has at least.
        advice: The remedy, with the setting of the server.
    """

    read: int
    sent: int
    advice: str


@dataclass(frozen=True, slots=True)
class OmittedFiles:
    """Images, PDFs, or attachments that a request does not contain, reported once each.

    Attributes:
        names: Names of the files, for the user.
        reason: Why the model does not get them.
        advice: The remedy, such as a setting; "" if there is none.
    """

    names: tuple[str, ...]
    reason: str
    advice: str = ""


ProviderEvent = (
    TextPart
    | ToolCallStart
    | ToolCallArguments
    | Flush
    | KeepAlive
    | Usage
    | InputChange
    | PrefixLoss
    | PromptCut
    | OmittedFiles
    | Finished
    | Retry
)
