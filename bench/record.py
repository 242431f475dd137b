"""Benchmark the record as it grows, and compare loading it with reading its JSON.

    python -m bench.record

Figures are medians over runs in which the sizes alternate, so that a busy machine slows all of them
equally. The ratio at the end of a line compares with the smallest size, or with the other way.
"""

from __future__ import annotations

import gc
import json
import statistics
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Annotated, Any

from pydantic import Field, SecretBytes, TypeAdapter

from jp_nb.record.changes.config_history import Projection
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.signing import Signer
from jp_nb.record.entries.events import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
)
from jp_nb.record.entries.inquiry_events import InquiryRequest, InquiryResponse
from jp_nb.record.entries.new_ids import make_random_id
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.request_context.context_builder import build_context
from jp_nb.record.stream import ConversationStream

SIZES = (10, 1_000, 10_000, 50_000)
LOADED = 10_000
RUNS = 7
APPENDS = 200
T = "2026-03-18 13:19:06.841464"

KINDS = TypeAdapter(
    list[
        Annotated[
            TurnStart
            | ChatRequest
            | ChatResponse
            | ToolCallRequest
            | ToolCallResponse
            | InquiryRequest
            | InquiryResponse
            | ConfigDelta,
            Field(discriminator="type"),
        ]
    ]
)
"""The least that checks the same entries."""


def turn(number: int) -> list[dict[str, Any]]:
    """Ten entries, 230 bytes each."""
    call = f"call_{number}"
    question = {"text": "Apply?", "answer_type": {"type": "boolean"}, "default": True}
    fields: list[dict[str, Any]] = [
        {"type": "turn_start"},
        {"type": "chat_request", "content": "What now? " * 8, "metadata": {"cell_id": call}},
        {"type": "chat_response", "reasoning": "Hm. " * 50, "metadata": {"signature": "RXB" * 80}},
        {"type": "tool_call_request", "id": call, "name": "fs", "arguments": {"path": ["a", "b"]}},
        {
            "type": "inquiry_request",
            "id": f"{call}.q.1",
            "source": {"source": "tool", "name": "fs"},
            "question": question,
        },
        {
            "type": "inquiry_response",
            "outcome": "answered",
            "id": f"{call}.q.1",
            "answer": True,
            "metadata": {"end": "answered", "channel": "form"},
        },
        {"type": "tool_call_response", "id": call, "content": "line\n" * 30, "is_error": False},
        {"type": "config_delta", "delta": {"user": {"name": f"Ada {number}"}}},
        {"type": "chat_response", "message": "Some text. " * 25},
        {"type": "chat_response", "message": "More of it. " * 6},
    ]
    return [{"timestamp": T, **raw} for raw in fields]


