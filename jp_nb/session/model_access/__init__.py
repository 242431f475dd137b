"""Providers and cassettes that stay open between requests."""
