"""Rules of `access.config`: the rights that they grant, and the values that they show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.config.access_rules import Grants
from jp_nb.config.setting_paths import parse_path
from tests.config.config_strategies import partials
from tests.config.grants import (
    RULES,
    format_rights,
    format_sensitive_problem,
    grants,
    list_problems,
)
from tests.kit.settings import Settings, setting, value_at

SECTIONS = sorted({path.split(".")[0] for path in Settings.list_paths()})

# --- one rule --------------------------------------------------------------------------------


@pytest.mark.req("R078-1", "R078-2", "R078-3", "R078-4", "R078-22")
def test_rule_grants_nothing_by_default() -> None:
    written = setting(RULES, [{"path": "user"}, {"path": "style", "write": "insecure_allow"}])
    assert value_at(Settings(written).whole(), RULES) == [
        {"path": "user", "read": False, "write": False, "delete": False, "apply": "ask"},
        {"path": "style", "read": False, "write": "insecure_allow", "delete": False,
         "apply": "ask"},
    ]  # fmt: skip


@pytest.mark.req("R078-2", "R078-4", "R078-5")
@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("write", "allow", "expected true, false, or insecure_allow, found 'allow'"),
        ("apply", "never", "expected one of ask, unattended, found 'never'"),
        ("read", "yes", "expected true or false, found 'yes'"),
        ("delete", 1, "expected true or false, found 1"),
        ("create", True, "unknown key"),
    ],
)
def test_wrong_field_of_a_rule_is_refused(field: str, value: Any, expected: str) -> None:
    with pytest.raises(jp.ConfigError) as caught:
        Settings.read(setting(RULES, [{"path": "user", field: value}]))
    assert caught.value.path == f"{RULES}.0.{field}"
    assert expected in str(caught.value)


@pytest.mark.req("R078-8", "R078-9", "R078-10")
def test_read_write_and_delete_are_independent() -> None:
    for rule, rights in [
        (jp.ConfigRule("user"), ""),
        (jp.ConfigRule("user", read=True), "r"),
        (jp.ConfigRule("user", write=True), "w"),
        (jp.ConfigRule("user", delete=True), "d"),
        (jp.ConfigRule("user", write=False, read=True, delete=True), "rd"),
    ]:
        assert (
            format_rights(grants(rule), "user.name")
            == format_rights(grants(rule), "user")
            == rights
        )


@pytest.mark.req("R078-6", "R078-25")
def test_every_part_of_the_tree_needs_a_grant_and_can_be_granted() -> None:
    for path in SECTIONS:
        rule = jp.ConfigRule(path, write="insecure_allow", read=True)
        assert format_rights(grants(rule), path) == "rw"
        assert format_rights(grants(), path) == ""
        assert grants().needs_approval(parse_path(path))
        assert grants().find_rule(parse_path(path)) is None


@pytest.mark.req("R078-11", "R078-21", "R078-22")
def test_rule_alone_decides_if_the_user_is_asked() -> None:
    name = parse_path("user.name")
    for fields in ({"write": True}, {"write": "insecure_allow"}, {"delete": True}):
        assert grants(jp.ConfigRule("user", **fields)).needs_approval(name)
        assert not grants(jp.ConfigRule("user", **fields, apply="unattended")).needs_approval(name)


# --- the rule that decides -------------------------------------------------------------------


@pytest.mark.req("R078-23", "R078-24", "R078-27")
def test_example_of_the_design() -> None:
    rules = [
        jp.ConfigRule("conversation", read=True),
        jp.ConfigRule("conversation.tools", read=True, write="insecure_allow"),
        jp.ConfigRule("conversation.tools.toggle_tools.access"),
    ]
    for order in (rules, rules[::-1]):
        assert format_rights(Grants(order), "conversation.attachments") == "r"
        assert format_rights(Grants(order), "conversation.tools.fs_read_file") == "rw"
        assert format_rights(Grants(order), "conversation.tools.toggle_tools.access.config") == ""
        assert format_rights(Grants(order), "user.name") == ""


@pytest.mark.req("R078-24")
def test_longer_rule_inherits_nothing_from_a_shorter_one() -> None:
    above = jp.ConfigRule("assistant", read=True, write=True, delete=True, apply="unattended")
    found = grants(above, jp.ConfigRule("assistant.model"))
    assert format_rights(found, "assistant.name") == "rwd"
    assert format_rights(found, "assistant.model.id") == ""
    assert not found.needs_approval(("assistant", "name"))
    assert found.needs_approval(("assistant", "model", "id"))


@pytest.mark.req("R078-26")
def test_rules_match_keys_and_not_characters() -> None:
    found = grants(jp.ConfigRule("conversation.tools.fs", read=True))
    assert format_rights(found, "conversation.tools.fs_read.run") == ""
    assert format_rights(found, "conversation.tools") == ""
    assert format_rights(found, "conversation.tools.fs.run") == "r"


@pytest.mark.req("R078-16")
def test_star_matches_exactly_one_key() -> None:
    found = grants(jp.ConfigRule("conversation.tools.*.run", read=True))
    assert format_rights(found, "conversation.tools.a.run") == "r"
    assert format_rights(found, "conversation.tools.*.run") == "r"
    assert format_rights(found, "conversation.tools.run") == ""
    assert format_rights(found, "conversation.tools.a.b.run") == ""
    assert format_rights(found, "conversation.tools.a.style") == ""


def test_last_rule_of_the_same_length_decides() -> None:
    literal = jp.ConfigRule("conversation.tools.a.run", read=True)
    star = jp.ConfigRule("conversation.tools.*.run", write=True)
    assert format_rights(grants(literal, star), "conversation.tools.a.run") == "w"
    assert format_rights(grants(star, literal), "conversation.tools.a.run") == "r"
    assert format_rights(grants(star, literal), "conversation.tools.b.run") == "w"


def test_item_of_a_list_matches_in_every_spelling() -> None:
    item = {"type": "file", "path": "a"}
    path = f"conversation.tools.t.access.fs[{json.dumps(item)}]"
    everything = jp.ConfigRule("conversation", read=True, write="insecure_allow", delete=True)
    found = grants(everything, jp.ConfigRule('conversation.tools.t.access.fs["a"]'))
    assert format_rights(found, path) == ""
    assert format_rights(found, 'conversation.tools.t.access.fs["b"]') == "rwd"
    found = grants(everything, jp.ConfigRule(path))
    assert format_rights(found, 'conversation.tools.t.access.fs["a"]') == ""


# --- values with parts -----------------------------------------------------------------------


def test_whole_value_needs_grants_for_all_its_parts() -> None:
    all_of_it = jp.ConfigRule("conversation", read=True, write="insecure_allow", delete=True,
                           apply="unattended")  # fmt: skip
    found = grants(all_of_it, jp.ConfigRule("conversation.tools.*.access"))
    for path in ("conversation", "conversation.tools", "conversation.tools.x"):
        assert format_rights(found, path) == ""
        assert found.needs_approval(parse_path(path))
    assert format_rights(found, "conversation.tools.x.run") == "rwd"
    assert not found.needs_approval(parse_path("conversation.tools.x.run"))
    asking = jp.ConfigRule("conversation.tools.x.run", read=True, write=True, delete=True)
    found = grants(all_of_it, asking)
    assert format_rights(found, "conversation.tools.x") == "rwd"
    assert found.needs_approval(parse_path("conversation.tools.x"))
    assert not found.needs_approval(parse_path("conversation.tools.y"))


def test_overridden_denial_of_a_part_does_not_matter() -> None:
    deny = jp.ConfigRule("conversation.tools.x.run")
    allow = jp.ConfigRule("conversation.tools.*.run", read=True)
    above = jp.ConfigRule("conversation.tools", read=True)
    assert format_rights(grants(above, deny, allow), "conversation.tools") == "r"
    assert format_rights(grants(above, allow, deny), "conversation.tools") == ""
    assert format_rights(grants(above, allow, deny), "conversation.tools.y") == "r"


# --- properties, against a plain definition --------------------------------------------------

_KEYS = ["conversation", "tools", "access", "x"]
_FRESH = "a key of no rule"
_DEPTH = 5
_rules = st.lists(
    st.builds(
        lambda keys, **fields: jp.ConfigRule(".".join(keys), **fields),
        st.lists(st.sampled_from([*_KEYS, "*"]), min_size=1, max_size=4).filter(
            lambda keys: "*" not in keys[:2]  # no map is there
        ),
        read=st.booleans(),
        write=st.sampled_from([True, False, "insecure_allow"]),
        delete=st.booleans(),
        apply=st.sampled_from(["ask", "unattended"]),
    ),
    max_size=5,
)
_targets = st.lists(st.sampled_from(_KEYS), min_size=1, max_size=3)


def _matches(pattern: Sequence[str], keys: Sequence[str]) -> bool:
    if not pattern:
        return True
    return bool(keys) and pattern[0] in ("*", keys[0]) and _matches(pattern[1:], keys[1:])


def _deciding_rule(rules: Sequence[jp.ConfigRule], keys: Sequence[str]) -> jp.ConfigRule | None:
    best = None
    for rule in rules:
        longest = len(best.path.split(".")) if best else 0
        if _matches(rule.path.split("."), keys) and len(rule.path.split(".")) >= longest:
            best = rule
    return best


def _iter_keys_below(keys: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield `keys` and all keys below, as far as rules reach."""
    for more in range(_DEPTH - len(keys)):
        for tail in product([*_KEYS, _FRESH], repeat=more):
            yield (*keys, *tail)


