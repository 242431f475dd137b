"""Load and unload the IPython extension: its magics, its session, and its hooks in the shell.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from jp_nb.errors import JpNbError, UsageError
from jp_nb.notebook.host import NotebookHost
from jp_nb.notebook.magics import JpMagics, complete_magic
from jp_nb.notebook.question_marks import keep_question_marks
from jp_nb.session import get_session, set_current
from jp_nb.session.session import Session
from jp_nb.text import one_line

_SHELL_ATTRIBUTE = "_jp_nb_session"
"""Attribute of the shell that keeps the session while the extension is unloaded."""

_INTERRUPTS = (KeyboardInterrupt, asyncio.CancelledError)  # the latter of a cell with `await`


def load(shell: Any, *, version: str) -> None:
    """Register the magics on `shell`, and print the `version` and the state of the session.

    If a page replies, `close_to_reopen` closes the session of an earlier load, and a new session
    reads the record from the page again. Otherwise the earlier session continues.
    """
    previous: Session | None = getattr(shell, _SHELL_ATTRIBUTE, None)
    _refuse_in_turn(previous)
    if previous is None or previous.close_to_reopen():
        session = _open_session(shell, previous)
    else:
        session = previous

    set_current(session)
    magics = JpMagics(shell, session)
    shell.register_magics(magics)
    # IPython would show help for a line with `?` at its end, such as `%jp q Why?`.
    if keep_question_marks not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(keep_question_marks)

    if complete_magic not in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.append(complete_magic)

    for event, callback in _iter_callbacks(session):
        shell.events.register(event, callback)

    print(f"jp_nb {version} · {one_line(session.format_status())}")
    session.print_notices(*session.store.take_notices())


def _open_session(shell: Any, previous: Session | None) -> Session:
    """Return a new session of `shell`, which replaces the `previous` one."""
    setattr(shell, _SHELL_ATTRIBUTE, None)  # if `Session` fails, the next load starts again
    host = NotebookHost(shell)

    try:
        session = Session(host, previous=previous)
    except JpNbError as exc:
        host.show_in_one_line(exc)
        raise

    setattr(shell, _SHELL_ATTRIBUTE, session)
    atexit.register(session.close)
    return session


def _refuse_in_turn(session: Session | None) -> None:
    """Raise `UsageError` if a turn runs, so that no tool or code of the model can reload jp_nb."""
    if session is None or not session.active.is_running:
        return

    error = UsageError(
        "the extension cannot be loaded or unloaded while a turn or a tool runs, because the turn "
        "needs it. Run this in a separate cell, after the turn"
    )
    session.host.show_in_one_line(error)
    raise error


def _iter_callbacks(session: Session | None) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Yield the functions that IPython calls, each with the name of its event."""
    yield "post_run_cell", _on_cell_end
    if session is not None and isinstance(host := session.host, NotebookHost):
        yield "post_run_cell", host.errors.on_cell_end
        yield "pre_run_cell", host.executed_cells.on_cell_start
        yield "post_run_cell", host.executed_cells.on_cell_end


def _on_cell_end(result: Any = None) -> None:
    """Print notices, for example about tools that the cell defined, and store the record."""
    if (session := get_session()) is not None:
        if isinstance(getattr(result, "error_in_exec", None), _INTERRUPTS):
            session.interrupt_threads()  # their turns, as the user expects of the stop button
        session.print_notices()
        with suppress(KeyboardInterrupt):  # it ends only the wait; the record is stored later
            session.store.flush_after_cell()


def unload(shell: Any) -> None:
    """Remove the magics. The shell keeps the session for the next load.

    Raises:
        UsageError: A turn runs.
    """
    session = get_session()
    _refuse_in_turn(session)
    set_current(None)

    for event, callback in _iter_callbacks(session):
        if callback in shell.events.callbacks[event]:
            shell.events.unregister(event, callback)

    if keep_question_marks in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(keep_question_marks)

    if complete_magic in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(complete_magic)

    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("jp", None)
