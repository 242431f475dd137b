"""Finds out where this kernel runs: in an open page, in a headless run, or in no notebook.

Done once, at `%load_ext`.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jp_nb.notebook.document.homes import HeadlessHome, NoHome, PageHome
from jp_nb.notebook.document.live import LiveStore
from jp_nb.notebook.document.places import notebook_path, place_of
from jp_nb.notebook.document.wire import Hello
from jp_nb.workspace import variables

PAGE_TIMEOUT_S = 3.0
CONSOLE_TIMEOUT_S = 0.5
PAPERMILL_PATH = "PAPERMILL_INPUT_PATH"
"""The parameter that `papermill --inject-paths` sets in the notebook."""


def find(shell: Any, *, timeout: float | None = None) -> PageHome | HeadlessHome | NoHome:
    """Find out where the shell's kernel runs: takes up to `timeout` seconds if no page answers.

    Call it in the cell's thread.
    """
    kernel, user_ns = getattr(shell, "kernel", None), getattr(shell, "user_ns", {})
    if kernel is None:
        return NoHome()
    if is_headless(kernel):
        return HeadlessHome(find_path(user_ns), shell)
    place = place_of(kernel, user_ns)
    if timeout is None:
        timeout = PAGE_TIMEOUT_S if place.may_have_page else CONSOLE_TIMEOUT_S
    store = LiveStore(kernel, no_page=place.why_not)
    hello = store.connect(timeout)
    path = notebook_path(user_ns) if hello is None else _live_path(hello)
    return PageHome(path, store, hello)


def is_headless(kernel: Any) -> bool:
    """Return whether nobody can be asked in the running cell: its `allow_stdin` is false."""
    return not getattr(kernel, "_allow_stdin", False)


def _live_path(hello: Hello | None) -> Path | None:
    """Return the file of the notebook that a page shows: servers run kernels in its folder."""
    if hello is None or not hello.path:
        return None
    name = hello.path.rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    session = Path(os.environ.get("JPY_SESSION_NAME", ""))
    for candidate in (session, Path.cwd() / name):
        if candidate.name == name and candidate.is_absolute() and candidate.is_file():
            return candidate
    return None


def find_path(user_ns: Mapping[str, Any] | None = None) -> Path | None:
    """Return the notebook that a headless runner executes, if anything tells it."""
    injected = (user_ns or {}).get(PAPERMILL_PATH)
    explicit = os.environ.get(variables.PATH) or (injected if isinstance(injected, str) else "")
    arguments, folder = _parent()
    if explicit:
        found = folder / explicit
        return found.resolve() if found.is_file() else None
    return path_in(arguments, folder)


def _parent() -> tuple[Sequence[str], Path]:
    """Return arguments and working directory of the process that started this kernel."""
    try:
        import psutil  # ipykernel brings it

        parent = psutil.Process(os.getppid())
        return parent.cmdline(), Path(parent.cwd())
    except Exception:  # missing, or the system says no: in many ways
        return [], Path.cwd()


def path_in(arguments: Sequence[str], folder: Path) -> Path | None:
    """Return the one notebook that a runner's command line names; None: it names none or several.

    papermill names its input first; `jupyter execute` lets the suffix be left out.
    """
    names = list(_positional(arguments))
    programs = {Path(name).name for name in arguments[:3]}
    found = [folder / name for name in names if name.endswith(".ipynb")]
    if not found and "execute" in " ".join(programs):
        found = [(folder / name).with_suffix(".ipynb") for name in names[1:]]
    found = list(dict.fromkeys(path.resolve() for path in found if path.is_file()))
    if len(found) == 1 or (found and "papermill" in " ".join(programs)):
        return found[0]
    return None


def _positional(arguments: Sequence[str]) -> list[str]:
    """Return `arguments` without options and without what `--output` and `-o` name."""
    pairs = zip(["", *arguments], arguments, strict=False)
    return [
        now
        for before, now in pairs
        if not now.startswith("-") and before not in ("--output", "-o", "--output-dir")
    ]
