"""Change messages that the library `mcp` would refuse as a whole.

The library is stricter than servers are: one content block of a new kind makes it drop the result.
The functions replace such parts before it sees the message, so that only the part is lost.
`RepairedTransport` calls them for each message, and `remove_elicitation` for those of the client.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jp_nb.mcp.transports.server_messages import Json
from jp_nb.text import one_line

RAW_RESULT: Final = "jp_nb/result"
"""Key in `_meta` of a call's result. Its value is the server's result, with readable blocks."""
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_RESULT_KEYS: Final = frozenset({"content", "structuredContent", "isError"})


def repair_result(result: Json, is_content: Callable[[object], bool]) -> list[str]:
    """Replace the parts of `result` that the library does not accept.

    `is_content` returns True for content blocks that the library accepts. The result of a call
    moves to `_meta`, where `client.call_tool` finds it, and the library checks an empty one.

    Returns:
        Notes about tools that are missing now.
    """
    if isinstance(result.get("tools"), list):
        return _repair_tools(result)

    # A server of the protocol of 2026 first asks its questions (`resultType` is `input_required`),
    # in place of the result of the call.
    for request in _get_values(result.get("inputRequests")):
        if isinstance(request, dict):
            repair_question(request.get("params"))

    is_complete = result.get("resultType", "complete") == "complete"
    is_result_of_call = is_complete and bool(_RESULT_KEYS & result.keys())
    if is_result_of_call:
        raw = {
            "content": _repair_blocks(result.get("content"), is_content),
            "structuredContent": result.get("structuredContent"),
            "isError": result.get("isError") is True,
        }
        result.clear()
        result.update(content=[], resultType="complete", _meta={RAW_RESULT: raw})

    return []


def _get_values(value: object) -> list[object]:
    """Return the values of a JSON object; none for another value."""
    return [*value.values()] if isinstance(value, dict) else []


def _repair_blocks(content: object, is_content: Callable[[object], bool]) -> list[Json]:
    """Return the content blocks of a result. A text replaces each that the library refuses."""
    if content is None:
        return []
    blocks: list[Any] = content if isinstance(content, list) else [content]
    return [block if is_content(block) else _describe_block(block) for block in blocks]


def _describe_block(block: object) -> Json:
    kind = block.get("type") if isinstance(block, dict) else type(block).__name__
    name = one_line(str(kind), limit=100)
    text = f"[The server sent content of the kind {name!r}, which cannot be read here.]"
    return {"type": "text", "text": text}


def _repair_tools(result: Json) -> list[str]:
    """Repair a page of a list of tools; return notes about the tools that cannot be offered."""
    notes: list[str] = []
    tools: list[Json] = []

    for tool in result["tools"]:
        problem = _find_tool_problem(tool)
        if problem:
            notes.append(problem)
        else:
            tools.append(_repair_tool(tool))

    result["tools"] = tools
    # Keys that the library requires, and that a server of 2025 does not know. Without a time, the
    # list must be read again.
    result.setdefault("ttlMs", 0)
    result.setdefault("cacheScope", "private")
    result.setdefault("resultType", "complete")

    cursor = result.get("nextCursor")
    if not isinstance(cursor, str) or not cursor:
        result.pop("nextCursor", None)

    return notes


# The parts of a tool's definition that are removed, or kept only with the right type.
_UNUSED: Final = frozenset({"icons", "_meta", "execution"})
_TEXTS: Final = ("title", "description")
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def _find_tool_problem(tool: object) -> str:
    """Return why a tool cannot be offered; "" if it can."""
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        return "a tool has no name"
    name = one_line(tool["name"], limit=100)
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        return f"the tool {name!r} has no schema of its arguments"
    if schema.get("type", "object") != "object":
        return f"the schema of the tool {name!r} is not that of an object"
    return ""


def _repair_tool(tool: Json) -> Json:
    """Return a tool without the parts that the library refuses, which are no reason to lose it."""
    repaired = {key: value for key, value in tool.items() if key not in _UNUSED}
    repaired["inputSchema"] = {"type": "object", **tool["inputSchema"]}

    for key in _TEXTS:
        if not isinstance(repaired.get(key), str):
            repaired.pop(key, None)
    if not isinstance(repaired.get("outputSchema"), dict):
        repaired.pop("outputSchema", None)

    hints = repaired.pop("annotations", None)
    if isinstance(hints, dict):
        annotations = {key: hints[key] for key in _HINTS if isinstance(hints.get(key), bool)}
        if isinstance(hints.get("title"), str):
            annotations["title"] = hints["title"]
        repaired["annotations"] = annotations

    return repaired


def repair_question(params: object) -> None:
    """Add the keys that the library requires in the schema of a question without fields."""
    if not isinstance(params, dict):
        return

    schema = params.get("requestedSchema")
    if isinstance(schema, dict):
        schema.setdefault("type", "object")
        schema.setdefault("properties", {})


def remove_elicitation(params: object) -> None:
    """Remove the capability to ask users from a message to the server, if there is no user."""
    if not isinstance(params, dict):
        return

    # A client declares its capabilities in the handshake (2025), or in each message (2026).
    meta = params.get("_meta")
    declared = [params.get("capabilities")]
    if meta:
        declared.append(meta.get(_CAPABILITIES))
    for capabilities in declared:
        if isinstance(capabilities, dict):
            capabilities.pop("elicitation", None)
