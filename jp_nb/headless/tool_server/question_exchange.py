"""Ask the client of a call the questions of the called tool, as its protocol does.

- A *modern* client, of the protocol of 2026-07-28, gets the questions as the result of its call. It
  calls again with the answers, and with the state of the call, which it got with the questions.
- An older client gets a request for each question while its call waits (`Client.ask`).

`client_questions.py` decides which questions are asked, and `client_forms.py` makes their forms.

Source: `docs/mcp.md` (our tools for others), `docs/decisions.md` D231, D232.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from jp_nb.agent.inquiries.question_route import format_no_user_error
from jp_nb.errors import ToolError
from jp_nb.headless.tool_server.client_forms import (
    UnsupportedQuestionError,
    format_form_message,
    make_form_schema,
)
from jp_nb.headless.tool_server.client_questions import ClientAction, Questions, QuestionState
from jp_nb.json_values import JsonObject, as_object
from jp_nb.toolkit.question import Question

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext


class Client:
    """The client of one request."""

    def __init__(self, context: ServerRequestContext[Any]) -> None:
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        self._context = context
        self.is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def can_ask(self) -> bool:
        """True if the client shows forms to its user."""
        capabilities = self._context.session.client_capabilities
        elicitation = None if capabilities is None else capabilities.elicitation
        if elicitation is None:
            return False
        # A client that names no mode shows forms.
        return elicitation.form is not None or elicitation.url is None

    async def ask(self, tool: str, question: Question) -> tuple[ClientAction, JsonValue]:
        """Send a request to the client, as protocols before 2026-07-28 do.

        Raises:
            ToolError: The client cannot show the question.
        """
        from mcp.shared.exceptions import MCPError

        schema = _make_form_or_refuse(tool, question)
        try:
            result = await self._context.session.elicit_form(
                format_form_message(question), schema, related_request_id=self._context.request_id
            )
        except MCPError as exc:
            raise ToolError(format_no_user_error(tool)) from exc
        content: JsonObject = dict(result.content or {})  # type: ignore[arg-type]  # lists of texts
        return result.action, content


def _make_form_or_refuse(tool: str, question: Question) -> JsonObject:
    """Return the schema of the form for `question`.

    Raises:
        ToolError: No client may show it. The call ends as if no user were available.
    """
    try:
        return make_form_schema(question)
    except UnsupportedQuestionError as exc:
        raise ToolError(format_no_user_error(tool)) from exc


def require_input(
    asked: Questions, shown: Sequence[Question], state: QuestionState
) -> types.InputRequiredResult:
    """Return the result that asks `shown`. The state is sealed before the client gets it.

    With it are the open questions, and `partial`: True if the tool also runs with open questions.
    """
    import mcp_types as types

    requests: types.InputRequests = {
        question.id: types.ElicitRequest(
            params=types.ElicitRequestFormParams(
                message=format_form_message(question),
                requested_schema=_make_form_or_refuse(asked.tool, question),
            )
        )
        for question in shown
    }
    questions: list[JsonValue] = [question.model_dump(mode="json") for question in shown]
    stored = state.to_json() | {"open": questions, "partial": asked.partial}
    return types.InputRequiredResult(input_requests=requests, request_state=json.dumps(stored))


def read_call_state(params: types.CallToolRequestParams) -> tuple[QuestionState, Questions]:
    """Return the state of a call, and its open questions.

    `require_input` wrote it. The library `mcp` sealed it then, and has checked the seal now.
    Configured answers are not needed: only questions for the user are in it.
    """
    stored = as_object(json.loads(params.request_state or ""))
    asked = read_asked_questions(
        params.name, {"questions": stored["open"], "partial": stored["partial"]}, {}
    )
    return QuestionState.from_json(stored), asked


def take_responses(
    asked: Questions, state: QuestionState, responses: types.InputResponses
) -> list[Question]:
    """Put the client's `responses` into `state`, and return the questions without one.

    Raises:
        CallEnded: The user declined a question, so the call ends.
        ToolError: An answer does not fit its question.
    """
    missing: list[Question] = []
    for question in asked.questions:
        response = responses.get(question.id)
        action = getattr(response, "action", None)
        if action is None:
            missing.append(question)
        else:
            asked.settle_response(state, question, action, getattr(response, "content", None))
    return missing


def read_asked_questions(
    tool: str, outcome: JsonObject, configured: Mapping[str, JsonValue]
) -> Questions:
    """Return the questions in the `outcome` of a run of `tool`, which is of type `needs_input`.

    `ToolRunner.run` in `mcp_server.py` has its shape.
    """
    listed = outcome["questions"]
    assert isinstance(listed, list)
    questions = [Question.model_validate(item) for item in listed]
    return Questions(tool, questions, outcome["partial"] is True, configured)
