"""Messages to and from MCP servers: processes, HTTP, and repaired JSON."""
