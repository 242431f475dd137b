"""Problems and warnings of the rules of `access.config`, and the places that check them."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from jp_nb.config.access_rules import (
    Grants,
    find_rule_problems,
    find_rule_warnings,
    is_user_asked,
    iter_rules,
)
from jp_nb.config.assignments import parse_assignment
from jp_nb.config.layers import merge_layers, parse_layer, read_environment
from jp_nb.config.partial import build_partial, strip_strategies
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.validation import validate_config, validate_layer
from tests.config.grants import RULES, format_rights, format_sensitive_problem, grants


@pytest.mark.req("R078-17")
def test_star_outside_of_a_map_is_refused(subtests: pytest.Subtests) -> None:
    for path, prefix in [
        ("*", ""),
        ("assistant.*", "assistant"),
        ("conversation.*.x", "conversation"),
        ("conversation.tools.x.*", "conversation.tools.x"),
        ("conversation.tools.*.*.fs", "conversation.tools.*"),
        ("assistant.model.parameters.*", "assistant.model.parameters"),
        ("assistant.model.parameters.stop_words.*", "assistant.model.parameters.stop_words"),
        ("conversation.attachments[*]", "conversation.attachments"),
        ("conversation.tools.x.options.k.*", "conversation.tools.x.options.k"),
        ("user.name.*", "user.name"),
        ("nothing.*", "nothing"),
    ]:
        with subtests.test(path=path):
            (found,) = find_rule_problems(
                "X", [jp.ConfigRule("user"), jp.ConfigRule(path, read=True)]
            )
            assert found == (
                "conversation.tools.X.access.config.1.path",
                f"tool 'X': access.config path '{path}' uses '*' at '{prefix}', which is not a map",
            )


@pytest.mark.req("R078-17")
def test_star_matches_each_key_of_a_map() -> None:
    for path in (
        "conversation.tools.*", "conversation.tools.*.questions.*.answer",
        "conversation.tools.x.options.*", "conversation.labels.*", "providers.llm.aliases.*",
        "template.values.*",
    ):  # fmt: skip
        rule = jp.ConfigRule(path, read=True)
        assert list(find_rule_problems("X", [rule])) == []
        assert list(find_rule_warnings("X", [rule])) == []


def test_rule_needs_a_valid_path() -> None:
    for path in ("user..name", "user[", "user.name]"):
        ((where, message),) = find_rule_problems("a.b", [jp.ConfigRule(path)])
        assert where == 'conversation.tools["a.b"].access.config.0.path'
        assert message.startswith(f"tool 'a.b': access.config path {path!r}")


def test_unknown_path_of_a_rule_matches_nothing_and_has_a_warning() -> None:
    given_all = validate_config(
        {"user": {"name": "n"}, "conversation": {"attachments": ["file:a"]}}
    )
    for path in ("asistant.model", "user.name.first", "conversation.attachments.0",
                 "conversation.tools.x.y"):  # fmt: skip
        rule = jp.ConfigRule(path, read=True, write=True)
        assert list(find_rule_problems("X", [rule])) == []
        assert list(find_rule_warnings("X", [rule])) == [
            f"tool 'X': access.config path '{path}' does not exist in the configuration, so "
            "the rule never matches"
        ]
        assert grants(rule).select_readable(ConfigSnapshot(config=given_all).values) == {}


def test_grant_to_delete_access_rules_works_with_a_warning() -> None:
    rule = jp.ConfigRule("conversation.tools", delete=True)
    (warning,) = find_rule_warnings("X", [rule, jp.ConfigRule("user", delete=True)])
    assert "'X' grants delete = true to path 'conversation.tools' which is a sensitive" in warning
    assert format_rights(grants(rule), "conversation.tools.x.access.fs") == "d"


def test_unattended_rule_that_asks_all_the_same_has_a_warning(subtests: pytest.Subtests) -> None:
    for rule, asked in [
        (jp.ConfigRule("user", write=True), True),
        (jp.ConfigRule("user", write=True, apply="unattended"), False),
        (jp.ConfigRule("assistant", write=True, apply="unattended"), False),
        (jp.ConfigRule("conversation", delete=True, apply="unattended"), None),
        (jp.ConfigRule("conversation.attachments", write=True, apply="unattended"), None),
        (jp.ConfigRule("conversation.tools.x.run", write=True, apply="unattended"), None),
        (jp.ConfigRule("conversation.tools.x.command", write=True, apply="unattended"), True),
        (jp.ConfigRule("conversation.tools.x.access", delete=True, apply="unattended"), True),
        (jp.ConfigRule("providers", write=True, apply="unattended"), True),
        (jp.ConfigRule("providers.llm.openai.base_url", write=True, apply="unattended"), True),
    ]:
        with subtests.test(rule=rule):
            assert is_user_asked(rule) is asked
            warnings = [
                text for text in find_rule_warnings("X", [rule]) if "the tool asks anyway" in text
            ]
            assert bool(warnings) == (asked is True and rule.apply == "unattended")


def test_insecure_allow_covers_unattended_changes_of_rules_only() -> None:
    path = "conversation.tools.x.access"
    assert is_user_asked(jp.ConfigRule(path, write="insecure_allow", apply="unattended")) is False
    whole = jp.ConfigRule("conversation.tools", write="insecure_allow", apply="unattended")
    assert is_user_asked(whole) is None


# --- where rules are checked -----------------------------------------------------------------

WRONG = f'[[{RULES}]]\npath = "conversation"\nwrite = true\n'
MESSAGE = format_sensitive_problem("conversation").replace("'X'", "'x'")


@pytest.mark.req("R078-18")
def test_error_of_a_wrong_rule_names_the_file_and_the_tool() -> None:
    good = f'[[{RULES}]]\npath = "user"\nread = true\n'
    assert list_rule_paths(parse_layer(good, "workspace file", "/a/config.toml").partial) == [
        "user"
    ]
    with pytest.raises(jp.ConfigError) as caught:
        parse_layer(good + WRONG, "workspace file", "/b/config.toml")
    assert (caught.value.layer, caught.value.file) == ("workspace file", "/b/config.toml")
    assert caught.value.path == f"{RULES}.1.write"
    assert str(caught.value) == (
        f"{RULES}.1.write: {MESSAGE} (from workspace file: /b/config.toml)"
    )


def test_all_wrong_rules_of_a_file_are_reported_at_once() -> None:
    text = WRONG + '[[conversation.tools.y.access.config]]\npath = "user.*"\n'
    with pytest.raises(jp.ConfigError) as caught:
        parse_layer(text, "user file", "f.toml")
    assert [problem.path for problem in caught.value.problems] == [
        f"{RULES}.0.write",
        "conversation.tools.y.access.config.0.path",
    ]


def test_rules_with_a_merge_strategy_are_checked() -> None:
    rules: list[JsonValue] = [{"path": "conversation", "write": True}]
    with pytest.raises(jp.ConfigError, match="which is a sensitive path"):
        validate_layer(build_partial(RULES, {"value": rules, "strategy": "replace"}), layer="test")


@pytest.mark.req("R078-18")
def test_rules_in_variables_and_assignments_are_checked() -> None:
    rule = '[{"path": "conversation", "write": true}]'
    with pytest.raises(jp.ConfigError) as caught:
        read_environment({"JP_CFG_CONVERSATION__TOOLS__X__ACCESS__CONFIG": f":{rule}"})
    assert caught.value.file == "JP_CFG_CONVERSATION__TOOLS__X__ACCESS__CONFIG"
    assert MESSAGE in str(caught.value)
    for text in (f"{RULES}:={rule}", f"{RULES}+:={rule}"):
        with pytest.raises(jp.ConfigError) as caught:
            parse_assignment(text, {})
        assert MESSAGE in str(caught.value)


@pytest.mark.req("R078-17", "R078-18")
def test_rules_in_the_whole_configuration_are_checked() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"path": "conversation", "write": True}, MESSAGE),
        ({"path": "user.*"}, "uses '*' at 'user', which is not a map"),
    ]
    sources: list[dict[str, Any]] = [{"source": "local"}, {"source": "python"}, {}]
    for (rule, message), source in product(wrong, sources):
        tool: dict[str, Any] = {"access": {"config": [rule]}, **source}
        with pytest.raises(jp.ConfigError) as caught:
            validate_config(build_partial("conversation.tools.x", tool))
        assert message in str(caught.value)


@pytest.mark.parametrize(("source", "kind"), [("builtin", "builtin"), ("mcp.s.t", "mcp")])
def test_builtin_and_mcp_tools_cannot_have_rules(source: str, kind: str) -> None:
    tool: dict[str, Any] = {
        "source": source,
        "access": {"config": [{"path": "user", "read": True}]},
    }
    with pytest.raises(jp.ConfigError) as caught:
        validate_config(build_partial("conversation.tools.x", tool))
    assert str(caught.value) == (
        "conversation.tools.x.access: conversation.tools.x: `access` is only supported on local "
        f"tools, but 'x' is a {kind} tool"
    )


def list_rule_paths(partial: dict[str, Any]) -> list[str]:
    return [rule.path for _, rules in iter_rules(partial) for rule in rules]


@pytest.mark.req("R078-1")
def test_rules_of_several_files_add_up_and_the_nearer_one_decides() -> None:
    far = parse_layer(f'[[{RULES}]]\npath = "user"\nread = true\n', "user file", "far.toml")
    near = parse_layer(f'[[{RULES}]]\npath = "user"\n', "workspace file", "near.toml")
    folded = strip_strategies(merge_layers([far, near]))
    ((tool, rules),) = iter_rules(folded)
    assert tool == "x"
    assert [rule.read for rule in rules] == [True, False]
    assert format_rights(Grants(rules), "user.name") == ""
    alone = merge_layers([far, parse_layer("", "workspace file", "near.toml")])
    assert (
        format_rights(Grants([rule for _, own in iter_rules(alone) for rule in own]), "user.name")
        == "r"
    )
