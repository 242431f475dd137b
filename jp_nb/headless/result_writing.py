"""Write the notebook of a headless run: its outputs, and its record with all entries.

During a run, the record is in the state of a widget, the *carrier*. If the kernel died, its last
entries are only in the journal, a file that the kernel has written.

Source: `docs/record.md`, `docs/ci.md`.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from nbclient import NotebookClient

from jp_nb.errors import StorageError
from jp_nb.headless.files import write_notebook
from jp_nb.record.documents import segments
from jp_nb.record.documents.carrier import lift_carrier
from jp_nb.record.documents.record_shape import RECORD_KEY
from jp_nb.session.journals.headless_journals import complete_document
from jp_nb.storage.journals.journal_folder import JournalFolder

INCOMPLETE_RECORD = (
    "the notebook did not receive the whole record of this run; metadata.widgets keeps the part "
    "that arrived. Run the notebook again, with fewer tool calls in one cell"
)


def write_result(client: NotebookClient, target: Path, path: Path) -> None:
    """Write the notebook at `path` to `target`, with its outputs and its record.

    Raises:
        StorageError: It cannot be written.
    """
    lift_record(client)
    metadata = client.nb.metadata

    record = segments.read_segments(metadata) if RECORD_KEY in metadata else None
    if isinstance(record, dict):
        with suppress(OSError, StorageError):  # recovered when the notebook is opened
            # A kernel that dies has not sent its last entries.
            whole = complete_document(JournalFolder(), record, notebook=str(path))
            if whole != record:
                segments.store_segments(metadata, whole)

    join_streams(client.nb)
    write_notebook(client.nb, target)


def join_streams(notebook: Any) -> None:
    """Join adjacent outputs of the same stream, which depend on the times of flushes."""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue

        outputs = []
        # Only outputs of streams have a name.
        for stream, group in groupby(cell.outputs, lambda output: output.get("name")):
            adjacent = list(group)
            if stream is not None:
                adjacent[0].text = "".join(output.text for output in adjacent)
                del adjacent[1:]
            outputs += adjacent

        cell.outputs = outputs


def lift_record(client: NotebookClient) -> None:
    """Move the record that `client` has collected to `metadata.jp` of its notebook."""
    client.set_widgets_metadata()  # nbclient does this only if no cell failed
    lift_carrier(client.nb.metadata)
