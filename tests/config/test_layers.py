"""Layers of the configuration: files, environment variables, and their order."""

from __future__ import annotations

import pytest

import jp_nb as jp
from jp_nb.config.assignments import FILE_ONLY_SETTINGS
from jp_nb.config.layers import (
    Layer,
    format_variables,
    list_includes,
    merge_layers,
    parse_layer,
    read_environment,
    select_inherited,
)
from jp_nb.config.partial import get_path, strip_strategies

WORDS = "assistant.model.parameters.stop_words"


def file(text: str, name: str = "f.toml") -> Layer:
    """Return the layer of a workspace file."""
    return parse_layer(text, "workspace file", name)


def test_higher_layer_wins_and_lists_are_merged() -> None:
    low = file('[assistant.model.parameters]\nstop_words = ["file"]\n[user]\nname = "f"')
    env = read_environment(
        {
            "JP_CFG_USER__NAME": "e",
            "JP_CFG_ASSISTANT__MODEL__PARAMETERS__STOP_WORDS": "+env",
            "JP_CFG_ASSISTANT__REQUEST__MAX_RETRIES": ":3",
            "HOME": "/",
        }
    )
    folded = strip_strategies(merge_layers([low, env]))
    assert get_path(folded, "user.name") == "e"
    assert get_path(folded, WORDS) == ["file", "env"]
    assert get_path(folded, "assistant.request.max_retries") == 3


# --- environment -----------------------------------------------------------------------------


def test_variable_is_read_by_the_type_of_its_setting(subtests: pytest.Subtests) -> None:
    for variable, text, path, value in [
        ("USER__NAME", "Ada", "user.name", "Ada"),
        ("ASSISTANT__MODEL__PARAMETERS__STOP_WORDS", "a, b", WORDS, ["a", "b"]),
        ("ASSISTANT__MODEL__PARAMETERS__STOP_WORDS", ':["a,b"]', WORDS, ["a,b"]),
        ("ASSISTANT__MODEL__PARAMETERS__STOP_WORDS", "+a", WORDS, ["a"]),
        ("ASSISTANT__MODEL__PARAMETERS__STOP_WORDS", '+:["a"]', WORDS, ["a"]),
        ("ASSISTANT__MODEL__PARAMETERS__STOP_WORDS", ':+["a"]', WORDS, ["a"]),
        ("USER__NAME", r"\:x", "user.name", ":x"),
        ("USER__NAME", r"\+x", "user.name", "+x"),
        ("USER__NAME", r"\x", "user.name", r"\x"),
        ("CONVERSATION__TOOLS__FS_READ_FILE__RUN", "ask", "conversation.tools.fs_read_file.run",
         "ask"),
        ("ASSISTANT__MODEL__ID", "openai/m", "assistant.model.id",
         {"provider": "openai", "name": "m"}),
    ]:  # fmt: skip
        with subtests.test(variable=variable):
            layer = read_environment({f"JP_CFG_{variable}": text})
            assert get_path(strip_strategies(layer.partial), path) == value


def test_settings_passed_as_variables_keep_their_texts() -> None:
    for text in ("a.toml", "123", ":x", "+x", "", "x:+"):
        layer = read_environment(format_variables({"prompt.answers": text, "user.name": text}))
        assert layer.partial == {"prompt": {"answers": text}, "user": {"name": text}}


def test_operator_in_a_variable_is_read_once() -> None:
    with pytest.raises(jp.ConfigError, match="not JSON"):
        read_environment({"JP_CFG_ASSISTANT__REQUEST__MAX_RETRIES": "::1"})
    layer = read_environment({"JP_CFG_USER__NAME": "++x"})
    assert get_path(layer.partial, "user.name") == "+x"


def test_variable_adds_to_the_prompt_of_a_file() -> None:
    low = file('[assistant]\nsystem_prompt = "File."')
    env = read_environment({"JP_CFG_ASSISTANT__SYSTEM_PROMPT": "+ More."})
    assert (
        get_path(strip_strategies(merge_layers([low, env])), "assistant.system_prompt")
        == "File. More."
    )


def test_variable_cannot_set_a_field_for_files_only() -> None:
    for path in FILE_ONLY_SETTINGS:
        with pytest.raises(jp.ConfigError, match="only a configuration file can set this"):
            read_environment({f"JP_CFG_{path.upper()}": "none"})


def test_variable_of_a_setting_of_terminals_is_ignored() -> None:
    for variable in ("EDITOR__CMD", "CONVERSATION__TITLE__GENERATE__AUTO"):
        layer = read_environment({f"JP_CFG_{variable}": "x", "JP_CFG_USER__NAME": "Ada"})
        assert layer.partial == {"user": {"name": "Ada"}}


