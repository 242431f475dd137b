"""The MCP servers of a session."""
