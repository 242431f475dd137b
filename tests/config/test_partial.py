"""Partial configurations: merge, difference, unset."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from jp_nb.config.partials.partial_strategies import make_replacement
from jp_nb.config.partials.setting_leaves import iter_settings
from tests.config.config_strategies import A, B, C, partials
from tests.kit.settings import Settings, setting, value_at

PROMPT = "assistant.system_prompt"
ENUM = "conversation.tools.t.parameters.p.enum"
SECTIONS = "assistant.system_prompt_sections"
WORDS = "assistant.model.parameters.stop_words"
ATTACHMENTS = "conversation.attachments"
LABELS = "conversation.labels"
OPTIONS = "conversation.tools.t.options"


def wrapped(value: Any, strategy: str | None = None, **more: Any) -> Any:
    return {"value": value, **({"strategy": strategy} if strategy else {}), **more}


def folded(path: str, parts: Sequence[Any]) -> Any:
    return value_at(Settings(*(setting(path, part) for part in parts)).merged(), path)


def test_values_are_merged_by_their_strategies(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, list[Any], Any]] = [
        # Lists: each strategy, plain and written out, below and above.
        (SECTIONS, [[A], [B]], [A, B]),
        (SECTIONS, [[A], wrapped([B])], [A, B]),
        (SECTIONS, [[A], wrapped([B], "append")], [A, B]),
        (SECTIONS, [[A], wrapped([B], "prepend")], [B, A]),
        (SECTIONS, [[A], wrapped([B], "replace")], [B]),
        (SECTIONS, [wrapped([A], "prepend"), [B]], [A, B]),
        (SECTIONS, [wrapped([A], "replace"), wrapped([B], "prepend")], [B, A]),
        (SECTIONS, [wrapped([A], "append"), wrapped([B], "replace"), [C]], [B, C]),
        (SECTIONS, [wrapped([], "replace"), [C]], [C]),
        (SECTIONS, [[A], wrapped([], "replace")], []),
        (SECTIONS, [[A], []], [A]),
        (SECTIONS, [[]], None),
        # A value that is discarded when merged; its dedup stays.
        (SECTIONS, [wrapped([A], discard_when_merged=True), [B]], [B]),
        (SECTIONS, [wrapped([A], discard_when_merged=True), wrapped([B], "append")], [B]),
        (SECTIONS, [wrapped([A], discard_when_merged=True)], [A]),
        (SECTIONS, [wrapped([A], discard_when_merged=True, dedup=True), [B, B]], [B]),
        # Equal items: dedup of the later value, else of the earlier, else of the field.
        (SECTIONS, [[A], [A]], [A, A]),
        (SECTIONS, [wrapped([A], dedup=True), [B, A]], [A, B]),
        (SECTIONS, [[A], wrapped([A, B], "append", dedup=True)], [A, B]),
        (SECTIONS, [wrapped([A], dedup=True), wrapped([A], "append", dedup=False)], [A, A]),
        (SECTIONS, [wrapped([A], dedup=True), [B], [A, C]], [A, B, C]),
        (WORDS, [["a"], ["b", "a"]], ["a", "b"]),
        (WORDS, [["a"], wrapped(["b", "a"], "append", dedup=False)], ["a", "b", "a"]),
        (ATTACHMENTS, [["file:x"], ["file:x", "file:y"]], ["file:x", "file:y"]),
        (ATTACHMENTS,
         [["file:x"], ["file:x", "file:y"], wrapped(["file:x", "file:y"], "replace"), ["file:z"]],
         ["file:x", "file:y", "file:z"]),
        (ENUM, [["a"], ["a"]], ["a", "a"]),
        ("extends", [["a"], ["b"]], ["a"]),
        (SECTIONS, [wrapped([A], dedup=True), wrapped([A, B], "append", dedup="inherit")], [A, B]),
        (SECTIONS, [wrapped([A], dedup="inherit"), [A]], [A, A]),
        (ATTACHMENTS, [wrapped(["file:x"], dedup="inherit"), ["file:x"]], ["file:x"]),
        (WORDS, [wrapped(["a"], dedup=False), wrapped(["a"], "append", dedup="inherit")],
         ["a", "a"]),
        # Texts.
        (PROMPT, ["P", "Q"], "Q"),
        (PROMPT, ["P", wrapped("Q")], "PQ"),
        (PROMPT, ["P", wrapped("Q", "append", separator="line")], "P\nQ"),
        (PROMPT, ["P", wrapped("Q", "append", separator="paragraph")], "P\n\nQ"),
        (PROMPT, ["P", wrapped("Q", "prepend", separator="space")], "Q P"),
        (PROMPT, ["P", wrapped("Q", "replace")], "Q"),
        (PROMPT, [wrapped("P", discard_when_merged=True), wrapped("Q", "append")], "Q"),
        (PROMPT, [wrapped("P", "append"), "Q"], "Q"),
        (PROMPT, [wrapped("Q", "append", separator="space")], "Q"),
        (PROMPT, [wrapped("P", "append", separator="space"), wrapped("Q", "append")], "PQ"),
        ("user.name", ["A", None], "A"),
        ("user.name", ["A", wrapped("B", "append")], "AB"),
        # Maps.
        (LABELS, [{"a": "1", "b": "1"}, {"b": "2"}], {"a": "1", "b": "2"}),
        (LABELS, [{"a": "1"}, wrapped({"b": "2"}, "replace")], {"b": "2"}),
        (LABELS, [{"a": "1"}, wrapped({"a": "2", "b": "2"}, "keep")], {"a": "1", "b": "2"}),
        (LABELS, [{"a": {"value": "1", "run": "deny"}}, {"a": {"value": "2"}}],
         {"a": {"value": "2", "run": "deny"}}),
        (LABELS, [{"a": {"value": "1", "run": "deny"}}, wrapped({"a": {"value": "2"}}, "merge")],
         {"a": {"value": "2"}}),
        (LABELS, [{"value": "1"}, {"x": "2"}], {"value": "1", "x": "2"}),
        # With another key it is a plain map or plain JSON.
        (LABELS, [{"a": "1"}, {"value": "1", "strategy": "replace", "x": "2"}],
         {"a": "1", "value": "1", "strategy": "replace", "x": "2"}),
        (OPTIONS, [{"a": {"b": 1}}, {"a": {"value": 2, "strategy": "replace", "x": 3}}],
         {"a": {"b": 1, "value": 2, "strategy": "replace", "x": 3}}),
        # Any JSON: objects are merged, lists replace; a strategy needs both keys.
        (OPTIONS, [{"value": 1}, {"a": [1]}, {"a": [2]}], {"value": 1, "a": [2]}),
        (OPTIONS, [{"a": {"b": 1}}, {"a": {"c": 2}}], {"a": {"b": 1, "c": 2}}),
        (OPTIONS, [{"a": [1]}, {"a": wrapped([2], "append")}], {"a": [1, 2]}),
        (OPTIONS, [{"a": "x"}, {"a": wrapped("y", "prepend")}], {"a": "yx"}),
        (OPTIONS, [{"a": {"b": 1}}, {"a": wrapped({"c": 2}, "replace")}], {"a": {"c": 2}}),
        (OPTIONS, [{"a": [1]}, {"a": []}], {"a": []}),
        # Shorthands are merged with tables field by field.
        ("conversation.tools.t.enable", [False, {"state": True}],
         {"state": True, "allow_toggle": "any"}),
        ("conversation.tools.t.enable", [{"allow_toggle": "never"}, "on"],
         {"state": True, "allow_toggle": "any"}),
        ("assistant.model.parameters.reasoning", ["high", {"exclude": True}],
         {"effort": "high", "exclude": True}),
        ("assistant.model.parameters.reasoning", ["off", {"exclude": True}], {"exclude": True}),
        ("assistant.model.parameters.reasoning", [{"effort": "low"}, "off"], "off"),
        ("assistant.model.id", ["openai/b", {"name": "c"}], {"provider": "openai", "name": "c"}),
        ("assistant.model.id", [{"provider": "a", "name": "b"}, "fast"], "fast"),
        ("providers.llm.aliases.x", [{"provider": "openai", "name": "b"}, {"name": "c"}],
         {"provider": "openai", "name": "c"}),
    ]  # fmt: skip
    for path, parts, result in rows:
        with subtests.test(path=path, parts=parts):
            assert folded(path, parts) == result


values = st.one_of(
    st.lists(st.sampled_from("abc"), max_size=2, unique=True),
    st.builds(
        lambda value, strategy: {"value": value, "strategy": strategy},
        st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        st.sampled_from(["append", "prepend", "replace"]),
    ),
)


@given(st.lists(values, min_size=1, max_size=4))
def test_merge_leaves_its_arguments_unchanged(parts: list[Any]) -> None:
    layers = [setting(WORDS, part) for part in parts]
    before = repr(layers)
    Settings(*layers).whole()
    assert repr(layers) == before


# --- laws ------------------------------------------------------------------------------------


def plain(partial: dict[str, Any]) -> dict[str, Any]:
    """Return `partial` without empty tables and nulls."""
    found: dict[str, Any] = {}
    for key, value in partial.items():
        inner = plain(value) if isinstance(value, dict) else value
        if inner is not None and inner != {}:
            found[key] = inner
    return found


def normal(partial: Any) -> dict[str, Any]:
    return plain(Settings(partial).merged())


@given(partials)
def test_partial_does_not_differ_from_itself(partial: Any) -> None:
    assert Settings(Settings(partial).merged()).difference(Settings(partial).merged()) == ({}, ())


def assert_difference_leads_from_one_to_the_other(before: Any, after: Any) -> None:
    before = Settings(before).merged()
    after = Settings(after).merged()
    made = Settings(before).change(Settings(before).difference(after))
    # Free JSON may look like a value with a strategy, within another one: both are stripped again.
    assert plain(made) == plain(Settings(after).change())


@given(partials, partials)
@example({}, setting(f"{OPTIONS}.a", {"value": None, "strategy": None}))
def test_difference_applied_to_one_makes_the_other(before: Any, after: Any) -> None:
    assert_difference_leads_from_one_to_the_other(before, after)


@given(partials, partials)
def test_replacement_keeps_its_values_over_any_lower_layer(partial: Any, below: Any) -> None:
    replacement = make_replacement(Settings(partial).merged(plain=False))
    over = plain(Settings(below, replacement).merged())
    for path, value in iter_settings(normal(partial)):
        assert value_at(over, path) == value


@given(partials, partials)
def test_dumped_configuration_is_restored_over_any_lower_layer(partial: Any, below: Any) -> None:
    config = Settings(partial).whole()
    other_thing = "assistant.model.parameters.other_thing"
    assume("other_thing" not in str(partial) or value_at(config, other_thing) is not None)
    written = make_replacement(config)
    assert Settings(written).whole() == config

    again = Settings(below, written).whole()
    for path in (SECTIONS, "assistant.instructions", ATTACHMENTS):
        given = value_at(config, path)
        assert value_at(again, path) == given or not given  # an empty list sets nothing
    for path in (LABELS, "assistant.model.id"):
        assert value_at(again, path) == value_at(config, path)


@given(partials, partials, partials)
def test_merge_without_strategies_is_associative(one: Any, two: Any, three: Any) -> None:
    two_first = Settings(one, two).merged(plain=False)
    three_first = Settings(two, three).merged(plain=False)
    assert Settings(two_first, three).merged() == Settings(one, three_first).merged()


def test_merge_with_strategies_depends_on_the_order() -> None:
    assert folded(SECTIONS, [[A], wrapped([B], "prepend"), [C]]) == [B, A, C]


@pytest.mark.parametrize(
    ("path", "before", "after", "delta"),
    [
        # A model is stored whole: half an id is hard to read.
        ("assistant.model.id", {"provider": "openai", "name": "a"},
         {"provider": "openai", "name": "b"}, {"provider": "openai", "name": "b"}),
        # Repeats that the list would drop.
        (WORDS, ["a"], ["a", "a"], {"value": ["a", "a"], "strategy": "replace", "dedup": False}),
        (WORDS, ["a"], ["a", "b"], ["b"]),
        (WORDS, ["a", "b"], ["b"], {"value": ["b"], "strategy": "replace"}),
    ],
)  # fmt: skip
def test_difference_is_written_in_the_shortest_form(
    path: str, before: Any, after: Any, delta: Any
) -> None:
    change = Settings(setting(path, before)).difference(setting(path, after))
    assert change == (setting(path, delta), ())
    assert Settings(setting(path, before)).change(change) == setting(path, after)


def test_empty_list_sets_nothing_unless_it_replaces() -> None:
    assert Settings(setting(SECTIONS, [])).merged() == {"assistant": {}}
    replaced = setting(SECTIONS, wrapped([], "replace"))
    assert Settings(replaced).merged() == setting(SECTIONS, [])
    free = setting(OPTIONS, {"a": []})
    assert Settings(free).merged() == free


# --- removing --------------------------------------------------------------------------------


def unset(settings: dict[str, Any], *paths: str, **more: Any) -> dict[str, Any]:
    """Return `settings` without `paths`."""
    return Settings(settings).change(({}, paths), **more)


def test_unset_removes_a_path_and_everything_below() -> None:
    partial: dict[str, Any] = {
        "assistant": {"name": "x", "model": {"id": "a"}},
        "user": {"name": "y"},
    }
    assert unset(partial, "assistant.model") == {
        "assistant": {"name": "x"},
        "user": {"name": "y"},
    }
    assert unset(partial, "assistant.none.x") == partial
    assert unset(partial, "user.name.x") == partial


def test_item_of_a_list_and_key_of_a_map_can_be_unset(subtests: pytest.Subtests) -> None:
    for path, value, target, left in [
        (ATTACHMENTS, ["file:x", "file:y"], f'{ATTACHMENTS}["file:x"]', ["file:y"]),
        (ATTACHMENTS, ["file:x", "file:y"], f"{ATTACHMENTS}[file:x]", ["file:y"]),
        (ATTACHMENTS, ["file:x"], f'{ATTACHMENTS}["file:z"]', ["file:x"]),
        (ATTACHMENTS, [{"type": "file", "path": "x"}, "file:y"], f"{ATTACHMENTS}[file:y]",
         [{"type": "file", "path": "x"}]),
        (SECTIONS, [{"content": "a", "tag": "t"}, A], f"{SECTIONS}[t]", [A]),
        (SECTIONS, [{"content": "a", "title": "T"}, A], f'{SECTIONS}["T"]', [A]),
        (SECTIONS, [A, B, A], f'{SECTIONS}[{{"content": "a"}}]', [B]),
        ("assistant.instructions", [{"title": "X"}, {"title": "Y"}], "assistant.instructions[X]",
         [{"title": "Y"}]),
        (SECTIONS, [A, B], f"{SECTIONS}.0", [B]),
        (SECTIONS, [{"content": "a", "tag": "t"}], f"{SECTIONS}.0.tag", [A]),
        (WORDS, ["a", "b"], WORDS, None),
        (WORDS, wrapped(["a", "b"], "replace"), f"{WORDS}[a]", ["b"]),
        ("conversation.tools", {"a.b": {"run": "ask"}, "c": {"run": "ask"}},
         'conversation.tools["a.b"]', {"c": {"run": "ask"}}),
        ("conversation.tools", {"a.b": {"run": "ask"}}, 'conversation.tools["a.b"].run',
         {"a.b": {}}),
        (OPTIONS, {"x": {"y": 1, "z": 2}}, f"{OPTIONS}.x.y", {"x": {"z": 2}}),
    ]:  # fmt: skip
        with subtests.test(path=path):
            assert value_at(unset(setting(path, value), target), path) == left


@pytest.mark.deep
def test_thousands_of_items_are_unset_quickly() -> None:
    items: list[Any] = [{"title": f"t{i}"} for i in range(4000)]
    path = "assistant.instructions"
    gone = [f"{path}[t{i}]" for i in range(0, 4000, 2)]
    gone += [f'{path}[{{"title": "t{i}"}}]' for i in range(1, 3999, 2)]
    start = time.process_time()
    left = unset(setting(path, items), *gone, "user.name")
    assert time.process_time() - start < 1.5
    assert left == setting(path, [{"title": "t3999"}])


def test_items_of_several_lists_and_keys_are_unset_in_one_change() -> None:
    now = Settings(
        setting(ATTACHMENTS, ["file:x", "file:y"]),
        setting(OPTIONS, {"a.b": 1, "c": 2}),
        setting(WORDS, wrapped(["a", "b"], "replace")),
    ).merged(plain=False)
    unsets = (f"{ATTACHMENTS}[file:x]", f"{ATTACHMENTS}[file:z]", f"{WORDS}[a]", f"{WORDS}[b]",
              f'{OPTIONS}["a.b"]', f"{OPTIONS}[c]")  # fmt: skip
    left = unset(now, *unsets)
    assert value_at(left, ATTACHMENTS) == ["file:y"]
    assert value_at(left, WORDS) == []
    assert value_at(left, OPTIONS) == {}


def test_value_of_a_lower_layer_shows_again_after_an_unset() -> None:
    below: dict[str, Any] = {"user": {"name": "file"}, "assistant": {"name": "file"}}
    now = Settings(below, {"user": {"name": "me"}, "assistant": {"name": "me"}}).merged()
    assert unset(now, "user.name", defaults=below) == {
        "user": {"name": "file"},
        "assistant": {"name": "me"},
    }


def test_change_that_unsets_and_sets_a_path_stores_the_new_value_as_it_is() -> None:
    below = setting(WORDS, ["below"])
    before = Settings(below, setting(WORDS, ["old"])).merged(plain=False)
    change = (setting(WORDS, ["new"]), (WORDS,))
    after = Settings(before).change(change, defaults=below)
    assert value_at(after, WORDS) == ["new"]

    change = (setting(PROMPT, wrapped("Q", "append")), (PROMPT,))
    after = Settings(setting(PROMPT, "P")).change(change, defaults=setting(PROMPT, "B"))
    assert value_at(after, PROMPT) == "Q"


def test_leaves_are_values_with_paths_and_without_strategies() -> None:
    partial: dict[str, Any] = {
        "assistant": {"instructions": {"value": [], "strategy": "replace"}},
        "conversation": {"tools": {"t": {"options": {"a": {"b": 1}, "c.d": 2}}}},
        "user": {"name": None},
    }
    assert dict(iter_settings(partial)) == {
        "assistant.instructions": [],
        "conversation.tools.t.options.a.b": 1,
        'conversation.tools.t.options["c.d"]': 2,
    }
