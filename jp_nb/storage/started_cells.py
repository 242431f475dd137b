"""The cells that the runner of a headless run has started, for its kernel.

Source: `docs/cells.md`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.storage import environment


def read_started_cells() -> list[str]:
    """Return the ids of the cells that the runner has started, in order.

    They are in the events of the run (`run_events.py`), as lines `{"cell": 2, …, "key": ID}`.
    """
    path = os.environ.get(environment.EVENTS_VARIABLE)
    if not path:
        return []

    # Other events may be long, and are not parsed. `cell` is the first key of these, as the runner
    # writes it.
    lines = read_regular(Path(path), max_bytes=MAX_NOTEBOOK_BYTES).splitlines()
    events = [json.loads(line) for line in lines if line.startswith(b'{"cell"')]
    return [str(event["key"]) for event in events if "key" in event]
