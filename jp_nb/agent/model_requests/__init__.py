"""Requests to models: attempts, retries, recordings, and responses."""
