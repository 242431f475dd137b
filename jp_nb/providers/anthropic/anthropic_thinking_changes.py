"""Read the reports of Anthropic Messages about thinking in a request that does not fit any more.

A request sends back the thinking of earlier responses, with its signature. If something before it
has changed since, such as the instructions, the server reports that the thinking does not fit, and
whether it was dropped or passed to the model anyway.

Source: `docs/providers.md`, https://platform.claude.com/docs/en/build-with-claude/streaming.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from jp_nb.agent.provider_events import InputChange
from jp_nb.json_values import as_object

_TRANSFORMATIONS: Final = {"thinking_dropped": True, "thinking_mismatch_allowed": False}
"""Types of `input_transformations`, with True if the model did not get the thinking."""


def list_thinking_changes(
    transformations: object, find_signatures: Callable[[Sequence[str]], Sequence[str]]
) -> Iterator[InputChange]:
    """Yield the reports about thinking in the request that does not fit the conversation.

    A reader of an event finds the entry of the record with this thinking by its signature.

    Args:
        transformations: The server's list `input_transformations`; anything else is no report.
        find_signatures: Returns the signatures of the thinking at paths in the request, such as
            `messages.1.content.0`, in the same order; "" for one that is not found.
    """
    listed = transformations if isinstance(transformations, list) else []
    known = [change for change in map(as_object, listed) if change.get("type") in _TRANSFORMATIONS]
    if not known:
        return

    signatures = find_signatures([str(change.get("path")) for change in known])
    for change, signature in zip(known, signatures, strict=True):
        # Such as `prefix` for `prefix_binding_mismatch`: something before the thinking has changed.
        reason = str(change.get("reason")).removesuffix("_binding_mismatch")
        is_dropped = _TRANSFORMATIONS[str(change["type"])]
        yield InputChange(reason, is_dropped, signature)
