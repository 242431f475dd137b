"""Sessions without a kernel, in this process, which collect the output of their cells."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import platformdirs
import pytest
from pydantic import JsonValue

import jp_nb
from jp_nb.session.session import Session
from jp_nb.storage import files
from tests.kit.questions import answered
from tests.kit.sessions import new_session, run_jp
from tests.kit.settings import value_at
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter

SCRIPT = '[[replies]]\ntext = "one"\n[[replies]]\ntext = "two"\n[[replies]]\ntext = "three"\n'

URL = "providers.llm.openai.base_url"
EVIL = '[providers.llm.openai]\nbase_url = "http://evil.example"\n'


class FakeShell:
    """The part of an IPython shell that a session uses.

    Attributes:
        user_ns: The user's variables.
        shown: The displayed texts, in order.
        bundles: The displayed MIME bundles, in order.
    """

    def __init__(self, **user_ns: Any) -> None:
        self.user_ns = user_ns
        self.shown: list[str] = []
        self.bundles: list[dict[str, str]] = []
        self.display_pub = self
        self.InteractiveTB = SimpleNamespace(mode="", tb=None)

    def publish(self, data: dict[str, str], metadata: Any = None, **_: Any) -> None:
        self.shown.append(data.get("text/plain", ""))
        self.bundles.append(data)


def make_session(**user_ns: Any) -> Session:
    """Return a session in a new shell that has these variables."""
    return new_session(FakeShell(**user_ns))


def shell_of(session: Session) -> FakeShell:
    """Return the shell of a session from `make_session`."""
    host: Any = session.host
    shell: FakeShell = host.shell
    return shell


def note_requests(session: Session) -> list[Any]:
    """Return a list to which each request to a script is added from now on."""
    provider: Any = session.turns.resolver.open_provider("scripted", session.config.providers.llm)
    stream = provider.stream
    noted: list[Any] = []

    def note(request: Any) -> Any:
        noted.append(request)
        return stream(request)

    provider.stream = note
    return noted


def run_line(session: Session, line: str) -> str:
    """Run `%jp LINE` in `session`, and return what it displayed."""
    shell = FakeShell()
    run_jp(session, shell, line)
    return "\n".join(shell.shown)


class Notebook:
    """A session in `folder` and the commands that a user gives it.

    Args:
        folder: The folder of the notebook.
        days: How many days later than today it is.
        previous: The notebook that ran in this kernel before `%load_ext` ran again.
        host: What surrounds the session; None: a shell that collects what is displayed.

    Attributes:
        shown: The displayed texts.
        notices: The notices with which the session began.
    """

    def __init__(
        self,
        folder: Path,
        *,
        days: int = 0,
        previous: Notebook | None = None,
        host: Any | None = None,
    ) -> None:
        self.folder = folder
        self.shell = FakeShell()
        self.shown = self.shell.shown
        before = None if previous is None else previous.session
        self.session: Session = new_session(self.shell, host=host, days=days, previous=before)
        self.notices = list(self.session.notices)

    def jp(self, line: str) -> str:
        """Run `%jp LINE` and return what it displayed."""
        self.shown.clear()
        run_jp(self.session, self.shell, line)
        return "\n".join(self.shown)

    def cell(self, line: str, text: str) -> str:
        """Run `%%jp LINE` with the request `text` and return what it displayed."""
        self.shown.clear()
        run_jp(self.session, self.shell, line, text)
        return "\n".join(self.shown)

    def take_notices(self) -> list[str]:
        """Take the notices since the last call."""
        notices = list(self.session.notices)
        self.session.notices.clear()
        return notices

    def ask(self, text: str, *directives: Any, **options: Any) -> str:
        """Run a turn and return the model's text."""
        return self.session.turns.run(text, directives=directives, **options).text

    def value(self, path: str) -> Any:
        """Return the effective value of a setting."""
        return value_at(self.session.config.model_dump(mode="json"), path)

    @property
    def ids(self) -> list[str]:
        """The ids of the conversations, the active one first."""
        others: Any = self.session.document.others
        stored = [other["conversation"]["id"] for other in others]
        return [self.session.document.conversation.id, *stored]


