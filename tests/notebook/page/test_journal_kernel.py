"""Journals of kernels whose page is away, saves, or only reads."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted_page import PageFrontEnd, View, kernel

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL"),
]
TALK = "".join(f'[[replies]]\ntext = "answer {number}"\n' for number in range(9))
LOAD = "%load_ext jp_nb"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "talk.toml").write_text(TALK)
    (tmp_path / "work" / "talk.ipynb").write_text("{}")
    return tmp_path


def journals(folder: Path) -> list[list[Any]]:
    """The lines of the journals there are."""
    paths = sorted((folder / "data" / "jp" / "journal").glob("*.jsonl"))
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]


@contextmanager
def opened(folder: Path, view: View) -> Iterator[PageFrontEnd]:
    with kernel(folder / "work") as front:
        front.views = [view]
        yield front


def killed(front: PageFrontEnd) -> None:
    request = front.client.execute("import os; print(os.getpid())")
    found: list[int] = []

    def pid(message: dict[str, Any]) -> bool:
        if message["parent_header"].get("msg_id") == request and "text" in message["content"]:
            found.append(int(message["content"]["text"]))
        return bool(found)

    front.wait(pid)
    os.kill(found[0], signal.SIGKILL)


UNTIL_SAVED = """
import time
while get_ipython()._jp_nb_session.active.store.count_saved_entries({stream!r}) < {count}:
    time.sleep(0.01)
"""


@pytest.mark.kernel
def test_entries_that_a_page_never_got_are_restored_in_the_next_kernel(folder: Path) -> None:
    view = View()
    with opened(folder, view) as front:
        front.run(LOAD)
        front.run("%%jp -m scripted/talk\nOne.")
        view.awake = False
        front.run("%%jp\nTwo.")
        killed(front)
    assert view.contents() == ["One."]
    view.awake = True
    with opened(folder, view) as front:
        said = front.run(LOAD)
        assert "conversation restored (2 turns)" in said
        assert "3 entries of this conversation that had not reached the notebook" in said
        front.until(lambda: view.contents() == ["One.", "Two."])
        front.run("%%jp\nThree.")
        front.until(lambda: view.contents() == ["One.", "Two.", "Three."])
    assert len({entry["event_id"] for entry in view.jp["events"]}) == len(view.jp["events"])


@pytest.mark.kernel
def test_journal_starts_over_once_the_page_has_saved(folder: Path) -> None:
    view = View()
    with opened(folder, view) as front:
        front.run(LOAD)
        front.run("%%jp -m scripted/talk\nOne.")
        front.run("%%jp\nTwo.")
        front.until(lambda: view.contents() == ["One.", "Two."])
        assert journals(folder)[0][0]["base"] == 0
        count = len(view.jp["events"])
        stream = view.jp["conversation"]["id"]
        front.answer(view, {"type": "saved", "state": "unknown"})
        front.answer(view, {"type": "saved", "state": view.state})
        front.run(UNTIL_SAVED.format(stream=stream, count=count))  # another channel, another order
        front.run("%%jp\nThree.")
        [[head, *lines]] = journals(folder)
        assert head["base"] == count
        front.until(lambda: view.contents()[-1] == "Three.")
        entries = [line["entry"] for line in lines if "entry" in line]
        assert entries == view.jp["events"][count:]
        load_an_older_file_and_rename_it(front, folder, view)
        killed(front)
    view.jp["events"] = view.jp["events"][: count + 1]  # the page was a little behind
    with opened(folder, view) as front:
        assert "5 entries of this conversation that had not reached" in front.run(LOAD)
        front.until(lambda: view.contents()[-2:] == ["Three.", "Four."])


def load_an_older_file_and_rename_it(front: PageFrontEnd, folder: Path, view: View) -> None:
    """Have the page load an older file, and rename it: the journal has what that lacks."""
    view.jp["events"] = view.jp["events"][:4]
    (folder / "work" / "talk.ipynb").rename(folder / "work" / "walk.ipynb")
    view.path = "walk.ipynb"
    front.answer(view, view.hello())
    front.until(lambda: view.contents()[-1] == "Three.")
    front.run("%%jp\nFour.")
    front.until(lambda: view.contents()[-1] == "Four.")
    [[head, *lines]] = journals(folder)
    assert (head["base"], head["notebook"]) == (4, str(folder / "work" / "walk.ipynb"))
    assert [line["entry"] for line in lines if "entry" in line] == view.jp["events"][4:]


@pytest.mark.deep
def test_saved_notebook_leaves_no_journal(folder: Path) -> None:
    view = View()
    with opened(folder, view) as front:
        front.run(LOAD)
        front.run("%%jp -m scripted/talk\nOne.")
        assert len(journals(folder)) == 1
        assert "saved as talk.ipynb" in front.run("%jp save")
        front.run("from jp_nb.session import get_session\nget_session().close()")
    assert journals(folder) == []


@pytest.mark.deep
def test_read_only_page_leaves_the_record_to_the_journal(folder: Path) -> None:
    view = View(read_only=True)
    with opened(folder, view) as front:
        assert "kept in your journal, not in a notebook: this notebook is read-only" in front.run(
            LOAD
        )
        front.run("%%jp -m scripted/talk\nOne.")
        killed(front)
    assert view.jp is None
    with opened(folder, view) as front:
        said = front.run(LOAD)
        assert "has a conversation that is missing from this notebook: `%jp resume`" in said
        assert "conversation (1 turn)" in front.run("%jp resume")
        front.run("import jp_nb as jp")
        assert "answer 0" in front.run("print(jp.conversation().turns[0].text)")
