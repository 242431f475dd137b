"""Recognize the series and frames of pandas and polars, without an import of these libraries.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import sys
from typing import Final, Literal

FRAME_LIBRARIES: Final = ("pandas", "polars")


def find_frame_library(value: object) -> Literal["pandas", "polars"] | None:
    """Return the library of `value` if it is a series or a frame of one; never import one."""
    for library in FRAME_LIBRARIES:
        module = sys.modules.get(library)
        if module is not None and isinstance(value, (module.Series, module.DataFrame)):
            return "pandas" if library == "pandas" else "polars"
    return None
