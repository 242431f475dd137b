"""Delivery of the record to a page: only the parts that it does not report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit.deliveries import KnownPages, RecordDelivery
from tests.kit.notebook_record import NotebookRecord
from tests.support.entries import new_stream
from tests.support.scripted_page import View

MAX_RESEND_S = 60.0
MIN_BATCH_INTERVAL_S = 0.1
MAX_BATCH_BYTES = 262_144
MAX_SENDING_PAGES = 8
RESEND = 1.0


@pytest.fixture
def delivery() -> RecordDelivery:
    return RecordDelivery(new_stream)


def test_nothing_is_sent_before_a_change(delivery: RecordDelivery) -> None:
    assert delivery.next_message() is None
    assert delivery.is_settled


def test_whole_record_is_sent_once_and_then_appended_entries(delivery: RecordDelivery) -> None:
    delivery.say("one")
    delivery.send_changes()
    [whole] = delivery.deliver()
    assert whole["put"] == {"jp": delivery.record}
    had = len(delivery.entries)
    delivery.say("two")
    delivery.send_changes()
    assert not delivery.is_settled
    (append,) = delivery.deliver()
    assert append.keys() & {"put", "drop"} == set()
    assert append["expect"] == whole["state"] != append["state"]
    assert append["extend"] == {"at": had, "events": delivery.entries[had:]}
    assert delivery.is_settled


def test_unacknowledged_message_is_sent_again_and_then_the_page_is_asked_ever_more_rarely(
    delivery: RecordDelivery,
) -> None:
    delivery.say("one")
    delivery.send_changes()
    first = delivery.next_message()
    now = 0.0
    waits = []
    assert delivery.next_message(RESEND / 2) is None
    sent = []
    for _ in range(9):
        assert delivery.next_due is not None
        waits.append(delivery.next_due - now)
        now = delivery.next_due
        sent.append(delivery.next_message(now))
    assert delivery.is_silent
    assert sent[0] == first
    assert {message and message["type"] for message in sent[1:]} == {"pull"}
    assert waits == sorted(waits)
    assert waits[-1] == MAX_RESEND_S


def test_page_that_has_less_gets_all_entries_from_there(delivery: RecordDelivery) -> None:
    delivery.say("one", "two", "three")
    delivery.send_changes()
    delivery.deliver()
    delivery.refuse({"seq": 99, "why": "stale"})
    assert delivery.is_settled  # before the page has said what it holds
    delivery.report(delivery.record | {"events": delivery.entries[:2]}, state="reverted")
    (append,) = delivery.deliver()
    assert append["expect"] == "reverted"
    assert append["extend"] == {"at": 2, "events": delivery.entries[2:]}


def test_page_with_other_entries_of_the_conversation_has_diverged(delivery: RecordDelivery) -> None:
    delivery.say("one")
    delivery.send_changes()
    stored = delivery.record | {"events": [{"type": "chat_request", "content": "another"}]}
    assert not delivery.report(stored)
    assert delivery.report(delivery.record | {"events": []})
    delivery.repair()  # then the page does not know yet
    assert delivery.report(stored)


def test_answer_to_another_message_settles_nothing(delivery: RecordDelivery) -> None:
    delivery.say("one")
    delivery.send_changes()
    message = delivery.next_message()
    assert message is not None
    for answer in ({"seq": message["seq"] + 1}, {"state": "forged"}, {"page": "page-2"}):
        delivery.acknowledge({**message, **answer}, 0.0)
        assert not delivery.is_settled
    assert (delivery.next_message() or {})["type"] == "pull"  # what does the page hold?
    delivery.acknowledge(message, 0.25)
    assert delivery.is_settled
    assert delivery.latency == 0.25


# --- which page ------------------------------------------------------------------------------


def test_copy_is_followed_only_when_the_first_page_is_silent() -> None:
    pages = KnownPages()
    pages.follow("a", path="first.ipynb")
    copy: dict[str, Any] = {"path": "copy.ipynb", "document": {"conversation": {"id": "jp-c1"}}}
    assert not pages.should_follow("b", **copy)
    assert not pages.note_candidate("b", "jp-c2", **copy)
    assert pages.note_candidate("b", "jp-c1", **copy)
    assert pages.take_candidate(RESEND / 2) is None
    assert pages.hear("a", "first.ipynb")
    assert pages.take_candidate(RESEND) is None
    assert pages.note_candidate("b", "jp-c1", **copy)
    assert not pages.hear("b")
    assert pages.take_candidate(RESEND) == "b"


def test_record_in_pieces_is_read_when_it_is_complete() -> None:
    pages = KnownPages()
    assert (
        pages.read({"type": "hello", "page": "a", "path": "n.ipynb", "v": 2, "chunks": 2}) is None
    )
    assert pages.read({"type": "chunk", "page": "a", "i": 1, "text": '{"jp": {}}}'}) is None
    assert pages.read({"type": "chunk", "page": "a", "i": 0, "text": '{"keys": '}) == {
        "document": {}
    }


def test_number_of_pages_that_send_pieces_is_bounded() -> None:
    pages = KnownPages()
    for number in range(MAX_SENDING_PAGES + 1):
        pages.read({"type": "hello", "page": str(number), "chunks": 1})
    assert pages.read({"type": "chunk", "page": "0", "i": 0, "text": "{}"}) is None
    assert pages.read({"type": "chunk", "page": "1", "i": 0, "text": "{}"}) is not None


# --- the beat ----------------------------------------------------------------------------------


def appended(delivery: RecordDelivery, text: str, now: float) -> list[int]:
    """Append `text`; return the number of entries in each message that is sent at `now`."""
    delivery.say(text)
    delivery.send_changes()
    return [len(message["extend"]["events"]) for message in delivery.deliver(now)]


def in_step(delivery: RecordDelivery) -> None:
    """Bring the page to what there is."""
    delivery.say("before")
    delivery.send_changes()
    delivery.deliver()


def test_entries_soon_after_a_message_wait_for_the_next_batch(delivery: RecordDelivery) -> None:
    in_step(delivery)
    one = len(delivery.entries)
    first, *more = appended(delivery, "one", 10.0)
    assert first
    assert not more
    assert appended(delivery, "two", 10.0) == []
    assert delivery.next_due == 10.0 + MIN_BATCH_INTERVAL_S
    assert appended(delivery, "three", 10.0 + MIN_BATCH_INTERVAL_S / 2) == []
    later = delivery.deliver(10.0 + MIN_BATCH_INTERVAL_S)
    both = [len(message["extend"]["events"]) for message in later]
    assert both == [len(delivery.entries) - one - first]
    assert delivery.next_due is None


def test_hurried_delivery_does_not_wait_for_the_next_batch(delivery: RecordDelivery) -> None:
    in_step(delivery)
    assert len(appended(delivery, "one", 10.0)) == 1
    assert appended(delivery, "two", 10.0) == []
    delivery.hurry()
    assert len(delivery.deliver(10.0)) == 1
    assert appended(delivery, "three", 10.0) == []
    delivery.hurry()
    delivery.deliver(10.0)
    delivery.hurry()  # nothing is pending: the next change is not urgent
    assert appended(delivery, "four", 10.0) == []


def test_entries_beyond_one_message_are_sent_without_waiting(delivery: RecordDelivery) -> None:
    in_step(delivery)
    assert len(appended(delivery, "one", 10.0)) == 1
    delivery.say(*("x" * MAX_BATCH_BYTES for _ in range(3)))
    delivery.send_changes()
    assert delivery.deliver(10.0) == []
    assert len(delivery.deliver(10.0 + MIN_BATCH_INTERVAL_S)) >= 3


# --- pages that share a document -------------------------------------------------------------


def test_only_the_answer_of_the_writing_page_counts(delivery: RecordDelivery) -> None:
    delivery.write_with("first")
    delivery.say("one")
    delivery.send_changes()
    message = delivery.next_message()
    assert message is not None
    assert message["to"] == "first"
    delivery.acknowledge({**message, "page": "second"})
    assert not delivery.is_settled
    delivery.acknowledge({**message, "page": "first"})
    assert delivery.is_settled


def test_another_page_writes_when_the_writing_page_is_silent(delivery: RecordDelivery) -> None:
    delivery.write_with("first")
    delivery.say("one")
    delivery.send_changes()
    assert (delivery.next_message() or {})["type"] == "write"
    assert (delivery.next_message(RESEND) or {})["type"] == "pull"  # and not the same once more
    delivery.write_with("second")
    assert [message["to"] for message in delivery.deliver(RESEND)] == ["second"]


def test_first_page_of_a_shared_document_writes_until_it_is_silent() -> None:
    pages = KnownPages(collaborative=True)
    assert not pages.is_reader("first")
    pages.follow("first")
    assert pages.is_reader("second")
    pages.join("second")
    pages.silence()
    assert pages.hear("first")
    assert pages.is_reader("second")
    pages.silence()
    assert pages.hear("second")
    assert not pages.is_reader("second")
    assert pages.take_lacking() == [("first", ""), ("second", "")]


@pytest.mark.parametrize(
    ("page", "fields"),
    [("first", {}), ("second", {"collaborative": False}), ("second", {"path": "copy.ipynb"})],
)
def test_page_with_its_own_copy_does_not_only_read(page: str, fields: dict[str, Any]) -> None:
    pages = KnownPages(collaborative=True)
    pages.follow("first")
    assert not pages.is_reader(page, **fields)


def test_read_only_page_is_replaced_by_a_writable_one() -> None:
    pages = KnownPages(collaborative=True)
    pages.follow("first", read_only=True)
    assert pages.is_reader("second", read_only=True)
    assert not pages.is_reader("second")


# --- another conversation becomes active -------------------------------------------------------


class Holder:
    """A page that takes what is sent, and keeps what it holds."""

    def __init__(self, delivery: RecordDelivery) -> None:
        self.delivery = delivery
        self.view = View(named=("", "{}"))

    def says_hello(self) -> bool:
        """Tell what the page holds; return False if these are other entries."""
        content = json.loads(json.dumps([self.view.jp, self.view.segments]))
        return self.delivery.report(content[0], self.view.state, **content[1])

    @property
    def record(self) -> Any:
        """The record that the page holds."""
        return NotebookRecord.read_metadata(self.view.metadata())

    def takes(self, now: float = 0.0) -> list[list[int]]:
        """Take all that is sent; return the places of the conversations that it keeps."""
        kept = []
        while message := self.delivery.next_message(now):
            answer = self.view.answer(message)
            assert answer is not None
            assert answer["type"] == "ack"
            self.delivery.acknowledge(answer, now)
            kept.append([copy[1] for copy in message.get("copies", ())])
        return kept


@pytest.fixture
def holder(delivery: RecordDelivery) -> Holder:
    """A page that holds a conversation of two turns."""
    made = Holder(delivery)
    delivery.say("one", "two")
    delivery.send_changes()
    made.takes()
    return made


def test_page_keeps_its_conversations_when_another_one_begins(
    holder: Holder, delivery: RecordDelivery
) -> None:
    for name in ("jp-c2", "jp-c3", "jp-c4"):
        delivery.begin(name)
        delivery.say(f"in {name}")
        delivery.send_all()
        [kept] = holder.takes()
        assert holder.view.jp == delivery.record
    message = holder.view.writes("put")[-1]
    assert kept == [-1, 0, 1]
    assert message["put"]["jp"]["others"] == []


def test_missing_entries_of_a_conversation_are_sent_with_it(
    holder: Holder, delivery: RecordDelivery
) -> None:
    delivery.begin("jp-c2")
    delivery.say("in jp-c2")
    delivery.send_all()
    holder.takes()
    delivery.say("not sent yet")
    delivery.begin("jp-c3")
    delivery.send_all()
    assert holder.takes() == [[0]]
    assert holder.view.jp == delivery.record
    assert holder.view.writes("put")[-1]["copies"] == [[1, 0]]


def test_repaired_or_renamed_conversation_is_sent(holder: Holder, delivery: RecordDelivery) -> None:
    delivery.send_all()  # as a repair does, and the page does not know yet
    delivery.begin("jp-c2")
    delivery.send_all()
    assert holder.takes() == [[]]
    delivery.retitle("Bread")
    delivery.say("here")
    delivery.begin("jp-c3")
    delivery.send_all()
    assert holder.takes() == [[0]]
    assert holder.view.jp == delivery.record


def test_page_that_lacks_a_conversation_gets_the_whole_record(
    holder: Holder, delivery: RecordDelivery
) -> None:
    delivery.begin("jp-c2")
    delivery.say("in jp-c2")
    delivery.send_all()
    holder.takes()
    holder.view.jp["others"] = []  # as another program may do
    before = json.dumps(holder.view.jp)
    delivery.begin("jp-c3")
    delivery.send_all()
    message = delivery.next_message()
    hello = holder.view.answer(message)
    assert hello is not None
    assert hello["type"] == "hello"  # a write that does not fit changes nothing
    assert json.dumps(holder.view.jp) == before
    delivery.refuse({"seq": message["seq"], "why": "stale"})
    delivery.keep()
    holder.says_hello()
    delivery.send_all()
    holder.takes()
    assert holder.view.jp == delivery.record


def test_conversation_that_a_page_reports_is_kept_if_it_is_the_same(
    holder: Holder, delivery: RecordDelivery
) -> None:
    delivery.begin("jp-c2")
    delivery.say("in jp-c2")
    delivery.keep()
    holder.view.jp = json.loads(json.dumps(delivery.record))
    assert holder.says_hello()
    delivery.begin("jp-c3")
    delivery.send_all()
    assert holder.takes() == [[-1, 0]]
    assert holder.view.jp == delivery.record
    holder.view.jp["others"][1]["events"][0]["content"] = "changed elsewhere"
    assert holder.says_hello()
    delivery.begin("jp-c4")
    delivery.say("in jp-c4")
    delivery.send_all()
    holder.takes()
    assert holder.view.jp == delivery.record


# --- a document that pages share ---------------------------------------------------------------


@pytest.fixture
def sharer(holder: Holder, delivery: RecordDelivery) -> Holder:
    """A page that shares its document, with a record of 40 long entries and a foreign key."""
    holder.view.segments["jp.2"] = "of another program"
    delivery.write_with("page-1")
    assert holder.says_hello()
    for number in range(20):
        delivery.say(f"{number} {LONG_TEXT}")
        delivery.send_changes()
        delivery.hurry()
        holder.takes()
    return holder


LONG_TEXT = "x" * 4_000


def test_earlier_entries_are_in_segments_that_are_written_once(
    sharer: Holder, delivery: RecordDelivery
) -> None:
    view = sharer.view
    assert sharer.record == delivery.record
    assert view.segments.pop("jp.2") == "of another program"
    assert len(view.segments) >= 4
    assert len(json.dumps(view.jp)) < 18_000
    written = [key for message in view.writes("put") for key in message["put"] if key != "jp"]
    assert sorted(written) == sorted(view.segments)
    # An entry is sent alone, or with the entries of one segment.
    assert max(len(json.dumps(message)) for message in view.writes()) < 2 * 18_000
    assert len(view.writes("extend")) >= 10


def test_segments_of_a_page_are_used_by_the_next_kernel(
    sharer: Holder, delivery: RecordDelivery
) -> None:
    before = json.loads(json.dumps(sharer.view.segments))
    assert sharer.says_hello()
    sharer.view.received.clear()
    delivery.say("later")
    delivery.send_changes()
    delivery.hurry()
    sharer.takes()
    [message] = sharer.view.received
    assert len(message["extend"]["events"]) == 2
    delivery.begin("jp-c2")
    delivery.say("in jp-c2")
    delivery.send_all()
    sharer.takes()
    assert sharer.record == delivery.record
    assert {key: sharer.view.segments[key] for key in before if key != "jp.2"} == {
        key: value for key, value in before.items() if key != "jp.2"
    }
    assert len(json.dumps(sharer.view.received)) < 40_000


def test_segments_of_a_repaired_conversation_are_replaced(
    sharer: Holder, delivery: RecordDelivery
) -> None:
    before = sorted(sharer.view.segments)
    delivery.entries[0]["content"] = "repaired"
    delivery.send_all()
    sharer.takes()
    assert sharer.record == delivery.record
    assert not set(before) & sharer.view.segments.keys()


def test_segments_are_joined_where_no_pages_share_the_document(
    sharer: Holder, delivery: RecordDelivery
) -> None:
    unshared = RecordDelivery(new_stream)
    unshared.take_record(delivery)
    assert unshared.report(sharer.view.jp, sharer.view.state, **sharer.view.segments)
    unshared.say("alone")
    unshared.send_changes()
    unshared.hurry()
    holder = Holder(unshared)
    holder.view = sharer.view
    holder.takes()
    assert sharer.view.jp == unshared.record
    assert sharer.view.segments == {}


# --- the file ------------------------------------------------------------------------------------


def test_save_counts_with_the_entries_of_its_state(
    holder: Holder, delivery: RecordDelivery
) -> None:
    before = holder.view.state
    delivery.say("three")
    delivery.send_changes()
    delivery.hurry()
    holder.takes()
    assert delivery.find_state(before) == ("jp-c1", 4)
    assert delivery.find_state(holder.view.state) == ("jp-c1", 6)
    assert delivery.find_state("forged") is None
    delivery.send_all()  # repaired
    assert delivery.find_state(holder.view.state) is None
    for _ in range(2_000):
        delivery.retitle(f"{_}")
        delivery.send_changes()
        delivery.deliver(_)
    assert delivery.count_states() <= 1_024


def test_sent_head_is_that_of_the_last_change(delivery: RecordDelivery) -> None:
    delivery.say("one")
    delivery.send_changes()
    delivery.deliver()
    delivery.say("two")
    delivery.sign("2:told")
    delivery.send_changes()
    awaited = delivery.next_due
    delivery.send_changes()
    assert delivery.next_due == awaited  # the waiting thread needs no new time

    delivery.sign("2:not told yet")
    delivery.retitle("not told yet")
    [message] = delivery.deliver(MIN_BATCH_INTERVAL_S)
    head = message["extend"]["head"]
    assert head["signature"] == "2:told"
    assert "title" not in head["conversation"]
    assert "removed" not in message["extend"]
