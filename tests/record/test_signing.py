"""Signatures: changes that keep them, changes that break them, cost."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.notebook_record import NotebookRecord
from tests.kit.records import new_event
from tests.kit.texts import write_text
from tests.record.keyring import Keyring
from tests.support.record_strategies import STAMP, json_values, texts

KEY = bytes(range(32))
OTHER_KEY = b"x" * 32
objects: st.SearchStrategy[dict[str, Any]] = st.dictionaries(texts, json_values, max_size=3)


def delta(**fields: Any) -> dict[str, Any]:
    return {"type": "config_delta", "timestamp": STAMP, **fields}


deltas = st.one_of(
    st.builds(
        lambda d, u, c: delta(delta=d, unsets=u, claims=c),
        objects,
        st.lists(texts, max_size=2),
        st.dictionaries(texts, st.none() | st.lists(texts, max_size=2), max_size=2),
    ),
    st.just(delta(op="reset")),
)
records = st.fixed_dictionaries(
    {"id": st.sampled_from(["jp-c1", "jp-c2"]), "base": objects, "deltas": st.lists(deltas)}
)


def stored(record: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the `jp` object of `record`."""
    head = {"id": record["id"]}
    return {"conversation": head, "base_config": record["base"], "events": record["deltas"], **more}


def signature(record: dict[str, Any], key: bytes = KEY) -> Any:
    """Return the signature that `%jp trust` writes."""
    notebook = NotebookRecord(stored(record), keys=Keyring(key))
    notebook.trust.accept()
    return notebook.signature


def is_valid(record: dict[str, Any], signature: Any, key: bytes = KEY) -> bool:
    """Return True if a notebook with this signature is trusted."""
    signed = stored(record, signature=signature)
    return bool(NotebookRecord(signed, keys=Keyring(key)).trust.trusted)


def through_a_page(value: Any) -> Any:
    """Return JSON after `JSON.parse` and `JSON.stringify`."""
    match value:
        case bool() | None:
            return value
        case int() | float():
            return _js_number(value)
        case dict():
            numeric = sorted((k for k in value if k.isascii() and k.isdecimal()), key=int)
            rest = [k for k in value if k not in numeric]
            return {k: through_a_page(value[k]) for k in [*numeric, *reversed(rest)]}
        case list():
            return [through_a_page(item) for item in value]
    return value


def _js_number(value: float) -> Any:
    try:
        double = float(value)
    except OverflowError:
        return None
    if not math.isfinite(double):
        return None
    if double.is_integer() and abs(double) < 1e21:
        return int(Decimal(repr(double)))  # the shortest digits that name it, then zeros
    return double


def with_whole_doubles(value: Any) -> Any:
    """Every number as a double, as stores of shared editing keep them."""
    match value:
        case bool() | str() | None:
            return value
        case dict():
            return {key: with_whole_doubles(item) for key, item in value.items()}
        case list():
            return [with_whole_doubles(item) for item in value]
    return float(value)


@given(records, st.integers(0, 3))
def test_signature_survives_pages_and_files(record: dict[str, Any], times: int) -> None:
    changed = record
    for _ in range(times):
        changed = json.loads(json.dumps(through_a_page(changed)))
    assert signature(changed) == signature(record)
    in_a_file = json.loads(json.dumps(record, sort_keys=True, indent=1, ensure_ascii=False))
    assert signature(in_a_file) == signature(record)
    assert signature(with_whole_doubles(record)) == signature(record)


Change = Callable[[dict[str, Any]], Any]
RECORD: dict[str, Any] = {
    "id": "jp-c1",
    "base": {"user": {"name": "Ada"}, "n": [1, 2]},
    "deltas": [
        delta(delta={"conversation": {"tools": {"rm": {"run": "ask"}}}}),
        delta(unsets=["user.name", "x"], claims={"user.name": None, "x": ["a:b"]}),
        delta(op="reset"),
        delta(delta={"user": {"name": "B"}}),
        {"type": "chat_request", "timestamp": STAMP, "content": "q", "metadata": {"n": 1}},
        {"type": "of a later release", "x": [1]},
    ],
}


def _swap(record: dict[str, Any]) -> None:
    record["deltas"][0], record["deltas"][1] = record["deltas"][1], record["deltas"][0]


