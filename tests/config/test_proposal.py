"""Configuration changes that a tool proposes: their form, aliases, paths and grants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.settings import Settings, setting, value_at

MAX_PROPOSAL_CHARS = 250_000
MAX_PROPOSAL_PATHS = 1000
MAX_LISTED_LINES = 20


ALL = ("assistant", "conversation", "style", "providers", "template", "user")
PROVIDERS = (
    "anthropic, cerebras, deepseek, google, groq, llamacpp, mistral, ollama, openai, openrouter, "
    "scripted, xai"
)


def grants(*rules: dict[str, Any]) -> list[jp.ConfigRule]:
    return [jp.ConfigRule(**rule) for rule in rules]


def everything(**more: Any) -> list[jp.ConfigRule]:
    """Return rules to write and unset everything, sensitive paths included."""
    full = {"write": "insecure_allow", "delete": True, **more}
    return grants(*({"path": path, **full} for path in ALL))


@dataclass(frozen=True)
class Proposed:
    """A proposal that the rules allow."""

    paths: tuple[str, ...]
    delta: dict[str, Any]
    unsets: tuple[str, ...]
    needs_approval: bool
    after: dict[str, Any]


@dataclass(frozen=True)
class Refused:
    """The refusal of a proposal."""

    reason: str
    paths: tuple[str, ...]
    detail: str
    summary: str
    lines: tuple[str, ...]


def proposed(
    config: Any,
    unset: Sequence[str] = (),
    *,
    by: list[jp.ConfigRule] | None = None,
    on: dict[str, Any] | None = None,
) -> Proposed:
    rules = everything() if by is None else by
    return Proposed(**Settings(on or {}).propose(config, unset, rules=rules))


def refused(
    config: Any,
    unset: Sequence[str] = (),
    *,
    by: list[jp.ConfigRule] | None = None,
    on: dict[str, Any] | None = None,
) -> Refused:
    rules = everything() if by is None else by
    return Refused(**Settings(on or {}).propose(config, unset, rules=rules))


def model(reference: Any) -> dict[str, Any]:
    return {"assistant": {"model": {"id": reference}}}


FAST: dict[str, Any] = {"providers": {"llm": {"aliases": {"fast": "openai/gpt-x", "f": "fast"}}}}
GPT = {"provider": "openai", "name": "gpt-x"}


# --- structure -------------------------------------------------------------------------------


@pytest.mark.req("R078-49")
def test_empty_configuration_is_no_proposal() -> None:
    configs: list[Any] = [None, {}, {"assistant": {"name": None}}, {"assistant": {}}]
    for config in configs:
        assert Settings().propose(config, rules=everything()) == {}


@pytest.mark.parametrize(
    ("config", "path", "short", "detail", "line"),
    [
        pytest.param(model({"provider": "bogus"}), "assistant.model.id.provider",
         "unknown variant 'bogus'", f"unknown variant 'bogus': expected one of {PROVIDERS}",
         'assistant.model.id.provider = "bogus" (not a valid provider)', id="enum",
         marks=pytest.mark.req("R078-64")),
        pytest.param({"conversation": {"tools": {"x": {"run": "sometimes"}}}},
         "conversation.tools.x.run", "unknown variant 'sometimes'",
         "unknown variant 'sometimes': expected one of ask, unattended, edit, skip",
         'conversation.tools.x.run = "sometimes" (not a valid run)', id="another enum",
         marks=pytest.mark.req("R078-64")),
        pytest.param({"assistant": {"nam": "Bo"}}, "assistant.nam", "unknown field",
         "unknown field: did you mean 'assistant.name'? expected one of: instructions, model, "
         "name, project_instructions, request, skills, system_prompt, system_prompt_sections, "
         "tool_choice",
         'assistant.nam = "Bo" (no such setting)', id="unknown", marks=pytest.mark.req("R078-62")),
        pytest.param({"editor": {"cmd": "vi"}}, "editor", "unknown field", None,
         'editor = {"cmd": "vi"} (no such setting)', id="a setting of terminals",
         marks=pytest.mark.req("R078-62")),
        pytest.param({"assistant": {"model": {"parameters": {"temperature": "hot"}}}},
         "assistant.model.parameters.temperature", "expected a number, found 'hot'",
         "expected a number, found 'hot'",
         "assistant.model.parameters.temperature = \"hot\" (expected a number, found 'hot')",
         id="type", marks=pytest.mark.req("R078-63")),
        pytest.param({"extends": ["x.toml"]}, "extends",
         "only a configuration file can set this", None, None, id="of files"),
        pytest.param({"style": {"remote_images": ["evil.example"]}}, "style.remote_images",
         "only the user sets this", None, None, id="hosts of images"),
        pytest.param(["assistant"], "", "expected `config` to be an object", None, None,
         id="no object"),
    ],
)  # fmt: skip
def test_invalid_configuration_is_refused_with_path_and_reason(
    config: Any, path: str, short: str, detail: str | None, line: str | None
) -> None:
    found = refused(config)
    fields = (path,) if path else ()
    assert (found.reason, found.paths, found.summary) == ("invalid_config", fields, short)
    if detail is not None:
        assert found.detail == detail
    if line is not None:
        assert found.lines == (line,)


def test_all_problems_are_reported_at_once() -> None:
    found = refused({"assistant": {"nam": "Bo", "name": 7}}, ["nothing.here"])
    assert set(found.paths) == {"assistant.nam", "assistant.name", "nothing.here"}
    assert all(path in found.detail for path in found.paths)


@pytest.mark.req("R078-65", "R078-69")
def test_proposal_may_set_half_a_model_and_names_that_do_not_exist() -> None:
    assert proposed(model({"provider": "openai"})).paths == ("assistant.model.id.provider",)
    proposed(model("openai/no-such-model-9"))
    path = 'conversation.attachments["file://no/such/file"]'
    assert proposed(setting("conversation.attachments", ["file://no/such/file"])).paths == (path,)


@pytest.mark.req("R078-53", "R078-44", "R078-50", "R078-51", "R078-52")
def test_proposal_has_the_effect_of_the_same_assignment(
    subtests: pytest.Subtests,
) -> None:
    before: dict[str, Any] = {
        "assistant": {
            "system_prompt": "You help.",
            "model": {
                "id": {"provider": "anthropic", "name": "opus"},
                "parameters": {"temperature": 0.5, "stop_words": ["a"], "top_k": 3},
            },
        },
        "conversation": {
            "attachments": ["file://a"],
            "tools": {"t": {"source": "local", "options": {"k": {"a": 1}}}},
        },
        **FAST,
    }
    parameters = "assistant.model.parameters"
    for config, stored in [
        (model("fast"), model(GPT)),  # an assignment stores the alias, a proposal the model
        *((each, each) for each in (
            model({"name": "other"}),
            setting(parameters, {"stop_words": ["b"], "temperature": 1}),
            setting(f"{parameters}.stop_words", {"value": ["c"], "strategy": "replace"}),
            setting("assistant.system_prompt", {"value": " More.", "strategy": "append"}),
            setting("conversation.attachments", ["file://b"]),
            setting("conversation.tools.t", {"enable": False, "options": {"k": {"b": 2}}}),
            setting("template.values", {"k": [1, {"a": None}]}),
        )),
    ]:  # fmt: skip
        with subtests.test(config=config):
            found = proposed(config, on=before)
            after = Settings(before).change((found.delta, found.unsets))
            assert after == Settings(before).change(Settings.assign(json.dumps(stored), before))
            assert value_at(after, f"{parameters}.top_k") == 3


@pytest.mark.req("R078-54")
def test_null_unsets_nothing() -> None:
    before = {"assistant": {"name": "Ada", "model": {"parameters": {"temperature": 0.5}}}}
    config = {"assistant": {"name": None, "model": {"parameters": {"temperature": None,
                                                                   "top_k": 2}}}}  # fmt: skip
    found = proposed(config, on=before)
    assert found.paths == ("assistant.model.parameters.top_k",)
    assert found.after["assistant"] == {
        "name": "Ada",
        "model": {"parameters": {"temperature": 0.5, "top_k": 2}},
    }


def test_proposal_that_is_too_large_to_be_shown_is_refused() -> None:
    values: dict[str, Any] = {f"k{n}": n for n in range(MAX_PROPOSAL_PATHS)}
    proposed({"template": {"values": values}})
    found = refused({"template": {"values": {**values, "one": "more"}}})
    assert (found.reason, found.paths) == ("invalid_config", ())
    assert "at most 1000 paths" in found.detail
    refused({"assistant": {"system_prompt": "x" * MAX_PROPOSAL_CHARS}})
    refused(None, [f"template.values.k{n}" for n in range(MAX_PROPOSAL_PATHS + 1)])

    many = refused({}, [f"nothing.{n}." + "x" * 200 for n in range(900)])
    assert len(many.paths) == 900
    assert len(many.detail) < 20_000
    assert len(many.lines) == MAX_LISTED_LINES + 1
    refused({}, ['conversation.attachments["' + "x" * MAX_PROPOSAL_CHARS + '"]'])
    refused({"template": {"values": {"x" * 100_001: 1}}})


def test_value_that_no_record_can_store_is_refused() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    wrong: list[Any] = [10**5000, {1: {2}}, deep]
    for value in wrong:
        assert refused(setting("template.values.k", value)).reason == "invalid_config"
    proposed(setting("template.values.k", [[[]]] * 3))


NAME_ONLY = {"path": "assistant.name", "write": True, "delete": True}


@pytest.mark.req("R078-54", "R078-71")
def test_settings_without_effect_need_no_grant_and_are_dropped(subtests: pytest.Subtests) -> None:
    riders: list[Any] = [
        {"assistant": {"tool_choice": None}},
        {"assistant": {"model": {"id": {"provider": None, "name": None}}}},
        {"assistant": {"model": {"id": {}}}},
        {"assistant": {"model": {"parameters": {"reasoning": {}}}}},
        {"assistant": {"request": {"stream_idle_timeout_secs": None}}},
        {"conversation": {"tools": {"new": {}}}},
        {"conversation": {"tools": {"x": {"questions": {"q": {}}, "command": {"program": None}}}}},
        {"conversation": {"labels": {"l": {}}}},
        {"conversation": {"attachments": {"value": [], "strategy": "prepend"}}},
        {"providers": {"llm": {"aliases": {"a": None}}}},
        {"conversation": {"tools": {"x": {"style": {"parameters": {}}}}}},
    ]
    for rider in riders:
        with subtests.test(rider=rider):
            config = {**rider, "assistant": {**rider.get("assistant", {}), "name": "Bo"}}
            found = proposed(config, by=grants(NAME_ONLY))
            assert found.delta == {"assistant": {"name": "Bo"}}
            assert found.paths == ("assistant.name",)
            assert Settings().propose(rider, rules=grants(NAME_ONLY)) == {}


def test_list_with_another_merge_strategy_is_one_path() -> None:
    for more in ({"dedup": True}, {"discard_when_merged": True}, {"strategy": "replace"}):
        attachments = {"value": [], "strategy": "append", **more}
        config = {"assistant": {"name": "Bo"}, "conversation": {"attachments": attachments}}
        assert refused(config, by=grants(NAME_ONLY)).paths == ("conversation.attachments",)


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ("conversation.tools.t.questions.q.target", "model", {"id": "openai/x"}),
        ("conversation.tools.t.questions.new.target", "model", {"id": "openai/x"}),
        ("assistant.model.parameters.reasoning", "exclude", True),
    ],
    ids=["target", "a new question", "reasoning"],
)
def test_grant_for_a_field_does_not_allow_to_replace_a_plain_value_by_a_table(
    path: str, field: str, value: Any
) -> None:
    on = {
        "assistant": {"model": {"parameters": {"reasoning": "off"}}},
        "conversation": {"tools": {"t": {"questions": {"q": {"target": "user"}}}}},
    }
    config = setting(f"{path}.{field}", value)
    below = grants({"path": f"{path}.{field}", "write": True})
    assert refused(config, by=below, on=on).paths == (path,)
    assert path in proposed(config, by=grants({"path": path, "write": True}), on=on).paths


def test_half_a_model_over_an_alias_is_completed_by_the_aliased_model() -> None:
    found = proposed(model({"name": "gpt-y"}), on=Settings(FAST, model("fast")).merged())
    assert found.paths == ("assistant.model.id.name",)
    whole = model({"provider": "openai", "name": "gpt-y"})
    assert found.after["assistant"] == whole["assistant"]
    assert (
        value_at(Settings(found.after).whole(), "assistant.model.id")
        == whole["assistant"]["model"]["id"]
    )

    found = proposed(model({"name": "gpt-y"}), on=model(GPT))
    assert found.delta == model({"name": "gpt-y"})


def test_each_problem_is_shown_to_the_user_in_one_line() -> None:
    forged = "x\n⟳ change: assistant.name — applied by you (form)\u2028\x1b[2J"
    found = refused({forged: 1, "assistant": {forged: "a\nb"}}, [f"assistant.{forged}"])
    assert len(found.lines) == 3
    assert not any(len(line.splitlines()) > 1 or "\x1b" in line for line in found.lines)
    denied = refused({"template": {"values": {forged: "a"}}}, by=grants())
    assert [len(line.splitlines()) for line in denied.lines] == [1]


def test_invisible_characters_of_a_refused_value_are_shown_as_escapes() -> None:
    [line] = refused({"assistant": {"name": "del\u200bete \u202egnp"}}, by=grants()).lines
    assert line == r'assistant.name = "del\u200bete \u202egnp" (not granted)'


def test_spellings_of_a_path_are_unset_once() -> None:
    found = proposed(None, ['assistant["name"]', "assistant.name"])
    assert found.unsets == found.paths == ("assistant.name",)


# --- aliases ---------------------------------------------------------------------------------


@pytest.mark.req("R078-43", "R078-58", "R078-59")
def test_every_spelling_of_a_model_sets_provider_and_name() -> None:
    for reference in ("fast", "f", "openai/gpt-x", GPT):
        found = proposed(model(reference), on=FAST)
        assert found.delta == model(GPT)
        assert found.paths == ("assistant.model.id.provider", "assistant.model.id.name")


def test_proposal_may_define_and_use_an_alias() -> None:
    both: Any = {**model("new"), "providers": {"llm": {"aliases": {"new": "openai/gpt-x"}}}}
    assert proposed(both).delta["assistant"] == model(GPT)["assistant"]


@pytest.mark.req("R078-60")
def test_alias_also_needs_a_grant_for_the_provider() -> None:
    name_only = grants({"path": "assistant.model.id.name", "write": True})
    found = refused(model("fast"), by=name_only, on=FAST)
    assert found.reason == "unauthorized_paths"
    assert found.paths == ("assistant.model.id.provider",)  # D38
    assert proposed(model({"name": "gpt-y"}), by=name_only).paths == ("assistant.model.id.name",)


@pytest.mark.req("R078-61")
def test_unknown_alias_is_named_in_the_refusal() -> None:
    found = refused(model("fastt"), on=FAST)
    assert (found.reason, found.paths) == ("invalid_config", ("assistant.model.id",))
    expected = "unknown model alias 'fastt': expected `provider/name` or an alias"
    assert found.detail == expected
    reader = grants({"path": "assistant.model", "write": True}, {"path": "providers", "read": True})
    assert refused(model("x"), by=reader, on=FAST).detail.endswith("alias (f, fast)")
    assert found.summary == "unknown model alias 'fastt'"


def test_alias_is_resolved_in_every_setting_of_a_model() -> None:
    config = {"conversation": {"inquiry": {"assistant": {"model": {"id": "nope"}}}}}
    assert refused(config).paths == ("conversation.inquiry.assistant.model.id",)


@pytest.mark.req("R078-59")
def test_shorthand_needs_grants_for_all_that_it_sets() -> None:
    config = {"conversation": {"tools": {"x": {"enable": "always"}}}}
    state_only = grants({"path": "conversation.tools.x.enable.state", "write": True})
    found = refused(config, by=state_only)
    assert found.paths == ("conversation.tools.x.enable.allow_toggle",)
    assert set(proposed(config).paths) == {
        "conversation.tools.x.enable.state",
        "conversation.tools.x.enable.allow_toggle",
    }


# --- leaves ----------------------------------------------------------------------------------


@pytest.mark.req("R078-70")
def test_example_of_the_design_has_three_paths() -> None:
    config = {
        "assistant": {
            "model": {
                "id": {"provider": "anthropic", "name": "sonnet"},
                "parameters": {"temperature": 1.0},
            }
        }
    }
    assert proposed(config).paths == (
        "assistant.model.id.provider",
        "assistant.model.id.name",
        "assistant.model.parameters.temperature",
    )


def test_changed_paths_of_each_kind_of_value(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, list[str]]] = [
        ({"conversation": {"attachments": ["file://a", "file://b"]}},
         ['conversation.attachments["file://a"]', 'conversation.attachments["file://b"]']),
        ({"conversation": {"attachments": {"value": ["file://a"], "strategy": "replace"}}},
         ["conversation.attachments"]),
        ({"conversation": {"attachments": {"value": [], "strategy": "replace"}}},
         ["conversation.attachments"]),
        ({"conversation": {"attachments": []}}, []),
        ({"assistant": {"instructions": [{"title": "Tone", "items": ["Be brief."]}]}},
         ['assistant.instructions["Tone"]']),
        ({"conversation": {"tools": {"x": {"command": {"program": "a", "args": ["b", "b"]}}}}},
         ["conversation.tools.x.command.program", "conversation.tools.x.command.args"]),
        ({"conversation": {"tools": {"x": {"options": {"k": {"deep": {"er": 1}}}}}}},
         ["conversation.tools.x.options.k"]),
        ({"conversation": {"tools": {"a.b": {"run": "ask"}}}}, ['conversation.tools["a.b"].run']),
        ({"conversation": {"labels": {"a": "1", "b": "2"}}},
         ["conversation.labels.a", "conversation.labels.b"]),
        ({"conversation": {"labels": {"value": {"a": "1"}, "strategy": "merge"}}},
         ["conversation.labels.a"]),
        ({"conversation": {"labels": {"value": {"a": "1"}, "strategy": "replace"}}},
         ["conversation.labels"]),
        ({"assistant": {"system_prompt": {"value": "x", "strategy": "append"}}},
         ["assistant.system_prompt"]),
        ({"assistant": {"model": {"parameters": {"reasoning": "off", "own": [1]}}}},
         ["assistant.model.parameters.reasoning", "assistant.model.parameters.own"]),
    ]  # fmt: skip
    for config, paths in rows:
        with subtests.test(config=config):
            assert Settings.list_changed(config) == paths


# --- unset -----------------------------------------------------------------------------------


@pytest.mark.req("R078-45")
def test_optional_values_lists_and_items_can_be_unset(subtests: pytest.Subtests) -> None:
    for path, stored in [
        ("assistant.name", "assistant.name"),
        ("assistant.model.parameters.temperature", "assistant.model.parameters.temperature"),
        ('conversation.attachments["file://a"]', 'conversation.attachments["file://a"]'),
        ("conversation.attachments[file://a]", 'conversation.attachments["file://a"]'),
        ("conversation.attachments", "conversation.attachments"),
        ("conversation.tools.x.options.k", "conversation.tools.x.options.k"),
        ("conversation.tools.x.enable", "conversation.tools.x.enable"),
        ("conversation.tools.x.questions.q.answer", "conversation.tools.x.questions.q.answer"),
        ("providers.llm.aliases.fast", "providers.llm.aliases.fast"),
    ]:
        with subtests.test(path=path):
            assert proposed(None, [path]).unsets == (stored,)


@pytest.mark.req("R078-66", "R078-67")
def test_other_paths_cannot_be_unset(subtests: pytest.Subtests) -> None:
    for short, paths in {
        "not a path": ["a..b"],
        "unknown field": ["assistant.nam", "nothing"],
        "cannot be unset": [
            "assistant", "assistant.model", "assistant.model.id", "conversation.tools",
            "conversation.tools.x", "conversation.tools.x.access", "style.tool_call.show",
        ],
        "an item of a list is named by its value": ["conversation.attachments.0"],
        "an item of a list can only be unset as a whole": ['assistant.instructions["Tone"].title'],
        "a free-form value can only be unset as a whole": ["conversation.tools.x.options.k.deeper"],
        "only a configuration file can set this": ["inherit"],
    }.items():  # fmt: skip
        for path in paths:
            with subtests.test(path=path):
                found = refused(None, [path])
                assert (found.reason, found.paths) == ("invalid_config", (path,))
                assert found.summary == short
                assert found.lines[0].startswith(f"{path}: (unset) (")


@pytest.mark.req("R078-55", "R078-68")
def test_unset_removes_a_value_and_an_item_and_ignores_a_missing_one() -> None:
    before = {
        "assistant": {"name": "Ada"},
        "conversation": {"attachments": ["file://a", "file://b"]},
    }
    found = proposed(None, ["assistant.name", 'conversation.attachments["file://a"]'], on=before)
    after = {"assistant": {}, "conversation": {"attachments": ["file://b"]}}
    assert found.after == after
    assert Settings(after).change((found.delta, found.unsets)) == after


# --- grants ----------------------------------------------------------------------------------

MODEL_ONLY = {"path": "assistant.model", "write": True}


@pytest.mark.req("R078-71", "R078-72")
def test_rule_for_a_table_covers_every_field() -> None:
    config = {"assistant": {"model": {"id": "openai/x", "parameters": {"temperature": 1}}}}
    assert len(proposed(config, by=grants(MODEL_ONLY)).paths) == 3


@pytest.mark.req("R078-74", "R078-71")
def test_one_path_without_a_grant_refuses_the_whole_proposal() -> None:
    config = {"assistant": {"name": "Bo", "model": {"id": "openai/x"}, "tool_choice": "none"}}
    found = refused(config, by=grants(MODEL_ONLY))
    assert found.reason == "unauthorized_paths"
    assert found.paths == ("assistant.name", "assistant.tool_choice")  # D29: those to blame
    assert found.lines == (
        'assistant.name = "Bo" (not granted)',
        'assistant.tool_choice = "none" (not granted)',
    )
    assert found.summary == "not permitted"


@pytest.mark.req("R078-9", "R078-73")
def test_grant_to_write_does_not_allow_unset() -> None:
    found = refused(None, ["assistant.model.parameters.temperature"], by=grants(MODEL_ONLY))
    assert found.reason == "unauthorized_paths"
    assert found.paths == ("assistant.model.parameters.temperature",)


@pytest.mark.req("R078-10")
def test_grant_to_delete_does_not_allow_writing() -> None:
    by = grants({"path": "assistant.name", "delete": True})
    assert proposed(None, ["assistant.name"], by=by).paths == ("assistant.name",)
    assert refused({"assistant": {"name": "Bo"}}, by=by).reason == "unauthorized_paths"


@pytest.mark.req("R078-7")
def test_without_rules_every_proposal_is_refused() -> None:
    assert refused({"assistant": {"name": "Bo"}}, by=grants()).reason == "unauthorized_paths"
    assert refused(None, ["assistant.name"], by=grants()).reason == "unauthorized_paths"


def test_replaced_list_needs_grants_for_all_its_items() -> None:
    by = grants(
        {"path": "conversation.attachments", "write": True, "delete": True},
        {"path": 'conversation.attachments["file://keep"]'},
    )
    added = {"conversation": {"attachments": ["file://new"]}}
    assert proposed(added, by=by).paths == ('conversation.attachments["file://new"]',)
    whole = {"conversation": {"attachments": {"value": ["file://new"], "strategy": "replace"}}}
    assert refused(whole, by=by).paths == ("conversation.attachments",)
    assert refused(None, ["conversation.attachments"], by=by).reason == "unauthorized_paths"


def test_access_rules_need_the_grant_insecure_allow() -> None:
    config = setting("conversation.tools.x.access.config", [{"path": "style", "write": True}])
    for path in ("conversation.tools.x.access.config", "conversation.tools.x"):
        found = refused(config, by=grants({"path": path, "write": True}))
        assert found.reason == "unauthorized_paths"
        proposed(config, by=grants({"path": path, "write": "insecure_allow"}))


@pytest.mark.req("R078-11")
def test_apply_mode_governs_set_and_unset() -> None:
    for mode, asks in (("ask", True), ("unattended", False)):
        by = everything(apply=mode)
        assert proposed({"assistant": {"name": "Bo"}}, by=by).needs_approval is asks
        assert proposed(None, ["assistant.name"], by=by).needs_approval is asks


@pytest.mark.req("R078-75", "R078-81")
def test_one_path_that_asks_makes_the_whole_proposal_ask() -> None:
    by = grants(
        {"path": "assistant.name", "write": True, "apply": "unattended"},
        {"path": "assistant.model", "write": True},
    )
    assert not proposed({"assistant": {"name": "Bo"}}, by=by).needs_approval
    assert proposed(
        {"assistant": {"name": "Bo", "model": {"id": "openai/x"}}}, by=by
    ).needs_approval


# --- secrets ---------------------------------------------------------------------------------


def test_refusal_shows_no_secret() -> None:
    config = {"conversation": {"tools": {"x": {"options": {"api_key": "sk-1234567890abcdef"}}}}}
    found = refused(config, by=grants())
    assert "sk-1234567890abcdef" not in " ".join((found.detail, *found.lines))
