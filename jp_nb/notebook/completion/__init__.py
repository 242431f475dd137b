"""Completion of `%jp` lines and `%%jp` cells with Tab: the line, one word, and the names for it."""
