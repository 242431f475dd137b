"""The configuration tree: its fields, what they accept, the form in which values are kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.config.paths import parse_path
from jp_nb.config.schema import node_of
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.attachment_url import AttachmentParts, attachment_parts
from jp_nb.config.tree.left_out import LEFT_OUT, left_out
from jp_nb.config.tree.strategy import (
    APPEND,
    APPEND_SET,
    DEEP,
    PRESERVE,
    TEXT,
    Merge,
    keyed,
)
from jp_nb.config.tree.tool_config import Enable, Param
from jp_nb.config.validation import validate
from jp_nb.errors import ConfigError
from jp_nb.providers.registry import create
from jp_nb.tooling.python import PythonTool
from tests.support.config_spellings import CASES, lookup, under, wholes
from tests.support.fakes import offer_now
from tests.support.record_strategies import QUICK

# --- which fields there are ------------------------------------------------------------------

PROGRESS = ("show", "delay_secs", "interval_ms")
PARAMETERS = ("max_tokens", "reasoning", "temperature", "top_p", "top_k", "stop_words")
KEPT = [
    "inherit", "config_load_paths", "extends", "extends.0.path", "extends.0.strategy", "id",
    "template.values", "user.name",
    *(f"assistant.{key}" for key in ("name", "system_prompt", "system_prompt_sections",
                                     "instructions", "tool_choice", "model.id")),
    *(f"assistant.system_prompt_sections.0.{key}" for key in ("content", "tag", "title",
                                                              "position")),
    *(f"assistant.instructions.0.{key}" for key in ("title", "description", "position", "items",
                                                    "examples")),
    *(f"assistant.instructions.0.examples.0.{key}" for key in ("good", "bad", "reason")),
    *(f"assistant.model.id.{key}" for key in ("provider", "name")),
    *(f"assistant.model.parameters.{key}" for key in PARAMETERS),
    "assistant.model.parameters.reasoning.effort", "assistant.model.parameters.reasoning.exclude",
    "assistant.model.parameters.context_management",
    *(f"assistant.request.{key}" for key in ("max_retries", "base_backoff_ms", "max_backoff_secs",
                                             "stream_idle_timeout_secs", "max_response_bytes",
                                             "max_tool_calls", "max_total_tokens")),
    *(f"conversation.tools.*.{key}" for key in ("enable", "run", "format", "result",
                                                "result_max_chars", "cancellation_response",
                                                "style")),
    *(f"conversation.tools.t.{key}" for key in (
        "source", "enable", "command", "summary", "description", "examples", "parameters", "run",
        "format", "result", "result_max_chars", "cancellation_response", "style", "questions",
        "options", "access")),
    "conversation.tools.t.enable.state", "conversation.tools.t.enable.allow_toggle",
    *(f"conversation.tools.t.command.{key}" for key in ("program", "args", "shell")),
    *(f"conversation.tools.t.parameters.p.{key}" for key in (
        "type", "default", "required", "summary", "description", "examples", "enum", "items",
        "properties", "items.type", "properties.q.items.enum")),
    *(f"conversation.tools.t.style.{key}" for key in ("hidden", "inline_results", "parameters",
                                                      "error.inline_results")),
    *(f"conversation.tools.t.questions.q.{key}" for key in ("target", "answer", "prompt_label",
                                                            "target.model.id",
                                                            "target.system_prompt")),
    *(f"conversation.tools.t.access.fs.0.{key}" for key in (
        "path", "external", "read", "write", "create", "update", "delete", "execute")),
    *(f"conversation.tools.t.access.config.0.{key}" for key in ("path", "read", "write", "delete",
                                                                "apply")),
    "conversation.attachments", "conversation.attachments.0",
    *(f"conversation.compaction.rules.0.{key}" for key in (
        "keep_first", "keep_last", "reasoning", "tool_calls", "summary", "summary.model.id",
        "summary.model.parameters.max_tokens", "summary.instructions", "summary.context")),
    "conversation.compaction.auto.max_tokens", "conversation.compaction.auto.max_turns",
    *(f"conversation.labels.k.{key}" for key in ("value", "value.cmd.program", "apply_on.new",
                                                 "apply_on.fork", "run")),
    *(f"conversation.inquiry.assistant.{key}" for key in (
        "system_prompt", "system_prompt_sections", "tool_choice", "model.id",
        "request.max_retries", "request.max_response_bytes")),
    "style.reasoning.display",
    "style.tool_call.show",
    "style.update_interval_ms",
    "interrupt.escalation_cooldown_secs", "interrupt.streaming.action",
    "interrupt.tool_call.action",
    "providers.llm.aliases",
    *(f"providers.llm.{name}.{key}" for name in ("anthropic", "cerebras", "deepseek", "google",
                                                 "openai", "openrouter", "xai")
      for key in ("api_key_env", "base_url")),
    "providers.llm.anthropic.chain_on_max_tokens", "providers.llm.anthropic.beta_headers",
    "providers.llm.llamacpp.base_url", "providers.llm.ollama.base_url",
    "providers.llm.openai.base_url_env", "providers.llm.openai.dialect",
    "providers.llm.openrouter.app_name", "providers.llm.openrouter.app_referrer",
    "prompt.channel", "prompt.rendered_timeout_s", "prompt.timeout_s", "prompt.notify",
    "record.headless", "interpolation.max_chars",
]  # fmt: skip
"""Every setting that is kept or adapted."""

OF_JP_ALONE = [
    *(f"style.code.{key}" for key in ("color", "line_numbers", "file_link", "copy_link")),
    "style.inline_code.background",
    *(f"style.markdown.{key}" for key in ("wrap_width", "table_max_column_width",
                                          "table_continuation_edge", "theme", "hr_style")),
    "style.reasoning.summary_model", "style.reasoning.summary_model.id",
    "style.reasoning.background", "style.reasoning.extend_across_tool_calls",
    *(f"style.lock_wait.{key}" for key in (*PROGRESS, "timeout_secs")),
    *(f"style.typewriter.{key}" for key in ("text_delay", "code_delay", "max_latency")),
    "conversation.start_local", "conversation.default_id",
    "conversation.tools.*.style.results_file_link", "conversation.tools.t.style.results_file_link",
    "conversation.tools.t.style.error.results_file_link",
    'conversation.tools["a.b"].style.results_file_link',
    "interrupt.streaming.compose_in_editor", "interrupt.tool_call.compose_in_editor",
    "editor", "editor.cmd", "editor.envs", "editor.inline.edit_mode",
    "plugins.auto_install", "plugins.shutdown_timeout_secs", "plugins.command.x.run",
    "providers.llm.anthropic.auth",
    "loader.reset", "conversation.title.generate.auto", "conversation.title.from_heading",
    "conversation.title.generate.model.id",
    "assistant.request.cache", "conversation.inquiry.assistant.request.cache",
    "conversation.tools.t.questions.q.target.request.cache",
    *(f"style.{part}.{key}" for key in PROGRESS for part in (
        "mcp_startup", "streaming.progress", "tool_call.progress", "tool_call.preparing")),
    *(f"providers.mcp.s.{key}" for key in ("type", "command", "checksum.algorithm")),
]  # fmt: skip
"""Settings that a notebook has no use for."""


def test_a_kept_setting_is_in_the_tree(subtests: pytest.Subtests) -> None:
    for path in KEPT:
        with subtests.test(path=path):
            assert node_of(path) is not None
            assert not left_out(parse_path(path))


def test_a_setting_of_jp_alone_is_left_out(subtests: pytest.Subtests) -> None:
    for path in OF_JP_ALONE:
        with subtests.test(path=path):
            assert node_of(path) is None
            assert left_out(parse_path(path))


def test_nothing_else_is_left_out() -> None:
    matched = {pattern for pattern in LEFT_OUT if any(_matches(pattern, p) for p in OF_JP_ALONE)}
    assert matched == LEFT_OUT


def _matches(pattern: str, path: str) -> bool:
    parts, keys = pattern.split("."), path.split(".")
    return len(keys) >= len(parts) and all(
        part in ("*", key) for part, key in zip(parts, keys, strict=False)
    )


def test_a_field_says_how_it_merges(subtests: pytest.Subtests) -> None:
    for path, merge in [
        ("config_load_paths", APPEND_SET),
        ("extends", PRESERVE),
        ("assistant.system_prompt", TEXT),
        ("assistant.system_prompt_sections", keyed("tag", "title")),
        ("assistant.instructions", keyed("title")),
        ("assistant.model.parameters.stop_words", APPEND_SET),
        ("providers.llm.anthropic.beta_headers", APPEND_SET),
        ("conversation.attachments", Merge("append", dedup=True, items="set", annotated=True)),
        ("conversation.tools.t.access.fs", keyed("path")),
        ("conversation.tools.t.access.config", keyed("path")),
        ("conversation.labels", DEEP),
        ("conversation.tools.t.command.args", APPEND),
    ]:
        with subtests.test(path=path):
            node = node_of(path)
            assert node is not None
            assert node.merge == merge


def test_the_defaults() -> None:
    kept = AppConfig().model_dump(mode="json", exclude_none=True)
    assert lookup(kept, "assistant.model.id") == {"provider": "scripted", "name": "welcome"}
    assert [i["title"] for i in kept["assistant"]["instructions"]] == ["How to respond to the user"]
    assert lookup(kept, "assistant.request") == {
        "max_retries": 5,
        "base_backoff_ms": 1000,
        "max_backoff_secs": 60,
        "stream_idle_timeout_secs": 60,
        "max_response_bytes": 1048576,
        "max_tool_calls": 128,
        "max_total_tokens": 0,
    }
    assert lookup(kept, "interrupt.streaming.action") == "prompt"
    assert lookup(kept, "interrupt.tool_call.action") == "prompt"
    assert "dialect" not in lookup(kept, "providers.llm.openai")
    assert kept["extends"] == []


# --- how values are written ------------------------------------------------------------------


def test_every_spelling_has_one_kept_form(subtests: pytest.Subtests) -> None:
    for path, written, kept in CASES:
        with subtests.test(path=path):
            config = AppConfig.model_validate(under({}, path, written))
            dumped = config.model_dump(mode="json", exclude_none=True)
            assert lookup(dumped, path) == kept
            assert AppConfig.model_validate(dumped) == config


@given(wholes)
@QUICK
def test_what_is_kept_reads_as_the_same(whole: dict[str, Any]) -> None:
    config = AppConfig.model_validate(whole)
    kept = config.model_dump(mode="json", exclude_none=True)
    again = AppConfig.model_validate(kept)
    assert again == config
    assert again.model_dump(mode="json", exclude_none=True) == kept


names = st.from_regex(r"[a-z][a-z0-9+._-]{1,6}", fullmatch=True)
some = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(names, some, st.dictionaries(some, some | st.lists(some, min_size=2, max_size=3)))
@QUICK
def test_an_attachment_is_the_same_as_a_table_and_as_a_url(
    kind: str, path: str, params: dict[str, str | list[str]]
) -> None:
    parts = AttachmentParts(kind, path, params)
    assert attachment_parts(parts.url) == parts
    table = {"type": kind, "path": path, "params": params}
    config = AppConfig.model_validate({"conversation": {"attachments": [table]}})
    assert config.conversation.attachments == [parts.url]


def test_halves_of_enable_that_are_not_set_stay_unset() -> None:
    assert Enable.model_validate({"state": True}).model_dump() == {"state": True}
    assert Enable().model_dump() == {}


# --- what does not fit together --------------------------------------------------------------


# --- what can be configured and is not there yet ---------------------------------------------


@pytest.mark.parametrize("name", ["google", "xai", "test"])
def test_a_known_provider_that_is_not_built_says_so(name: str) -> None:
    AppConfig.model_validate({"assistant": {"model": {"id": f"{name}/x"}}})
    with pytest.raises(ConfigError, match=f"{name}' is not available yet; there are anthropic"):
        create(name)


def test_a_dialect_that_is_not_built_says_so() -> None:
    with pytest.raises(ConfigError, match="expected `chat`") as caught:
        create("openai", {"dialect": "responses"})
    assert caught.value.path == "providers.llm.openai.dialect"
    create("openai", {"dialect": "chat"})


def shout(text: str) -> str:
    return text.upper()


@pytest.mark.parametrize("where", ["shout", "*"])
def test_the_modes_of_a_tool_or_of_all_are_what_it_is_offered_with(where: str) -> None:
    tools: dict[str, Any] = {"shout": {"source": "python"}, "*": {}}
    tools[where] |= {"run": "edit", "result": "edit"}
    config = AppConfig.model_validate({"conversation": {"tools": tools}})
    offered = offer_now(config, {"python": {"shout": PythonTool(shout)}}).tools["shout"]
    assert (offered.run, offered.result, offered.format) == ("edit", "edit", "ask")


def test_parameters_hold_parameters_at_any_depth() -> None:
    param = Param.model_validate(
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}
    )
    assert param.properties["a"].items == Param(type="string")


def test_instructions_and_sections_make_the_system_texts_in_order() -> None:
    config: AppConfig = validate(
        {
            "assistant": {
                "system_prompt": "P",
                "system_prompt_sections": [
                    {"content": "last", "position": 9},
                    {"content": "a < b", "tag": "x", "title": 'T"'},
                    {"content": "plain", "title": "Heading"},
                ],
                "instructions": [
                    {
                        "title": "I",
                        "items": ["do"],
                        "examples": [{"good": "g", "bad": "b", "reason": "r"}],
                    }
                ],
            }
        }
    )
    assert config.assistant.system() == (
        "P",
        "<x title='T\"'>\n<![CDATA[a < b]]>\n</x>",
        "# Heading\n\nplain",
        '<instruction title="I">\n- do\n\n**Examples**\n\n'
        "Good: g\nBad: b\nReason: r\n</instruction>",
        "last",
    )
