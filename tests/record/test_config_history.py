"""Projection: from the record to the effective configuration."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.config.assignments import parse_assignment
from jp_nb.config.layers import Layer
from jp_nb.config.partial import (
    Change,
    apply_change,
    build_partial,
    get_path,
    merge_partials,
    strip_strategies,
)
from jp_nb.config.schema import Element, format_path, parse_path
from jp_nb.config.validation import validate_layer
from jp_nb.record.config_draft import Draft
from jp_nb.record.config_history import Projection
from jp_nb.record.conversation_fork import fork_conversation
from jp_nb.record.events import decode_event
from jp_nb.record.stream import ConversationStream
from tests.config.config_strategies import partials
from tests.kit.records import new_event
from tests.record.projections import NAMED, delta, projection
from tests.support.entries import ASKED, START, FakeClock, T, new_stream


def uncovered(*paths: str) -> Any:
    return new_event("config_delta", unsets=paths, metadata={"uncovers": list(paths)})


def host(found: Projection) -> str | None:
    return found.config().providers.llm.openai.base_url


def stop_words(found: Projection) -> list[str]:
    return found.config().assistant.model.parameters.stop_words


def test_base_and_deltas_apply_in_order_over_the_layers_below() -> None:
    stream = new_stream(delta({"user": {"name": "B"}}), base_config={"user": {"name": "A"}})
    found = projection(stream, {"user": {"name": "below"}, "style": {"tool_call": {"show": False}}})
    assert (found.config().user.name, found.config().style.tool_call.show) == ("B", False)
    assert found.config() is found.config()
    stream.append(new_event("config_delta", delta={"user": {"name": "C"}}))
    assert found.config().user.name == "C"
    stream.append(new_event("config_delta", unsets=("user.name",)))
    assert found.config().user.name is None
    stream.append(uncovered("user.name"))
    assert found.config().user.name == "below"
    stream.append(new_event("config_delta", unsets=("user.name",), delta={"user": {"name": "D"}}))
    assert found.config().user.name == "D"
    stream.append(new_event("config_delta", op="reset"))
    assert (found.config().user.name, found.config().style.tool_call.show) == (None, True)


@pytest.mark.parametrize("trusted", [True, False])
def test_earlier_state_is_trusted_as_the_current_one(trusted: bool) -> None:
    stream = new_stream(
        delta(
            {"assistant": {"name": "A"}, "providers": {"llm": {"openai": {"base_url": "http://a"}}}}
        ),
        delta({"assistant": {"name": "B"}}),
    )
    now = projection(stream, trusted=trusted)
    stream.append(
        decode_event(delta({"providers": {"llm": {"openai": {"base_url": "http://mine"}}}}), 2)
    )
    assert host(now) == "http://mine"
    names = [now.until(stream.until(count)).config().assistant.name for count in range(4)]
    hosts = [host(now.until(stream.until(count))) for count in range(1, 4)]
    assert names == [None, "A", "B", "B"]
    theirs = "http://a" if trusted else None
    assert [each if each in ("http://a", "http://mine") else None for each in hosts] == [
        *(theirs, theirs, "http://mine")
    ]
    assert host(now) == "http://mine"


def test_layers_below_are_read_again_after_a_change() -> None:
    below = [Layer("file", {"user": {"name": "A"}})]
    found = Projection(new_stream(), lambda: below, trusted=True)
    assert found.config().user.name == "A"
    below[:] = [Layer("file", {"user": {"name": "B"}})]
    assert found.config().user.name == "A"
    found.reload_layers()
    assert found.config().user.name == "B"


def test_list_of_the_base_replaces_and_list_of_a_delta_extends() -> None:
    words = {"value": ["base"], "strategy": "replace"}
    path: Any = {"assistant": {"model": {"parameters": {"stop_words": words}}}}
    found = projection(
        new_stream(
            delta({"assistant": {"model": {"parameters": {"stop_words": ["more"]}}}}),
            base_config=path,
        ),
        {"assistant": {"model": {"parameters": {"stop_words": ["below"]}}}},
    )
    assert stop_words(found) == ["base", "more"]


def test_any_item_of_a_list_can_be_unset() -> None:
    words: dict[str, Any] = {"assistant": {"model": {"parameters": {"stop_words": ["a", "b"]}}}}
    stream = new_stream()
    found = projection(stream, words)
    path = "assistant.model.parameters.stop_words"
    stream.append(new_event("config_delta", unsets=(f'{path}["a"]', f"{path}[zz]")))
    assert stop_words(found) == ["b"]
    stream.append(uncovered(f'{path}["a"]'))
    assert stop_words(found) == ["a", "b"]
    stream.append(new_event("config_delta", unsets=(path,)))
    assert stop_words(found) == []
    stream.append(uncovered(path))
    assert stop_words(found) == ["a", "b"]
    again = {"value": ["c"], "strategy": "append"}
    stream.append(
        new_event(
            "config_delta",
            unsets=(path,),
            delta={"assistant": {"model": {"parameters": {"stop_words": again}}}},
        )
    )
    assert stop_words(found) == ["c"]  # taken as it is: its strategy does not act


def test_reset_drops_base_and_files_and_keeps_registered_tools() -> None:
    reset = {"type": "config_delta", "timestamp": T, "op": "reset"}
    stream = new_stream(START, ASKED, reset, delta({"user": {"name": "N"}}),
                        base_config={"assistant": {"name": "base"}})  # fmt: skip
    below = [
        Layer("registrations", {"conversation": {"tools": {"t": {"source": "python"}}}}),
        Layer("workspace file", {"style": {"tool_call": {"show": False}}}),
    ]
    found = Projection(stream, lambda: below, trusted=True)
    config = found.config()
    assert (config.user.name, config.assistant.name, config.style.tool_call.show) == (
        "N",
        None,
        True,
    )
    assert "t" in config.conversation.tools  # registering a tool is not configuration
    stream.append(new_event("config_delta", unsets=("user.name",)))
    assert found.config().user.name is None


def test_base_config_can_have_initial_changes(subtests: pytest.Subtests) -> None:
    base: Any = {"user": {"name": "A"}}
    rows: list[tuple[Any, str | None]] = [
        ({"base": base}, "A"),
        ({"base": base, "init": [{"delta": {"user": {"name": "B"}}}]}, "B"),
        ({"base": base, "init": [{"unsets": ["user.name"]}]}, None),
        ({"base": {"assistant": {"name": "A"}}, "init": [{"unsets": ["user.name"]}]}, None),
        ({"base": base, "init": [{"op": "reset"}]}, "Ada"),
        ({"base": base, "init": [7, {"delta": None, "unsets": 3}]}, "A"),
    ]
    for config, name in rows:
        with subtests.test(config=config):
            assert projection(new_stream(base_config=config), NAMED).config().user.name == name


deltas = st.lists(
    st.one_of(
        st.builds(lambda value: delta(value), partials),
        st.builds(
            lambda paths, value: {**delta(value), "unsets": paths},
            st.lists(
                st.sampled_from(
                    ["user.name", "assistant", "conversation.attachments", "assistant.model.id",
                     'conversation.attachments["file:x"]', "conversation.tools.t", "no.such", "a..",
                     'conversation.tools["d.t"]', "assistant.model.parameters.stop_words"]
                ),
                max_size=2,
            ),
            partials,
        ),
        st.just({"type": "config_delta", "timestamp": T, "op": "reset"}),
    ),
    max_size=5,
)  # fmt: skip


FOLDED = (partials, partials, deltas, st.booleans())


@given(*FOLDED)
def test_folding_as_the_record_grows_equals_replaying_it(
    below: Any, base: Any, entries: Any, trusted: bool
) -> None:
    check_folding(below, base, entries, trusted)


def check_folding(below: Any, base: Any, entries: Any, trusted: bool) -> None:
    layers = [Layer("file", merge_partials({}, below))]
    growing = new_stream(base_config=base)
    found = Projection(growing, lambda: layers, trusted=True)
    for number, entry in enumerate(entries):
        growing.append(decode_event(entry, number))
        again = Projection(new_stream(*growing.raw, base_config=base), lambda: layers, trusted=True)
        assert validate_layer(found.partial(), layer="") == validate_layer(
            again.partial(), layer=""
        )
        assert found.config() == again.config()
    loaded = new_stream(*entries, base_config=base)
    assert Projection(loaded, lambda: layers, trusted=trusted).config()


UNSET_PATHS = [
    "user.name",
    "assistant.name",
    "assistant.system_prompt",
    "assistant.system_prompt_sections",
    "assistant.model.id",
    "assistant.model.parameters.temperature",
    "assistant.model.parameters.stop_words",
    'assistant.model.parameters.stop_words["a"]',
    'conversation.attachments["file:x"]',
    "conversation.labels",
    "conversation.labels.p",
    "conversation.tools.t.run",
    'conversation.tools["d.t"].options',
]


def reread(stream: ConversationStream, *below: dict[str, Any]) -> Projection:
    """Return the projection of the stored record over other lower layers."""
    again = new_stream(*json.loads(json.dumps(stream.raw)), base_config=stream.base_config)
    return projection(again, *below)


def found_at(partial: dict[str, Any], path: str) -> Any:
    """Return the value at `path`; for an item of a list the item, if the list has it."""
    *above, last = parse_path(path)
    if not isinstance(last, Element) or "tools" in above:
        return get_path(partial, path) or None
    return last if last in (get_path(partial, format_path(above)) or []) else None


@given(partials, partials, partials, deltas, st.sampled_from(UNSET_PATHS))
def test_unset_path_stays_unset_over_any_layers_until_it_is_uncovered(
    lower: Any, other: Any, base: Any, entries: Any, path: str
) -> None:
    lower = merge_partials({}, lower)
    other = merge_partials({}, other)
    stream = new_stream(*entries, base_config=base)
    before = found_at(projection(stream, lower).partial(), path)
    stream.append(new_event("config_delta", unsets=(path,)))
    for below in (lower, other):
        now = reread(stream, below)
        assert found_at(now.partial(), path) is None
        again = now.partial()
        assert validate_layer(
            apply_change(again, Change(unsets=(path,))), layer=""
        ) == validate_layer(again, layer="")
    is_reset = any(entry.get("op") == "reset" for entry in entries)
    draft = Draft(projection(stream, lower))
    change = Change(unsets=(path,), uncovers=frozenset({path}))
    assert draft.add(change, {path: None}) or (before is None and found_at(lower, path) is None)
    stream.append(*draft.deltas)
    for below in (lower, other):
        shows = {} if is_reset else strip_strategies(below)
        assert found_at(reread(stream, below).partial(), path) == found_at(shows, path)
        forked = fork_conversation(
            stream, keep_turns=None, clock=FakeClock(), made="live", taken_ids=()
        )
        assert reread(forked, below).partial() == reread(stream, below).partial()


def test_draft_recorded_after_another_change_keeps_that_change() -> None:
    stream = new_stream()
    found = projection(stream, {})
    draft = Draft(found)
    draft.add(Change(build_partial("assistant.name", "Ada")), {})
    stream.append(new_event("config_delta", delta=build_partial("user.name", "Bob")))
    draft.record()
    assert (found.config().assistant.name, found.config().user.name) == ("Ada", "Bob")
    assert found.partial() == reread(stream, {}).partial()


def test_unset_path_has_the_default_of_its_tool_and_not_of_a_file() -> None:
    path = "conversation.tools.t.run"
    below = [
        Layer("registrations", build_partial(path, "ask")),
        Layer("workspace file", build_partial(path, "skip")),
    ]
    stream = new_stream()
    found = Projection(stream, lambda: below, trusted=True)
    stream.append(new_event("config_delta", unsets=(path,)))
    assert found.config().conversation.tools["t"].run == "ask"


def test_uncovered_item_is_at_the_place_of_the_lower_layer() -> None:
    path = "assistant.model.parameters.stop_words"
    stream = new_stream()
    found = projection(stream, build_partial(path, ["a", "b", "c"]))
    stream.append(
        new_event(
            "config_delta",
            delta=build_partial(path, ["z"]),
            unsets=(f'{path}["b"]', f'{path}["a"]'),
        )
    )
    assert stop_words(found) == ["c", "z"]
    stream.append(uncovered(f'{path}["a"]', f'{path}["b"]', f'{path}["z"]'))
    assert stop_words(found) == ["a", "b", "c"]


def test_provenance_is_listed_from_the_lowest_layer_with_file_and_turn() -> None:
    stream = new_stream(
        delta({"user": {"name": "C"}}), START, ASKED, delta({"assistant": {"name": "x"}}),
        START, ASKED, {"type": "config_delta", "timestamp": T, "unsets": ["user"]},
        base_config={"user": {"name": "B"}},
    )  # fmt: skip
    below = [Layer("workspace file", {"user": {"name": "A"}}, "/w/.jp/config.toml")]
    said = Projection(stream, lambda: below, trusted=True).explain(["user.name"])["user.name"]
    assert [(x.source, x.file, x.turn, x.value) for x in said] == [
        ("workspace file", "/w/.jp/config.toml", None, "A"),
        ("conversation's beginning", None, None, "B"),
        ("conversation", None, 0, "C"),
        ("conversation", None, 2, None),
    ]


@pytest.mark.parametrize("trusted", [True, False])
def test_assigned_list_replaces_the_lower_list_after_a_restart_too(trusted: bool) -> None:
    below = {"assistant": {"model": {"parameters": {"stop_words": ["below"]}}}}
    stream = new_stream(base_config=below)  # JSON all the same
    found = projection(stream, below)
    for text, expected in [
        ("stop_words:=[]", []),
        ("stop_words=a, b", ["a", "b"]),
        ("stop_words+=c", ["a", "b", "c"]),
    ]:
        path = "assistant.model.parameters."
        stream.append(
            new_event("config_delta", delta=parse_assignment(path + text, found.partial()).delta)
        )
        assert stop_words(found) == expected
        again = new_stream(*stream.raw, base_config=stream.base_config)
        assert stop_words(projection(again, below, trusted=trusted)) == expected


def test_unknown_settings_are_reported_and_the_others_apply() -> None:
    stream = new_stream(
        delta({"user": {"name": 5}, "assistant": {"name": "N"}, "future": {"x": 1}})
    )
    found = projection(stream, trusted=False)
    assert found.config().assistant.name == "N"
    assert sorted(found.problems) == ["future", "user.name"]


def test_tool_may_have_any_name() -> None:
    for name in ("a.b", "value", "strategy"):
        tools: dict[str, Any] = {
            "conversation": {"tools": {name: {"enable": False, "run": "unattended"}}}
        }
        found = projection(new_stream(base_config=tools), trusted=False)
        tool = found.config().conversation.tools[name]
        assert tool.run is None
        assert tool.enable is not None
        assert tool.enable.state is False
        assert list(found.ignored.values()) == ["any", "unattended"]  # of its lock, and of run


def test_invalid_combination_names_its_source() -> None:
    below = [Layer("workspace file", {"assistant": {"tool_choice": "t"}}, "/w/config.toml")]
    off = delta({"conversation": {"tools": {"t": {"source": "python", "enable": "off"}}}})
    locked = delta({"conversation": {"tools": {"t": {"enable": {"allow_toggle": "never"}}}}})
    found = Projection(new_stream(off, START, ASKED, locked), lambda: below, trusted=True)
    with pytest.raises(jp.ConfigError) as caught:
        found.config()
    assert caught.value.path == "assistant.tool_choice"
    assert "(from workspace file: /w/config.toml)" in str(caught.value)


def test_provenance_begins_with_a_reset() -> None:
    reset = {"type": "config_delta", "timestamp": T, "op": "reset"}
    below = [Layer("workspace file", {"user": {"name": "A"}}, "/w/config.toml")]
    stream = new_stream(START, ASKED, reset, delta({"user": {"name": "B"}}))
    said = Projection(stream, lambda: below, trusted=True).explain(["user.name"])["user.name"]
    assert [(x.source, x.turn, x.value) for x in said] == [
        ("configuration reset", 1, None),
        ("conversation", 1, "B"),
    ]
