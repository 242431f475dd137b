"""Renders a thread and a request as the body of Anthropic Messages.

Source: `docs/providers.md`; https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Self

from jp_nb.agent.model_events import (
    Attachment,
    ModelRequest,
    ToolChoice,
)
from jp_nb.image import Image
from jp_nb.providers import answer_schema as schemas
from jp_nb.providers.attachment_parts import (
    IMAGES,
    PDF,
    Attached,
    base64_text,
    name_of,
    sort_out,
)
from jp_nb.providers.messages import (
    CONTINUE,
    CallIds,
    Message,
    Rendering,
    continues_answer,
    encode,
    plain_schema,
    reasoning_as_text,
    response_text,
)
from jp_nb.providers.parameters import Level, ReasoningEffort, Warnings, parse_reasoning
from jp_nb.record.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.thread import Thread, ThreadItem

NAME: Final = "anthropic"
SIGNATURE: Final = "anthropic_thinking_signature"
REDACTED: Final = "anthropic_redacted_thinking"
_THINKING: Final = ("thinking", "redacted_thinking")

_INTERLEAVED: Final = "interleaved-thinking"
_MIN_BUDGET: Final = 1024
_NO_THINKING: Final[Message] = {"type": "disabled"}
_CACHE: Final[Message] = {"type": "ephemeral"}
_MAX_TITLE: Final = 500
# Models before effort levels, which want a number of tokens.
_BUDGETTED: Final = re.compile(r"claude-(?:3-7-|(?:sonnet|opus|haiku)-4(?:-[0-5])?(?:-20\d{6})?$)")
# Models that take no sampling settings at all.
_UNSAMPLED: Final = re.compile(r"claude-(?:opus-4-[7-9]|[a-z]+-[5-9])")
_RECENT: Final = re.compile(r"claude-[a-z]+-[4-9]")


def build_head(
    request: ModelRequest,
    *,
    answer: schemas.AnswerSchema | None = None,
    betas: str = "",
    always_thinking: bool = False,
    warnings: Warnings | None = None,
) -> Message:
    """Everything in the body of `request` but its messages.

    Three of the four cache markers allowed: on the last system text, on the last tool, and the
    automatic one that follows the end of the messages. `attach` sets the fourth.
    """
    warnings = warnings or Warnings(NAME)
    max_tokens = request.parameters.max_tokens or default_max_tokens(request.model)
    thinking, effort = _thinking(request, max_tokens, interleaved=_INTERLEAVED in betas)
    if always_thinking and thinking == _NO_THINKING:
        thinking = None
    active = always_thinking or thinking not in (None, _NO_THINKING)
    system = [_text(text) for text in request.system if text.strip()]
    if system:
        system[-1]["cache_control"] = _CACHE
    tools: list[Message] = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": plain_schema(tool),
        }
        for tool in request.tools
    ]
    head: Message = {
        "model": request.model,
        "max_tokens": max_tokens,
        "stream": True,
        "cache_control": _CACHE,
    }
    if tools:
        tools[-1]["cache_control"] = _CACHE
        choice = request.tool_choice
        if active and choice not in ("auto", "none"):
            # The API refuses to force a tool while it thinks: an order behind the cached part.
            system.append(_text(_order(choice)))
            choice = "auto"
        head["tools"] = tools
        head["tool_choice"] = _tool_choice(choice, len(tools))
    if system:
        head["system"] = system
    if thinking is not None:
        head["thinking"] = thinking
    output: Message = {}
    if effort is not None:
        output["effort"] = effort
    if answer is not None:
        output["format"] = {"type": "json_schema", "schema": answer.schema}
    if output:
        head["output_config"] = output
    head.update(_sampling(request, thinking=active, warnings=warnings))
    return head


def attach(attachments: Sequence[Attachment]) -> Attached:
    """`attachments` as blocks for the front of the first user message; the last marks the cache."""
    sent, skipped = sort_out(attachments, IMAGES | {PDF})
    blocks = [block for attachment in sent for block in _attachment_blocks(attachment)]
    if not blocks:
        return Attached(skipped=skipped)
    blocks[-1]["cache_control"] = _CACHE
    return Attached(front=encode(blocks)[1:-1], skipped=skipped)


def _attachment_blocks(attachment: Attachment) -> list[Message]:
    content = attachment.content
    if isinstance(content, str):
        text = content if content.strip() else "(empty)"  # a blank one is refused
        return [_document(attachment, {"type": "text", "media_type": "text/plain", "data": text})]
    source = {
        "type": "base64",
        "media_type": attachment.media_type,
        "data": base64_text(content),
    }
    if attachment.media_type == PDF:
        return [_document(attachment, source)]
    return [_text(name_of(attachment)), {"type": "image", "source": source}]


def _with_images(text: str, images: Sequence[Image]) -> list[Message]:
    """`text`, and each of `images` behind its name."""
    blocks = [_text(text)] if text.strip() else []
    for image in images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.text}
        blocks += [_text(f"[image: {image.words}]"), {"type": "image", "source": source}]
    return blocks


def _document(attachment: Attachment, source: Message) -> Message:
    title = name_of(attachment)
    if len(title) > _MAX_TITLE:
        title = "…" + title[1 - _MAX_TITLE :]
    return {"type": "document", "source": source, "title": title}


def default_max_tokens(model: str) -> int:
    """Size of an answer where nobody set one; the API demands a number."""
    return 32_000 if _RECENT.match(model) else 8_192


def _sampling(request: ModelRequest, *, thinking: bool, warnings: Warnings) -> Message:
    parameters = request.parameters
    sampling: Message = {}
    for name, value in (
        ("temperature", parameters.temperature),
        ("top_p", parameters.top_p),
        ("top_k", parameters.top_k),
    ):
        if value is None:
            continue
        if _UNSAMPLED.match(request.model):
            reason = f"{request.model} does not support this parameter"
        elif thinking and name != "top_p":
            reason = "not allowed with reasoning"
        else:
            sampling[name] = value
            continue
        warnings.ignored(name, reason, conversation_id=request.conversation_id)
    if parameters.stop_words:
        sampling["stop_sequences"] = list(parameters.stop_words)
    for name, extra in parameters.other.items():
        if name == "context_management":
            sampling[name] = extra
        else:
            warnings.ignored(
                name, "not a parameter of this API", conversation_id=request.conversation_id
            )
    return sampling


def _thinking(
    request: ModelRequest, max_tokens: int, *, interleaved: bool
) -> tuple[Message | None, str | None]:
    """The `thinking` object and the effort, by what the model's name says about it."""
    reasoning = parse_reasoning(request.parameters.reasoning)
    if reasoning is None:
        return None, None
    if reasoning.off:
        return _NO_THINKING, None
    display = "omitted" if reasoning.exclude else "summarized"
    if _BUDGETTED.match(request.model):
        budget = max(reasoning.tokens(max_tokens), _MIN_BUDGET)
        if not interleaved:
            budget = min(budget, max_tokens - 1)
        if budget < _MIN_BUDGET:
            return None, None  # an answer this short leaves no room to think
        return {"type": "enabled", "budget_tokens": budget, "display": display}, None
    return {"type": "adaptive", "display": display}, _effort(reasoning, max_tokens)


