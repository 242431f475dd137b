"""Ctrl+C ends `jp-nb run` with one line, the exit code of an interrupt, and a complete file."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
import pytest

from tests.headless.conftest import WriteNotebook, contents, printed, read

pytestmark = pytest.mark.runners
LOAD = "%load_ext jp_nb"
PATIENCE_S = 120.0


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


@contextmanager
def running(path: Path, *options: str, before: str = "") -> Iterator[subprocess.Popen[str]]:
    """Start `jp-nb run` on the notebook at `path`, in a process that executes `before` first."""
    # In the background of a shell, this process and its children would ignore SIGINT.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{listen}\n{before}\nimport sys\nfrom jp_nb.cli import main\nsys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "run", str(path), *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "JP_NB_KEY_FILE": str(path.parent / "key")},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def assert_interrupted(process: subprocess.Popen[str]) -> None:
    """Wait for the end of `process`, and check its exit code and its only line."""
    out, err = process.communicate(timeout=PATIENCE_S)
    ours = [line for line in err.splitlines() if not line.startswith("[IPKernelApp]")]
    assert (process.returncode, out, ours) == (130, "", ["jp-nb: interrupted"])


def hidden_files(path: Path) -> list[str]:
    """Return the names of temporary files next to `path`."""
    return sorted(each.name for each in path.parent.iterdir() if each.name.startswith("."))


def test_interrupted_cell_keeps_its_output_and_is_the_last(
    write_notebook: WriteNotebook, tmp_path: Path
) -> None:
    sign = tmp_path / "begun"
    code = f"print('begun', flush=True)\nopen({str(sign)!r}, 'w')\nimport time; time.sleep(600)"
    path = write_notebook("say('one')", "print('first')", code, "print('never')")
    with running(path) as process:
        wait_until(sign.exists)
        process.send_signal(signal.SIGINT)
        assert_interrupted(process)
    notebook = read(path)
    assert contents(notebook.metadata.jp) == ["one"]
    assert "first\nbegun\n" in printed(notebook)
    assert notebook.cells[3].outputs[-1].ename == "KeyboardInterrupt"
    assert notebook.cells[4].outputs == []
    assert hidden_files(path) == []


TAKEN_PORTS = """
from jupyter_client.connect import LocalPortCache
LocalPortCache.find_available_port = lambda cache, ip: {port}
"""
TEMPORARY_FILES = """
import os, tempfile
os.environ["TMPDIR"] = tempfile.tempdir = {folder!r}
"""


def test_kernel_needs_no_port_which_another_program_may_take(
    write_notebook: WriteNotebook,
) -> None:
    path = write_notebook("print('first')")
    with socket.create_server(("127.0.0.1", 0)) as other, TemporaryDirectory(dir="/tmp") as folder:
        before = TAKEN_PORTS.format(port=other.getsockname()[1])
        before += TEMPORARY_FILES.format(folder=folder)
        with running(path, before=before) as process:
            _, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, "Traceback" in err) == (0, False), err
        assert os.listdir(folder) == []  # the sockets went with the kernel
    assert "first\n" in printed(read(path))


def test_kernel_has_ports_where_the_path_of_a_socket_would_be_too_long(
    write_notebook: WriteNotebook, tmp_path: Path
) -> None:
    path = write_notebook("print('first')")
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    with running(path, before=TEMPORARY_FILES.format(folder=str(folder))) as process:
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "first\n" in printed(read(path))


def test_kernel_that_another_program_starts_has_ports(
    write_notebook: WriteNotebook, tmp_path: Path
) -> None:
    """`env` starts it here, and stands for `docker`, `sudo`, and `ssh`."""
    folder = tmp_path / "jupyter" / "kernels" / "wrapped"
    folder.mkdir(parents=True)
    command = ["env", sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "Wrapped", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")

    show = "from ipykernel.connect import get_connection_info as info\nprint(info(unpack=True))"
    path = write_notebook(show)
    notebook = read(path)
    notebook.metadata.kernelspec = {"name": "wrapped", "display_name": "Wrapped"}
    nbformat.write(notebook, path)

    before = f"import os\nos.environ['JUPYTER_PATH'] = {str(folder.parents[1])!r}"
    with running(path, before=before) as process:
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "'transport': 'tcp'" in printed(read(path))


def test_request_of_an_interrupted_turn_is_recorded(write_notebook: WriteNotebook) -> None:
    with socket.create_server(("127.0.0.1", 0)) as model:
        address = f"http://127.0.0.1:{model.getsockname()[1]}"
        ask = "%%jp -m llamacpp/slow\nWill you answer?"
        path = write_notebook("print('first')", ask, "print('never')", setup=LOAD)
        with running(path, "-c", f"providers.llm.llamacpp.base_url={address}") as process:
            model.settimeout(PATIENCE_S)
            connection, _ = model.accept()
            with connection:
                assert connection.recv(100)
                process.send_signal(signal.SIGINT)
                assert_interrupted(process)
    notebook = read(path)
    assert contents(notebook.metadata.jp) == ["Will you answer?"]
    assert "first\n" in printed(notebook)
    assert notebook.cells[3].outputs == []


@pytest.mark.parametrize("moment", ["async_start_new_kernel", "async_start_new_kernel_client"])
def test_interrupt_while_the_kernel_starts_leaves_the_notebook(
    write_notebook: WriteNotebook, moment: str
) -> None:
    path = write_notebook("print('first')")
    before = path.read_bytes()
    hold = (
        "import asyncio, nbclient\n"
        f"real = nbclient.NotebookClient.{moment}\n"
        "async def held(*args, **kwargs):\n"
        "    made = await real(*args, **kwargs)\n"
        "    print('starting', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        f"nbclient.NotebookClient.{moment} = held"
    )
    with running(path, before=hold) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        process.send_signal(signal.SIGINT)
        assert_interrupted(process)
    assert path.read_bytes() == before
    assert hidden_files(path) == []


def test_interrupt_while_the_file_is_written_leaves_it_complete(
    write_notebook: WriteNotebook, tmp_path: Path
) -> None:
    path = write_notebook("say('one')", "print('last')")
    sent = tmp_path / "sent"
    hold = (
        "import os, time\n"
        "real = os.fsync\n"
        "def held(number):\n"
        "    print('writing', flush=True)\n"
        f"    while not os.path.exists({str(sent)!r}):\n"
        "        time.sleep(0.01)\n"
        "    real(number)\n"
        "os.fsync = held"
    )
    with running(path, before=hold) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGINT)
        sent.touch()
        assert_interrupted(process)
    notebook = read(path)
    assert contents(notebook.metadata.jp) == ["one"]
    assert "last\n" in printed(notebook)
    assert hidden_files(path) == []


def test_second_interrupt_ends_a_cell_that_ignores_the_first(
    write_notebook: WriteNotebook, tmp_path: Path
) -> None:
    signs = [tmp_path / "begun", tmp_path / "heard"]
    code = (
        "import signal, time\n"
        f"signal.signal(signal.SIGINT, lambda *_: open({str(signs[1])!r}, 'w'))\n"
        f"open({str(signs[0])!r}, 'w')\nwhile True: time.sleep(0.1)"
    )
    path = write_notebook("say('one')", "print('first')", code)
    with running(path) as process:
        for sign in signs:
            wait_until(sign.exists)
            process.send_signal(signal.SIGINT)
        assert_interrupted(process)
    notebook = read(path)
    assert contents(notebook.metadata.jp) == ["one"]
    assert "first\n" in printed(notebook)


def test_no_cell_runs_after_one_that_catches_the_interrupt(
    write_notebook: WriteNotebook, tmp_path: Path
) -> None:
    sign = tmp_path / "begun"
    code = (
        f"import time\ntry:\n    open({str(sign)!r}, 'w')\n    time.sleep(600)\n"
        "except KeyboardInterrupt:\n    print('caught')"
    )
    path = write_notebook(code, "print('never')")
    with running(path) as process:
        wait_until(sign.exists)
        process.send_signal(signal.SIGINT)
        assert_interrupted(process)
    assert "caught\n" in printed(read(path))
    assert "never" not in printed(read(path))
