"""What the schema says about a place."""

from __future__ import annotations

import pytest

from jp_nb.config.schema import SchemaNode, field_paths, node_of


def _node(path: str) -> SchemaNode:
    node = node_of(path)
    assert node is not None
    return node


def test_a_number_in_other_digits_leads_to_no_item() -> None:
    assert node_of("assistant.instructions.\u00b2") is None
    assert node_of("assistant.instructions." + "9" * 5000) is None


def test_maps_have_free_keys(subtests: pytest.Subtests) -> None:
    for path in [
        "conversation.tools", "conversation.tools.x.parameters",
        "conversation.tools.x.parameters.p.properties", "conversation.tools.x.questions",
        "conversation.tools.x.options", "conversation.labels", "providers.llm.aliases",
        "template.values", "assistant.model.parameters",
    ]:  # fmt: skip
        with subtests.test(path=path):
            assert _node(path).child("any key") is not None


@pytest.mark.parametrize("path", ["", "assistant", "conversation.attachments", "user.name", "no"])
def test_other_places_have_none(path: str) -> None:
    node = node_of(path)
    assert node is None or node.child("any key") is None


def test_optional_places_may_be_unset(subtests: pytest.Subtests) -> None:
    for path in [
        "inherit", "assistant.name", "user.name", "assistant.model.parameters.max_tokens",
        "assistant.model.parameters.reasoning", "assistant.model.parameters.temperature",
        "assistant.model.parameters.top_p", "assistant.model.parameters.top_k",
        "conversation.tools.t.summary", "conversation.tools.t.run", "conversation.tools.t.result",
        "conversation.tools.t.cancellation_response", "conversation.tools.t.enable.state",
        "conversation.tools.t.enable.allow_toggle", "conversation.tools.*.enable",
        "conversation.tools.t.questions.q.answer", "conversation.inquiry.assistant.model",
        "providers.llm.openrouter.app_referrer",
    ]:  # fmt: skip
        with subtests.test(path=path):
            node = _node(path)
            assert node.optional
            assert node.kind not in ("list", "map")


def test_lists_hold_items(subtests: pytest.Subtests) -> None:
    for path in [
        "config_load_paths", "extends", "assistant.system_prompt_sections",
        "assistant.instructions", "assistant.model.parameters.stop_words",
        "conversation.attachments", "conversation.tools.t.access.fs",
        "providers.llm.anthropic.beta_headers", "conversation.tools.t.command.args",
        "conversation.tools.t.parameters.p.enum",
    ]:  # fmt: skip
        with subtests.test(path=path):
            assert _node(path).kind == "list"


def test_a_list_says_what_names_its_items(subtests: pytest.Subtests) -> None:
    for path, items in [
        ("config_load_paths", "set"),
        ("assistant.model.parameters.stop_words", "set"),
        ("providers.llm.anthropic.beta_headers", "set"),
        ("conversation.attachments", "set"),
        ("assistant.instructions", "keyed"),
        ("assistant.system_prompt_sections", "keyed"),
        ("conversation.tools.t.access.fs", "keyed"),
        ("conversation.tools.t.command.args", "sequence"),
        ("conversation.tools.t.parameters.p.enum", "sequence"),
    ]:
        with subtests.test(path=path):
            assert _node(path).merge.items == items


def test_every_field_has_a_path_that_leads_to_it() -> None:
    found = field_paths()
    assert len(found) == len(set(found)) > 150
    for path in found:
        assert node_of(path.replace("*", "x")) is not None, path


def test_a_closed_set_of_words_is_known() -> None:
    assert _node("prompt.channel").words == ["auto", "widget", "stdin", "never"]
