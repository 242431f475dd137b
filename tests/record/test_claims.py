"""Who set what, and taking it back: by source and by value."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.config.assignments import parse_assignment
from jp_nb.config.layers import Layer
from jp_nb.config.partial import Change, Partial, get_path
from jp_nb.config.paths import parse_path
from jp_nb.record.claims import Claims, Source, claims_for, hashes_of, revert_source, revert_value
from jp_nb.record.draft import Draft
from jp_nb.record.events import ConfigDelta
from jp_nb.record.projection import Projection
from tests.support.fakes import new_stream

ID = "assistant.model.id"
WORDS = "assistant.model.parameters.stop_words"
ATTACHMENTS = "conversation.attachments"
DEV, OPS = Source.named("file:dev.toml", label="dev.toml"), Source.named("file:ops", label="ops")


class Conversation:
    """A conversation whose configuration several sources change."""

    def __init__(self, base: Partial | None = None, below: Partial | None = None) -> None:
        self.stream = new_stream(base_config=base or {})
        layers = [Layer("file", below or {})]
        self.projection = Projection(self.stream, lambda: layers, trusted=True)

    def sets(self, text: str, source: Source | None) -> None:
        draft = Draft(self.projection)
        change = parse_assignment(text, draft.partial())
        draft.add(change, claims_for(change, source))
        self.stream.append(*draft.deltas)

    def takes_back(self, source: Source, unclaimed: tuple[str, ...] = ()) -> None:
        draft = Draft(self.projection)
        revert = revert_source(draft.steps(), source.hashes, unclaimed=unclaimed)
        draft.add(revert.change, revert.claims)
        self.stream.append(*draft.deltas)

    def takes_value_back(self, path: str, value: Any) -> bool:
        draft = Draft(self.projection)
        revert = revert_value(draft.steps(), path, value)
        if revert is None:
            return False
        draft.add(revert.change, revert.claims)
        self.stream.append(*draft.deltas)
        return True

    def at(self, path: str) -> Any:
        return get_path(self.projection.partial(), path)


def test_a_source_goes_by_the_hash_of_its_name_and_its_label_is_for_people() -> None:
    assert DEV.marks[0].endswith(":dev.toml")
    assert len(DEV.marks[0].partition(":")[0]) == 64
    both = Source.named("file:dev.toml", "id:x", label="other label")
    assert both.hashes & DEV.hashes
    assert not both.hashes & OPS.hashes


@pytest.mark.parametrize("claim", [None, [], "", {}, 5])
def test_an_unclaim_has_no_hash_whichever_way_it_is_written(claim: Any) -> None:
    assert hashes_of(claim) == frozenset()


@pytest.mark.parametrize("claim", ["abc:label", ["abc:label"], ["abc"], ["abc:l", "abc:m", 4]])
def test_a_claim_may_be_a_text_or_a_list(claim: Any) -> None:
    assert hashes_of(claim) == {"abc"}


def test_claims_name_leaves_items_unions_and_what_is_unset() -> None:
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
    assert set(claims_for(change, None)) == {
        "user.name", ID, f"{ID}.provider", f"{ID}.name", f'{WORDS}["a"]',
        'assistant.instructions["T"]', "conversation.tools.t.parameters.p.enum", ATTACHMENTS,
    }  # fmt: skip
    assert set(map(str, claims_for(change, None).values())) == {"None"}


def test_a_source_that_set_a_path_twice_goes_back_to_what_another_set_between() -> None:
    talk = Conversation()
    talk.sets("user.name=one", DEV)
    talk.sets("user.name=two", OPS)
    talk.sets("user.name=three", DEV)
    talk.takes_back(DEV)
    assert talk.at("user.name") == "two"
    talk.takes_back(DEV)
    assert talk.at("user.name") == "two"  # DEV owns nothing now
    talk.takes_back(OPS)
    assert talk.at("user.name") == "one"  # which DEV had set before
    talk.takes_back(DEV)
    assert talk.at("user.name") is None


def test_a_revert_writes_the_owner_it_found_and_an_unclaim_at_the_base() -> None:
    talk = Conversation(base={"user": {"name": "base"}})
    talk.sets("user.name=two", OPS)
    talk.sets("user.name=three", DEV)
    talk.takes_back(DEV)
    last = talk.stream.deltas[-1]
    assert last.unsets == ("user.name",)
    assert last.delta == {"user": {"name": "two"}}
    assert last.claims == {"user.name": list(OPS.marks)}
    talk.takes_back(OPS)
    last = talk.stream.deltas[-1]
    assert last.delta == {"user": {"name": "base"}}
    assert last.claims == {"user.name": None}
    assert talk.at("user.name") == "base"


def test_what_lies_below_the_conversation_shows_again_when_nothing_was_there_before() -> None:
    talk = Conversation(below={"user": {"name": "file"}})
    talk.sets("user.name=mine", DEV)
    talk.takes_back(DEV)
    assert talk.at("user.name") == "file"
    assert talk.stream.deltas[-1].delta == {}  # not pinned: the file may change


def test_an_unclaim_shields_what_a_tool_changed() -> None:
    talk = Conversation()
    talk.sets(f"{ID}=openai/by-file", DEV)
    talk.sets(f"{ID}=openai/by-tool", None)
    talk.takes_back(DEV)
    assert talk.at(ID) == {"provider": "openai", "name": "by-tool"}


@pytest.mark.parametrize("path", [ID, f"{ID}.name", "assistant.model", "assistant"])
def test_an_unclaim_above_or_below_shields_too(path: str) -> None:
    talk = Conversation()
    talk.sets(f"{ID}=openai/by-file", DEV)
    talk.stream.append(
        ConfigDelta(delta={"assistant": {"model": {"id": {"name": "t"}}}}, claims={path: None})
    )
    owned = Claims(talk.projection.steps()).owned_by(DEV.hashes)
    assert parse_path(ID) not in owned
    assert parse_path(f"{ID}.name") not in owned


@pytest.mark.parametrize("claim", [None, list(OPS.marks)])
def test_who_has_half_a_model_shields_the_other_half(claim: Any) -> None:
    talk = Conversation(base={"assistant": {"model": {"id": {"provider": "ollama", "name": "b"}}}})
    talk.sets(f"{ID}=openai/by-file", DEV)
    talk.sets("user.name=by-file", DEV)
    half = {"assistant": {"model": {"id": {"name": "by-tool"}}}}
    talk.stream.append(ConfigDelta(delta=half, claims={f"{ID}.name": claim}))
    assert Claims(talk.projection.steps()).owned_by(DEV.hashes) == [("user", "name")]
    talk.takes_back(DEV)
    assert talk.at(ID) == {"provider": "openai", "name": "by-tool"}


def test_what_the_environment_sets_is_nobodys() -> None:
    talk = Conversation()
    talk.sets("user.name=a", DEV)
    talk.takes_back(DEV, unclaimed=("user.name",))
    assert talk.at("user.name") == "a"


def test_a_whole_model_goes_back() -> None:
    talk = Conversation(base={"assistant": {"model": {"id": {"provider": "ollama", "name": "b"}}}})
    talk.sets(f"{ID}=openai/x", DEV)
    talk.takes_back(DEV)
    assert talk.at(ID) == {"provider": "ollama", "name": "b"}


def test_items_that_a_source_added_go_and_those_of_others_stay() -> None:
    talk = Conversation(base={"conversation": {"attachments": ["file:base"]}})
    talk.sets(f"{ATTACHMENTS}+=file:dev", DEV)
    talk.sets(f"{ATTACHMENTS}+=file:ops", OPS)
    talk.takes_back(DEV)
    assert talk.at(ATTACHMENTS) == ["file:base", "file:ops"]


def test_a_list_whose_order_matters_goes_back_as_a_whole() -> None:
    path = "conversation.tools.t.parameters.p.enum"
    talk = Conversation(base={"conversation": {"tools": {"t": {"source": "local"}}}})
    talk.sets(f"{path}=a, a", OPS)
    talk.sets(f"{path}+=b", DEV)
    assert talk.at(path) == ["a", "a", "b"]
    talk.takes_back(DEV)
    assert talk.at(path) == ["a", "a"]


def test_a_reset_ends_the_way_back() -> None:
    talk = Conversation()
    talk.sets("user.name=before", OPS)
    talk.stream.append(ConfigDelta(op="reset"))
    talk.takes_back(OPS)
    assert talk.at("user.name") is None
    talk.sets("user.name=after", DEV)
    talk.takes_back(DEV)
    assert talk.at("user.name") is None


def test_a_value_is_taken_back_whoever_set_it_and_only_if_it_is_so() -> None:
    talk = Conversation()
    talk.sets("user.name=one", OPS)
    talk.sets("user.name=two", None)
    talk.sets("assistant.name=x", DEV)
    assert not talk.takes_value_back("user.name", "one")
    assert talk.takes_value_back("user.name", "two")
    assert talk.at("user.name") == "one"
    assert talk.stream.deltas[-1].claims == {"user.name": list(OPS.marks)}
    assert talk.takes_value_back("user.name", "one")
    assert talk.at("user.name") is None


def test_a_value_goes_back_past_all_changes_that_left_it() -> None:
    talk = Conversation(base={"user": {"name": "base"}})
    talk.sets("user.name=x", OPS)
    talk.stream.append(ConfigDelta(delta={"user": {"name": "x"}}, claims={"user.name": None}))
    assert talk.takes_value_back("user.name", "x")
    assert talk.at("user.name") == "base"


def test_the_same_change_by_the_same_source_is_recorded_once() -> None:
    talk = Conversation()
    talk.sets("user.name=a", DEV)
    talk.sets("user.name=a", DEV)
    assert len(talk.stream.deltas) == 1
    talk.sets("user.name=a", OPS)  # who owns it changed
    assert len(talk.stream.deltas) == 2
    assert talk.stream.deltas[-1].delta == {}
    talk.takes_back(OPS)
    assert talk.at("user.name") == "a"


def test_a_delta_holds_only_what_differs_and_what_is_set_again_after_an_unset_stays() -> None:
    talk = Conversation(base={"user": {"name": "a"}, "assistant": {"name": "n"}})
    talk.sets('{"user": {"name": "b"}, "assistant": {"name": "n"}}', None)
    assert talk.stream.deltas[-1].delta == {"user": {"name": "b"}}
    draft = Draft(talk.projection)
    draft.add(Change({"user": {"name": "b"}}, ("user.name",)), {"user.name": None})
    talk.stream.append(*draft.deltas)
    assert talk.at("user.name") == "b"


def test_claims_of_a_stranger_that_are_no_paths_claim_nothing() -> None:
    talk = Conversation()
    talk.stream.append(ConfigDelta(claims={"a..b": ["x:y"], "user.name": 5}))
    assert Claims(talk.projection.steps()).owned_by(frozenset({"x"})) == []


def test_all_that_a_source_set_in_a_row_is_taken_back() -> None:
    talk = Conversation(base={"user": {"name": "base"}})
    talk.sets("user.name=one", DEV)
    talk.sets("user.name=two", DEV)
    talk.takes_back(DEV)
    assert talk.at("user.name") == "base"


def test_a_value_that_a_conversation_began_with_is_taken_back_to_what_lies_below() -> None:
    talk = Conversation(base={"user": {"name": "x"}}, below={"user": {"name": "file"}})
    assert talk.takes_value_back("user.name", "x")
    assert talk.at("user.name") == "file"


def test_a_claim_is_made_again_after_somebody_unclaimed_what_it_lies_in() -> None:
    talk = Conversation()
    talk.sets("user.name=a", DEV)
    talk.stream.append(ConfigDelta(claims={"user": None}))
    talk.sets("user.name=a", DEV)
    assert talk.stream.deltas[-1].claims == {"user.name": list(DEV.marks)}
    assert Claims(talk.projection.steps()).owned_by(DEV.hashes) == [("user", "name")]


def test_to_unset_what_nobody_set_is_nothing() -> None:
    talk = Conversation()
    talk.sets("user.name:=null", None)
    assert not talk.stream.deltas


def test_what_a_file_set_is_unset_and_stays_so_whatever_it_says() -> None:
    talk = Conversation(below={"user": {"name": "file"}})
    talk.sets("user.name:=null", None)
    assert talk.at("user.name") is None
    assert len(talk.stream.deltas) == 1
    talk.sets("user.name=a", DEV)
    talk.sets("user.name:=null", None)
    assert talk.at("user.name") is None
    talk.takes_back(DEV)
    assert talk.at("user.name") is None


def test_a_source_that_unset_something_is_taken_back_to_what_lies_below() -> None:
    talk = Conversation(below={"user": {"name": "file"}})
    talk.sets("user.name:=null", DEV)
    talk.takes_back(DEV)
    assert talk.at("user.name") == "file"
    assert talk.stream.deltas[-1].uncovers == ("user.name",)
    talk.sets("user.name:=null", OPS)
    talk.sets("user.name=x", DEV)
    talk.takes_back(DEV)
    assert talk.at("user.name") is None  # as OPS left it
