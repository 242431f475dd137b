"""Time to read hostile records: it grows in proportion to their length."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from time import process_time
from types import FrameType
from typing import Any

import pytest

from tests.kit.notebook_record import NotebookRecord
from tests.kit.record_view import RecordView
from tests.kit.recorded_settings import RecordedSettings
from tests.support.images import figure

T = "2025-01-31 09:00:00.0"
Json = dict[str, Any]
SLACK = 3.0
"""Of measuring, and of sizes that are not quite proportional."""


def delta(values: Json | None = None, *unsets: str, **more: Any) -> Json:
    return {
        "type": "config_delta",
        "timestamp": T,
        "delta": values or {},
        "unsets": list(unsets),
        **more,
    }


def entry(kind: str, **fields: Any) -> Json:
    return {"type": kind, "timestamp": T, **fields}


def jp(events: list[Json], base: Json | None = None, others: Any = ()) -> Json:
    conversation = {"id": "jp-c1", "made": "live"}
    return {
        "version": 1,
        "conversation": conversation,
        "base_config": base or {},
        "events": events,
        "others": list(others),
    }


START = entry("turn_start")
ASKED = entry("chat_request", content="Go.")
SAID = entry("chat_response", message="Yes.")
LIST = "assistant.model.parameters.stop_words"


def parts(n: int) -> Json:
    return {"assistant": {"instructions": [{"title": f"t{i}", "items": ["x"]} for i in range(n)]}}


def tools(n: int) -> Json:
    return {"conversation": {"tools": {f"t{i}": {"enable": False} for i in range(n)}}}


def unset_in_turns(n: int) -> Json:
    """Items of two lists in turn: none of them can be taken together."""
    two = [f'assistant.instructions["t{i}"]' for i in range(20)]
    other = [f'{LIST}["w{i}"]' for i in range(20)]
    paths = [path for pair in zip(two, other, strict=True) for path in pair]
    return jp([delta(None, *paths) for _ in range(n // 20)], parts(n))


def call(i: object) -> Json:
    return entry("tool_call_request", id=f"c{i}", name="t", arguments={})


def result(i: object) -> Json:
    return entry("tool_call_response", id=f"c{i}", content="", is_error=False)


SHAPES: dict[str, Callable[[int], Json]] = {
    "changes of one value": lambda n: jp([delta({"user": {"name": str(i)}}) for i in range(n)]),
    "changes beside a large map": lambda n: jp(
        [delta({"conversation": {"tools": {"t1": {"enable": True}}}})] * (n // 4), tools(n)
    ),
    "items for a large list": lambda n: jp([delta(parts(1))] * (n // 4), parts(n)),
    "a list that grows": lambda n: jp(
        [
            delta({"assistant": {"model": {"parameters": {"stop_words": [str(i)]}}}})
            for i in range(n)
        ]
    ),
    "unsets in a large list": unset_in_turns,
    "many unsets at once": lambda n: jp([delta(None, *(f"k{i}" for i in range(n)))]),
    "the beginning's own changes": lambda n: jp(
        [], {"base": tools(n), "init": [delta(parts(1), "conversation.tools.t1")] * (n // 4)}
    ),
    "unknown keys": lambda n: jp([], {f"k{i}": 1 for i in range(n)}),
    "resets": lambda n: jp([delta(op="reset")] * n, tools(n)),
    "claims": lambda n: jp(
        [delta(claims={f"conversation.tools.t{i}.enable": ["ab:x"] for i in range(n)})]
    ),
    "turns": lambda n: jp([START, ASKED, SAID] * n),
    "turns without an end": lambda n: jp([START] * n),
    "one id for all": lambda n: jp(
        [START, *[entry("chat_request", content="", event_id="e", request_id="e")] * n]
    ),
    "calls of one id": lambda n: jp([START, ASKED, *[call(0)] * n, *[result(0)] * n]),
    "calls without an end": lambda n: jp([START, ASKED, *map(call, range(n))]),
    "ends without a call": lambda n: jp([START, ASKED, *map(result, range(n))]),
    "other conversations of one id": lambda n: jp(
        [ASKED], others=[{"conversation": {"id": "x"}, "events": [ASKED]}] * n
    ),
    "other conversations inside each other's name": lambda n: jp(
        [ASKED], others=[{"conversation": {"id": f"x~{i}"[: 1 + i % 3 * 3]}} for i in range(n)]
    ),
    "nested without end": lambda n: jp([entry("of the future", deep=nested(400))] * (n // 100)),
    "changes that a new conversation leaves behind": lambda n: jp(
        [
            delta({"template": {"values": {f"k{i}": 1 for i in range(n)}}}),
            *[delta({"user": {"name": str(i)}}) for i in range(n)],
        ]
    ),
    "one image, shown again and again": lambda n: jp(
        [START, ASKED, picture(500_000), *[each for i in range(n) for each in shown(i)]]
    ),
    "one result that shows very many": lambda n: jp(
        [START, ASKED, call("a"), result("a") | {"metadata": {"images": ["sha256:"] * n * 10}}]
    ),
    "many copies of a damaged image": lambda n: jp(
        [START, ASKED, *[picture(5_000, "sha256:0")] * n, *[x for i in range(n) for x in shown(i)]]
    ),
    "images of one digest between what shows them": lambda n: jp(
        [START, ASKED, *[x for i in range(n) for x in (picture(5_000, "sha256:0"), *shown(i))]]
    ),
    "huge ids": lambda n: jp([START, ASKED, call("x" * n * 100), result("x" * n * 100)]),
}


def picture(size: int, digest: str | None = None) -> Json:
    image = figure(padding=size)
    fields = {"digest": digest or image.digest, "media_type": "image/png", "data": image.text}
    return entry("image", **fields)


def shown(i: int) -> list[Json]:
    digests = [figure(padding=500_000).digest, "sha256:0", ""]
    return [call(i), result(i) | {"metadata": {"images": digests}}]


def nested(depth: int) -> Any:
    return json.loads("[" * depth + "]" * depth)


def read_all(stored: Json) -> None:
    """Everything that loading, the log and the next turn do with a record."""
    notebook = NotebookRecord(stored)
    view = RecordView(notebook.stream)
    view.notices()

    settings = RecordedSettings(view.stream, trusted=False)
    settings.sources("user.name")
    settings.inherited({})
    view.context(settings.providers())
    notebook.conversations()
    view.turns()
    settings.owned_by_hash("ab")
    view.stream.repair()
    view.fork()


def measured(stored: Json) -> Iterator[float]:
    """Some measurements, in seconds. The least of them counts: whatever disturbs adds to it."""
    for _ in range(3):
        gc.collect()
        began = process_time()
        read_all(stored)
        yield process_time() - began


@pytest.mark.deep
def test_reading_takes_linear_time(subtests: pytest.Subtests) -> None:
    for shape in SHAPES:
        with subtests.test(shape=shape):
            make = SHAPES[shape]
            small = 250
            while (short := min(measured(make(small)))) < 0.01 and small < 4000:
                small *= 2
            limit = 4 * SLACK * max(short, 0.01)
            assert any(seconds < limit for seconds in measured(make(4 * small)))


def count_calls(stored: Json) -> int:
    """Return the number of calls of Python functions that reading `stored` takes."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        read_all(stored)
    finally:
        sys.setprofile(None)
    return calls


