"""Cassettes of a batch: the file that each run replays, and the file into which it records.

A run uses `RUN_ID.cassette.jsonl` beside its notebook if there is one, and else the notebook's own
cassette, or the file that the user names for all runs.

Each run records into a separate file below `OUT/`, because two programs cannot write one cassette.
After the runs, `recording_merge.py` combines these files.

Source: `docs/many-notebooks.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from jp_nb.storage.cassettes.cassette_file import (
    CASSETTE_SUFFIX,
    make_default_cassette_path,
    refuse_unless_cassette,
    refuse_unsafe_cassette_link,
)

RECORDINGS: Final = ".recordings"
"""Folder below `OUT/` with the recordings of runs."""
RecordingMode = Literal["record", "replay", "replay-or-record"]


def choose_cassette(notebook: Path, run: str, file: str = "") -> Path:
    """Return the cassette that a run replays, or into which its recording is merged.

    `file` is the cassette that the user names for all runs; "" for none.
    """
    if file:
        return Path(file)
    cassette_of_run = notebook.with_name(f"{run}{CASSETTE_SUFFIX}")
    if cassette_of_run.is_file():
        return cassette_of_run
    return make_default_cassette_path(notebook)


def find_recording(out: Path, run: str) -> Path:
    """Return the file into which the run records."""
    return out / RECORDINGS / f"{run}{CASSETTE_SUFFIX}"


def check_targets(notebooks: Iterable[Path], file: str = "") -> None:
    """Check, before anything runs, that recordings can be merged into cassettes of notebooks.

    Cassettes of single runs are not checked.

    Raises:
        StorageError: A target is not a cassette, or is a link to a file that must not be written.
    """
    targets = [Path(file)] if file else map(make_default_cassette_path, notebooks)
    for target in targets:
        refuse_unsafe_cassette_link(target)
        refuse_unless_cassette(target)


def prepare_recording(source: Path, recording: Path) -> None:
    """Copy the cassette at `source`, if there is one, so that a run can replay and extend it.

    A recording of an earlier attempt of the run is removed.
    """
    recording.parent.mkdir(parents=True, exist_ok=True)
    recording.unlink(missing_ok=True)
    if source.is_file():
        shutil.copyfile(source, recording)
