"""The configuration tree: its fields, their accepted spellings and stored form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.config.schema import find_node
from jp_nb.config.tree.attachment_urls import parse_attachment_url
from jp_nb.config.tree.ignored_settings import IGNORED_SETTINGS
from tests.config.config_spellings import CASES, lookup, plain_partials, set_path
from tests.kit.settings import Settings, setting, value_at
from tests.kit.texts import write_text
from tests.kit.tools import configured, offer_now

# --- fields ----------------------------------------------------------------------------------

PROGRESS = ("show", "delay_secs", "interval_ms")
IN_ITEMS = {
    "extends": ("path", "strategy"),
    "assistant.system_prompt_sections": ("content", "tag", "title", "position"),
    "assistant.instructions": ("title", "description", "position", "items", "examples",
                               "examples.0.good", "examples.0.bad", "examples.0.reason"),
    "conversation.tools.t.access.fs": ("path", "external", "read", "write", "create", "update",
                                       "delete", "execute"),
    "conversation.tools.t.access.config": ("path", "read", "write", "delete", "apply"),
    "conversation.compaction.rules": ("keep_first", "keep_last", "reasoning", "tool_calls",
                                      "summary", "summary.model.id", "summary.instructions",
                                      "summary.model.parameters.max_tokens", "summary.context"),
}  # fmt: skip
"""Fields of the items of lists. `test_authority` has a list of all other fields."""

OF_TERMINALS = [
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
        "streaming.progress", "tool_call.progress", "tool_call.preparing")),
]  # fmt: skip
"""Settings that only a terminal uses."""


def test_fields_of_items_are_in_the_tree() -> None:
    for path, names in IN_ITEMS.items():
        for name in names:
            assert find_node(f"{path}.0.{name}") is not None, (path, name)
    for path in ("conversation.attachments.0", "assistant.model.parameters.context_management",
                 "conversation.tools.t.parameters.p.items.type",
                 "conversation.tools.t.parameters.p.properties.q.items.enum"):  # fmt: skip
        assert find_node(path) is not None, path


def test_settings_of_terminals_are_ignored_and_no_others() -> None:
    for path in OF_TERMINALS:
        assert find_node(path) is None, path
        assert is_ignored(path), path
    assert not [path for path in Settings.list_paths() if is_ignored(path)]
    matched = {
        pattern for pattern in IGNORED_SETTINGS if any(_matches(pattern, p) for p in OF_TERMINALS)
    }
    assert matched == IGNORED_SETTINGS


def is_ignored(path: str) -> bool:
    """Return True if a file with a wrong value at `path` has no problem."""
    try:
        kept = Settings.read(setting(path, {"no": ["such value"]}))
    except jp.ConfigError:
        return False
    return value_at(kept, path) is None


def _matches(pattern: str, path: str) -> bool:
    parts = pattern.split(".")
    keys = path.split(".")
    return len(keys) >= len(parts) and all(
        part in ("*", key) for part, key in zip(parts, keys, strict=False)
    )


@pytest.mark.parametrize(
    ("path", "stronger", "merged"),
    [
        ("config_load_paths", ["b", "a"], ["a", "b"]),
        ("assistant.model.parameters.stop_words", ["b", "a"], ["a", "b"]),
        ("providers.llm.anthropic.beta_headers", ["b", "a"], ["a", "b"]),
        ("extends", ["b", "a"], ["a"]),
        ("conversation.tools.t.command.args", ["b", "a"], ["a", "b", "a"]),
        ("conversation.tools.t.parameters.p.enum", ["b", "a"], ["a", "b", "a"]),
    ],
)
def test_list_is_merged_by_the_rule_of_its_field(
    path: str, stronger: list[str], merged: list[str]
) -> None:
    layers = [setting(path, ["a"]), setting(path, stronger)]
    assert value_at(Settings(*layers).merged(), path) == merged


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("assistant.system_prompt_sections", ("tag", "title")),
        ("assistant.instructions", ("title",)),
        ("conversation.tools.t.access.fs", ("path",)),
        ("conversation.tools.t.access.config", ("path",)),
    ],
)
def test_item_of_a_list_has_the_name_of_its_field(path: str, keys: tuple[str, ...]) -> None:
    for key in keys:
        before = setting(path, [{key: "one"}, {key: "two"}])
        after = Settings(before).change(({}, (f"{path}[one]",)))
        assert value_at(after, path) == [{key: "two"}]


def test_default_values() -> None:
    kept = Settings().whole()
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
        "max_schema_retries": 1,
    }
    assert lookup(kept, "interrupt.streaming.action") == "prompt"
    assert lookup(kept, "interrupt.tool_call.action") == "prompt"
    assert "dialect" not in lookup(kept, "providers.llm.openai")
    assert kept["extends"] == []


# --- values ----------------------------------------------------------------------------------


def test_every_spelling_has_one_stored_form(subtests: pytest.Subtests) -> None:
    for path, written, kept in CASES:
        with subtests.test(path=path):
            whole = Settings(set_path({}, path, written)).whole()
            assert lookup(whole, path) == kept
            assert lookup(Settings(set_path({}, path, kept)).whole(), path) == kept


@given(plain_partials)
def test_stored_form_is_read_as_the_same_configuration(settings: dict[str, Any]) -> None:
    stored = Settings.read(settings)
    try:
        whole = Settings(settings).whole()
    except jp.ConfigError:
        return  # two settings conflict

    assert Settings(stored).whole() == whole


names = st.from_regex(r"[a-z][a-z0-9+._-]{1,6}", fullmatch=True)
some = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(names, some, st.dictionaries(some, some | st.lists(some, min_size=2, max_size=3)))
def test_attachment_means_the_same_as_a_table_and_as_a_url(
    kind: str, path: str, params: dict[str, str | list[str]]
) -> None:
    table = {"type": kind, "path": path, "params": params}
    attachments = "conversation.attachments"
    (url,) = value_at(Settings(setting(attachments, [table])).whole(), attachments)
    assert value_at(Settings(setting(attachments, [url])).whole(), attachments) == [url]

    parts = parse_attachment_url(url)
    assert (parts.type, parts.path, parts.params) == (kind, path, params)


def test_unset_half_of_enable_stays_unset() -> None:
    path = "conversation.tools.t.enable"
    for enable in ({"state": True}, {"allow_toggle": "never"}, {}):
        assert value_at(Settings(setting(path, enable)).whole(), path) == enable


# --- wiring ----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["shout", "*"])
def test_tool_is_offered_with_its_own_modes_or_the_defaults(where: str) -> None:
    tools: dict[str, Any] = {"shout": {"source": "local", "command": "true"}, "*": {}}
    tools[where] |= {"run": "edit", "result": "edit"}
    offered = offer_now(configured({"conversation": {"tools": tools}})).tools["shout"]
    assert (offered.run, offered.result, offered.format) == ("edit", "edit", "ask")


def test_parameters_are_nested_at_any_depth() -> None:
    path = "conversation.tools.t.parameters.p"
    nested = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}
    stored = value_at(Settings(setting(path, nested)).whole(), path)
    assert stored["properties"]["a"]["items"]["type"] == "string"


def test_instructions_and_sections_become_system_texts_in_order() -> None:
    config = configured(
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
    assert write_text("system_prompt", config.assistant) == (
        "P\n\n"
        "<x title='T\"'>\n<![CDATA[a < b]]>\n</x>\n\n"
        "# Heading\n\nplain\n\n"
        '<instruction title="I">\n- do\n\n**Examples**\n\n'
        "Good: g\nBad: b\nReason: r\n</instruction>\n\n"
        "last"
    )
