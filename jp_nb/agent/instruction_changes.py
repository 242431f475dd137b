"""Bound the changed instructions that requests append to their messages.

A change of the instructions becomes a message, so that each request begins with the previous one. A
tool that changes them often would fill the context with instructions that no longer apply. So a
request begins a new head if they take too much of the context.

Source: `docs/providers.md` (requests only grow).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from jp_nb.agent.compaction import estimate_text_tokens
from jp_nb.agent.provider import ModelRequest, Provider
from jp_nb.errors import ProviderError

DEFAULT_CONTEXT_TOKENS: Final = 32_768
"""Context of a model if its provider has not listed it in this kernel."""
CONTEXT_PARTS: Final = 4
"""Appended instructions may take one of this many parts of the context."""
INSTRUCTIONS: Final = "instructions"
"""Name of this part in `AppendedChange`."""


def exceeds_context_share(
    provider: Provider, request: ModelRequest, context_tokens: int | None
) -> bool:
    """Return True if the changes of instructions take too much of the model's context.

    `context_tokens` is the size of the context; None if it is unknown.
    """
    allowed = (context_tokens or DEFAULT_CONTEXT_TOKENS) // CONTEXT_PARTS
    changed = sum(map(estimate_text_tokens, _iter_changed_texts(request)))
    if changed <= allowed:
        return False

    # Not every model gets changes as messages: some have the current instructions in front.
    try:
        appended = provider.preview(request).changes
    except ProviderError:
        return False  # sending the request raises it as well
    texts = (each.content for each in appended if each.part == INSTRUCTIONS)
    return sum(estimate_text_tokens(str(text)) for text in texts) > allowed


def _iter_changed_texts(request: ModelRequest) -> Iterator[str]:
    """Yield the instructions that each change of the conversation adds."""
    systems = [position.head.system for position in request.thread.heads]
    for before, after in pairwise([*systems, request.system]):
        is_extended = after[: len(before)] == before
        yield from after[len(before) :] if is_extended else after