@pytest.mark.req("R078-16", "R078-23", "R078-24", "R078-26")
@given(_rules, _targets)
def test_longest_match_that_was_declared_last_decides(
    rules: list[jp.ConfigRule], keys: list[str]
) -> None:
    assert Grants(rules).find_rule(tuple(keys)) is _deciding_rule(rules, keys)


@given(_rules, _targets)
def test_whole_value_is_granted_if_all_its_parts_are(
    rules: list[jp.ConfigRule], keys: list[str]
) -> None:
    def everywhere(allows: Callable[[jp.ConfigRule, Sequence[str]], bool]) -> bool:
        found = ((_deciding_rule(rules, place), place) for place in _iter_keys_below(keys))
        return all(rule is not None and allows(rule, place) for rule, place in found)

    def writes(rule: jp.ConfigRule, place: Sequence[str]) -> bool:
        sensitive = ("conversation", "tools", *place[2:3], "access")
        size = min(len(place), 4)
        met = tuple(place[:size]) == sensitive[:size]
        return rule.write == "insecure_allow" if met else bool(rule.write)

    made = Grants(rules)
    assert made.may_read(keys) is everywhere(lambda rule, _: rule.read)
    assert made.may_write(keys) is everywhere(writes)
    assert made.may_unset(keys) is everywhere(lambda rule, _: rule.delete)
    assert made.needs_approval(keys) is not everywhere(lambda rule, _: rule.apply == "unattended")


