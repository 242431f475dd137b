"""Find out if the text of an argument is a path inside of a folder.

The model chooses the text, so a doubt is no match. A path has to be in the folder for every way in
which a tool could read it: with and without links, and from each folder in which the tool may run.

Source: `docs/configuration.md`, `docs/security.md`.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue

MAX_PATH_CHARS: Final = 4096
"""Maximum length of a path that can be inside of a folder."""


_ESCAPED: Final = re.compile("%[0-9A-Fa-f]{2}")
"""A character as in a URL."""
_STRUCTURE: Final = frozenset("/\\.~:%$")
"""Characters with a meaning in paths. Other characters may be normalized to them."""


def is_inside_folder(value: JsonValue, folder: str, root: Path, bases: Iterable[Path]) -> bool:
    """Return True if `value` is the path of `folder`, or of a file below it, that may not exist.

    `folder` is relative to `root`. A tool may read `value` relative to `root` or any of `bases`.
    """
    if not isinstance(value, str) or not _is_plain_path(value):
        return False

    try:
        allowed = os.path.realpath(os.path.join(root, os.path.expanduser(folder)))
        readings: list[str] = []
        for base in dict.fromkeys((root, *bases)):
            readings += _list_read_files(str(base), value)
    except (OSError, ValueError):  # a loop of links
        return False

    below = allowed.rstrip(os.sep) + os.sep
    return all(path == allowed or path.startswith(below) for path in readings)


def _list_read_files(base: str, value: str) -> Sequence[str]:
    """Return the files that `value` can mean in `base`.

    They differ if a tool removes `..` before it follows links: `link/../a` is then in `base`.
    """
    path = os.path.join(base, value)
    return os.path.realpath(path), os.path.realpath(os.path.normpath(path))


def _is_plain_path(text: str) -> bool:
    """Return True if each program reads `text` as the same path.

    Some programs expand `~`, `$NAME`, and `%2e`, read a URL, remove spaces at the ends, take a
    backslash as a separator, or normalize characters that look like dots and slashes.
    """
    if not 0 < len(text) <= MAX_PATH_CHARS or text != text.strip():
        return False
    if any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in text):
        return False
    if text.startswith("~") or "$" in text or _ESCAPED.search(text):
        return False
    if os.sep == "/" and ("\\" in text or ":" in text):
        return False
    if os.sep != "/" and ":" in os.path.splitdrive(text)[1]:
        return False

    return not any(
        _STRUCTURE & set(unicodedata.normalize("NFKC", char)) for char in text if not char.isascii()
    )
