"""Environment variables by which a runner, or the user, speaks to the kernel. Imports nothing."""

from __future__ import annotations

PATH = "JP_NB_PATH"
"""Absolute path of the notebook that runs."""

STRICT = "JP_NB_STRICT"
"""`1`: a question that nobody can answer fails the cell."""

CONTINUE = "JP_NB_CONTINUE"
"""`1`: append to the notebook's conversation instead of starting a new one."""

OVERRIDES = "JP_NB_OVERRIDES"
"""A JSON list of `-c` arguments that hold for the whole run."""

EPOCH = "SOURCE_DATE_EPOCH"
"""Seconds since 1970 at which the times of headless records begin."""

PAGE = "JPY_SESSION_NAME"
"""Set by Jupyter's server: the path of the notebook that it started the kernel for."""

ANSWERS = "JP_NB_ANSWERS"
"""Absolute path of the answers file of this run; it goes before `prompt.answers`."""

DECISIONS = "JP_NB_DECISIONS"
"""File that gets a line for each decision that nobody took, and for each prepared answer."""

KEY_FILE = "JP_NB_KEY_FILE"
"""File of the key that signs records, in place of the one in the user's data directory."""

TRUST_FOLDERS = "JP_NB_TRUST_FOLDERS"
"""Folders, separated as in `PATH`, whose files, with those of their subfolders, count in full."""

CASSETTE_USE = "JP_NB_CASSETTE_USE"
"""File in which the kernel notes which exchanges of a cassette have answered; JSON by line."""
