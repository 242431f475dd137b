"""Environment variables by which a runner speaks to the kernel that it starts. Imports nothing."""

from __future__ import annotations

PATH = "JP_NB_PATH"
"""Absolute path of the notebook that runs."""

STRICT = "JP_NB_STRICT"
"""`1`: a question that nobody can answer fails the cell."""

CONTINUE = "JP_NB_CONTINUE"
"""`1`: append to the notebook's conversation instead of starting a new one."""

OVERRIDES = "JP_NB_OVERRIDES"
"""A JSON list of `-c` arguments that hold for the whole run."""
