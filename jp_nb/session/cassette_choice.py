"""What is done with which cassette.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jp_nb.config.tree.provider_config import CassetteMode


@dataclass(frozen=True, slots=True)
class CassetteChoice:
    """A use of a file.

    Attributes:
        mode: What for.
        path: The file; None: the mode is `off`.
        tools: `recorded` if results of tools are of the file, too.
        folder: The notebook's folder, which a file in it may not leave through a link.
    """

    mode: CassetteMode = "off"
    path: Path | None = None
    tools: str = "run"
    folder: Path | None = None