class AskedNotebook(Notebook):
    """A notebook with a user who answers: `ask_user` asks one question.

    Attributes:
        ends: The user's answers to the next questions.
    """

    _numbers = count()

    def __init__(
        self, folder: Path, *, stored: JsonValue = None, headless: bool = False, name: str = "nb"
    ) -> None:
        self.name = name
        self.ends: list[Any] = []
        self._cells = count(1)
        home = FakeHome(folder / f"{name}.ipynb", headless=headless, stored=stored)
        self.person = FakePrompter(away="headless" if headless else None)
        self.person._ends = self.ends  # those of any test
        self.host = FakeHost(self.person, home)
        super().__init__(folder, host=self.host)

    def call(self, tool: str, **arguments: Any) -> Any:
        """Run a turn in which the model calls `tool`."""
        self.host.start_cell(f"{self.name}-{next(self._cells)}", "run")
        given = _toml(arguments)[1:-1]
        name = f"script-{next(self._numbers)}"
        (self.folder / f"{name}.toml").write_text(
            f'[[replies]]\ntool_calls = [{{name = "{tool}", arguments = {{{given}}}}}]\n'
            '[[replies]]\ntext = "Settled."\n'
        )
        turn: jp_nb.Turn = self.session.turns.run("Continue.", model=f"scripted/{name}")
        return turn.tool_calls[-1]

    def ask_user(self, question: str, end: Any | str | None, **more: Any) -> Any:
        """Run a turn that asks `question`; `end` is the user's answer."""
        if end is not None:
            self.ends.append(answered(end, "form") if isinstance(end, str) else end)
        return self.call("ask_user", question=question, **more)

    def read(self, **arguments: Any) -> dict[str, Any]:
        """Return the earlier questions as the model gets them."""
        call = self.call("ask_user_read", **({"action": "list"} | arguments))
        body: dict[str, Any] = json.loads(call.content or "")
        return body | {"is_error": call.is_error}

    def take_notices(self) -> list[str]:
        """Take the notices since the last call, also those of files."""
        return [*super().take_notices(), *self.session.files.notices.take()]

    @property
    def log(self) -> Path:
        """The file of the question log."""
        return self.folder / ".jp" / "context" / "qna.jsonl"

    def kept(self) -> list[dict[str, Any]]:
        """Return the entries of the question log."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    @property
    def stored(self) -> Any:
        """The notebook's metadata, as another kernel would read them."""
        return json.loads(json.dumps(self.session.document.to_json()))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


# --- folders -----------------------------------------------------------------------------------


@pytest.fixture
def bare_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A notebook's folder without configuration, key, or trust; the current folder."""
    for name in [name for name in os.environ if name.startswith(("JP_CFG_", "JP_NB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(platformdirs, "user_config_path", lambda _: tmp_path / "home")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # journals: of this test alone
    (tmp_path / "home").mkdir()
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def folder(bare_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trusted workspace with a script and a `.jp` folder."""
    monkeypatch.setenv("JP_NB_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", str(tmp_path))
    write(bare_folder / "talk.toml", SCRIPT)
    configure(
        bare_folder,
        'config_load_paths = ["personas"]\n[assistant.model]\nid = "scripted/talk"\n'
        '[user]\nname = "file"\n',
    )
    write(
        bare_folder / "personas" / "dev.toml",
        '[user]\nname = "dev"\n[assistant.model.parameters]\nstop_words = ["d"]\n',
    )
    return bare_folder


@pytest.fixture
def notebook(folder: Path) -> Iterator[Notebook]:
    """A notebook in `folder`, with a new session."""
    made = Notebook(folder)
    yield made
    made.session.close()


def write(path: Path, text: str) -> Path:
    """Write a file, and create its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def configure(folder: Path, text: str) -> Path:
    """Write the configuration file of a workspace."""
    return write(folder / ".jp" / "config.toml", text)


@pytest.fixture
def open_session(bare_folder: Path) -> Iterator[Callable[..., Notebook]]:
    """Opens notebooks, each in a new session, and closes them."""
    made: list[Notebook] = []

    def open_(folder: Path = bare_folder) -> Notebook:
        made.append(Notebook(folder))
        return made[-1]

    yield open_
    for each in made:
        each.session.close()


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Give a path to another user: as root for real, otherwise in the file status only."""
    given: set[tuple[int, int]] = set()

    def ours(status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) not in given and real(status)

    real = files._is_ours
    monkeypatch.setattr(files, "_is_ours", ours)

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, 4242, 4242, follow_symlinks=False)
        else:
            status = path.lstat()
            given.add((status.st_dev, status.st_ino))

    return give
