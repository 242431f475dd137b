"""A transport between a server and the library `mcp`, which repairs the messages on their way.

Importing this module imports the library, which takes about a second.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import TypeAdapter, ValidationError

from jp_nb.mcp.transports.message_repair import remove_elicitation, repair_question, repair_result

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, WriteStream


class ReceivedMessages:
    """Stream of the server's messages, each of which passes `repair` first.

    It has the methods of the library's `ReadStream`, which the library calls.
    """

    def __init__(
        self,
        stream: ReadStream[SessionMessage | Exception],
        repair: Callable[[SessionMessage], None],
    ) -> None:
        self._stream = stream
        self._repair = repair

    @property
    def last_context(self) -> object:
        """Context of the sender; the library reads it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        message = await self._stream.receive()
        if not isinstance(message, Exception):
            self._repair(message)
        return message

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        message = await anext(self._stream)
        if not isinstance(message, Exception):
            self._repair(message)
        return message

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stream.__aexit__(exc_type, exc, traceback)


class SentMessages:
    """Stream of the client's messages, each of which passes `change` first.

    It has the methods of the library's `WriteStream`, which the library calls.
    """

    def __init__(
        self, stream: WriteStream[SessionMessage], change: Callable[[SessionMessage], None]
    ) -> None:
        self._stream = stream
        self._change = change

    async def send(self, message: SessionMessage, /) -> None:
        """Send `message`."""
        self._change(message)
        await self._stream.send(message)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stream.__aexit__(exc_type, exc, traceback)


_CONTENT: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)


class RepairedTransport:
    """A transport whose messages are changed between the server and the library.

    Like each transport of the library, it is a context manager that returns two streams.

    Args:
        transport: The transport to the server.
        asks_users: False if no user can answer questions of the server.

    Attributes:
        notes: Notes about tools that are missing, from all lists since the caller emptied it.
    """

    def __init__(self, transport: Any, *, asks_users: bool) -> None:
        self._transport = transport
        self._asks_users = asks_users
        self.notes: list[str] = []

    async def __aenter__(self) -> tuple[ReceivedMessages, SentMessages]:
        received, sent = await self._transport.__aenter__()
        return ReceivedMessages(received, self._repair), SentMessages(sent, self._restrict)

    async def __aexit__(self, *error: Any) -> bool | None:
        return cast("bool | None", await self._transport.__aexit__(*error))

    def _repair(self, item: SessionMessage) -> None:
        """Replace the parts of a message of the server that the library would refuse."""
        message = item.message
        if isinstance(message, types.JSONRPCResponse):
            self.notes += repair_result(message.result, _is_content)
        elif isinstance(message, types.JSONRPCRequest) and message.method == "elicitation/create":
            repair_question(message.params)

    def _restrict(self, item: SessionMessage) -> None:
        """Declare no capability to ask users in a message of the client, if there is no user."""
        # The library declares each capability for which it has a callback. Without a user there
        # is a callback too: it answers a server that asks all the same.
        if not self._asks_users and isinstance(item.message, types.JSONRPCRequest):
            remove_elicitation(item.message.params)


def _is_content(block: object) -> bool:
    try:
        # As the library reads it: by the names of the protocol, not by those of Python attributes.
        _CONTENT.validate_python(block, by_name=False)
    except ValidationError:
        return False
    return True
