"""Anthropic Messages: requests, streams, batches."""
