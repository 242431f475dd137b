"""Settings that need the user's consent: in untrusted notebooks and folders, and from tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from jp_nb.config.authority import ALLOWANCES, may_untrusted_record_unset
from jp_nb.config.stripped_settings import strip_untrusted
from tests.kit.settings import Settings, setting, value_at

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
"""An untrusted record may set the second value, not the first one."""
AUTHORITY = [
    "inherit", "id", "extends", "config_load_paths",
    *(f"assistant.{key}" for key in REQUEST),
    "assistant.project_instructions", "assistant.skills",
    "assistant.request.max_tool_calls", "assistant.request.max_total_tokens",
    "assistant.request.max_schema_retries",
    "conversation.toolsets.*.allow_toggle",
    "conversation.compaction.rules", "conversation.compaction.auto.max_tokens",
    "conversation.compaction.auto.max_turns",
    f"{TOOL}.enable.allow_toggle",  # who may switch a tool is the user's decision
    f"{TOOL}.source", f"{TOOL}.toolset", *(f"{TOOL}.command.{key}" for key in COMMAND),
    f"{TOOL}.summary", f"{TOOL}.description", f"{TOOL}.examples",
    f"{TOOL}.cancellation_response",  # is sent as the user's own reason
    f"{TOOL}.parameters", *(f"{TOOL}.parameters.*.{key}" for key in PARAM),
    f"{TOOL}.rules",
    f"{TOOL}.run", f"{TOOL}.covers", f"{TOOL}.format", f"{TOOL}.result", f"{TOOL}.result_max_chars",
    f"{TOOL}.read_only",
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
        "anthropic", "cerebras", "deepseek", "google", "groq", "llamacpp", "mistral", "ollama",
        "openai", "openrouter", "servers.*", "xai") for key in ("api_key_env", "base_url")),
    "providers.llm.anthropic.chain_on_max_tokens", "providers.llm.anthropic.beta_headers",
    "providers.llm.anthropic.strict_tools", "providers.llm.google.append_instructions",
    "providers.llm.openai.base_url_env",
    *(f"providers.llm.{name}.dialect" for name in ("google", "llamacpp", "openai", "openrouter",
                                                    "servers.*", "xai")),
    *(f"providers.llm.{name}.images" for name in (
        "cerebras", "deepseek", "groq", "llamacpp", "mistral", "ollama", "openai", "openrouter",
        "servers.*", "xai")),
    "providers.llm.servers", "providers.llm.servers.*.headers", "providers.llm.servers.*.headers.*",
    *(f"providers.llm.servers.*.profile.{key}" for key in (
        "base", "path", "max_tokens", "stream_options", "tool_choice", "any_tool", "call_ids",
        "structured", "reasoning_field", "think_tags", "documents")),
    "providers.llm.openrouter.app_name", "providers.llm.openrouter.app_referrer",
    "prompt.channel", "prompt.rendered_timeout_s", "prompt.timeout_s", "prompt.notify",
    "record.headless", "record.project_log", "record.project_log_archives",
    "record.rerun", "record.image_max_bytes", "record.images_per_turn",
    "record.journal", "record.reproducible", "prompt.answers",
    "providers.cassette.path", "providers.cassette.mode", "providers.cassette.tools",
    "interpolation.max_chars", "values.image_side", "style.remote_images",
    *(f"style.mcp_startup.{key}" for key in ("show", "delay_secs", "interval_ms")),
    "providers.mcp", "providers.mcp_files",
    *(f"providers.mcp.*.{key}" for key in (
        "type", "command", "arguments", "variables", "env", "env.*", "env_file", "cwd",
        "checksum.algorithm", "checksum.value", "url", "headers", "headers.*", "insecure",
        "optional", "startup_timeout_secs", "call_timeout_secs", "max_response_bytes",
        "repeat_lost_calls", "trust_read_only_hint", "instructions", "inputs", "inputs.*")),
]  # fmt: skip


def test_every_field_is_in_exactly_one_list() -> None:
    """A new field belongs into one of the lists: may the author of a notebook set it?"""
    judged = Counter([*HARMLESS, *BY_VALUE, *AUTHORITY])
    fields = Counter(Settings.list_paths())
    assert not (missing := [*(fields - judged)]), f"list in HARMLESS or AUTHORITY: {missing}"
    assert not (spare := [*(judged - fields)]), f"no field, or listed twice: {spare}"


def expand_paths(paths: Iterable[str], names: Iterable[str]) -> set[tuple[str, ...]]:
    """Return the keys of `paths`, with each of `names` for every `*`."""
    return {
        tuple(name if part == "*" else part for part in path.split("."))
        for path in paths
        for name in names
    }


def is_kept(keys: Iterable[str], value: Any) -> bool:
    """Return True if an untrusted record may set `value` at `keys`."""
    nested = value
    for key in reversed([*keys]):
        nested = {key: nested}
    kept, refused = strip_untrusted(nested, "record")
    assert bool(kept) != bool(refused)
    return bool(kept)


# --- an untrusted record -----------------------------------------------------------------------


def test_untrusted_record_may_not_set_or_unset_a_field_with_authority() -> None:
    more = ["not.a.field", "assistant.model.parameters.provider"]
    for keys in expand_paths([*AUTHORITY, *more], ["*", "x", "a.b", "enable", "style"]):
        for value in (True, 1, "x", ["x"], {"x": "y"}):
            assert not is_kept(keys, value), (keys, value)
    locks = [path for path in BY_VALUE if path.endswith(".state")]
    for keys in expand_paths([*AUTHORITY, *locks], ["t"]):
        assert not any(
            may_untrusted_record_unset(keys[:length]) for length in range(1, len(keys) + 1)
        )


def test_untrusted_record_may_set_harmless_fields_of_any_name() -> None:
    tables = ("conversation.tools", "conversation.toolsets")
    harmless = [path for path in HARMLESS if path not in tables]
    names = ["*", "x", "run_command", "command", "cmd", "a.b"]
    for keys in expand_paths(harmless, names):
        if keys[:3] != ("assistant", "model", "id"):  # half a model may be a local one
            assert is_kept(keys, "x"), keys
    for path, (_, allowed) in BY_VALUE.items():
        for keys in expand_paths([path], names):
            assert is_kept(keys, allowed), keys
    for keys in expand_paths(harmless, ["t"]):
        assert may_untrusted_record_unset(keys), keys


def test_untrusted_record_may_set_only_some_values(subtests: pytest.Subtests) -> None:
    for path, (refused, allowed) in BY_VALUE.items():
        with subtests.test(path=path):
            at = path.replace("*", "run_command")
            assert strip_untrusted(setting(at, allowed), "record") == (
                setting(at, allowed),
                {},
            )
            assert strip_untrusted(setting(at, refused), "record") == ({}, {at: refused})


@pytest.mark.parametrize("word", [True, "true", "on", "always"])
def test_untrusted_record_cannot_switch_a_tool_on(word: Any) -> None:
    enable = "conversation.tools.t.enable"
    assert strip_untrusted(setting(enable, word), "record") == ({}, {enable: word})
    understood, _ = Settings.read_known(setting(enable, word))
    kept, ignored = strip_untrusted(understood, "record")
    assert value_at(kept, f"{enable}.state") is None
    assert f"{enable}.state" in ignored


@pytest.mark.parametrize("word", [False, "false", "off", "explicit"])
def test_untrusted_record_may_switch_a_tool_off_but_not_lock_it(word: Any) -> None:
    enable = "conversation.tools.run_command.enable"
    understood, _ = Settings.read_known(setting(enable, word))
    kept, ignored = strip_untrusted(understood, "record")
    assert value_at(kept, enable) == {"state": False}
    assert list(ignored) == [f"{enable}.allow_toggle"]


def test_refused_values_of_an_untrusted_record_are_removed_and_listed() -> None:
    partial: dict[str, Any] = {
        "user": {"name": "E"},
        "template": {"values": {"command": "x", "cmd": {"command": "y"}}},
        "providers": {"llm": {"openai": {"base_url": "http://evil"}}},
        "conversation": {"tools": {"a.b": {"run": "unattended", "style": {"hidden": False}}}},
        "interrupt": {"streaming": {"action": "continue"}},
    }
    kept, ignored = strip_untrusted(partial, "record")
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


def test_untrusted_record_cannot_choose_a_server_on_this_computer() -> None:
    local: list[Any] = [
        {"provider": "ollama", "name": "m"},
        {"provider": "ollama"},
        "llamacpp/m",
    ]
    named: list[Any] = [{"provider": "openai", "name": "m"}, "fast"]
    for model in local:
        partial = setting("assistant.model.id", model)
        assert strip_untrusted(partial, "record") == ({}, {"assistant.model.id": model})
    for model in named:
        partial = setting("assistant.model.id", model)
        assert strip_untrusted(partial, "record") == (partial, {})


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
    for path in Settings.list_paths():
        with subtests.test(path=path):
            for at in {path.replace("*", name) for name in ("t", "run")}:
                for value in SAMPLES:
                    kept, left_out = strip_untrusted(setting(at, value), "folder")
                    listed = A_FOLDER_MAY.get(path, [])
                    same = (type(value) is type(each) and value == each for each in listed)
                    allowed = listed == EVERYTHING or any(same)
                    assert (kept, bool(left_out)) == (
                        (setting(at, value), False) if allowed else ({}, True)
                    )


def test_each_allowance_names_a_setting_and_a_reason() -> None:
    known = Settings.list_paths()
    for path, allowance in ALLOWANCES.items():
        assert any(each == path or each.startswith(f"{path}.") for each in known), path
        assert allowance.why.endswith(".")


# --- a change that a tool proposes -------------------------------------------------------------


def needs_user(path: str, value: Any) -> bool:
    """Return True if a tool may set `path` only with the user's approval. None unsets it."""
    root = path.split(".")[0]
    rule = jp.ConfigRule(root, write="insecure_allow", delete=True, apply="unattended")
    if value is None:
        found = Settings().propose(None, [path], rules=[rule])
    else:
        found = Settings().propose(setting(path, value), rules=[rule])
    return bool(found["needs_approval"])


