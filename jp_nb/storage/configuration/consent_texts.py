"""Texts about files of the configuration whose settings do not apply, or not without consent.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from jp_nb.storage.trust import PendingConsent
from jp_nb.text import MAX_LISTED_LINES


def format_paths(paths: Iterable[str]) -> str:
    """Return the first `MAX_LISTED_LINES` sorted paths, and the number of the others, as text."""
    in_order = sorted(paths)
    more = len(in_order) - MAX_LISTED_LINES
    shown = ", ".join(in_order[:MAX_LISTED_LINES])
    return f"{shown} and {more} more" if more > 0 else shown


def format_own_settings(path: Path, settings: Sequence[str]) -> str:
    """Return the notice about `settings` that the file at `path` cannot have."""
    return (
        f"{path} cannot set {format_paths(settings)}, because it decides for you. Set it in your "
        "own file: `%jp config --user`"
    )


def format_pending(pending: Sequence[PendingConsent]) -> str:
    """Return the notice about files whose settings are ignored without the user's consent."""
    files = format_paths({str(consent.file) for consent in pending})
    leaves = chain.from_iterable(consent.leaves for consent in pending)
    paths = format_paths({path for path, _, _ in leaves})
    until = "ignored until `%jp trust --workspace`"
    return f"settings in {files} need your consent; {until}: {paths}"
