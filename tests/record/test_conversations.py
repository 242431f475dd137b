"""List, switch and drop the conversations of a notebook, damaged ones included."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.notebook_record import NotebookRecord
from tests.kit.records import new_event
from tests.support.record_strategies import STAMP, json_values


def entry(identifier: Any, *contents: str, **more: Any) -> dict[str, Any]:
    events: list[Any] = []
    for text in contents:
        events.append({"type": "turn_start", "timestamp": STAMP})
        events.append({"type": "chat_request", "timestamp": STAMP, "content": text})
    head = {"id": identifier, "made": "live", **more.pop("head", {})}
    return {"conversation": head, "base_config": {}, "events": events, **more}


def document(*others: Any, active: dict[str, Any] | None = None) -> NotebookRecord:
    top = active or entry("jp-c10", "now", signature="sig-10")
    return NotebookRecord({"version": 1, **top, "others": list(others)})


def ids(found: NotebookRecord) -> list[str]:
    return [each["id"] for each in found.conversations()]


def test_all_conversations_are_listed() -> None:
    parent = {"id": "jp-c10", "turn": 2.0}  # as a page may write it
    found = document(
        entry("jp-c9", "a", "b", head={"title": "Bread", "parent": parent}),
        entry("jp-c8", head={"made": "imported", "parent": {"id": "jp-c9"}}),
    )
    bread = {"id": "jp-c9", "title": "Bread", "turns": 2, "made": "live"}
    assert found.conversations() == [
        {"id": "jp-c10", "title": "now", "turns": 1, "made": "live", "active": True},
        {**bread, "parent": "jp-c10", "parent_turn": 2},
        {"id": "jp-c8", "turns": 0, "made": "imported", "parent": "jp-c9"},
    ]


def test_title_shows_that_a_request_with_many_blanks_was_cut(subtests: pytest.Subtests) -> None:
    for request, title in [
        ("Bake\n" + "\n" * 300 + "bread.", "Bake …"),
        ("Bake" + " " * 300 + "bread.", "Bake …"),
        ("\n" * 300 + "Bake bread.", "Bake bread."),
        ("Bake bread." + "\n" * 300, "Bake bread."),
    ]:
        with subtests.test(request=request):
            found = document(entry("jp-c9", request)).conversations()
            assert [each["title"] for each in found] == ["now", title]


def test_switching_and_back_changes_only_the_order() -> None:
    found = document(entry("jp-c9", "then", signature="sig-9"), entry("jp-c8", "first"))
    before = found.stored
    assert found.switch("jp-c9")
    assert found.stream.id == "jp-c9"
    assert found.signature == "sig-9"
    assert found.others[0] == entry("jp-c10", "now", signature="sig-10")
    found.stream.start_turn(new_event("chat_request", content="more"))  # it can be continued
    assert found.stream.turn_count == 2
    del found.stream.raw[2:]
    assert found.switch("jp-c10")
    assert found.stored == before


def test_switching_to_the_active_conversation_changes_nothing() -> None:
    found = document(entry("jp-c9", "then"))
    before = found.stored
    assert not found.switch("jp-c10")
    assert found.stored == before


def test_empty_conversation_is_not_kept() -> None:
    found = document(entry("jp-c9", "then"), active=entry("jp-c10"))
    found.switch("9")
    assert ids(found) == ["jp-c9"]


SEVERAL = (entry("jp-c100", "a"), entry("jp-c200", "b"))


def test_beginning_or_end_of_an_id_names_a_conversation() -> None:
    for text, named in (("jp-c2", "jp-c200"), ("100", "jp-c100")):
        found = document(*SEVERAL)
        found.switch(text)
        assert found.stream.id == named
    with pytest.raises(
        jp.UsageError, match="several conversations match `00`: `jp-c100`, `jp-c200`"
    ):
        document(*SEVERAL).switch("00")
    found = document(entry("jp-c10", "a"), entry("jp-c1", "b"), active=entry("jp-c2", "x"))
    found.switch("jp-c1")  # the whole id of one, the beginning of another
    assert found.stream.id == "jp-c1"


def test_unknown_id_is_an_error_that_offers_the_nearest(subtests: pytest.Subtests) -> None:
    for text, message in [
        ("jp-c99", "there is no conversation `jp-c99`: did you mean `jp-c9`"),
        ("", "there is no conversation '': `%jp log` lists"),
        ("\x1b[31m", r"there is no conversation '\\x1b\[31m': `%jp log`"),
        ("x" * 5000, "there is no conversation 'x{63}"),
    ]:
        with subtests.test(text=text):
            found = document(entry("jp-c9", "a"))
            before = found.stored
            with pytest.raises(jp.UsageError, match=message) as caught:
                found.switch(text)
            assert len(str(caught.value)) < 300
            with pytest.raises(jp.UsageError):
                found.drop(text)
            assert found.stored == before


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
            before = found.stored
            stream = found.stream
            names = ids(found)
            with pytest.raises(jp.StorageError) as caught:
                found.switch(names[1])
            assert str(caught.value).startswith(said)
            assert caught.value.place == said.split(": ")[0]
            assert (found.stored, found.stream is stream) == (before, True)
            found.switch("jp-c8")
            assert damaged in found.others


def test_switching_to_a_conversation_of_a_newer_version_is_rejected() -> None:
    found = document({"version": 2, "conversation": {"id": "jp-c9"}})
    assert found.conversations()[1]["damaged"]
    with pytest.raises(jp.StorageError, match=r"jp\.others\[0\]\.version: .* version 2.*: update"):
        found.switch("jp-c9")


def test_switching_keeps_the_conversations_inside_a_record_that_was_set_aside() -> None:
    aside = entry("jp-c9", "a", version=1, others=[entry("jp-c7", "c")], future={"x": 1})
    found = document(aside, entry("jp-c8", "b"))
    found.switch("jp-c9")
    assert ids(found) == ["jp-c9", "jp-c10", "jp-c8", "jp-c7"]
    assert found.stored["future"] == {"x": 1}


def test_conversations_with_the_same_id_get_distinct_names() -> None:
    found = document(
        entry("jp-c10", "elsewhere"),
        7,
        entry("jp-c10~2", "other"),
        {"conversation": None},
        entry("jp-c10", "third"),
    )
    assert ids(found) == ["jp-c10", "jp-c10~3", "damaged", "jp-c10~2", "damaged~2", "jp-c10~4"]
    found.switch("jp-c10~4")
    assert found.stream.requests[0].content == "third"
    assert len(found.others) == 5


entries = st.builds(entry, st.sampled_from(["a", "a~2", "jp-c10"]) | json_values, st.just("q"))


@given(st.lists(json_values | entries, max_size=6))
def test_every_conversation_has_a_distinct_name(others: list[Any]) -> None:
    for item in document(*others).conversations():
        is_active = "active" in item
        found = document(*others)
        assert len({*ids(found)}) == len(others) + 1

        if "damaged" in item:
            with pytest.raises(jp.StorageError, match=r"jp\.others\["):
                found.switch(item["id"])
        else:
            assert found.switch(item["id"]) != is_active

        assert len(found.conversations()) == len(others) + 1
        found = document(*others)
        if not is_active:
            assert found.drop(item["id"]) == item
            assert len(found.others) == len(others) - 1


def test_dropping_removes_one_conversation() -> None:
    found = document(entry("jp-c9", "a", "b", head={"title": "Bread"}), 7, entry("jp-c8", "c"))
    bread = {"id": "jp-c9", "title": "Bread", "turns": 2, "made": "live"}
    assert found.drop("jp-c9") == bread
    assert found.drop("damaged")["damaged"]
    assert ids(found) == ["jp-c10", "jp-c8"]
    assert found.signature == "sig-10"


def test_active_conversation_is_not_dropped() -> None:
    found = document(entry("jp-c9", "a"))
    with pytest.raises(
        jp.UsageError, match=r"`jp-c10` is the active conversation. .*`%jp switch ID`"
    ):
        found.drop("jp-c10")
    assert len(found.conversations()) == 2


def test_part_of_an_id_drops_nothing() -> None:
    for part in ("9", "jp-c", "JP-C9", "jp-c9 "):
        found = document(entry("jp-c9", "a"))
        with pytest.raises(jp.UsageError, match="`%jp drop` needs the whole id"):
            found.drop(part)
        assert len(found.conversations()) == 2


def test_listing_counts_turns_as_the_stream_does() -> None:
    said = {"type": "chat_request", "timestamp": STAMP, "content": "q"}
    start = {"type": "turn_start", "timestamp": STAMP}
    changed = {"type": "config_delta", "timestamp": STAMP}
    for events in ([], [changed], [said], [said, start, said], [changed, start, said], [start]):
        found = document({**entry("jp-c9"), "events": events})
        counted = found.conversations()[1]["turns"]
        found.switch("jp-c9")
        assert found.stream.turn_count == counted
