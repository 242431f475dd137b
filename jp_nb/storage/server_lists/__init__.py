"""Lists and credentials of MCP servers."""
