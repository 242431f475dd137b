"""Several changes as one: what they come to one after the other, and nothing said twice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, reduce
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from jp_nb.config.assignments import read_partial
from jp_nb.config.partial import (
    Change,
    Partial,
    apply,
    build,
    changed_leaves,
    get_path,
    merge,
    strip_strategies,
)
from jp_nb.config.paths import Element, parse_path
from jp_nb.config.schema import JSON, ROOT, SchemaNode
from jp_nb.config.squash import squash
from jp_nb.config.validation import validate
from jp_nb.errors import ConfigError

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
    return Change(partial(path, value), unsets)


def unsets(*paths: str) -> Change:
    return Change(unsets=paths)


def partial(path: str, value: Any) -> Partial:
    """A partial in the form in which it is stored, as a review makes it."""
    return read_partial(build(path, value))


def one_by_one(changes: Sequence[Change], before: Partial, below: Partial) -> Partial:
    after = before
    for change in changes:
        after = apply(after, change, below)
    return strip_strategies(after)


def check(
    changes: Sequence[Change], before: Partial | None = None, below: Partial | None = None
) -> Change:
    """The fold of `changes`; it does what they do."""
    below = below or {}
    before = below if before is None else before
    change = squash(changes, before, below)
    assert strip_strategies(apply(before, change, below)) == one_by_one(changes, before, below)
    return change


# --- the last word ---------------------------------------------------------------------------


@pytest.mark.req("R078-112", "R078-113")
def test_the_worked_example() -> None:
    show = "style.tool_call.show"
    changes = [sets(NAME, "A"), sets(show, False, NAME), sets(NAME, "C")]
    assert check(changes) == Change(
        {"style": {"tool_call": {"show": False}}, "assistant": {"name": "C"}}, ()
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [(NAME, "A"), (f"{PARAMETERS}.temperature", 0.5), (REASONING, "off"), (OPTION, {"a": 1})],
)
@pytest.mark.req("R078-112", "R078-113", "R078-55")
def test_of_a_set_and_an_unset_the_later_counts(path: str, value: Any) -> None:
    before = partial(path, {"a": 2} if path == OPTION else value)
    assert check([sets(path, value), unsets(path)], before, {}) == unsets(path)
    assert check([unsets(path), sets(path, value)], before, {}).unsets == ()
    assert check([unsets(path), sets(path, value), unsets(path)], before, {}) == unsets(path)


def test_a_table_that_a_set_made_and_an_unset_emptied_stays_an_entry_of_its_map() -> None:
    run = f"{TOOL}.run"
    change = check([sets(run, "skip"), unsets(run)])
    assert change == Change({"conversation": {"tools": {"t": {}}}}, (run,))
    there = partial(f"{TOOL}.result", "skip")
    assert check([sets(run, "skip"), unsets(run)], there, there) == unsets(run)


@pytest.mark.req("R078-50")
def test_of_two_values_the_later_counts() -> None:
    assert check([sets(NAME, "A"), sets(NAME, "B")]) == sets(NAME, "B")


@pytest.mark.req("R078-52")
def test_what_is_not_touched_stays_and_tables_merge_field_by_field() -> None:
    changes = [sets("assistant.model.id", "openai/a"), sets(f"{PARAMETERS}.top_k", 3)]
    before = partial(f"{PARAMETERS}.temperature", 0.5)
    change = check(changes, before, {})
    assert get_path(apply(before, change), PARAMETERS) == {"temperature": 0.5, "top_k": 3}
    assert change.unsets == ()


@pytest.mark.req("R078-54")
def test_null_says_nothing() -> None:
    change = Change({"assistant": {"name": None, "system_prompt": "P"}})
    before = partial(NAME, "A")
    assert get_path(apply(before, check([change, change], before, {})), NAME) == "A"


# --- lists -----------------------------------------------------------------------------------


@pytest.mark.req("R078-51")
def test_what_two_changes_add_to_a_list_is_there_in_call_order() -> None:
    before = partial(WORDS, ["z"])
    change = check([sets(WORDS, ["b"]), sets(WORDS, ["a", "b"])], before, {})
    assert change == sets(WORDS, ["b", "a"])
    assert get_path(apply(before, change), WORDS) == ["z", "b", "a"]


@pytest.mark.req("R078-51")
def test_a_list_in_which_repeats_matter_takes_all_of_both() -> None:
    change = check([sets(ARGS, ["-v"]), sets(ARGS, ["-v"])], partial(ARGS, ["x"]), {})
    assert change == sets(ARGS, ["-v", "-v"])
    change = check([sets(ARGS, ["-v"]), sets(ARGS, replacing(["-q"]))])
    assert change == sets(ARGS, replacing(["-q"]))


@pytest.mark.req("R078-51")
def test_an_item_that_an_earlier_change_added_is_taken_out() -> None:
    item = f'{ATTACHMENTS}["file:x"]'
    change = check([sets(ATTACHMENTS, ["file:x", "file:y"]), unsets(item)])
    assert [keys[-1] for keys, _ in changed_leaves(change.delta)] == ["file:y"]
    assert change.unsets == (item,)
    assert check(
        [sets(ATTACHMENTS, ["file:x"]), unsets(item)], partial(ATTACHMENTS, ["file:z"]), {}
    )
    back = check(
        [unsets(item), sets(ATTACHMENTS, ["file:x"])], partial(ATTACHMENTS, ["file:x"]), {}
    )
    assert back.unsets == ()
    whole = sets(ATTACHMENTS, replacing(["file:x"]))
    assert check([unsets(item), whole]) == whole


@pytest.mark.parametrize("below", [[], ["y"]], ids=["nothing below", "something below"])
@pytest.mark.req("R078-112", "R078-113")
def test_a_list_that_is_unset_and_begun_anew_replaces_the_one_before(below: list[str]) -> None:
    under = partial(WORDS, below)
    before = merge(under, partial(WORDS, ["z"]))
    change = check([unsets(WORDS), sets(WORDS, ["a"]), sets(WORDS, ["b"])], before, under)
    assert change == sets(WORDS, replacing([*below, "a", "b"]))


def test_the_list_of_a_command_is_begun_anew() -> None:
    before = partial(ARGS, ["z"])
    assert check([unsets(ARGS), sets(ARGS, ["a"])], before, {}) == sets(ARGS, replacing(["a"]))
    check([unsets(ARGS), sets(ARGS, ["a"])], merge(before, partial(ARGS, ["y"])), before)


def test_a_list_that_one_change_unsets_and_sets_holds_what_it_sets_alone() -> None:
    before = partial(WORDS, ["z"])
    assert check([sets(WORDS, ["a"], WORDS)], before, {}) == sets(WORDS, replacing(["a"]))


def test_a_list_that_is_begun_anew_and_emptied_shows_nothing_of_what_lies_below() -> None:
    below = partial(WORDS, ["y"])
    changes = [sets(WORDS, ["a"], WORDS), unsets(f'{WORDS}["a"]')]
    change = squash(changes, below, below)
    assert get_path(apply(below, change, below), WORDS) == []


def test_a_list_that_was_replaced_and_unset_shows_what_lies_below() -> None:
    below = partial(SECTIONS, [{"tag": "A", "content": "a"}])
    change = check([sets(SECTIONS, replacing([])), unsets(SECTIONS)], below, below)
    assert change == unsets(SECTIONS)


# --- texts, free values, unions, maps --------------------------------------------------------


def test_what_is_added_to_a_text_adds_up() -> None:
    more = [sets(PROMPT, wrapped(text, "append", separator="line")) for text in "QR"]
    before = partial(PROMPT, "P")
    assert get_path(apply(before, check(more, before, {})), PROMPT) == "P\nQ\nR"
    assert check([*more, unsets(PROMPT)], before, {}) == unsets(PROMPT)
    over = [unsets(PROMPT), sets(PROMPT, wrapped("!", "append"))]
    assert check(over, merge(before, partial(PROMPT, "Q")), before) == sets(PROMPT, "P!")


@pytest.mark.parametrize("path", [VALUE, OPTION, f"{PARAMETERS}.other"])
def test_free_values_merge_or_are_replaced_as_each_change_says(path: str) -> None:
    before = partial(path, {"a": {"b": 1}})
    changes = [sets(path, {"a": {"c": 2}}), sets(path, wrapped({"d": 3}, "merge"))]
    found = get_path(apply(before, check(changes, before, {})), path)
    assert found["d"] == 3
    assert check([sets(path, {"x": 1}), sets(path, replacing({"y": 2}))], before, {}) == sets(
        path, replacing({"y": 2})
    )
    anew = check([unsets(path), sets(path, {"y": 2})], before, {})
    assert anew == sets(path, replacing({"y": 2}))


def test_fields_of_several_forms(subtests: pytest.Subtests) -> None:
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
                before = merge(below, partial(REASONING, {"effort": "high"}))
                check(changes, merge(before, partial(f"{TOOL}.enable", "off")), below)


def test_entries_of_a_map() -> None:
    before = partial(LABELS, {"p": {"value": "1", "run": "deny"}, "q": "2"})
    change = check([sets(LABELS, {"p": "3"}), unsets(f"{LABELS}.q")], before, {})
    assert change == sets(LABELS, {"p": "3"}, f"{LABELS}.q")
    change = check([unsets(f"{LABELS}.p"), sets(f"{LABELS}.p", "3")], before, {})
    assert strip_strategies(apply(before, change))["conversation"] == {
        "labels": {"p": {"value": "3"}, "q": {"value": "2"}}
    }
    change = check([sets(LABELS, replacing({"r": "1"})), sets(LABELS, {"s": "2"})], before, {})
    assert change == sets(LABELS, replacing({"r": "1", "s": "2"}))


@pytest.mark.parametrize(
    "change",
    [
        sets(SECTIONS, [{"tag": "A", "content": "a"}]),
        sets(WORDS, wrapped(["a"], "prepend", dedup=False)),
        sets(PROMPT, wrapped("Q", "append", separator="space"), f'{WORDS}["a"]'),
        sets(VALUE, wrapped({"a": 1}, "merge"), NAME, ATTACHMENTS),
        sets(LABELS, wrapped({"p": "1"}, "keep")),
        unsets(f"{TOOL}.enable"),
    ],
)
def test_a_single_change_stays_as_it_is(change: Change) -> None:
    before = partial(WORDS, ["a", "z"])
    assert check([change], before, {}) == change


def test_no_change_is_none() -> None:
    assert not squash([], partial(NAME, "A"), {})


# --- all of it at random ---------------------------------------------------------------------

A, B, C = ({"tag": tag, "content": tag} for tag in "ABC")


def lists(first: Any, second: Any, third: Any) -> list[Any]:
    return [
        [first],
        [second],
        [first, third],
        replacing([]),
        replacing([first, second]),
        wrapped([first], "append", dedup=False),
        wrapped([third], "prepend"),
        wrapped([first, second], "replace", dedup=True),
    ]


JSONS: list[Any] = [
    1,
    [1],
    {"a": 1},
    {"b": {"c": 1}},
    wrapped({"b": {"d": 1}}, "merge"),
    wrapped({"a": 9}, "keep"),
    wrapped([3], "append"),
    replacing({}),
]
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
    LABELS: [
        {"p": "1"},
        {"q": {"value": "2", "run": "deny"}},
        replacing({}),
        replacing({"p": "3"}),
        wrapped({"q": "4"}, "keep"),
        wrapped({"p": "5"}, "merge"),
    ],
}
UNSETTABLE = [
    NAME,
    SECTIONS,
    f'{SECTIONS}["A"]',
    f"{PARAMETERS}.temperature",
    WORDS,
    f'{WORDS}["a"]',
    REASONING,
    f"{PARAMETERS}.other",
    VALUE,
    OPTION,
    f"{TOOL}.enable",
    f"{TOOL}.enable.state",
    ARGS,
    f'{ARGS}["a"]',
    f"{TOOL}.style.parameters",
    f"{TOOL}.style.parameters.args",
    f"{TOOL}.questions.q.target.name",
    ATTACHMENTS,
    f'{ATTACHMENTS}["file:x"]',
    f"{LABELS}.p",
]


@cache
def _stored(path: str, text: str) -> Partial:
    return partial(path, json.loads(text))


def _set(pairs: Sequence[tuple[str, Any]]) -> Partial:
    partials = (_stored(path, json.dumps(value)) for path, value in pairs)
    return reduce(merge, partials, {})


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Change], Partial, Partial]:
    """Changes that meet one another, what is in force before them, and what lies below."""
    paths = draw(st.lists(st.sampled_from(list(SETTABLE)), min_size=1, max_size=3, unique=True))
    near = [u for u in UNSETTABLE if any(u.startswith(p) or p.startswith(u) for p in paths)]
    pair = st.sampled_from([(path, value) for path in paths for value in SETTABLE[path]])
    some_unsets = st.lists(st.sampled_from(near), max_size=2, unique=True) if near else st.just([])
    change = st.builds(
        lambda pairs, gone: Change(_set(pairs), tuple(gone)),
        st.lists(pair, max_size=2),
        some_unsets,
    )
    changes = draw(st.lists(change, max_size=4))
    below, base = (_set(draw(st.lists(pair, max_size=2))) for _ in range(2))
    return changes, merge(below, base), below


def comparable(partial: Mapping[str, JsonValue], node: SchemaNode = ROOT) -> Partial:
    """`partial` without what says nothing: tables in which nothing is set, and empty lists.

    An entry of a map says that it is there. A list that came to hold nothing item by item is
    absent, which `[]` in its place is not where it has a default; nothing else can be said where
    something lies below.
    """
    found: Partial = {}
    for key, value in partial.items():
        inner = node.child(key) or JSON
        if isinstance(value, dict) and inner.kind != "json":
            value = comparable(value, inner)
            if not value and node.kind != "map":
                continue
        if value != [] or inner.kind != "list":
            found[key] = value
    return found


@given(batches())
@settings(max_examples=400, deadline=None)
@pytest.mark.req("R078-112", "R078-113", "R078-51", "R078-52", "R078-55")
def test_one_change_does_what_several_do(batch: tuple[list[Change], Partial, Partial]) -> None:
    changes, before, below = batch
    change = squash(changes, before, below)
    got, wanted = strip_strategies(apply(before, change, below)), one_by_one(changes, before, below)
    assert comparable(got) == comparable(wanted)
    _check_config(got, wanted)
    _check_disjoint(change)


def _check_config(got: Partial, wanted: Partial) -> None:
    """What can be used is the same configuration, defaults and all."""
    try:
        config = validate(wanted)
    except ConfigError:
        return
    if "[]" not in json.dumps(got):
        assert validate(got) == config


def _check_disjoint(change: Change) -> None:
    sets = {keys for keys, _ in changed_leaves(change.delta)}
    unset = [parse_path(path) for path in change.unsets]
    assert len(set(unset)) == len(unset)
    assert not sets & set(unset)
    assert not {keys[:-1] for keys in sets if isinstance(keys[-1], Element)} & set(unset)
