"""Batches of messages of a running turn: how many there are, and that none is lost.

Times are those that the kernel wrote into its messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cells import calls, error, kernel_with, start
from tests.support.kernel_client import FrontEnd
from tests.support.scripted_page import ROOT, PageFrontEnd, kernel

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

BATCH_S = 0.1
FEW = 4
"""Messages of a kind beside those of the batches: the first, the last, and a late timer's."""
TOOLS = """
import multiprocessing, os, time
import ipywidgets
import jp_nb as jp
from IPython.display import clear_output, display

@jp.tool
def prints() -> str:
    for number in range(1000):
        print("line", number, flush=True)
    return "ok"

@jp.tool(thread=True)
def slow(n: int) -> str:
    time.sleep(n / 50)
    return f"#{n}"

@jp.tool
def plays() -> str:
    for frame in range(200):
        clear_output(wait=True)
        display({"text/plain": f"frame {frame}"}, raw=True)
    return "ok"

@jp.tool
def advances() -> str:
    print("before")
    handle = display({"text/plain": "state -1"}, raw=True, display_id=True)
    for state in range(200):
        handle.update({"text/plain": f"state {state}"}, raw=True)
    print("after")
    bundle = {"application/json": {"kept": True}, "text/plain": "json"}
    display(bundle, raw=True)
    bundle["application/json"]["kept"] = False
    return "ok"

@jp.tool
def forks() -> str:
    child = multiprocessing.get_context("fork").Process(target=print, args=("from a child",))
    child.start()
    child.join()
    return "ok"

@jp.tool
def opens() -> str:
    display({"text/plain": "shown first"}, raw=True)
    display({"text/plain": "shown second"}, raw=True)
    ipywidgets.IntProgress(description="opened third")
    return "ok"

@jp.tool
def asks() -> str:
    print("before the question")
    display({"text/plain": "a display before the question"}, raw=True)
    return str(jp.ask(jp.Question.boolean("mood", "Fine?")))
"""
WORDS = " ".join(f"word{number}" for number in range(600))
EIGHT = calls(*(("slow", {"n": n}) for n in range(8)))
DONE = '[[replies]]\ntext = "Done."\n'
SCRIPTS = {
    "words": f'[[replies]]\ntext = "{WORDS}"\nchunk_ms = 1\n',
    "eight": EIGHT * 4 + DONE,
    **{
        name: calls((name, {})) + DONE
        for name in ("prints", "plays", "advances", "forks", "opens", "asks")
    },
}  # fmt: skip
WAIT_FOREVER = """
from jp_nb.notebook.display import outbox
from jp_nb.notebook.page import delivery
before = outbox.BATCH_INTERVAL_S, delivery.MIN_BATCH_INTERVAL_S
outbox.BATCH_INTERVAL_S = delivery.MIN_BATCH_INTERVAL_S = 3600
"""
WAIT_AS_BEFORE = "outbox.BATCH_INTERVAL_S, delivery.MIN_BATCH_INTERVAL_S = before"
ONLY_AT_ONCE = "-c style.update_interval_ms=3600000"


# --- beside a page that acknowledges the record ------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageFrontEnd]:
    folder = tmp_path_factory.mktemp("page")
    _write_scripts(folder)
    with kernel(folder) as page:
        load = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n%load_ext jp_nb\n{TOOLS}"
        assert "kept in this notebook" in page.run_in_notebook(load)
        page.run_in_notebook("%%jp -m scripted/words\nA first turn, which sends the whole record.")
        yield page


def _write_scripts(folder: Path) -> None:
    for name, text in SCRIPTS.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")


def kinds(messages: list[dict[str, Any]]) -> Counter[str]:
    """Count messages by kind, and display updates by display."""
    return Counter(filter(None, map(_kind, messages)))


def _kind(message: dict[str, Any]) -> str:
    kind = message["msg_type"]
    content = message["content"]
    if kind == "update_display_data":
        return f"update of {content['transient']['display_id']}"
    if kind == "comm_msg" and "seq" in content["data"]:
        return "append" if "extend" in content["data"] else str(content["data"]["type"])
    return "" if kind == "status" else str(kind)


def seconds(messages: list[dict[str, Any]]) -> float:
    return float((messages[-1]["header"]["date"] - messages[0]["header"]["date"]).total_seconds())


