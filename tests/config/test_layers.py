"""Layers of the configuration: files, environment variables, and their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.config.environment_layer import format_variables
from jp_nb.storage.configuration.config_files import ConfigFiles
from tests.kit.settings import Settings, value_at

WORDS = "assistant.model.parameters.stop_words"


def read_variables(**variables: str) -> dict[str, Any]:
    """Return the layer of the environment with the variables `JP_CFG_…`."""
    environment = {f"JP_CFG_{name}": text for name, text in variables.items()}
    return Settings.read(environment, "environment")


def test_higher_layer_wins_and_lists_are_merged() -> None:
    low = Settings.read('[assistant.model.parameters]\nstop_words = ["file"]\n[user]\nname = "f"')
    variables = {
        "JP_CFG_USER__NAME": "e",
        "JP_CFG_ASSISTANT__MODEL__PARAMETERS__STOP_WORDS": "+env",
        "JP_CFG_ASSISTANT__REQUEST__MAX_RETRIES": ":3",
        "HOME": "/",
    }
    merged = Settings(low, Settings.read(variables, "environment")).merged()
    assert value_at(merged, "user.name") == "e"
    assert value_at(merged, WORDS) == ["file", "env"]
    assert value_at(merged, "assistant.request.max_retries") == 3


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
            assert value_at(Settings(read_variables(**{variable: text})).merged(), path) == value


def test_settings_passed_as_variables_keep_their_texts() -> None:
    for text in ("a.toml", "123", ":x", "+x", "", "x:+"):
        variables = format_variables({"prompt.answers": text, "user.name": text})
        layer = Settings.read(variables, "environment")
        assert layer == {"prompt": {"answers": text}, "user": {"name": text}}


def test_operator_in_a_variable_is_read_once() -> None:
    with pytest.raises(jp.ConfigError, match="not JSON"):
        read_variables(ASSISTANT__REQUEST__MAX_RETRIES="::1")
    assert value_at(read_variables(USER__NAME="++x"), "user.name") == "+x"


def test_variable_adds_to_the_prompt_of_a_file() -> None:
    low = Settings.read('[assistant]\nsystem_prompt = "File."')
    merged = Settings(low, read_variables(ASSISTANT__SYSTEM_PROMPT="+ More.")).merged()
    assert value_at(merged, "assistant.system_prompt") == "File. More."


def test_variable_cannot_set_a_field_for_files_only() -> None:
    for name in ("EXTENDS", "ID", "INHERIT"):
        with pytest.raises(jp.ConfigError, match="only a configuration file can set this"):
            read_variables(**{name: "none"})


def test_variable_of_a_setting_of_terminals_is_ignored() -> None:
    for variable in ("EDITOR__CMD", "CONVERSATION__TITLE__GENERATE__AUTO"):
        assert read_variables(**{variable: "x"}, USER__NAME="Ada") == {"user": {"name": "Ada"}}


def test_variables_may_contradict_each_other_until_all_layers_are_folded() -> None:
    layer = read_variables(
        CONVERSATION__TOOLS__T__SOURCE="builtin", CONVERSATION__TOOLS__T__ACCESS=':{"fs": []}'
    )
    assert value_at(layer, "conversation.tools.t.source") == "builtin"


def test_error_names_the_wrong_variable() -> None:
    for variable in ("USR__NAME", "STYLE__TOOL_CALL__SHOW"):
        with pytest.raises(jp.ConfigError, match=f"environment: JP_CFG_{variable}"):
            read_variables(**{variable: "x"})


def test_error_names_all_wrong_variables() -> None:
    with pytest.raises(jp.ConfigError) as caught:
        read_variables(USR__NAME="x", STYLE__TOOL_CALL__SHOW="x")
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
                Settings.read(text, "user file", f"/x/{name}")
            assert (caught.value.layer, caught.value.file) == ("user file", f"/x/{name}")
            assert f"(from user file: /x/{name})" in str(caught.value)


def test_file_may_begin_with_a_byte_order_mark() -> None:
    for name, text in [("c.toml", '[user]\nname = "A"'), ("c.json", '{"user": {"name": "A"}}')]:
        assert Settings.read("\ufeff" + text, file=name) == {"user": {"name": "A"}}


def test_all_problems_of_a_file_are_reported_with_paths_and_similar_keys() -> None:
    text = '[user]\nnme = "x"\n[style.tool_call]\nshow = 3\n[assistant.request]\nmax_retries = -1\n'
    with pytest.raises(jp.ConfigError) as caught:
        Settings.read(text, file="/x/config.toml")
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
    layer = Settings.read('[style.code]\ncolor = true\n[editor]\ncmd = "vi"\n[user]\nname = "A"')
    assert layer == {"style": {}, "user": {"name": "A"}}


def test_error_of_a_file_repeats_no_key() -> None:
    text = '[providers.llm.anthropic]\napi_key_env = "sk-ant-123 456"\n'
    text += 'base_url = "https://me:s3cret@host"\napi_key = "sk-ant-987"\n'
    with pytest.raises(jp.ConfigError) as caught:
        Settings.read(text)
    assert len(caught.value.problems) == 3
    assert not any(word in str(caught.value) for word in ("sk-ant", "s3cret", "me:"))


@pytest.mark.parametrize(
    ("own", "included", "are_weaker_read"),
    [
        ("", "", True),
        ("inherit = false\n", "", False),
        ("", "inherit = false\n", False),
        ("inherit = true\n", "inherit = false\n", True),
    ],
)
def test_file_or_its_include_cuts_off_the_weaker_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, included: str, are_weaker_read: bool
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    user = tmp_path / "home" / "jp"
    user.mkdir(parents=True)
    near = tmp_path / "work" / ".jp"
    near.mkdir(parents=True)
    outer = tmp_path / ".jp"
    outer.mkdir()
    (user / "config.toml").write_text('[template.values]\nuser = "1"\n')
    (outer / "config.toml").write_text('[template.values]\nouter = "1"\n')
    (near / "config.toml").write_text(f'{own}extends = ["a.toml"]\n[assistant]\nname = "near"\n')
    (near / "a.toml").write_text(included)

    layers = [layer.partial for layer in ConfigFiles(near.parent).load_layers()]
    merged = Settings(*layers).merged()
    for weaker in ("user", "outer"):
        assert (value_at(merged, f"template.values.{weaker}") == "1") is are_weaker_read
    assert value_at(merged, "assistant.name") == "near"
