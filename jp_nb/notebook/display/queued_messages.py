"""The queued messages of a running cell, and the reduction of a batch by the rules of Jupyter.

`Outbox` (`outbox.py`) queues them, and sends each batch.

Source: https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jp_nb.notebook.published import OUTPUTS, Published


@dataclass(slots=True)
class QueuedMessage:
    """A message in the queue of an `Outbox`.

    Attributes:
        published: The message, to compare it with others.
        send: Sends the message to a socket.
        texts: The texts of a `stream` message, which `send` joins: its own, and those of later
            messages that `reduce_batch` has joined with it.
        ends_batch: True if the batch is sent at once. No messages are dropped or joined across it.
    """

    published: Published
    send: Callable[[Any], object]
    texts: list[str] = field(default_factory=list)
    ends_batch: bool = False

    @property
    def stream(self) -> tuple[Any, Mapping[str, Any]] | None:
        """The name of the stream, and the header of its request; None for other messages."""
        if self.published.kind != "stream":
            return None
        return self.published.content.get("name"), self.published.parent


def reduce_batch(batch: list[QueuedMessage]) -> list[QueuedMessage]:
    """Return the batch with fewer messages that have the same effect in a page."""
    return _join_texts(_drop_outdated(_drop_cleared(batch)))


def _drop_cleared(batch: list[QueuedMessage]) -> list[QueuedMessage]:
    """Return the batch without the outputs that a later message of it clears."""
    has_later_output = False
    last_clear = -1

    for number in reversed(range(len(batch))):
        published = batch[number].published
        # `clear_output` with `wait` takes effect when the next output arrives.
        takes_effect = has_later_output or not published.content.get("wait")
        if published.kind == "clear_output" and takes_effect:
            last_clear = number
            break
        has_later_output = has_later_output or published.kind in OUTPUTS

    dropped_kinds = OUTPUTS | {"clear_output"}
    return [
        queued
        for number, queued in enumerate(batch)
        if number >= last_clear or queued.published.kind not in dropped_kinds
    ]


def _drop_outdated(batch: list[QueuedMessage]) -> list[QueuedMessage]:
    """Return the batch without updates of a display that a later message updates again."""
    kept: list[QueuedMessage] = []
    updated: set[str] = set()

    for queued in reversed(batch):
        display_id = queued.published.display_id
        if queued.published.kind == "update_display_data" and display_id is not None:
            if display_id in updated:
                continue
            updated.add(display_id)
        kept.append(queued)

    return kept[::-1]


def _join_texts(batch: Iterable[QueuedMessage]) -> list[QueuedMessage]:
    """Join consecutive texts of one stream into one message."""
    joined: list[QueuedMessage] = []
    for queued in batch:
        if joined and queued.stream is not None and joined[-1].stream == queued.stream:
            joined[-1].texts += queued.texts
        else:
            joined.append(queued)

    return joined
