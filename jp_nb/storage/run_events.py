"""Append events of a headless run to the file of its runner.

A runner sets `JP_NB_EVENTS` to the path of the file. Each line is one JSON object:

    {"cell": 2, "id": "a1b2", "key": "a1b2"}            the runner starts this cell, which it
                                                        gave to the kernel with this key
    {"answer": ["questions", "publish", "audience"], "digest": "1f3a9c…"}
                                                        identity and digest of a used prepared
                                                        answer (`PreparedAnswer`)
    {"open": "question", "tool": "publish", "why": "…", "detail": [], "question": {…},
     "turn": 0, "words": "…", "arguments": {…}}         decision that no user could make
    {"cassette": "/…/talk.cassette.jsonl", "used": [3], "added": 1, "anew": true}
                                                        replayed exchanges, and number of new ones;
                                                        `anew` if all are recorded again
    {"request": "anthropic", "input": 90, "output": 20} a request to a provider, and its tokens
    {"call": "call_1", "tool": "publish"}               a tool call that runs now
    {"call": "call_1", "tool": null}                    its end
    {"edits": [{"kind": "insert", "cell": "new:1", "after": "a1", "cell_kind": "code",
                "source": "x"}], "ids": {"new:1": "jp-1f0c"}}
                                                        edits of cells, and the ids of new ones
    {"ran": "jp-1f0c", "count": 3, "outputs": []}       a cell that ran in a turn

`question` is the question of the tool
(`docs/turns.md`). Other kinds of decisions have none; the delivery of a result has `result`.
`words` is the last text of the model before the decision.
`jp_nb/headless/run_events_reading.py` reads the file, and in the kernel `started_cells.py`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.storage import environment

log = logging.getLogger(__name__)

EDITS_EVENT: Final = "edits"
RAN_EVENT: Final = "ran"

_failed: set[str] = set()


def has_event_file() -> bool:
    """Return True in a headless run whose runner has set a file for events."""
    return bool(os.environ.get(environment.EVENTS_VARIABLE))


def append_run_event(**event: JsonValue) -> None:
    """Append `event`, if a runner set a file. A failure is logged once for each file."""
    path = os.environ.get(environment.EVENTS_VARIABLE)
    if path:
        append_event(path, event)


def append_event(path: str, event: Mapping[str, JsonValue]) -> None:
    """Append `event` to the file at `path`. A failure is logged once for each file."""
    if path in _failed:
        return

    try:
        with open(path, "a", encoding="ascii") as file:
            file.write(json.dumps(dict(event)) + "\n")
    except OSError as exc:
        _failed.add(path)
        log.warning("Cannot write the events of this run to %s: %s", path, exc.strerror)
