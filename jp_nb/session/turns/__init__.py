"""Turns of cells: their requests, configurations, attachments, and structured answers."""
