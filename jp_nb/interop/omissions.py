"""`Omissions`: the parts of a conversation that an export omitted or converted, for the user.

JP, a command-line assistant, does not support everything that a notebook stores.

Equal changes of several entries share a line: `events[0-3, 7].event_id: JP has no such field`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from jp_nb.config.setting_paths import format_path

RUNS_SHOWN_IN_LINE = 20
"""Maximum number of runs of indexes, such as `0-3`, in one line."""

NoteSetting = Callable[[tuple[str, ...], str], None]
"""Notes the omission or conversion of a setting: called with its keys and the reason."""


@dataclass(slots=True)
class Omissions:
    """Collects omissions and conversions by path and reason."""

    _indexes: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """Indexes of the entries, by path and reason; no indexes for the base configuration."""

    def add_base(self, keys: tuple[str, ...], why: str) -> None:
        """Add a setting of the base configuration."""
        self._indexes[(f"base_config.{format_path(keys)}", why)] = []

    def add_entry(self, index: int, path: str, why: str) -> None:
        """Add the part `path` of entry `index`; "" is the whole entry."""
        self._indexes.setdefault((path, why), []).append(index)

    def format_lines(self) -> list[str]:
        """Return the lines, in the order of the first change that each tells."""
        lines: list[str] = []
        for (path, why), indexes in self._indexes.items():
            if not indexes:
                lines.append(f"{path}: {why}")
                continue

            runs = _format_runs(indexes)
            suffix = f".{path}" if path else ""
            for start in range(0, len(runs), RUNS_SHOWN_IN_LINE):
                listed = ", ".join(runs[start : start + RUNS_SHOWN_IN_LINE])
                lines.append(f"events[{listed}]{suffix}: {why}")

        return lines


def _format_runs(indexes: list[int]) -> list[str]:
    """Return runs of consecutive numbers as texts: 0, 1, 2, 3, 7 become 0-3 and 7."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index <= runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])

    texts: list[str] = []
    for first, last in runs:
        text = str(first) if first == last else f"{first}-{last}"
        texts.append(text)
    return texts
