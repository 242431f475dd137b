"""Render a conversation as the messages of an API, once for all requests of a turn.

A turn with many cycles sends the same history with each request, so a *rendering* keeps the
messages and their JSON, and only renders what was added. The `HttpProvider` has one rendering for
each conversation; each dialect has a subclass, which gives the messages their form. A request is
made in three steps: `update` renders new entries, `settle` decides about the *head* (instructions,
tools, attachments), and `encode` returns the messages as JSON.

Source: `docs/providers.md`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Final, Self

from jp_nb.agent.provider import AppendedChange, ModelRequest
from jp_nb.images import Image
from jp_nb.json_writing import spaced_json
from jp_nb.providers.request_parts.attachment_parts import IMAGE_AND_PDF_TYPES
from jp_nb.providers.request_parts.call_rules import CallRules
from jp_nb.providers.request_parts.first_head import find_change, keep_first_head
from jp_nb.providers.request_parts.head_changes import HeadChange
from jp_nb.providers.request_parts.media_filter import MediaFilter
from jp_nb.providers.request_parts.request_body import WireMessage, encode_json
from jp_nb.providers.request_parts.tool_call_ids import CallIds
from jp_nb.record.entries.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.request_context.context import ContextItem, RequestContext
from jp_nb.record.request_context.request_head import RequestHead, ToolDefinition
from jp_nb.storable_json import replace_surrogates

CONTINUE_PROMPT: Final = "Continue exactly where you stopped, without repeating anything."
RESULT_IMAGES_INTRO: Final = "The results of these tool calls came with images:"
RESULT_PDFS_INTRO: Final = "The results of these tool calls came with images or PDFs:"

_USER_PARTS: Final = b'{"role":"user","content":['
"""The beginning of a user message with content parts, as JSON."""


class Rendering(ABC):
    """Messages of a request context in a provider's format. It grows with the context.

    Reasoning of the same `provider` is sent back as reasoning. Files whose type is not in
    `media_types` are omitted.

    The head of the first request stays at the beginning. Changes of the parts in `appended`, which
    are names of attributes of `RequestHead`, become messages (`_render_change`). Other changes
    replace the beginning, and the cached prefix is lost. With `REMOVED_TOOLS`, only the removal of
    tools becomes a message: they stay in the list, and new ones are added to it.

    A dialect fills in the abstract methods. `_add_request`, `_add_text`, `_add_reasoning`,
    `_add_call`, and `_add_result` add one item of the context, the *current item*, to `messages`.
    They may read `item_count` and the last three attributes, which are about this item.

    Attributes:
        provider: The provider whose signatures are sent back.
        host: The mark of the server (`host_marks.py`); "" if there is none.
        messages: The rendered messages.
        item_count: The number of items of the context that are rendered, which is the position of
            the current item. An item is an entry with its images, its provider, and the marks
            `is_bound` and `is_vouched` (`ContextItem`).
        media: Decides which images and PDFs are sent.
        changes: The appended changes, each with the number of items before it.
        tools: The tools that the model had for the current item.
        has_valid_signatures: True if the signatures of the current item are valid: all that was
            sent before it is still the same.
        has_own_metadata: True if the metadata of the current item is from this server.
    """

    continue_request: ClassVar[WireMessage]
    """User message that asks the model to continue its answer."""
    appended: frozenset[str] = frozenset()
    """Parts that the API can append. On the instance: those that also the model supports."""

    def __init__(
        self, provider: str, rules: CallRules, media_types: frozenset[str] = IMAGE_AND_PDF_TYPES
    ) -> None:
        self.provider = provider
        self.host = ""
        self.messages: list[WireMessage] = []
        self.item_count = 0
        self.media = MediaFilter(media_types)
        self._rules = rules
        self._ids = CallIds(rules)
        # The JSON of the first messages. The others are encoded when the next request is made:
        self._encoded: list[bytes] = []
        # Changes of the head:
        self.changes: list[tuple[int, HeadChange]] = []
        # The change that the next request has after all messages, and that no response has yet:
        self._pending: tuple[HeadChange, list[WireMessage]] | None = None
        self._head_count = 0  # the number of heads of the context that are rendered
        self._heads_had_tools = False  # True if one of these heads has tools
        # About the current item:
        self.tools: tuple[ToolDefinition, ...] = ()
        self.has_valid_signatures = True
        self.has_own_metadata = False

    def update(self, context: RequestContext) -> None:
        """Render the items that were added to `context` since the last call."""
        for item in context.since(self.item_count):
            self._add_changes(context)

            # Metadata of one server is never sent to another one, and untrusted metadata to none.
            self.has_own_metadata = self._is_from_this_server(item)
            if item.entry.metadata and not self.has_own_metadata:
                item = replace(item, entry=item.entry.model_copy(update={"metadata": {}}))

            self._add(item)
            self.item_count += 1

        # A head may follow the last item: that of a response which is no longer in the context.
        self._add_changes(context)

    def _is_from_this_server(self, item: ContextItem) -> bool:
        """Return True if a response of this server made `item`, and the user trusts the record."""
        is_same_host = not item.host or not self.host or item.host == self.host
        return item.provider == self.provider and item.is_vouched and is_same_host

    def _add_changes(self, context: RequestContext) -> None:
        """Render the changes of the head that come before the next item."""
        while self._head_count < len(context.heads):
            items_before, head = context.heads[self._head_count]
            if items_before > self.item_count:
                break

            if (change := self._find_next_change(context, head)) is not None:
                self.messages += self._render_change(change)
                self.media.keep_added(change.added)
                self.changes.append((self.item_count, change))

            self._head_count += 1
            self._heads_had_tools = self._heads_had_tools or bool(head.tools)
            self.tools = head.tools

    def _find_next_change(self, context: RequestContext, after: RequestHead) -> HeadChange | None:
        """Return the change from the last rendered head to `after`; None if there is none."""
        before = context.heads[self._head_count - 1].head if self._head_count else None
        change = find_change(
            before, after, context.contents, self.appended, has_tools=self._heads_had_tools
        )
        if change is None or not change.added:
            return change
        return replace(change, added=self.media.replace_added(change.added))

    def settle(self, request: ModelRequest) -> ModelRequest:
        """Return `request` with the head at the beginning of the conversation's requests.

        Appended changes that no response has confirmed yet follow the messages of `encode`.
        """
        change = self._find_next_change(request.context, request.head)
        self._pending = None if change is None else (change, self._render_change(change))

        settled = keep_first_head(request, self.appended)
        attachments = self.media.replace_attachments(settled.attachments)
        if attachments == settled.attachments:
            return settled  # the same object, whose format is known
        return replace(settled, attachments=attachments)

    @property
    def has_changes(self) -> bool:
        """True if the request has changes of the head as messages."""
        return bool(self.changes) or self._pending is not None

    def list_changes(self) -> Iterator[AppendedChange]:
        """Yield the changes that are sent as messages, for the user."""
        changes = [*self.changes]
        if self._pending is not None:
            changes.append((self.item_count, self._pending[0]))

        for item_count, change in changes:
            for part, content in change.list_parts():
                tools: tuple[ToolDefinition, ...] = ()
                if part == "tools" and part in self.appended:
                    tools = change.list_new_tools()
                yield AppendedChange(item_count, part, content, tools)

    def _render_change(self, change: HeadChange) -> list[WireMessage]:
        """Return the messages that tell the model about `change`; none if nothing is appended."""
        return []

    def encode(
        self, context: RequestContext, *, before: Sequence[bytes] = (), user_parts: bytes = b""
    ) -> list[bytes]:
        """Return the messages of a request, each as JSON.

        These are `before`, the rendered messages, a request to continue if the model's last answer
        was cut, and the changes of `settle`.

        Args:
            context: The context of the last `update`.
            before: Messages at the beginning, each as JSON.
            user_parts: Content parts as JSON, joined by commas. They are added to the start of the
                first rendered message if it is a user message with parts. Otherwise, they are a new
                message before it.
        """
        encoded = self.encode_messages()

        # A turn that is complete ends with a request of the user or a result of a tool.
        is_cut = len(context) > 0 and isinstance(context.items[-1].entry, ChatResponse)
        if is_cut and self._ends_in_answer:
            self._continue_answer(encoded)

        if user_parts and encoded and encoded[0].startswith(_USER_PARTS):
            encoded[0] = _USER_PARTS + user_parts + b"," + encoded[0][len(_USER_PARTS) :]
        elif user_parts:
            encoded.insert(0, _USER_PARTS + user_parts + b"]}")

        changes = [] if self._pending is None else self._pending[1]
        return [*before, *encoded, *map(encode_json, changes)]

    def _continue_answer(self, encoded: list[bytes]) -> None:
        """Add the request to continue the last of the `encoded` messages, an incomplete answer."""
        # Few models continue an assistant message that comes last, so they are asked to. Reasoning
        # at its end has no answer, and is omitted.
        last = self._strip_reasoning(self.messages[-1])
        del encoded[-1]
        if last is not None:
            encoded += [encode_json(last), encode_json(self.continue_request)]

    def encode_messages(self) -> list[bytes]:
        """Return each rendered message as JSON."""
        self._encoded += map(encode_json, self.messages[len(self._encoded) :])
        return [*self._encoded]

    def _add(self, item: ContextItem) -> None:
        """Add the current item to `messages`, by the kind of its entry."""
        entry = item.entry
        self.has_valid_signatures = item.is_bound

        match entry:
            case ChatRequest():
                self._add_request(*self.media.replace_images(entry.content, item.images))
            case ChatResponse(kind="reasoning"):
                # Only metadata of reasoning is bound to a server, and `update` has removed it.
                is_same_provider = item.provider == self.provider
                if not (is_same_provider and self._add_reasoning(entry)):
                    self._add_text(format_reasoning_text(entry))
            case ChatResponse():
                self._add_text(format_response_text(entry))
            case ToolCallRequest():
                self._add_call(entry)
            case ToolCallResponse():
                call = self._ids.match_result(entry.id)
                if call is not None:  # APIs reject a result that has no call
                    text, images = self.media.replace_images(entry.content, item.images)
                    self._add_result(*call, text, images, is_error=entry.is_error)

    def _edit_message(self, index: int) -> WireMessage:
        """Return the message at `index`, which the caller changes before anything else happens.

        Its JSON, and that of the messages after it, is made again.
        """
        del self._encoded[index % len(self.messages) :]
        return self.messages[index]

    def _insert_message(self, index: int, message: WireMessage) -> None:
        """Insert `message`; the JSON of those after it is made again."""
        self.messages.insert(index, message)
        del self._encoded[index:]

    def _open_message(self, role: str, content: list[WireMessage] | None) -> WireMessage:
        """Return the last message if it has that `role`, else a new one with `content`."""
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "content": content})
        return self._edit_message(-1)

    @property
    def _ends_in_answer(self) -> bool:
        """True if the last message is one of the model."""
        return bool(self.messages) and self.messages[-1]["role"] == "assistant"

    def _drop_empty_answer(self) -> None:
        """Remove reasoning at the end of the messages: APIs reject it without an answer."""
        if self._ends_in_answer:
            kept = self._strip_reasoning(self._edit_message(-1))
            self.messages[-1:] = [] if kept is None else [kept]

    @abstractmethod
    def _strip_reasoning(self, message: WireMessage) -> WireMessage | None:
        """Return an assistant message without reasoning at its end; None if nothing remains."""

    @abstractmethod
    def copy_repairs(self) -> Self:
        """Return a rendering without messages that has the repairs of this one.

        A *repair* omits or changes parts that the API has rejected.
        """

    @abstractmethod
    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        """Add a request of the user."""

    @abstractmethod
    def _add_text(self, text: str) -> None:
        """Add `text` of the model, which may be empty."""

    @abstractmethod
    def _add_reasoning(self, response: ChatResponse) -> bool:
        """Add reasoning of this provider; return False if it has to be sent as text."""

    @abstractmethod
    def _add_call(self, call: ToolCallRequest) -> None:
        """Add a call, with the id that `self._ids.assign` gives it."""

    @abstractmethod
    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        """Add the result of the call `call_id`, which is in the message at `call_index`."""


def format_response_text(response: ChatResponse) -> str:
    """Return the text that replays a message or structured data; "" for a blank message.

    Half a surrogate pair becomes U+FFFD here: joined with the next text, two could become one
    character, and the request would not begin with the previous one.
    """
    if response.kind == "structured":
        return replace_surrogates(spaced_json(response.data))

    text = replace_surrogates(response.message or "")
    return text if text.strip() else ""


def format_reasoning_text(response: ChatResponse) -> str:
    """Return reasoning as `<think>` text, for an API that does not accept it as reasoning."""
    text = replace_surrogates(response.reasoning or "").strip()
    return f"<think>\n{text}\n</think>\n\n" if text else ""
