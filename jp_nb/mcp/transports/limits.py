"""Limits of the connection to an MCP server that have no setting.

Source: `docs/mcp.md`, `docs/bounds.md`.
"""

from __future__ import annotations

from typing import Final

MAX_LIST_PAGES: Final = 100
"""Pages of a list of tools; more are an error."""
MAX_TOOLS: Final = 1_000
"""Tools of a server; more are an error."""
MAX_HTTP_WAITS: Final = 3
"""Number of waits of a request for a busy server; then its refusal is the result."""
MAX_HTTP_WAIT_S: Final = 60.0
"""Longest wait that a server may ask for; a longer one is an error that names it."""
MAX_REFUSAL_BYTES: Final = 64 * 1024
"""Size of the read part of an HTTP error."""
MAX_OAUTH_BYTES: Final = 1_000_000
"""Size of an answer of an authorization server."""
MAX_REDIRECT_BYTES: Final = 16_384
"""Size of the request with which the browser returns."""
