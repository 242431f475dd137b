"""A record in segments, as the page of a shared document stores it."""

from __future__ import annotations

from typing import Any

from jp_nb.record.merge import compute_checksum


def in_segments(doc: dict[str, Any], *sizes: int) -> dict[str, Any]:
    """Metadata in which the first entries of `doc` are in segments of these `sizes`."""
    metadata: dict[str, Any] = {}
    sealed = []
    start = 0
    for number, size in enumerate(sizes, 1):
        part = doc["events"][start : start + size]
        held = {"conversation": doc["conversation"]["id"], "from": start, "events": part}
        metadata[f"jp.{number}"] = held
        sealed.append({"segment": number, "length": size, "check": compute_checksum(part)})
        start += size
    metadata["jp"] = doc | {"version": 2, "sealed": sealed, "events": doc["events"][start:]}
    return metadata
