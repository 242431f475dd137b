"""The kernel's side of the live protocol, against pages that behave well and badly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from tests.support.scripted_page import SETUP, FrontEnd, View, kernel

BEGUN = "kept in this notebook; new\n"


@pytest.fixture
def front(tmp_path: Path) -> Iterator[FrontEnd]:
    with kernel(tmp_path) as started:
        yield started


def doc(*contents: str, **head: Any) -> dict[str, Any]:
    """A `jp` object with one request for each of `contents`."""
    events = [
        {"type": "chat_request", "timestamp": f"2025-01-31 09:00:0{i}.0", "content": text}
        for i, text in enumerate(contents)
    ]
    conversation = {"id": "jp-c1", "made": "live", **head}
    return {"version": 1, "conversation": conversation, "base_config": {}, "events": events}


def test_entries_arrive_while_their_cell_runs_and_loading_alone_writes_nothing(
    front: FrontEnd,
) -> None:
    assert front.run(SETUP) == BEGUN
    front.pause(0.3)
    assert front.view.received == []
    front.run("say('one'); say('two'); flushed()\nprint(in_cell.opened.store.save())")
    assert front.view.contents() == ["one", "two"]
    assert front.view.received[0]["type"] == "switch"
    assert {m["type"] for m in front.view.received[1:]} <= {"append", "save"}
    assert all(m["v"] == 1 and m["ctl"] for m in front.view.received)


def test_the_notebooks_conversation_goes_on(front: FrontEnd) -> None:
    front.view.jp = doc("before") | {"future": {"kept": True}}
    assert front.run(SETUP) == "kept in this notebook; restored, 1 turns\n"
    front.pause(0.3)
    assert front.view.received == []
    front.run("say('after'); flushed()")
    assert front.view.contents() == ["before", "after"]
    assert (front.view.received[0]["type"], front.view.received[0]["base"]) == ("append", 1)
    assert front.view.jp["future"] == {"kept": True}


def test_a_new_conversation_is_sent_without_those_that_the_page_holds(front: FrontEnd) -> None:
    front.view.tells = ["exchange"]
    front.run(SETUP)
    front.run("for i in range(20): say(str(i), 'x' * 100_000)\nflushed()")
    front.run("new(); say('two'); flushed()")
    assert front.view.contents() == ["two"]
    (old,) = front.view.jp["others"]
    assert len(old["events"]) == 60
    (message,) = front.view.of_type("exchange")
    assert len(json.dumps(message)) < 2_000
    reloaded = View(json.loads(json.dumps(front.view.jp)), page="page-2")  # an older script
    front.views = [reloaded]
    front.send(reloaded, reloaded.hello())
    front.run("new(); say('three'); flushed()")
    assert [reloaded.contents(), len(reloaded.jp["others"])] == [["three"], 2]


def test_a_head_travels_when_it_changes(front: FrontEnd) -> None:
    front.run(SETUP)
    front.run("say('one'); flushed()")
    front.run("say('two'); flushed()")
    assert all("head" not in m for m in front.view.of_type("append"))
    front.run(
        "in_cell.opened.document.conversation.head['title'] = 'Bread'\n"
        "in_cell.opened.store.changed(); flushed()"
    )
    assert front.view.jp["conversation"]["title"] == "Bread"
    assert front.view.of_type("append")[-1]["events"] == []


def test_many_entries_travel_in_batches_of_bounded_size(front: FrontEnd) -> None:
    front.view.jp = doc("x")
    front.run(SETUP)
    front.run("for i in range(30): say(str(i), 'ä' * 25_000)\nflushed()")
    assert front.view.contents() == ["x", *map(str, range(30))]
    sizes = [len(json.dumps(m, ensure_ascii=False).encode()) for m in front.view.received]
    assert max(sizes) < 257 * 1024
    assert len(sizes) < 60  # coalesced: fewer messages than entries


def test_one_entry_above_the_bound_and_a_long_document_travel_too(front: FrontEnd) -> None:
    front.run(SETUP)
    front.run("say('big', 'ä😀' * 200_000); flushed()")
    assert front.view.jp["events"][2]["message"] == "ä😀" * 200_000
    front.run("new(); say('next'); flushed()")
    assert front.view.contents() == ["next"]
    assert len(front.view.of_type("chunk")) > 2
    assert front.view.jp["others"][0]["events"][2]["message"] == "ä😀" * 200_000


def test_a_lost_message_is_sent_again_and_then_only_asked_about(front: FrontEnd) -> None:
    front.view.jp = doc("x")
    front.run(SETUP)
    front.view.forget = 3
    front.run("say('one'); flushed(1.0)")
    front.until(lambda: front.view.contents() == ["x", "one"])
    kinds = [m["type"] for m in front.view.received]
    assert kinds[:3] == ["append", "append", "pull"]
    assert kinds.count("append") <= 4


def test_a_gap_is_filled(front: FrontEnd) -> None:
    front.run(SETUP)
    front.run("say('one'); say('two'); flushed()")
    front.view.jp["events"] = front.view.jp["events"][:1]  # reverted from disk
    front.run("say('three'); flushed()")
    assert front.view.contents() == ["one", "two", "three"]


def test_a_page_that_was_reloaded_gets_what_it_missed(front: FrontEnd) -> None:
    front.run(SETUP)
    front.run("say('one'); flushed()")
    front.view.awake = False
    assert "not flushed" in front.run("say('two'); say('three'); flushed(0.5)")
    reloaded = View(json.loads(json.dumps(front.view.jp)), page="page-2")
    front.views = [reloaded]
    front.send(reloaded, reloaded.hello())
    front.until(lambda: reloaded.contents() == ["one", "two", "three"])
    assert front.run("flushed()") == "flushed\n"


def test_a_page_that_appears_late_gets_everything(front: FrontEnd) -> None:
    front.view.awake = False
    said = front.run(SETUP.replace("begin()", "begin(timeout=0.5)") + "\nsay('early')")
    assert said.startswith("kept in memory only: ")
    front.view.jp, front.view.awake = doc("older"), True
    front.send(front.view, front.view.hello())
    front.until(lambda: front.view.contents() == ["early"])
    assert front.view.jp["others"][0]["events"][0]["content"] == "older"
    assert "did not know" in front.run("print(in_cell.opened.store.take_notices())")
    assert front.run("print(in_cell.opened.store.where)") == "kept in this notebook\n"


def test_two_pages_of_one_document_end_with_the_same(front: FrontEnd) -> None:
    front.views.append(View(page="page-2"))
    front.run(SETUP)
    front.run("say('one'); flushed()")
    front.views[1].jp["events"] = []  # this one was restored from an older file
    front.run("say('two'); flushed()")
    front.until(lambda: all(v.contents() == ["one", "two"] for v in front.views))


def test_another_notebook_on_the_same_kernel_is_left_alone(front: FrontEnd) -> None:
    front.run(SETUP)
    front.run("say('one'); flushed()")
    other = View(doc("other"), page="page-9", path="other.ipynb")
    front.views.append(other)
    front.send(other, other.hello())
    front.run("say('two'); flushed()")
    assert front.view.contents() == ["one", "two"]
    assert other.contents() == ["other"]
    assert "others" not in front.view.jp


def test_a_new_conversation_keeps_the_old_one(front: FrontEnd) -> None:
    front.run(SETUP)
    front.run("say('one'); new(); say('two'); flushed()")
    assert front.view.contents() == ["two"]
    assert [len(o["events"]) for o in front.view.jp["others"]] == [3]


DAMAGED = {"version": 1, "conversation": {"id": "jp-c1"}, "events": [{"type": "chat_request"}]}


@pytest.mark.parametrize("damaged", [DAMAGED, None, 7, {"events": {}}], ids=str)
def test_damage_is_never_overwritten_until_a_new_conversation_sets_it_aside(
    front: FrontEnd, damaged: Any
) -> None:
    if damaged is None:
        front.view.hello = lambda: {  # type: ignore[method-assign]  # null is there, not absent
            "type": "hello",
            "path": "talk.ipynb",
            "doc": front.view.jp,
        }
    front.view.jp = damaged
    said = front.run(SETUP)
    assert said.startswith("kept in memory only: the record in this notebook is damaged")
    front.run("say('one')")
    front.pause(0.3)
    assert front.view.received == []
    assert "damaged" in front.run(
        "try: in_cell.opened.store.save()\nexcept Exception as e: print(e)"
    )
    front.run("new(); say('two'); flushed()")
    assert front.view.contents() == ["two"]
    assert damaged in front.view.jp["others"]
    assert len(front.view.jp["others"]) == 2


def test_a_newer_record_stays_as_it_is(front: FrontEnd) -> None:
    front.view.jp = doc("one") | {"version": 2}
    assert "version 2" in front.run(SETUP)
    front.run("say('one'); new(); say('two')")
    front.pause(0.3)
    assert front.view.received == []


def test_a_read_only_notebook_is_read_and_not_written(front: FrontEnd) -> None:
    front.view.jp, front.view.read_only = doc("one"), True
    assert front.run(SETUP) == (
        "kept in memory only: this notebook is read-only; restored, 1 turns\n"
    )
    front.run("say('two'); new(); say('three')")
    front.pause(0.3)
    assert front.view.received == []


def test_an_unknown_protocol_is_read_only(front: FrontEnd) -> None:
    front.view.protocol = 2
    assert "another protocol" in front.run(SETUP)


def test_other_entries_of_the_same_conversation_are_not_overwritten(front: FrontEnd) -> None:
    front.view.jp = doc("one")
    front.run(SETUP)
    front.run("say('two'); flushed()")
    front.view.jp = doc("one", "elsewhere")
    front.send(front.view, front.view.hello())
    front.until(lambda: "other entries" in front.run("print(in_cell.opened.store.where)"))
    front.run("say('three')")
    front.pause(0.3)
    assert front.view.contents() == ["one", "elsewhere"]
    front.run("new(); say('four'); flushed()")
    assert front.view.contents() == ["four"]
    kept = [[e.get("content") for e in o["events"]] for o in front.view.jp["others"]]
    assert ["one", "elsewhere"] in kept


def test_a_failed_save_says_why(front: FrontEnd) -> None:
    front.view.save_error = "disk full"
    front.run(SETUP)
    said = front.run(
        "say('one')\ntry: in_cell.opened.store.save()\nexcept Exception as e: print(e)"
    )
    assert said == "the record is not saved: disk full\n"


def test_one_page_of_two_writes_the_file(front: FrontEnd) -> None:
    front.views.append(View(page="page-2"))
    front.run(SETUP)
    said = front.run("say('one')\nprint(in_cell.opened.store.save())")
    assert said == "kept in this notebook, saved as talk.ipynb\n"
    assert sum(view.saves for view in front.views) == 1


def test_the_page_that_is_left_writes_the_file(front: FrontEnd) -> None:
    front.views.append(View(page="page-2"))
    front.run(SETUP)
    front.run("say('one'); flushed(); in_cell.opened.store.save()")
    [saved] = [view for view in front.views if view.saves]
    saved.awake = False
    said = front.run("print(in_cell.opened.store.save(timeout=4))")
    assert said == "kept in this notebook, saved as talk.ipynb\n"
    assert [view.saves for view in front.views] == [1, 1]
    front.views.clear()
    said = front.run("try: in_cell.opened.store.save(timeout=0.2)\nexcept Exception as e: print(e)")
    assert said == "the record is not saved: the page did not answer in time\n"


def test_what_was_saved_before_a_repair_is_no_count_of_the_entries_now(front: FrontEnd) -> None:
    count = "print(in_cell.opened.store.saved_entries(in_cell.opened.document.conversation.id))"
    front.run(SETUP)
    front.run("say('one'); flushed(); in_cell.opened.store.save()")
    entries = len(front.view.jp["events"])
    saved = {"type": "saved", "stream": front.view.jp["conversation"]["id"], "n": entries}
    assert front.run(count) == f"{entries}\n"
    front.view.awake = False
    assert front.run(f"in_cell.opened.store.replaced()\n{count}") == "0\n"
    front.send(front.view, saved)  # the page does not know yet
    front.view.awake = True
    front.run("flushed()")
    assert front.run(count) == "0\n"
    front.send(front.view, saved)
    front.until(lambda: front.run(count) == f"{entries}\n")


def test_what_no_file_can_hold_is_replaced(front: FrontEnd) -> None:
    front.run(SETUP)
    front.run("use_tool({'a': float('nan'), 'b': '\\ud800x', '__proto__': {'c': 1}}); flushed()")
    arguments = front.view.jp["events"][2]["arguments"]
    assert arguments == {"a": None, "b": "\ufffdx", "__proto__": {"c": 1}}


def test_garbage_from_a_page_does_no_harm(front: FrontEnd) -> None:
    front.run(SETUP)
    garbage: list[dict[str, Any]] = [
        {"type": "ack"},
        {"type": "ack", "seq": {}, "n": -1},
        {"type": "nack", "seq": None, "n": "x", "stream": []},
        {"type": "chunk", "i": 10**9, "text": 7},
        {"type": "saved", "seq": "1"},
        {"type": ["hello"]},
        {"type": "ack", "page": ["page-1"]},
        {"type": "hello", "page": {}, "path": [], "stream": 7, "n": "x", "chunks": -1},
    ]
    for data in garbage:
        front.send(front.view, data)
    front.run("say('one'); flushed()")
    assert front.view.contents() == ["one"]


def test_after_close_nothing_is_sent(front: FrontEnd) -> None:
    front.run(SETUP)
    front.run("say('one'); flushed(); in_cell.opened.store.close()")
    before = len(front.view.received)
    front.run("say('two')")
    front.pause(0.3)
    assert len(front.view.received) == before


def test_a_second_load_in_the_same_kernel_goes_on(front: FrontEnd) -> None:
    front.run(SETUP)
    front.run("say('one'); flushed(); in_cell.opened.store.close()")
    assert front.run("begin()") == "kept in this notebook; restored, 1 turns\n"
    front.run("say('two'); flushed()")
    assert front.view.contents() == ["one", "two"]


def test_a_copy_of_the_notebook_on_the_same_kernel_does_not_take_the_record(
    front: FrontEnd,
) -> None:
    front.run(SETUP)
    front.run("say('one'); flushed()")
    copy = View(json.loads(json.dumps(front.view.jp)), page="page-9", path="copy.ipynb")
    front.views.append(copy)
    front.send(copy, copy.hello())
    front.until(lambda: bool(front.view.of_type("pull")))  # is the first one still there?
    front.run("say('two'); flushed()")
    assert front.view.contents() == ["one", "two"]
    assert copy.contents() == ["one"]


def test_a_renamed_notebook_whose_page_was_loaded_again_is_followed(front: FrontEnd) -> None:
    front.run(SETUP)
    front.run("say('one'); flushed()")
    front.views[0] = View(front.view.jp, page="page-2", path="renamed.ipynb")
    front.send(front.view, front.view.hello())
    front.run("say('two'); flushed()")
    front.until(lambda: front.view.contents() == ["one", "two"])


def test_a_console_on_the_notebooks_kernel_adds_to_its_record_alone(front: FrontEnd) -> None:
    front.run(SETUP)
    front.run("say('one'); flushed()")
    console = BlockingKernelClient()
    console.load_connection_info(front.client.get_connection_info())
    console.start_channels()
    try:
        console.execute("say('two')")
        front.until(lambda: front.view.contents() == ["one", "two"])
        assert {m["path"] for m in front.view.received} == {front.view.path}
    finally:
        console.stop_channels()
