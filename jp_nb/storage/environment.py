"""Names of environment variables that the user or a runner sets for the kernel. Imports nothing."""

from __future__ import annotations

PATH_VARIABLE = "JP_NB_PATH"
"""Absolute path of the running notebook."""

STRICT_VARIABLE = "JP_NB_STRICT"
"""`1`: a question that no user can answer fails the cell."""

CONTINUE_VARIABLE = "JP_NB_CONTINUE"
"""`1`: append to the notebook's conversation instead of starting a new one."""

OVERRIDES_VARIABLE = "JP_NB_OVERRIDES"
"""A JSON list of `-c` arguments for the whole run."""

EPOCH_VARIABLE = "SOURCE_DATE_EPOCH"
"""Start time of headless records, in seconds since 1970."""

PAGE_VARIABLE = "JPY_SESSION_NAME"
"""Set by Jupyter Server: the path of the kernel's notebook."""

ANSWERS_VARIABLE = "JP_NB_ANSWERS"
"""Absolute path of the answers file of this run. It has priority over `prompt.answers`."""

RUN_VARIABLE = "JP_NB_RUN"
"""Id of the run in its batch. It selects the tables `[runs."ID"]` of the answers file."""

CELLS_VARIABLE = "JP_NB_CELLS"
"""File with the cells of the notebook in this run (`jp_nb/storage/cell_snapshot.py`)."""

PACE_VARIABLE = "JP_NB_PACE"
"""Folder with the pace of requests of a batch (`jp_nb/storage/shared_pace.py`)."""

EVENTS_VARIABLE = "JP_NB_EVENTS"
"""File to which the kernel appends events for the runner (`jp_nb/storage/run_events.py`)."""

KEY_FILE_VARIABLE = "JP_NB_KEY_FILE"
"""Path of the key that signs records, instead of the one in the user's data folder."""

TRUST_FOLDERS_VARIABLE = "JP_NB_TRUST_FOLDERS"
"""Trusted folders, separated as in `PATH`. Their files and subfolders need no consent."""
