"""The progress of tool calls in the journal of a conversation."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest

from jp_nb.record.unfinished_calls import CallProgress
from jp_nb.session.session import Session
from tests.kit.records import new_event
from tests.kit.sessions import directive
from tests.session.journals import entry_types, journal_files, open_session, read_lines
from tests.support.fake_host import FakeHome, FakeHost

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes")


def with_open_calls(folder: Path, **home: Any) -> Session:
    """A session with two open tool calls: one has finished, the other waits."""
    session = open_session(folder, None, **home)
    stream = session.document.conversation
    stream.start_turn(new_event("chat_request", content="Mark."))
    calls = [
        new_event("tool_call_request", id=w, name="leave_mark", arguments={"word": w}) for w in "ab"
    ]
    stream.append(*calls)
    raw: Any = stream.raw
    first, second = (entry["event_id"] for entry in raw[-2:])
    result = new_event(
        "tool_call_response", timestamp=stream.now(), id="a", content="marked a", is_error=False
    )
    finished = CallProgress("finished", (result.to_raw(),))
    session.active.journal_use.keep_progress({first: finished})
    session.active.journal_use.keep_progress({second: CallProgress("asked")})
    return session


def open_stages(session: Session) -> dict[str, str]:
    """Return the known progress of the open calls, by their ids."""
    stream: Any = session.document.conversation
    progress = session.active.journal_use.call_progress
    opened = {call.id for call in stream.list_open_tool_calls()}
    calls = [raw for raw in stream.raw if raw["type"] == "tool_call_request"]
    return {raw["id"]: progress[raw["event_id"]].stage for raw in calls if raw["id"] in opened}


def assert_the_result_is_back(session: Session) -> None:
    assert entry_types(session)[-1] == "tool_call_response"
    assert session.document.conversation.raw[-1]["content"] == "marked a"
    assert open_stages(session) == {"b": "asked"}
    assert session.active.trust.trusted
    assert [notice for notice in session.notices if "leave_mark has finished" in notice]


def test_notice_names_the_tool_of_two_finished_calls_once(clean_folder: Path) -> None:
    session = with_open_calls(clean_folder)
    stream: Any = session.document.conversation
    second = stream.raw[-1]
    result = new_event(
        "tool_call_response", timestamp=stream.now(), id="b", content="marked b", is_error=False
    )
    finished = CallProgress("finished", (result.to_raw(),))
    session.active.journal_use.keep_progress({second["event_id"]: finished})
    stored = session.document.to_json()
    session.close()

    again = open_session(clean_folder, stored)
    [notice] = [notice for notice in again.notices if "finished" in notice]
    assert "leave_mark has finished: the results are kept" in notice
    again.close()


def test_result_in_the_journal_is_appended_when_the_notebook_opens(
    clean_folder: Path,
) -> None:
    session = with_open_calls(clean_folder)
    stored = session.document.to_json()
    session.close()
    again = open_session(clean_folder, stored)
    assert_the_result_is_back(again)
    stored = again.document.to_json()
    again.close()
    third = open_session(clean_folder, stored)  # the state of the other call is still known
    assert open_stages(third) == {"b": "asked"}
    third.close()


def test_restored_conversation_has_its_results(clean_folder: Path) -> None:
    with_open_calls(clean_folder).close()
    again = open_session(clean_folder, None)
    assert again.conversations.restore_from_journal()
    assert_the_result_is_back(again)
    stored = again.document.to_json()
    again.close()
    third = open_session(clean_folder, stored)
    assert open_stages(third) == {"b": "asked"}
    third.close()


def test_rewritten_journal_keeps_the_progress(clean_folder: Path) -> None:
    session = with_open_calls(clean_folder)
    host: Any = session.host
    host.home.path = clean_folder / "renamed.ipynb"
    session.document.conversation.append(new_event("config_delta", delta={"user": {"name": "Ada"}}))
    [path] = journal_files(clean_folder)
    stages = [line["call"]["stage"] for line in read_lines(path) if "call" in line]
    assert stages == ["finished", "asked"]
    stored = session.document.to_json()
    session.close()
    again = Session(FakeHost(home=FakeHome(clean_folder / "renamed.ipynb", stored=stored)))
    assert_the_result_is_back(again)
    again.close()


def test_journal_with_an_open_call_is_kept_after_saving(
    clean_folder: Path,
) -> None:
    session = with_open_calls(clean_folder)
    store: Any = session.store
    store.saved[session.document.conversation.id] = 4
    stored = session.document.to_json()
    session.close()
    assert len(journal_files(clean_folder)) == 1
    again = open_session(clean_folder, stored)
    assert_the_result_is_back(again)
    store = again.store
    store.saved[again.document.conversation.id] = 6
    again.document.conversation.append(
        new_event("tool_call_response", id="b", content="done", is_error=False)
    )
    again.close()
    assert journal_files(clean_folder) == []


def test_progress_on_a_full_disk_does_not_damage_the_journal(clean_folder: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (250, limits[1]))  # enough for a progress line
    try:
        session = with_open_calls(clean_folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    session.configure(directive("cfg", "user.name=Ada"))  # there is space again
    session.close()
    again = open_session(clean_folder, None)
    assert again.conversations.restore_from_journal()
    assert "tool_call_response" in entry_types(again)
    again.close()


def test_disabled_journal_keeps_no_progress(clean_folder: Path) -> None:
    session = open_session(clean_folder, None)
    session.configure(directive("cfg", "record.journal=false"))
    stream = session.document.conversation
    stream.start_turn(new_event("chat_request", content="Mark."))
    stream.append(
        new_event("tool_call_request", id="a", name="leave_mark", arguments={"word": "a"})
    )
    event_id = str(stream.raw[-1]["event_id"])
    session.active.journal_use.keep_progress({event_id: CallProgress("started")})
    assert journal_files(clean_folder) == []
    session.close()
