"""Calls of tools of MCP servers, whose servers may ask the user meanwhile.

A call that waits for the user is not awaited inside `McpTool.run`. The first run starts the request
as a task of its own, and waits for its result or a question. A question ends the run with
`NeedsInput`. The next run finds the open call by `ToolContext.call_key`, gives it the answers, and
waits again. So a question of a server takes the path of every other question, and no clock runs
while a form is open.

The answers complete a request that the server of 2025 sent during the call. A server of 2026 gets
them with the next request of the call.

Source: `docs/mcp.md`, Questions of servers;
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from pydantic import JsonValue

from jp_nb.json_values import as_object
from jp_nb.mcp.call_questions import CallQuestions, PushedQuestions, Round
from jp_nb.mcp.exchange import (
    CANCEL,
    InputRequired,
    Progress,
    ProgressHandler,
    ServerAnswer,
    ServerError,
    ServerQuestion,
    ServerResult,
)
from jp_nb.mcp.progress import ProgressLine
from jp_nb.mcp.results import read_result
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import Outcome, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext

INVALID_PARAMETERS: Final = -32602
"""Code of JSON-RPC, also of a state that the server of 2026 does not know any more."""
URL_REQUIRED: Final = -32042
"""Code of servers of 2025: the user has to open an address before the call."""
MAX_URL_ROUNDS: Final = 10
"""Maximum number of requests of one call that only ask the user to open addresses."""
CANCEL_GRACE_S: Final = 0.25
"""Time for a server to end a call by itself, after the answer `cancel` to its question."""
LAST_ROUND_S: Final = 5.0
"""Time for the last request of a call of 2026, which only brings the answers `cancel`."""

STARTED_AGAIN_FOR_MODEL: Final = (
    "The server had forgotten the user's first answers, so the call was started again from the "
    "beginning"
)
NOT_CONFIRMED: Final = (
    "The server {} needs the user to open an address before this call, but the user did not "
    "confirm it. Do not retry this tool call in this turn."
)
SENT_AGAIN_FOR_MODEL: Final = (
    "The answer to the first request was lost, so the call was sent again. It may have run twice"
)


class CallConnection(Protocol):
    """The part of a `Connection` that calls use."""

    name: str

    @property
    def announced_changes(self) -> bool:
        """Implement `Connection.announced_changes`."""

    async def call(
        self,
        call_id: str,
        tool: str,
        arguments: Mapping[str, JsonValue],
        *,
        answers: Mapping[str, ServerAnswer] | None = None,
        state: object = None,
        on_progress: ProgressHandler | None = None,
    ) -> ServerResult | InputRequired:
        """Implement `Connection.call`."""

    def server_end(self) -> asyncio.Future[None]:
        """Implement `Connection.server_end`."""

    def forget(self, call_id: str) -> None:
        """Implement `Connection.forget`."""


class McpTool(Tool):
    """A tool of a server.

    Args:
        connection: Connection to its server.
        tool: Name of the tool at the server.
        description: Description for the model.
        calls: The open calls of the server.
        schema: JSON schema of the arguments.
        output_schema: JSON schema of the structured content; None without one.
        check: Returns the problems of arguments in words, or None.

    Attributes:
        is_repeatable: True if a call is sent again, once, after its answer was lost.
    """

    routes_exclusive_questions = True

    def __init__(
        self,
        connection: CallConnection,
        tool: str,
        calls: ServerCalls,
        *,
        description: str = "",
        schema: Mapping[str, JsonValue] | None = None,
        output_schema: Mapping[str, JsonValue] | None = None,
        check: Callable[[Mapping[str, JsonValue]], str | None] = lambda _: None,
    ) -> None:
        self.connection = connection
        self.server_tool = tool
        self.server = connection.name
        self.description = description
        self.schema = schema
        self.output_schema = output_schema
        self.is_repeatable = False
        self._calls = calls
        self._check = check

    @property
    def is_outdated(self) -> bool:
        """True if the server has announced other tools since they were listed."""
        return self.connection.announced_changes

    def prepare(
        self, name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | ToolFailure:
        """Return `arguments`, or a failure if the server's schema does not accept them."""
        problem = self._check(arguments)
        return arguments if problem is None else ToolFailure(problem)

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Send the call, or the answers to its last questions, and wait for what follows."""
        call = self._calls.find(context.call_key)
        if call is None:
            call = self._calls.open(self, arguments, context)
        else:
            call.give_answers(context)
        try:
            return await call.wait()
        except asyncio.CancelledError:
            call.cancel()
            raise

    def ended(self, call_key: str) -> None:
        """End the request of a call that does not run again, and its open questions."""
        self._calls.close(call_key)


class ServerCalls:
    """The open calls of one server. `ask` is the `QuestionHandler` of its connection."""

    def __init__(self) -> None:
        self._open: dict[str, PendingCall] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def find(self, key: str) -> PendingCall | None:
        """Return the open call with this key."""
        return self._open.get(key)

    def open(
        self, tool: McpTool, arguments: Mapping[str, JsonValue], context: ToolContext
    ) -> PendingCall:
        """Send a new call."""
        call = PendingCall(tool, arguments, context)
        self._open[call.key] = call
        call.send()
        return call

    def close(self, key: str) -> None:
        """End a call in the background, if it is open."""
        call = self._open.pop(key, None)
        if call is not None:
            closing = asyncio.get_running_loop().create_task(call.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """End all calls. Call it before the connection is closed."""
        for key in list(self._open):
            self.close(key)
        if self._closing:
            await asyncio.wait(set(self._closing))

    async def ask(self, question: ServerQuestion, calls: Sequence[str]) -> ServerAnswer:
        """Ask the user a question of a server of 2025. It belongs to one of the open `calls`.

        The protocol does not say to which one. A call with prepared answers is preferred, because
        answers are prepared for the tool that asks.
        """
        known = [self._open[key] for key in calls if key in self._open]
        if not known:
            return CANCEL

        names = [call.title for call in known] if len(known) > 1 else []
        prepared = [call for call in known if call.has_answers]
        asking = (prepared or known)[0]
        return await asking.receive(question, names)


class PendingCall:
    """One call of a tool, from its first run to its end.

    Attributes:
        key: `ToolContext.call_key` of the call.
        title: Name of the tool for the model.
        has_answers: True if answers to questions of the tool are prepared.
    """

    def __init__(
        self, tool: McpTool, arguments: Mapping[str, JsonValue], context: ToolContext
    ) -> None:
        self.key = context.call_key
        self.title = context.name
        self.has_answers = context.has_answers
        self._tool = tool
        self._arguments = arguments
        self._progress = ProgressLine()
        self._progress.show = context.show_progress
        self._request: asyncio.Task[ServerResult | InputRequired] | None = None
        self._changed = asyncio.Event()
        self._sent_state = False
        self._was_repeated = False
        self._url_rounds = 0
        self._refusal: ToolFailure | None = None  # the user did not open an address
        self._notes: list[str] = []
        self._questions = CallQuestions(tool.server, context.name, self._notes)
        self._pushed = PushedQuestions(self._questions, self._changed)
        self._round: Round | None = None

    # --- requests --------------------------------------------------------------------------

    def send(self, answers: Mapping[str, ServerAnswer] | None = None, state: object = None) -> None:
        """Send a request of the call as a task of its own."""
        self._sent_state = state is not None
        request = self._tool.connection.call(
            self.key,
            self._tool.server_tool,
            self._arguments,
            answers=answers,
            state=state,
            on_progress=self._handle_progress,
        )
        self._request = asyncio.get_running_loop().create_task(request)
        self._request.add_done_callback(lambda _: self._changed.set())

    def _handle_progress(self, progress: Progress) -> None:
        self._progress.report(progress)

    async def wait(self) -> Outcome:
        """Return the outcome of the call, or the next questions of the server."""
        assert self._request is not None
        while True:
            if self._refusal is not None:
                return self._refusal
            if self._pushed.are_waiting:
                return self._pushed.ask_next(self._request)
            if self._request.done():
                outcome = self._read_request(self._request)
                if outcome is not None:
                    return outcome
                continue

            self._changed.clear()
            await self._changed.wait()

    def _read_request(self, request: asyncio.Task[ServerResult | InputRequired]) -> Outcome | None:
        """Return the outcome of a request that ended; None if another one was sent."""
        try:
            found = request.result()
        except ServerError as exc:
            return self._handle_error(exc)

        if isinstance(found, InputRequired):
            round_ = Round("answers", self._questions, found.questions.values(), found.state)
            return self._begin_round(round_)

        self._progress.stop()
        read = read_result(found, self._tool.output_schema, self._notes)
        for text in read.for_user:
            print(text)  # it appears below the line of the call
        return read.outcome

    def _handle_error(self, error: ServerError) -> Outcome | None:
        is_state_refused = error.code == INVALID_PARAMETERS and self._sent_state
        if is_state_refused and not self._questions.was_restarted:
            # The state has expired while the user thought, or with a restart of the server.
            self._questions.was_restarted = True
            self._notes.append(STARTED_AGAIN_FOR_MODEL)
            self.send()
            return None

        if error.is_lost and self._may_repeat:
            self._was_repeated = True
            self._notes.append(SENT_AGAIN_FOR_MODEL)
            self.send()
            return None

        addresses: list[ServerQuestion] = []
        if error.code == URL_REQUIRED:
            addresses = _read_addresses(error.data)
        if addresses and self._url_rounds < MAX_URL_ROUNDS:
            self._url_rounds += 1
            return self._begin_round(Round("addresses", self._questions, addresses))

        self._progress.stop()
        return ToolFailure(_capitalize(str(error)))

    @property
    def _may_repeat(self) -> bool:
        if self._questions.were_asked:
            return False  # the user would have to answer the same questions again
        return self._tool.is_repeatable and not self._was_repeated

    # --- questions -------------------------------------------------------------------------

    def _begin_round(self, round_: Round) -> Outcome | None:
        """Ask all questions of `round_` in one form; None if no form can show any of them."""
        self._round = round_
        if round_.asked:
            return round_.ask(self._tool.connection.server_end())

        self._end_round(round_, round_.cancel())
        return None

    def _end_round(self, round_: Round, answers: Mapping[str, ServerAnswer]) -> None:
        """Send the next request of the call, unless an address was not opened."""
        self._round = None
        if round_.kind == "answers":
            self.send(answers, round_.state)
        elif all(answer.action == "accept" for answer in answers.values()):
            self.send()
        else:
            self._refusal = ToolFailure(NOT_CONFIRMED.format(self._tool.server))

    async def receive(self, asked: ServerQuestion, names: Sequence[str]) -> ServerAnswer:
        """Ask the user a question of a server of 2025, after the earlier ones of the call."""
        return await self._pushed.receive(asked, names)

    def give_answers(self, context: ToolContext) -> None:
        """Give the outcomes of the last questions to the server."""
        self._progress.show = context.show_progress
        if self._pushed.is_shown:
            self._pushed.give_answer(context)
        elif self._round is not None:
            self._end_round(self._round, self._round.make_answers(context))

    # --- end -------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Cancel the request at the server. Its questions are answered when the call closes."""
        if self._request is not None and not self._pushed.are_open:
            self._request.cancel()

    async def close(self) -> None:
        """Answer the open questions with `cancel`, then cancel the request."""
        self._progress.stop()
        limit = 0.0
        if self._pushed.are_open:
            self._pushed.cancel()
            limit = CANCEL_GRACE_S

        if self._round is not None and self._round.kind == "answers":
            self.send(self._round.cancel(), self._round.state)
            limit = LAST_ROUND_S

        await self._end_request(limit)
        self._tool.connection.forget(self.key)

    async def _end_request(self, limit: float) -> None:
        request = self._request
        if request is None:
            return

        if not request.done() and limit:
            await asyncio.wait([request], timeout=limit)

        request.cancel()
        await asyncio.gather(request, return_exceptions=True)


def _read_addresses(data: JsonValue) -> list[ServerQuestion]:
    """Return the questions in the error of a server that needs the user to open addresses."""
    listed = as_object(data).get("elicitations")
    if not isinstance(listed, list):
        return []

    questions: list[ServerQuestion] = []
    for number, each in enumerate(listed, start=1):
        asked = as_object(each)
        url = asked.get("url")
        message = asked.get("message")
        if isinstance(url, str):
            key = "elicitation" if number == 1 else f"elicitation-{number}"
            text = message if isinstance(message, str) else ""
            questions.append(ServerQuestion(key, "url", text, None, url))
    return questions


def _capitalize(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
