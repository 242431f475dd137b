"""One call of a server's tool, from its first request to its end.

The call outlives a run of its tool: a run ends with the questions of the server, and the next one
gives the answers (`calls.py` has the whole story). `wait` returns the outcome, or the next
questions.

A call has three sources of events: its request ends, the server pushes a question meanwhile
(`PushedQuestions`, protocol of 2025), or the user answers. A request may end with a `Round` of
questions (protocol of 2026), or with addresses that the user must open first.

Source: `docs/mcp.md`, Questions of servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import as_object
from jp_nb.mcp.errors import ServerError
from jp_nb.mcp.exchange import InputRequired, Progress, ServerAnswer, ServerQuestion, ServerResult
from jp_nb.mcp.tool_calls.call_questions import CallQuestions
from jp_nb.mcp.tool_calls.called_tool import CalledTool
from jp_nb.mcp.tool_calls.progress import ProgressLine
from jp_nb.mcp.tool_calls.pushed_questions import PushedQuestions
from jp_nb.mcp.tool_calls.question_round import Round
from jp_nb.mcp.tool_calls.results import read_result
from jp_nb.text import upper_first
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


class PendingCall:
    """One call of a tool, from its first run to its end.

    A run of the tool calls `send` (the first run) or `give_answers` (each later one), and then
    `wait`. At most one request runs at a time. Its questions are either pushed while it runs, or a
    round after it has ended.

    Attributes:
        key: `ToolContext.call_key` of the call.
        title: Name of the tool for the model.
        has_answers: True if answers to questions of the tool are prepared.
    """

    def __init__(
        self, tool: CalledTool, arguments: Mapping[str, JsonValue], context: ToolContext
    ) -> None:
        self.key = context.call_key
        self.title = context.name
        self.has_answers = context.has_answers
        self._tool = tool
        self._arguments = arguments
        self._progress = ProgressLine()
        self._progress.show = context.show_progress
        self._changed = asyncio.Event()  # the request has ended, or a question has arrived

        # The last request, and its history.
        self._request: asyncio.Task[ServerResult | InputRequired] | None = None
        self._sent_state = False  # it had a state of the server
        self._was_repeated = False  # after its answer was lost
        self._url_round_count = 0  # requests that only asked the user to open addresses

        # Questions, and what follows from their answers.
        self._notes: list[str] = []  # for the model, below the result
        self._questions = CallQuestions(tool.server, context.name, self._notes)
        # Its `are_waiting` is about questions before their form, `is_shown` about the form, and
        # `are_open` about both.
        self._pushed = PushedQuestions(self._questions, self._changed)
        self._round: Round | None = None  # whose answers are still missing
        self._refusal: ToolFailure | None = None  # the user did not open an address

    # --- requests --------------------------------------------------------------------------

    def send(self, answers: Mapping[str, ServerAnswer] | None = None, state: object = None) -> None:
        """Send a request of the call in a new task."""
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
        """Return the outcome of the call, or the next questions of the server (`NeedsInput`)."""
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
        """Return the outcome of a request that ended; None if the call continues without the user.

        Then another request was sent, or the call has a `_refusal`.
        """
        try:
            result = request.result()
        except ServerError as exc:
            return self._handle_error(exc)

        if isinstance(result, InputRequired):
            round_ = Round("answers", self._questions, result.questions.values(), result.state)
            return self._begin_round(round_)

        self._progress.stop()
        read = read_result(result, self._tool.output_schema, self._notes)
        for text in read.for_user:
            print(text)  # it appears below the line of the call
        return read.outcome

    def _handle_error(self, error: ServerError) -> Outcome | None:
        """Return the outcome of a request that failed; None as in `_read_request`.

        Three errors do not end the call: the server has forgotten the state of the last round, the
        answer was lost and the call may be repeated, or the user has to open addresses first.
        """
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
        if addresses and self._url_round_count < MAX_URL_ROUNDS:
            self._url_round_count += 1
            return self._begin_round(Round("addresses", self._questions, addresses))

        self._progress.stop()
        return ToolFailure(upper_first(str(error)))

    @property
    def _may_repeat(self) -> bool:
        """True if the call may be sent again after its answer was lost: once, if it is allowed."""
        if self._questions.were_asked:
            return False  # the user would have to answer the same questions again
        return self._tool.is_repeatable and not self._was_repeated

    # --- questions -------------------------------------------------------------------------

    def _begin_round(self, round_: Round) -> Outcome | None:
        """Ask all questions of `round_` in one form; None if no form can show any of them.

        Without a form, the round ends at once, with the answers `cancel`.
        """
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

    async def receive(self, asked: ServerQuestion, titles: Sequence[str]) -> ServerAnswer:
        """Ask the user a question of a server of 2025, after the earlier ones of the call.

        `titles` are those of the calls to which it may belong, if there are several.
        """
        return await self._pushed.receive(asked, titles)

    def give_answers(self, context: ToolContext) -> None:
        """Give the outcomes of the last questions to the server."""
        self._progress.show = context.show_progress
        if self._pushed.is_shown:
            self._pushed.give_answer(context)
        elif self._round is not None:
            self._end_round(self._round, self._round.make_answers(context))

    # --- end -------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Cancel the request at the server, unless its questions are open.

        `close` answers these first.
        """
        if self._request is not None and not self._pushed.are_open:
            self._request.cancel()

    async def close(self) -> None:
        """Answer the open questions with `cancel`, then cancel the request.

        A server that gets `cancel` can end the call itself, so it has a moment for that.
        """
        self._progress.stop()
        grace_s = 0.0
        if self._pushed.are_open:
            self._pushed.cancel()
            grace_s = CANCEL_GRACE_S

        if self._round is not None and self._round.kind == "answers":
            self.send(self._round.cancel(), self._round.state)
            grace_s = LAST_ROUND_S

        await self._end_request(grace_s)
        self._tool.connection.forget(self.key)

    async def _end_request(self, grace_s: float) -> None:
        """Cancel the last request, if it does not end by itself in time."""
        request = self._request
        if request is None:
            return

        if not request.done() and grace_s:
            await asyncio.wait([request], timeout=grace_s)

        request.cancel()
        await asyncio.gather(request, return_exceptions=True)


def _read_addresses(data: JsonValue) -> list[ServerQuestion]:
    """Return the questions in the error of a server that needs the user to open addresses."""
    listed = as_object(data).get("elicitations")
    if not isinstance(listed, list):
        return []

    questions: list[ServerQuestion] = []
    for number, item in enumerate(listed, start=1):
        elicitation = as_object(item)
        url = elicitation.get("url")
        if not isinstance(url, str):
            continue

        key = "elicitation" if number == 1 else f"elicitation-{number}"
        message = elicitation.get("message")
        text = message if isinstance(message, str) else ""
        questions.append(ServerQuestion(key, "url", text, None, url))
    return questions
