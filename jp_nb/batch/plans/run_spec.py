"""Specifications of runs: a worker's input for one run, with the id of the run.

`run_plan.py` makes a `RunSpec` of each notebook, parameter set, and model. A pool gives it to a
worker as one JSON object, and the worker gives back one `RunEnd`. Neither contains an API key: the
kernels read keys from the environment of their worker.

The id is readable and stable: `walk-city=Delft-1f3a9c` is the notebook, its parameters, and the
beginning of a digest of everything that decides the result.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue

from jp_nb.batch.results.run_log import EndedLine

MAX_SLUG_CHARS: Final = 80
"""Longest readable part of a run's id, which is also the name of its file."""
MAX_SLUG_VALUE_CHARS: Final = 24
"""Longest value of a parameter in a run's id."""
_DIGEST_CHARS: Final = 6
_LONG_DIGEST_CHARS: Final = 16  # for ids whose readable part does not tell runs apart
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._]+")


class RunSpec(BaseModel):
    """One run, complete: a worker needs nothing else but its environment.

    Attributes:
        run: The id.
        notebook: The input, relative to the common folder of the batch.
        path: The input, absolute. The kernel runs in its folder.
        output: The file to write, absolute.
        parameters: Values for the cell tagged `parameters`.
        overrides: Settings of this run in the log, by path.
        cfg: Arguments of `-c`, which include the overrides.
        settings: Settings that are not stored in the notebook, such as those of a cassette.
        recorded_before: The cassette with which a recording begins, absolute; "" for none.
        answers: The answers file, absolute; "" for none.
        timeout_s: Limit of each cell.
        run_timeout_s: Limit of the run.
        limits: The folder with the request limits that all workers share; "" for none.
        notebook_digest: Digest of the input file, which must not change during the batch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    notebook: str
    path: str
    output: str
    parameters: dict[str, JsonValue] = {}
    overrides: dict[str, str] = {}
    cfg: tuple[str, ...] = ()
    settings: dict[str, str] = {}
    recorded_before: str = ""
    answers: str = ""
    strict: bool = False
    continues: bool = False
    timeout_s: float | None = None
    run_timeout_s: float | None = None
    limits: str = ""
    digest: str = ""
    notebook_digest: str = ""


class RunEnd(BaseModel):
    """The end of a run, as a worker reports it.

    `fatal` is why no further run should start, such as a full disk; "" if others may run.
    """

    model_config = ConfigDict(frozen=True)

    line: EndedLine
    fatal: str = ""


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

    The digest is longer if the readable part is cut, or lacks characters of a value.
    """
    stem = str(PurePosixPath(notebook).with_suffix(""))
    pieces = [_clean(stem)]
    is_exact = True
    for name, value in (*parameters.items(), *overrides.items()):
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
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    # `assistant.model.id` reads better as `model`; the digest has the whole path.
    label = "model" if name == "assistant.model.id" else name
    return f"{_clean(label)}={_clean(text)[:MAX_SLUG_VALUE_CHARS]}"


def _clean(text: str) -> str:
    return _UNSAFE.sub("-", text).strip("-.")
