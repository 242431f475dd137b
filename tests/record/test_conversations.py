"""List, switch and drop the conversations of a notebook, damaged ones included."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.record.clock import utc_now
from jp_nb.record.conversation_list import (
    ConversationInfo,
    drop_conversation,
    list_conversations,
    switch_conversation,
)
from jp_nb.record.document import Document, NewerVersionError
from tests.kit.kinds import is_kind
from tests.kit.records import new_event
from tests.support.record_strategies import STAMP, json_values


def entry(identifier: Any, *contents: str, **more: Any) -> dict[str, Any]:
    events: list[Any] = []
    for text in contents:
        events.append({"type": "turn_start", "timestamp": STAMP})
        events.append({"type": "chat_request", "timestamp": STAMP, "content": text})
    head = {"id": identifier, "made": "live", **more.pop("head", {})}
    return {"conversation": head, "base_config": {}, "events": events, **more}


def document(*others: Any, active: dict[str, Any] | None = None) -> Document:
    top = active or entry("jp-c10", "now", signature="sig-10")
    return Document.load({"version": 1, **top, "others": list(others)}, clock=utc_now)


def as_json(found: Document) -> Any:
    return json.loads(json.dumps(found.to_json()))


def go(found: Document, text: str) -> bool:
    return switch_conversation(found, text, clock=utc_now)


def test_all_conversations_are_listed() -> None:
    parent = {"id": "jp-c10", "turn": 2.0}  # as a page may write it
    found = document(
        entry("jp-c9", "a", "b", head={"title": "Bread", "parent": parent}),
        entry("jp-c8", head={"made": "imported", "parent": {"id": "jp-c9"}}),
    )
    assert list_conversations(found) == [
        ConversationInfo("jp-c10", title="now", turns=1, made="live", active=True),
        ConversationInfo(
            "jp-c9", title="Bread", turns=2, made="live", parent="jp-c10", parent_turn=2
        ),
        ConversationInfo("jp-c8", made="imported", parent="jp-c9"),
    ]


def test_switching_and_back_changes_only_the_order() -> None:
    found = document(entry("jp-c9", "then", signature="sig-9"), entry("jp-c8", "first"))
    before = as_json(found)
    assert go(found, "jp-c9")
    assert found.conversation.id == "jp-c9"
    assert found.extra == {"signature": "sig-9"}
    assert found.others[0] == entry("jp-c10", "now", signature="sig-10")
    found.conversation.start_turn(new_event("chat_request", content="more"))  # it can be continued
    assert found.conversation.turn_count == 2
    del found.conversation.raw[2:]
    assert go(found, "jp-c10")
    assert as_json(found) == before


def test_switching_to_the_active_conversation_changes_nothing() -> None:
    found = document(entry("jp-c9", "then"))
    before = as_json(found)
    assert not go(found, "jp-c10")
    assert as_json(found) == before


def test_empty_conversation_is_not_kept() -> None:
    found = document(entry("jp-c9", "then"), active=entry("jp-c10"))
    go(found, "9")
    assert [x.id for x in list_conversations(found)] == ["jp-c9"]


SEVERAL = (entry("jp-c100", "a"), entry("jp-c200", "b"))


def test_beginning_or_end_of_an_id_names_a_conversation() -> None:
    for text, named in (("jp-c2", "jp-c200"), ("100", "jp-c100")):
        found = document(*SEVERAL)
        go(found, text)
        assert found.conversation.id == named
    with pytest.raises(
        jp.UsageError, match="several conversations match `00`: `jp-c100`, `jp-c200`"
    ):
        go(document(*SEVERAL), "00")
    found = document(entry("jp-c10", "a"), entry("jp-c1", "b"), active=entry("jp-c2", "x"))
    go(found, "jp-c1")  # the whole id of one, the beginning of another
    assert found.conversation.id == "jp-c1"


def test_unknown_id_is_an_error_that_offers_the_nearest(subtests: pytest.Subtests) -> None:
    for text, message in [
        ("jp-c99", "there is no conversation `jp-c99`: did you mean `jp-c9`"),
        ("", "there is no conversation '': `%jp log` lists"),
        ("\x1b[31m", r"there is no conversation '\\x1b\[31m': `%jp log`"),
        ("x" * 5000, "there is no conversation 'x{63}"),
    ]:
        with subtests.test(text=text):
            found = document(entry("jp-c9", "a"))
            before = as_json(found)
            with pytest.raises(jp.UsageError, match=message) as caught:
                go(found, text)
            assert len(str(caught.value)) < 300
            with pytest.raises(jp.UsageError):
                drop_conversation(found, text)
            assert as_json(found) == before


DAMAGED: list[tuple[Any, str]] = [
    (7, "jp.others[0]: expected an object"),
    ({}, "jp.others[0].conversation.id: expected"),
    ({"conversation": {"id": 5}}, "jp.others[0].conversation.id: expected"),
    ({"conversation": {"id": "jp-c9"}, "base_config": []}, "jp.others[0].base_config: expected"),
    ({"conversation": {"id": "jp-c9"}, "events": {}}, "jp.others[0].events: expected"),
    (
        {"conversation": {"id": "jp-c9"}, "events": [{"type": "chat_request"}]},
        "jp.others[0].events[0].timestamp: expected",
    ),
]


def test_switching_to_a_damaged_conversation_names_the_place(subtests: pytest.Subtests) -> None:
    for damaged, said in DAMAGED:
        with subtests.test(damaged=damaged):
            found = document(copy.deepcopy(damaged), entry("jp-c8", "a"))
            before = as_json(found)
            stream = found.conversation
            names = [x.id for x in list_conversations(found)]
            with pytest.raises(jp.StorageError) as caught:
                go(found, names[1])
            assert str(caught.value).startswith(said)
            assert caught.value.place == said.split(": ")[0]
            assert (as_json(found), found.conversation is stream) == (before, True)
            go(found, "jp-c8")
            assert damaged in found.others


def test_switching_to_a_conversation_of_a_newer_version_is_rejected() -> None:
    found = document({"version": 2, "conversation": {"id": "jp-c9"}})
    assert list_conversations(found)[1].damaged
    with pytest.raises(NewerVersionError, match=r"jp\.others\[0\]\.version: .* version 2"):
        go(found, "jp-c9")


def test_switching_keeps_the_conversations_inside_a_record_that_was_set_aside() -> None:
    aside = entry("jp-c9", "a", version=1, others=[entry("jp-c7", "c")], future={"x": 1})
    found = document(aside, entry("jp-c8", "b"))
    go(found, "jp-c9")
    assert [x.id for x in list_conversations(found)] == ["jp-c9", "jp-c10", "jp-c8", "jp-c7"]
    assert as_json(found)["future"] == {"x": 1}


def test_conversations_with_the_same_id_get_distinct_names() -> None:
    found = document(
        entry("jp-c10", "elsewhere"),
        7,
        entry("jp-c10~2", "other"),
        {"conversation": None},
        entry("jp-c10", "third"),
    )
    ids = [x.id for x in list_conversations(found)]
    assert ids == ["jp-c10", "jp-c10~3", "damaged", "jp-c10~2", "damaged~2", "jp-c10~4"]
    go(found, "jp-c10~4")
    first = found.conversation.entries[1]
    assert is_kind(first, "chat_request")
    assert first.content == "third"
    assert len(found.others) == 5


entries = st.builds(entry, st.sampled_from(["a", "a~2", "jp-c10"]) | json_values, st.just("q"))


@given(st.lists(json_values | entries, max_size=6))
def test_every_conversation_has_a_distinct_name(others: list[Any]) -> None:
    for item in list_conversations(document(*others)):
        found = document(*others)
        assert len({x.id for x in list_conversations(found)}) == len(others) + 1
        if item.damaged:
            with pytest.raises(jp.StorageError, match=r"jp\.others\["):
                go(found, item.id)
        else:
            assert go(found, item.id) != item.active
        assert len(list_conversations(found)) == len(others) + 1
        found = document(*others)
        if not item.active:
            assert drop_conversation(found, item.id) == item
            assert len(found.others) == len(others) - 1


def test_dropping_removes_one_conversation() -> None:
    found = document(entry("jp-c9", "a", "b", head={"title": "Bread"}), 7, entry("jp-c8", "c"))
    assert drop_conversation(found, "jp-c9") == ConversationInfo(
        "jp-c9", title="Bread", turns=2, made="live"
    )
    assert drop_conversation(found, "damaged").damaged
    assert [x.id for x in list_conversations(found)] == ["jp-c10", "jp-c8"]
    assert found.extra == {"signature": "sig-10"}


def test_active_conversation_is_not_dropped() -> None:
    found = document(entry("jp-c9", "a"))
    with pytest.raises(
        jp.UsageError, match=r"`jp-c10` is the active conversation. .*`%jp switch ID`"
    ):
        drop_conversation(found, "jp-c10")
    assert len(list_conversations(found)) == 2


def test_part_of_an_id_drops_nothing() -> None:
    for part in ("9", "jp-c", "JP-C9", "jp-c9 "):
        found = document(entry("jp-c9", "a"))
        with pytest.raises(jp.UsageError, match="`%jp drop` needs the whole id"):
            drop_conversation(found, part)
        assert len(list_conversations(found)) == 2


def test_listing_counts_turns_as_the_stream_does() -> None:
    said = {"type": "chat_request", "timestamp": STAMP, "content": "q"}
    start = {"type": "turn_start", "timestamp": STAMP}
    changed = {"type": "config_delta", "timestamp": STAMP}
    for events in ([], [changed], [said], [said, start, said], [changed, start, said], [start]):
        found = document({**entry("jp-c9"), "events": events})
        counted = list_conversations(found)[1].turns
        go(found, "jp-c9")
        assert found.conversation.turn_count == counted
