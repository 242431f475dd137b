"""The kernel's side of the live protocol, against pages that behave well and badly."""

from __future__ import annotations

import json
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.notebook_record import NotebookRecord
from tests.kit.pages import PATIENCE, RESEND_S, PagesInProcess
from tests.kit.records import new_event
from tests.notebook.page.page_in_process import pages
from tests.support.scripted_page import View

IN_NOTEBOOK = "kept in this notebook"


__all__ = ["pages"]


def doc(*contents: str, **head: Any) -> dict[str, Any]:
    """A `jp` object with one request for each of `contents`."""
    events = [
        {"type": "chat_request", "timestamp": f"2025-01-31 09:00:0{i}.0", "content": text}
        for i, text in enumerate(contents)
    ]
    conversation = {"id": "jp-c1", "made": "live", **head}
    return {"version": 1, "conversation": conversation, "base_config": {}, "events": events}


def copy_of(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_entries_are_sent_with_the_first_turn_and_loading_writes_nothing(
    pages: PagesInProcess,
) -> None:
    assert pages.begin() == IN_NOTEBOOK
    assert not pages.opened.restored
    assert pages.stays_silent()
    pages.tell("one", "two")
    assert pages.store.save() == "kept in this notebook, saved as talk.ipynb"
    assert pages.view.contents() == ["one", "two"]
    first, *others = pages.view.received
    assert "put" in first
    assert all(m["type"] == "save" or "extend" in m for m in others)
    assert all(m["v"] == 2 and m["ctl"] for m in pages.view.received)


def test_conversation_of_the_notebook_continues(pages: PagesInProcess) -> None:
    pages.view.jp = doc("before") | {"future": {"kept": True}}
    pages.begin()
    assert pages.opened.restored
    assert pages.stays_silent()
    pages.tell("after")
    assert pages.view.contents() == ["before", "after"]
    assert pages.view.received[0]["extend"]["at"] == 1
    assert pages.view.jp["future"] == {"kept": True}


def test_new_conversation_is_sent_without_those_that_the_page_holds(pages: PagesInProcess) -> None:
    pages.begin()
    pages.say("one", "x" * 300_000)
    pages.tell("one more")
    pages.new()
    pages.tell("two")
    assert pages.view.contents() == ["two"]
    (old,) = pages.view.jp["others"]
    assert len(old["events"]) == 6
    (message,) = pages.view.writes("copies")
    assert len(json.dumps(message)) < 2_000
    reloaded = View(copy_of(pages.view.jp), page="page-2")
    pages.views = [reloaded]
    pages.send(reloaded, reloaded.hello())
    pages.new()
    pages.tell("three")
    assert [reloaded.contents(), len(reloaded.jp["others"])] == [["three"], 2]
    assert len(json.dumps(reloaded.received)) < 10_000


def test_head_is_sent_when_it_changes(pages: PagesInProcess) -> None:
    pages.begin()
    pages.tell("one")
    pages.tell("two")
    assert all("head" not in m["extend"] for m in pages.view.writes("extend"))
    pages.document.conversation.properties["title"] = "Bread"
    pages.store.changed()
    assert pages.flush()
    assert pages.view.jp["conversation"]["title"] == "Bread"
    assert pages.view.writes()[-1]["extend"]["events"] == []


def test_many_entries_are_sent_in_batches_of_bounded_size(pages: PagesInProcess) -> None:
    pages.view.jp = doc("x")
    pages.begin()
    for number in range(30):
        pages.say(str(number), "ä" * 25_000)
    assert pages.flush()
    assert pages.view.contents() == ["x", *map(str, range(30))]
    sizes = [len(json.dumps(m, ensure_ascii=False).encode()) for m in pages.view.received]
    assert max(sizes) < 257 * 1024
    assert len(sizes) < 60  # coalesced: fewer messages than entries


def test_entry_above_the_bound_and_long_document_are_sent_in_pieces(pages: PagesInProcess) -> None:
    pages.begin()
    pages.say("big", "ä😀" * 100_000)
    assert pages.flush()
    assert pages.view.jp["events"][2]["message"] == "ä😀" * 100_000
    pages.new()
    pages.tell("next")
    assert pages.view.contents() == ["next"]
    assert len(pages.view.of_type("chunk")) > 2
    assert pages.view.jp["others"][0]["events"][2]["message"] == "ä😀" * 100_000


def test_lost_message_is_sent_again_once_and_then_the_page_is_asked(pages: PagesInProcess) -> None:
    pages.view.jp = doc("x")
    pages.begin()
    pages.view.forget = 3
    pages.tell("one")
    assert pages.view.contents() == ["x", "one"]
    kinds = [m["type"] for m in pages.view.received]
    assert kinds[:3] == ["write", "write", "pull"]
    assert kinds.count("write") <= 4


def test_page_that_went_back_to_an_older_file_gets_what_it_lacks(pages: PagesInProcess) -> None:
    pages.begin()
    pages.tell("one", "two")
    pages.view.jp["events"] = pages.view.jp["events"][:1]
    pages.tell("three")
    assert pages.view.contents() == ["one", "two", "three"]


def test_reloaded_page_gets_what_it_missed(pages: PagesInProcess) -> None:
    pages.begin()
    pages.tell("one")
    pages.view.awake = False
    pages.say("two")
    pages.say("three")
    assert not pages.flush(0.2)
    reloaded = View(copy_of(pages.view.jp), page="page-2")
    pages.views = [reloaded]
    pages.send(reloaded, reloaded.hello())
    assert pages.flush()
    assert reloaded.contents() == ["one", "two", "three"]


def test_page_that_appears_late_gets_everything(pages: PagesInProcess) -> None:
    pages.view.awake = False
    assert pages.begin(timeout=0.05).startswith("kept in memory only: ")
    pages.say("early")
    pages.view.jp = doc("older")
    pages.view.awake = True
    pages.send(pages.view, pages.view.hello())
    pages.until(lambda: pages.view.contents() == ["early"])
    assert pages.view.jp["others"][0]["events"][0]["content"] == "older"
    assert "did not have" in str(pages.store.take_notices())
    assert pages.store.location == IN_NOTEBOOK


def test_two_pages_of_one_document_end_with_the_same(pages: PagesInProcess) -> None:
    pages.views.append(View(page="page-2"))
    pages.begin()
    pages.tell("one")
    pages.views[1].jp["events"] = []  # this one was restored from an older file
    pages.tell("two")
    pages.until(lambda: all(v.contents() == ["one", "two"] for v in pages.views))


def test_other_notebook_on_the_same_kernel_is_left_alone(pages: PagesInProcess) -> None:
    pages.begin()
    pages.tell("one")
    other = View(doc("other"), page="page-9", path="other.ipynb")
    pages.views.append(other)
    pages.send(other, other.hello())
    pages.tell("two")
    assert pages.view.contents() == ["one", "two"]
    assert other.contents() == ["other"]
    assert "others" not in pages.view.jp


def test_new_conversation_keeps_the_old_one(pages: PagesInProcess) -> None:
    pages.begin()
    pages.say("one")
    pages.new()
    pages.tell("two")
    assert pages.view.contents() == ["two"]
    assert [len(o["events"]) for o in pages.view.jp["others"]] == [3]


DAMAGED = {"version": 1, "conversation": {"id": "jp-c1"}, "events": [{"type": "chat_request"}]}


@pytest.mark.parametrize("damaged", [DAMAGED, None, 7], ids=["event", "null", "number"])
def test_damaged_record_is_kept_until_a_new_conversation_sets_it_aside(
    pages: PagesInProcess, damaged: Any
) -> None:
    pages.view.jp = damaged
    pages.view.has_null = damaged is None
    assert pages.begin().startswith("kept in memory only: the record in this notebook is damaged")
    pages.say("one")
    assert pages.stays_silent()
    with pytest.raises(jp.StorageError, match="damaged"):
        pages.store.save()
    pages.new()
    pages.tell("two")
    assert pages.view.contents() == ["two"]
    assert damaged in pages.view.jp["others"]
    assert len(pages.view.jp["others"]) == 2


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (View(doc("one") | {"version": 2}), "version 2"),
        (View(doc("one"), read_only=True), "this notebook is read-only"),
        (View(doc("one"), protocol=1), "the page uses an older protocol: reload it"),
        (View(doc("one"), protocol=3), "the page uses a newer protocol: update jp_nb"),
    ],
    ids=["newer record", "read-only", "older protocol", "newer protocol"],
)
def test_notebook_that_must_not_be_written_is_not_written(
    pages: PagesInProcess, view: View, why: str
) -> None:
    pages.views = [view]
    where = pages.begin()
    assert where.startswith("kept in memory only: ")
    assert why in where
    assert pages.opened.restored is ("version" not in why)
    pages.say("two")
    pages.new()
    pages.say("three")
    assert pages.stays_silent()
    assert not pages.flush(0)


