"""Questions and forms in a real kernel: unattended, on stdin, with a deadline, in a thread."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.notebook.fresh_session import fresh_session
from tests.support.cells import calls, contents, error, events, kernel_with, start
from tests.support.kernel_client import FrontEnd

UNAVAILABLE = (
    "Tool '{}' is not available. It may have been available earlier in this conversation"
    " but is no longer enabled. Do not retry this tool until it is available again in the"
    " list of enabled tools."
)
LEFT_RUNNING = "The user stopped the turn before it finished. Its effects up to then may remain."
STOPPED_BY_USER = "The user stopped the turn and cancelled the questions."


pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "database",
        "question": "Which database?",
        "options": [{"label": "PostgreSQL", "value": "pg"}, {"label": "SQLite"}],
    },
    {
        "id": "parts",
        "question": "Which parts?",
        "options": [{"label": "API"}, {"label": "Page"}],
        "multi": True,
        "required": False,
    },
]
SCRIPTS = {
    "ask": calls(("ask", {"questions": json.dumps(QUESTIONS)}))
    + '[[replies]]\ntext = "I continue."\n',
    "both": calls(("ask", {"questions": json.dumps(QUESTIONS)}), ("wait", {})),
}
ANSWER = "conversation.tools.ask.questions.{}.answer"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("questions")
    with kernel_with(folder, SCRIPTS | FORM_SCRIPTS, "import jp_nb as jp") as user:
        yield user


@pytest.fixture
def user(kernel: FrontEnd) -> FrontEnd:
    return fresh_session(kernel)


# --- `ask` -------------------------------------------------------------------------------------


def run_alone(user: FrontEnd, options: str = "") -> str:
    """Have the model ask in a cell that takes no input."""
    request = start(user, "ask", options, allow_stdin=False)
    user.finish(request)
    return request


def shown(user: FrontEnd, command: str, **fields: Any) -> str:
    request = user.start(command, **fields)
    user.finish(request)
    return "\n".join(data["text/plain"] for data in user.displays(request))


@pytest.mark.kernel
@pytest.mark.req("RPI-2", "RPI-3", "RCP-23", "RCP-30", "RCP-31", "RPI-48")
def test_ask_is_not_offered_when_unattended_and_no_widget_is_opened(user: FrontEnd) -> None:
    [row] = [x for x in shown(user, "%jp tools").splitlines() if x.startswith("ask ")]
    assert row.split()[1] == "on"
    [row] = [
        x for x in shown(user, "%jp tools", allow_stdin=False).splitlines() if x.startswith("ask ")
    ]
    assert "missing: it needs a user, and no user is available" in row
    request = run_alone(user)
    assert error(user, request) is None
    assert contents(user) == [UNAVAILABLE.format("ask")]
    opened = [m["content"] for m in user.messages if m["header"]["msg_type"] == "comm_open"]
    assert "jupyter.widget" not in [content["target_name"] for content in opened]


@pytest.mark.kernel
@pytest.mark.req("HB-10", "RCP-24")
def test_ask_uses_configured_answers_when_unattended(user: FrontEnd) -> None:
    request = run_alone(user, f"-c {ANSWER.format('database')}=SQLite")
    assert error(user, request) is None
    assert contents(user) == [
        "Answers:\n"
        "database (configured by the user in advance): SQLite\n"
        "parts (chosen automatically, because no user was available): [API]"
    ]
    [response] = [e for e in events(user) if e["type"] == "tool_call_response"]
    assert [each["outcome"] for each in response["metadata"]["structured"]["results"]] == [
        "answered",
        "answered",
    ]


@pytest.mark.kernel
@pytest.mark.req("RPI-3", "RPI-39", "RCP-24")
def test_required_question_fails_when_unattended_and_strict_fails_the_cell(
    user: FrontEnd,
) -> None:
    options = f"-c '{ANSWER.format('parts')}:=[\"Page\"]'"
    request = run_alone(user, options)
    assert error(user, request) is None
    [told] = contents(user)
    assert told.startswith("ask cannot run because no interactive terminal is available.")
    closed = [e for e in events(user) if e["type"] == "inquiry_response"]
    assert {e["reason"] for e in closed} == {"no_prompt_backend"}
    failed = error(user, run_alone(user, f"{options} --strict"))
    assert failed is not None
    assert failed["ename"] == "PromptUnavailable"


WAIT = """
import asyncio
@jp.tool
async def wait() -> str:
    await asyncio.sleep(60)
    return "waited"
