"""Batches with real workers and kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.kit.batch_folders import BatchFolder
from tests.support.notebook_runs import run, write_cells

pytestmark = pytest.mark.runners

ASK_USER = """
[[replies]]
tool_calls = [{ name = "ask_user", arguments = { question = "To whom?" } }]
[[replies]]
text = "Nobody answered."
"""


def batch(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `jp-nb run` in `folder`."""
    return run(["-m", "jp_nb.cli", "run", *arguments], folder)


def printed(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    return "".join(each.text for cell in cells for each in cell.outputs if "text" in each)


@pytest.mark.req("BATCH-2", "BATCH-4", "BATCH-5", "BATCH-6", "BATCH-8")
def test_parameter_sets_run_on_two_workers_and_a_failure_is_resumed(tmp_path: Path) -> None:
    where = "import os; print(city, days, os.getpid(), os.getppid())"
    path = write_cells(tmp_path / "walk.ipynb", "city, days = '', 0", where, "assert city != 'Bad'")
    text = path.read_text()
    path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1))
    before = path.read_bytes()
    (tmp_path / "each.csv").write_text("city,days\nDelft,1\nBad,9\nGouda,03\nEdam,2\n")

    done = batch(tmp_path, "walk.ipynb", "--each", "each.csv", "--workers", "2", "-o", "OUT/")
    assert done.returncode == 1, done.stderr
    assert "failed walk-city=Bad-days=9-" in done.stderr

    assert path.read_bytes() == before
    states = {state.parameters["city"]: state for state in BatchFolder(tmp_path / "OUT").runs()}
    assert {city: each.outcome for city, each in states.items()} == {
        "Delft": "passed", "Bad": "failed", "Gouda": "passed", "Edam": "passed",
    }  # fmt: skip
    assert states["Bad"].failed_cells[0].error.startswith("AssertionError")

    lines = [printed(tmp_path / "OUT" / each.output).split() for each in states.values()]
    assert {(city, days) for city, days, *_ in lines} == {
        ("Delft", "1"), ("Bad", "9"), ("Gouda", "03"), ("Edam", "2"),
    }  # fmt: skip
    assert len({kernel for *_, kernel, _ in lines}) == 4, "each run has a kernel of its own"
    assert len({worker for *_, worker in lines}) == 2, "workers are used again"

    done = batch(tmp_path, "--resume", "OUT", "--failed", "-x")
    assert done.returncode == 1
    assert "3 passed" in done.stderr
    log = (tmp_path / "OUT/runs.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["type"] == "started" for line in log) == 5


@pytest.mark.req("BATCH-11", "INBOX-7")
def test_time_limit_of_a_run_and_strict_reach_its_kernel(tmp_path: Path) -> None:
    write_cells(tmp_path / "slow.ipynb", "import time", *["time.sleep(1)"] * 60)
    (tmp_path / "ask.toml").write_text(ASK_USER)
    write_cells(tmp_path / "ask.ipynb", "%load_ext jp_nb", "%%jp -m scripted/ask\nAsk me.")

    options = ["--workers", "2", "--run-timeout", "12", "--strict"]
    done = batch(tmp_path, "slow.ipynb", "ask.ipynb", *options, "-o", "OUT")
    assert done.returncode == 1, done.stderr
    states = {each.notebook: each for each in BatchFolder(tmp_path / "OUT").runs()}
    assert {name: each.outcome for name, each in states.items()} == {
        "slow.ipynb": "failed", "ask.ipynb": "failed",
    }  # fmt: skip
    assert "TimeoutError" in states["slow.ipynb"].failed_cells[0].error
    assert 11 < states["slow.ipynb"].seconds < 40
    assert states["ask.ipynb"].open_decisions, "a decision needs the user"

    path = tmp_path / "OUT" / states["ask.ipynb"].output
    assert path.is_file()
    done = batch(tmp_path, "ask.ipynb", "-o", "OUT2/")
    assert done.returncode == 0, done.stderr
    assert [each.outcome for each in BatchFolder(tmp_path / "OUT2").runs()] == ["waiting"]


@pytest.mark.req("INBOX-6")
def test_run_whose_answer_did_not_fit_runs_again_once_the_answer_has_changed(
    tmp_path: Path,
) -> None:
    (tmp_path / "ask.toml").write_text(ASK_USER)
    write_cells(tmp_path / "ask.ipynb", "%load_ext jp_nb", "%%jp -m scripted/ask\nAsk me.")
    answers = tmp_path / "a.toml"
    answers.write_text('[questions.ask_user]\n"*" = 5\n')

    def count_starts() -> int:
        return (tmp_path / "OUT/runs.jsonl").read_text().count('"type":"started"')

    batch(tmp_path, "ask.ipynb", "-o", "OUT/", "--answers", "a.toml")
    [state] = BatchFolder(tmp_path / "OUT").runs()
    assert (state.outcome, len(state.tried_answers)) == ("waiting", 1)

    resumed = ("--resume", "OUT", "--answers", "a.toml")
    done = batch(tmp_path, *resumed)
    assert "1 waiting run did not run again" in done.stderr
    assert count_starts() == 1

    answers.write_text('[questions.ask_user]\n"*" = "the team"\n')
    done = batch(tmp_path, *resumed)
    assert done.returncode == 0, done.stderr
    assert count_starts() == 2
    [state] = BatchFolder(tmp_path / "OUT").runs()
    assert (state.outcome, state.tried_answers) == ("passed", ())


@pytest.mark.req("BATCH-14")
def test_requests_and_tokens_of_a_run_are_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "hello.toml").write_text('[[replies]]\ntext = "Hello."\n')
    ask = "%%jp -m scripted/hello\nHello?"
    write_cells(tmp_path / "talk.ipynb", "%load_ext jp_nb", ask)
    done = batch(tmp_path, "talk.ipynb", "-o", "OUT/", "--max-concurrent-requests", "scripted=1")
    assert done.returncode == 0, done.stderr
    [state] = BatchFolder(tmp_path / "OUT").runs()
    assert state.requests == 1