def entries(size: int, *, ids: bool = False) -> list[dict[str, Any]]:
    raw = [entry for number in range(size // 10) for entry in turn(number)]
    if ids:
        request = ""
        for index, entry in enumerate(raw):
            linked = {"request_id": request} if entry["type"].startswith(("tool", "inq")) else {}
            raw[index] = {"event_id": make_random_id(), **linked, **entry}
            if entry["type"] == "chat_request":
                request = str(raw[index]["event_id"])
    return raw


def loaded(raw: Sequence[Any]) -> Document:
    value: Any = {"version": 1, "conversation": {"id": "jp-c1"}, "events": raw}
    return Document.load(value, clock=utc_now)


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    start = perf_counter()
    kept = work()
    taken = perf_counter() - start
    del kept
    return taken


def repeat(work: Callable[[], object]) -> None:
    for _ in range(APPENDS):
        work()


def medians(works: Sequence[Callable[[], object]], runs: int = RUNS) -> list[float]:
    """Median seconds of each of `works`, which take turns."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(runs):
        for found, work in zip(taken, works, strict=True):
            found.append(seconds(work))
    return [statistics.median(found) for found in taken]


def row(what: str, figures: Sequence[str], ratio: float | None = None) -> None:
    shown = "".join(f"{figure:>12}" for figure in figures)
    print(f"{what:<44}{shown}" + (f"{ratio:>10.2f} x" if ratio is not None else ""))


def by_size(what: str, found: Sequence[float], *, per_entry: bool = False) -> None:
    """One line: microseconds at each size, and the largest beside the smallest."""
    each = [f / size if per_entry else f for f, size in zip(found, SIZES, strict=True)]
    row(what, [f"{value * 1e6:.1f} µs" for value in each], each[-1] / each[0])


# --- what is measured ------------------------------------------------------------------------


def appends() -> None:
    """Batches at every size by turns; entries are taken back in between, so sizes stay."""
    for what, opens in (("append, in turns of ten", True), ("append, all in one turn", False)):
        records = [entries(size) for size in SIZES]
        if not opens:
            records = [[raw[0], raw[1], *[raw[8]] * (len(raw) - 2)] for raw in records]
        streams = [loaded(raw).conversation for raw in records]
        entry = ChatResponse(message="Some text. " * 25)

        taken: list[list[float]] = [[] for _ in SIZES]
        for _ in range(RUNS * 3):
            for index, raw in enumerate(records):
                stream = streams[index]
                taken[index].append(seconds(partial(repeat, partial(stream.append, entry))))
                if len(stream) > len(raw) * 1.2 + APPENDS:
                    streams[index] = loaded(raw).conversation
        by_size(what, [statistics.median(found) / APPENDS for found in taken])


def parsed(text: str) -> Any:
    """json.loads alone"""
    return json.loads(text)


def checked(text: str) -> Any:
    """json.loads + pydantic"""
    return KINDS.validate_python(json.loads(text))


def recorded(text: str) -> Any:
    """the record"""
    return loaded(json.loads(text))


def threaded(text: str) -> Any:
    """the record and its thread"""
    document = loaded(json.loads(text))
    return document, build_context(document.conversation)


def loading() -> None:
    for what, ids in (("without ids", False), ("with ids and links", True)):
        text = json.dumps(entries(LOADED, ids=ids))
        ways = (parsed, checked, recorded, threaded)
        taken = medians([partial(way, text) for way in ways])
        print(f"\nload {LOADED:,} entries {what}: {len(text) // LOADED} bytes each")
        for way, value in zip(ways, taken, strict=True):
            row(f"  {way.__doc__}", [f"{value * 1e3:.1f} ms"], value / taken[1])


def serialised(document: Document) -> str:
    return json.dumps(document.to_json())


def serialising() -> None:
    documents = [loaded(entries(size)) for size in SIZES]
    works = [partial(serialised, document) for document in documents]
    by_size("json.dumps(document.to_json()), per entry", medians(works), per_entry=True)


def projecting() -> None:
    """Effective configuration after one more change."""
    streams = [loaded(entries(size)).conversation for size in SIZES]
    projections = [Projection(stream, list) for stream in streams]
    for projection in projections:
        projection.config()
    taken: list[list[float]] = [[] for _ in SIZES]
    for number in range(RUNS * 3):
        for index, (stream, projection) in enumerate(zip(streams, projections, strict=True)):
            stream.append(ConfigDelta(delta={"user": {"name": f"Eve {number}"}}))
            taken[index].append(seconds(projection.config))
    by_size("config() after one more delta", [statistics.median(found) for found in taken])


def signing() -> None:
    """The signature after one more entry."""
    streams = [loaded(entries(size)).conversation for size in SIZES]
    signers = [Signer.of(SecretBytes(bytes(32)), stream) for stream in streams]
    entry = ChatResponse(message="Some text. " * 25)

    def sign(signer: Signer, stream: ConversationStream) -> None:
        signer.catch_up(stream)
        signer.signature()

    taken: list[list[float]] = [[] for _ in SIZES]
    for _ in range(RUNS * 3):
        for index, (stream, signer) in enumerate(zip(streams, signers, strict=True)):
            stream.append(entry)
            taken[index].append(seconds(partial(sign, signer, stream)))
    by_size("signature after one more entry", [statistics.median(found) for found in taken])


def repairing() -> None:
    streams = [loaded(entries(size)).conversation for size in SIZES]
    first = [seconds(stream.repair) for stream in streams]
    by_size("repair() after loading, per entry", first, per_entry=True)
    again = medians([partial(repeat, stream.repair) for stream in streams])
    by_size("repair() once it was checked", [found / APPENDS for found in again])


def memory() -> None:
    text = json.dumps(entries(LOADED, ids=True))
    tracemalloc.start()
    raw = json.loads(text)
    values, _ = tracemalloc.get_traced_memory()
    document = loaded(raw)
    whole, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(document.conversation) == LOADED
    print(f"\nmemory of {LOADED:,} entries, each")
    row("  as text", [f"{len(text) // LOADED} B"])
    row("  as JSON values", [f"{values // LOADED} B"])
    row("  with views and ids", [f"{whole // LOADED} B"], whole / values)


def main() -> None:
    row("entries", [f"{size:,}" for size in SIZES])
    appends()
    serialising()
    projecting()
    signing()
    repairing()
    loading()
    memory()


if __name__ == "__main__":
    main()
