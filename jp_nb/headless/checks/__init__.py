"""Checks of notebooks, cassettes, and answers files for `jp-nb check`."""
