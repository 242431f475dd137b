"""Connections to servers: the HTTP client, addresses, errors, and lists of models."""
