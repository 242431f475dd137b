"""Every way to write a value of the configuration, and the one way in which it is kept."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Case = tuple[str, Any, Any]

TOOL = "conversation.tools.t"


def _cases(path: str, pairs: list[tuple[Any, Any]]) -> list[Case]:
    return [(path, written, kept) for written, kept in pairs]


def _same_cases(path: str, *values: Any) -> list[Case]:
    return [(path, value, value) for value in values]


def _command(program: str, *args: str, shell: bool = False) -> dict[str, Any]:
    return {"program": program, "args": list(args), "shell": shell}


_MODEL = {"provider": "openrouter", "name": "anthropic/claude-x"}
_MODEL_IDS = [
    ("openrouter/anthropic/claude-x", _MODEL),
    (" openrouter / anthropic/claude-x ", _MODEL),
    (_MODEL, _MODEL),
    ("fast", "fast"),
]
_COMMANDS = [
    ("rg -n 'a b'", _command("rg", "-n", "a b")),
    ({"program": "rg"}, _command("rg")),
    ({"program": "rg | wc", "args": ["x"], "shell": True}, _command("rg | wc", "x", shell=True)),
]
_ENABLES = [
    *[(word, {"state": True, "allow_toggle": "any"}) for word in (True, "true", "on")],
    *[(word, {"state": False, "allow_toggle": "any"}) for word in (False, "false", "off")],
    ("always", {"state": True, "allow_toggle": "never"}),
    ("explicit", {"state": False, "allow_toggle": "if_named"}),
    ({"state": False}, {"state": False}),
    ({"allow_toggle": "if_named_or_group"}, {"allow_toggle": "if_named_or_group"}),
    ({}, {}),
]
_LABEL = {"apply_on": {"new": True, "fork": False}, "run": "ask"}

CASES: list[Case] = [
    *_same_cases("inherit", True, False),
    *_cases("extends", [(["a.toml", {"path": "b", "strategy": "after"}],
                        [{"path": "a.toml", "strategy": "before"},
                         {"path": "b", "strategy": "after"}])]),
    *_same_cases("config_load_paths", ["config", "personas"]),
    *_same_cases("template.values", {"a": [1, {"b": None}], "c": "d"}),
    *_cases("assistant.model.id", _MODEL_IDS),
    *_cases("providers.llm.aliases", [({"a": w, "b": "a"}, {"a": k, "b": "a"})
                                     for w, k in _MODEL_IDS]),
    *_cases("assistant.model.parameters.reasoning", [
        ("off", "off"),
        ("auto", "auto"),
        ("high", {"effort": "high", "exclude": False}),
        (4096, {"effort": 4096, "exclude": False}),
        ("4096", {"effort": 4096, "exclude": False}),
        ({"absolute": 1024}, {"effort": 1024, "exclude": False}),
        ({"effort": {"absolute": 1024}}, {"effort": 1024, "exclude": False}),
        ({"effort": "auto", "exclude": True}, {"effort": "auto", "exclude": True}),
        ({"exclude": True}, {"effort": "medium", "exclude": True}),
        ({}, {"effort": "medium", "exclude": False}),
    ]),
    *_cases("assistant.model.parameters.temperature", [(1, 1.0), (0.5, 0.5)]),
    *_same_cases("assistant.model.parameters.keep_alive", "5m", {"any": ["thing"]}),
    *_cases("assistant.system_prompt_sections", [
        (["text"], [{"content": "text", "position": 0}]),
        ([{"content": "c", "tag": "t", "position": -1}],
         [{"content": "c", "tag": "t", "position": -1}]),
    ]),
    *_cases("assistant.instructions", [
        ([{"examples": ["e", {"good": "g", "bad": "b"}]}],
         [{"position": 0, "items": [], "examples": ["e", {"good": "g", "bad": "b"}]}]),
    ]),
    *_cases("conversation.attachments", [
        (["file://src/a.rs"], ["file://src/a.rs"]),
        (["https://host/a?b=c#d"], ["https://host/a?b=c#d"]),
        ([{"type": "file", "path": "a b.md"}], ["file://a%20b.md"]),
        ([{"kind": "cmd", "path": "rg", "params": {"args": ["TODO", "src"], "x": "&"}}],
         ["cmd://rg?args=TODO&args=src&x=%26"]),
    ]),
    *_cases("conversation.labels", [
        ({"a": "text"}, {"a": {"value": "text", **_LABEL}}),
        ({"value": {"value": "text", "run": "deny"}},
         {"value": {"value": "text", **_LABEL, "run": "deny"}}),
        *[({"a-1": {"value": {"cmd": written}, "apply_on": {"fork": True}}},
           {"a-1": {"value": {"cmd": kept}, "apply_on": {"new": True, "fork": True}, "run": "ask"}})
          for written, kept in _COMMANDS],
    ]),
    *_same_cases(f"{TOOL}.source", "builtin", "builtin.x", "local", "local.x", "mcp.s", "mcp.s.t",
           "python", "python.f"),
    *_cases(f"{TOOL}.enable", _ENABLES),
    *_cases("conversation.tools.*.enable", _ENABLES),
    *_cases(f"{TOOL}.command", _COMMANDS),
    *_same_cases(f"{TOOL}.run", "ask", "unattended", "edit", "skip"),
    *_same_cases(f"{TOOL}.result", "ask", "unattended", "edit", "skip"),
    *_same_cases(f"{TOOL}.format", "ask", "unattended"),
    *_cases(f"{TOOL}.style.inline_results", [
        (True, "full"), (False, "off"), ("full", "full"), ("off", "off"), (5, 5), ("5", 5),
        (0, "off"), ({"truncate": {"lines": 10}}, 10),
    ]),
    *_cases(f"{TOOL}.style.parameters", [
        ("json", "json"), ("function_call", "function_call"), ("off", "off"), (False, "off"),
        *_COMMANDS,
    ]),
    *_cases(f"{TOOL}.parameters.p", [
        ({"type": "array", "items": {"type": ["string", "null"]},
          "properties": {"deep": {"enum": [1, None]}}},
         {"type": "array", "required": False, "enum": [],
          "items": {"type": ["string", "null"], "required": False, "enum": [], "properties": {}},
          "properties": {"deep": {"required": False, "enum": [1, None], "properties": {}}}}),
    ]),
    *_cases(f"{TOOL}.questions.q.target", [
        ("user", "user"), ("assistant", "assistant"), ({}, "assistant"),
        ({"name": "n", "model": {"id": "fast"}},
         {"name": "n", "system_prompt_sections": [], "instructions": [],
          "model": {"id": "fast", "parameters": {"stop_words": []}}}),
    ]),
    *_same_cases(f"{TOOL}.questions.q.answer", True, "text", {"a": [1]}),
    *_cases("conversation.tools.u.access.config", [
        ([{"path": "assistant", "write": "insecure_allow"}],
         [{"path": "assistant", "read": False, "write": "insecure_allow", "delete": False,
           "apply": "ask"}]),
    ]),
    *_cases("style.reasoning.display", [
        ("full", "full"), ("hidden", "hidden"), ("static", "static"), (80, 80), ("80", 80),
        ("progress", "static"), ("timer", "static"), ("summary", "static"),
    ]),
    *_cases("prompt.notify", [(True, "on"), (False, "off"), ("on", "on"), ("off", "off")]),
    *_same_cases("providers.llm.openai.dialect", "responses", "chat"),
    *_same_cases("interrupt.streaming.action", "prompt", "continue", "stop", "abort", "reply"),
    *_same_cases("interrupt.tool_call.action", "prompt", "continue", "restart", "respond", "stop"),
]  # fmt: skip

ANNOTATED: list[tuple[str, Any]] = [
    ("assistant.system_prompt", {"value": "x", "strategy": "append", "separator": "paragraph"}),
    ("assistant.system_prompt", {"value": "x"}),
    ("assistant.name", {"value": "x", "strategy": "prepend", "separator": "none"}),
    ("assistant.instructions", {"value": [{"title": "t"}], "strategy": "prepend"}),
    ("assistant.system_prompt_sections", {"value": ["x"], "discard_when_merged": True}),
    ("assistant.model.parameters.stop_words", {"value": [], "strategy": "replace", "dedup": False}),
    ("conversation.attachments", {"value": ["file://x"], "dedup": "inherit"}),
    ("conversation.labels", {"value": {"a": "x"}, "strategy": "keep"}),
    (f"{TOOL}.command", {"args": {"value": ["x"], "strategy": "replace"}}),
    (f"{TOOL}.options", {"value": 1, "strategy": "anything"}),
    (f"{TOOL}.parameters.p.enum", {"value": [1, None], "strategy": "replace"}),
]
"""Values of one layer with merge strategies."""

INCOMPLETE: list[tuple[str, Any]] = [
    ("assistant.model.id", {"name": "x"}),
    ("assistant.model.id", {"provider": "openai"}),
    ("providers.llm.aliases", {"a": {"name": "x"}}),
    ("conversation.labels", {"a": {"run": "deny"}}),
    ("conversation.labels", {"a": None}),
    ("conversation.inquiry.assistant.request", {"max_retries": 1}),
    ("conversation.tools.u.access", {"fs": [{"path": "."}]}),
    ("user", None),
    ("assistant.instructions", None),
    ("assistant.request.max_retries", None),
]
"""Values that are valid in one layer, but not in a whole configuration."""

IGNORED: list[tuple[str, Any]] = [
    ("style.code", {"color": False, "file_link": "osc8"}),
    ("style.markdown.theme", "x"),
    ("editor", "vi"),
    ("plugins.command", {"x": {"run": "deny"}}),
    ("conversation.start_local", True),
    ("conversation.title", {"from_heading": False}),
    ("assistant.request.cache", "10m"),
    ("style.tool_call.progress.show", False),
    (f"{TOOL}.style.results_file_link", "off"),
    ("interrupt.streaming.compose_in_editor", "always"),
]


def set_path(partial: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return `partial` with `value` at `path`."""
    head, _, rest = path.partition(".")
    below = partial.get(head)
    inner = set_path(below if isinstance(below, dict) else {}, rest, value) if rest else value
    return {**partial, head: inner}


def lookup(tree: Any, path: str) -> Any:
    for key in path.split("."):
        tree = tree[key]
    return tree


_free = st.text(max_size=8)
_keys = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)
_texts = st.sampled_from(
    ["user.name", "assistant.name", "assistant.system_prompt", f"{TOOL}.description"]
)
settings = (
    st.sampled_from(CASES).map(lambda case: case[:2])
    | st.tuples(_texts, _free)
    | st.tuples(_keys.map(lambda key: f"conversation.tools.{key}.options"),
                st.dictionaries(_free, st.none() | st.integers() | _free, max_size=2))
    | st.tuples(st.just("assistant.model.parameters.stop_words"), st.lists(_free, max_size=3))
)  # fmt: skip


def _build(parts: list[tuple[str, Any]]) -> dict[str, Any]:
    partial: dict[str, Any] = {}
    for path, value in parts:
        partial = set_path(partial, path, value)
    return partial


plain_partials = st.lists(settings, max_size=8).map(_build)
"""Configurations without merge strategies."""

partials = st.lists(
    settings | st.sampled_from(ANNOTATED) | st.sampled_from(INCOMPLETE) | st.sampled_from(IGNORED),
    max_size=8,
).map(_build)
"""Valid content of one layer."""
