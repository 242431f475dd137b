"""The prompter without a kernel, in a terminal or without a user. With one: `test_kernel.py`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.notebook.prompt.prompter import NotebookPrompter
from jp_nb.session.threads.cell_loop import CellLoop
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered, not_answered

WHY = make("question_prompt", jp.Question.text("why", "Why?"))
KEY = make("question_prompt", jp.Question.secret("key", "Key?"))


def settings(**values: Any) -> Any:
    return make("prompt_settings", **values)


@pytest.fixture
def prompter(monkeypatch: pytest.MonkeyPatch) -> NotebookPrompter:
    """A prompter in a terminal."""
    for module in ("presence", "current_page"):
        name = f"jp_nb.notebook.prompt.running_cell.{module}.get_running_kernel"
        monkeypatch.setattr(name, lambda: None)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    made = NotebookPrompter(CellLoop())
    made.cell_begins(settings())
    return made


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def type_(*lines: str) -> None:
        left = list(lines)
        for read in ("builtins.input", "getpass.getpass"):
            monkeypatch.setattr(read, lambda _prompt: left.pop(0))

    return type_


def test_terminal_is_asked(prompter: NotebookPrompter, typed: Callable[..., None]) -> None:
    typed("because", "hunter2")
    assert prompter.unavailable() is None
    assert prompter.ask_in_cell(WHY) == answered("because", "terminal")
    assert prompter.ask_in_cell(KEY) == answered("hunter2", "terminal")


def test_prompt_that_is_withdrawn_as_it_comes_up_is_not_read(
    prompter: NotebookPrompter, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Output:
        """The output of a turn. The prompt is withdrawn while it shows what is pending."""

        def catch_up(self) -> None:
            assert prompter._queue.shown is not None
            prompter._withdraw(prompter._queue.shown)

    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("it was read"))
    prompter.cell_begins(settings(), Output())  # type: ignore[arg-type]  # no form is shown
    assert prompter.ask_in_cell(WHY) == not_answered("cancelled", "terminal")


def test_agent_asks_from_its_own_thread(
    prompter: NotebookPrompter, typed: Callable[..., None]
) -> None:
    typed("first", "second")
    cell = prompter._loop

    async def batch() -> list[object]:
        return list(await asyncio.gather(prompter.ask(WHY), prompter.ask(WHY)))

    ends: list[object] = []

    def agent() -> None:
        ends.extend(asyncio.run(batch()))
        cell.wake()

    thread = threading.Thread(target=agent)
    thread.start()
    cell.serve(lambda: bool(ends))
    thread.join()
    assert ends == [answered("first", "terminal"), answered("second", "terminal")]


def test_worker_thread_may_ask_while_the_cell_serves(
    prompter: NotebookPrompter, typed: Callable[..., None]
) -> None:
    typed("from the worker")
    ends: list[object] = []
    started = threading.Event()

    def worker() -> None:
        started.wait()
        ends.append(prompter.ask_in_cell(WHY))
        prompter._loop.wake()

    thread = threading.Thread(target=worker)
    thread.start()
    prompter._loop.post(started.set)
    prompter._loop.serve(lambda: bool(ends))
    thread.join()
    assert ends == [answered("from the worker", "terminal")]


def test_no_prompt_outlives_its_cell(prompter: NotebookPrompter) -> None:
    waiting = [prompter._hand_over(WHY, keeps_record=False) for _ in range(2)]
    prompter.cell_ends()
    ended = [each.future.result(timeout=0) for each in waiting]
    assert ended == [not_answered("cancelled", each.channel) for each in waiting]


def test_end_of_the_input_is_no_empty_answer(
    prompter: NotebookPrompter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_of_input(_prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", end_of_input)
    assert prompter.ask_in_cell(WHY) == not_answered("cancelled", "terminal")


def test_interrupt_while_the_cell_asks_is_an_interrupt_of_the_cell(
    prompter: NotebookPrompter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prompter.ask_in_cell(WHY)
    assert not prompter._open


def test_refused_input_makes_the_user_unavailable(
    prompter: NotebookPrompter, monkeypatch: pytest.MonkeyPatch
) -> None:
    from IPython.core.error import StdinNotImplementedError

    def refused(_prompt: str) -> str:
        raise StdinNotImplementedError

    monkeypatch.setattr("builtins.input", refused)
    assert prompter.ask_in_cell(WHY) == make("unavailable", "the front end does not allow input")


def test_settings_are_those_of_the_cell(prompter: NotebookPrompter) -> None:
    prompter.cell_begins(settings(channel="never"))
    assert prompter.unavailable() == make("unavailable", "prompt.channel is 'never'")
    assert prompter.ask_in_cell(WHY) == make("unavailable", "prompt.channel is 'never'")
    assert asyncio.run(prompter.ask(WHY)) == make("unavailable", "prompt.channel is 'never'")
    prompter.cell_begins(settings())
    assert prompter.unavailable() is None


def test_before_the_first_cell_no_user_is_available() -> None:
    assert is_kind(NotebookPrompter(CellLoop()).unavailable(), "unavailable")


def test_importing_it_brings_no_widgets() -> None:
    code = (
        f"import sys, jp_nb.session.threads.cell_loop, {NotebookPrompter.__module__}\n"
        "heavy = {'ipywidgets', 'anywidget', 'httpx', 'IPython', 'zmq'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
