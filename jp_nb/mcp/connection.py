"""Connection to one MCP server.

The library `mcp` is imported while the first server starts, in a worker thread, because its import
takes about a second.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version as version_of
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from pydantic import JsonValue

from jp_nb.mcp.call_clock import CallClock
from jp_nb.mcp.end_reasons import StartError
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
    ServerResult,
    ServerTool,
    StdioLaunch,
)
from jp_nb.mcp.transport import StdioTransport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jp_nb.mcp import client as library
    from jp_nb.mcp.stored_tokens import StoredTokens

MAX_RESTARTS = 3
"""Restarts of a server that ended, in `RESTART_WINDOW_S`; then only `restart` starts it."""
RESTART_WINDOW_S: Final = 600.0
MAX_CALL_ROUNDS = 10
"""Rounds of a call in which the server asks; a further one is an error."""
MAX_ROUNDS_S = 3600.0
"""Seconds from the first to the last round of a call."""
MAX_OPEN_QUESTIONS = 20
"""Open questions of a server of 2025; further ones are answered with `cancel`."""
OWNER_CLOSE_SECONDS: Final = 5.0
_FIRST_DELAY_S: Final = 0.05
_LONGEST_DELAY_S: Final = 0.25
LIBRARY: Final = "jp_nb.mcp.client"
"""The module that imports the library `mcp`."""
_CANCEL: Final = ServerAnswer("cancel")
_IN_CONNECTION: ContextVar[bool] = ContextVar("_IN_CONNECTION", default=False)
_LOGGERS: Final = (
    "client",
    "httpx2",
    "mcp.client.client",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)
"""Loggers of the library. Their texts come from servers, and would appear in the cell."""
_log = logging.getLogger(__name__)


class _Transport(Protocol):
    fault: str
    pid: int | None
    discarded_lines: int

    def stderr_lines(self) -> tuple[str, ...]: ...


@dataclass(slots=True)
class _WaitingCall:
    clock: CallClock
    questions: int = 0


@dataclass(slots=True)
class _Rounds:
    began: float
    count: int = 0


class Connection:
    """Connection to one server, for one event loop.

    One task, the owner, enters and leaves the client of the library. Calls may come from any task
    of the loop, several at a time. If the task that awaits a call is cancelled, the call is
    cancelled at the server. Nothing is started or sent again while a call waits, except a request
    that the server refused unread.

    Args:
        name: Name of the server in the configuration.
        launch: The command or address of the server.
        asks_users: True if a user can answer questions of the server while the kernel runs. The
            server is told so.
        on_question: Asks the user a question of a server of 2025, also of one that was told that
            there is no user; None answers with `cancel`.

    Attributes:
        state: `ended` after `aclose`, or if the server ended.
        last_error: The last reason why the server did not start, or ended.
        list_notes: Notes about tools that the server listed, and that cannot be offered.
        server_title: The server's own name and version, for display only.
        instructions: The server's instructions for a model.
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
        self.state: ConnectionState = "new"
        self.last_error: str | None = None
        self.list_notes: tuple[str, ...] = ()
        self.version: str | None = None
        self.server_title: str | None = None
        self.instructions: str | None = None
        self._on_question = on_question
        self._starting = asyncio.Lock()
        self._listing = asyncio.Lock()
        self._session: _Session | None = None
        self._opening: _Session | None = None
        self._transport: _Transport | None = None
        self._tokens: StoredTokens | None = None
        self._tools: tuple[ServerTool, ...] = ()
        self._tools_expire: float | None = None
        self._has_changed_tools = False
        self._open_calls: dict[str, _WaitingCall] = {}
        self._open_questions = 0
        self._rounds: dict[str, _Rounds] = {}
        self._ends: list[float] = []

    @property
    def era(self) -> Era | None:
        """Generation of the protocol; None before the first start."""
        if self.version is None:
            return None
        return "2026" if self.version >= "2026" else "2025"

    @property
    def pid(self) -> int | None:
        """Process id of the server; None if it does not run on this computer."""
        is_running = self.state in ("starting", "running")
        return self._transport.pid if is_running and self._transport is not None else None

    @property
    def discarded_lines(self) -> int:
        """Number of lines on the server's stdout that were no messages."""
        return 0 if self._transport is None else self._transport.discarded_lines

    @property
    def needs_sign_in(self) -> bool:
        """True if the server answers only after the user has signed in."""
        return self._tokens is not None and self._tokens.needs_sign_in

    @property
    def announced_changes(self) -> bool:
        """True if the server has announced that its tools changed, since they were listed."""
        return self._has_changed_tools

    @property
    def tools_announced(self) -> bool:
        """True if the server announced other tools since they were listed."""
        return self._has_changed_tools

    @property
    def tools_changed(self) -> bool:
        """True if the list of tools may have changed: list them with `refresh`."""
        if self.tools_announced:
            return True
        expire = self._tools_expire
        return expire is not None and asyncio.get_running_loop().time() >= expire

    def stderr_lines(self) -> tuple[str, ...]:
        """Return the last lines that the server wrote to stderr, without secrets."""
        return () if self._transport is None else self._transport.stderr_lines()

    # --- start and end ---------------------------------------------------------------------

    async def start(self) -> None:
        """Start the server, or connect to it, unless it runs.

        A cancellation ends the start, and leaves no process.

        Raises:
            ServerNotStarted: It did not start, or it has ended too often.
        """
        async with self._starting:
            if self.state == "running":
                return
            self._check_restarts()
            await self._start()

    async def restart(self) -> None:
        """End the server and start it, also if it has ended too often.

        Raises:
            ServerNotStarted: It did not start.
        """
        await self.aclose()
        self._ends.clear()
        await self.start()

    async def aclose(self) -> None:
        """End the server, or the session with it, within three seconds.

        Open calls end with an error.
        """
        session = self._session or self._opening
        self._session = None
        if session is not None:
            await session.close()
            self.state = "ended"

    def _check_restarts(self) -> None:
        since = asyncio.get_running_loop().time() - RESTART_WINDOW_S
        self._ends = [end for end in self._ends if end > since]
        if len(self._ends) > MAX_RESTARTS:
            raise self._fail(
                f"it ended {len(self._ends)} times in the last {RESTART_WINDOW_S / 60:g} minutes, "
                f"last because {self.last_error}. Start it with `%jp mcp restart {self.name}`"
            )

    async def _start(self) -> None:
        self.state = "starting"
        session = _Session(self)
        self._opening = session
        limit = self.limits.startup_timeout_secs

        try:
            async with asyncio.timeout(limit or None):
                await session.connect()
        except TimeoutError:
            await session.close()
            reason = f"no answer within {limit:g} s (startup_timeout_secs)"
            raise self._fail(reason) from None
        except (StartError, ServerError) as exc:
            await session.close()
            reason = exc.message if isinstance(exc, ServerError) else str(exc)
            raise self._fail(reason) from exc
        except BaseException:
            self.state = "new"
            await session.close()
            raise
        finally:
            self._opening = None

        self._session = session
        self.state = "running"
        self.last_error = None

    def _fail(self, reason: str) -> ServerNotStarted:
        reason = self.launch.hide(reason)
        self.state = "failed"
        self.last_error = reason
        return ServerNotStarted(self.name, reason, self.launch.masked, self.stderr_lines())

    def _note_end(self, session: _Session, reason: str) -> None:
        """Note that the session ended by itself."""
        if self._session is session:
            self._session = None
            self.state = "ended"
            self.last_error = self.launch.hide(reason)
            self._ends.append(asyncio.get_running_loop().time())

    def _require_session(self, tool: str) -> _Session:
        if self._session is not None:
            return self._session

        reason = self.last_error or "it was not started"
        raise ServerError(
            self.name, tool, f"it does not run: {reason}. The next turn starts it again"
        )

    # --- requests --------------------------------------------------------------------------

    async def list_tools(self, refresh: bool = False) -> tuple[ServerTool, ...]:
        """Return the tools of the server, in its order; with `refresh` from the server.

        Raises:
            ServerError: The server does not run, or its list is an error.
        """
        session = self._require_session("")
        if refresh:
            async with self._listing, _TimeLimit(self, ""):
                await session.list_tools()
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

        The answers to questions go with the next `call` of the same id, tool, and arguments. If
        none will follow, call `forget`.

        Raises:
            ServerError: The call failed, or the server does not run.
        """
        self._require_session(tool)
        rounds = self._rounds.setdefault(call_id, _Rounds(asyncio.get_running_loop().time()))
        outcome: ServerResult | InputRequired | None = None
        try:
            async with _TimeLimit(self, tool, call_id) as clock:
                report = self._make_reporter(clock, on_progress)
                outcome = await self._run_rounds(rounds, tool, arguments, answers, state, report)
        finally:
            if not isinstance(outcome, InputRequired):
                self.forget(call_id)

        return outcome

    def server_end(self) -> asyncio.Future[None]:
        """Return a future that ends with the server that runs now; it has ended if none runs."""
        if self._session is not None:
            return self._session.ended

        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended.set_result(None)
        return ended

    def forget(self, call_id: str) -> None:
        """Forget the rounds of a call that is not continued."""
        self._rounds.pop(call_id, None)

    async def read_resource(self, uri: str) -> tuple[Mapping[str, JsonValue], ...]:
        """Return the contents of the resource at `uri`, as JSON objects of the protocol.

        Raises:
            ServerError: The server does not run, or the resource cannot be read.
        """
        session = self._require_session("")
        async with _TimeLimit(self, ""):
            return tuple(await session.read_resource(uri))

    async def _run_rounds(
        self,
        rounds: _Rounds,
        tool: str,
        arguments: Mapping[str, JsonValue],
        answers: Mapping[str, ServerAnswer] | None,
        state: object,
        report: ProgressHandler,
    ) -> ServerResult | InputRequired:
        delay = _FIRST_DELAY_S
        while True:
            outcome = await self._send(tool, arguments, answers, state, report)
            if isinstance(outcome, ServerResult):
                return outcome
            self._check_rounds(rounds, tool)
            if outcome.questions:
                return outcome

            # Only a state: the server is not ready yet.
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY_S)
            answers = None
            state = outcome.state

    def _check_rounds(self, rounds: _Rounds, tool: str) -> None:
        rounds.count += 1
        elapsed = asyncio.get_running_loop().time() - rounds.began
        if rounds.count > MAX_CALL_ROUNDS:
            raise ServerError(self.name, tool, f"it asked in more than {MAX_CALL_ROUNDS} rounds")
        if elapsed > MAX_ROUNDS_S:
            raise ServerError(self.name, tool, "its rounds of questions took more than an hour")

    async def _send(
        self,
        tool: str,
        arguments: Mapping[str, JsonValue],
        answers: Mapping[str, ServerAnswer] | None,
        state: object,
        report: ProgressHandler,
    ) -> ServerResult | InputRequired:
        session = self._require_session(tool)
        try:
            return await session.call(tool, arguments, answers, state, report)
        except _NotRead as exc:
            if exc.is_session_lost:
                await self._connect_again(session)
            else:
                await self.list_tools(refresh=True)

        session = self._require_session(tool)
        try:
            return await session.call(tool, arguments, answers, state, report)
        except _NotRead as exc:
            raise exc.error from exc

    async def _connect_again(self, lost: _Session) -> None:
        async with self._starting:
            if self._session is lost:
                self._session = None
                await lost.close()
                await self._start()

    def _make_reporter(
        self, clock: CallClock, on_progress: ProgressHandler | None
    ) -> ProgressHandler:
        def report(progress: Progress) -> None:
            clock.restart()
            if on_progress is not None:
                on_progress(progress)

        return report

    # --- questions of servers of 2025 ------------------------------------------------------

    async def _elicit(self, params: Any) -> ServerAnswer:
        from jp_nb.mcp import client as library

        calls = [*self._open_calls]
        is_excess = self._open_questions >= MAX_OPEN_QUESTIONS
        if self._on_question is None or not calls or is_excess:
            return _CANCEL

        oldest = self._open_calls[calls[0]]
        oldest.questions += 1
        key = "elicitation"
        if oldest.questions > 1:
            key = f"elicitation-{oldest.questions}"
        question = library.convert_question(key, params)

        with self._pause_clocks():
            try:
                return await self._on_question(question, calls)
            except Exception:
                _log.exception("A question of the MCP server %s failed", self.name)
                return _CANCEL

    @contextmanager
    def _pause_clocks(self) -> Iterator[None]:
        # The protocol does not say which call the question belongs to.
        paused = [call.clock for call in self._open_calls.values()]
        for clock in paused:
            clock.pause()
        self._open_questions += 1
        try:
            yield
        finally:
            self._open_questions -= 1
            for clock in paused:
                clock.resume()


class _TimeLimit:
    """The clock of one request. A call with an id is open meanwhile."""

    def __init__(self, connection: Connection, tool: str, call_id: str = "") -> None:
        self._connection = connection
        self._tool = tool
        self._call_id = call_id
        self._clock = CallClock(connection.limits.call_timeout_secs)

    async def __aenter__(self) -> CallClock:
        self._token = _IN_CONNECTION.set(True)
        await self._clock.__aenter__()
        if self._call_id:
            self._connection._open_calls[self._call_id] = _WaitingCall(self._clock)
        return self._clock

    async def __aexit__(self, *error: Any) -> None:
        _IN_CONNECTION.reset(self._token)
        self._connection._open_calls.pop(self._call_id, None)
        try:
            await self._clock.__aexit__(*error)
        except TimeoutError as exc:
            limit = self._connection.limits.call_timeout_secs
            text = f"no answer within {limit:g} s (call_timeout_secs)"
            raise ServerError(self._connection.name, self._tool, text) from exc


class _NotRead(Exception):  # noqa: N818 - it is handled, and sent again
    """The server refused a request unread."""

    def __init__(self, error: ServerError, *, is_session_lost: bool) -> None:
        super().__init__()
        self.error = error
        self.is_session_lost = is_session_lost


class _Session:
    """One run of the client of the library, from the start of the server to its end.

    Attributes:
        ended: Ends with the server, for whatever reason.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._name = connection.name
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests: set[asyncio.Task[ServerResult | InputRequired]] = set()
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(_retrieve_error)
        self._owner: asyncio.Task[None] | None = None
        self._client: library.Client | None = None
        self._repaired: library.RepairedTransport | None = None
        self._transport: _Transport | None = None

    async def connect(self) -> None:
        """Start the owner, and wait until the tools are listed."""
        self._owner = asyncio.create_task(self._own())
        await asyncio.shield(self._ready)

    async def close(self) -> None:
        """End the owner, and with it the server. A cancellation does not stop that."""
        self._stop.set()
        if self._owner is None:
            return
        if not self._ready.done():
            self._owner.cancel()

        ending = asyncio.create_task(self._end_owner(self._owner))
        await asyncio.shield(ending)

    async def _end_owner(self, owner: asyncio.Task[None]) -> None:
        await asyncio.wait([owner], timeout=OWNER_CLOSE_SECONDS)
        if not owner.done():
            owner.cancel()
            await asyncio.wait([owner], timeout=OWNER_CLOSE_SECONDS)

    async def _own(self) -> None:
        _IN_CONNECTION.set(True)
        reason = ""
        try:
            await self._run()
        except asyncio.CancelledError:
            if not self._stop.is_set():
                raise
        except Exception as exc:
            error = self._translate("", exc)
            reason = error.message
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            if not self._ready.done():
                self._ready.set_exception(ServerError(self._name, "", "it was closed"))

        transport = self._transport
        if not reason and transport is not None:
            reason = transport.fault
        self._connection._note_end(self, reason or "the connection ended")

        self.ended.set_result(None)

    async def _run(self) -> None:
        launch = self._connection.launch
        if find_spec("mcp") is None:
            raise StartError("the library `mcp` is not installed: `pip install 'jp-nb[mcp]'`")
        if not isinstance(launch, StdioLaunch):
            await self._run_http()
            return

        limit = self._connection.limits.max_response_bytes
        process = StdioTransport(launch, limit, self._stop.set)
        self._set_transport(process)
        try:
            await process.spawn()
            await asyncio.to_thread(import_module, LIBRARY)
            await self._serve(process)
        finally:
            await process.stop()

    async def _run_http(self) -> None:
        launch = self._connection.launch
        assert not isinstance(launch, StdioLaunch)
        limit = self._connection.limits.max_response_bytes
        await asyncio.to_thread(import_module, LIBRARY)
        from jp_nb.mcp import client as library
        from jp_nb.mcp import http_client, stored_tokens

        http_client.check_address(launch)
        auth = stored_tokens.make_auth(self._connection.name, launch)
        self._connection._tokens = auth
        async with http_client.ServerHttpClient(launch, limit, auth) as client:
            self._set_transport(client)
            transport = library.connect_http(launch.url, client, limit)
            await self._serve(transport)

    def _set_transport(self, transport: _Transport) -> None:
        self._transport = transport
        self._connection._transport = transport

    async def _serve(self, transport: Any) -> None:
        from jp_nb.mcp import client as library

        _quiet_loggers()
        connection = self._connection
        self._repaired = library.RepairedTransport(transport, asks_users=connection.asks_users)
        mode = "auto"
        if connection.era == "2025":
            mode = "legacy"  # the era is a property of the server; this saves the probe

        client = library.make_client(
            self._repaired,
            mode=mode,
            version=version_of("jp-nb"),
            elicit=connection._elicit,
            on_tools_changed=self._note_changed_tools,
        )

        async with client:
            self._client = client
            connection.version = client.protocol_version
            connection.instructions = client.instructions
            info = client.server_info
            if info is not None:
                connection.server_title = f"{info.title or info.name} {info.version}".strip()

            await self.list_tools()
            self._mark_started()
            await self._stop.wait()

    def _mark_started(self) -> None:
        http = self._transport
        if http is not None and hasattr(http, "is_starting"):
            http.is_starting = False
        if not self._ready.done():
            self._ready.set_result(None)

    def _note_changed_tools(self) -> None:
        self._connection._has_changed_tools = True

    # --- requests --------------------------------------------------------------------------

    async def list_tools(self) -> None:
        """List the tools of the server for the connection."""
        from jp_nb.mcp import client as library

        assert self._client is not None
        assert self._repaired is not None
        connection = self._connection
        self._repaired.notes = []
        connection._has_changed_tools = False

        try:
            tools, valid_s = await library.list_tools(self._client)
        except Exception as exc:
            connection._has_changed_tools = True
            raise self._translate("", exc) from exc

        connection._tools = tuple(tools)
        connection.list_notes = tuple(self._repaired.notes)
        connection._tools_expire = None
        if connection.era == "2026" and valid_s is not None:
            connection._tools_expire = asyncio.get_running_loop().time() + valid_s

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, JsonValue],
        answers: Mapping[str, ServerAnswer] | None,
        state: object,
        report: ProgressHandler,
    ) -> ServerResult | InputRequired:
        """Send one request of a call.

        A cancellation returns at once. The server is told in the background.

        Raises:
            ServerError: The server or the connection failed.
            _NotRead: The request may be sent again.
        """
        from jp_nb.mcp import client as library

        assert self._client is not None
        sending = library.call_tool(self._client, tool, arguments, answers, state, report)
        request = asyncio.create_task(sending)
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)
        request.add_done_callback(_retrieve_error)

        try:
            await asyncio.wait([request])
        except asyncio.CancelledError:
            # Only once: another cancellation would stop the library before it has told the server.
            request.cancel()
            raise

        try:
            return request.result()
        except Exception as exc:
            error = self._translate(tool, exc)
            error.is_lost = library.is_lost_answer(exc)
            if error.code in (library.HEADER_MISMATCH, library.LOST_SESSION):
                is_lost = error.code == library.LOST_SESSION
                raise _NotRead(error, is_session_lost=is_lost) from exc
            raise error from exc

    async def read_resource(self, uri: str) -> list[dict[str, JsonValue]]:
        """Return the contents of the resource at `uri`."""
        from jp_nb.mcp import client as library

        assert self._client is not None
        try:
            return await library.read_resource(self._client, uri)
        except Exception as exc:
            raise self._translate("", exc) from exc

    def _translate(self, tool: str, exc: Exception) -> ServerError:
        """Return the error for the user. It ends the session if its transport must not be used."""
        while isinstance(exc, ExceptionGroup):
            exc = exc.exceptions[0]
        if isinstance(exc, ServerError):
            return exc
        fault = self._transport.fault if self._transport is not None else ""
        if fault:
            self._stop.set()
            return ServerError(self._name, tool, self._connection.launch.hide(fault))

        code = getattr(exc, "code", 0)
        data = getattr(getattr(exc, "error", None), "data", None)
        reason = self._connection.launch.hide(self._describe(exc))
        return ServerError(self._name, tool, reason, code=code, data=data)

    def _describe(self, exc: Exception) -> str:
        explain = getattr(self._transport, "explain", None)

        if isinstance(exc, StartError):
            return str(exc)
        if type(exc).__name__ == "ValidationError":
            return "its answer does not follow the protocol"
        if explain is not None:
            return cast("str", explain(exc))
        return str(exc) or type(exc).__name__


def _retrieve_error(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()  # asyncio logs an exception that is never retrieved


def _keep_record(record: logging.LogRecord) -> bool:
    return not _IN_CONNECTION.get()


def _quiet_loggers() -> None:
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_keep_record)  # has no effect the second time