"""


def typed(user: FrontEnd, *lines: str) -> None:
    for line in lines:
        user.input_request()
        user.type(line)


@pytest.mark.kernel
@pytest.mark.req("RPI-74", "RPI-76", "RPI-77", "HB-12")
def test_turn_stopped_at_the_form_is_not_reported_as_interrupted(user: FrontEnd) -> None:
    user.run(WAIT)
    request = start(user, "both", "-c prompt.channel=stdin -c prompt.timeout_s=60")
    typed(user, "2", "!", "s")
    user.finish(request)
    failed = error(user, request)
    assert failed is not None
    assert failed["traceback"] == [
        "You stopped the turn. Everything received so far is in the record."
    ]
    assert contents(user) == [STOPPED_BY_USER, LEFT_RUNNING]
    closed = [e for e in events(user) if e["type"] == "inquiry_response"]
    assert [e["metadata"]["end"] for e in closed] == ["cancelled", "cancelled"]
    log = shown(user, "%jp log")
    assert "stopped by you" in log
    everything = log + user.printed(request) + str(user.displays(request))
    assert "interrupt" not in everything.lower()


@pytest.mark.deep
@pytest.mark.req("RCP-22", "RPI-56")
def test_answers_on_stdin_are_sent_to_the_model_in_order(user: FrontEnd) -> None:
    request = start(user, "ask", "-c prompt.channel=stdin")
    typed(user, "PostgreSQL", "2,1", "s")
    user.finish(request)
    assert error(user, request) is None
    assert contents(user) == ["User answers:\ndatabase: PostgreSQL (value: pg)\nparts: [Page, API]"]


# --- a deadline --------------------------------------------------------------------------------

ASK = "print(jp.ask(jp.Question.text('q', '{}')))"


@pytest.mark.kernel
@pytest.mark.req("RPI-40", "RPI-42", "RPI-44")
def test_question_has_the_deadline_that_is_set_when_it_is_asked(user: FrontEnd) -> None:
    user.run("%jp config prompt.timeout_s=0.2")
    late = user.start(ASK.format("Which name?"))
    assert user.models[user.form("Which name?")]["timed"] is True
    user.finish(late)
    failed = error(user, late)
    assert failed is not None
    assert failed["evalue"] == "'Which name?' was not answered"

    user.run("%jp config prompt.timeout_s=0")
    asked = user.start(ASK.format("Which town?"))
    beacon = user.form("Which town?")
    assert user.models[beacon]["timed"] is False
    user.send(beacon, {"type": "submit", "value": "Delft"})
    user.finish(asked)
    assert user.printed(asked) == "Delft\n"


# --- forms from types --------------------------------------------------------------------------

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
FORM_SCRIPTS = {
    name: calls((name, {})) + '[[replies]]\ntext = "Done."\n'
    for name in ("plan", "plan_apart", "login")
}
TYPED = ["Atlantis", "2", "2", "", "Delft", "s"]
"""On stdin: the city, the days, Large, no date; another city; all of it is to be sent."""


STDIN = "-c prompt.channel=stdin"


@pytest.fixture
def trips(user: FrontEnd) -> FrontEnd:
    """Define the types, and ask on stdin."""
    user.run(CELL)
    user.run("%jp config prompt.channel=stdin")
    return user


def fill_in(user: FrontEnd, request: str, *lines: str) -> str:
    for line in lines:
        user.input_request()
        user.type(line)
    user.finish(request)
    assert error(user, request) is None
    return user.printed(request)


@pytest.mark.kernel
def test_invalid_value_is_asked_again_on_stdin(trips: FrontEnd) -> None:
    request = trips.start("trip = jp.ask(Trip)\nprint(repr(trip))")
    printed = fill_in(trips, request, *TYPED)
    assert "Nobody has found Atlantis yet" in printed
    assert printed.splitlines()[-1] == (
        "Trip(city='Delft', days=2, size=<Size.LARGE: 'l'>, begins=None)"
    )


@pytest.mark.kernel
@pytest.mark.parametrize("tool", ["plan", "plan_apart"])
def test_form_of_a_function_and_of_a_thread(trips: FrontEnd, tool: str) -> None:
    fill_in(trips, start(trips, tool, STDIN), *TYPED)
    assert contents(trips) == ["Trip(city='Delft', days=2, size=<Size.LARGE: 'l'>, begins=None)"]


@pytest.mark.kernel
def test_secret_of_a_form_is_passed_only_to_the_tool(trips: FrontEnd) -> None:
    request = start(trips, "login", STDIN)
    trips.input_request()
    trips.type("ada")
    assert trips.input_request()["password"] is True
    trips.type("hunter2")
    trips.input_request()
    trips.type("y")
    trips.input_request()
    trips.type("s")
    trips.finish(request)
    assert contents(trips) == ["ada with (secret), True"]
    assert "hunter2" not in repr(trips.messages)


@pytest.mark.kernel
def test_unattended_form_takes_defaults_and_names_missing_answers(trips: FrontEnd) -> None:
    request = trips.start("jp.ask(Trip)", allow_stdin=False)
    trips.finish(request)
    failed = error(trips, request)
    assert failed is not None
    assert failed["ename"] == "PromptUnavailable"
    assert "set conversation.tools.*.questions.city.answer" in failed["evalue"]
    trips.run("%jp config 'conversation.tools.*.questions.city.answer=Delft'")
    request = trips.start("print(repr(jp.ask(Trip)))", allow_stdin=False)
    trips.finish(request)
    assert trips.printed(request).strip() == (
        "Trip(city='Delft', days=3, size=<Size.SMALL: 's'>, begins=None)"
    )


@pytest.mark.deep
def test_configured_answer_that_does_not_fit_fails_the_cell_with_its_path(
    trips: FrontEnd,
) -> None:
    trips.run("%jp config 'conversation.tools.*.questions.days.answer:=99'")
    request = trips.start("jp.ask(Trip)", allow_stdin=False)
    trips.finish(request)
    failed = error(trips, request)
    assert failed is not None
    assert failed["ename"] == "ConfigError"
    assert "conversation.tools.*.questions.days.answer" in failed["evalue"]
    assert "a whole number from 1 to 14" in failed["evalue"]


@pytest.mark.kernel
def test_interrupt_ends_the_form_and_the_next_one_is_asked(trips: FrontEnd) -> None:
    request = trips.start("jp.ask(Trip)\nprint('continued')")
    trips.input_request()
    trips.type("Delft")
    trips.input_request()
    trips.interrupt(request)
    failed = error(trips, request)
    assert failed is not None
    assert failed["ename"] == "KeyboardInterrupt"
    assert "continued" not in trips.printed(request)
    trips.forget_input_requests()
    again = trips.start("trip = jp.ask(Trip)\nprint(repr(trip))")
    assert "city='Delft'" in fill_in(trips, again, "Delft", "2", "1", "", "s")