# --- sensitive paths -------------------------------------------------------------------------


@pytest.mark.req("R078-14")
def test_access_rules_and_all_paths_above_and_below_are_sensitive(
    subtests: pytest.Subtests,
) -> None:
    for path, yes in [
        ("conversation.tools.*.access", True),
        ("conversation.tools.x.access", True),
        ("conversation.tools[a.b].access", True),
        ("conversation.tools.x.access.fs", True),
        ("conversation.tools.x.access.config.0.write", True),
        ("conversation.tools.x", True),
        ("conversation.tools.*", True),
        ("conversation.tools", True),
        ("conversation", True),
        ("conversation.tools.x.enable", False),
        ("conversation.tools.*.enable", False),
        ("conversation.attachments", False),
        ("assistant", False),
    ]:
        with subtests.test(path=path):
            problems = list_problems(jp.ConfigRule(path, write=True))
            assert [message for _, message in problems] == [format_sensitive_problem(path)] * yes


@pytest.mark.req("R078-19", "R078-20", "R078-21")
def test_sensitive_path_may_be_granted_with_insecure_allow() -> None:
    rows: list[tuple[str, Literal["ask", "unattended"]]] = [
        ("conversation.tools", "ask"),
        ("conversation.tools.*.access", "unattended"),
        ("assistant", "ask"),
    ]
    for path, apply in rows:
        rule = jp.ConfigRule(path, write="insecure_allow", apply=apply)
        assert list_problems(rule) == []
        inside = path.replace("*", "y")
        assert format_rights(grants(rule), inside) == "w"
        assert grants(rule).needs_approval(parse_path(inside)) is (apply == "ask")


