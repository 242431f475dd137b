"""The cell of a notebook that gets parameters, as in papermill.

The author tags one code cell `parameters` and assigns defaults in it. A run with parameters gets a
second cell after it, tagged `injected-parameters`, that assigns the values of this run. A notebook
without a tagged cell gets the new cell at its beginning.

The runner calls `inject_parameters`. Batches check names with `list_parameter_names` before
anything runs.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping
from typing import Any, Final

from nbformat.v4 import new_code_cell
from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.text import one_line

PARAMETERS_TAG: Final = "parameters"
INJECTED_TAG: Final = "injected-parameters"


def is_parameter_name(name: str) -> bool:
    """Return True if Python code can assign `name`."""
    return name.isidentifier() and not keyword.iskeyword(name)


def inject_parameters(notebook: Any, parameters: Mapping[str, JsonValue]) -> None:
    """Add a cell to `notebook` that assigns `parameters`, or replace the one of an earlier run.

    Raises:
        UsageError: Python cannot assign a name, or the notebook has another language.
    """
    _refuse_other_languages(notebook)

    lines = ["# Parameters"]
    for name, value in parameters.items():
        if not is_parameter_name(name):
            shown = one_line(repr(name), limit=80)
            raise UsageError(f"{shown} is not a name of Python: rename the parameter")
        lines.append(f"{name} = {value!r}")

    cell = new_code_cell(source="\n".join(lines), metadata={"tags": [INJECTED_TAG]})
    cell.id = INJECTED_TAG  # not random: equal inputs give equal notebooks
    if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
        del cell["id"]

    earlier = _find_tagged_cell(notebook, INJECTED_TAG)
    defaults = _find_tagged_cell(notebook, PARAMETERS_TAG)
    if earlier is not None:
        notebook.cells[earlier] = cell
    elif defaults is not None:
        notebook.cells.insert(defaults + 1, cell)
    else:
        notebook.cells.insert(0, cell)


def has_parameter_cell(notebook: Any) -> bool:
    """Return True if a code cell of the notebook is tagged `parameters`."""
    return _find_tagged_cell(notebook, PARAMETERS_TAG) is not None


def list_parameter_names(notebook: Any) -> frozenset[str] | None:
    """Return the names that the cell tagged `parameters` assigns.

    None if there is no such cell, or if its code cannot be read, so that any name may be right.
    """
    index = _find_tagged_cell(notebook, PARAMETERS_TAG)
    if index is None:
        return None

    # Magics and shell commands of IPython assign no parameters.
    source = notebook.cells[index].source
    code = "\n".join(line for line in source.splitlines() if not line.startswith(("%", "!")))
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None

    nodes = ast.walk(tree)
    names = (node for node in nodes if isinstance(node, ast.Name))
    return frozenset(node.id for node in names if isinstance(node.ctx, ast.Store))


def _refuse_other_languages(notebook: Any) -> None:
    """Raise a `UsageError` if the metadata names another language than Python."""
    for key, name in (("kernelspec", "language"), ("language_info", "name")):
        described = notebook.metadata.get(key)
        language = described.get(name) if isinstance(described, Mapping) else None
        if isinstance(language, str) and language.lower() not in ("python", "ipython"):
            raise UsageError(
                f"the notebook's language is {one_line(language, limit=40)}, and parameters can "
                "only be assigned in Python: run it without parameters"
            )


def _find_tagged_cell(notebook: Any, tag: str) -> int | None:
    """Return the index of the first code cell with this tag; None without one."""
    for index, cell in enumerate(notebook.cells):
        tags = cell.metadata.get("tags", ())
        if cell.cell_type == "code" and isinstance(tags, list) and tag in tags:
            return index
    return None