def test_other_entries_of_the_same_conversation_are_not_overwritten(pages: PagesInProcess) -> None:
    pages.view.jp = doc("one")
    pages.begin()
    pages.tell("two")
    pages.view.jp = doc("one", "elsewhere")
    pages.send(pages.view, pages.view.hello())
    assert "different entries" in pages.store.location
    pages.view.received.clear()
    pages.say("three")
    assert pages.stays_silent()
    assert pages.view.contents() == ["one", "elsewhere"]
    pages.new()
    pages.tell("four")
    assert pages.view.contents() == ["four"]
    kept = [[e.get("content") for e in o["events"]] for o in pages.view.jp["others"]]
    assert ["one", "elsewhere"] in kept


def test_failed_save_gives_the_reason(pages: PagesInProcess) -> None:
    pages.view.save_error = "disk full"
    pages.begin()
    pages.say("one")
    with pytest.raises(jp.StorageError, match=r"^The record is not saved: disk full$"):
        pages.store.save()


def test_one_page_of_two_writes_the_file_and_the_other_one_once_that_is_gone(
    pages: PagesInProcess,
) -> None:
    pages.views.append(View(page="page-2"))
    pages.begin()
    pages.say("one")
    assert pages.store.save() == "kept in this notebook, saved as talk.ipynb"
    assert sum(view.saves for view in pages.views) == 1
    [saved] = [view for view in pages.views if view.saves]
    saved.awake = False
    assert pages.store.save(timeout=0.6) == "kept in this notebook, saved as talk.ipynb"
    assert [view.saves for view in pages.views] == [1, 1]
    pages.views.clear()
    with pytest.raises(jp.StorageError, match="the page did not answer in time"):
        pages.store.save(timeout=0.1)


