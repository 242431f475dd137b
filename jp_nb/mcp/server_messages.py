"""Messages between the transports and the library `mcp`, which is stricter than servers are.

The library refuses a whole message for one part that it does not know, such as one content block
of a new kind. The functions of this module replace such parts before it sees the message, so that
only the part is lost.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from jp_nb.json_values import MAX_STORED_LEVELS, is_deeper
from jp_nb.text import one_line

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

Json = dict[str, Any]

RAW_RESULT: Final = "jp_nb/result"
"""Key in `_meta` of a call's result that contains the result as the server sent it."""
TOO_DEEP: Final = "[nested too deeply]"
"""Replaces parts of a message below `MAX_STORED_LEVELS`."""
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_RESULT_KEYS: Final = frozenset({"content", "structuredContent", "isError"})
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_ID: Final = re.compile(r'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")')
_ID_CHARS: Final = 300


def read_message(text: str) -> Json:
    """Return the JSON object `text`; parts below `MAX_STORED_LEVELS` are replaced by `TOO_DEEP`.

    Raises:
        ValueError: It is not a JSON object.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        value = None

    if value is None or is_deeper(value, MAX_STORED_LEVELS):
        value = json.loads(cut_deep(text))

    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def cut_deep(text: str) -> str:
    """Return the JSON `text`, unchecked; parts below `MAX_STORED_LEVELS` become `TOO_DEEP`."""
    kept = []
    begin = 0
    depth = 0

    for found in _BRACKETS.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth == MAX_STORED_LEVELS:
                kept += [text[begin : found.start()], json.dumps(TOO_DEEP)]
        elif found[0] in "]}":
            if depth == MAX_STORED_LEVELS:
                begin = found.end()
            depth -= 1

    if depth < MAX_STORED_LEVELS:
        kept.append(text[begin:])
    return "".join(kept)


def find_request_id(text: str) -> int | str | None:
    """Return the id in an unreadable answer, so that its request does not wait; None if unknown."""
    if '"result"' not in text and '"error"' not in text:
        return None
    found = _ID.search(text[:_ID_CHARS]) or _ID.search(text[-_ID_CHARS:])
    if found is None:
        return None

    identifier: int | str = json.loads(found[1])
    return identifier


def repair_result(result: Json, is_content: Callable[[object], bool]) -> list[str]:
    """Replace the parts of `result` that the library does not accept.

    `is_content` returns True for content blocks that the library accepts. The result of a call is
    kept whole, in `_meta`, and the library sees an empty one.

    Returns:
        Notes about tools that are missing now.
    """
    if isinstance(result.get("tools"), list):
        return _repair_tools(result)

    for asked in _values(result.get("inputRequests")):
        if isinstance(asked, dict):
            repair_question(asked.get("params"))

    if result.get("resultType", "complete") == "complete" and _RESULT_KEYS & result.keys():
        kept = {
            "content": _repair_blocks(result.get("content"), is_content),
            "structuredContent": result.get("structuredContent"),
            "isError": result.get("isError") is True,
        }
        result.clear()
        result.update(content=[], resultType="complete", _meta={RAW_RESULT: kept})

    return []


def _values(value: object) -> list[object]:
    return [*value.values()] if isinstance(value, dict) else []


def _repair_blocks(content: object, is_content: Callable[[object], bool]) -> list[Json]:
    if content is None:
        return []
    blocks: list[Any] = content if isinstance(content, list) else [content]
    return [_repair_block(block, is_content) for block in blocks]


def _repair_block(block: Any, is_content: Callable[[object], bool]) -> Json:
    return block if is_content(block) else _describe_block(block)


def _describe_block(block: object) -> Json:
    kind = block.get("type") if isinstance(block, dict) else type(block).__name__
    name = one_line(str(kind), limit=100)
    text = f"[The server sent content of the kind {name!r}, which cannot be read here.]"
    return {"type": "text", "text": text}


def _repair_tools(result: Json) -> list[str]:
    notes = []
    tools = []

    for tool in result["tools"]:
        problem = _find_tool_problem(tool)
        if problem:
            notes.append(problem)
        else:
            tools.append({key: value for key, value in tool.items() if key not in _UNUSED})

    result["tools"] = tools
    result.setdefault("ttlMs", 0)
    result.setdefault("cacheScope", "private")
    result.setdefault("resultType", "complete")

    cursor = result.get("nextCursor")
    if not isinstance(cursor, str) or not cursor:
        result.pop("nextCursor", None)

    return notes


_UNUSED: Final = frozenset({"icons", "_meta", "execution"})
_TEXTS: Final = ("title", "description")
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def _find_tool_problem(tool: object) -> str:
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        return "a tool has no name"
    name = one_line(tool["name"], limit=100)
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        return f"the tool {name!r} has no schema of its arguments"
    if schema.get("type", "object") != "object":
        return f"the schema of the tool {name!r} is not that of an object"
    schema.setdefault("type", "object")

    for key in _TEXTS:  # a wrong text is no reason to lose the tool
        if not isinstance(tool.get(key), str):
            tool.pop(key, None)
    if not isinstance(tool.get("outputSchema"), dict):
        tool.pop("outputSchema", None)

    hints = tool.pop("annotations", None)
    if isinstance(hints, dict):
        tool["annotations"] = {
            key: hints[key] for key in _HINTS if isinstance(hints.get(key), bool)
        }
        if isinstance(hints.get("title"), str):
            tool["annotations"]["title"] = hints["title"]

    return ""


def repair_question(params: object) -> None:
    """Add the keys that the library requires in the schema of a question without fields."""
    if not isinstance(params, dict):
        return

    schema = params.get("requestedSchema")
    if isinstance(schema, dict):
        schema.setdefault("type", "object")
        schema.setdefault("properties", {})


def remove_elicitation(params: object) -> None:
    """Remove the capability to ask users from the parameters of an outgoing message."""
    if not isinstance(params, dict):
        return

    meta = params.get("_meta")
    declared = [params.get("capabilities")]
    if meta:
        declared.append(meta.get(_CAPABILITIES))
    for capabilities in declared:
        if isinstance(capabilities, dict):
            capabilities.pop("elicitation", None)


class ReceivedMessages:
    """Stream of the server's messages, each of which passes `repair` first."""

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
    """Stream of the client's messages, each of which passes `change` first."""

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


def has_unanswered_id(message: Mapping[str, object]) -> bool:
    """Return True if `message` is a request, which gets an answer."""
    return "id" in message and "method" in message
