"""Connection to one MCP server.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from jp_nb.mcp.exchange import (
    ConnectionLimits,
    ConnectionState,
    Era,
    InputRequired,
    Launch,
    Progress,
    ProgressHandler,
    QuestionHandler,
    ServerAnswer,
    ServerError,
    ServerNotStarted,
    ServerQuestion,
    ServerResult,
    ServerTool,
    StdioLaunch,
)

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client


class Connection:
    """Connection to one server, for one event loop.

    One task, the owner, enters and leaves the client of the library. Calls may come from any task
    of the loop, several at a time. If the task that awaits a call is cancelled, the call is
    cancelled at the server.

    Args:
        name: Name of the server in the configuration.
        launch: The command or address of the server.
        asks_users: True if a user can answer questions of the server while the kernel runs.
        on_question: Asks the user a question of a server of 2025; None answers with `cancel`.
    """

    def __init__(
        self,
        name: str,
        launch: Launch,
        limits: ConnectionLimits | None = None,
        *,
        asks_users: bool = False,
        on_question: QuestionHandler | None = None,
    ) -> None:
        self.name = name
        self.launch = launch
        self.limits = limits or ConnectionLimits()
        self.asks_users = asks_users
        self._on_question = on_question
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._open_calls: dict[str, int] = {}
        self._tools: tuple[ServerTool, ...] | None = None
        self.state: ConnectionState = "new"
        self.last_error: str | None = None
        self.pid: int | None = None
        self.discarded_lines = 0
        self.tools_changed = False

    @property
    def era(self) -> Era | None:
        """Generation of the protocol; None before the first start."""
        if self._client is None:
            return None
        return "2026" if self._client.protocol_version >= "2026" else "2025"

    @property
    def version(self) -> str | None:
        """Version of the protocol; None before the first start."""
        return None if self._client is None else self._client.protocol_version

    @property
    def server_title(self) -> str | None:
        """The server's own name and version, for display only."""
        info = None if self._client is None else self._client.server_info
        return None if info is None else f"{info.title or info.name} {info.version}"

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model."""
        return None if self._client is None else self._client.instructions

    def stderr_lines(self) -> tuple[str, ...]:
        """Return the last lines that the server wrote to stderr."""
        return ()

    async def start(self) -> None:
        """Start the server, or connect to it, unless it runs.

        Raises:
            ServerNotStarted: It did not start.
        """
        if self.state == "running":
            return
        self.state = "starting"
        self._stop = asyncio.Event()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(ready))
        limit = self.limits.startup_timeout_secs or None
        try:
            async with asyncio.timeout(limit):
                await asyncio.shield(ready)
        except TimeoutError:
            await self.aclose()
            raise self._fail(f"no answer within {limit:g} s") from None
        except BaseException as exc:
            await self.aclose()
            if isinstance(exc, asyncio.CancelledError):
                raise
            raise self._fail(str(exc) or type(exc).__name__) from exc
        self.state = "running"

    def _fail(self, reason: str) -> ServerNotStarted:
        self.state = "failed"
        self.last_error = reason
        return ServerNotStarted(self.name, reason, self.launch.masked, self.stderr_lines())

    async def _own(self, ready: asyncio.Future[None]) -> None:
        from mcp import Client, StdioServerParameters

        assert isinstance(self.launch, StdioLaunch)
        parameters = StdioServerParameters(
            command=self.launch.command,
            args=list(self.launch.arguments),
            env=dict(self.launch.environment),
            cwd=self.launch.folder,
        )
        callback = self._elicit if self.asks_users else None
        try:
            async with Client(parameters, elicitation_callback=callback) as client:
                self._client = client
                await self.list_tools()
                ready.set_result(None)
                await self._stop.wait()
        except Exception as exc:
            if not ready.done():
                ready.set_exception(exc)
            self.last_error = str(exc)
        self.state = "ended"

    async def aclose(self) -> None:
        """End the server, or the session with it. Open calls end with an error."""
        self._stop.set()
        if self._owner is not None:
            await asyncio.wait([self._owner], timeout=5)
            self._owner.cancel()

    async def list_tools(self, refresh: bool = False) -> tuple[ServerTool, ...]:
        """Return the tools of the server, in its order."""
        if self._tools is None or refresh:
            assert self._client is not None
            listed = await self._client.list_tools()
            self._tools = tuple(map(_convert_tool, listed.tools))
        return self._tools

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
        """Call `tool`, and return its result, or the questions of the server.

        Raises:
            ServerError: The call failed.
        """
        import mcp_types as types
        from pydantic import TypeAdapter

        if self.state != "running":
            await self.start()
        assert self._client is not None
        responses: dict[str, Any] = {
            key: types.ElicitResult(action=answer.action, content=answer.content)
            for key, answer in (answers or {}).items()
        }
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(
                name=tool,
                arguments=dict(arguments),
                input_responses=responses or None,
                request_state=state,
            )
        )

        async def report(progress: float, total: float | None, message: str | None) -> None:
            if on_progress is not None:
                on_progress(Progress(message, progress, total))

        adapter: TypeAdapter[Any] = TypeAdapter(types.CallToolResult | types.InputRequiredResult)
        self._open_calls[call_id] = 0
        try:
            result = await self._client.session.send_request(
                request, adapter, progress_callback=report
            )
        except Exception as exc:
            raise ServerError(self.name, tool, str(exc), code=getattr(exc, "code", 0)) from exc
        finally:
            del self._open_calls[call_id]
        if isinstance(result, types.InputRequiredResult):
            questions = {
                key: _convert_question(key, each.params)
                for key, each in (result.input_requests or {}).items()
            }
            return InputRequired(questions, result.request_state)
        blocks = tuple(
            block.model_dump(by_alias=True, mode="json", exclude_none=True)
            for block in result.content
        )
        return ServerResult(blocks, result.structured_content, result.is_error)

    async def read_resource(self, uri: str) -> tuple[Mapping[str, JsonValue], ...]:
        """Return the contents of the resource at `uri`, as JSON objects of the protocol."""
        assert self._client is not None
        result = await self._client.read_resource(uri)
        return tuple(
            each.model_dump(by_alias=True, mode="json", exclude_none=True)
            for each in result.contents
        )

    async def _elicit(self, context: Any, params: Any) -> types.ElicitResult:
        import mcp_types as types

        if self._on_question is None:
            return types.ElicitResult(action="cancel")
        calls = [*self._open_calls]
        self._open_calls[calls[0]] += 1
        count = self._open_calls[calls[0]]
        key = "elicitation" if count == 1 else f"elicitation-{count}"
        answer = await self._on_question(_convert_question(key, params), calls)
        return types.ElicitResult(action=answer.action, content=answer.content)


def _convert_tool(tool: types.Tool) -> ServerTool:
    hints = tool.annotations
    return ServerTool(
        tool.name,
        tool.title,
        tool.description,
        tool.input_schema,
        tool.output_schema,
        {} if hints is None else hints.model_dump(by_alias=True, mode="json", exclude_none=True),
    )


def _convert_question(key: str, params: Any) -> ServerQuestion:
    if params.mode == "url":
        identifier = getattr(params, "elicitation_id", None)
        return ServerQuestion(key, "url", params.message, None, str(params.url), identifier)
    schema = params.requested_schema
    plain = schema if isinstance(schema, dict) else schema.model_dump(by_alias=True, mode="json")
    return ServerQuestion(key, "form", params.message, plain)
