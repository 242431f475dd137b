"""The MCP server of `jp-nb mcp`: it lists and calls tools, and asks the client their questions.

Definitions have the schemas and descriptions that models get. Calls and questions of a client are
not in any record. The client asks its user the questions of a tool, in one of two ways:

- A *modern* client, of the protocol of 2026-07-28, gets the questions as the result of its call. It
  calls again with the answers, and with the state of the call, which it got with the questions.
- An older client gets a request for each question while its call waits.

`serve_command.py` runs the server, over stdin and stdout or over HTTP.

Source: `docs/mcp.md` (our tools for others), `docs/decisions.md` D231, D232.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic import JsonValue

import jp_nb
from jp_nb.agent.calls.call import CallEnded
from jp_nb.agent.inquiries.question_route import format_no_user_error
from jp_nb.errors import ToolError
from jp_nb.headless.tool_server.client_forms import (
    UnsupportedQuestionError,
    format_form_message,
    make_form_schema,
)
from jp_nb.headless.tool_server.client_questions import ClientAction, Questions, QuestionState
from jp_nb.headless.tool_server.tool_host import ServedTool
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.entries.outcomes import QuestionEnd
from jp_nb.text import one_line, plain
from jp_nb.toolkit.question import Question

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.lowlevel.server import Server

MAX_QUESTION_ROUNDS: Final = 50
"""Maximum number of rounds of questions of one call. Beyond, the tool ignores the answers."""
STATE_S: Final = 3600.0
"""Time, in seconds, that a user has to answer the questions of one round."""
TOO_MANY_ROUNDS: Final = (
    "{} asked questions {} times and does not use the answers. Do not retry this tool call."
)


class ToolRunner(Protocol):
    """The tools that are served, in this process or in a kernel.

    Attributes:
        refused: The reasons why tools are not offered, by their names. `load` sets it.
    """

    refused: dict[str, str]

    async def load(self) -> list[ServedTool]:
        """Return the tools that are offered."""

    def get_configured_answers(self, name: str) -> JsonObject:
        """Return the configured answers to questions of a tool, by question id."""

    async def run(
        self,
        name: str,
        arguments: Mapping[str, JsonValue],
        *,
        answers: Mapping[str, JsonValue],
        ends: Mapping[str, QuestionEnd],
    ) -> JsonObject:
        """Run a tool once, and return its outcome as JSON.

        `answers` and `ends` are those of the questions of its earlier runs, by question id. The
        shapes, in which `partial` is that of `NeedsInput`:

            {"type": "success", "content": "…", "images": [[MEDIA_TYPE, BASE64]]}
            {"type": "error", "message": "…"}
            {"type": "needs_input", "questions": […], "partial": false}
        """


def print_notice(text: str) -> None:
    """Print a line about the server to stderr: stdout has the messages of the protocol."""
    print(f"jp-nb mcp: {plain(text)}", file=sys.stderr, flush=True)


def make_server(source: str, tools: ToolServer) -> Server[Any]:
    """Return the MCP server of `tools`, with the name of the module or notebook.

    The library seals the state of a call before a client gets it, and checks the seal when it comes
    back: a client cannot change it.
    """
    from mcp.server.lowlevel.server import Server
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

    name = Path(source).stem
    server: Server[Any] = Server(
        name,
        version=jp_nb.__version__,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
    )
    server.middleware.append(tools.restore_schemas)
    security = RequestStateSecurity.ephemeral(ttl=STATE_S)
    server.middleware.append(RequestStateBoundary(security, default_audience=name))
    return server


class ToolServer:
    """Answers the requests of clients. They wait until `set_host` offers the tools."""

    def __init__(self) -> None:
        self._host: asyncio.Future[ToolRunner] = asyncio.get_running_loop().create_future()
        self._tools: dict[str, ServedTool] = {}

    def set_host(self, host: ToolRunner, tools: Sequence[ServedTool]) -> None:
        """Offer the `tools` of `host`."""
        self._tools = {tool.name: tool for tool in tools}
        self._host.set_result(host)

    async def _wait_for_host(self) -> ToolRunner:
        return await asyncio.shield(self._host)  # a client may cancel its request

    async def list_tools(
        self, _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Return the definitions, as models get them."""
        import mcp_types as types

        await self._wait_for_host()
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=dict(tool.schema),
                )
                for tool in self._tools.values()
            ]
        )

    async def restore_schemas(
        self, ctx: ServerRequestContext[Any], call_next: CallNext
    ) -> HandlerResult:
        """Put the schemas into a list as they are: the library orders the keys of their roots."""
        result = await call_next(ctx)
        if ctx.method != "tools/list" or not isinstance(result, dict):
            return result
        tools = [
            {**tool, "inputSchema": dict(self._tools[tool["name"]].schema)}
            for tool in result["tools"]
        ]
        return {**result, "tools": tools}

    async def call_tool(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run a tool, and ask the client the questions of the tool."""
        import mcp_types as types
        from mcp.shared.exceptions import MCPError

        await self._wait_for_host()  # before, no tool is known
        if params.name not in self._tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        try:
            return await self._call(Client(context), params)
        except CallEnded as end:
            return _make_text_result(end.content, is_error=end.is_error)
        except ToolError as exc:
            print_notice(f"a call of {params.name} ended: {one_line(str(exc), limit=300)}")
            return _make_text_result(str(exc), is_error=True)

    async def _call(
        self, client: Client, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run a tool until it asks nothing more, or return the questions to a modern client."""
        host = await self._wait_for_host()
        state = QuestionState()
        if params.request_state is not None:
            state, asked = _read_state(params)
            missing = _take_responses(asked, state, params.input_responses or {})
            if missing:
                return _require_input(asked, missing, state)

        name = params.name
        while True:
            outcome = await host.run(
                name, params.arguments or {}, answers=state.answers, ends=state.ends
            )
            if outcome["type"] != "needs_input":
                return _make_result(outcome)

            state.rounds += 1
            if state.rounds > MAX_QUESTION_ROUNDS:
                raise ToolError(TOO_MANY_ROUNDS.format(name, MAX_QUESTION_ROUNDS))

            asked = _read_questions(name, outcome, host.get_configured_answers(name))
            shown = asked.select_open(state, can_ask=client.can_ask)
            if shown and client.is_modern:
                return _require_input(asked, shown, state)

            for question in shown:
                action, content = await client.ask(asked.tool, question)
                asked.settle_response(state, question, action, content)


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


def _require_input(
    asked: Questions, shown: Sequence[Question], state: QuestionState
) -> types.InputRequiredResult:
    """Return the result that asks `shown`. The state is sealed before the client gets it."""
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


def _read_state(params: types.CallToolRequestParams) -> tuple[QuestionState, Questions]:
    """Return the state of a call, and its open questions. The library has checked its seal."""
    stored = as_object(json.loads(params.request_state or ""))
    asked = _read_questions(
        params.name, {"questions": stored["open"], "partial": stored["partial"]}, {}
    )
    return QuestionState.from_json(stored), asked


def _take_responses(
    asked: Questions, state: QuestionState, responses: types.InputResponses
) -> list[Question]:
    """Put the client's `responses` into `state`, and return the questions without one."""
    missing: list[Question] = []
    for question in asked.questions:
        response = responses.get(question.id)
        action = getattr(response, "action", None)
        if action is None:
            missing.append(question)
        else:
            asked.settle_response(state, question, action, getattr(response, "content", None))
    return missing


def _read_questions(
    tool: str, outcome: JsonObject, configured: Mapping[str, JsonValue]
) -> Questions:
    """Return the questions in an outcome of `ToolRunner.run`."""
    listed = outcome["questions"]
    assert isinstance(listed, list)  # `ToolHost` wrote it
    questions = [Question.model_validate(item) for item in listed]
    return Questions(tool, questions, outcome["partial"] is True, configured)


# --- results -----------------------------------------------------------------------------------


def _make_result(outcome: JsonObject) -> types.CallToolResult:
    """Return a success or an error in the shapes of `ToolRunner.run` as a result of MCP."""
    if outcome["type"] == "error":
        return _make_text_result(str(outcome["message"]), is_error=True)

    result = _make_text_result(str(outcome["content"]), is_error=False)
    images = outcome.get("images")
    for image in images if isinstance(images, list) else []:
        assert isinstance(image, list)  # media type, and content in Base64
        media_type, data = map(str, image)
        result.content.append(_make_image_block(media_type, data))
    return result


def _make_image_block(media_type: str, data: str) -> types.ContentBlock:
    """Return an image, or another file such as a PDF as an embedded resource."""
    import mcp_types as types

    if media_type.startswith("image/"):
        return types.ImageContent(data=data, mime_type=media_type)
    blob = types.BlobResourceContents(uri="jp-nb:result", mime_type=media_type, blob=data)
    return types.EmbeddedResource(resource=blob)


def _make_text_result(text: str, *, is_error: bool) -> types.CallToolResult:
    import mcp_types as types

    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)
