"""What a tool may propose: structure, aliases, leaves, grants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from jp_nb.config.assignments import parse_assignment
from jp_nb.config.grants import Grants
from jp_nb.config.partial import Change, Partial, apply, changed_leaves, merge, strip_strategies
from jp_nb.config.paths import format_path
from jp_nb.config.proposal import (
    MAX_CHARS,
    MAX_PATHS,
    MAX_TOLD,
    ConfigSnapshot,
    Proposal,
    Refusal,
    complete_model_ids,
    review,
)
from jp_nb.config.tree.access_config import ConfigRule
from jp_nb.config.tree.provider_table import AVAILABLE
from jp_nb.config.validation import validate

ALL = ("assistant", "conversation", "style", "providers", "template", "user")
PROVIDERS = ", ".join(AVAILABLE)


def basis(**partial: Any) -> ConfigSnapshot:
    return ConfigSnapshot(partial, {}, validate(partial))


def grants(*rules: dict[str, Any]) -> Grants:
    return Grants([ConfigRule(**rule) for rule in rules])


def everything(**more: Any) -> Grants:
    """Write and unset anywhere, even what is sensitive."""
    full = {"write": "insecure_allow", "delete": True, **more}
    return grants(*({"path": path, **full} for path in ALL))


def proposed(
    config: Any,
    unset: Sequence[str] = (),
    *,
    by: Grants | None = None,
    on: ConfigSnapshot | None = None,
) -> Proposal:
    found = review(config, unset, by or everything(), on or basis())
    assert isinstance(found, Proposal), found
    return found


def refused(
    config: Any,
    unset: Sequence[str] = (),
    *,
    by: Grants | None = None,
    on: ConfigSnapshot | None = None,
) -> Refusal:
    found = review(config, unset, by or everything(), on or basis())
    assert isinstance(found, Refusal), found
    return found


def model(reference: Any) -> Partial:
    return {"assistant": {"model": {"id": reference}}}


FAST: dict[str, Any] = {"providers": {"llm": {"aliases": {"fast": "openai/gpt-x", "f": "fast"}}}}
GPT = {"provider": "openai", "name": "gpt-x"}


# --- structure -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "unset"),
    [(None, ()), ({}, ()), ({"assistant": {"name": None}}, ()), ({"assistant": {}}, ())],
    ids=["null", "empty", "a null leaf", "an empty table"],
)
@pytest.mark.req("R078-49")
def test_nothing_proposed_is_no_proposal(config: Any, unset: Sequence[str]) -> None:
    assert review(config, unset, everything(), basis()) is None


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
         "name, request, system_prompt, system_prompt_sections, tool_choice",
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
         "only a configuration file says this, about itself", None, None, id="of files"),
        pytest.param({"style": {"remote_images": ["evil.example"]}}, "style.remote_images",
         "only the user sets this", None, None, id="hosts of images"),
        pytest.param(["assistant"], "", "expected `config` to be an object", None, None,
         id="no object"),
    ],
)  # fmt: skip
def test_what_is_no_configuration_is_refused_with_path_and_reason(
    config: Any, path: str, short: str, detail: str | None, line: str | None
) -> None:
    found = refused(config)
    fields = (path,) if path else ()
    assert (found.reason, found.fields, found.short) == ("invalid_config", fields, short)
    if detail is not None:
        assert found.detail == detail
    if line is not None:
        assert found.lines == (line,)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    found = refused({"assistant": {"nam": "Bo", "name": 7}}, ["nothing.here"])
    assert set(found.fields) == {"assistant.nam", "assistant.name", "nothing.here"}
    assert all(path in found.detail for path in found.fields)


@pytest.mark.req("R078-65")
def test_what_a_whole_would_need_is_not_missed() -> None:
    assert proposed(model({"provider": "openai"})).paths == ("assistant.model.id.provider",)


@pytest.mark.req("R078-69")
def test_whether_a_model_or_a_file_exists_is_not_asked() -> None:
    found = proposed(
        {
            "assistant": {"model": {"id": "openai/no-such-model-9"}},
            "conversation": {"attachments": ["file://no/such/file"]},
        }
    )
    assert 'conversation.attachments["file://no/such/file"]' in found.paths


@pytest.mark.req("R078-53", "R078-44", "R078-50", "R078-51", "R078-52")
def test_a_proposal_does_what_the_same_value_does_on_the_command_line(
    subtests: pytest.Subtests,
) -> None:
    for config in [
        model("fast"),
        model({"name": "other"}),
        {"assistant": {"model": {"parameters": {"stop_words": ["b"], "temperature": 1}}}},
        {"assistant": {"model": {"parameters": {"stop_words": {"value": ["c"],
         "strategy": "replace"}}}}},
        {"assistant": {"system_prompt": {"value": " More.", "strategy": "append"}}},
        {"conversation": {"attachments": ["file://b"]}},
        {"conversation": {"tools": {"t": {"enable": False, "options": {"k": {"b": 2}}}}}},
        {"template": {"values": {"k": [1, {"a": None}]}}},
    ]:  # fmt: skip
        with subtests.test(config=config):
            before: Partial = {
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
            change = proposed(config, on=ConfigSnapshot(before, {}, validate(before))).change
            given = parse_assignment(json.dumps(config), before)
            mine, theirs = (
                strip_strategies(apply(before, change)),
                strip_strategies(apply(before, given)),
            )
            if config == model("fast"):  # the command line resolves it when it stores it
                theirs["assistant"]["model"]["id"] = GPT  # type: ignore[index,call-overload,assignment]
            assert mine == theirs
            parameters = mine["assistant"]["model"]["parameters"]  # type: ignore[index,call-overload]
            assert parameters["top_k"] == 3  # type: ignore[index,call-overload]


@pytest.mark.req("R078-54")
def test_null_takes_nothing_away() -> None:
    before = basis(assistant={"name": "Ada", "model": {"parameters": {"temperature": 0.5}}})
    config = {"assistant": {"name": None, "model": {"parameters": {"temperature": None,
                                                                   "top_k": 2}}}}  # fmt: skip
    found = proposed(config, on=before)
    assert found.paths == ("assistant.model.parameters.top_k",)
    after = strip_strategies(apply(before.partial, found.change))
    assert after["assistant"] == {
        "name": "Ada",
        "model": {"parameters": {"temperature": 0.5, "top_k": 2}},
    }


def test_what_is_too_large_to_be_shown_is_refused() -> None:
    values: dict[str, Any] = {f"k{n}": n for n in range(MAX_PATHS)}
    proposed({"template": {"values": values}})
    found = refused({"template": {"values": {**values, "one": "more"}}})
    assert (found.reason, found.fields) == ("invalid_config", ())
    assert "at most 1000 paths" in found.detail
    refused({"assistant": {"system_prompt": "x" * MAX_CHARS}})
    refused(None, [f"template.values.k{n}" for n in range(MAX_PATHS + 1)])

    many = refused({}, [f"nothing.{n}." + "x" * 200 for n in range(900)])
    assert len(many.fields) == 900
    assert len(many.detail) < 20_000
    assert len(many.lines) == MAX_TOLD + 1
    refused({}, ['conversation.attachments["' + "x" * MAX_CHARS + '"]'])
    refused({"template": {"values": {"x" * 100_001: 1}}})


@pytest.mark.parametrize("value", [10**5000, {1: {2}}, [[[]]] * 3], ids=["int", "no JSON", "fine"])
def test_what_no_record_can_keep_is_refused(value: Any) -> None:
    found = review({"template": {"values": {"k": value}}}, (), everything(), basis())
    assert isinstance(found, Proposal) is isinstance(value, list)
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert refused({"template": {"values": {"k": deep}}}).reason == "invalid_config"


NAME_ONLY = {"path": "assistant.name", "write": True, "delete": True}


@pytest.mark.req("R078-54", "R078-71")
def test_what_touches_nothing_does_not_ride_along(subtests: pytest.Subtests) -> None:
    for rider in [
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
    ]:
        with subtests.test(rider=rider):
            config = {**rider, "assistant": {**rider.get("assistant", {}), "name": "Bo"}}
            found = proposed(config, by=grants(NAME_ONLY))
            assert found.change.delta == {"assistant": {"name": "Bo"}}
            assert found.paths == ("assistant.name",)
            assert review(rider, (), grants(NAME_ONLY), basis()) is None


@pytest.mark.parametrize(
    "wrapper",
    [
        {"value": [], "strategy": "append", "dedup": True},
        {"value": [], "strategy": "append", "discard_when_merged": True},
        {"value": [], "strategy": "replace"},
    ],
    ids=str,
)
def test_how_a_list_meets_what_comes_is_its_whole(wrapper: Any) -> None:
    config = {"assistant": {"name": "Bo"}, "conversation": {"attachments": wrapper}}
    assert refused(config, by=grants(NAME_ONLY)).fields == ("conversation.attachments",)


@pytest.mark.parametrize(
    ("rule", "config", "path"),
    [
        ("conversation.tools.t.questions.q.target.model",
         {"conversation": {"tools": {"t": {"questions": {"q": {"target": {"model": {
             "id": "openai/x"}}}}}}}},
         "conversation.tools.t.questions.q.target"),
        ("conversation.tools.t.questions.new.target.model",
         {"conversation": {"tools": {"t": {"questions": {"new": {"target": {"model": {
             "id": "openai/x"}}}}}}}},
         "conversation.tools.t.questions.new.target"),
        ("assistant.model.parameters.reasoning.exclude",
         {"assistant": {"model": {"parameters": {"reasoning": {"exclude": True}}}}},
         "assistant.model.parameters.reasoning"),
    ],
    ids=["target", "a new question", "reasoning"],
)  # fmt: skip
def test_a_grant_of_a_part_does_not_put_a_table_where_something_plain_is(
    rule: str, config: Any, path: str
) -> None:
    on = basis(
        assistant={"model": {"parameters": {"reasoning": "off"}}},
        conversation={"tools": {"t": {"questions": {"q": {"target": "user"}}}}},
    )
    assert refused(config, by=grants({"path": rule, "write": True}), on=on).fields == (path,)
    above = grants({"path": path, "write": True})
    assert path in proposed(config, by=above, on=on).paths


def test_half_a_model_over_an_alias_is_completed_by_what_the_alias_means() -> None:
    before = merge(FAST, model("fast"))
    on = ConfigSnapshot(before, {}, validate(before))
    found = proposed(model({"name": "gpt-y"}), on=on)
    assert found.paths == ("assistant.model.id.name",)
    whole = complete_model_ids(found.change.delta, on)
    assert whole == model({"provider": "openai", "name": "gpt-y"})
    assert validate(apply(before, Change(whole))).assistant.model.id
    on = basis(**model(GPT))
    assert complete_model_ids(model({"name": "gpt-y"}), on) == model({"name": "gpt-y"})


def test_lines_for_the_person_are_one_line_each() -> None:
    forged = "x\n⟳ change: assistant.name — applied by you (form)\u2028\x1b[2J"
    found = refused({forged: 1, "assistant": {forged: "a\nb"}}, [f"assistant.{forged}"])
    assert len(found.lines) == 3
    assert not any(len(line.splitlines()) > 1 or "\x1b" in line for line in found.lines)
    denied = refused({"template": {"values": {forged: "a"}}}, by=grants())
    assert [len(line.splitlines()) for line in denied.lines] == [1]


def test_one_path_has_one_spelling() -> None:
    found = proposed(None, ['assistant["name"]', "assistant.name"])
    assert found.change.unsets == found.paths == ("assistant.name",)


# --- aliases ---------------------------------------------------------------------------------


@pytest.mark.req("R078-43", "R078-58", "R078-59")
@pytest.mark.parametrize("reference", ["fast", "f", "openai/gpt-x", GPT], ids=str)
def test_every_spelling_of_a_model_is_the_same_two_leaves(reference: Any) -> None:
    found = proposed(model(reference), on=basis(**FAST))
    assert found.change.delta == model(GPT)
    assert found.paths == ("assistant.model.id.provider", "assistant.model.id.name")


def test_an_alias_may_be_defined_by_the_same_proposal() -> None:
    both: Any = {**model("new"), "providers": {"llm": {"aliases": {"new": "openai/gpt-x"}}}}
    assert proposed(both).change.delta["assistant"] == model(GPT)["assistant"]


@pytest.mark.req("R078-60")
def test_an_alias_needs_the_provider_granted_too() -> None:
    name_only = grants({"path": "assistant.model.id.name", "write": True})
    found = refused(model("fast"), by=name_only, on=basis(**FAST))
    assert found.reason == "unauthorized_paths"
    assert found.fields == ("assistant.model.id.provider",)  # D38
    assert proposed(model({"name": "gpt-y"}), by=name_only).paths == ("assistant.model.id.name",)


@pytest.mark.req("R078-61")
def test_an_unknown_alias_is_refused_by_name() -> None:
    found = refused(model("fastt"), on=basis(**FAST))
    assert (found.reason, found.fields) == ("invalid_config", ("assistant.model.id",))
    expected = "unknown model alias 'fastt': expected `provider/name` or an alias"
    assert found.detail == expected
    reader = grants({"path": "assistant.model", "write": True}, {"path": "providers", "read": True})
    assert refused(model("x"), by=reader, on=basis(**FAST)).detail.endswith("alias (f, fast)")
    assert found.short == "unknown model alias 'fastt'"


def test_an_alias_is_looked_up_wherever_a_model_stands() -> None:
    config = {"conversation": {"inquiry": {"assistant": {"model": {"id": "nope"}}}}}
    assert refused(config).fields == ("conversation.inquiry.assistant.model.id",)


@pytest.mark.req("R078-59")
def test_short_forms_are_judged_by_what_they_mean() -> None:
    config = {"conversation": {"tools": {"x": {"enable": "always"}}}}
    state_only = grants({"path": "conversation.tools.x.enable.state", "write": True})
    found = refused(config, by=state_only)
    assert found.fields == ("conversation.tools.x.enable.allow_toggle",)
    assert set(proposed(config).paths) == {
        "conversation.tools.x.enable.state",
        "conversation.tools.x.enable.allow_toggle",
    }


# --- leaves ----------------------------------------------------------------------------------


@pytest.mark.req("R078-70")
def test_the_example_of_the_design_has_exactly_three_leaves() -> None:
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


def test_how_fine_leaves_are(subtests: pytest.Subtests) -> None:
    for config, paths in [
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
        ({"conversation": {"labels": {"value": {"a": "1"}, "strategy": "replace"}}},
         ["conversation.labels"]),
        ({"assistant": {"system_prompt": {"value": "x", "strategy": "append"}}},
         ["assistant.system_prompt"]),
        ({"assistant": {"model": {"parameters": {"reasoning": "off", "own": [1]}}}},
         ["assistant.model.parameters.reasoning", "assistant.model.parameters.own"]),
    ]:  # fmt: skip
        with subtests.test(config=config):
            assert [format_path(keys) for keys, _ in changed_leaves(config)] == paths


# --- what is unset ---------------------------------------------------------------------------


@pytest.mark.req("R078-45")
def test_what_can_be_unset(subtests: pytest.Subtests) -> None:
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
            assert proposed(None, [path]).change.unsets == (stored,)


@pytest.mark.parametrize(
    ("path", "short"),
    [
        pytest.param("a..b", "not a path", marks=pytest.mark.req("R078-66")),
        pytest.param("assistant.nam", "unknown field", marks=pytest.mark.req("R078-66")),
        pytest.param("nothing", "unknown field", marks=pytest.mark.req("R078-66")),
        pytest.param("assistant", "cannot be unset", marks=pytest.mark.req("R078-67")),
        pytest.param("assistant.model", "cannot be unset", marks=pytest.mark.req("R078-67")),
        pytest.param("assistant.model.id", "cannot be unset", marks=pytest.mark.req("R078-67")),
        pytest.param("conversation.tools", "cannot be unset", marks=pytest.mark.req("R078-67")),
        pytest.param("conversation.tools.x", "cannot be unset", marks=pytest.mark.req("R078-67")),
        pytest.param("conversation.tools.x.access", "cannot be unset",
         marks=pytest.mark.req("R078-67")),
        pytest.param("style.tool_call.show", "cannot be unset", marks=pytest.mark.req("R078-67")),
        ("conversation.attachments.0", "an item of a list is named by what it is"),
        ('assistant.instructions["Tone"].title', "an item of a list is unset as a whole"),
        ("conversation.tools.x.options.k.deeper", "a free-form value is unset as a whole"),
        ("inherit", "only a configuration file says this"),
    ],
)  # fmt: skip
def test_what_cannot_be_unset(path: str, short: str) -> None:
    found = refused(None, [path])
    assert (found.reason, found.fields, found.short) == ("invalid_config", (path,), short)
    assert found.lines[0].startswith(f"{path}: (unset) (")


@pytest.mark.req("R078-68")
def test_an_item_that_is_not_there_may_be_unset_again_and_again() -> None:
    before = basis(conversation={"attachments": ["file://a"]})
    found = proposed(None, ['conversation.attachments["file://b"]'], on=before)
    after = apply(before.partial, found.change)
    assert strip_strategies(after) == strip_strategies(apply(after, found.change)) == before.partial


@pytest.mark.req("R078-55")
def test_unset_takes_away_a_value_and_an_item() -> None:
    before = basis(
        assistant={"name": "Ada"}, conversation={"attachments": ["file://a", "file://b"]}
    )
    found = proposed(None, ["assistant.name", 'conversation.attachments["file://a"]'], on=before)
    after = strip_strategies(apply(before.partial, found.change))
    assert after == {"assistant": {}, "conversation": {"attachments": ["file://b"]}}


# --- grants ----------------------------------------------------------------------------------

MODEL_ONLY = {"path": "assistant.model", "write": True}


@pytest.mark.req("R078-71", "R078-72")
def test_a_rule_above_covers_every_leaf_below() -> None:
    config = {"assistant": {"model": {"id": "openai/x", "parameters": {"temperature": 1}}}}
    assert len(proposed(config, by=grants(MODEL_ONLY)).paths) == 3


@pytest.mark.req("R078-74", "R078-71")
def test_one_leaf_that_is_not_covered_refuses_the_whole() -> None:
    config = {"assistant": {"name": "Bo", "model": {"id": "openai/x"}, "tool_choice": "none"}}
    found = refused(config, by=grants(MODEL_ONLY))
    assert found.reason == "unauthorized_paths"
    assert found.fields == ("assistant.name", "assistant.tool_choice")  # D29: those to blame
    assert found.lines == (
        'assistant.name = "Bo" (not granted)',
        'assistant.tool_choice = "none" (not granted)',
    )
    assert found.short == "not permitted"


@pytest.mark.req("R078-9", "R078-73")
def test_write_does_not_unset() -> None:
    found = refused(None, ["assistant.model.parameters.temperature"], by=grants(MODEL_ONLY))
    assert found.reason == "unauthorized_paths"
    assert found.fields == ("assistant.model.parameters.temperature",)


@pytest.mark.req("R078-10")
def test_delete_does_not_write() -> None:
    by = grants({"path": "assistant.name", "delete": True})
    assert proposed(None, ["assistant.name"], by=by).paths == ("assistant.name",)
    assert refused({"assistant": {"name": "Bo"}}, by=by).reason == "unauthorized_paths"


@pytest.mark.req("R078-7")
def test_without_rules_nothing_may_change() -> None:
    assert refused({"assistant": {"name": "Bo"}}, by=grants()).reason == "unauthorized_paths"
    assert refused(None, ["assistant.name"], by=grants()).reason == "unauthorized_paths"


def test_what_is_replaced_as_a_whole_does_not_step_over_a_denial_below() -> None:
    by = grants(
        {"path": "conversation.attachments", "write": True, "delete": True},
        {"path": 'conversation.attachments["file://keep"]'},
    )
    added = {"conversation": {"attachments": ["file://new"]}}
    assert proposed(added, by=by).paths == ('conversation.attachments["file://new"]',)
    whole = {"conversation": {"attachments": {"value": ["file://new"], "strategy": "replace"}}}
    assert refused(whole, by=by).fields == ("conversation.attachments",)
    assert refused(None, ["conversation.attachments"], by=by).reason == "unauthorized_paths"


@pytest.mark.parametrize("path", ["conversation.tools.x.access.config", "conversation.tools.x"])
def test_what_widens_rights_needs_the_acknowledged_grant(path: str) -> None:
    rule = {"path": "style", "write": True}
    config = {"conversation": {"tools": {"x": {"access": {"config": [rule]}}}}}
    assert refused(config, by=grants({"path": path, "write": True})).reason == "unauthorized_paths"
    proposed(config, by=grants({"path": path, "write": "insecure_allow"}))


@pytest.mark.req("R078-11")
@pytest.mark.parametrize("apply_mode", ["ask", "unattended"])
def test_apply_governs_what_is_set_and_what_is_unset(apply_mode: str) -> None:
    by = everything(apply=apply_mode)
    assert proposed({"assistant": {"name": "Bo"}}, by=by).asks is (apply_mode == "ask")
    assert proposed(None, ["assistant.name"], by=by).asks is (apply_mode == "ask")


@pytest.mark.req("R078-75", "R078-81")
def test_one_path_that_asks_makes_the_whole_ask() -> None:
    by = grants(
        {"path": "assistant.name", "write": True, "apply": "unattended"},
        {"path": "assistant.model", "write": True},
    )
    assert not proposed({"assistant": {"name": "Bo"}}, by=by).asks
    assert proposed({"assistant": {"name": "Bo", "model": {"id": "openai/x"}}}, by=by).asks


# --- secrets ---------------------------------------------------------------------------------


def test_what_may_be_a_secret_is_not_shown() -> None:
    config = {"conversation": {"tools": {"x": {"options": {"api_key": "sk-1234567890abcdef"}}}}}
    found = refused(config, by=grants())
    assert "sk-1234567890abcdef" not in " ".join((found.detail, *found.lines))