@pytest.mark.req("R078-20")
def test_insecure_allow_is_the_same_as_true_elsewhere() -> None:
    for write in (True, "insecure_allow"):
        assert (
            format_rights(grants(jp.ConfigRule("assistant", write=write)), "assistant.name") == "w"
        )


def test_plain_write_never_covers_a_sensitive_path() -> None:
    found = grants(jp.ConfigRule("conversation", write=True, delete=True))
    assert format_rights(found, "conversation.tools.x.access.fs") == "d"
    assert format_rights(found, "conversation.tools.x") == "d"
    assert format_rights(found, "conversation.tools.x.run") == "wd"


@pytest.mark.req("R078-15")
def test_sensitive_paths_cannot_be_configured() -> None:
    assert not [path for path in Settings.list_paths() if "sensitive" in path]


# --- visible values --------------------------------------------------------------------------

CONFIG: dict[str, Any] = {
    "user": {"name": "Ada"},
    "assistant": {
        "model": {"id": "fast", "parameters": {"stop_words": ["a", "b"], "extra": {"k": [1]}}}
    },
    "conversation": {
        "attachments": ["file:a", "file:b"],
        "tools": {
            "t": {
                "source": "local",
                "command": {"program": "run", "args": ["-v", "x", "x"]},
                "options": {"k": {"deep": 1, "other": 2}, "l": 3},
            }
        },
    },
    "providers": {"llm": {"aliases": {"fast": "quick", "quick": "anthropic/opus"}}},
}
TOOL = "conversation.tools.t"


def visible(*rules: jp.ConfigRule) -> dict[str, Any]:
    return Settings(CONFIG).visible(rules)


@pytest.mark.req("R078-8", "R078-10", "R078-25")
def test_values_without_a_grant_to_read_are_not_visible() -> None:
    assert visible() == {}
    assert visible(jp.ConfigRule("user", write=True, delete=True)) == {}
    assert visible(jp.ConfigRule("user", read=True)) == {"user": {"name": "Ada"}}


def test_alias_is_visible_as_its_model() -> None:
    assert visible(jp.ConfigRule("assistant.model.id", read=True)) == {
        "assistant": {"model": {"id": {"provider": "anthropic", "name": "opus"}}}
    }
    assert visible(jp.ConfigRule("assistant.model.id.name", read=True)) == {
        "assistant": {"model": {"id": {"name": "opus"}}}
    }


def test_unset_values_are_not_visible() -> None:
    assert visible(jp.ConfigRule("assistant.name", read=True)) == {}
    assert visible(jp.ConfigRule("conversation.tools.t.enable", read=True)) == {}


