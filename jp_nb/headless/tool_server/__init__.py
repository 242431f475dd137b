"""Tools of a module or a notebook, offered to other programs as an MCP server."""