def test_any_change_of_messages_or_settings_breaks_the_signature(subtests: pytest.Subtests) -> None:
    changes: list[Change] = [
        lambda r: r.update(id="jp-c2"),
        lambda r: r["base"]["user"].update(name="Eve"),
        lambda r: r["base"]["n"].reverse(),
        lambda r: r["deltas"][0]["delta"]["conversation"]["tools"]["rm"].update(run="unattended"),
        lambda r: r["deltas"][1]["unsets"].reverse(),
        _swap,
        lambda r: r["deltas"].pop(0),
        lambda r: r["deltas"].pop(),
        lambda r: r["deltas"].append(r["deltas"][-1]),
        lambda r: r["deltas"][0].update(metadata={"cell_id": "x"}, event_id="y"),
        lambda r: r["deltas"][2].update(delta={"ignored": "by a reset"}),
        lambda r: r["deltas"][4]["metadata"].update(n=2),
        lambda r: r["deltas"][5].update(x=[1, 2]),
        lambda r: r["deltas"].insert(1, {"type": "turn_start", "timestamp": STAMP}),
    ]
    for number, change in enumerate(changes):
        with subtests.test(number=number):
            changed = json.loads(json.dumps(RECORD))
            change(changed)
            assert signature(changed) != signature(RECORD)


@given(records, records)
def test_different_records_have_different_signatures(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    def canonical(record: dict[str, Any]) -> str:
        return write_text("canonical_json", [record["id"], record["base"], record["deltas"]])

    assert (signature(one) == signature(other)) == (canonical(one) == canonical(other))


def begun(*deltas: dict[str, Any]) -> NotebookRecord:
    """Return a trusted notebook with these entries, which each append signs."""
    record = {"id": "jp-c1", "base": {"a": 1}, "deltas": list(deltas)}
    notebook = NotebookRecord(stored(record), keys=Keyring(KEY))
    notebook.trust.accept()
    return notebook


def test_appended_entries_are_signed_as_when_read_again() -> None:
    notebook = begun()
    notebook.stream.append(
        new_event("config_delta", op="reset", delta={"a": 1}),
        new_event("config_delta", unsets=("x",)),
    )
    entries = notebook.stored["events"]
    assert notebook.signature == signature({"id": "jp-c1", "base": {"a": 1}, "deltas": entries})


def test_signing_an_append_reads_only_the_new_entry() -> None:
    """Earlier entries are not read again: the change of one in memory has no effect."""
    notebook = begun(*[delta(delta={"n": 1})] * 1000)
    original = notebook.stored["events"]
    notebook.stream.raw[0] = delta(delta={"n": 7})
    notebook.stream.append(new_event("config_delta", delta={"n": 2}))
    entries = [*original, notebook.stream.raw[-1]]
    assert notebook.signature == signature({"id": "jp-c1", "base": {"a": 1}, "deltas": entries})


def test_rewritten_entries_are_not_mistaken_for_the_signed_ones() -> None:
    notebook = begun()
    stream = notebook.stream
    for text in ("one", "two"):
        stream.start_turn(new_event("chat_request", content=text))
    stream.rewrite(stream.list_items()[:-1])
    stream.append(new_event("chat_request", content="three"))
    entries = notebook.stored["events"]
    assert notebook.signature == signature({"id": "jp-c1", "base": {"a": 1}, "deltas": entries})


def test_signature_depends_on_the_key() -> None:
    assert is_valid(RECORD, signature(RECORD))
    assert not is_valid(RECORD, signature(RECORD), OTHER_KEY)
    assert signature(RECORD, OTHER_KEY) != signature(RECORD)


GOOD = signature(RECORD)


def test_anything_else_is_no_signature(subtests: pytest.Subtests) -> None:
    assert is_valid(RECORD, GOOD)
    assert GOOD.startswith("2:")
    rows: list[Any] = [
        None,
        True,
        1,
        1.5,
        [],
        {},
        "",
        "2:",
        GOOD[2:],
        f"1:{GOOD[2:]}",
        GOOD.upper(),
        GOOD + "\n",
        f" {GOOD}",
        GOOD[:-1],
        GOOD + "0",
        [GOOD],
        {"2": GOOD},
        "2:" + "ä" * 64,
        "2:" + "\ud800" * 64,
        "2:" + "٣" * 64,
    ]
    for damaged in rows:
        with subtests.test(damaged=damaged):
            assert not is_valid(RECORD, damaged)


def test_deeply_nested_record_is_refused_without_quoting_it() -> None:
    deep: Any = "needle"
    for _ in range(100_000):
        deep = [deep]
    notebook = NotebookRecord(keys=Keyring(KEY), base_config={"a": deep})
    with pytest.raises(jp.StorageError, match="nested too deeply") as caught:
        notebook.trust.accept()
    assert "needle" not in str(caught.value)
