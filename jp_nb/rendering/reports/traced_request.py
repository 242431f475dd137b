"""A request to a model as the user may read it: without secrets, and with its estimated tokens.

`TracedRequest` is made for a recorded request, or for the next one (`traced_requests.py`).
`request_text.py`, `request_difference.py` and `curl_command.py` render it.

The *head* of a request are its system texts, tools, and attachments, which are in front of the
messages. A provider may keep an older head in front, so that its prompt cache stays valid, and
*append* the changed parts to the messages. So there are two views: `content` has the current head,
and `shown` the one that is in front.

Tokens are estimated: four bytes of text are one token, and the size of an image gives its tokens.

Source: `docs/guide.md`, https://docs.anthropic.com/en/docs/build-with-claude/vision.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.provider import (
    AppendedChange,
    Attachment,
    ModelRequest,
    SentRequest,
    ToolDefinition,
)
from jp_nb.agent.token_estimates import (
    estimate_attachment_tokens,
    estimate_image_tokens,
    estimate_text_tokens,
    estimate_tool_tokens,
)
from jp_nb.config.masked_settings import mask_secrets
from jp_nb.image_headers import MEDIA_TYPES
from jp_nb.images import Image
from jp_nb.json_writing import compact_json
from jp_nb.record.entries.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.entries.token_usage import read_usage
from jp_nb.record.request_context.context import ContextItem
from jp_nb.text import format_bytes

_CONTENT_KEYS: Final = frozenset(
    {
        "model",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "attachments",
        "response_schema",
        "response_format",
        "output_config",
    }
)
"""Members of a request body that are no parameters. `SentRequest.members` has more of them."""


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message of a request: role, content with descriptions of images, and estimated tokens.

    `images` are the digests of its images.
    """

    role: str
    text: str
    tokens: int
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class TracedRequest:
    """A request and its known details.

    Attributes:
        name: `3.1` for the first request of the third turn, or `next`.
        provider: The name of the provider.
        request: The request as it was given to the provider.
        sent: The request as the provider sends it. `sent.hide` removes the API key from a text, and
            `sent.members` are the names of the members of the body that have the content.
            `sent.front` has the older head, if `sent.changes` appends its changes to the messages;
            else it is None.
        remarks: First, whether it was sent in this form; then its differences and other notes.
        answer: Metadata of the entries of the response.
    """

    name: str
    provider: str
    request: ModelRequest
    sent: SentRequest
    remarks: tuple[str, ...]
    answer: tuple[Mapping[str, JsonValue], ...] = ()

    @property
    def how_sent(self) -> str:
        """The remark that tells if the request was sent in this form: `exact request`."""
        return self.remarks[0]

    @property
    def model(self) -> str:
        """The model's name as it is configured: `provider/name`."""
        return f"{self.provider}/{self.shown.model}"

    @cached_property
    def body(self) -> dict[str, JsonValue]:
        """The request body, with secret parameters masked. `sent.body` is without the API key."""
        body: dict[str, JsonValue] = json.loads(self.sent.body)
        content = _CONTENT_KEYS | self.sent.members

        for key, value in body.items():
            if key not in content:
                body[key] = mask_secrets(value, (key,))

        return body

    @cached_property
    def parameters(self) -> dict[str, JsonValue]:
        """Members of the body other than messages, tools and schemas."""
        content = _CONTENT_KEYS | self.sent.members
        found = {key: value for key, value in self.body.items() if key not in content}

        # Anthropic's parameter beside the response schema, in one member.
        output = self.body.get("output_config")
        if isinstance(output, dict) and "effort" in output:
            found["effort"] = output["effort"]

        return found

    @cached_property
    def content(self) -> ModelRequest:
        """The request with its current head, without the API key in its texts.

        Its context is not changed: `messages` has the texts of the context without the key.
        """
        request = self.request
        hide = self.sent.hide
        if hide is str:  # the default, which hides nothing
            return request

        schema = request.schema
        if schema is not None:
            schema = _hide_in_json(schema, hide)

        return replace(
            request,
            model=hide(request.model),
            system=tuple(map(hide, request.system)),
            attachments=tuple(_hide_in(attachment, hide) for attachment in request.attachments),
            tools=tuple(_hide_in_tool(tool, hide) for tool in request.tools),
            tool_choice=hide(request.tool_choice),
            schema=schema,
        )

    @cached_property
    def shown(self) -> ModelRequest:
        """The request with the head that is in front of the messages, without the API key."""
        front = self.sent.front
        hide = self.sent.hide
        if front is None:
            return self.content

        return replace(
            self.content,
            system=tuple(map(hide, front.system)),
            attachments=tuple(_hide_in(attachment, hide) for attachment in front.attachments),
            tools=tuple(_hide_in_tool(tool, hide) for tool in front.tools),
        )

    @cached_property
    def messages(self) -> list[MessageRow]:
        """The messages, oldest first: one for each entry of the context and appended change.

        An `AppendedChange` is sent after the first `items` entries of the context.
        """
        names: dict[str, str] = {}  # of the called tools, by the ids of the calls
        changes = deque(self.sent.changes)
        messages: list[MessageRow] = []

        for index, item in enumerate(self.request.context):
            while changes and changes[0].items <= index:
                messages.append(self._make_change_row(changes.popleft()))
            messages.append(self._make_message_row(item, names))

        return [*messages, *map(self._make_change_row, changes)]

    def _make_change_row(self, change: AppendedChange) -> MessageRow:
        role = f"{change.part} (appended)"
        content = change.content
        hide = self.sent.hide
        if isinstance(content, str):
            return MessageRow(hide(role), hide(content), estimate_text_tokens(content))

        content = _hide_in(content, hide)
        return MessageRow(hide(role), describe_file(content), estimate_attachment_tokens(content))

    def _make_message_row(self, item: ContextItem, names: dict[str, str]) -> MessageRow:
        """Return the row of an entry. A call adds the name of its tool to `names`, for its result.

        The order of the cases matters: only an answer without text is structured data.
        """
        entry = item.entry
        hide = self.sent.hide

        match entry:
            case ChatRequest():
                role = "user"
                text = entry.content
            case ToolCallRequest():
                names[entry.id] = entry.name
                role = f"assistant calls {entry.name}"
                text = compact_json(entry.arguments)
            case ToolCallResponse():
                kind = "error" if entry.is_error else "result"
                name = names.get(entry.id, "a call")
                role = f"{kind} of {name}"
                text = entry.content
            case ChatResponse(reasoning=str(text)):
                role = "assistant (reasoning)"
            case ChatResponse(message=str(text)):
                role = "assistant"
            case ChatResponse():
                role = "assistant (data)"
                text = compact_json(entry.data)

        text = hide(text)
        shown = [text] if text else []
        tokens = estimate_text_tokens(text)
        for image in item.images:
            shown.append(hide(f"[{image.noun}: {image.words_with_size}]"))
            tokens += estimate_image_tokens(image.size)

        digests = tuple(image.digest for image in item.images)
        return MessageRow(hide(role), " ".join(shown), tokens, digests)

    @cached_property
    def reported_tokens(self) -> int | None:
        """Input tokens counted by the provider; None if the record has no count.

        Failed attempts before the response are included.
        """
        responses = chain.from_iterable(map(read_usage, self.answer))
        reported = (used.tokens.input_tokens for used in responses)
        counts = [count for count in reported if count is not None]
        return sum(counts) if counts else None

    @cached_property
    def estimated_tokens(self) -> dict[str, int]:
        """Estimated number of tokens of each part."""
        shown = self.shown
        schema_tokens = 0
        if shown.schema is not None:
            schema_tokens = estimate_text_tokens(compact_json(shown.schema))

        return {
            "tools": sum(map(estimate_tool_tokens, shown.tools)),
            "system": sum(map(estimate_text_tokens, shown.system)),
            "attachments": sum(map(estimate_attachment_tokens, shown.attachments)),
            "messages": sum(message.tokens for message in self.messages),
            "schema": schema_tokens,
        }


def _hide_in(attachment: Attachment, hide: Callable[[str], str]) -> Attachment:
    content = attachment.content
    if isinstance(content, str):
        content = hide(content)

    return replace(attachment, source=hide(attachment.source), content=content)


def _hide_in_tool(tool: ToolDefinition, hide: Callable[[str], str]) -> ToolDefinition:
    parameters = _hide_in_json(tool.parameters, hide)
    return ToolDefinition(hide(tool.name), hide(tool.description), parameters)


def _hide_in_json(
    value: Mapping[str, JsonValue], hide: Callable[[str], str]
) -> dict[str, JsonValue]:
    hidden: dict[str, JsonValue] = json.loads(hide(json.dumps(dict(value), ensure_ascii=False)))
    return hidden


def describe_file(attachment: Attachment) -> str:
    """Return the text of an attachment, or a description of its image or data."""
    if isinstance(attachment.content, str):
        return attachment.content
    if attachment.media_type in MEDIA_TYPES:
        return f"[image: {Image(attachment.media_type, attachment.content).words_with_size}]"
    return f"[file {attachment.media_type} {format_bytes(len(attachment.content))}]"
