"""The program around a kernel: its name, and where the record is kept there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.notebook.page.surroundings import find_surroundings
from tests.kit.front_ends import find_notebook
from tests.kit.sessions import new_session, run_jp
from tests.support.sessions import FakeShell

VS_CODE_FILE = "__vsc_ipynb_file__"


def name_front_end(kernel: Any, **variables: Any) -> str:
    """Return the kind of front end of `kernel` (None in a terminal), whose user has `variables`."""
    return find_surroundings(kernel, variables).name


NO_NOTEBOOK = "a console or program has no notebook"
IN_JOURNAL = f"kept in your journal, not in a notebook: {NO_NOTEBOOK}"


class Kernel:
    """A kernel in which a cell runs; a console's has no id."""

    control_handlers: dict[str, Any] = {}  # noqa: RUF012 - nothing is added to it
    control_thread = object()

    def __init__(self, *, cell_id: str | None = None, allow_stdin: bool = True) -> None:
        self._metadata = {"cellId": cell_id} if cell_id else {}
        self._allow_stdin = allow_stdin

    def get_parent(self, channel: str) -> dict[str, Any]:
        return {"header": {"msg_id": "r"}, "metadata": self._metadata, "content": {}}


class ColabKernel(Kernel):
    """A kernel of Google Colab's, by the name of its module."""

    __module__ = "google.colab._kernel"


@pytest.fixture(autouse=True)
def no_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JPY_SESSION_NAME", "VSCODE_PID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("jp_nb.notebook.page.page_storage.CONSOLE_TIMEOUT_S", 0.0)


def test_place_is_named_by_kernel_variables_and_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell = Kernel(cell_id="a")
    console = Kernel()
    assert name_front_end(None) == "IPython in a terminal"
    assert name_front_end(console) == "a console or program"
    assert name_front_end(cell) == "a page without the jp-nb extension"
    assert name_front_end(ColabKernel(cell_id="a")) == "Google Colab"
    assert name_front_end(cell, **{VS_CODE_FILE: "talk.ipynb"}) == "VS Code"
    assert name_front_end(console, **{VS_CODE_FILE: "talk.ipynb"}) == "a console or program"
    monkeypatch.setenv("VSCODE_PID", "1")
    assert name_front_end(cell) == "VS Code"
    monkeypatch.setenv("JPY_SESSION_NAME", "talk.ipynb")
    assert name_front_end(console) == "a page without the jp-nb extension"


def test_path_of_the_notebook_is_taken_from_the_front_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "talk.ipynb"
    path.touch()
    assert find_notebook(Kernel()).path is None
    assert find_notebook(Kernel(), **{VS_CODE_FILE: str(path)}).path == path
    assert find_notebook(Kernel(), **{VS_CODE_FILE: "talk.ipynb"}).path is None
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    assert find_notebook(Kernel()).path == path
    path.unlink()
    assert find_notebook(Kernel()).path is None


@pytest.fixture
def load(folder: Path) -> Iterator[Callable[..., Any]]:
    """Load the extension in a kernel."""
    made: list[Any] = []

    def load(kernel: Kernel) -> Any:
        shell = FakeShell()
        vars(shell)["kernel"] = kernel
        vars(shell)["events"] = SimpleNamespace(
            register=lambda *_: None, unregister=lambda *_: None
        )
        made.append(new_session(shell))
        return made[-1]

    yield load
    for session in made:
        session.close()


def run(session: Any, name: str, text: str = "") -> str:
    """Run a subcommand; return what it displays."""
    shell = session.host.shell
    run_jp(session, shell, f"{name} {text}")
    return "\n".join(shell.shown)


def test_save_and_doctor_name_the_same_place(load: Callable[..., Any]) -> None:
    session = load(Kernel())
    assert session.format_status().endswith(f"new conversation · {IN_JOURNAL}")
    with pytest.raises(jp.StorageError, match=f"It is {IN_JOURNAL}. `%jp export DIR`"):
        run(session, "save")
    table = run(session, "doctor")
    assert IN_JOURNAL in table
    assert "a console or program" in table


def test_conversation_is_in_memory_only_without_a_journal(
    load: Callable[..., Any], folder: Path
) -> None:
    with (folder / ".jp" / "config.toml").open("a") as file:
        file.write("[record]\njournal = false\n")
    where = f"kept in memory only (`record.journal` is off): {NO_NOTEBOOK}"
    assert load(Kernel()).format_status().endswith(where)


def test_record_of_a_program_is_kept_by_the_program(
    load: Callable[..., Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        "jp_nb.notebook.page.notebook_path._read_parent_process", lambda: ([], folder)
    )
    session = load(Kernel(allow_stdin=False))
    where = "kept in the notebook that the runner writes, if it writes one"
    assert session.format_status().endswith(where)
    run(session, "save")
    assert capsys.readouterr().out.endswith(f"{where}, at the end of the run\n")


def test_unknown_conversation_cannot_be_resumed(load: Callable[..., Any]) -> None:
    with pytest.raises(jp.UsageError, match="the journal has no conversation jp-c1x"):
        run(load(Kernel()), "resume", "jp-c1x")
