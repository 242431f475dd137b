"""Problems and warnings of the rules of `access.config`, and the places that check them."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from jp_nb.config.access_rule_checks import find_approval, find_rule_warnings
from tests.config.grants import (
    RULES,
    format_rights,
    format_sensitive_problem,
    grants,
    list_problems,
)
from tests.kit.settings import Settings, setting, value_at


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
            (found,) = list_problems(jp.ConfigRule("user"), jp.ConfigRule(path, read=True))
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
        assert list_problems(rule) == []
        assert list(find_rule_warnings("X", [rule])) == []


def test_rule_needs_a_valid_path() -> None:
    for path in ("user..name", "user[", "user.name]"):
        ((where, message),) = list_problems(jp.ConfigRule(path), tool="a.b")
        assert where == 'conversation.tools["a.b"].access.config.0.path'
        assert message.startswith(f"tool 'a.b': access.config path {path!r}")


def test_unknown_path_of_a_rule_matches_nothing_and_has_a_warning() -> None:
    settings = {"user": {"name": "n"}, "conversation": {"attachments": ["file:a"]}}
    for path in ("asistant.model", "user.name.first", "conversation.attachments.0",
                 "conversation.tools.x.y"):  # fmt: skip
        rule = jp.ConfigRule(path, read=True, write=True)
        assert list_problems(rule) == []
        assert list(find_rule_warnings("X", [rule])) == [
            f"tool 'X': access.config path '{path}' does not exist in the configuration, so "
            "the rule never matches"
        ]
        assert Settings(settings).visible([rule]) == {}


def test_grant_to_delete_access_rules_works_with_a_warning() -> None:
    rule = jp.ConfigRule("conversation.tools", delete=True)
    (warning,) = find_rule_warnings("X", [rule, jp.ConfigRule("user", delete=True)])
    assert "'X' grants delete = true to path 'conversation.tools' which is a sensitive" in warning
    assert format_rights(grants(rule), "conversation.tools.x.access.fs") == "d"


def test_unattended_rule_that_asks_all_the_same_has_a_warning(subtests: pytest.Subtests) -> None:
    for rule, approval in [
        (jp.ConfigRule("user", write=True), "always"),
        (jp.ConfigRule("user", write=True, apply="unattended"), "never"),
        (jp.ConfigRule("assistant.name", write=True, apply="unattended"), "never"),
        (jp.ConfigRule("assistant", write=True, apply="unattended"), "sometimes"),
        (jp.ConfigRule("conversation", delete=True, apply="unattended"), "sometimes"),
        (jp.ConfigRule("conversation.attachments", write=True, apply="unattended"), "sometimes"),
        (jp.ConfigRule("conversation.tools.x.run", write=True, apply="unattended"), "sometimes"),
        (jp.ConfigRule("conversation.tools.x.command", write=True, apply="unattended"), "always"),
        (jp.ConfigRule("conversation.tools.x.access", delete=True, apply="unattended"), "always"),
        (jp.ConfigRule("providers", write=True, apply="unattended"), "always"),
        (jp.ConfigRule("providers.llm.openai.base_url", write=True, apply="unattended"), "always"),
    ]:
        with subtests.test(rule=rule):
            assert find_approval(rule) == approval
            warnings = [
                text for text in find_rule_warnings("X", [rule]) if "the tool asks anyway" in text
            ]
            assert bool(warnings) == (approval == "always" and rule.apply == "unattended")


def test_insecure_allow_covers_unattended_changes_of_rules_only() -> None:
    path = "conversation.tools.x.access"
    of_rules = jp.ConfigRule(path, write="insecure_allow", apply="unattended")
    assert find_approval(of_rules) == "never"
    whole = jp.ConfigRule("conversation.tools", write="insecure_allow", apply="unattended")
    assert find_approval(whole) == "sometimes"


# --- where rules are checked -----------------------------------------------------------------

WRONG = f'[[{RULES}]]\npath = "conversation"\nwrite = true\n'
MESSAGE = format_sensitive_problem("conversation").replace("'X'", "'x'")


@pytest.mark.req("R078-18")
def test_error_of_a_wrong_rule_names_the_file_and_the_tool() -> None:
    good = f'[[{RULES}]]\npath = "user"\nread = true\n'
    assert value_at(Settings.read(good, file="/a/config.toml"), RULES) == [
        {"path": "user", "read": True}
    ]
    with pytest.raises(jp.ConfigError) as caught:
        Settings.read(good + WRONG, file="/b/config.toml")
    assert (caught.value.layer, caught.value.file) == ("workspace file", "/b/config.toml")
    assert caught.value.path == f"{RULES}.1.write"
    assert str(caught.value) == (
        f"{RULES}.1.write: {MESSAGE} (from workspace file: /b/config.toml)"
    )


def test_all_wrong_rules_of_a_file_are_reported_at_once() -> None:
    text = WRONG + '[[conversation.tools.y.access.config]]\npath = "user.*"\n'
    with pytest.raises(jp.ConfigError) as caught:
        Settings.read(text)
    assert [problem.path for problem in caught.value.problems] == [
        f"{RULES}.0.write",
        "conversation.tools.y.access.config.0.path",
    ]


def test_rules_with_a_merge_strategy_are_checked() -> None:
    rules: list[JsonValue] = [{"path": "conversation", "write": True}]
    with pytest.raises(jp.ConfigError, match="which is a sensitive path"):
        Settings.read(setting(RULES, {"value": rules, "strategy": "replace"}))


@pytest.mark.req("R078-18")
def test_rules_in_variables_and_assignments_are_checked() -> None:
    rule = '[{"path": "conversation", "write": true}]'
    variable = "JP_CFG_CONVERSATION__TOOLS__X__ACCESS__CONFIG"
    with pytest.raises(jp.ConfigError) as caught:
        Settings.read({variable: f":{rule}"}, "environment")
    assert caught.value.file == variable
    assert MESSAGE in str(caught.value)
    for text in (f"{RULES}:={rule}", f"{RULES}+:={rule}"):
        with pytest.raises(jp.ConfigError) as caught:
            Settings.assign(text)
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
            Settings(setting("conversation.tools.x", tool)).whole()
        assert message in str(caught.value)


@pytest.mark.parametrize(("source", "kind"), [("builtin", "builtin"), ("mcp.s.t", "mcp")])
def test_builtin_and_mcp_tools_cannot_have_rules(source: str, kind: str) -> None:
    tool: dict[str, Any] = {
        "source": source,
        "access": {"config": [{"path": "user", "read": True}]},
    }
    with pytest.raises(jp.ConfigError) as caught:
        Settings(setting("conversation.tools.x", tool)).whole()
    assert str(caught.value) == (
        "conversation.tools.x.access: conversation.tools.x: `access` is only supported on local "
        f"tools, but 'x' is a {kind} tool"
    )


@pytest.mark.req("R078-1")
def test_rules_of_several_files_add_up_and_the_nearer_one_decides() -> None:
    far = Settings.read(f'[[{RULES}]]\npath = "user"\nread = true\n', "user file")
    near = Settings.read(f'[[{RULES}]]\npath = "user"\n')
    merged = value_at(Settings(far, near).merged(), RULES)
    assert [rule.get("read", False) for rule in merged] == [True, False]

    def find_rights(rules: list[dict[str, Any]]) -> str:
        return format_rights(grants(*(jp.ConfigRule(**rule) for rule in rules)), "user.name")

    assert find_rights(merged) == ""
    assert find_rights(value_at(far, RULES)) == "r"