@pytest.mark.deep
@pytest.mark.parametrize("script", ["words", "eight", "prints"])
def test_turn_sends_the_page_at_most_one_batch_in_100_ms(page: PageFrontEnd, script: str) -> None:
    page.messages.clear()
    page.run_in_notebook(f"%%jp -m scripted/{script}\nGo.", "cell-1")
    found = kinds(page.messages)
    assert found["display_data"]
    assert found["append"]
    most = seconds(page.messages) / BATCH_S + FEW
    assert all(count <= most for count in found.values()), (most, found)
    record = page.view.jp["events"]
    assert record[-1]["type"] == "chat_response"  # at its end the page has all


@pytest.mark.kernel
def test_start_and_end_of_a_cell_do_not_wait_for_a_batch(page: PageFrontEnd) -> None:
    page.run_in_notebook(WAIT_FOREVER)
    try:
        page.messages.clear()
        page.run_in_notebook(f"%%jp -m scripted/eight {ONLY_AT_ONCE}\nGo.")
        found = kinds(page.messages)
        assert found["append"] == 2  # the start, and all else with the end
        assert page.view.jp["events"][-1]["type"] == "chat_response"
    finally:
        page.run_in_notebook(WAIT_AS_BEFORE)


# --- outputs of the cell -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    with kernel_with(tmp_path_factory.mktemp("batches"), SCRIPTS, TOOLS) as user:
        yield user


def texts(user: FrontEnd, script: str, options: str = "") -> list[str]:
    """The outputs of a turn as they stay."""
    user.forget(widgets=False)
    request = start(user, script, options)
    user.finish(request)
    assert error(user, request) is None
    shown = user.outputs(request)
    return [(o.get("text") or o["data"].get("text/plain", "")).strip() for o in shown]


def count(user: FrontEnd, kind: str) -> int:
    return sum(message["msg_type"] == kind for message in user.messages)


@pytest.mark.kernel
def test_many_printed_lines_are_shown_in_order(user: FrontEnd) -> None:
    _, printed, done = texts(user, "prints")
    assert printed.splitlines() == [f"line {number}" for number in range(1000)]
    assert done.endswith("Done.")


@pytest.mark.kernel
def test_last_frame_of_a_tool_that_clears_and_shows_again_is_kept(user: FrontEnd) -> None:
    shown = texts(user, "plays")
    assert [text for text in shown if "frame" in text] == ["frame 199"]
    assert shown[0] == "✓ plays()"
    assert count(user, "clear_output") < 100


@pytest.mark.deep
def test_newest_update_of_a_display_is_shown_as_it_was(user: FrontEnd) -> None:
    _, before, state, after, data, _ = texts(user, "advances")
    assert (before, state, after, data) == ("before", "state 199", "after", "json")
    assert count(user, "update_display_data") < 100
    bundles = [m["content"].get("data", {}) for m in user.messages]
    assert [b["application/json"] for b in bundles if "application/json" in b] == [{"kept": True}]


@pytest.mark.kernel
def test_print_of_a_forked_process_is_shown(user: FrontEnd) -> None:
    assert "from a child" in texts(user, "forks")


@pytest.mark.deep
def test_outputs_before_a_widget_are_sent_before_it(user: FrontEnd) -> None:
    user.run(WAIT_FOREVER)
    try:
        texts(user, "opens", ONLY_AT_ONCE)
        contents = [str(message["content"]) for message in user.messages]
        names = ("shown first", "shown second", "opened third")
        places = [next(n for n, text in enumerate(contents) if name in text) for name in names]
        assert places == sorted(places)
    finally:
        user.run(WAIT_AS_BEFORE)


@pytest.mark.kernel
def test_question_and_outputs_before_it_do_not_wait_for_a_batch(user: FrontEnd) -> None:
    user.run(WAIT_FOREVER)
    try:
        user.forget(widgets=False)
        request = start(user, "asks", ONLY_AT_ONCE)
        user.form("Fine?")
        shown = [(m.get("text") or m.get("data", {}).get("text/plain", "")).strip()
                 for m in user.outputs(request)]  # fmt: skip
        assert shown[1:3] == ["before the question", "a display before the question"]
        user.click("Yes")
        user.finish(request)
        assert error(user, request) is None
    finally:
        user.run(WAIT_AS_BEFORE)
