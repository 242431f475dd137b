"""`jp.ask(Model)` in a real kernel: nobody there, on stdin, in a tool, in a thread of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cells import calls, contents, error, kernel_with, start, value
from tests.support.kernel_client import FrontEnd

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

CELL = """
import threading
from datetime import date
from enum import Enum
import jp_nb as jp
from pydantic import BaseModel, Field, SecretStr, field_validator

class Size(Enum):
    SMALL = "s"
    LARGE = "l"

class Trip(BaseModel):
    city: str
    days: int = Field(3, ge=1, le=14)
    size: Size = Size.SMALL
    begins: date | None = None

    @field_validator("city")
    @classmethod
    def known(cls, city):
        if city == "Atlantis":
            raise ValueError("nobody has found Atlantis yet")
        return city

class Login(BaseModel):
    user: str
    password: SecretStr

@jp.tool
def plan() -> str:
    return repr(jp.ask(Trip))

@jp.tool(thread=True)
def plan_apart() -> str:
    return repr(jp.ask(Trip))

@jp.tool
def login(ctx: jp.ToolContext) -> jp.Outcome:
    asked = jp.Question.form("who", Login)
    if "who" not in ctx.answers:
        return jp.NeedsInput(asked, jp.Question.boolean("sure", "Sure?"))
    who = asked.validated(ctx.answers["who"])
    return jp.Success(f"{who.user} with {who.password.get_secret_value()}, {ctx.answers['sure']}")
"""
SCRIPTS = {
    name: calls((name, {})) + '[[replies]]\ntext = "Done."\n'
    for name in ("plan", "plan_apart", "login")
}
TYPED = ["Atlantis", "2", "2", "", "Delft", "s"]
"""On stdin: the city, the days, Large, no date; another city; all of it is to be sent."""


@pytest.fixture
def user(tmp_path: Path) -> Iterator[FrontEnd]:
    with kernel_with(tmp_path, SCRIPTS, CELL) as user:
        user.run("%jp config prompt.channel=stdin")
        yield user


def typed(user: FrontEnd, request: str, *lines: str) -> str:
    for line in lines:
        user.input_request()
        user.type(line)
    user.finish(request)
    assert error(user, request) is None
    return user.printed(request)


def test_on_stdin_what_does_not_validate_is_said_and_asked_again(user: FrontEnd) -> None:
    request = user.start("trip = jp.ask(Trip)\nprint(repr(trip))")
    printed = typed(user, request, *TYPED)
    assert "nobody has found Atlantis yet" in printed
    assert printed.splitlines()[-1] == (
        "Trip(city='Delft', days=2, size=<Size.LARGE: 'l'>, begins=None)"
    )


@pytest.mark.parametrize("tool", ["plan", "plan_apart"])
def test_in_a_tool_and_in_a_thread_of_one(user: FrontEnd, tool: str) -> None:
    typed(user, start(user, tool), *TYPED)
    assert contents(user) == ["Trip(city='Delft', days=2, size=<Size.LARGE: 'l'>, begins=None)"]


def test_a_tools_form_with_a_secret_reaches_the_tool_alone(user: FrontEnd) -> None:
    request = start(user, "login")
    user.input_request()
    user.type("ada")
    assert user.input_request()["password"] is True
    user.type("hunter2")
    user.input_request()
    user.type("y")
    user.input_request()
    user.type("s")
    user.finish(request)
    assert contents(user) == ["ada with (secret), True"]
    assert "hunter2" not in repr(user.messages)


def test_with_nobody_there_defaults_are_taken_and_what_is_missing_is_named(user: FrontEnd) -> None:
    user.run("%jp config prompt.channel=auto")
    request = user.start("jp.ask(Trip)", allow_stdin=False)
    user.finish(request)
    failed = error(user, request)
    assert failed is not None
    assert failed["ename"] == "PromptUnavailable"
    assert "set conversation.tools.*.questions.city.answer" in failed["evalue"]
    user.run("%jp config 'conversation.tools.*.questions.city.answer=Delft'")
    request = user.start("print(repr(jp.ask(Trip)))", allow_stdin=False)
    user.finish(request)
    assert user.printed(request).strip() == (
        "Trip(city='Delft', days=3, size=<Size.SMALL: 's'>, begins=None)"
    )
    loaded = value(user, "sorted({'ipywidgets', 'anywidget'} & set(__import__('sys').modules))")
    assert loaded == []


def test_a_configured_answer_that_does_not_fit_fails_the_cell_with_its_path(
    user: FrontEnd,
) -> None:
    user.run("%jp config 'conversation.tools.*.questions.days.answer:=99'")
    request = user.start("jp.ask(Trip)", allow_stdin=False)
    user.finish(request)
    failed = error(user, request)
    assert failed is not None
    assert failed["ename"] == "ConfigError"
    assert "conversation.tools.*.questions.days.answer" in failed["evalue"]
    assert "a whole number from 1 to 14" in failed["evalue"]


def test_an_interrupt_ends_the_form_and_the_next_one_is_asked(user: FrontEnd) -> None:
    request = user.start("jp.ask(Trip)\nprint('went on')")
    user.input_request()
    user.type("Delft")
    user.input_request()
    user.interrupt(request)
    failed = error(user, request)
    assert failed is not None
    assert failed["ename"] == "KeyboardInterrupt"
    assert "went on" not in user.printed(request)
    user.forget_input_requests()
    again = user.start("trip = jp.ask(Trip)\nprint(repr(trip))")
    assert "city='Delft'" in typed(user, again, "Delft", "2", "1", "", "s")
