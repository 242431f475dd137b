"""Marks of the server that a request was sent to: a digest in the metadata of entries.

Before a request goes to another server than the previous one, the user sees a notice. The metadata
of an entry, such as ids and signatures, is sent only to the server that it is from.

Source: `docs/record.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Self

from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_shape import get_events
from jp_nb.record.entries.events import (
    EntryT,
)

HOST: Final = "host"


@dataclass(frozen=True, slots=True)
class LastHost:
    """The host of a notebook's last request: its digest, and a name that is not recorded."""

    mark: str
    name: str = "another host"

    @classmethod
    def of(cls, host: str) -> Self:
        """Return the name and the digest of `host`, such as `127.0.0.1:8080`."""
        return cls(f"sha256:{sha256(host.encode()).hexdigest()[:8]}", host)


def format_other_host(last: LastHost, host: str, provider: str) -> str:
    """Return the line for the user before a request goes to another host than the `last` one."""
    return (
        f"⚠ This request is sent to {host} ({provider}). "
        f"The previous request of this notebook went to {last.name}."
    )


def mark_host(entry: EntryT, host: str) -> EntryT:
    """Return `entry`, whose metadata is from the server at `host`, with the mark of the host."""
    return entry.with_metadata(**{HOST: LastHost.of(host).mark}) if host else entry


def read_recorded_host(document: Document) -> LastHost | None:
    """Return the host of the latest request in `document`, or None if no request has one."""
    found: list[tuple[str, str]] = []
    for request in document.conversation.requests:
        mark = request.metadata.get(HOST)
        if isinstance(mark, str):
            found.append((request.timestamp, mark))

    for conversation in document.others:
        for event in get_events(conversation):
            match event:
                case {"timestamp": str(timestamp), "metadata": {"host": str(mark)}}:  # `HOST`
                    found.append((timestamp, mark))

    return LastHost(max(found)[1]) if found else None