def test_items_of_a_list_are_visible_one_by_one() -> None:
    words = jp.ConfigRule("conversation.attachments", read=True)
    hidden = jp.ConfigRule('conversation.attachments["file:a"]')
    assert value_at(visible(words), "conversation.attachments") == ["file:a", "file:b"]
    assert visible(words, hidden) == {"conversation": {"attachments": ["file:b"]}}
    alone = jp.ConfigRule('conversation.attachments["file:a"]', read=True)
    assert visible(alone) == {"conversation": {"attachments": ["file:a"]}}


def test_list_with_repeats_is_visible_as_a_whole_or_not_at_all() -> None:
    tool = jp.ConfigRule(f"{TOOL}.command", read=True)
    assert value_at(visible(tool), f"{TOOL}.command.args") == ["-v", "x", "x"]
    assert "args" not in value_at(
        visible(tool, jp.ConfigRule(f"{TOOL}.command.args[x]")), f"{TOOL}.command"
    )


def test_free_json_is_visible_as_a_whole_or_not_at_all() -> None:
    options = jp.ConfigRule(f"{TOOL}.options", read=True)
    assert value_at(visible(options), f"{TOOL}.options") == {"k": {"deep": 1, "other": 2}, "l": 3}
    hidden = jp.ConfigRule(f"{TOOL}.options.k.deep")
    assert visible(options, hidden) == setting(f"{TOOL}.options", {"l": 3})
    assert visible(jp.ConfigRule(f"{TOOL}.options.k.deep", read=True)) == {}
    assert visible(jp.ConfigRule("assistant.model.parameters.extra", read=True)) == setting(
        "assistant.model.parameters.extra", {"k": [1]}
    )


EVERYTHING = [jp.ConfigRule(name, read=True) for name in SECTIONS]


def test_free_json_that_looks_like_a_strategy_is_visible_as_it_is() -> None:
    options: dict[str, Any] = {"k": {"value": 1, "strategy": "append"}}
    written = setting(f"{TOOL}.options.k", {"value": options["k"], "strategy": "replace"})
    seen = Settings(written).visible([jp.ConfigRule(f"{TOOL}.options", read=True)])
    assert seen == setting(f"{TOOL}.options", options)


def list_values(settings: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return path and value of each setting, and of each item of a list."""
    return [(path, value_at(settings, path)) for path in Settings.list_changed(settings)]


@given(partials)
def test_grant_to_read_everything_shows_all_set_values(partial: Any) -> None:
    whole = Settings(partial).whole()
    seen = Settings(partial).visible(EVERYTHING)
    assert list_values(seen) == list_values(whole)


@given(partials, st.sampled_from(["user", "assistant.model", "conversation.tools.*.options"]))
def test_denied_part_is_invisible_and_the_rest_visible(partial: Any, denied: str) -> None:
    everything = list_values(Settings(partial).visible(EVERYTHING))
    seen = list_values(Settings(partial).visible([*EVERYTHING, jp.ConfigRule(denied)]))
    parts = denied.split(".")
    assert seen == [row for row in everything if not _matches(parts, parse_path(row[0]))]


def test_defaults_of_all_tools_need_grants_for_every_tool() -> None:
    for granted, denied, target in [
        ("conversation.tools", "conversation.tools.guard", "conversation.tools.*.run"),
        ("conversation.tools.*.run", "conversation.tools.guard.run", "conversation.tools.*.run"),
        ("conversation.tools", "conversation.tools.guard.run", "conversation.tools.*"),
    ]:
        found = grants(jp.ConfigRule(granted, write="insecure_allow"), jp.ConfigRule(denied))
        assert not found.may_write(parse_path(target))
        assert found.may_write(parse_path(target.replace("*", "other")))


def test_rule_for_an_item_of_a_list_needs_brackets() -> None:
    """Without them the path names nothing (D30)."""
    words = "assistant.model.parameters.stop_words"
    target = parse_path(f'{words}["END"]')
    assert not Grants([jp.ConfigRule(f"{words}.END", write=True)]).may_write(target)
    assert Grants([jp.ConfigRule(f'{words}["END"]', write=True)]).may_write(target)
