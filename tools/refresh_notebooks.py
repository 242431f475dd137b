"""Execute the tutorials and store their outputs, without records and timings.

python -m tools.refresh_notebooks
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat

from jp_nb.headless.runner import run_notebook

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


def refresh(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = run_notebook(path, out=Path(folder) / path.name)
    if result.failure is not None:
        raise SystemExit(f"{path.name}: {result.failure}")
    executed = result.notebook
    for name in ("jp", "widgets"):
        executed.metadata.pop(name, None)
    executed.metadata.language_info = {"name": "python"}
    for cell in executed.cells:
        cell.metadata.pop("execution", None)
    nbformat.validate(executed)
    nbformat.write(executed, path)


if __name__ == "__main__":
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        refresh(notebook)
