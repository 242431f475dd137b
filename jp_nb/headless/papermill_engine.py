"""papermill engine that stores the record: `papermill --engine jp in.ipynb out.ipynb`.

`import papermill` loads the engines of all installed packages, and registers this one as `jp`. So
the module must not import papermill itself, or an import of it before papermill would be circular.
It loads papermill and the runner (`papermill_client.py`) only for a run with this engine.

Source: https://papermill.readthedocs.io/en/latest/extending-entry-points.html.
"""

from __future__ import annotations

from typing import Any


class JpEngine:
    """Engine for papermill. It has the methods that papermill calls of a registered engine."""

    @classmethod
    def execute_notebook(cls, nb: Any, kernel_name: str, **options: Any) -> Any:
        """Execute the notebook as papermill's own engine does, and keep the record."""
        from jp_nb.headless.papermill_client import RecordingEngine

        return RecordingEngine.execute_notebook(nb, kernel_name, **options)

    @classmethod
    def nb_kernel_name(cls, nb: Any, name: str | None = None) -> Any:
        """Return `name`, or else the name of the kernel in the notebook's metadata."""
        from papermill.utils import nb_kernel_name

        return nb_kernel_name(nb, name)

    @classmethod
    def nb_language(cls, nb: Any, language: str | None = None) -> Any:
        """Return `language`, or else the language in the notebook's metadata."""
        from papermill.utils import nb_language

        return nb_language(nb, language)
