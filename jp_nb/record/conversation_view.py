"""A conversation as code reads it: a snapshot that nothing changes.

Source: `docs/decisions.md` D40.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from jp_nb.config.tree.app_config import AppConfig
from jp_nb.json_values import json_copy
from jp_nb.record.entry import RawEntry
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turn_view import Turn


@dataclass(frozen=True, slots=True)
class Conversation:
    """The record at one moment.

    Attributes:
        id: Such as `jp-c17738399468`.
        title: Its title, if it has one.
        turns: The turns, oldest first.
        events: The stored entries as JSON objects, oldest first; copies.
        config: The configuration in force.
    """

    id: str
    title: str | None
    turns: tuple[Turn, ...]
    events: tuple[RawEntry, ...] = field(repr=False)
    config: AppConfig = field(repr=False)

    @classmethod
    def of(
        cls, stream: ConversationStream, turns: Iterable[Turn], config: AppConfig
    ) -> Conversation:
        """A snapshot of `stream`."""
        return cls(stream.id, stream.title, tuple(turns), tuple(json_copy(stream.raw)), config)
