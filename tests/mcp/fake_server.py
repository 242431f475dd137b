"""A connection without a server, and turns that call its tool.

turn = Asking([required(who=FORM), result("Delft")], yes({"city": "Delft"}))
await turn.run()
assert turn.server.sent[1].answers == {"who": ServerAnswer("accept", {"city": "Delft"})}
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from tests.agent.interrupted_turns import interrupt_config
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.kinds import make
from tests.kit.servers import McpServer
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter

TRIP: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 2}},
    "required": ["city"],
}
"""Schema of a form with one field."""
NAME = "books__trip"
"""Name of the tool for the model."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One request of a call."""

    call_id: str
    arguments: Mapping[str, JsonValue]
    answers: Mapping[str, Any] | None
    state: object
    on_progress: Any | None


Step = Any  # a result, an exception to raise, or a function to await


class FakeServer:
    """A connection to the server `books`, whose requests end with `steps`, in order.

    A step may also be a function to await for the end.

    Attributes:
        sent: The requests.
        cancelled: Ids of the calls whose request was cancelled.
        forgotten: Ids of the calls that are not continued.
        announced_changes: True if the server has announced other tools.
        end: Ends with the server.
    """

    name = "books"
    announced_changes = False

    def __init__(self, *steps: Step) -> None:
        self.steps = [*steps]
        self.sent: list[Sent] = []
        self.cancelled: list[str] = []
        self.forgotten: list[str] = []
        self.end: asyncio.Future[None] | None = None

    async def call(
        self,
        call_id: str,
        tool: str,
        arguments: Mapping[str, JsonValue],
        *,
        answers: Mapping[str, Any] | None = None,
        state: object = None,
        on_progress: Any | None = None,
    ) -> Any:
        """Implement `CallConnection.call`."""
        sent = Sent(call_id, arguments, answers, state, on_progress)
        self.sent.append(sent)
        step = self.steps.pop(0)
        try:
            end = await step(sent) if callable(step) else step
        except asyncio.CancelledError:
            self.cancelled.append(call_id)
            raise
        if isinstance(end, Exception):
            raise end
        return end

    def server_end(self) -> asyncio.Future[None]:
        """Implement `CallConnection.server_end`."""
        if self.end is None:
            self.end = asyncio.get_running_loop().create_future()
        return self.end

    def forget(self, call_id: str) -> None:
        """Implement `CallConnection.forget`."""
        self.forgotten.append(call_id)


class Asking:
    """A turn in which the model calls the tool `trip` of the server `books`.

    `ends` are those of the prompts, as in `FakePrompter`. `settings` are those of the tool.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *ends: Any,
        away: str | None = None,
        calls: Sequence[str] = ("c1",),
        settings: dict[str, Any] | None = None,
        **ports: Any,
    ) -> None:
        self.server = FakeServer(*steps)
        make_tool, self.calls = McpServer.tool("trip")
        self.tool = make_tool(self.server)
        self.person = FakePrompter(*ends, away=away)
        config: Any = interrupt_config()
        tool: dict[str, Any] = {"source": "local", "run": "unattended", **(settings or {})}
        config["conversation"] = {"tools": {NAME: tool}}
        asked = [call(NAME, call_id, index=index) for index, call_id in enumerate(calls, 1)]
        self.bench = TurnBench(
            [reply(*asked), DONE],
            person=self.person,
            config=config,
            executors={"local": {NAME: self.tool}},
            **ports,
        )

    async def run(self) -> None:
        """Run the turn, and close the calls."""
        await self.bench.run()
        await self.calls.aclose()

    async def ask(self, asked: Any, *calls: str) -> Any:
        """Ask the user as a server of 2025 does, during the call `c1` or `calls`."""
        return await self.calls.ask(asked, calls or ("c1",))

    @property
    def answers(self) -> list[Mapping[str, Any] | None]:
        """The answers of each request."""
        return [sent.answers for sent in self.server.sent]

    @property
    def results(self) -> list[tuple[str, bool]]:
        """Text of each result, and True for an error."""
        return [(each.content, each.is_error) for each in self.bench.of("tool_call_response")]

    @property
    def inquiries(self) -> list[Any]:
        """The recorded questions."""
        return self.bench.of("inquiry_request")

    @property
    def ends(self) -> list[Any]:
        """The recorded ends of the questions."""
        return [each.metadata.get("end") for each in self.bench.of("inquiry_response")]


def form(
    key: str = "elicitation", schema: Mapping[str, Any] = TRIP, message: str = "Which trip?"
) -> Any:
    """Return a question with a form."""
    return make("server_question", key, "form", message, schema)


def address(key: str = "elicitation", url: str = "https://a.example/login") -> Any:
    """Return a question with an address."""
    return make("server_question", key, "url", "Please sign in.", None, url)


def required(*questions: Any, state: object = "s1") -> Any:
    """Return the questions of a server of 2026."""
    return make("input_required", {each.key: each for each in questions}, state)


def result(text: str = "Done.", **more: Any) -> Any:
    """Return a result with one text."""
    return make("server_result", ({"type": "text", "text": text},), **more)


def server_error(message: str, code: int = 0, data: JsonValue = None) -> Any:
    """Return the error of a request."""
    return make("server_error", "books", "trip", message, code=code, data=data)


def lost() -> Any:
    """Return the error of a request whose answer was lost."""
    error = server_error("the connection to it was lost")
    error.is_lost = True
    return error
