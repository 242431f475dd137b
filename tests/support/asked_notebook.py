"""A notebook in whose turns a person is asked, with a session and no kernel."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from jp_nb.agent.prompts import Answered, FormEnd, PromptEnd
from jp_nb.notebook.commands import run_subcommand
from jp_nb.record.turn_view import ToolCall, Turn
from jp_nb.session.host import CellRun
from jp_nb.session.session import Session
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter
from tests.support.in_process import FakeShell

_NUMBERS = count()


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


class AskedNotebook:
    """A notebook in `folder`: `ask` runs a turn that asks one question.

    Attributes:
        ends: How the person ends the questions to come.
    """

    def __init__(
        self, folder: Path, *, stored: JsonValue = None, headless: bool = False, name: str = "nb"
    ) -> None:
        self.folder, self.name = folder, name
        self.ends: list[PromptEnd | FormEnd] = []
        self._cells = count(1)
        home = FakeHome(folder / f"{name}.ipynb", headless=headless, stored=stored)
        self.person = FakePrompter(away="nobody is there" if headless else None)
        self.person._ends = self.ends  # type: ignore[assignment]  # those of any test
        host = FakeHost(self.person, home)
        self.host, self.shell = host, FakeShell()
        self.session = Session(host)

    # --- what happens in it ------------------------------------------------------------------

    def call(self, tool: str, **arguments: Any) -> ToolCall:
        """Run a turn in which the model calls `tool`."""
        self.host.cell = CellRun(f"{self.name}-{next(self._cells)}", "run")
        given = _toml(arguments)[1:-1]
        name = f"script-{next(_NUMBERS)}"
        (self.folder / f"{name}.toml").write_text(
            f'[[replies]]\ntool_calls = [{{name = "{tool}", arguments = {{{given}}}}}]\n'
            '[[replies]]\ntext = "Settled."\n'
        )
        turn: Turn = self.session.run_turn("Go on.", model=f"scripted/{name}")
        return turn.tool_calls[-1]

    def ask(self, question: str, end: PromptEnd | str | None, **more: Any) -> ToolCall:
        """Run a turn that asks `question`, which the person ends with `end`, if they are asked."""
        if end is not None:
            self.ends.append(Answered(end, "form") if isinstance(end, str) else end)
        return self.call("ask_user", question=question, **more)

    def read(self, **arguments: Any) -> dict[str, Any]:
        """Return what the model reads of earlier questions."""
        call = self.call("ask_user_read", **({"action": "list"} | arguments))
        body: dict[str, Any] = json.loads(call.content or "")
        return body | {"is_error": call.is_error}

    def jp(self, line: str) -> str:
        """Return what `%jp LINE` displays."""
        self.shell.shown.clear()
        name, _, rest = line.partition(" ")
        run_subcommand(self.shell, self.session, name, rest)
        return "\n".join(self.shell.shown)

    def told(self) -> list[str]:
        """Return what the person is told once, since the last call."""
        told = [*self.session.notices, *self.session.files.take_notices()]
        self.session.notices.clear()
        return told

    # --- the log -----------------------------------------------------------------------------

    @property
    def log(self) -> Path:
        return self.folder / ".jp" / "context" / "qna.jsonl"

    def kept(self) -> list[dict[str, Any]]:
        """Return the entries of the log; none if there is no log."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    @property
    def stored(self) -> Any:
        """What another notebook would find here."""
        return json.loads(json.dumps(self.session.document.to_json()))