def _effort(reasoning: ReasoningEffort, max_tokens: int) -> str | None:
    level: Level = reasoning.level(max_tokens)
    return {"auto": None, "xlow": "low"}.get(level, level)


def _tool_choice(choice: ToolChoice, tools: int) -> Message:
    name = choice.removeprefix("tool:")
    if name == choice:
        return {"type": "any" if choice == "required" else choice}
    # With one tool the named form misbehaves, and means the same.
    return {"type": "any"} if tools == 1 else {"type": "tool", "name": name}


def _order(choice: ToolChoice) -> str:
    name = choice.removeprefix("tool:")
    what = "one of your tools" if name == choice else f"the tool `{name}`"
    return f"Your next response must call {what}."


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


class AnthropicRendering(Rendering):
    """A thread as Messages: roles alternate, thinking before calls, results before text.

    Args:
        unsigned_items: The first items, whose thinking the API no longer accepts as its own.
    """

    def __init__(self, unsigned_items: int = 0) -> None:
        super().__init__()
        self.signed = False
        self._unsigned_items = unsigned_items
        self._ids = CallIds(limit=64, clean=True)

    def anew(self) -> Self:
        """Return an empty rendering of what begins as this thread does."""
        return type(self)(self._unsigned_items)

    def add(self, item: ThreadItem) -> None:
        """Render the next item."""
        match item.entry:
            case ChatRequest(content=text):
                if text.strip() or item.images:
                    self._drop_loose_thinking()
                    self._content("user").extend(_with_images(text, item.images))
            case ChatResponse() as response:
                blocks = self._response(response, own=item.provider == NAME)
                if blocks:
                    self._content("assistant").extend(blocks)
            case ToolCallRequest() as call:
                content = self._content("assistant")
                content.append(
                    {
                        "type": "tool_use",
                        "id": self._ids.called(call.id, len(self.messages) - 1),
                        "name": call.name,
                        "input": call.arguments,
                    }
                )
            case ToolCallResponse() as result:
                self._result(result, item.images)

    def encode(self, thread: Thread, *, front: bytes = b"") -> bytes:
        """Return the messages of `thread`, which is rendered here, as JSON.

        `front` is as in `MessageList.encode`.
        """
        if not continues_answer(thread):
            return self.messages.encode(front=front)
        ended = self.anew() if self._ends_in_thinking() else self
        if ended is not self:
            ended.follow(thread)
            ended._drop_loose_thinking()
        goes_on = ended.messages.last_role == "assistant"
        after = ({"role": "user", "content": [_text(CONTINUE)]},) if goes_on else ()
        return ended.messages.encode(front=front, after=after)

    def _ends_in_thinking(self) -> bool:
        if self.messages.last_role != "assistant":
            return False
        return self.messages[-1]["content"][-1]["type"] in _THINKING

    def _drop_loose_thinking(self) -> None:
        """Take away thinking that nothing came of: the API refuses a message that ends in it."""
        if not self._ends_in_thinking():
            return
        content = self.messages.edit(-1)["content"]
        while content and content[-1]["type"] in _THINKING:
            del content[-1]
        if not content:
            self.messages.drop_last()

    def _response(self, response: ChatResponse, *, own: bool) -> list[Message]:
        if response.kind != "reasoning":
            text = response_text(response)
            return [_text(text)] if text else []
        if own and self.items >= self._unsigned_items:
            signature = response.metadata.get(SIGNATURE)
            redacted = response.metadata.get(REDACTED)
            if redacted:
                return [{"type": "redacted_thinking", "data": redacted}]
            if signature:
                self.signed = True
                return [
                    {
                        "type": "thinking",
                        "thinking": response.reasoning,
                        "signature": signature,
                    }
                ]
        text = reasoning_as_text(response)
        return [_text(text)] if text else []

    def _result(self, result: ToolCallResponse, images: Sequence[Image]) -> None:
        asked = self._ids.answered(result.id)
        if asked is None:
            return  # nobody asked: the API would refuse the whole thread
        id_, asked_in = asked
        block: Message = {"type": "tool_result", "tool_use_id": id_}
        if images:
            block["content"] = _with_images(result.content, images)
        elif result.content.strip():
            block["content"] = result.content
        if result.is_error:
            block["is_error"] = True
        if asked_in + 1 == len(self.messages):
            self.messages.append({"role": "user", "content": []})
        content = self.messages.edit(asked_in + 1)["content"]
        results = sum(block["type"] == "tool_result" for block in content)
        content.insert(results, block)

    def _content(self, role: str) -> list[Message]:
        if self.messages.last_role != role:
            self.messages.append({"role": role, "content": []})
        content: list[Message] = self.messages.edit(-1)["content"]
        return content
