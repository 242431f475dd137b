"""`%%jp --each`: rows as a magic."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.ipython_shell import IPythonShell
from tests.session.rows.row_server import MODEL, RowServer, serve_rows
from tests.support.ipython import ipython
from tests.support.loopback import Reply
from tests.support.sessions import configure

__all__ = ["ipython"]

CELLS = """
from pydantic import BaseModel

class Review(BaseModel):
    mood: str

texts = ["fine", "bad", "great"]
rows = [{"text": text, "stars": number} for number, text in enumerate(texts)]
"""


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RowServer]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    with serve_rows(lambda prompt, _: Reply(text=json.dumps({"mood": prompt[:4]}))) as running:
        settings = running.options["cfg"][0].partition("=")[2]
        configure(
            folder,
            f'[assistant.model]\nid = "{MODEL}"\n'
            f'[providers.llm.anthropic]\nbase_url = "{settings}"\n',
        )
        yield running


@pytest.fixture
def shell(server: RowServer, ipython: IPythonShell) -> IPythonShell:
    ipython.run(CELLS)
    return ipython


@pytest.mark.req("MAP-17", "MAP-13")
def test_text_of_the_cell_is_the_template(shell: IPythonShell, server: RowServer) -> None:
    shell.run("%%jp --each rows -s Review -o moods\n{text}: {stars} {{stars}}")
    ran = shell.run("print([answer.data.mood for answer in moods])")
    assert ran.printed == "['fine', 'bad:', 'grea']\n"
    assert sorted(server.prompts) == ["bad: 1 {stars}", "fine: 0 {stars}", "great: 2 {stars}"]
    assert len(shell.session.document.conversation) == 0


@pytest.mark.req("MAP-17")
def test_cell_shows_a_frame_of_the_answers(shell: IPythonShell) -> None:
    ran = shell.run("%%jp --each texts -s Review\nAbout {text}")
    assert ran.error is None
    assert "mood" in ran.shown
    assert ran.shown.count("Abou") == 3


@pytest.mark.req("MAP-17", "MAP-3")
def test_rows_of_a_frame_fill_the_template(shell: IPythonShell, server: RowServer) -> None:
    pytest.importorskip("pandas")
    shell.run("import pandas; frame = pandas.DataFrame(rows, index=['x', 'y', 'z'])")
    assert shell.run("%%jp --each frame -o answers\n{text}: {stars}").error is None
    assert sorted(server.prompts) == ["bad: 1", "fine: 0", "great: 2"]
    assert shell.run("print(list(answers.series.index))").printed == "['x', 'y', 'z']\n"


@pytest.mark.req("MAP-17", "MAP-5")
def test_cache_keeps_the_answers(shell: IPythonShell, server: RowServer) -> None:
    for _ in range(2):
        assert shell.run("%%jp --each texts -o a --cache a.jsonl\n{text}").error is None
    assert len(server.prompts) == 3


FULL_DISK = """
import resource, signal
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
shell.run_cell("%load_ext jp_nb").raise_error()
shell.run_cell("texts = ['fine', 'bad', 'great']").raise_error()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
for _ in range(2):
    shell.run_cell("%%jp --each texts -o answers --cache a.jsonl\\n{text}").raise_error()
"""


@pytest.mark.req("MAP-17", "MAP-5")
def test_each_cell_warns_that_the_disk_of_its_cache_is_full(
    folder: Path, server: RowServer
) -> None:
    command = [sys.executable, "-W", "default", "-c", FULL_DISK]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert len(server.prompts) == 6
    warnings = [line for line in run.stderr.splitlines() if "not in the cache" in line]
    assert [line.partition("-")[0] for line in warnings] == ["<ipython", "<ipython"], run.stderr
    assert all(">:1: UserWarning: " in line for line in warnings)


@pytest.mark.req("MAP-17")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--each txts", "did you mean 'texts'"),
        ("--each texts -n", "does not take -n"),
        ("--each texts -u", "does not take -u and -U"),
        ("--each texts -t weather", "takes no tools"),
        ("--each texts -s Missing", "there is no 'Missing'"),
        ("--each texts -o 1", "not a valid Python name"),
        ("--cache a.jsonl", "--each"),
    ],
)
def test_wrong_option_is_named_and_nothing_is_sent(
    shell: IPythonShell, server: RowServer, line: str, said: str
) -> None:
    ran = shell.run(f"%%jp {line}\n{{text}}")
    assert said in str(ran.error)
    assert not server.prompts


@pytest.mark.req("MAP-17")
def test_tab_offers_the_variables_with_rows(shell: IPythonShell) -> None:
    assert shell.tab("%%jp --each t|\n") == ["%%jp --each texts\n"]
