"""Connection to one MCP server.

A *session* (`server_session.py`) lasts from the start of the server to its end. The connection
outlives it: it starts the next one after the server has ended or has forgotten its session. It
limits the time of each request, and sends a request that the server refused unread once more.

Servers ask the user questions in two ways. A server of protocol 2025 sends a request of its own
during a call (`open_calls.py`). A server of protocol 2026 returns `InputRequired` as the result of
a call, which is then repeated with the answers. Each such result is a *round* of the call
(`call_rounds.py`).

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from pydantic import JsonValue

from jp_nb.mcp.connections.call_clock import CallClock
from jp_nb.mcp.connections.call_rounds import CallRounds
from jp_nb.mcp.connections.open_calls import OpenCalls
from jp_nb.mcp.connections.server_description import ServerDescription
from jp_nb.mcp.connections.server_session import ServerSession
from jp_nb.mcp.errors import ServerError, ServerNotStarted, StartError, UnreadRequestError
from jp_nb.mcp.exchange import (
    CallRequest,
    ConnectionLimits,
    ConnectionState,
    Era,
    InputRequired,
    Progress,
    ProgressHandler,
    QuestionHandler,
    ServerAnswer,
    ServerResult,
    ServerTool,
)
from jp_nb.mcp.transports.launches import Launch
from jp_nb.mcp.transports.library_log import without_library_log
from jp_nb.mcp.transports.transport_interface import Transport

MAX_RESTARTS = 3
"""Restarts of a server that ended, in `RESTART_WINDOW_S`; then only `restart` starts it."""
RESTART_WINDOW_S: Final = 600.0


class Connection:
    """Connection to one server, for one event loop.

    Calls may come from any task of the loop, several at a time. If the task that awaits a call is
    cancelled, the call is cancelled at the server. Nothing is started or sent again while a call
    waits, except a request that the server refused unread.

    Args:
        name: Name of the server in the configuration.
        launch: The command or address of the server.
        asks_users: True if a user can answer questions of the server while the kernel runs. The
            client announces it to the server.
        on_question: Asks the user a question of a server of protocol 2025; None answers with
            `cancel`. Without `asks_users` it is called too, if a server asks all the same.

    Attributes:
        state: `new`, `starting`, `running`, `failed` if it did not start, or `ended` after `aclose`
            or if the server ended by itself.
        last_error: The last reason why the server did not start, or ended.
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
        self._server = ServerDescription()
        self._open_calls = OpenCalls(name, on_question)
        self._rounds = CallRounds(name)
        self._starting = asyncio.Lock()  # held while a session replaces another one
        self._listing = asyncio.Lock()  # held while tools are listed: one request at a time
        # The last session may be starting, or have ended. It still has the server's last lines.
        # `_session` is the same one while it runs, else None.
        self._last_session: ServerSession | None = None
        self._session: ServerSession | None = None
        self._end_times: list[float] = []  # at which the server ended by itself

    @property
    def version(self) -> str | None:
        """Version of the protocol; None before the first start."""
        return self._server.version

    @property
    def era(self) -> Era | None:
        """Generation of the protocol; None before the first start."""
        return self._server.era

    @property
    def server_title(self) -> str | None:
        """The server's own name and version, for display only."""
        return self._server.title

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model."""
        return self._server.instructions

    @property
    def list_notes(self) -> tuple[str, ...]:
        """Notes about tools that the server listed, and that cannot be offered."""
        return self._server.list_notes

    @property
    def announced_changes(self) -> bool:
        """True if the server announced other tools since they were listed."""
        return self._server.has_changed_tools

    @property
    def is_list_outdated(self) -> bool:
        """True if the server announced other tools, or if the time of its list is over."""
        if self.announced_changes:
            return True
        expire = self._server.tools_expire
        return expire is not None and asyncio.get_running_loop().time() >= expire

    @property
    def pid(self) -> int | None:
        """Process id of the server; None if it does not run on this computer."""
        if self.state not in ("starting", "running") or self._transport is None:
            return None
        return self._transport.pid

    @property
    def discarded_lines(self) -> int:
        """Number of lines on the server's stdout that were no messages."""
        return 0 if self._transport is None else self._transport.discarded_lines

    @property
    def needs_sign_in(self) -> bool:
        """True if the server answers only after the user has signed in."""
        tokens = None if self._last_session is None else self._last_session.tokens
        return tokens is not None and tokens.needs_sign_in

    def stderr_lines(self) -> tuple[str, ...]:
        """Return the last lines that the server wrote to stderr, without secrets."""
        return () if self._transport is None else self._transport.stderr_lines()

    @property
    def _transport(self) -> Transport | None:
        return None if self._last_session is None else self._last_session.transport

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
        self._end_times.clear()
        await self.start()

    async def aclose(self) -> None:
        """End the server, or the session with it, within three seconds.

        Open calls end with an error.
        """
        session = self._session
        if self.state == "starting":  # it does not run yet
            session = self._last_session
        self._session = None

        if session is not None:
            await session.close()
            self.state = "ended"

    def _check_restarts(self) -> None:
        """Refuse to start a server that has ended too often. Only `restart` starts it then."""
        since = asyncio.get_running_loop().time() - RESTART_WINDOW_S
        self._end_times = [end for end in self._end_times if end > since]
        if len(self._end_times) > MAX_RESTARTS:
            minutes = RESTART_WINDOW_S / 60
            raise self._fail(
                f"it ended {len(self._end_times)} times in the last {minutes:g} minutes, "
                f"last because {self.last_error}. Start it with `%jp mcp restart {self.name}`"
            )

    async def _start(self) -> None:
        """Start a new session. Called with the lock `_starting`."""
        self.state = "starting"
        session = ServerSession(
            name=self.name,
            launch=self.launch,
            limits=self.limits,
            server=self._server,
            asks_users=self.asks_users,
            ask=self._open_calls.ask,
            on_end=self._note_end,
        )
        self._last_session = session
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
        except BaseException:  # a cancellation: the server may be started again
            self.state = "new"
            await session.close()
            raise

        self._session = session
        self.state = "running"
        self.last_error = None

    def _fail(self, reason: str) -> ServerNotStarted:
        """Note that the server did not start, and return the error."""
        reason = self.launch.hide(reason)  # without the secrets of the command or address
        self.state = "failed"
        self.last_error = reason
        return ServerNotStarted(self.name, reason, self.launch.masked, self.stderr_lines())

    def _note_end(self, session: ServerSession, reason: str) -> None:
        """Note that the session ended by itself. One that was closed here is not `_session`."""
        if self._session is session:
            self._session = None
            self.state = "ended"
            self.last_error = self.launch.hide(reason)
            self._end_times.append(asyncio.get_running_loop().time())

    def _require_session(self, tool: str) -> ServerSession:
        """Return the running session; an error about `tool` if the server does not run."""
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
            async with self._listing, self._time_limit():
                await session.list_tools()
        return self._server.tools

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

        The `answers` to questions go with the next `call` of the same id, tool, and arguments,
        together with the `state` that the server sent with its questions (`InputRequired.state`).
        If no further `call` will follow, call `forget`.

        Raises:
            ServerError: The call failed, or the server does not run.
        """
        self._require_session(tool)
        async with self._time_limit(tool) as clock:
            request = CallRequest(
                tool=tool,
                arguments=arguments,
                report=self._make_reporter(clock, on_progress),
                answers=answers,
                state=state,
            )
            with self._open_calls.opened(call_id, clock):
                return await self._rounds.run(call_id, request, self._send)

    def server_end(self) -> asyncio.Future[None]:
        """Return a future that ends with the server that runs now; it has ended if none runs."""
        if self._session is not None:
            return self._session.ended

        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended.set_result(None)
        return ended

    def forget(self, call_id: str) -> None:
        """Forget the rounds of a call that is not continued."""
        self._rounds.forget(call_id)

    async def read_resource(self, uri: str) -> tuple[Mapping[str, JsonValue], ...]:
        """Return the contents of the resource at `uri`, as JSON objects of the protocol.

        Raises:
            ServerError: The server does not run, or the resource cannot be read.
        """
        session = self._require_session("")
        async with self._time_limit():
            return tuple(await session.read_resource(uri))

    async def _send(self, request: CallRequest) -> ServerResult | InputRequired:
        """Send one request of a call, a second time if the server refused it unread."""
        session = self._require_session(request.tool)
        try:
            return await session.call(request)
        except UnreadRequestError as exc:
            # Either the session was lost, or the list of tools, by which the library makes the
            # headers of the request, is outdated.
            if exc.is_session_lost:
                await self._connect_again(session)
            else:
                await self.list_tools(refresh=True)

        session = self._require_session(request.tool)
        try:
            return await session.call(request)
        except UnreadRequestError as exc:
            raise exc.error from exc

    async def _connect_again(self, lost: ServerSession) -> None:
        """Replace the session that the server has forgotten, unless another call already did."""
        async with self._starting:
            if self._session is lost:
                self._session = None
                await lost.close()
                await self._start()

    def _make_reporter(
        self, clock: CallClock, on_progress: ProgressHandler | None
    ) -> ProgressHandler:
        """Return a handler that also restarts the clock of the call."""

        def report(progress: Progress) -> None:
            # A server that reports progress still works.
            clock.restart()
            if on_progress is not None:
                on_progress(progress)

        return report

    @asynccontextmanager
    async def _time_limit(self, tool: str = "") -> AsyncIterator[CallClock]:
        """Limit the time of one request in this block."""
        limit = self.limits.call_timeout_secs
        try:
            async with CallClock(limit) as clock:
                with without_library_log():
                    yield clock
        except TimeoutError as exc:
            reason = f"no answer within {limit:g} s (call_timeout_secs)"
            raise ServerError(self.name, tool, reason) from exc