def test_variables_may_contradict_each_other_until_all_layers_are_folded() -> None:
    layer = read_environment({"JP_CFG_CONVERSATION__TOOLS__T__SOURCE": "builtin",
                              "JP_CFG_CONVERSATION__TOOLS__T__ACCESS": ':{"fs": []}'})  # fmt: skip
    assert get_path(layer.partial, "conversation.tools.t.source") == "builtin"


def test_error_names_the_wrong_variable() -> None:
    for variable in ("JP_CFG_USR__NAME", "JP_CFG_STYLE__TOOL_CALL__SHOW"):
        with pytest.raises(jp.ConfigError, match=f"environment: {variable}"):
            read_environment({variable: "x"})


def test_error_names_all_wrong_variables() -> None:
    with pytest.raises(jp.ConfigError) as caught:
        read_environment({"JP_CFG_USR__NAME": "x", "JP_CFG_STYLE__TOOL_CALL__SHOW": "x"})
    assert "JP_CFG_USR__NAME" in str(caught.value)
    assert "JP_CFG_STYLE__TOOL_CALL__SHOW" in str(caught.value)


# --- files -----------------------------------------------------------------------------------


def test_error_names_the_file_that_cannot_be_read(subtests: pytest.Subtests) -> None:
    for name, text in [
        ("c.toml", "a = "),
        ("c.toml", "a = 1"),
        ("c.json", "{"),
        ("c.json", "[]"),
        ("c.json", "NaN"),
        ("c.toml", "[user]\nname = 5"),
        ("c.json", '{"template": {"values": {"x": 1e999}}}'),
        ("c.json", '{"x":' * 9999),
        ("c.toml", "[template.values]\nx = nan"),
        ("c.toml", "[template.values]\nx = -inf"),
        ("c.toml", "[template.values]\nx = 1e999"),
        ("c.toml", "x = " + "[" * 9999),
        ("c.toml", "[template.values]\nx = " + "[" * 40 + "]" * 40),
    ]:
        with subtests.test(name=name):
            with pytest.raises(jp.ConfigError) as caught:
                parse_layer(text, "user file", f"/x/{name}")
            assert (caught.value.layer, caught.value.file) == ("user file", f"/x/{name}")
            assert f"(from user file: /x/{name})" in str(caught.value)


def test_file_may_begin_with_a_byte_order_mark() -> None:
    for name, text in [("c.toml", '[user]\nname = "A"'), ("c.json", '{"user": {"name": "A"}}')]:
        assert file("\ufeff" + text, name).partial == {"user": {"name": "A"}}


def test_all_problems_of_a_file_are_reported_with_paths_and_similar_keys() -> None:
    text = '[user]\nnme = "x"\n[style.tool_call]\nshow = 3\n[assistant.request]\nmax_retries = -1\n'
    with pytest.raises(jp.ConfigError) as caught:
        file(text, "/x/config.toml")
    assert {problem.path for problem in caught.value.problems} == {
        "user.nme",
        "style.tool_call.show",
        "assistant.request.max_retries",
    }
    lines = str(caught.value).splitlines()
    assert lines[0] == "workspace file: /x/config.toml:"
    assert len(lines) == 4
    assert "did you mean 'user.name'?" in str(caught.value)


def test_settings_of_terminals_are_ignored_in_a_file() -> None:
    layer = file('[style.code]\ncolor = true\n[editor]\ncmd = "vi"\n[user]\nname = "A"')
    assert get_path(layer.partial, "user.name") == "A"
    assert "color" not in repr(layer.partial)
    assert "cmd" not in repr(layer.partial)


def test_error_of_a_file_repeats_no_key() -> None:
    text = '[providers.llm.anthropic]\napi_key_env = "sk-ant-123 456"\n'
    text += 'base_url = "https://me:s3cret@host"\napi_key = "sk-ant-987"\n'
    with pytest.raises(jp.ConfigError) as caught:
        file(text)
    assert len(caught.value.problems) == 3
    assert not any(word in str(caught.value) for word in ("sk-ant", "s3cret", "me:"))


def test_included_files_are_listed() -> None:
    layer = file('extends = ["a.toml", { path = "b/*.toml", strategy = "after" }]')
    assert [(x.path, x.strategy) for x in list_includes(layer)] == [
        ("a.toml", "before"),
        ("b/*.toml", "after"),
    ]


def test_nearest_file_without_inheritance_cuts_off_the_weaker_ones() -> None:
    user = file('[user]\nname = "u"')
    outer = file('[assistant]\nname = "o"')
    near = file('inherit = false\n[user]\nname = "n"')
    assert select_inherited([[user], [outer], [near]]) == [near]
    assert select_inherited([[user], [near], [outer]]) == [near, outer]
    included = file("inherit = false")
    assert select_inherited([[user], [included, outer]]) == [included, outer]
    allowing = file("inherit = true")
    assert select_inherited([[user], [near, allowing]]) == [user, near, allowing]