@pytest.mark.req("BATCH-6")
def test_preloaded_modules_are_in_each_new_kernel(tmp_path: Path) -> None:
    shown = [
        "import os, random, subprocess, sys",
        "print('wave' in sys.modules, os.getpid(), os.getcwd(), random.random())",
        "subprocess.run([sys.executable, '-c', 'raise SystemExit(3)']).returncode",
        "import signal; signal.getsignal(signal.SIGINT) is signal.default_int_handler",
        "1 / (n - 2)",
    ]
    path = write_cells(tmp_path / "deep" / "walk.ipynb", "n = 0", *shown)
    text = path.read_text()
    path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1))
    (tmp_path / "n.csv").write_text("n\n1\n2\n3\n")

    options = ["--workers", "1", "--preload", "wave,json", "-o", "OUT"]
    done = batch(tmp_path, "deep/walk.ipynb", "--each", "n.csv", *options)
    assert done.returncode == 1, done.stderr
    states = BatchFolder(tmp_path / "OUT").runs()
    assert [each.outcome for each in states] == ["passed", "failed", "passed"]
    assert not any(each.warnings for each in states)

    lines = [printed(tmp_path / "OUT" / each.output).split() for each in states]
    for column in (1, 3):
        assert len({line[column] for line in lines}) == 3, "each kernel is another process"
    assert {(loaded, place) for loaded, _, place, _ in lines} == {("True", str(path.parent))}
    outputs = nbformat.read(tmp_path / "OUT" / states[0].output, as_version=4).cells[4].outputs
    assert outputs[0].data["text/plain"] == "3", "exit codes of children are known"

    done = batch(tmp_path, "deep", "--preload", "nonesuch_module", "-o", "OUT2")
    assert done.returncode == 2
    assert "nonesuch_module is not installed" in done.stderr


