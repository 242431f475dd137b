"""MCP servers as sources of tools. Only this package imports the library `mcp`."""
