"""Entries and records for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

STAMP = "2026-03-18 13:19:06.841464"

texts = st.text(max_size=8)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(texts, below, max_size=3),
    max_leaves=6,
)
call_ids = st.sampled_from(["a", "b", ""])
inquiry_ids = st.sampled_from(["a.q.1", "a.q.2"])


event_ids = st.sampled_from(["e1", "e2", "e3"]) | json_values


def entry(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Generate a stored entry of `kind`, with ids and unknown keys."""
    known = st.fixed_dictionaries({"type": st.just(kind), "timestamp": st.just(STAMP), **fields})
    extra = st.fixed_dictionaries(
        {}, optional={"event_id": event_ids, "request_id": event_ids, "x": json_values, "ü": texts}
    )
    return st.tuples(extra, known).map(lambda both: {**both[0], **both[1]})


questions = st.fixed_dictionaries(
    {"text": texts, "answer_type": st.just({"type": "boolean"})}, optional={"default": json_values}
)
turn_starts = entry("turn_start")
chat_requests = entry("chat_request", content=texts)
chat_responses = entry("chat_response", message=texts)
calls = entry("tool_call_request", id=call_ids, name=texts, arguments=st.just({}))
results = entry("tool_call_response", id=call_ids, content=texts, is_error=st.booleans())
inquiries = entry(
    "inquiry_request", id=inquiry_ids, source=st.just({"source": "assistant"}), question=questions
)
closings = entry(
    "inquiry_response", id=inquiry_ids, outcome=st.just("cancelled"), reason=texts
) | entry("inquiry_response", id=inquiry_ids, answer=json_values)
deltas = entry("config_delta", delta=st.dictionaries(texts, json_values, max_size=2))
turn_numbers = st.integers(0, 4)
compactions = entry("compaction", from_turn=turn_numbers, to_turn=turn_numbers) | entry(
    "compaction",
    from_turn=turn_numbers,
    to_turn=turn_numbers,
    summary=st.fixed_dictionaries({"summary": texts}),
    reasoning=st.none() | st.just("strip"),
    tool_calls=st.sampled_from(
        [{"policy": "omit"}, {"policy": "strip", "request": True, "response": False}]
    ),
)
unknown = st.dictionaries(texts, json_values, max_size=3).filter(
    lambda raw: not isinstance(raw.get("type"), str)
) | entry("hologram")
conversation_entries = st.one_of(
    turn_starts, chat_requests, chat_responses, calls, results, inquiries, closings
)
global_entries = st.one_of(deltas, compactions, unknown)
records = st.lists(conversation_entries | conversation_entries | global_entries, max_size=14)
damaged = st.sampled_from(
    [
        {"type": "chat_request", "timestamp": STAMP},
        {"type": "tool_call_response", "timestamp": STAMP, "id": "a", "content": 5},
        {"type": "turn_start"},
        {"type": "compaction", "timestamp": STAMP, "from_turn": True, "to_turn": 1},
        "text",
        None,
    ]
)
