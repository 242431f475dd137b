"""Results of served tools as results of MCP: texts, images, and other files.

Source: `docs/mcp.md` (our tools for others).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jp_nb.json_values import JsonObject

if TYPE_CHECKING:
    import mcp_types as types


def make_call_result(outcome: JsonObject) -> types.CallToolResult:
    """Return a success or an error in the shapes of `ToolRunner.run` (`mcp_server.py`) for MCP."""
    if outcome["type"] == "error":
        return make_text_result(str(outcome["message"]), is_error=True)

    result = make_text_result(str(outcome["content"]), is_error=False)
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


def make_text_result(text: str, *, is_error: bool) -> types.CallToolResult:
    """Return a result with one text."""
    import mcp_types as types

    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)
