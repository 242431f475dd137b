"""What surrounds a session: cells, errors, and the conversation of a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue

from jp_nb.record.document import Document
from jp_nb.session import host as session_host
from jp_nb.toolkit import notebook_access
from tests.kit import _words

HOST_VALUES: Mapping[str, type[Any]] = {
    "cell_run": session_host.CellRun,
    "last_error": session_host.LastError,
    "opened_conversation": session_host.OpenedConversation,
    "code_run": notebook_access.CodeRun,
    "notebook_cell": notebook_access.NotebookCell,
    "notebook_cells": notebook_access.NotebookCells,
}


def host_value(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return a value that a host gives to its session: `host_value("cell_run", "c1", "run")`."""
    return _words.find(HOST_VALUES, kind)(*values, **fields)


def open_document(
    stored: JsonValue = None, *, clock: Callable[[], datetime] | None = None, **options: Any
) -> Any:
    """Return the document of the `jp` object `stored`, or a new one with these `options`."""
    if clock is None:
        clock = _now
    if stored is None:
        return Document.new(clock=clock, **{"made": "live", **options})
    return Document.load(stored, clock=clock, **options)


def _now() -> datetime:
    return datetime.now(UTC)