def test_entries_saved_before_a_repair_are_not_counted(pages: PagesInProcess) -> None:
    pages.begin()
    pages.tell("one")
    pages.store.save()
    stream = pages.document.conversation.id
    entries = len(pages.view.jp["events"])
    saved = {"type": "saved", "state": pages.view.state}
    assert pages.store.count_saved_entries(stream) == entries
    pages.view.awake = False
    pages.store.replaced()
    assert pages.store.count_saved_entries(stream) == 0
    pages.send(pages.view, saved)  # the page does not know yet
    pages.view.awake = True
    assert pages.flush()
    assert pages.store.count_saved_entries(stream) == 0
    pages.send(pages.view, saved)  # the message was late
    assert pages.store.count_saved_entries(stream) == 0
    pages.send(pages.view, {"type": "saved", "state": pages.view.state})
    assert pages.store.count_saved_entries(stream) == entries


def test_values_that_no_file_can_hold_are_replaced(pages: PagesInProcess) -> None:
    pages.begin()
    pages.say("Use the tool.")
    arguments: dict[str, Any] = {"a": float("nan"), "b": "\ud800x", "__proto__": {"c": 1}}
    pages.document.conversation.append(
        new_event("tool_call_request", id="c", name="t", arguments=arguments)
    )
    assert pages.flush()
    stored = pages.view.jp["events"][-1]["arguments"]
    assert stored == {"a": None, "b": "\ufffdx", "__proto__": {"c": 1}}


def test_malformed_messages_of_a_page_do_no_harm(pages: PagesInProcess) -> None:
    pages.begin()
    malformed: list[dict[str, Any]] = [
        {"type": "ack"},
        {"type": "ack", "seq": {}, "state": 7},
        {"type": "nack", "seq": None, "why": []},
        {"type": "chunk", "i": 10**9, "text": 7},
        {"type": "saved", "seq": "1"},
        {"type": ["hello"]},
        {"type": "ack", "page": ["page-1"]},
        {"type": "hello", "page": {}, "path": [], "state": 7, "keys": "x", "chunks": -1},
        {"type": "hello", "path": "talk.ipynb", "keys": [], "carriers": 7, "page": "page-1"},
    ]
    for data in malformed:
        pages.send(pages.view, data)
    pages.tell("one")
    assert pages.view.contents() == ["one"]


def test_closed_store_sends_nothing_and_the_next_one_continues(pages: PagesInProcess) -> None:
    pages.begin()
    pages.tell("one")
    pages.store.close()
    pages.view.received.clear()
    pages.say("lost")
    assert pages.stays_silent()
    assert pages.begin() == IN_NOTEBOOK
    assert pages.opened.restored
    pages.tell("two")
    assert pages.view.contents() == ["one", "two"]


