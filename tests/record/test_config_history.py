"""Projection: from the record to the effective configuration."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.config.config_strategies import partials
from tests.kit.record_view import RecordView
from tests.kit.recorded_settings import RecordedSettings
from tests.kit.records import new_event, parse_event
from tests.record.projections import NAMED, WORDS, delta, host, stop_words, with_words
from tests.support.entries import ASKED, START, T, new_stream


def uncovered(*paths: str) -> Any:
    return new_event("config_delta", unsets=paths, metadata={"uncovers": list(paths)})


def test_base_and_deltas_apply_in_order_over_the_layers_below() -> None:
    stream = new_stream(delta({"user": {"name": "B"}}), base_config={"user": {"name": "A"}})
    found = RecordedSettings(
        stream, {"user": {"name": "below"}, "style": {"tool_call": {"show": False}}}
    )
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
    now = RecordedSettings(stream, trusted=trusted)
    mine = {"providers": {"llm": {"openai": {"base_url": "http://mine"}}}}
    stream.append(parse_event(delta(mine)))
    assert host(now) == "http://mine"
    names = [now.until(count).at("assistant.name") for count in range(4)]
    hosts = [host(now.until(count)) for count in range(1, 4)]
    assert names == [None, "A", "B", "B"]
    theirs = "http://a" if trusted else None
    assert [each if each in ("http://a", "http://mine") else None for each in hosts] == [
        theirs,
        theirs,
        "http://mine",
    ]
    assert host(now) == "http://mine"


def test_layers_below_are_read_again_after_a_change() -> None:
    found = RecordedSettings(new_stream(), {"user": {"name": "A"}})
    assert found.config().user.name == "A"
    found.replace_files({"user": {"name": "B"}})
    assert found.config().user.name == "A"
    found.reload()
    assert found.config().user.name == "B"


def test_list_of_the_base_replaces_and_list_of_a_delta_extends() -> None:
    base = with_words({"value": ["base"], "strategy": "replace"})
    stream = new_stream(delta(with_words(["more"])), base_config=base)
    found = RecordedSettings(stream, with_words(["below"]))
    assert stop_words(found) == ["base", "more"]


def test_any_item_of_a_list_can_be_unset() -> None:
    stream = new_stream()
    found = RecordedSettings(stream, with_words(["a", "b"]))
    stream.append(new_event("config_delta", unsets=(f'{WORDS}["a"]', f"{WORDS}[zz]")))
    assert stop_words(found) == ["b"]
    stream.append(uncovered(f'{WORDS}["a"]'))
    assert stop_words(found) == ["a", "b"]
    stream.append(new_event("config_delta", unsets=(WORDS,)))
    assert stop_words(found) == []
    stream.append(uncovered(WORDS))
    assert stop_words(found) == ["a", "b"]
    again = with_words({"value": ["c"], "strategy": "append"})
    stream.append(new_event("config_delta", unsets=(WORDS,), delta=again))
    assert stop_words(found) == ["c"]  # taken as it is: its strategy does not act


def test_reset_drops_base_and_files_and_keeps_registered_tools() -> None:
    reset = {"type": "config_delta", "timestamp": T, "op": "reset"}
    stream = new_stream(START, ASKED, reset, delta({"user": {"name": "N"}}),
                        base_config={"assistant": {"name": "base"}})  # fmt: skip
    registered = {"conversation": {"tools": {"t": {"source": "python"}}}}
    file = {"style": {"tool_call": {"show": False}}}
    found = RecordedSettings(stream, ("registrations", registered), ("workspace file", file))
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
            assert (
                RecordedSettings(new_stream(base_config=config), NAMED).config().user.name == name
            )


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
    growing = new_stream(base_config=base)
    found = RecordedSettings(growing, below)
    for number, entry in enumerate(entries):
        growing.append(parse_event(entry, number))
        again = RecordedSettings(new_stream(*growing.raw, base_config=base), below)
        assert found.stored_table() == again.stored_table()
        assert found.config() == again.config()

    loaded = new_stream(*entries, base_config=base)
    assert RecordedSettings(loaded, below, trusted=trusted).config()


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


def reread(stream: Any, *below: dict[str, Any]) -> RecordedSettings:
    """Return the settings of the stored record over other files."""
    stored = json.loads(json.dumps(stream.raw))
    return RecordedSettings(new_stream(*stored, base_config=stream.base_config), *below)


def find(settings: RecordedSettings, path: str) -> Any:
    """Return the value at `path`; None for an empty one, which a table keeps."""
    return settings.at(path) or None


@given(partials, partials, partials, deltas, st.sampled_from(UNSET_PATHS))
def test_unset_path_stays_unset_over_any_layers_until_it_is_uncovered(
    lower: Any, other: Any, base: Any, entries: Any, path: str
) -> None:
    stream = new_stream(*entries, base_config=base)
    before = find(RecordedSettings(stream, lower), path)
    unset = new_event("config_delta", unsets=(path,))
    stream.append(unset)

    for below in (lower, other):
        now = reread(stream, below)
        assert find(now, path) is None
        once = now.stored_table()
        now.stream.append(unset)
        assert now.stored_table() == once

    is_reset = any(entry.get("op") == "reset" for entry in entries)
    is_below = find(RecordedSettings(new_stream(), lower), path) is not None
    is_needed = RecordedSettings(stream, lower).change(
        unsets=[path], uncovers=[path], claims={path: None}
    )
    assert is_needed or (before is None and not is_below)

    for below in (lower, other):
        shown = {} if is_reset else below
        assert find(reread(stream, below), path) == find(
            RecordedSettings(new_stream(), shown), path
        )
        forked = RecordView(stream).fork()
        assert reread(forked, below).table() == reread(stream, below).table()


def test_draft_recorded_after_another_change_keeps_that_change() -> None:
    stream = new_stream()
    found = RecordedSettings(stream)
    other = new_event("config_delta", delta={"user": {"name": "Bob"}})
    found.change({"assistant": {"name": "Ada"}}, before_recording=lambda: stream.append(other))
    assert (found.config().assistant.name, found.config().user.name) == ("Ada", "Bob")
    assert found.table() == reread(stream).table()


def test_unset_path_has_the_default_of_its_tool_and_not_of_a_file() -> None:
    path = "conversation.tools.t.run"
    registered = {"conversation": {"tools": {"t": {"run": "ask"}}}}
    file = {"conversation": {"tools": {"t": {"run": "skip"}}}}
    stream = new_stream()
    found = RecordedSettings(stream, ("registrations", registered), ("workspace file", file))
    stream.append(new_event("config_delta", unsets=(path,)))
    assert found.config().conversation.tools["t"].run == "ask"


def test_uncovered_item_is_at_the_place_of_the_lower_layer() -> None:
    stream = new_stream()
    found = RecordedSettings(stream, with_words(["a", "b", "c"]))
    unsets = (f'{WORDS}["b"]', f'{WORDS}["a"]')
    stream.append(new_event("config_delta", delta=with_words(["z"]), unsets=unsets))
    assert stop_words(found) == ["c", "z"]
    stream.append(uncovered(f'{WORDS}["a"]', f'{WORDS}["b"]', f'{WORDS}["z"]'))
    assert stop_words(found) == ["a", "b", "c"]


def test_provenance_is_listed_from_the_lowest_layer_with_file_and_turn() -> None:
    stream = new_stream(
        delta({"user": {"name": "C"}}), START, ASKED, delta({"assistant": {"name": "x"}}),
        START, ASKED, {"type": "config_delta", "timestamp": T, "unsets": ["user"]},
        base_config={"user": {"name": "B"}},
    )  # fmt: skip
    below = ("workspace file", {"user": {"name": "A"}}, "/w/.jp/config.toml")
    assert RecordedSettings(stream, below).sources("user.name") == [
        ("workspace file", "/w/.jp/config.toml", None, "A"),
        ("conversation's beginning", None, None, "B"),
        ("conversation", None, 0, "C"),
        ("conversation", None, 2, None),
    ]


@pytest.mark.parametrize("trusted", [True, False])
def test_assigned_list_replaces_the_lower_list_after_a_restart_too(trusted: bool) -> None:
    below = with_words(["below"])
    stream = new_stream(base_config=below)
    found = RecordedSettings(stream, below)
    for text, expected in [
        ("stop_words:=[]", []),
        ("stop_words=a, b", ["a", "b"]),
        ("stop_words+=c", ["a", "b", "c"]),
    ]:
        found.assign(f"assistant.model.parameters.{text}")
        assert stop_words(found) == expected
        again = new_stream(*stream.raw, base_config=stream.base_config)
        assert stop_words(RecordedSettings(again, below, trusted=trusted)) == expected


def test_unknown_settings_are_reported_and_the_others_apply() -> None:
    stream = new_stream(
        delta({"user": {"name": 5}, "assistant": {"name": "N"}, "future": {"x": 1}})
    )
    found = RecordedSettings(stream, trusted=False)
    assert found.config().assistant.name == "N"
    assert sorted(found.problems) == ["future", "user.name"]


def test_invalid_label_named_like_a_merge_strategy_is_reported_alone() -> None:
    entries = {"value": 0, "strategy": "replace"}
    labels = {"value": entries, "strategy": "replace"}
    stream = new_stream(delta({"conversation": {"labels": labels}, "user": {"name": "N"}}))
    found = RecordedSettings(stream, trusted=False)
    assert found.config().user.name == "N"
    assert found.problems == ["conversation.labels.value"]


def test_tool_may_have_any_name() -> None:
    for name in ("a.b", "value", "strategy"):
        tools: dict[str, Any] = {
            "conversation": {"tools": {name: {"enable": False, "run": "unattended"}}}
        }
        found = RecordedSettings(new_stream(base_config=tools), trusted=False)
        tool = found.config().conversation.tools[name]
        assert tool.run is None
        assert tool.enable is not None
        assert tool.enable.state is False
        assert list(found.ignored.values()) == ["any", "unattended"]  # of its lock, and of run


def test_invalid_combination_names_its_source() -> None:
    below = ("workspace file", {"assistant": {"tool_choice": "t"}}, "/w/config.toml")
    off = delta({"conversation": {"tools": {"t": {"source": "python", "enable": "off"}}}})
    locked = delta({"conversation": {"tools": {"t": {"enable": {"allow_toggle": "never"}}}}})
    found = RecordedSettings(new_stream(off, START, ASKED, locked), below)
    with pytest.raises(jp.ConfigError) as caught:
        found.config()
    assert caught.value.path == "assistant.tool_choice"
    assert "(from workspace file: /w/config.toml)" in str(caught.value)


def test_provenance_begins_with_a_reset() -> None:
    reset = {"type": "config_delta", "timestamp": T, "op": "reset"}
    below = ("workspace file", {"user": {"name": "A"}}, "/w/config.toml")
    stream = new_stream(START, ASKED, reset, delta({"user": {"name": "B"}}))
    assert RecordedSettings(stream, below).sources("user.name") == [
        ("configuration reset", None, 1, None),
        ("conversation", None, 1, "B"),
    ]


def test_files_stay_sources_after_a_reset_in_an_untrusted_record() -> None:
    reset = {"type": "config_delta", "timestamp": T, "op": "reset"}
    below = ("workspace file", {"user": {"name": "A"}}, "/w/config.toml")
    stream = new_stream(delta({"user": {"name": "old"}}), START, ASKED, reset)
    found = RecordedSettings(stream, below, trusted=False)
    assert found.at("user.name") == "A"
    assert found.sources("user.name") == [("workspace file", "/w/config.toml", None, "A")]

    found.stream.append(*new_stream(delta({"user": {"name": "B"}})).deltas)
    assert found.sources("user.name")[1:] == [("conversation", None, 1, "B")]
