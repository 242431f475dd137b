"""The kind of front end of a kernel, and the path of its notebook.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.page_refusal import NO_PAGE
from jp_nb.storage import environment

VS_CODE_FILE: Final = "__vsc_ipynb_file__"
"""Variable in which VS Code passes the notebook's path to the kernel.

Source: https://github.com/microsoft/vscode-jupyter/pull/8531
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The kind of front end that a kernel runs in, and the reason why no notebook keeps the record.

    A page with the jp-nb extension keeps it, if it `may_have_page` and one answers.
    """

    name: str
    unsaved_reason: str
    may_have_page: bool = False


TERMINAL: Final = Surroundings("IPython in a terminal", "IPython in a terminal has no notebook")

COLAB: Final = Surroundings(
    "Google Colab",
    "Google Colab does not store conversations in notebooks, and it deletes this machine after "
    "the session (`%jp export DIR` saves a copy)",
)

VS_CODE: Final = Surroundings("VS Code", "VS Code does not store conversations in notebooks")

PLAIN_PAGE: Final = Surroundings("a page without the jp-nb extension", NO_PAGE, may_have_page=True)

CONSOLE: Final = Surroundings("a console or program", "a console or program has no notebook")


def find_surroundings(kernel: Any, user_ns: Mapping[str, Any]) -> Surroundings:
    """Return the kind of front end of `kernel`, which is None in a terminal.

    Call it on the cell's thread.
    """
    if kernel is None:
        return TERMINAL
    if "google.colab" in type(kernel).__module__:
        return COLAB
    if environment.PAGE_VARIABLE in os.environ:
        return PLAIN_PAGE
    if VS_CODE_FILE in user_ns or "VSCODE_PID" in os.environ:
        return VS_CODE if _has_cell_id(kernel) else CONSOLE

    return PLAIN_PAGE if _has_cell_id(kernel) else CONSOLE


def find_notebook_path(user_ns: Mapping[str, Any]) -> Path | None:
    """Return the path of the notebook from VS Code or the Jupyter server, if it is a file."""
    value = user_ns.get(VS_CODE_FILE) or os.environ.get(environment.PAGE_VARIABLE)
    path = Path(value) if isinstance(value, str) else None
    return path if path and path.is_absolute() and path.is_file() else None


def _has_cell_id(kernel: Any) -> bool:
    # Notebooks put the id of the running cell into the metadata of its request; consoles do not.
    parent = kernel.get_parent("shell") if hasattr(kernel, "get_parent") else {}
    metadata = parent.get("metadata") if isinstance(parent, Mapping) else None
    return isinstance(metadata, Mapping) and "cellId" in metadata


PAPERMILL_PATH = "PAPERMILL_INPUT_PATH"
"""Parameter that `papermill --inject-paths` sets in the notebook."""


def is_headless(kernel: Any) -> bool:
    """Return True if the running cell cannot prompt a user: its `allow_stdin` is false."""
    return not getattr(kernel, "_allow_stdin", False)


def find_path_in_page(hello: Hello) -> Path | None:
    """Return the path of the notebook that a page shows, if the kernel can find the file."""
    # Servers start a kernel in the folder of its notebook, and most set JPY_SESSION_NAME.
    if not hello.path:
        return None
    name = hello.path.rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    session = Path(os.environ.get("JPY_SESSION_NAME", ""))
    named = [path for path in (session, Path.cwd() / name) if path.name == name]
    return next((path for path in named if path.is_absolute() and path.is_file()), None)


def find_executed_path(user_ns: Mapping[str, Any] | None = None) -> Path | None:
    """Return the notebook that a headless runner executes, if it can be found."""
    injected = (user_ns or {}).get(PAPERMILL_PATH)
    explicit = os.environ.get(environment.PATH_VARIABLE)
    if not explicit and isinstance(injected, str):
        explicit = injected
    arguments, folder = _read_parent_process()
    if explicit:
        found = folder / explicit
        return found.resolve() if found.is_file() else None

    return find_path_in_arguments(arguments, folder)


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

    papermill's first notebook is its input. `jupyter execute` accepts a name without the suffix.
    """
    names = [
        argument
        for previous, argument in zip(["", *arguments], arguments, strict=False)
        if not argument.startswith("-") and previous not in ("--output", "-o", "--output-dir")
    ]
    programs = {Path(name).name for name in arguments[:3]}
    found = [folder / name for name in names if name.endswith(".ipynb")]
    if not found and "execute" in " ".join(programs):
        found = [(folder / name).with_suffix(".ipynb") for name in names[1:]]

    found = list(dict.fromkeys(path.resolve() for path in found if path.is_file()))
    if len(found) == 1 or (found and "papermill" in " ".join(programs)):
        return found[0]

    return None
