"""Partial configurations for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from pydantic import JsonValue

A: dict[str, JsonValue] = {"content": "a"}
B: dict[str, JsonValue] = {"content": "b"}
C: dict[str, JsonValue] = {"content": "c"}

words = st.sampled_from(["a", "b", "c d", ""])
json_leaves = st.none() | st.booleans() | st.integers(-3, 3) | words
small_json: st.SearchStrategy[Any] = st.recursive(
    json_leaves,
    lambda below: (
        st.lists(below, max_size=2)
        | st.dictionaries(st.sampled_from(["x", "y.z", "value", "strategy"]), below, max_size=2)
    ),
    max_leaves=5,
)


def tables(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Generate tables with any of the `fields`."""
    return st.fixed_dictionaries({}, optional=fields)


sections = st.lists(st.sampled_from([A, B, C]), max_size=3)
partials = tables(
    user=tables(name=words),
    assistant=tables(
        name=words,
        system_prompt=words,
        system_prompt_sections=sections,
        model=tables(
            id=st.sampled_from(
                [{"provider": "openai", "name": "a"}, {"provider": "ollama", "name": "b"}]
            ),
            parameters=tables(
                temperature=st.sampled_from([0.5, 1.0]),
                stop_words=st.lists(st.sampled_from("abc"), max_size=3, unique=True),
                reasoning=st.sampled_from(["off", {"effort": "high"}, {"exclude": True}]),
                other_thing=small_json,
            ),
        ),
    ),
    conversation=tables(
        attachments=st.lists(st.sampled_from(["file:x", "file:y"]), max_size=2, unique=True),
        labels=st.dictionaries(st.sampled_from(["p", "q"]), words, max_size=2),
        tools=st.dictionaries(
            st.sampled_from(["t", "d.t"]),
            tables(
                enable=st.sampled_from([{"state": True}, {"state": False, "allow_toggle": "any"}]),
                run=st.sampled_from(["ask", "skip"]),
                options=st.dictionaries(st.sampled_from(["o", "p.q"]), small_json, max_size=2),
            ),
            max_size=2,
        ),
    ),
)
