"""A cell in a real kernel ends when its page has the record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from tests.support.scripted_page import ROOT, PageFrontEnd, kernel

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

LOAD = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n%load_ext jp_nb"
SCRIPT = '[[replies]]\ntext = "Certainly."\n' * 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cell-end")


@pytest.fixture(scope="module")
def front(folder: Path) -> Iterator[PageFrontEnd]:
    (folder / "talk.toml").write_text(SCRIPT, encoding="utf-8")
    with kernel(folder) as started:
        started.run(LOAD)
        started.run("import jp_nb as jp, time\njp.query('First.', model='scripted/talk')")
        yield started


def kinds(front: PageFrontEnd) -> list[str]:
    return [event["type"] for event in front.view.jp["events"]]


def test_page_has_the_whole_record_when_a_cell_ends(front: PageFrontEnd) -> None:
    front.view.slow = 0.1  # what follows a message waits for its acknowledgement
    for cell in (
        "%%jp -m scripted/talk\nGo.",
        "%jp q Hello!",
        "import jp_nb as jp\njp.query('Go.', model='scripted/talk')",
    ):
        front.run(cell)
        assert kinds(front)[-1] == "chat_response", cell
    front.run("%jp config assistant.name=Ada")
    assert kinds(front)[-1] == "config_delta"
    front.view.slow = 0.0


@pytest.mark.kernel
def test_entries_are_sent_while_their_cell_runs(front: PageFrontEnd, folder: Path) -> None:
    before = len(front.view.jp["events"])
    request = front.client.execute(
        "from pathlib import Path\njp.query('Go.', model='scripted/talk')\n"
        "while not Path('gate').exists(): time.sleep(0.01)"
    )
    front.until(lambda: len(front.view.jp["events"]) > before)
    (folder / "gate").touch()
    front.finish(request)


@pytest.mark.kernel
def test_console_on_the_kernel_of_a_notebook_adds_to_the_same_record(front: PageFrontEnd) -> None:
    console = BlockingKernelClient()
    console.load_connection_info(front.client.get_connection_info())
    console.start_channels()
    try:
        console.execute("jp.query('From the console.', model='scripted/talk')")
        front.until(lambda: "From the console." in front.view.contents())
        front.until(lambda: kinds(front)[-1] == "chat_response")
        assert {m["path"] for m in front.view.received} == {front.view.path}
    finally:
        console.stop_channels()
