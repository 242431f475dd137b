"""A notebook of a batch, with the digests by which a resumed batch knows that it has not changed.

The id of a run contains a digest of the content, the inputs, and the parameters. So a run of a
changed notebook has another id, and does not count as done.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jp_nb.errors import UsageError
from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.headless.files import read_notebook
from jp_nb.headless.parameter_cell import has_parameter_cell, list_parameter_names
from jp_nb.storage.cassettes.cassette_file import make_default_cassette_path
from jp_nb.storage.configuration.answers_file import ANSWERS_SUFFIX


@dataclass(frozen=True, slots=True)
class PlannedNotebook:
    """A notebook of a batch.

    Attributes:
        path: Its absolute path.
        name: Its path relative to the common folder of the batch, with slashes.
        content_digest: Digest of its cells and metadata, without outputs.
        file_digest: Digest of its file, which must not change while the batch runs.
        input_digests: Digests of its cassette and its answers file before the first run.
        parameters: The names that its cell tagged `parameters` assigns, to find a typo in a name;
            None if it cannot be told, so that any name is accepted.
        has_parameter_cell: True if a cell is tagged `parameters`.
    """

    path: Path
    name: str
    content_digest: str
    file_digest: str
    input_digests: tuple[str, str]
    parameters: frozenset[str] | None
    has_parameter_cell: bool


def plan_notebook(
    path: Path, base: Path, earlier_digests: Mapping[str, tuple[str, str]]
) -> PlannedNotebook:
    """Read the notebook at `path`, whose name is relative to `base`.

    `earlier_digests` are the `input_digests` of the batch that is resumed, by the notebook's name.
    They count, because recordings and answers may have changed the files since the first run.

    Raises:
        UsageError: A file cannot be read.
    """
    name = Path(os.path.relpath(path, base)).as_posix()
    notebook = read_notebook(path)

    input_digests = earlier_digests.get(name)
    if input_digests is None:
        input_digests = (
            digest_file(make_default_cassette_path(path)),
            digest_file(path.with_suffix(ANSWERS_SUFFIX)),
        )

    return PlannedNotebook(
        path,
        name,
        content_digest=digest_content(notebook),
        file_digest=digest_file(path),
        input_digests=input_digests,
        parameters=list_parameter_names(notebook),
        has_parameter_cell=has_parameter_cell(notebook),
    )


def digest_content(notebook: Any) -> str:
    """Return the digest of a notebook's cells and metadata, without outputs and counts."""
    cells = [
        {key: cell.get(key) for key in ("cell_type", "source", "metadata", "attachments")}
        for cell in notebook.cells
    ]
    metadata = {key: value for key, value in notebook.metadata.items() if key != "widgets"}
    text = json.dumps([cells, metadata], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def digest_file(path: Path) -> str:
    """Return the digest of a file's bytes; "" if there is no such file."""
    try:
        return hashlib.sha256(read_regular(path, max_bytes=MAX_NOTEBOOK_BYTES)).hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}") from exc
