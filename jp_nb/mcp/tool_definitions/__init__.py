"""Definitions of a server's tools."""
