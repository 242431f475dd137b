"""Commands of `jp-nb` for one notebook."""