def test_change_with_authority_is_the_users_decision(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, JsonValue, bool]] = [
        ("assistant.name", "Bo", False),
        ("assistant.model.parameters.temperature", 1, False),
        ("assistant.model", {"id": "openai/x"}, False),
        ("assistant.name", None, False),
        ("prompt.timeout_s", 5, False),
        ("providers.llm.openai.base_url", "http://host", True),
        ("conversation.tools.t.command", "ls", True),
        ("conversation.tools.t.options.k", 1, True),
        ("conversation.tools.t.run", "ask", False),
        ("conversation.tools.t.run", "unattended", True),
        ("conversation.tools.t.result", None, True),
        ("conversation.tools.t.style.parameters", "json", False),
        ("conversation.tools.t.style.parameters", "cat -n", True),
        ("conversation.tools.t.style.parameters", {"program": "cat"}, True),
        ("conversation.attachments", ["file:a.md", "file:b.md"], False),
        ("conversation.attachments", ["file:a.md", "file:../b.md"], True),
        ("conversation.attachments", ["file:/etc/passwd"], True),
        ("conversation.attachments", {"value": ["file:a"], "strategy": "replace"}, False),
        ("conversation.attachments", None, False),
    ]
    for path, value, asks in rows:
        with subtests.test(path=path, value=value):
            assert needs_user(path, value) is asks


def test_attachment_outside_of_the_workspace_is_recognized_by_its_name() -> None:
    attachments = "conversation.attachments"
    for url in ("file:a.md", "file://notes/a%20b.md", "FILE:a/../b.md"):
        assert not needs_user(attachments, [url]), url
    outside = ("file:../a", "file:a/../../b", "file:/etc/passwd", "file:~/a", "file:C:/a",
               "file:a\\..\\..\\b", "https://host/a", "cmd:ls")  # fmt: skip
    for url in outside:
        assert needs_user(attachments, [url]), url
