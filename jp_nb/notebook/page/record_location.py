"""The words for the place of the record: in the notebook, or in memory for a reason.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from jp_nb.errors import StorageError

IN_NOTEBOOK = "kept in this notebook"

NO_PAGE = "no page answered (in JupyterLab or Notebook, enable the jp-nb extension)"
NO_OPEN_PAGE = "no page is open that shows this notebook"


def format_memory_location(reason: str) -> str:
    """Return the `location` of a record that no notebook keeps."""
    return f"kept in memory only: {reason}"


def make_not_saved_error(reason: str) -> StorageError:
    """Return the error for a record that could not be saved."""
    return StorageError(f"The record is not saved: {reason}")
