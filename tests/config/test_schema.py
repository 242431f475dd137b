"""The schema: kind, keys and merge rule of each path."""

from __future__ import annotations

from typing import Any

from jp_nb.config.schema import find_node
from tests.kit.settings import Settings


def _node(path: str) -> Any:
    node = find_node(path)
    assert node is not None
    return node


def test_index_is_written_in_ascii_digits() -> None:
    assert find_node("assistant.instructions.\u00b2") is None
    assert find_node("assistant.instructions." + "9" * 5000) is None


def test_maps_have_free_keys_and_other_nodes_have_none() -> None:
    for path in [
        "conversation.tools", "conversation.tools.x.parameters",
        "conversation.tools.x.parameters.p.properties", "conversation.tools.x.questions",
        "conversation.tools.x.options", "conversation.labels", "providers.llm.aliases",
        "template.values", "assistant.model.parameters",
    ]:  # fmt: skip
        assert _node(path).child("any key") is not None, path
    for path in ("", "assistant", "conversation.attachments", "user.name", "no"):
        node = find_node(path)
        assert node is None or node.child("any key") is None, path


def test_optional_settings_may_be_unset() -> None:
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
        node = _node(path)
        assert node.optional, path
        assert node.kind not in ("list", "map"), path


def test_every_field_is_found_by_its_path() -> None:
    found = Settings.list_paths()
    assert len(found) == len(set(found)) > 150
    for path in found:
        assert find_node(path.replace("*", "x")) is not None, path


def test_words_of_a_closed_set_are_known() -> None:
    assert _node("prompt.channel").choices == ["auto", "widget", "stdin", "never"]
