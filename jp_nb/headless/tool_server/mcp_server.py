"""Command `jp-nb mcp`: offer the tools of a module or notebook to other MCP clients.

Definitions have the schemas and descriptions that models get. A question of a tool is an
elicitation of the client: in the protocol of 2026-07-28 a result that requires input, before that a
request to the client. Calls and questions of a client are not in any record.

Source: `docs/mcp.md` (our tools for others), `docs/decisions.md` D231, D232.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic import JsonValue

import jp_nb
from jp_nb.agent.calls.call import CallEnded
from jp_nb.agent.inquiries.question_route import format_no_user_error
from jp_nb.errors import ToolError, UsageError
from jp_nb.headless.tool_server.client_forms import (
    UnsupportedQuestionError,
    format_form_message,
    make_form_schema,
)
from jp_nb.headless.tool_server.client_questions import ClientAction, Questions, QuestionState
from jp_nb.headless.tool_server.tool_host import ServedTool, ToolHost
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.entries.outcomes import QuestionEnd
from jp_nb.storage.trust import FolderTrust
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
MAX_WAITING_LINES: Final = 100
"""Number of messages of the client that are read before the first of them is handled."""
STDIN_CHUNK_BYTES: Final = 65_536
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
LIBRARY_NOT_INSTALLED: Final = "`jp-nb mcp` needs the library `mcp`: `pip install 'jp-nb[mcp]'`"
TOO_MANY_ROUNDS: Final = (
    "{} asked questions {} times and does not use the answers. Do not retry this tool call."
)


class ToolRunner(Protocol):
    """The tools that are served, in this process or in a kernel."""

    refused: dict[str, str]

    async def load(self) -> list[ServedTool]:
        """Return the tools that are offered."""

    def configured_answers(self, name: str) -> JsonObject:
        """Return the configured answers to questions of a tool, by question id."""

    async def run(
        self,
        name: str,
        arguments: Mapping[str, JsonValue],
        *,
        answers: Mapping[str, JsonValue],
        ends: Mapping[str, QuestionEnd],
    ) -> JsonObject:
        """Run a tool once, and return its outcome as JSON."""


@dataclass(frozen=True, slots=True)
class Wire:
    """The streams of the protocol, which nothing else can reach. `stdin` is a descriptor."""

    stdin: int
    stdout: TextIOWrapper


def serve(options: argparse.Namespace) -> int:
    """Run `jp-nb mcp`: serve the tools until the client ends, or until Ctrl+C."""
    address = _read_address(options.http)
    wire = _take_wire() if address is None else None  # before a tool can print
    _require_library()

    try:
        asyncio.run(_serve(str(options.source), wire, address))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return 0


def _require_library() -> None:
    try:
        import_module("mcp.server")
    except ImportError as exc:
        raise UsageError(LIBRARY_NOT_INSTALLED) from exc


def _take_wire() -> Wire:
    """Return stdin and stdout, and put others in their place, also for child processes.

    What tools print goes to stderr. They read an empty stdin.
    """
    sys.stdout.flush()
    wire_in = os.dup(0)
    wire_out = os.dup(1)

    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    return Wire(wire_in, TextIOWrapper(os.fdopen(wire_out, "wb"), encoding="utf-8"))


class Lines:
    """The lines of a descriptor. Unlike a file, it does not keep a program from ending."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(MAX_WAITING_LINES)
        threading.Thread(target=self._read, name="jp-nb mcp stdin", daemon=True).start()

    def _read(self) -> None:
        parts: list[bytes] = []
        with suppress(RuntimeError, OSError):  # the event loop has ended, or the descriptor
            while chunk := os.read(self._descriptor, STDIN_CHUNK_BYTES):
                *ended, rest = chunk.split(b"\n")
                for each in ended:
                    line = b"".join([*parts, each])
                    parts.clear()
                    self._put(line.decode("utf-8", errors="replace"))
                parts.append(rest)
            self._put(None)

    def _put(self, line: str | None) -> None:
        asyncio.run_coroutine_threadsafe(self._queue.put(line), self._loop).result()

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the lines, without their ends."""
        while (line := await self._queue.get()) is not None:
            yield line


def _read_address(text: str | None) -> tuple[str, int] | None:
    """Return host and port of `[HOST:]PORT`; None without a text.

    Raises:
        UsageError: It is no address.
    """
    if text is None:
        return None

    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--http takes [HOST:]PORT, such as 8000 or 127.0.0.1:8000: {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


async def _serve(source: str, wire: Wire | None, address: tuple[str, int] | None) -> None:
    """Answer the client at once, and load the tools meanwhile: clients wait only some seconds."""
    tools = ToolServer()
    server = make_server(source, tools)
    serving = _serve_http(server, *address) if address is not None else _serve_stdio(server, wire)
    async with asyncio.TaskGroup() as group:
        transport = group.create_task(serving)
        loading = group.create_task(_load(source, tools, transport))
        await transport
        loading.cancel()


async def _load(source: str, tools: ToolServer, transport: asyncio.Task[None]) -> None:
    """Load the tools of `source`, and keep their kernel for as long as the transport runs."""
    async with _open_host(source) as host:
        found = await host.load()
        for name, why in host.refused.items():
            _say(f"the tool {name} is not offered: {why}")
        if not found:
            raise UsageError(f"{source} has no tool to offer. Define one with `@jp.tool`")
        _say(f"offers {', '.join(tool.name for tool in found)}")
        tools.set_host(host, found)
        await asyncio.wait([transport])


def _say(text: str) -> None:
    print(f"jp-nb mcp: {plain(text)}", file=sys.stderr, flush=True)


@asynccontextmanager
async def _open_host(source: str) -> AsyncIterator[ToolRunner]:
    if source.endswith(".ipynb"):
        # It loads slowly, and the client waits for an answer.
        module = await asyncio.to_thread(import_module, "jp_nb.headless.tool_server.kernel_tools")
        async with module.KernelTools(Path(source)) as tools:
            yield tools
        return

    folder = await asyncio.to_thread(_import_source, source)
    yield ToolHost(folder, FolderTrust())


def _import_source(source: str) -> Path:
    """Import the module or the file `source`, and return its folder.

    Raises:
        UsageError: It cannot be imported.
    """
    folder = Path.cwd()
    try:
        if source.endswith(".py"):
            path = Path(source).resolve()
            folder = path.parent
            sys.path.insert(0, str(folder))
            _import_file(path)
        else:
            sys.path.insert(0, str(folder))
            import_module(source)
    except Exception as exc:  # whatever the code of the module raises
        reason = one_line(f"{type(exc).__name__}: {exc}", limit=500)
        raise UsageError(f"{source} cannot be imported: {reason}") from exc
    return folder


def _import_file(path: Path) -> None:
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")

    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)


# --- calls -------------------------------------------------------------------------------------


class ToolServer:
    """Answers the requests of clients, when the tools are loaded."""

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

        await self._wait_for_host()
        if params.name not in self._tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        try:
            return await self._call(Client(context), params)
        except CallEnded as end:
            return _text_result(end.content, is_error=end.is_error)
        except ToolError as exc:
            _say(f"a call of {params.name} ended: {one_line(str(exc), limit=300)}")
            return _text_result(str(exc), is_error=True)

    async def _call(
        self, client: Client, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
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
                return _result(outcome)

            state.rounds += 1
            if state.rounds > MAX_QUESTION_ROUNDS:
                raise ToolError(TOO_MANY_ROUNDS.format(name, MAX_QUESTION_ROUNDS))
            asked = _read_questions(name, outcome, host.configured_answers(name))
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

        schema = _schema_or_refuse(tool, question)
        try:
            result = await self._context.session.elicit_form(
                format_form_message(question), schema, related_request_id=self._context.request_id
            )
        except MCPError as exc:
            raise ToolError(format_no_user_error(tool)) from exc
        content: JsonObject = dict(result.content or {})  # type: ignore[arg-type]  # lists of texts
        return result.action, content


def _schema_or_refuse(tool: str, question: Question) -> JsonObject:
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
                requested_schema=_schema_or_refuse(asked.tool, question),
            )
        )
        for question in shown
    }
    questions: list[JsonValue] = [each.model_dump(mode="json") for each in shown]
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
    listed = outcome["questions"]
    assert isinstance(listed, list)  # `ToolHost` wrote it
    questions = [Question.model_validate(each) for each in listed]
    return Questions(tool, questions, outcome["partial"] is True, configured)


# --- results -----------------------------------------------------------------------------------


def _result(outcome: JsonObject) -> types.CallToolResult:
    if outcome["type"] == "error":
        return _text_result(str(outcome["message"]), is_error=True)

    result = _text_result(str(outcome["content"]), is_error=False)
    images = outcome.get("images")
    for image in images if isinstance(images, list) else []:
        assert isinstance(image, list)  # media type, and content in Base64
        media_type, data = map(str, image)
        result.content.append(_image_block(media_type, data))
    return result


def _image_block(media_type: str, data: str) -> types.ContentBlock:
    import mcp_types as types

    if media_type.startswith("image/"):
        return types.ImageContent(data=data, mime_type=media_type)
    blob = types.BlobResourceContents(uri="jp-nb:result", mime_type=media_type, blob=data)
    return types.EmbeddedResource(resource=blob)


def _text_result(text: str, *, is_error: bool) -> types.CallToolResult:
    import mcp_types as types

    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


# --- transports --------------------------------------------------------------------------------


def make_server(source: str, tools: ToolServer) -> Server[Any]:
    """Return the MCP server of `tools`, with the name of the module or notebook."""
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


async def _serve_stdio(server: Server[Any], wire: Wire | None) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    assert wire is not None  # it was taken before the tools were loaded
    stdin: Any = Lines(wire.stdin)
    stdout = anyio.wrap_file(wire.stdout)
    async with stdio_server(stdin, stdout) as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


async def _serve_http(server: Server[Any], host: str, port: int) -> None:
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    names = [*LOOPBACK, host]
    hosts = [_format_host(name) for name in dict.fromkeys(names)]
    # A page of another site could otherwise reach the server through a host name of that site (DNS
    # rebinding).
    security = TransportSecuritySettings(
        allowed_hosts=[f"{name}:*" for name in hosts],
        allowed_origins=[f"http://{name}:*" for name in hosts],
    )
    app = server.streamable_http_app(host=host, transport_security=security)
    try:
        listening = socket.create_server((host, port), family=_family(host))
    except OSError as exc:
        raise UsageError(f"--http {host}:{port}: {exc.strerror or exc}") from exc

    with listening:
        number = listening.getsockname()[1]
        if host not in LOOPBACK:
            _say(f"every computer that reaches {host} can run the tools: there is no sign-in")
            host = hosts[-1]
        _say(f"listens on http://{host}:{number}/mcp")
        config = uvicorn.Config(app, log_level="warning")
        await uvicorn.Server(config).serve(sockets=[listening])


def _format_host(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
