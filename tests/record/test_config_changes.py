"""Paths that a conversation sets: the indexed answer equals the plain one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from jp_nb.config.partial import Change, build_partial, get_path, merge_partials
from jp_nb.config.schema import parse_path
from jp_nb.record.config_changes import ChangedPaths
from jp_nb.record.config_history import Step, paths_overlap
from tests.kit.records import new_event

PATHS = (
    "assistant",
    "assistant.name",
    "assistant.model.id",
    "assistant.model.parameters",
    "assistant.model.parameters.stop_words",
    'assistant.model.parameters.stop_words["a"]',
    "conversation.tools.t",
    "conversation.tools.t.options",
    "conversation.tools.t.options.deep",
    "user.name",
)
VALUES: dict[str, JsonValue] = {
    "assistant.name": "Bo",
    "assistant.model.id": "openai/m",
    "assistant.model.parameters.stop_words": ["a"],
    "conversation.tools.t.options": {"deep": 1},
    "user.name": "Ada",
}


@st.composite
def changes(draw: st.DrawFn) -> Change:
    delta: dict[str, Any] = {}
    for path in draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=2)):
        delta = merge_partials(delta, build_partial(path, VALUES[path]))
    unsets = draw(st.lists(st.sampled_from(PATHS), max_size=3, unique=True))
    uncovers = draw(st.sets(st.sampled_from(unsets))) if unsets else set()
    return Change(delta, tuple(unsets), frozenset(uncovers))


def steps_of(made: Sequence[Change | None]) -> list[Step]:
    """The steps that make these changes; None begins again."""
    reset = new_event("config_delta", op="reset")
    change = new_event("config_delta")
    return [
        Step(n, reset if x is None else change, x or Change(), {}, {}, {})
        for n, x in enumerate(made)
    ]


def found_by_a_walk(steps: Sequence[Step], path: str) -> bool:
    keys = parse_path(path)
    for step in reversed(steps):
        change = step.change
        if step.is_reset:
            return False
        kept = [parse_path(x) for x in change.unsets if x not in change.uncovers]
        if get_path(change.delta, path) is not None or any(paths_overlap(x, keys) for x in kept):
            return True
        if any(parse_path(x) == keys[: len(parse_path(x))] for x in change.uncovers):
            return False
    return False


@given(st.lists(st.none() | changes(), max_size=6))
def test_indexed_lookup_equals_a_walk_over_all_changes(made: list[Change | None]) -> None:
    steps = steps_of(made)
    said = ChangedPaths(steps)
    assert {path: path in said for path in PATHS} == {
        path: found_by_a_walk(steps, path) for path in PATHS
    }
