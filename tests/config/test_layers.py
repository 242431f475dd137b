"""Files and environment as layers, what wins, and what a stranger may not decide."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.config.check import known
from jp_nb.config.layers import (
    Include,
    Layer,
    fold,
    from_environment,
    from_text,
    has_authority,
    includes,
    inherited,
    set_by,
    without_foreign_authority,
)
from jp_nb.config.partial import Partial, at, settled
from jp_nb.errors import ConfigError

WORDS = "assistant.model.parameters.stop_words"


def file(text: str, name: str = "f.toml") -> Layer:
    return from_text(text, "workspace file", name)


def test_layers_win_from_low_to_high_and_lists_say_how_they_meet() -> None:
    low = file('[assistant.model.parameters]\nstop_words = ["file"]\n[user]\nname = "f"')
    env = from_environment(
        {
            "JP_CFG_USER__NAME": "e",
            "JP_CFG_ASSISTANT__MODEL__PARAMETERS__STOP_WORDS": "+env",
            "JP_CFG_ASSISTANT__REQUEST__MAX_RETRIES": ":3",
            "HOME": "/",
        }
    )
    folded = settled(fold([low, env]))
    assert at(folded, "user.name") == "e"
    assert at(folded, WORDS) == ["file", "env"]
    assert at(folded, "assistant.request.max_retries") == 3
    said = [(layer.name, layer.file, value) for layer, value in set_by([low, env], WORDS)]
    assert said == [("workspace file", "f.toml", ["file"]), ("environment", None, ["env"])]


# --- environment -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "text", "path", "value"),
    [
        ("USER__NAME", "Ada", "user.name", "Ada"),
        ("ASSISTANT__MODEL__PARAMETERS__STOP_WORDS", "a, b", WORDS, ["a", "b"]),
        ("ASSISTANT__MODEL__PARAMETERS__STOP_WORDS", ':["a,b"]', WORDS, ["a,b"]),
        ("ASSISTANT__MODEL__PARAMETERS__STOP_WORDS", "+a", WORDS, ["a"]),
        ("ASSISTANT__MODEL__PARAMETERS__STOP_WORDS", '+:["a"]', WORDS, ["a"]),
        ("ASSISTANT__MODEL__PARAMETERS__STOP_WORDS", ':+["a"]', WORDS, ["a"]),
        ("USER__NAME", r"\:x", "user.name", ":x"),
        ("USER__NAME", r"\+x", "user.name", "+x"),
        ("USER__NAME", r"\x", "user.name", r"\x"),
        ("CONVERSATION__TOOLS__FS_READ_FILE__RUN", "ask",
         "conversation.tools.fs_read_file.run", "ask"),
        ("ASSISTANT__MODEL__ID", "openai/m", "assistant.model.id",
         {"provider": "openai", "name": "m"}),
    ],
)  # fmt: skip
def test_a_variable_is_read_as_its_target_wants(
    variable: str, text: str, path: str, value: Any
) -> None:
    layer = from_environment({f"JP_CFG_{variable}": text})
    assert at(settled(layer.partial), path) == value


@pytest.mark.parametrize(
    "environ", [{"JP_CFG_USR__NAME": "x"}, {"JP_CFG_STYLE__TOOL_CALL__SHOW": "x"}]
)
def test_a_wrong_variable_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=f"environment: {next(iter(environ))}"):
        from_environment(environ)


def test_all_wrong_variables_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        from_environment({"JP_CFG_USR__NAME": "x", "JP_CFG_STYLE__TOOL_CALL__SHOW": "x"})
    assert "JP_CFG_USR__NAME" in str(caught.value)
    assert "JP_CFG_STYLE__TOOL_CALL__SHOW" in str(caught.value)


# --- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [("c.toml", "a = "), ("c.toml", "a = 1"), ("c.json", "{"), ("c.json", "[]"), ("c.json", "NaN"),
     ("c.toml", "[user]\nname = 5")],
)  # fmt: skip
def test_a_wrong_file_is_named(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_text(text, "user file", f"/x/{name}")
    assert (caught.value.layer, caught.value.file) == ("user file", f"/x/{name}")
    assert f"(from user file: /x/{name})" in str(caught.value)


def test_everything_wrong_in_a_file_is_told_at_once_with_paths_and_near_keys() -> None:
    text = '[user]\nnme = "x"\n[style.tool_call]\nshow = 3\n[assistant.request]\nmax_retries = -1\n'
    with pytest.raises(ConfigError) as caught:
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


def test_what_jp_configures_for_a_terminal_is_no_error_in_a_file_that_both_read() -> None:
    layer = file('[style.code]\ncolor = true\n[editor]\ncmd = "vi"\n[user]\nname = "A"')
    assert _plain(layer.partial) == {"user": {"name": "A"}}


def test_no_error_repeats_what_may_be_a_key() -> None:
    text = '[providers.llm.anthropic]\napi_key_env = "sk-ant-123 456"\n'
    text += 'base_url = "https://me:s3cret@host"\napi_key = "sk-ant-987"\n'
    with pytest.raises(ConfigError) as caught:
        file(text)
    assert len(caught.value.problems) == 3
    assert not any(word in str(caught.value) for word in ("sk-ant", "s3cret", "me:"))


def test_a_file_says_what_it_includes() -> None:
    layer = file('extends = ["a.toml", { path = "b/*.toml", strategy = "after" }]')
    assert includes(layer) == [Include("a.toml"), Include("b/*.toml", "after")]


def test_the_nearest_file_that_does_not_inherit_cuts_off_the_weaker_ones() -> None:
    user, outer = file('[user]\nname = "u"'), file('[assistant]\nname = "o"')
    near = file('inherit = false\n[user]\nname = "n"')
    assert inherited([[user], [outer], [near]]) == [near]
    assert inherited([[user], [near], [outer]]) == [near, outer]
    included = file("inherit = false")
    assert inherited([[user], [included, outer]]) == [included, outer]


# --- what others wrote -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partial", "kept", "paths"),
    [
        ({"future": {"x": 1}, "user": {"name": "A"}}, {"user": {"name": "A"}}, ["future"]),
        ({"user": {"name": 5, "x": 1}, "assistant": {"name": "B"}},
         {"user": {}, "assistant": {"name": "B"}}, ["user.name", "user.x"]),
        ({"assistant": {"model": {"parameters": {"temperature": "hot", "top_k": 3}}}},
         {"assistant": {"model": {"parameters": {"top_k": 3}}}},
         ["assistant.model.parameters.temperature"]),
        ({"conversation": {"tools": {"t": {"run": "never", "enable": "off"}}}},
         {"conversation": {"tools": {"t": {"enable": {"state": False, "allow_toggle": "any"}}}}},
            ["conversation.tools.t.run"]),
        ({"assistant": {"instructions": [{"title": "I"}, {"titel": "J"}, {"title": "K"}]}},
         {"assistant": {"instructions": [{"title": "I"}, {}, {"title": "K"}]}},
         ["assistant.instructions.1.titel"]),
        ({"assistant": 5, "user": {"name": "A"}}, {"user": {"name": "A"}}, ["assistant"]),
        ({"conversation": {"tools": {"a.b": {"x": 1}}}}, {"conversation": {"tools": {"a.b": {}}}},
         ['conversation.tools["a.b"].x']),
        ({"style": {"code": {"color": True}}, "editor": {"cmd": "vi"}}, {}, []),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_left_out_alone(
    partial: Partial, kept: Partial, paths: list[str]
) -> None:
    before = repr(partial)
    found, problems = known(partial)
    assert _plain(found) == _plain(kept)
    assert sorted(problem.path for problem in problems) == sorted(paths)
    assert repr(partial) == before


def _plain(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    found = {key: _plain(item) for key, item in value.items()}
    return {key: item for key, item in found.items() if item != {}}


@pytest.mark.parametrize(
    "path",
    [
        "providers.llm.openai.base_url", "providers.llm.anthropic.api_key_env",
        "providers.mcp.m.command", "providers.llm.aliases.fast", "extends", "config_load_paths",
        "conversation.attachments", "conversation.labels.a.value.cmd", "conversation.labels.a",
        "conversation.tools.t.source", "conversation.tools.t.command", "conversation.tools.t.run",
        "conversation.tools.*.run", "conversation.tools.t.result", "conversation.tools.t.format",
        "conversation.tools.t.access.fs", "conversation.tools.t.access.config",
        "conversation.tools.t.questions.q.answer", "conversation.tools.t.questions.q.target",
        "conversation.tools.t.style.parameters", "conversation.tools.t.options.x",
    ],
)  # fmt: skip
def test_what_could_run_code_or_widen_access_has_authority(path: str) -> None:
    assert has_authority(path.split("."))


@pytest.mark.parametrize(
    "path",
    [
        "assistant.model.id", "assistant.model.parameters.temperature", "assistant.instructions",
        "user.name", "style.tool_call.show", "conversation.tools.t.description",
        "conversation.tools.t.enable", "conversation.tools.t.questions.q.prompt_label",
    ],
)  # fmt: skip
def test_what_only_changes_words_has_none(path: str) -> None:
    assert not has_authority(path.split("."))


def test_what_a_stranger_may_not_decide_is_taken_out_and_listed() -> None:
    partial: Partial = {
        "user": {"name": "E"},
        "providers": {"llm": {"openai": {"base_url": "http://evil"}}},
        "conversation": {"tools": {"a.b": {"run": "unattended", "description": "d"}}},
    }
    kept, ignored = without_foreign_authority(partial)
    assert kept == {"user": {"name": "E"}, "conversation": {"tools": {"a.b": {"description": "d"}}}}
    assert ignored == {
        "providers.llm.openai.base_url": "http://evil",
        'conversation.tools["a.b"].run': "unattended",
    }
