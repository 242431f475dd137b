"""Secrets in the settings of MCP servers, and references to variables."""
