"""Paths that a conversation sets: the indexed answer equals the plain one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.recorded_settings import RecordedSettings
from tests.support.entries import new_stream, raw

PARAMETERS = ("assistant", "model", "parameters")
PATHS: dict[str, tuple[str, ...]] = {
    "assistant": ("assistant",),
    "assistant.name": ("assistant", "name"),
    "assistant.model.id": ("assistant", "model", "id"),
    "assistant.model.parameters": PARAMETERS,
    "assistant.model.parameters.stop_words": (*PARAMETERS, "stop_words"),
    'assistant.model.parameters.stop_words["a"]': (*PARAMETERS, "stop_words", "a"),
    "conversation.tools.t": ("conversation", "tools", "t"),
    "conversation.tools.t.options": ("conversation", "tools", "t", "options"),
    "conversation.tools.t.options.deep": ("conversation", "tools", "t", "options", "deep"),
    "user.name": ("user", "name"),
}
TABLES: list[dict[str, Any]] = [
    {},
    {"assistant": {"name": "Bo"}},
    {"assistant": {"model": {"id": "openai/m"}}, "user": {"name": "Ada"}},
    {"assistant": {"model": {"parameters": {"stop_words": ["a"]}}}},
    {"conversation": {"tools": {"t": {"options": {"deep": 1}}}}},
]


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Any]:
    unsets = draw(st.lists(st.sampled_from(list(PATHS)), max_size=3, unique=True))
    uncovers = draw(st.lists(st.sampled_from(unsets), unique=True)) if unsets else []
    delta = draw(st.sampled_from(TABLES))
    return raw("config_delta", delta=delta, unsets=unsets, metadata={"uncovers": uncovers})


RESET = raw("config_delta", op="reset")


def has_value(table: Any, keys: tuple[str, ...]) -> bool:
    found = table
    for key in keys:
        if isinstance(found, list):
            return key in found
        if not isinstance(found, dict) or key not in found:
            return False
        found = found[key]
    return True


def begins_with(keys: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return keys[: len(other)] == other


def is_set_by_a_walk(entries: list[dict[str, Any]], keys: tuple[str, ...]) -> bool:
    """Return True if the newest change at, above, or below `keys` sets or unsets it."""
    for entry in reversed(entries):
        if entry == RESET:
            return False

        uncovers = [PATHS[path] for path in entry["metadata"]["uncovers"]]
        unsets = [PATHS[path] for path in entry["unsets"] if PATHS[path] not in uncovers]
        is_unset = any(begins_with(keys, each) or begins_with(each, keys) for each in unsets)
        if is_unset or has_value(entry["delta"], keys):
            return True
        if any(begins_with(keys, each) for each in uncovers):
            return False

    return False


@given(st.lists(st.just(RESET) | changes(), max_size=6))
def test_indexed_lookup_equals_a_walk_over_all_changes(entries: list[dict[str, Any]]) -> None:
    settings = RecordedSettings(new_stream(*entries))
    found = {path: settings.is_set_here(path) for path in PATHS}
    assert found == {path: is_set_by_a_walk(entries, keys) for path, keys in PATHS.items()}
