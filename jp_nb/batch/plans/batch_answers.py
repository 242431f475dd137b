"""Read the answers files of a batch, so that an error in one precedes all runs.

Source: `docs/many-notebooks.md`, `docs/answers.md`.
"""

from __future__ import annotations

from pathlib import Path

from jp_nb.batch.results.run_log import LOG_NAME
from jp_nb.errors import ConfigError, UsageError
from jp_nb.storage.configuration.answers_content import AnswersFile
from jp_nb.storage.configuration.answers_file import read_answers_file
from jp_nb.text import one_line


def read_batch_answers(path: Path) -> AnswersFile:
    """Read the answers file at `path`.

    Raises:
        UsageError: There is no such file, or it is not an answers file.
    """
    shown = one_line(str(path))
    if not path.exists():
        text = f"there is no answers file {shown}"
        if (path.parent / LOG_NAME).is_file():
            text += f". `jp-nb inbox {one_line(str(path.parent))}` writes the answers of this batch"
        raise UsageError(text)

    try:
        return read_answers_file(path)
    except ConfigError as exc:
        problem = str(exc.problems[0]) if exc.kind == "malformed" else f"is not used: {exc}"
        raise UsageError(f"the answers file {shown} {problem}. Nothing was run") from exc
