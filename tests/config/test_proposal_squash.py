"""Several changes of the configuration squashed into one with the same effect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.settings import Change, Settings, setting, value_at

NAME = "assistant.name"
PROMPT = "assistant.system_prompt"
SECTIONS = "assistant.system_prompt_sections"
PARAMETERS = "assistant.model.parameters"
WORDS = f"{PARAMETERS}.stop_words"
REASONING = f"{PARAMETERS}.reasoning"
ATTACHMENTS = "conversation.attachments"
LABELS = "conversation.labels"
TOOL = "conversation.tools.t"
ARGS = f"{TOOL}.command.args"
OPTION = f"{TOOL}.options.o"
VALUE = "template.values.k"


def wrapped(value: Any, strategy: str, **more: Any) -> Any:
    return {"value": value, "strategy": strategy, **more}


def replacing(value: Any) -> Any:
    return wrapped(value, "replace")


def sets(path: str, value: Any, *unsets: str) -> Change:
    return partial(path, value), unsets


def unsets(*paths: str) -> Change:
    return {}, paths


def partial(path: str, value: Any) -> dict[str, Any]:
    """Return a partial in its stored form, as a review makes it."""
    return Settings.read(setting(path, value))


def merge_stored(*layers: dict[str, Any]) -> dict[str, Any]:
    """Return the merged layers, with their merge strategies."""
    return Settings(*layers).merged(plain=False)


def check(
    changes: Sequence[Change],
    before: dict[str, Any] | None = None,
    below: dict[str, Any] | None = None,
) -> Change:
    """Return the squashed `changes`, which must have their effect."""
    below = below or {}
    before = below if before is None else before
    change = Settings(before).squash(changes, below)
    one_by_one = Settings(before).change(*changes, defaults=below)
    assert Settings(before).change(change, defaults=below) == one_by_one
    return change


# --- scalars ---------------------------------------------------------------------------------


@pytest.mark.req("R078-112", "R078-113")
def test_example_of_the_design() -> None:
    show = "style.tool_call.show"
    changes = [sets(NAME, "A"), sets(show, False, NAME), sets(NAME, "C")]
    delta = {"style": {"tool_call": {"show": False}}, "assistant": {"name": "C"}}
    assert check(changes) == (delta, ())


@pytest.mark.parametrize(
    ("path", "value"),
    [(NAME, "A"), (f"{PARAMETERS}.temperature", 0.5), (REASONING, "off"), (OPTION, {"a": 1})],
)
@pytest.mark.req("R078-112", "R078-113", "R078-55")
def test_later_of_set_and_unset_wins(path: str, value: Any) -> None:
    before = partial(path, {"a": 2} if path == OPTION else value)
    assert check([sets(path, value), unsets(path)], before, {}) == unsets(path)
    assert check([unsets(path), sets(path, value)], before, {})[1] == ()
    assert check([unsets(path), sets(path, value), unsets(path)], before, {}) == unsets(path)


def test_table_that_was_set_and_emptied_stays_an_entry_of_its_map() -> None:
    run = f"{TOOL}.run"
    change = check([sets(run, "skip"), unsets(run)])
    assert change == ({"conversation": {"tools": {"t": {}}}}, (run,))
    there = partial(f"{TOOL}.result", "skip")
    assert check([sets(run, "skip"), unsets(run)], there, there) == unsets(run)


@pytest.mark.req("R078-50", "R078-54")
def test_later_of_two_values_wins_and_null_sets_nothing() -> None:
    assert check([sets(NAME, "A"), sets(NAME, "B")]) == sets(NAME, "B")
    change: Change = ({"assistant": {"name": None, "system_prompt": "P"}}, ())
    before = partial(NAME, "A")
    squashed = check([change, change], before, {})
    assert value_at(Settings(before).change(squashed), NAME) == "A"


@pytest.mark.req("R078-52")
def test_tables_are_merged_field_by_field() -> None:
    changes = [sets("assistant.model.id", "openai/a"), sets(f"{PARAMETERS}.top_k", 3)]
    before = partial(f"{PARAMETERS}.temperature", 0.5)
    change = check(changes, before, {})
    after = Settings(before).change(change)
    assert value_at(after, PARAMETERS) == {"temperature": 0.5, "top_k": 3}
    assert change[1] == ()


# --- lists -----------------------------------------------------------------------------------


@pytest.mark.req("R078-51")
def test_items_of_two_changes_are_added_in_call_order() -> None:
    before = partial(WORDS, ["z"])
    change = check([sets(WORDS, ["b"]), sets(WORDS, ["a", "b"])], before, {})
    assert change == sets(WORDS, ["b", "a"])
    assert value_at(Settings(before).change(change), WORDS) == ["z", "b", "a"]


@pytest.mark.req("R078-51")
def test_sequence_takes_all_items_of_both_changes() -> None:
    change = check([sets(ARGS, ["-v"]), sets(ARGS, ["-v"])], partial(ARGS, ["x"]), {})
    assert change == sets(ARGS, ["-v", "-v"])
    change = check([sets(ARGS, ["-v"]), sets(ARGS, replacing(["-q"]))])
    assert change == sets(ARGS, replacing(["-q"]))


@pytest.mark.req("R078-51")
def test_item_added_by_an_earlier_change_can_be_unset() -> None:
    item = f'{ATTACHMENTS}["file:x"]'
    delta, gone = check([sets(ATTACHMENTS, ["file:x", "file:y"]), unsets(item)])
    assert Settings.list_changed(delta) == [f'{ATTACHMENTS}["file:y"]']
    assert gone == (item,)
    assert check(
        [sets(ATTACHMENTS, ["file:x"]), unsets(item)], partial(ATTACHMENTS, ["file:z"]), {}
    )
    back = check(
        [unsets(item), sets(ATTACHMENTS, ["file:x"])], partial(ATTACHMENTS, ["file:x"]), {}
    )
    assert back[1] == ()
    whole = sets(ATTACHMENTS, replacing(["file:x"]))
    assert check([unsets(item), whole]) == whole


@pytest.mark.parametrize("below", [[], ["y"]], ids=["nothing below", "something below"])
@pytest.mark.req("R078-112", "R078-113")
def test_list_that_is_unset_and_set_again_replaces_the_earlier_one(below: list[str]) -> None:
    under = partial(WORDS, below)
    before = merge_stored(under, partial(WORDS, ["z"]))
    change = check([unsets(WORDS), sets(WORDS, ["a"]), sets(WORDS, ["b"])], before, under)
    assert change == sets(WORDS, replacing([*below, "a", "b"]))


def test_list_with_repeats_that_is_unset_and_set_again_replaces_the_earlier_one() -> None:
    before = partial(ARGS, ["z"])
    assert check([unsets(ARGS), sets(ARGS, ["a"])], before, {}) == sets(ARGS, replacing(["a"]))
    check([unsets(ARGS), sets(ARGS, ["a"])], merge_stored(before, partial(ARGS, ["y"])), before)


def test_change_that_unsets_and_sets_a_list_replaces_it() -> None:
    before = partial(WORDS, ["z"])
    assert check([sets(WORDS, ["a"], WORDS)], before, {}) == sets(WORDS, replacing(["a"]))


def test_list_that_is_set_again_and_emptied_hides_the_lower_layer() -> None:
    below = partial(WORDS, ["y"])
    changes = [sets(WORDS, ["a"], WORDS), unsets(f'{WORDS}["a"]')]
    change = Settings(below).squash(changes, below)
    assert value_at(Settings(below).change(change, defaults=below), WORDS) == []


def test_list_that_is_set_again_has_the_dedup_of_its_field() -> None:
    item = {"tag": "A", "content": "a"}
    before = partial(SECTIONS, wrapped([item], "append", dedup=False))
    change = check([unsets(SECTIONS), sets(SECTIONS, [item])], before, {})
    assert change == sets(SECTIONS, wrapped([item], "replace", dedup=False))


def test_list_that_was_replaced_and_unset_shows_the_lower_layer() -> None:
    below = partial(SECTIONS, [{"tag": "A", "content": "a"}])
    change = check([sets(SECTIONS, replacing([])), unsets(SECTIONS)], below, below)
    assert change == unsets(SECTIONS)


# --- texts, free values, unions, maps --------------------------------------------------------


def test_additions_to_a_text_add_up() -> None:
    more = [sets(PROMPT, wrapped(text, "append", separator="line")) for text in "QR"]
    before = partial(PROMPT, "P")
    assert value_at(Settings(before).change(check(more, before, {})), PROMPT) == "P\nQ\nR"
    assert check([*more, unsets(PROMPT)], before, {}) == unsets(PROMPT)
    over = [unsets(PROMPT), sets(PROMPT, wrapped("!", "append"))]
    assert check(over, merge_stored(before, partial(PROMPT, "Q")), before) == sets(PROMPT, "P!")


def test_free_values_are_merged_or_replaced_by_the_strategy_of_each_change() -> None:
    for path in (VALUE, OPTION, f"{PARAMETERS}.other"):
        before = partial(path, {"a": {"b": 1}})
        changes = [sets(path, {"a": {"c": 2}}), sets(path, wrapped({"d": 3}, "merge"))]
        assert value_at(Settings(before).change(check(changes, before, {})), path)["d"] == 3
        replaced = sets(path, replacing({"y": 2}))
        assert check([sets(path, {"x": 1}), replaced], before, {}) == replaced
        assert check([unsets(path), sets(path, {"y": 2})], before, {}) == replaced


def test_fields_with_several_forms(subtests: pytest.Subtests) -> None:
    for below in [{}, partial(REASONING, {"effort": "low", "exclude": False})]:
        for changes in [
            [sets(REASONING, "off"), sets(REASONING, {"exclude": True})],
            [sets(REASONING, {"exclude": True}), sets(REASONING, "off")],
            [unsets(REASONING), sets(REASONING, {"exclude": True})],
            [sets(f"{TOOL}.enable", "always"), sets(f"{TOOL}.enable", {"state": False})],
            [sets(f"{TOOL}.enable", True), unsets(f"{TOOL}.enable.state")],
            [sets(f"{TOOL}.style.parameters", "json"), sets(f"{TOOL}.style.parameters", "cat -n")],
        ]:
            with subtests.test(changes=changes, below=below):
                before = merge_stored(below, partial(REASONING, {"effort": "high"}))
                check(changes, merge_stored(before, partial(f"{TOOL}.enable", "off")), below)


def test_entries_of_a_map_are_changed_one_by_one() -> None:
    before = partial(LABELS, {"p": {"value": "1", "run": "deny"}, "q": "2"})
    change = check([sets(LABELS, {"p": "3"}), unsets(f"{LABELS}.q")], before, {})
    assert change == sets(LABELS, {"p": "3"}, f"{LABELS}.q")
    change = check([unsets(f"{LABELS}.p"), sets(f"{LABELS}.p", "3")], before, {})
    assert Settings(before).change(change)["conversation"] == {
        "labels": {"p": {"value": "3"}, "q": {"value": "2"}}
    }
    change = check([sets(LABELS, replacing({"r": "1"})), sets(LABELS, {"s": "2"})], before, {})
    assert change == sets(LABELS, replacing({"r": "1", "s": "2"}))


def test_single_change_is_unchanged() -> None:
    for change in (
        sets(SECTIONS, [{"tag": "A", "content": "a"}]),
        sets(WORDS, wrapped(["a"], "prepend", dedup=False)),
        sets(PROMPT, wrapped("Q", "append", separator="space"), f'{WORDS}["a"]'),
        sets(VALUE, wrapped({"a": 1}, "merge"), NAME, ATTACHMENTS),
        sets(LABELS, wrapped({"p": "1"}, "keep")),
        unsets(f"{TOOL}.enable"),
    ):
        assert check([change], partial(WORDS, ["a", "z"]), {}) == change


def test_no_changes_are_an_empty_change() -> None:
    assert Settings(partial(NAME, "A")).squash([], {}) == ({}, ())


# --- all of it at random ---------------------------------------------------------------------

A, B, C = ({"tag": tag, "content": tag} for tag in "ABC")


def lists(first: Any, second: Any, third: Any) -> list[Any]:
    return [
        [first], [second], [first, third], replacing([]), replacing([first, second]),
        wrapped([first], "append", dedup=False), wrapped([third], "prepend"),
        wrapped([first, second], "replace", dedup=True),
    ]  # fmt: skip


JSONS: list[Any] = [
    1, [1], {"a": 1}, {"b": {"c": 1}}, wrapped({"b": {"d": 1}}, "merge"),
    wrapped({"a": 9}, "keep"), wrapped([3], "append"), replacing({}),
]  # fmt: skip
SETTABLE: dict[str, list[Any]] = {
    NAME: ["A", "B", wrapped("x", "append"), wrapped("y", "prepend", separator="space")],
    PROMPT: ["P", wrapped("Q", "append", separator="line"), replacing("Z")],
    SECTIONS: [*lists(A, B, C), [{"tag": "A", "content": "another"}]],
    "assistant.model.id": ["openai/a", "ollama/b", {"name": "c"}],
    f"{PARAMETERS}.temperature": [0.5, 1.0],
    WORDS: lists("a", "b", "c"),
    REASONING: ["off", "auto", "high", {"exclude": True}, {"effort": 5, "exclude": False}],
    f"{PARAMETERS}.other": [*JSONS, wrapped("t", "append")],
    VALUE: JSONS,
    OPTION: JSONS,
    f"{TOOL}.enable": [True, "always", {"state": False}, {"allow_toggle": "any"}],
    f"{TOOL}.command": ["ls -l", {"program": "x", "args": ["a"]}],
    ARGS: lists("a", "b", "b"),
    f"{TOOL}.style.parameters": ["json", "off", {"program": "f", "args": ["u"]}],
    f"{TOOL}.questions.q.target": ["user", {"name": "N"}, {"model": {"id": "openai/z"}}],
    ATTACHMENTS: lists("file:x", "file:y", "file:z"),
    LABELS: [{"p": "1"}, {"q": {"value": "2", "run": "deny"}}, replacing({}),
             replacing({"p": "3"}), wrapped({"q": "4"}, "keep"), wrapped({"p": "5"}, "merge")],
}  # fmt: skip
UNSETTABLE = [
    NAME, SECTIONS, f'{SECTIONS}["A"]', f"{PARAMETERS}.temperature", WORDS, f'{WORDS}["a"]',
    REASONING, f"{PARAMETERS}.other", VALUE, OPTION, f"{TOOL}.enable", f"{TOOL}.enable.state", ARGS,
    f'{ARGS}["a"]', f"{TOOL}.style.parameters", f"{TOOL}.style.parameters.args",
    f"{TOOL}.questions.q.target.name", ATTACHMENTS, f'{ATTACHMENTS}["file:x"]', f"{LABELS}.p",
]  # fmt: skip


@cache
def _stored(path: str, text: str) -> dict[str, Any]:
    return partial(path, json.loads(text))


def _set(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return merge_stored(*(_stored(path, json.dumps(value)) for path, value in pairs))


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Change], dict[str, Any], dict[str, Any]]:
    """Draw changes that overlap, the partial before them, and the lower layer."""
    paths = draw(st.lists(st.sampled_from(list(SETTABLE)), min_size=1, max_size=3, unique=True))
    near = [u for u in UNSETTABLE if any(u.startswith(p) or p.startswith(u) for p in paths)]
    pair = st.sampled_from([(path, value) for path in paths for value in SETTABLE[path]])
    some_unsets = st.lists(st.sampled_from(near), max_size=2, unique=True) if near else st.just([])
    change = st.builds(
        lambda pairs, gone: (_set(pairs), tuple(gone)),
        st.lists(pair, max_size=2),
        some_unsets,
    )
    changes = draw(st.lists(change, max_size=4))
    below, base = (_set(draw(st.lists(pair, max_size=2))) for _ in range(2))
    return changes, merge_stored(below, base), below


FREE_JSON = {OPTION.rpartition(".")[0], f"{PARAMETERS}.other", VALUE}
MAPS = {LABELS, "conversation.tools", f"{TOOL}.questions", "template.values"}


def comparable(settings: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Return `settings` without empty lists and empty tables, other than entries of maps.

    A table of free values, such as `options`, is kept as it is, unless it is empty.

    A list that was emptied item by item is absent. `[]` in its place would hide a default.
    """
    found: dict[str, Any] = {}
    for key, value in settings.items():
        path = f"{above}.{key}".lstrip(".")
        if isinstance(value, dict) and path not in FREE_JSON:
            value = comparable(value, path)
        if value == {} and path != VALUE and above not in MAPS:
            continue
        if value != [] or path in FREE_JSON:
            found[key] = value
    return found