def test_copy_of_the_notebook_on_the_same_kernel_does_not_take_the_record(
    pages: PagesInProcess,
) -> None:
    pages.begin()
    pages.tell("one")
    copied = View(copy_of(pages.view.jp), page="page-9", path="copy.ipynb")
    pages.views.append(copied)
    pages.send(copied, copied.hello())
    pages.until(lambda: pages.view.of_type("pull"))  # is the first one still there?
    pages.tell("two")
    assert pages.view.contents() == ["one", "two"]
    assert copied.contents() == ["one"]


def test_renamed_and_reloaded_notebook_is_followed(pages: PagesInProcess) -> None:
    pages.begin()
    pages.tell("one")
    pages.views[0] = View(pages.view.jp, page="page-2", path="renamed.ipynb")
    pages.send(pages.view, pages.view.hello())
    pages.tell("two")
    assert pages.view.contents() == ["one", "two"]


@pytest.mark.parametrize(
    "later",
    [
        {"type": "seen", "request": "r"},
        {"type": "saved", "state": "unknown"},
        {"type": "ack", "seq": 1, "state": "unknown"},
        {"type": "input", "seq": 1, "can": True},
    ],
    ids=lambda data: data["type"],
)
def test_renamed_notebook_is_followed_though_its_page_sends_another_message(
    pages: PagesInProcess, later: dict[str, Any]
) -> None:
    pages.begin()
    pages.tell("one")
    pages.view.path = "renamed.ipynb"
    pages.send(pages.view, pages.view.hello())
    pages.send(pages.view, later)
    pages.tell("two")
    assert pages.view.contents() == ["one", "two"]


def test_notebook_that_two_windows_rename_is_followed(pages: PagesInProcess) -> None:
    pages.views.append(View(page="page-2"))
    pages.begin()
    pages.tell("one")
    for view in pages.views:
        view.path = "renamed.ipynb"
        pages.send(view, view.hello())
    pages.send(pages.view, {"type": "seen", "request": "r"})
    pages.tell("two")
    pages.until(lambda: all(view.contents() == ["one", "two"] for view in pages.views))


def test_page_that_answers_keeps_the_record_from_one_that_takes_its_name(
    pages: PagesInProcess,
) -> None:
    pages.begin()
    pages.tell("one")
    forged = {"type": "hello", "v": 2, "page": "page-1", "path": "other.ipynb", "keys": {}}
    pages.post(forged)
    pages.post({"type": "seen", "page": "page-1", "request": "r"})
    sleep(3 * RESEND_S)
    pages.tell("two")
    assert pages.view.contents() == ["one", "two"]


# --- the end of a cell -------------------------------------------------------------------------


