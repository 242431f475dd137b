"""Ids of runs: readable, stable, and safe as names of files.

`walk-city=Delft-1f3a9c` is the notebook, its parameters, and the beginning of a digest of
everything that decides the result. So a resumed batch finds its runs again, and a changed notebook
makes other runs.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from pydantic import JsonValue

MAX_SLUG_CHARS: Final = 80
"""Longest readable part of a run's id, which is also the name of its file."""
MAX_SLUG_VALUE_CHARS: Final = 24
"""Longest value of a parameter in a run's id."""
_DIGEST_CHARS: Final = 6
_LONG_DIGEST_CHARS: Final = 16
_NAMELESS_NOTEBOOK: Final = "notebook"
"""Readable part for a notebook whose name has no character for an id, such as `日本語.ipynb`."""
_NAMELESS_PARAMETER: Final = "parameter"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._]+")


def make_run_digest(
    notebook: str,
    *,
    content: str,
    parameters: Mapping[str, JsonValue],
    overrides: Mapping[str, str],
    cassette: str = "",
    answers: str = "",
) -> str:
    """Return the digest of a run.

    Args:
        notebook: The input, relative to the common folder.
        content: Digest of the notebook's cells.
        parameters: Values for the cell tagged `parameters`.
        overrides: Settings of this run.
        cassette: Digest of the notebook's own cassette before the first run; "" if there is none.
        answers: Digest of the notebook's own answers file before the first run; "" if there is
            none.
    """
    parts = {
        "notebook": notebook,
        "content": content,
        "parameters": dict(parameters),
        "overrides": dict(overrides),
        "cassette": cassette,
        "answers": answers,
    }
    # Not the canonical form of records, in which 3 and 3.0 are the same number.
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def make_run_id(
    notebook: str,
    parameters: Mapping[str, JsonValue],
    overrides: Mapping[str, str],
    digest: str,
) -> str:
    """Return the readable and stable id of a run, which is also a safe file name.

    Parameters are sorted by name, because their order does not change the run.

    The digest has 6 characters if the readable part shows every name and value completely, as
    Python prints it. It has 16 if another run might have the same readable part: a value or the
    whole part was cut, a character was replaced, or a name or value is spelled otherwise (`model`
    for its setting, `true` for `True`).
    """
    stem = str(PurePosixPath(notebook).with_suffix(""))
    pieces = [_replace_unsafe(stem) or _NAMELESS_NOTEBOOK]
    is_exact = pieces == [stem]  # the readable part shows every name and value completely
    for name, value in (*sorted(parameters.items()), *sorted(overrides.items())):
        piece = _format_piece(name, value)
        is_exact = is_exact and piece == f"{name}={value}"
        pieces.append(piece)

    slug = "-".join(pieces)
    if len(slug) > MAX_SLUG_CHARS:
        is_exact = False
        slug = slug[:MAX_SLUG_CHARS]

    length = _DIGEST_CHARS if is_exact else _LONG_DIGEST_CHARS
    return f"{slug.strip('-.')}-{digest[:length]}"


def _format_piece(name: str, value: JsonValue) -> str:
    """Return a parameter or setting in an id, such as `city=Delft`."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    # `assistant.model.id` reads better as `model`; the digest has the whole path.
    label = "model" if name == "assistant.model.id" else name
    shown_name = _replace_unsafe(label) or _NAMELESS_PARAMETER
    return f"{shown_name}={_replace_unsafe(text)[:MAX_SLUG_VALUE_CHARS]}"


def _replace_unsafe(text: str) -> str:
    """Return `text` with `-` in place of characters that a file name should not have.

    Letters with accents lose these.
    """
    parts = unicodedata.normalize("NFKD", text)
    letters = "".join(part for part in parts if not unicodedata.combining(part))
    return _UNSAFE.sub("-", letters).strip("-.")
