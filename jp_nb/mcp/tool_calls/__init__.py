"""Calls of a server's tools: questions, progress, results."""
