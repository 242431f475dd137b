"""Claims: which source set a path, and reverting a source or a value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit.recorded_settings import RecordedSettings
from tests.kit.records import new_event
from tests.support.entries import new_stream

ID = "assistant.model.id"
WORDS = "assistant.model.parameters.stop_words"
ATTACHMENTS = "conversation.attachments"
DEV = "file:dev.toml"
OPS = "file:ops"


def begin(base: dict[str, Any] | None = None, below: dict[str, Any] | None = None) -> Any:
    """Return the settings of a conversation that several sources change."""
    return RecordedSettings(new_stream(base_config=base or {}), below or {})


def claim_of(name: str) -> list[str]:
    """Return the claim that the record stores for the source `name`."""
    settings = begin()
    settings.assign("user.name=x", name)
    [delta] = settings.stream.deltas
    return list(delta.claims["user.name"])


def test_source_is_matched_by_the_hash_of_its_name_and_not_by_its_label() -> None:
    [mark] = claim_of(DEV)
    name, _, label = mark.partition(":")
    assert (len(name), label) == (64, "dev.toml")

    settings = begin()
    settings.assign("user.name=x", DEV)
    assert settings.owned_by("file:other", DEV) == ["user.name"]
    assert settings.owned_by("id:dev.toml") == []


def test_claim_is_read_in_every_form(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, bool]] = [
        ("abc:label", True),
        (["abc:l"], True),
        (["x:l", "abc:m"], True),
        (["abc", 4], True),
        ([5, "abc:l", ""], True),
        (None, False),
        ([], False),
        ("", False),
        (5, False),
        ({"abc": 1}, False),
    ]
    for claim, is_owned in rows:
        with subtests.test(claim=claim):
            settings = begin()
            settings.stream.append(new_event("config_delta", claims={"user.name": claim}))
            assert settings.owned_by_hash("abc") == ["user.name"] * is_owned


def test_claims_name_leaves_items_unions_and_unset_paths() -> None:
    settings = begin(base={"user": {"name": "Ada"}})
    model = {"id": {"provider": "openai", "name": "m"}, "parameters": {"stop_words": ["a"]}}
    tools = {"t": {"parameters": {"p": {"enum": ["x", "x"]}}}}
    assistant = {"model": model, "instructions": [{"title": "T", "items": []}]}
    settings.assign(json.dumps({"assistant": assistant, "conversation": {"tools": tools}}))
    settings.assign(f"{ATTACHMENTS}=file:x")
    settings.assign("user.name:=null")

    claims: dict[str, Any] = {}
    for delta in settings.stream.deltas:
        claims |= delta.claims

    assert claims == dict.fromkeys(
        [
            "user.name", ID, f"{ID}.provider", f"{ID}.name", f'{WORDS}["a"]',
            'assistant.instructions["T"]', "conversation.tools.t.parameters.p.enum", ATTACHMENTS,
        ]
    )  # fmt: skip


def test_reverting_a_source_restores_the_value_of_another_source() -> None:
    talk = begin()
    talk.assign("user.name=one", DEV)
    talk.assign("user.name=two", OPS)
    talk.assign("user.name=three", DEV)
    talk.revert(DEV)
    assert talk.at("user.name") == "two"
    talk.revert(DEV)
    assert talk.at("user.name") == "two"  # DEV owns nothing now
    talk.revert(OPS)
    assert talk.at("user.name") == "one"  # which DEV had set before
    talk.revert(DEV)
    assert talk.at("user.name") is None


def test_revert_restores_the_earlier_owner_and_none_at_the_base() -> None:
    talk = begin(base={"user": {"name": "base"}})
    talk.assign("user.name=two", OPS)
    talk.assign("user.name=three", DEV)
    talk.revert(DEV)
    last = talk.stream.deltas[-1]
    assert last.unsets == ("user.name",)
    assert last.delta == {"user": {"name": "two"}}
    assert last.claims == {"user.name": claim_of(OPS)}
    talk.revert(OPS)
    last = talk.stream.deltas[-1]
    assert last.delta == {"user": {"name": "base"}}
    assert last.claims == {"user.name": None}
    assert talk.at("user.name") == "base"


def test_reverting_the_only_value_uncovers_the_layer_below() -> None:
    talk = begin(below={"user": {"name": "file"}})
    talk.assign("user.name=mine", DEV)
    talk.revert(DEV)
    assert talk.at("user.name") == "file"
    assert talk.stream.deltas[-1].delta == {}  # not pinned: the file may change


@pytest.mark.parametrize("claim", [None, claim_of(OPS)])
def test_claim_on_half_a_model_protects_the_other_half(claim: Any) -> None:
    talk = begin(base={"assistant": {"model": {"id": {"provider": "ollama", "name": "b"}}}})
    talk.assign(f"{ID}=openai/by-file", DEV)
    talk.assign("user.name=by-file", DEV)
    half = {"assistant": {"model": {"id": {"name": "by-tool"}}}}
    talk.stream.append(new_event("config_delta", delta=half, claims={f"{ID}.name": claim}))
    assert talk.owned_by(DEV) == ["user.name"]
    talk.revert(DEV)
    assert talk.at(ID) == {"provider": "openai", "name": "by-tool"}


def test_paths_set_by_the_environment_are_not_reverted() -> None:
    talk = begin()
    talk.assign("user.name=a", DEV)
    talk.revert(DEV, unclaimed=("user.name",))
    assert talk.at("user.name") == "a"


def test_model_items_and_ordered_lists_are_reverted_as_a_whole() -> None:
    talk = begin(base={"assistant": {"model": {"id": {"provider": "ollama", "name": "b"}}}})
    talk.assign(f"{ID}=openai/x", DEV)
    talk.revert(DEV)
    assert talk.at(ID) == {"provider": "ollama", "name": "b"}
    talk = begin(base={"conversation": {"attachments": ["file:base"]}})
    talk.assign(f"{ATTACHMENTS}+=file:dev", DEV)
    talk.assign(f"{ATTACHMENTS}+=file:ops", OPS)
    talk.revert(DEV)
    assert talk.at(ATTACHMENTS) == ["file:base", "file:ops"]
    path = "conversation.tools.t.parameters.p.enum"
    talk = begin(base={"conversation": {"tools": {"t": {"source": "local"}}}})
    talk.assign(f"{path}=a, a", OPS)
    talk.assign(f"{path}+=b", DEV)
    assert talk.at(path) == ["a", "a", "b"]
    talk.revert(DEV)
    assert talk.at(path) == ["a", "a"]


def test_nothing_before_a_reset_is_reverted() -> None:
    talk = begin()
    talk.assign("user.name=before", OPS)
    talk.stream.append(new_event("config_delta", op="reset"))
    talk.revert(OPS)
    assert talk.at("user.name") is None
    talk.assign("user.name=after", DEV)
    talk.revert(DEV)
    assert talk.at("user.name") is None


def test_value_is_reverted_for_any_source_if_it_is_current() -> None:
    talk = begin()
    talk.assign("user.name=one", OPS)
    talk.assign("user.name=two")
    talk.assign("assistant.name=x", DEV)
    assert not talk.revert_value("user.name", "one")
    assert talk.revert_value("user.name", "two")
    assert talk.at("user.name") == "one"
    assert talk.stream.deltas[-1].claims == {"user.name": claim_of(OPS)}
    assert talk.revert_value("user.name", "one")
    assert talk.at("user.name") is None


def test_reverted_value_skips_changes_that_kept_it() -> None:
    talk = begin(base={"user": {"name": "base"}})
    talk.assign("user.name=x", OPS)
    talk.stream.append(
        new_event("config_delta", delta={"user": {"name": "x"}}, claims={"user.name": None})
    )
    assert talk.revert_value("user.name", "x")
    assert talk.at("user.name") == "base"


def test_repeated_change_of_a_source_is_recorded_once() -> None:
    talk = begin()
    talk.assign("user.name=a", DEV)
    talk.assign("user.name=a", DEV)
    assert len(talk.stream.deltas) == 1
    talk.assign("user.name=a", OPS)  # who owns it changed
    assert len(talk.stream.deltas) == 2
    assert talk.stream.deltas[-1].delta == {}
    talk.revert(OPS)
    assert talk.at("user.name") == "a"


def test_claim_on_an_invalid_path_has_no_effect() -> None:
    talk = begin()
    talk.stream.append(new_event("config_delta", claims={"a..b": ["x:y"], "user.name": 5}))
    assert talk.owned_by_hash("x") == []


def test_all_changes_of_a_source_in_a_row_are_reverted() -> None:
    talk = begin(base={"user": {"name": "base"}})
    talk.assign("user.name=one", DEV)
    talk.assign("user.name=two", DEV)
    talk.revert(DEV)
    assert talk.at("user.name") == "base"


def test_reverting_a_base_value_uncovers_the_layer_below() -> None:
    talk = begin(base={"user": {"name": "x"}}, below={"user": {"name": "file"}})
    assert talk.revert_value("user.name", "x")
    assert talk.at("user.name") == "file"


def test_source_can_claim_a_path_again() -> None:
    talk = begin()
    talk.assign("user.name=a", DEV)
    talk.stream.append(new_event("config_delta", claims={"user": None}))
    talk.assign("user.name=a", DEV)
    assert talk.stream.deltas[-1].claims == {"user.name": claim_of(DEV)}
    assert talk.owned_by(DEV) == ["user.name"]


def test_delta_holds_only_the_difference() -> None:
    talk = begin(base={"user": {"name": "a"}, "assistant": {"name": "n"}})
    talk.assign("style.tool_call.show:=null")
    assert not talk.stream.deltas
    talk.assign('{"user": {"name": "b"}, "assistant": {"name": "n"}}')
    assert talk.stream.deltas[-1].delta == {"user": {"name": "b"}}
    talk.change({"user": {"name": "b"}}, unsets=["user.name"], claims={"user.name": None})
    assert talk.at("user.name") == "b"


def test_unset_path_stays_unset_beside_any_file() -> None:
    talk = begin(below={"user": {"name": "file"}})
    talk.assign("user.name:=null")
    assert talk.at("user.name") is None
    assert len(talk.stream.deltas) == 1
    talk.assign("user.name=a", DEV)
    talk.assign("user.name:=null")
    assert talk.at("user.name") is None
    talk.revert(DEV)
    assert talk.at("user.name") is None


def test_reverting_an_unset_uncovers_the_layer_below() -> None:
    talk = begin(below={"user": {"name": "file"}})
    talk.assign("user.name:=null", DEV)
    talk.revert(DEV)
    assert talk.at("user.name") == "file"
    assert talk.stream.deltas[-1].uncovers == ("user.name",)
    talk.assign("user.name:=null", OPS)
    talk.assign("user.name=x", DEV)
    talk.revert(DEV)
    assert talk.at("user.name") is None  # as OPS left it


def test_newest_claim_at_above_or_below_a_path_owns_it() -> None:
    talk = begin()
    talk.stream.append(
        new_event("config_delta", claims={"user.name": ["a:1"], "assistant": ["b:1"]}),
        new_event("config_delta", claims={"user": ["c:1"], ID: None}),
        new_event("config_delta", claims={"user.name": ["d:1"]}),
    )
    owners = {
        "user": ["d:1"],
        "user.name": ["d:1"],
        "assistant": None,
        "assistant.name": ["b:1"],
        f"{ID}.name": None,
        "conversation": None,
    }
    assert {path: talk.owner(path) for path in owners} == owners
