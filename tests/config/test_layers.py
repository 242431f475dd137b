"""Files and environment as layers, what wins, and what a stranger may not decide."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from jp_nb.config.authority import (
    ALLOWANCES,
    has_authority,
    stranger_may_unset,
    strip_untrusted,
    without_consent,
)
from jp_nb.config.layers import (
    FILE_ONLY,
    Include,
    Layer,
    as_variables,
    fold,
    from_environment,
    from_text,
    includes,
    inherited,
)
from jp_nb.config.partial import Partial, build, get_path, strip_strategies
from jp_nb.config.schema import field_paths
from jp_nb.config.validation import checked, split_unknown
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
    folded = strip_strategies(fold([low, env]))
    assert get_path(folded, "user.name") == "e"
    assert get_path(folded, WORDS) == ["file", "env"]
    assert get_path(folded, "assistant.request.max_retries") == 3


# --- environment -----------------------------------------------------------------------------


def test_a_variable_is_read_as_its_target_wants(subtests: pytest.Subtests) -> None:
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
            layer = from_environment({f"JP_CFG_{variable}": text})
            assert get_path(strip_strategies(layer.partial), path) == value


@pytest.mark.parametrize("text", ["a.toml", "123", ":x", "+x", "", "x:+"])
def test_settings_of_a_run_are_variables_that_say_their_texts(text: str) -> None:
    layer = from_environment(as_variables({"prompt.answers": text, "user.name": text}))
    assert layer.partial == {"prompt": {"answers": text}, "user": {"name": text}}


def test_an_operator_counts_once() -> None:
    with pytest.raises(ConfigError, match="not JSON"):
        from_environment({"JP_CFG_ASSISTANT__REQUEST__MAX_RETRIES": "::1"})
    layer = from_environment({"JP_CFG_USER__NAME": "++x"})
    assert get_path(layer.partial, "user.name") == "+x"


def test_a_variable_adds_to_the_prompt_of_the_files_below() -> None:
    low = file('[assistant]\nsystem_prompt = "File."')
    env = from_environment({"JP_CFG_ASSISTANT__SYSTEM_PROMPT": "+ More."})
    assert get_path(strip_strategies(fold([low, env])), "assistant.system_prompt") == "File. More."


@pytest.mark.parametrize("path", FILE_ONLY)
def test_what_only_a_file_says_of_itself_is_no_variable(path: str) -> None:
    with pytest.raises(ConfigError, match="only a configuration file says this"):
        from_environment({f"JP_CFG_{path.upper()}": "none"})


@pytest.mark.parametrize("variable", ["EDITOR__CMD", "CONVERSATION__TITLE__GENERATE__AUTO"])
def test_a_variable_of_a_setting_that_jp_alone_reads_is_passed_over(variable: str) -> None:
    assert from_environment({f"JP_CFG_{variable}": "x", "JP_CFG_USER__NAME": "Ada"}).partial == {
        "user": {"name": "Ada"}
    }


def test_variables_need_not_fit_together_alone() -> None:
    layer = from_environment({"JP_CFG_CONVERSATION__TOOLS__T__SOURCE": "builtin",
                              "JP_CFG_CONVERSATION__TOOLS__T__ACCESS": ':{"fs": []}'})  # fmt: skip
    assert get_path(layer.partial, "conversation.tools.t.source") == "builtin"


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


def test_a_wrong_file_is_named(subtests: pytest.Subtests) -> None:
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
            with pytest.raises(ConfigError) as caught:
                from_text(text, "user file", f"/x/{name}")
            assert (caught.value.layer, caught.value.file) == ("user file", f"/x/{name}")
            assert f"(from user file: /x/{name})" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"), [("c.toml", '[user]\nname = "A"'), ("c.json", '{"user": {"name": "A"}}')]
)
def test_a_file_may_begin_with_a_byte_order_mark(name: str, text: str) -> None:
    assert file("\ufeff" + text, name).partial == {"user": {"name": "A"}}


def test_what_is_no_number_in_a_layer_is_refused_with_all_else_that_is_wrong() -> None:
    partial: Any = {"template": {"values": {"x": [1, float("inf")]}}, "user": {"nme": 1}}
    with pytest.raises(ConfigError) as caught:
        checked(partial, layer="registrations")
    assert [problem.path for problem in caught.value.problems] == [
        "template.values.x.1",
        "user.nme",
    ]


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
    allowing = file("inherit = true")
    assert inherited([[user], [near, allowing]]) == [user, near, allowing]


# --- what others wrote -----------------------------------------------------------------------


def test_what_is_not_understood_is_left_out_alone(subtests: pytest.Subtests) -> None:
    for partial, kept, paths in [
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
        # Items are numbered as they stood: each wrong one goes, each right one stays.
        ({"assistant": {"model": {"parameters": {"stop_words": [1, "a", 2, "b", 3]}}}},
         {"assistant": {"model": {"parameters": {"stop_words": ["a", "b"]}}}},
         [f"{WORDS}.0", f"{WORDS}.2", f"{WORDS}.4"]),
        ({"assistant": {"model": {"parameters": {"stop_words": {"value": [1, "a", 2],
         "strategy": "replace"}}}}},
         {"assistant": {"model": {"parameters": {"stop_words": {"value": ["a"],
         "strategy": "replace"}}}}}, [f"{WORDS}.0", f"{WORDS}.2"]),
        # What lacks something goes as a whole, and nothing else.
        ({"assistant": {"name": "N", "system_prompt_sections": [{"tag": "t"}, "right"]}},
         {"assistant": {"name": "N", "system_prompt_sections": [{"content": "right"}]}},
         ["assistant.system_prompt_sections.0.content"]),
        ({"assistant": {"instructions": [{"examples": [{"good": "g"}, "e"], "items": [5, "i"]}]}},
         {"assistant": {"instructions": [{"examples": ["e"], "items": ["i"]}]}},
         ["assistant.instructions.0.examples.0.bad", "assistant.instructions.0.items.0"]),
        # A wrong table beside wrong things below another one.
        ({"user": 5, "assistant": {"name": 5, "model": 5}}, {},
         ["user", "assistant.name", "assistant.model"]),
        # Names that a union gives its members are only names here.
        ({"~table": 1, "[key]": 1, "user": {"name": "A"}}, {"user": {"name": "A"}},
         ["~table", '["[key]"]']),
        ({"providers": {"llm": {"aliases": {"~table": {"auth": 1}, "a": "b"}}}},
         {"providers": {"llm": {"aliases": {"a": "b"}}}}, ["providers.llm.aliases.~table.auth"]),
        ({"assistant": {"model": {"id": {"~table": 1, "name": "x"}}}},
         {"assistant": {"model": {"id": {"name": "x"}}}}, ["assistant.model.id.~table"]),
        ({"conversation": {"labels": {"[key]": "x", "a": {"[key]": 1}, "b": "c"}}},
         {"conversation": {"labels": {"b": {"value": "c"}}}},
         ['conversation.labels["[key]"]', 'conversation.labels.a["[key]"]']),
        # What no notebook can keep.
        ({"template": {"values": {"x": float("nan"), "y": [float("inf"), 1]}}},
         {"template": {"values": {"y": [1]}}}, ["template.values.x", "template.values.y.0"]),
    ]:  # fmt: skip
        with subtests.test(partial=partial):
            before = repr(partial)
            found, problems = split_unknown(partial)
            assert _plain(found) == _plain(kept)
            assert sorted(problem.path for problem in problems) == sorted(paths)
            assert repr(partial) == before


def _nested(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = {"items": value}
    return {"conversation": {"tools": {"t": {"parameters": {"p": value}, "run": "ask"}}}}


def test_what_lies_too_deep_is_not_understood_and_its_place_is_named() -> None:
    found, problems = split_unknown(_nested(800, {"type": "string"}))
    place = "conversation.tools.t.parameters.p" + ".items" * 27
    assert [problem.path for problem in problems] == [place]
    assert get_path(found, "conversation.tools.t.run") == "ask"
    assert get_path(found, place) is None
    assert get_path(found, place.removesuffix(".items")) == {}
    whole = _nested(20, {"type": "string"})
    assert split_unknown(whole) == (whole, [])


@pytest.mark.parametrize(
    "partial",
    [
        {"assistant": {"instructions": [{"titel": "x"}] * 4000}},
        {"assistant": {"instructions": [5] * 4000}},
        {"assistant": {f"instruction{i}": 1 for i in range(4000)}},
        {f"k{i}": 1 for i in range(4000)},
        {"conversation": {"tools": {f"t{i}": {"run": "no", "x": 1} for i in range(4000)}}},
        {"k" * 200_000: 1, "style": {"code": {f"k{i}": 1 for i in range(4000)}}},
        _nested(200, {"type": "string"}),
    ],
    ids=["keys in items", "items", "keys", "keys of the root", "tools", "long", "deep"],
)
def test_a_record_full_of_wrong_things_costs_little_time(partial: Any) -> None:
    split_unknown({})
    start = time.process_time()
    split_unknown(partial)
    assert time.process_time() - start < 1.5


def _plain(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    found = {key: _plain(item) for key, item in value.items()}
    return {key: item for key, item in found.items() if item != {}}


# --- what a stranger may not decide ----------------------------------------------------------

MODEL = [
    "model.id.provider", "model.id.name", "model.id", "model.parameters.max_tokens",
    "model.parameters.reasoning.effort", "model.parameters.temperature",
    "model.parameters.top_p", "model.parameters.top_k", "model.parameters.stop_words",
]  # fmt: skip
EXCLUDE = "model.parameters.reasoning.exclude"
REQUEST = [
    "request.max_retries", "request.base_backoff_ms", "request.max_backoff_secs",
    "request.stream_idle_timeout_secs", "request.max_response_bytes",
]  # fmt: skip
PROMPT = ["system_prompt", "system_prompt_sections"]
COMMAND = ["program", "args", "shell"]
PARAM = ["type", "default", "required", "summary", "description", "examples", "enum", "items",
         "properties.*", "properties"]  # fmt: skip
TOOL = "conversation.tools.*"
QUESTION = f"{TOOL}.questions.*"

HARMLESS = [
    "template.values", "template.values.*", "user.name",
    *(f"assistant.{key}" for key in ("name", *PROMPT, "instructions", *MODEL)),
    "conversation.tools", "conversation.toolsets",  # tables of others
]  # fmt: skip
BY_VALUE: dict[str, tuple[Any, Any]] = {
    "assistant.tool_choice": ("shell", "auto"),  # a tool that is named is offered
    f"{TOOL}.enable.state": (True, False),
    "conversation.toolsets.*.state": (True, False),
    f"{TOOL}.style.hidden": (True, False),
    f"{TOOL}.style.inline_results": ("off", "full"),
    f"{TOOL}.style.error.inline_results": (1, "full"),
    f"assistant.{EXCLUDE}": (True, False),
    "style.tool_call.show": (False, True),
    "style.reasoning.display": (1, "full"),
    "style.update_interval_ms": (10**9, 500),
}
"""Of these a stranger may not set the first value, and may set the other one."""
AUTHORITY = [
    "inherit", "id", "extends", "config_load_paths",
    *(f"assistant.{key}" for key in REQUEST),
    "assistant.request.max_tool_calls", "assistant.request.max_total_tokens",
    "conversation.toolsets.*.allow_toggle",
    "conversation.compaction.rules", "conversation.compaction.auto.max_tokens",
    "conversation.compaction.auto.max_turns",
    f"{TOOL}.enable.allow_toggle",  # a lock is not theirs to open, nor to close
    f"{TOOL}.source", f"{TOOL}.toolset", *(f"{TOOL}.command.{key}" for key in COMMAND),
    f"{TOOL}.summary", f"{TOOL}.description", f"{TOOL}.examples",
    f"{TOOL}.cancellation_response",  # is sent as the user's own reason
    f"{TOOL}.parameters", *(f"{TOOL}.parameters.*.{key}" for key in PARAM),
    f"{TOOL}.run", f"{TOOL}.covers", f"{TOOL}.format", f"{TOOL}.result", f"{TOOL}.result_max_chars",
    *(f"{TOOL}.style.parameters.{key}" for key in COMMAND),
    f"{TOOL}.questions", f"{QUESTION}.answer", f"{QUESTION}.prompt_label",
    *(f"{QUESTION}.target.{key}" for key in (*PROMPT, "tool_choice", *MODEL, EXCLUDE, *REQUEST,
                                             "name", "instructions")),
    f"{TOOL}.options", f"{TOOL}.options.*",
    *(f"{TOOL}.access.{key}" for key in ("fs", "net", "env", "config")),
    "conversation.attachments",
    "conversation.labels", "conversation.labels.*.value",
    *(f"conversation.labels.*.value.cmd.{key}" for key in COMMAND),
    "conversation.labels.*.apply_on.new", "conversation.labels.*.apply_on.fork",
    "conversation.labels.*.run",
    *(f"conversation.inquiry.assistant.{key}" for key in (*PROMPT, "tool_choice", *MODEL,
                                                          EXCLUDE, *REQUEST)),
    "interrupt.escalation_cooldown_secs", "interrupt.streaming.action",
    "interrupt.tool_call.action",
    "providers.llm.aliases", "providers.llm.aliases.*", "providers.llm.aliases.*.provider",
    "providers.llm.aliases.*.name",
    *(f"providers.llm.{name}.{key}" for name in (
        "anthropic", "cerebras", "deepseek", "google", "llamacpp", "ollama", "openai",
        "openrouter", "xai") for key in ("api_key_env", "base_url")),
    "providers.llm.anthropic.chain_on_max_tokens", "providers.llm.anthropic.beta_headers",
    "providers.llm.openai.base_url_env", "providers.llm.openai.dialect",
    *(f"providers.llm.{name}.images" for name in (
        "cerebras", "deepseek", "llamacpp", "ollama", "openai", "openrouter")),
    "providers.llm.openrouter.app_name", "providers.llm.openrouter.app_referrer",
    "prompt.channel", "prompt.rendered_timeout_s", "prompt.timeout_s", "prompt.notify",
    "record.headless", "record.project_log", "record.project_log_archives",
    "record.rerun", "record.image_max_bytes", "record.images_per_turn",
    "record.journal", "record.reproducible", "prompt.answers",
    "providers.cassette.path", "providers.cassette.mode", "providers.cassette.tools",
    "interpolation.max_chars", "values.image_side", "style.remote_images",
]  # fmt: skip


def test_whether_a_stranger_may_set_it_is_judged_for_every_field_once() -> None:
    """A new field belongs into one of the lists: may whoever wrote the notebook decide it?"""
    judged, fields = Counter([*HARMLESS, *BY_VALUE, *AUTHORITY]), Counter(field_paths())
    assert not (missing := [*(fields - judged)]), f"list in HARMLESS or AUTHORITY: {missing}"
    assert not (spare := [*(judged - fields)]), f"no field, or listed twice: {spare}"


def places(paths: Iterable[str], keys: Iterable[str]) -> list[tuple[str, ...]]:
    """The keys of `paths`, with each of `keys` for every `*`; each place once."""
    return list(
        dict.fromkeys(
            tuple(key if part == "*" else part for part in path.split("."))
            for path in paths
            for key in keys
        )
    )


def test_what_is_the_users_to_decide_has_authority(subtests: pytest.Subtests) -> None:
    for keys in places(
        [*AUTHORITY, "not.a.field", "assistant.model.parameters.provider"],
        ["*", "x", "a.b", "enable", "style"],
    ):
        with subtests.test(keys=keys):
            assert has_authority(keys)


def test_what_only_changes_words_has_none_whatever_it_is_called(subtests: pytest.Subtests) -> None:
    for keys in places(
        [
            *HARMLESS,
            *BY_VALUE,
            "assistant",
            "conversation.tools.*",
            "assistant.model",
            "assistant.instructions.title",
        ],
        ["*", "x", "run_command", "command", "cmd", "a.b"],
    ):
        with subtests.test(keys=keys):
            assert not has_authority(keys)


def test_of_some_fields_a_stranger_may_set_one_value_and_not_the_other(
    subtests: pytest.Subtests,
) -> None:
    for path in BY_VALUE:
        with subtests.test(path=path):
            refused, allowed = BY_VALUE[path]
            path = path.replace("*", "run_command")
            assert strip_untrusted(build(path, allowed)) == (build(path, allowed), {})
            assert strip_untrusted(build(path, refused)) == ({}, {path: refused})


@pytest.mark.parametrize("word", [True, "true", "on", "always"])
def test_every_word_that_switches_a_tool_on_is_refused(word: Any) -> None:
    enable = "conversation.tools.t.enable"
    assert strip_untrusted(build(enable, word)) == ({}, {enable: word})
    understood, _ = split_unknown(build(enable, word))
    kept, ignored = strip_untrusted(understood)
    assert get_path(kept, f"{enable}.state") is None
    assert f"{enable}.state" in ignored


@pytest.mark.parametrize("word", [False, "false", "off", "explicit"])
def test_a_stranger_may_switch_a_tool_off_and_touches_no_lock(word: Any) -> None:
    enable = "conversation.tools.run_command.enable"
    understood, _ = split_unknown(build(enable, word))
    kept, ignored = strip_untrusted(understood)
    assert get_path(kept, enable) == {"state": False}
    assert list(ignored) == [f"{enable}.allow_toggle"]


def test_what_a_stranger_may_not_set_it_may_not_take_away(subtests: pytest.Subtests) -> None:
    for path in [*AUTHORITY, *(p for p in BY_VALUE if p.endswith(".state"))]:
        with subtests.test(path=path):
            keys = ["t" if part == "*" else part for part in path.split(".")]
            assert not any(stranger_may_unset(keys[:place]) for place in range(1, len(keys) + 1))


def test_what_only_changes_words_a_stranger_may_take_away(subtests: pytest.Subtests) -> None:
    for path in [p for p in HARMLESS if p not in ("conversation.tools", "conversation.toolsets")]:
        with subtests.test(path=path):
            assert stranger_may_unset(["t" if part == "*" else part for part in path.split(".")])


def test_what_a_stranger_may_not_decide_is_taken_out_and_listed() -> None:
    partial: Partial = {
        "user": {"name": "E"},
        "template": {"values": {"command": "x", "cmd": {"command": "y"}}},
        "providers": {"llm": {"openai": {"base_url": "http://evil"}}},
        "conversation": {"tools": {"a.b": {"run": "unattended", "style": {"hidden": False}}}},
        "interrupt": {"streaming": {"action": "continue"}},
    }
    kept, ignored = strip_untrusted(partial)
    assert kept == {
        "user": {"name": "E"},
        "template": {"values": {"command": "x", "cmd": {"command": "y"}}},
        "conversation": {"tools": {"a.b": {"style": {"hidden": False}}}},
    }
    assert ignored == {
        "providers.llm.openai.base_url": "http://evil",
        'conversation.tools["a.b"].run': "unattended",
        "interrupt.streaming.action": "continue",
    }


def test_untrusted_record_cannot_send_requests_to_a_local_port() -> None:
    local: list[Any] = [
        {"provider": "ollama", "name": "m"},
        {"provider": "ollama"},
        "llamacpp/m",
    ]
    named: list[Any] = [{"provider": "openai", "name": "m"}, "fast"]
    for model in local:
        partial = build("assistant.model.id", model)
        assert strip_untrusted(partial) == ({}, {"assistant.model.id": model})
    for model in named:
        partial = build("assistant.model.id", model)
        assert strip_untrusted(partial) == (partial, {})


# --- the file of a folder without the user's consent -------------------------------------------

EVERYTHING = "everything"
SAMPLES: list[Any] = [
    None, True, False, 0, 1, 0.5, 500, 10**9, "", "x", "a.toml", "on", "off", "auto", "never",
    "none", "required", "ask", "edit", "skip", "unattended", "full", "hidden", "static", "json",
    "function_call", "record", "replay", "replace", "append", "continue", "http://h", ["x"], [],
    {"x": "y"}, {"value": ["x"], "strategy": "replace"}, {"run": "ask", "answer": True},
]  # fmt: skip
MODES: list[Any] = ["ask", "edit"]
A_FOLDER_MAY: dict[str, Any] = {
    "template.values": EVERYTHING,
    "template.values.*": EVERYTHING,
    "user.name": EVERYTHING,
    "assistant.name": EVERYTHING,
    "assistant.system_prompt": EVERYTHING,
    "assistant.system_prompt_sections": EVERYTHING,
    "assistant.instructions": EVERYTHING,
    **{f"assistant.{key}": EVERYTHING for key in MODEL if not key.startswith("model.id")},
    f"assistant.{EXCLUDE}": [False],
    f"{TOOL}.run": MODES,
    f"{TOOL}.format": MODES,
    f"{TOOL}.result": MODES,
    f"{TOOL}.style.hidden": [False],
    f"{TOOL}.style.inline_results": ["full"],
    f"{TOOL}.style.error.inline_results": ["full"],
    f"{TOOL}.style.parameters": ["json", "function_call"],
    "style.reasoning.display": ["full"],
    "style.tool_call.show": [True],
    "style.update_interval_ms": [True, False, 0, 1, 500],
}
"""The values of each setting that a folder may set; a setting that is not listed is denied."""


def test_folder_without_consent_sets_only_the_listed_values(subtests: pytest.Subtests) -> None:
    for path in field_paths():
        with subtests.test(path=path):
            for name in ("t", "style", "run", "name"):
                at = path.replace("*", name)
                for value in SAMPLES:
                    kept, left_out = without_consent(build(at, value))
                    listed = A_FOLDER_MAY.get(path, [])
                    same = (type(value) is type(each) and value == each for each in listed)
                    allowed = listed == EVERYTHING or any(same)
                    assert (kept, bool(left_out)) == (
                        (build(at, value), False) if allowed else ({}, True)
                    )


def test_each_allowance_names_a_setting_and_a_reason() -> None:
    known = field_paths()
    for path, allowance in ALLOWANCES.items():
        assert any(each == path or each.startswith(f"{path}.") for each in known), path
        assert allowance.why.endswith(".")