@pytest.mark.req("BATCH-6")
def test_preloaded_kernel_ends_as_any_other_but_leaves_the_preloaded_modules_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared_scratch.py").write_text(
        "import atexit, tempfile\n"
        "folder = tempfile.TemporaryDirectory()\n"
        "other = tempfile.mkdtemp()\n"
        "atexit.register(__import__('os').rmdir, other)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(str(tmp_path))
    ends = [
        "import atexit, os, tempfile, shared_scratch",
        "assert os.path.isdir(shared_scratch.folder.name) and os.path.isdir(shared_scratch.other)",
        "own = tempfile.TemporaryDirectory()",
        "open('own.txt', 'w').write(own.name)",
        "unflushed = open(f'{n}.txt', 'w')",
        "unflushed.write('flushed')",
        "in_cycle = [open(f'{n}-cycle.txt', 'w')]",
        "in_cycle[0].write('flushed')",
        "in_cycle.append(in_cycle)",
        "atexit.register(lambda: open('ends.txt', 'a').write('end '))",
    ]
    path = write_cells(tmp_path / "walk.ipynb", "n = 0", "\n".join(ends))
    text = path.read_text()
    path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1))
    (tmp_path / "n.csv").write_text("n\n1\n2\n")

    options = ["--workers", "1", "--preload", "shared_scratch", "-o", "OUT"]
    done = batch(tmp_path, "walk.ipynb", "--each", "n.csv", *options)
    assert done.returncode == 0, done.stderr
    assert not any(each.warnings for each in BatchFolder(tmp_path / "OUT").runs())

    texts = [(tmp_path / name).read_text() for name in ("1.txt", "2.txt", "1-cycle.txt")]
    assert texts == ["flushed"] * 3
    assert (tmp_path / "ends.txt").read_text() == "end end "
    assert not Path((tmp_path / "own.txt").read_text()).exists()


@pytest.mark.req("BATCH-6", "BATCH-34")
def test_preloaded_jp_nb_is_not_imported_again_by_the_first_turn(tmp_path: Path) -> None:
    (tmp_path / "hello.toml").write_text('[[replies]]\ntext = "Hello."\n')
    names = "{name for name in sys.modules if name.startswith(('jp_nb', 'pydantic', 'httpx'))}"
    cells = [
        f"import sys; before = {names}",
        "%load_ext jp_nb",
        "%%jp -m scripted/hello\nHello?",
        f"print(*sorted({names} - before))",
    ]
    write_cells(tmp_path / "talk.ipynb", *cells)
    done = batch(tmp_path, "talk.ipynb", "--workers", "1", "--preload", "jp_nb", "-o", "OUT/")
    assert done.returncode == 0, done.stderr
    [path] = (tmp_path / "OUT").glob("*.ipynb")
    imported = nbformat.read(path, as_version=4).cells[3].outputs[0].text.split()
    assert len(imported) <= 12, imported


@pytest.mark.req("BATCH-6")
def test_module_that_cannot_be_preloaded_stops_the_batch(tmp_path: Path) -> None:
    write_cells(tmp_path / "a.ipynb", "1")
    write_cells(tmp_path / "b.ipynb", "1")
    done = batch(tmp_path, ".", "--preload", "json.nonesuch", "--workers", "1", "-o", "OUT")
    assert done.returncode == 1
    assert "a module cannot be preloaded: json.nonesuch: ModuleNotFoundError" in done.stderr
    assert [each.outcome for each in BatchFolder(tmp_path / "OUT").runs()] == ["failed"]


@pytest.mark.req("BATCH-18")
def test_batch_and_pytest_share_a_folder(tmp_path: Path) -> None:
    for number in range(4):
        reply = f"Reply {number}."
        (tmp_path / f"guide{number}.toml").write_text(f'[[replies]]\ntext = "{reply}"\n' * 3)
        ask = f"%%jp -m scripted/guide{number}\nQuestion {number}?"
        check = f"import jp_nb as jp; assert jp.last.text == {reply!r}, jp.last.text"
        write_cells(tmp_path / f"talk{number}.ipynb", "%load_ext jp_nb", ask, check)
    recorded = batch(tmp_path, "talk*.ipynb", "--record", "-o", "RECORDED/")
    assert recorded.returncode == 0, recorded.stderr
    inputs = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    command = [sys.executable, "-m", "pytest", "--jp", "-n", "4", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [*command, *sorted(tmp_path.glob("*.ipynb"))],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as tests:
        done = batch(tmp_path, "talk*.ipynb", "--replay", "--workers", "2", "-o", "OUT/")
        printed_by_tests, _ = tests.communicate(timeout=300)
    assert tests.returncode == 0, printed_by_tests
    assert "4 passed" in printed_by_tests
    assert done.returncode == 0, done.stderr

    assert {path: path.read_bytes() for path in inputs} == inputs
    states = BatchFolder(tmp_path / "OUT").runs()
    assert [each.outcome for each in states] == ["passed"] * 4
    for state in states:
        number = state.notebook.removeprefix("talk").removesuffix(".ipynb")
        text = (tmp_path / "OUT" / state.output).read_text()
        others = {"0", "1", "2", "3"} - {number}
        assert f"Reply {number}." in text
        assert not any(f"Question {other}?" in text for other in others)