BOUNDED = ("items for a large list", "a list that grows", "unsets in a large list")
"""Reading these takes more than linear work, until the bound for untrusted records."""


def test_reading_takes_a_linear_number_of_calls(subtests: pytest.Subtests) -> None:
    for shape in SHAPES:
        if shape in BOUNDED:
            continue
        with subtests.test(shape=shape):
            base, short, long = (count_calls(SHAPES[shape](count)) for count in (0, 30, 90))
            assert long - base <= 1.5 * 3 * max(short - base, 500)


def wrap_list(n: int) -> Json:
    """Unsets of items of a list that is stored with its merge strategy."""
    stored = unset_in_turns(n)
    items = stored["base_config"]["assistant"]["instructions"]
    stored["base_config"]["assistant"]["instructions"] = {"value": items, "strategy": "append"}
    return stored


def wrap_table(n: int) -> Json:
    """Changes of a table that is stored with its merge strategy."""
    values = {f"k{i}": 1 for i in range(n)}
    base = {"template": {"values": {"value": values, "strategy": "deep_merge"}}}
    return jp([delta({"template": {"values": {"k1": 2}}})] * n, base)


def wrap_changes(n: int) -> Json:
    """Changes with a merge strategy of a table within a table."""
    base = {"template": {"values": {"a": {f"k{i}": 1 for i in range(n)}}}}
    change = {"value": {"a": {"k1": 2}}, "strategy": "deep_merge"}
    return jp([delta({"template": {"values": change}})] * n, base)


@pytest.mark.parametrize("make", [unset_in_turns, wrap_list, wrap_table, wrap_changes])
def test_skipped_changes_of_a_long_untrusted_record_are_reported_and_kept(
    make: Callable[[int], Json],
) -> None:
    stored = make(6000)
    notebook = NotebookRecord(stored)
    settings = RecordedSettings(notebook.stream, trusted=False)
    (path,) = settings.ignored
    assert path.startswith("(too many changes for an untrusted record")
    assert notebook.stored["events"] == stored["events"]


def test_skipped_reset_of_a_long_untrusted_record_discards_no_settings() -> None:
    stored = unset_in_turns(6000)
    stored["events"].append(delta(op="reset"))
    stream = NotebookRecord(stored).stream
    settings = RecordedSettings(stream, trusted=False)
    assert settings.count_steps() == 1 + len(stream.deltas)
    assert settings.table() == settings.until(len(stream) - 1).table() != {}
