"""Find the file of the notebook that this kernel runs.

VS Code passes its path in a variable of the user's namespace, and the Jupyter server in
`JPY_SESSION_NAME` (`PAGE_VARIABLE`). A page says it in `hello`. A headless runner passes it in
`JP_NB_PATH` (`PATH_VARIABLE`), or has it in its command line. Otherwise the path is unknown: None.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.surroundings import VS_CODE_FILE
from jp_nb.storage import environment

PAPERMILL_PATH = "PAPERMILL_INPUT_PATH"
"""Parameter that `papermill --inject-paths` sets in the notebook."""


def find_notebook_path(user_ns: Mapping[str, Any]) -> Path | None:
    """Return the path of the notebook from VS Code or the Jupyter server, if it is a file."""
    value = user_ns.get(VS_CODE_FILE) or os.environ.get(environment.PAGE_VARIABLE)
    if not isinstance(value, str):
        return None

    path = Path(value)
    return path if path.is_absolute() and path.is_file() else None


def find_path_in_page(hello: Hello) -> Path | None:
    """Return the path of the notebook that a page shows, if the kernel can find the file."""
    if not hello.path:
        return None

    # Without the folders of the server, and the name of a drive, such as `RTC:`.
    name = hello.path.rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    # The page may have been renamed since the server has set the variable: then the names differ.
    # All servers start a kernel in the folder of its notebook, also those that set no variable.
    session = Path(os.environ.get(environment.PAGE_VARIABLE, ""))
    candidates = [path for path in (session, Path.cwd() / name) if path.name == name]
    return next((path for path in candidates if path.is_absolute() and path.is_file()), None)


def find_executed_path(user_ns: Mapping[str, Any] | None = None) -> Path | None:
    """Return the notebook that a headless runner executes, if it can be found.

    The variable of the environment comes first, then papermill's, then the runner's command line.
    """
    arguments, folder = _read_parent_process()
    injected = (user_ns or {}).get(PAPERMILL_PATH)
    name = os.environ.get(environment.PATH_VARIABLE)
    if not name and isinstance(injected, str):
        name = injected

    if not name:
        return find_path_in_arguments(arguments, folder)

    path = folder / name  # papermill's path may be relative to the folder in which it was started
    return path.resolve() if path.is_file() else None


def _read_parent_process() -> tuple[Sequence[str], Path]:
    """Return the arguments and working directory of the process that started this kernel."""
    try:
        import psutil  # a dependency of ipykernel

        parent = psutil.Process(os.getppid())
        return parent.cmdline(), Path(parent.cwd())
    except Exception:  # missing, or one of many errors of the operating system
        return [], Path.cwd()


def find_path_in_arguments(arguments: Sequence[str], folder: Path) -> Path | None:
    """Return the notebook in a runner's command line; None if there are none or several.

    A runner may execute several notebooks one after the other. But papermill has one input, which
    comes first, and then its output. `jupyter execute` accepts a name without the suffix.
    """
    # The words that are neither options nor the value of an option for an output.
    names = [
        argument
        for previous, argument in zip(["", *arguments], arguments, strict=False)
        if not argument.startswith("-") and previous not in ("--output", "-o", "--output-dir")
    ]
    # The first words name the runner: `python -m papermill …`, or `jupyter execute …`.
    program = " ".join(Path(name).name for name in arguments[:3])
    paths = [folder / name for name in names if name.endswith(".ipynb")]
    if not paths and "execute" in program:
        # The first name is the runner itself. Of the other words, only files count (below).
        paths = [(folder / name).with_suffix(".ipynb") for name in names[1:]]

    files = list(dict.fromkeys(path.resolve() for path in paths if path.is_file()))
    if len(files) == 1 or (files and "papermill" in program):
        return files[0]
    return None
