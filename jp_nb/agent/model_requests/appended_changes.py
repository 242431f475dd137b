"""Bound the changes of instructions, tools, and attachments that requests append to their messages.

These parts are the *head* of a request, in front of its messages. A change of the head becomes a
message, so that each request begins with the previous one. A tool or a file that changes often
would fill the context with values that no longer apply. So a request begins a new head if the
changes take too much of the context. Only the tokens that a new head would save are counted.

Source: `docs/providers.md` (requests only grow).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from jp_nb.agent.provider import AppendedChange, Attachment, ModelRequest, Provider, SentRequest
from jp_nb.agent.token_estimates import (
    MAX_IMAGE_TOKENS,
    estimate_attachment_tokens,
    estimate_text_tokens,
    estimate_tool_tokens,
)
from jp_nb.errors import ProviderError
from jp_nb.image_headers import PDF
from jp_nb.images import Image
from jp_nb.json_writing import compact_json
from jp_nb.record.request_context.head_marks import MAX_HEAD_CHARS, is_recordable_change
from jp_nb.record.request_context.request_head import RequestHead, ToolDefinition

DEFAULT_CONTEXT_TOKENS: Final = 32_768
"""Context of a model if its provider has not listed it in this kernel."""
CONTEXT_PARTS: Final = 4
"""Appended changes may take one of this many parts of the context."""


def explain_new_head(
    provider: Provider, request: ModelRequest, context_tokens: int | None
) -> str | None:
    """Return the reason why `request` has to begin a new head; None if it can append its changes.

    `context_tokens` is the size of the model's context; None if it is unknown.
    """
    if not is_recordable_change(request.context.head, request.head):
        return (
            f"Instructions and tools changed by more than {MAX_HEAD_CHARS:,} characters, which the "
            "record does not store as a change"
        )

    parts = _find_excessive_changes(provider, request, context_tokens)
    if not parts:
        return None

    size = f"{context_tokens or DEFAULT_CONTEXT_TOKENS:,}"
    return (
        f"Changes of {', '.join(parts)} take more than a quarter of the model's context "
        f"({size} tokens)"
    )


def _find_excessive_changes(
    provider: Provider, request: ModelRequest, context_tokens: int | None
) -> list[str]:
    """Return the names of the changed parts that take too much of the context together.

    First the largest possible size is estimated, which is fast. Only if that is too large, the
    request is rendered, to measure the changes that it really appends.
    """
    allowed = (context_tokens or DEFAULT_CONTEXT_TOKENS) // CONTEXT_PARTS
    heads = [*(position.head for position in request.context.heads), request.head]
    if sum(_iter_change_tokens(heads, request)) <= allowed:
        return []

    # Not every model gets each change as a message: some have the current values in front.
    try:
        sent = provider.preview(request)
    except ProviderError:
        return []  # sending the request raises it as well

    tokens: dict[str, int] = {}
    for part, count in _iter_saved_tokens(request, sent, heads[0]):
        tokens[part] = tokens.get(part, 0) + count

    if sum(tokens.values()) <= allowed:
        return []
    return [part for part, count in tokens.items() if count]


def _iter_saved_tokens(
    request: ModelRequest, sent: SentRequest, first: RequestHead
) -> Iterator[tuple[str, int]]:
    """Yield the tokens of the appended changes that a new head would save, by part.

    `sent.front` has the parts in front of the messages, and `sent.changes` those that are sent as
    messages. A new head has each current part once, in front. So a new head saves the older texts,
    parts that no longer apply, and those that the request has for the second time. `first` is the
    head with which the context begins.
    """
    front = sent.front or request
    sent_sources = {attachment.source for attachment in front.attachments}
    sent_names = {tool.name for tool in front.tools}

    for change in sent.changes:
        yield _count_saved_content(change, request, sent_sources)
        if isinstance(change.content, Attachment):
            sent_sources.add(change.content.source)

        # Definitions that no longer apply, or for which the request already has one.
        saved: list[ToolDefinition] = []
        for tool in change.tools:
            is_outdated = tool not in request.tools
            is_repeated = tool.name in sent_names
            if is_outdated or is_repeated:
                saved.append(tool)
        yield "tools", _count_definitions(saved)
        sent_names |= {tool.name for tool in change.tools}

    # With some APIs, the front has each tool that any request of the conversation had. Those of the
    # first head are no appended changes.
    outdated = [
        tool for tool in front.tools if tool not in request.tools and tool not in first.tools
    ]
    yield "tools", _count_definitions(outdated)


def _count_saved_content(
    change: AppendedChange, request: ModelRequest, sent_sources: set[str]
) -> tuple[str, int]:
    """Return the name of a changed part, and the tokens that a new head would save of it."""
    content = change.content
    # A text counts whole, although a new head has the current text too: what it replaces, which a
    # new head saves, is about as long.
    if not isinstance(content, Attachment):
        return change.part, estimate_text_tokens(content)

    # The only copy of a current file costs the same in a new head, so nothing is saved.
    still_applies = content in request.attachments
    is_only_copy = content.source not in sent_sources
    is_saved = not (still_applies and is_only_copy)
    return "attachments", _count_attachment(content) if is_saved else 0


def _iter_change_tokens(heads: Sequence[RequestHead], request: ModelRequest) -> Iterator[int]:
    """Yield the most tokens that the change from each of `heads` to the next one can append."""
    contents = request.context.contents
    for before, after in pairwise(heads):
        # If texts were only added, only these are sent. Otherwise, all are sent again.
        is_extended = after.system[: len(before.system)] == before.system
        texts = after.system[len(before.system) :] if is_extended else after.system
        yield sum(map(estimate_text_tokens, texts))

        yield _count_definitions([tool for tool in after.tools if tool not in before.tools])
        added = [digest for digest in after.attachments if digest not in before.attachments]
        yield sum(_count_attachment(contents[digest]) for digest in added if digest in contents)
        if after.schema is not None and after.schema != before.schema:
            yield estimate_text_tokens(compact_json(dict(after.schema)))


def _count_attachment(attachment: Attachment) -> int:
    """Return the tokens of an attachment. A page of a PDF counts as a large image."""
    if attachment.media_type != PDF or isinstance(attachment.content, str):
        return estimate_attachment_tokens(attachment)
    pages = Image(PDF, attachment.content, attachment.source).pages
    return MAX_IMAGE_TOKENS * (pages or 1)


def _count_definitions(tools: list[ToolDefinition]) -> int:
    return sum(map(estimate_tool_tokens, tools))
