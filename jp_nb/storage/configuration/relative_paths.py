"""Write paths in messages relative to the notebook, so that they are the same on each machine."""

from __future__ import annotations

import os
import re
from pathlib import Path


def shorten_paths(text: str, notebook_folder: Path, root: Path) -> str:
    """Return `text` with paths in the workspace `root` and `.jp` above it relative to the notebook.

    Other paths in the home folder begin with `~`.
    """
    folders = [root, *(above / ".jp" for above in root.parents)]
    names = [(folder, os.path.relpath(folder, notebook_folder)) for folder in folders]
    names.append((Path(os.path.expanduser("~")), "~"))

    for folder, name in names:
        is_file_system_root = folder == folder.parent
        if not is_file_system_root:
            text = _replace_folder(text, folder, name)
    return text


def _replace_folder(text: str, folder: Path, name: str) -> str:
    """Return `text` with `name` instead of `folder`, alone and at the beginning of paths."""
    path = rf"(?<![\w./-]){re.escape(str(folder))}"
    prefix = "" if name == "." else f"{name}/"

    # A backslash is special in a replacement.
    text = re.sub(f"{path}/", prefix.replace("\\", r"\\"), text)
    return re.sub(rf"{path}(?=[\s:;,)'`\"]|$)", name.replace("\\", r"\\"), text)