def test_end_of_a_cell_waits_until_a_slow_page_has_its_record(
    pages: PagesInProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both are far above the time that the page needs, also on a busy machine.
    monkeypatch.setattr("jp_nb.notebook.page.live_store.END_OF_CELL_S", PATIENCE)
    pages.resend_s = PATIENCE
    pages.begin()
    pages.view.slow = 0.05
    pages.say("one")
    pages.say("two")  # waits for the acknowledgement of the first
    pages.store.flush_after_cell()
    assert pages.view.contents() == ["one", "two"]


@pytest.mark.parametrize("gone", ["asleep", "never there"])
def test_end_of_a_cell_does_not_wait_for_a_page_that_is_gone(
    pages: PagesInProcess, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    monkeypatch.setattr("jp_nb.notebook.page.live_store.END_OF_CELL_S", 3600)
    if gone == "never there":
        pages.views.clear()
    pages.begin(timeout=10.0 if pages.views else 0.01)
    for view in pages.views:
        pages.tell("one")
        view.awake = False
    pages.say("two")
    pages.store.flush_after_cell()
    pages.say("three")
    pages.store.flush_after_cell()
    for view in pages.views:
        view.awake = True
        pages.until(lambda: view.contents() == ["one", "two", "three"])


@pytest.mark.parametrize("name", ["talk.py", "sub/talk.md", "talk.Rmd", "RTC:talk.qmd"])
def test_text_notebook_does_not_keep_the_record(name: str, pages: PagesInProcess) -> None:
    pages.view.path = name
    assert "talk" in pages.begin()
    assert "is a text notebook, which does not store conversations" in pages.store.location
    assert pages.opened.without_notebook  # its journal keeps the conversation
    pages.say("one")
    assert pages.stays_silent()
    assert pages.store.count_saved_entries(pages.document.conversation.id) == 0


def test_text_notebook_with_a_paired_notebook_keeps_the_record(
    pages: PagesInProcess, tmp_path: Path
) -> None:
    (tmp_path / "talk.ipynb").touch()
    pages.view.path = "talk.py"
    pages.begin()
    pages.tell("one")
    assert pages.view.contents() == ["one"]
    assert not pages.opened.without_notebook


# --- the content of a page ---------------------------------------------------------------------


def carrier(jp: dict[str, Any]) -> dict[str, Any]:
    """The widget in which a headless run has left `jp`."""
    head = {key: value for key, value in jp.items() if key != "events"}
    return {"model_module": "jp-nb", "state": {"jp": head, "seen": {}, "events.0": jp["events"]}}


def test_first_write_moves_the_record_of_a_headless_run_and_loading_does_not(
    pages: PagesInProcess,
) -> None:
    damaged = {"model_module": "jp-nb", "state": {}}
    pages.view.carriers = {"run": carrier(doc("before", made="headless")), "damaged": damaged}
    pages.begin()
    assert pages.opened.restored
    assert pages.stays_silent()
    pages.tell("after")
    pages.tell("later")
    assert pages.view.contents() == ["before", "after", "later"]
    assert pages.view.carriers == {"damaged": damaged}
    first, *others = pages.view.writes()
    assert first["carriers"] == ["run"]
    assert all("extend" in message for message in others)


def test_append_to_a_long_record_is_short(pages: PagesInProcess) -> None:
    pages.view.jp = doc("x" * 5_000_000)
    pages.begin()
    pages.tell("after")
    # The store may write the request before the response follows.
    assert pages.view.received
    assert all(len(json.dumps(message)) < 1_000 for message in pages.view.received)
    assert pages.view.contents()[-1] == "after"


@pytest.mark.parametrize("collaborative", [False, True], ids=["alone", "shared"])
def test_changed_content_of_a_page_gets_what_it_lacks(
    pages: PagesInProcess, collaborative: bool
) -> None:
    pages.view.collaborative = collaborative
    pages.begin()
    texts = [f"{number} {'x' * 5_000}" for number in range(10)]
    pages.tell(*texts)
    assert bool(pages.view.segments) is collaborative
    head = {key: value for key, value in pages.view.jp.items() if key != "sealed"}
    pages.view.jp = {**head, "version": 1, "events": []}  # as another page may write
    pages.view.segments.clear()
    pages.tell("later")
    assert bool(pages.view.segments) is collaborative
    read: Any = NotebookRecord.read_metadata(pages.view.metadata())
    contents = [e["content"] for e in read["events"] if e["type"] == "chat_request"]
    assert contents == [*texts, "later"]


def test_second_window_with_another_record_is_not_written_when_the_first_one_is_followed_again(
    pages: PagesInProcess,
) -> None:
    pages.begin()
    pages.tell("one")
    newer = doc("theirs") | {"version": 99}
    other = View(copy_of(newer), page="page-2")
    pages.views.append(other)
    pages.send(other, other.hello())
    assert "version 99" in pages.store.location
    pages.send(pages.view, pages.view.hello())
    pages.tell("two")
    pages.new()
    pages.tell("three")
    assert pages.view.contents() == ["three"]
    assert other.jp == newer
    assert "page-2" not in [message["to"] for message in other.writes()]


def test_second_window_that_was_silent_gets_everything_when_it_answers_again(
    pages: PagesInProcess,
) -> None:
    pages.views.append(View(page="page-2"))
    pages.begin()
    pages.tell("one")
    first, second = pages.views
    pages.until(lambda: second.jp == first.jp)
    pages.send(first, first.hello())  # the kernel follows it
    second.awake = False
    pages.tell("two")
    pages.until(lambda: pages.store._deliveries.find("page-2") is None)
    sent = len(first.received)
    pages.tell("three")
    assert {message.get("to") for message in first.received[sent:]} == {"page-1"}
    second.awake = True
    pages.send(second, {"type": "ack", "seq": 1, "state": "late"})
    pages.until(lambda: second.contents() == ["one", "two", "three"])


def test_record_of_an_older_page_is_read_and_its_journal_is_kept(pages: PagesInProcess) -> None:
    pages.views = [View(doc("before"), protocol=1)]
    where = pages.begin()
    assert "the page uses an older protocol: reload it" in where
    assert pages.opened.restored
    pages.say("after")
    assert pages.stays_silent()
    assert pages.store.count_saved_entries("jp-c1") == 0
    assert pages.view.contents() == ["before"]

    reloaded = View(pages.view.jp, page="page-2")
    pages.views = [reloaded]
    pages.send(reloaded, reloaded.hello())
    assert pages.flush()
    assert reloaded.contents() == ["before", "after"]