def assert_squashed_change_has_the_same_effect(
    batch: tuple[list[Change], dict[str, Any], dict[str, Any]],
) -> None:
    changes, before, below = batch
    change = Settings(before).squash(changes, below)
    got = Settings(before).change(change, defaults=below)
    wanted = Settings(before).change(*changes, defaults=below)
    assert comparable(got) == comparable(wanted)
    _check_config(got, wanted)
    _check_disjoint(change)


@given(batches())
@pytest.mark.req("R078-112", "R078-113", "R078-51", "R078-52", "R078-55")
def test_squashed_change_has_the_effect_of_the_changes_in_order(
    batch: tuple[list[Change], dict[str, Any], dict[str, Any]],
) -> None:
    assert_squashed_change_has_the_same_effect(batch)


def _check_config(got: dict[str, Any], wanted: dict[str, Any]) -> None:
    """A valid result is the same configuration, with all defaults."""
    try:
        whole = Settings(wanted).whole()
    except jp.ConfigError:
        return
    if "[]" not in json.dumps(got):
        assert Settings(got).whole() == whole


def _check_disjoint(change: Change) -> None:
    delta, unset = change
    changed = Settings.list_changed(delta)
    lists = {path.partition("[")[0] for path in changed if path.endswith("]")}
    assert len(set(unset)) == len(unset)
    assert not {*changed, *lists} & {*unset}
