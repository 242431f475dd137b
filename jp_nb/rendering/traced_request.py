"""A request to a model, its parts in the order in which they are read, and their size in tokens.

Tokens are estimated: four bytes of text are one, an image takes as many as its pixels say. What a
model reported stands beside it where the record has that.

Source: `docs/guide.md`; https://docs.anthropic.com/en/docs/build-with-claude/vision
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_events import Attachment, ModelRequest, SentRequest, ToolDefinition
from jp_nb.agent.token_estimate import attachment_tokens, image_tokens, text_tokens, tool_tokens
from jp_nb.config.masking import masked
from jp_nb.json_values import compact_json
from jp_nb.record.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.thread import ThreadItem
from jp_nb.record.usage import usage_in

_SHOWN_ELSEWHERE: Final = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "attachments", "response_schema"}
    | {"response_format", "output_config"}
)


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a request.

    Attributes:
        role: Who says it, in words.
        text: What, images in words.
        tokens: About how many it takes.
        images: The digests of its images.
    """

    role: str
    text: str
    tokens: int
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class TracedRequest:
    """A request, and how much of it is known.

    Attributes:
        name: `3.1` or `next`.
        provider: Name of the provider.
        request: What was asked.
        sent: The same as it goes out.
        remarks: Whether it was sent like this, and what is not as it was.
        answer: The metadata of the entries that answered it.
    """

    name: str
    provider: str
    request: ModelRequest
    sent: SentRequest
    remarks: tuple[str, ...]
    answer: tuple[Mapping[str, JsonValue], ...] = ()

    @property
    def model(self) -> str:
        """The model's name as it is configured: `provider/name`."""
        return f"{self.provider}/{self.shown.model}"

    @cached_property
    def body(self) -> dict[str, JsonValue]:
        """What is posted, without what may be secret in its parameters."""
        body: dict[str, JsonValue] = json.loads(self.sent.body)
        return {
            key: value if key in _SHOWN_ELSEWHERE else masked(value, (key,))
            for key, value in body.items()
        }

    @cached_property
    def parameters(self) -> dict[str, JsonValue]:
        """The members of the body that are neither words, nor tools, nor a schema."""
        found = {key: value for key, value in self.body.items() if key not in _SHOWN_ELSEWHERE}
        output = self.body.get("output_config")
        if isinstance(output, dict) and "effort" in output:
            found["effort"] = output["effort"]
        return found

    @cached_property
    def shown(self) -> ModelRequest:
        """The request without the key, should that be in it; `messages` has the thread."""
        request, hide = self.request, self.sent.hide
        if hide is str:
            return request
        return replace(
            request,
            model=hide(request.model),
            system=tuple(map(hide, request.system)),
            attachments=tuple(_hidden_attachment(each, hide) for each in request.attachments),
            tools=tuple(
                ToolDefinition(
                    hide(tool.name), hide(tool.description), _hidden_json(tool.parameters, hide)
                )
                for tool in request.tools
            ),
            tool_choice=hide(request.tool_choice),
            schema=None if request.schema is None else _hidden_json(request.schema, hide),
        )

    @cached_property
    def messages(self) -> list[Message]:
        """The messages, oldest first: each entry of the thread is one."""
        names: dict[str, str] = {}
        return [self._message(item, names) for item in self.request.thread]

    def _message(self, item: ThreadItem, names: dict[str, str]) -> Message:
        entry, hide = item.entry, self.sent.hide
        match entry:
            case ChatRequest():
                role, text = "user", entry.content
            case ToolCallRequest():
                names[entry.id] = entry.name
                role, text = f"assistant calls {entry.name}", compact_json(entry.arguments)
            case ToolCallResponse():
                role = (
                    f"{'error' if entry.is_error else 'result'} of {names.get(entry.id, 'a call')}"
                )
                text = entry.content
            case ChatResponse():
                role, text = _said(entry)
        text = hide(text)
        tokens = text_tokens(text) + sum(image_tokens(image.size) for image in item.images)
        shown = [text, *(hide(f"[image: {image.words_with_size}]") for image in item.images)]
        digests = tuple(image.digest for image in item.images)
        return Message(hide(role), " ".join(filter(None, shown)), tokens, digests)

    @cached_property
    def measured(self) -> int | None:
        """The tokens that the provider counted in it; None if the record does not say.

        One that failed before the answer came is counted with it.
        """
        counts = [
            used.tokens.input_tokens
            for metadata in self.answer
            for used in usage_in(metadata)
            if used.tokens.input_tokens is not None
        ]
        return sum(counts) if counts else None

    # --- tokens ------------------------------------------------------------------------------

    @cached_property
    def estimated(self) -> dict[str, int]:
        """About how many tokens each part takes."""
        shown, schema = self.shown, self.shown.schema
        return {
            "tools": sum(map(tool_tokens, shown.tools)),
            "system": sum(map(text_tokens, shown.system)),
            "attachments": sum(map(attachment_tokens, shown.attachments)),
            "messages": sum(message.tokens for message in self.messages),
            "schema": text_tokens(compact_json(schema)) if schema is not None else 0,
        }


def _hidden_attachment(attachment: Attachment, hide: Callable[[str], str]) -> Attachment:
    content = attachment.content
    content = hide(content) if isinstance(content, str) else content
    return replace(attachment, source=hide(attachment.source), content=content)


def _hidden_json(
    value: Mapping[str, JsonValue], hide: Callable[[str], str]
) -> dict[str, JsonValue]:
    hidden: dict[str, JsonValue] = json.loads(hide(json.dumps(dict(value), ensure_ascii=False)))
    return hidden


def _said(response: ChatResponse) -> tuple[str, str]:
    if response.reasoning is not None:
        return "assistant (reasoning)", response.reasoning
    if response.message is not None:
        return "assistant", response.message
    return "assistant (data)", compact_json(response.data)


def parameters_in_words(schema: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the parameters of a tool: `city: string`, `days?: integer`."""
    properties, required = schema.get("properties"), schema.get("required")
    demanded: Sequence[JsonValue] = required if isinstance(required, list) else ()
    for name, node in (properties if isinstance(properties, dict) else {}).items():
        kind = node.get("type") if isinstance(node, dict) else None
        mark = "" if name in demanded else "?"
        yield f"{name}{mark}: {kind if isinstance(kind, str) else 'any'}"
