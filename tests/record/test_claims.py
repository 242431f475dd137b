"""Claims: which source set a path, and reverting a source or a value."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.config.assignments import parse_assignment
from jp_nb.config.layers import Layer
from jp_nb.config.partial import Change, get_path
from jp_nb.config.schema import parse_path
from jp_nb.record.claims import (
    ChangeSource,
    Claims,
    make_claims,
    read_hashes,
    revert_source,
    revert_value,
)
from jp_nb.record.config_draft import Draft
from jp_nb.record.config_history import Projection
from tests.kit.records import new_event
from tests.support.entries import new_stream

ID = "assistant.model.id"
WORDS = "assistant.model.parameters.stop_words"
ATTACHMENTS = "conversation.attachments"
DEV = ChangeSource.named("file:dev.toml", label="dev.toml")
OPS = ChangeSource.named("file:ops", label="ops")


class Conversation:
    """A conversation whose configuration several sources change."""

    def __init__(
        self, base: dict[str, Any] | None = None, below: dict[str, Any] | None = None
    ) -> None:
        self.stream = new_stream(base_config=base or {})
        layers = [Layer("file", below or {})]
        self.projection = Projection(self.stream, lambda: layers, trusted=True)

    def sets(self, text: str, source: ChangeSource | None) -> None:
        draft = Draft(self.projection)
        change = parse_assignment(text, draft.partial())
        draft.add(change, make_claims(change, source))
        self.stream.append(*draft.deltas)

    def reverts(self, source: ChangeSource, unclaimed: tuple[str, ...] = ()) -> None:
        draft = Draft(self.projection)
        revert = revert_source(draft.steps(), source.hashes, unclaimed=unclaimed)
        draft.add(revert.change, revert.claims)
        self.stream.append(*draft.deltas)

    def reverts_value(self, path: str, value: Any) -> bool:
        draft = Draft(self.projection)
        revert = revert_value(draft.steps(), path, value)
        if revert is None:
            return False
        draft.add(revert.change, revert.claims)
        self.stream.append(*draft.deltas)
        return True

    def at(self, path: str) -> Any:
        return get_path(self.projection.partial(), path)


def test_source_is_matched_by_the_hash_of_its_name_and_not_by_its_label() -> None:
    assert DEV.marks[0].endswith(":dev.toml")
    assert len(DEV.marks[0].partition(":")[0]) == 64
    both = ChangeSource.named("file:dev.toml", "id:x", label="other label")
    assert both.hashes & DEV.hashes
    assert not both.hashes & OPS.hashes
    assert read_hashes(["abc:l", "abc:m", "abc", 4]) == read_hashes("abc:label") == {"abc"}
    assert read_hashes(None) == read_hashes([]) == frozenset()


def test_claims_name_leaves_items_unions_and_unset_paths() -> None:
    change = Change(
        {
            "assistant": {
                "model": {
                    "id": {"provider": "openai", "name": "m"},
                    "parameters": {"stop_words": ["a"]},
                },
                "instructions": [{"title": "T", "items": []}],
            },
            "conversation": {
                "attachments": {"value": ["file:x"], "strategy": "replace"},
                "tools": {"t": {"parameters": {"p": {"enum": ["x", "x"]}}}},
            },
        },
        ("user.name",),
    )
    assert set(make_claims(change, None)) == {
        "user.name", ID, f"{ID}.provider", f"{ID}.name", f'{WORDS}["a"]',
        'assistant.instructions["T"]', "conversation.tools.t.parameters.p.enum", ATTACHMENTS,
    }  # fmt: skip
    assert set(map(str, make_claims(change, None).values())) == {"None"}


def test_reverting_a_source_restores_the_value_of_another_source() -> None:
    talk = Conversation()
    talk.sets("user.name=one", DEV)
    talk.sets("user.name=two", OPS)
    talk.sets("user.name=three", DEV)
    talk.reverts(DEV)
    assert talk.at("user.name") == "two"
    talk.reverts(DEV)
    assert talk.at("user.name") == "two"  # DEV owns nothing now
    talk.reverts(OPS)
    assert talk.at("user.name") == "one"  # which DEV had set before
    talk.reverts(DEV)
    assert talk.at("user.name") is None


def test_revert_restores_the_earlier_owner_and_none_at_the_base() -> None:
    talk = Conversation(base={"user": {"name": "base"}})
    talk.sets("user.name=two", OPS)
    talk.sets("user.name=three", DEV)
    talk.reverts(DEV)
    last = talk.stream.deltas[-1]
    assert last.unsets == ("user.name",)
    assert last.delta == {"user": {"name": "two"}}
    assert last.claims == {"user.name": list(OPS.marks)}
    talk.reverts(OPS)
    last = talk.stream.deltas[-1]
    assert last.delta == {"user": {"name": "base"}}
    assert last.claims == {"user.name": None}
    assert talk.at("user.name") == "base"


def test_reverting_the_only_value_uncovers_the_layer_below() -> None:
    talk = Conversation(below={"user": {"name": "file"}})
    talk.sets("user.name=mine", DEV)
    talk.reverts(DEV)
    assert talk.at("user.name") == "file"
    assert talk.stream.deltas[-1].delta == {}  # not pinned: the file may change


@pytest.mark.parametrize("claim", [None, list(OPS.marks)])
def test_claim_on_half_a_model_protects_the_other_half(claim: Any) -> None:
    talk = Conversation(base={"assistant": {"model": {"id": {"provider": "ollama", "name": "b"}}}})
    talk.sets(f"{ID}=openai/by-file", DEV)
    talk.sets("user.name=by-file", DEV)
    half = {"assistant": {"model": {"id": {"name": "by-tool"}}}}
    talk.stream.append(new_event("config_delta", delta=half, claims={f"{ID}.name": claim}))
    assert Claims(talk.projection.steps()).owned_by(DEV.hashes) == [("user", "name")]
    talk.reverts(DEV)
    assert talk.at(ID) == {"provider": "openai", "name": "by-tool"}


def test_paths_set_by_the_environment_are_not_reverted() -> None:
    talk = Conversation()
    talk.sets("user.name=a", DEV)
    talk.reverts(DEV, unclaimed=("user.name",))
    assert talk.at("user.name") == "a"


def test_model_items_and_ordered_lists_are_reverted_as_a_whole() -> None:
    talk = Conversation(base={"assistant": {"model": {"id": {"provider": "ollama", "name": "b"}}}})
    talk.sets(f"{ID}=openai/x", DEV)
    talk.reverts(DEV)
    assert talk.at(ID) == {"provider": "ollama", "name": "b"}
    talk = Conversation(base={"conversation": {"attachments": ["file:base"]}})
    talk.sets(f"{ATTACHMENTS}+=file:dev", DEV)
    talk.sets(f"{ATTACHMENTS}+=file:ops", OPS)
    talk.reverts(DEV)
    assert talk.at(ATTACHMENTS) == ["file:base", "file:ops"]
    path = "conversation.tools.t.parameters.p.enum"
    talk = Conversation(base={"conversation": {"tools": {"t": {"source": "local"}}}})
    talk.sets(f"{path}=a, a", OPS)
    talk.sets(f"{path}+=b", DEV)
    assert talk.at(path) == ["a", "a", "b"]
    talk.reverts(DEV)
    assert talk.at(path) == ["a", "a"]


def test_nothing_before_a_reset_is_reverted() -> None:
    talk = Conversation()
    talk.sets("user.name=before", OPS)
    talk.stream.append(new_event("config_delta", op="reset"))
    talk.reverts(OPS)
    assert talk.at("user.name") is None
    talk.sets("user.name=after", DEV)
    talk.reverts(DEV)
    assert talk.at("user.name") is None


def test_value_is_reverted_for_any_source_if_it_is_current() -> None:
    talk = Conversation()
    talk.sets("user.name=one", OPS)
    talk.sets("user.name=two", None)
    talk.sets("assistant.name=x", DEV)
    assert not talk.reverts_value("user.name", "one")
    assert talk.reverts_value("user.name", "two")
    assert talk.at("user.name") == "one"
    assert talk.stream.deltas[-1].claims == {"user.name": list(OPS.marks)}
    assert talk.reverts_value("user.name", "one")
    assert talk.at("user.name") is None


def test_reverted_value_skips_changes_that_kept_it() -> None:
    talk = Conversation(base={"user": {"name": "base"}})
    talk.sets("user.name=x", OPS)
    talk.stream.append(
        new_event("config_delta", delta={"user": {"name": "x"}}, claims={"user.name": None})
    )
    assert talk.reverts_value("user.name", "x")
    assert talk.at("user.name") == "base"


def test_repeated_change_of_a_source_is_recorded_once() -> None:
    talk = Conversation()
    talk.sets("user.name=a", DEV)
    talk.sets("user.name=a", DEV)
    assert len(talk.stream.deltas) == 1
    talk.sets("user.name=a", OPS)  # who owns it changed
    assert len(talk.stream.deltas) == 2
    assert talk.stream.deltas[-1].delta == {}
    talk.reverts(OPS)
    assert talk.at("user.name") == "a"


def test_claim_on_an_invalid_path_has_no_effect() -> None:
    talk = Conversation()
    talk.stream.append(new_event("config_delta", claims={"a..b": ["x:y"], "user.name": 5}))
    assert Claims(talk.projection.steps()).owned_by(frozenset({"x"})) == []


def test_all_changes_of_a_source_in_a_row_are_reverted() -> None:
    talk = Conversation(base={"user": {"name": "base"}})
    talk.sets("user.name=one", DEV)
    talk.sets("user.name=two", DEV)
    talk.reverts(DEV)
    assert talk.at("user.name") == "base"


def test_reverting_a_base_value_uncovers_the_layer_below() -> None:
    talk = Conversation(base={"user": {"name": "x"}}, below={"user": {"name": "file"}})
    assert talk.reverts_value("user.name", "x")
    assert talk.at("user.name") == "file"


def test_source_can_claim_a_path_again() -> None:
    talk = Conversation()
    talk.sets("user.name=a", DEV)
    talk.stream.append(new_event("config_delta", claims={"user": None}))
    talk.sets("user.name=a", DEV)
    assert talk.stream.deltas[-1].claims == {"user.name": list(DEV.marks)}
    assert Claims(talk.projection.steps()).owned_by(DEV.hashes) == [("user", "name")]


def test_delta_holds_only_the_difference() -> None:
    talk = Conversation(base={"user": {"name": "a"}, "assistant": {"name": "n"}})
    talk.sets("style.tool_call.show:=null", None)
    assert not talk.stream.deltas
    talk.sets('{"user": {"name": "b"}, "assistant": {"name": "n"}}', None)
    assert talk.stream.deltas[-1].delta == {"user": {"name": "b"}}
    draft = Draft(talk.projection)
    draft.add(Change({"user": {"name": "b"}}, ("user.name",)), {"user.name": None})
    talk.stream.append(*draft.deltas)
    assert talk.at("user.name") == "b"


def test_unset_path_stays_unset_beside_any_file() -> None:
    talk = Conversation(below={"user": {"name": "file"}})
    talk.sets("user.name:=null", None)
    assert talk.at("user.name") is None
    assert len(talk.stream.deltas) == 1
    talk.sets("user.name=a", DEV)
    talk.sets("user.name:=null", None)
    assert talk.at("user.name") is None
    talk.reverts(DEV)
    assert talk.at("user.name") is None


def test_reverting_an_unset_uncovers_the_layer_below() -> None:
    talk = Conversation(below={"user": {"name": "file"}})
    talk.sets("user.name:=null", DEV)
    talk.reverts(DEV)
    assert talk.at("user.name") == "file"
    assert talk.stream.deltas[-1].uncovers == ("user.name",)
    talk.sets("user.name:=null", OPS)
    talk.sets("user.name=x", DEV)
    talk.reverts(DEV)
    assert talk.at("user.name") is None  # as OPS left it


def test_newest_claim_at_above_or_below_a_path_owns_it() -> None:
    talk = Conversation()
    talk.stream.append(
        new_event("config_delta", claims={"user.name": ["a:1"], "assistant": ["b:1"]}),
        new_event("config_delta", claims={"user": ["c:1"], ID: None}),
        new_event("config_delta", claims={"user.name": ["d:1"]}),
    )
    claims = Claims(talk.projection.steps())
    owners = {
        "user": ["d:1"],
        "user.name": ["d:1"],
        "assistant": None,
        "assistant.name": ["b:1"],
        f"{ID}.name": None,
        "conversation": None,
    }
    assert {path: claims.owner(parse_path(path)) for path in owners} == owners
