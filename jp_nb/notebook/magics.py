"""The magics `%%jp` and `%jp`, and loading of the extension.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from IPython.core.completer import context_matcher
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand

from jp_nb.errors import JpNbError, UsageError
from jp_nb.notebook.host import NotebookHost
from jp_nb.notebook.magic_help import format_ask_help, format_subcommands_help
from jp_nb.notebook.question_marks import keep_question_marks
from jp_nb.session import get_session, set_current
from jp_nb.session.session import Session
from jp_nb.text import one_line

_SHELL_ATTRIBUTE = "_jp_nb_session"
"""Attribute of the shell that keeps the session while the extension is unloaded."""
_INTERRUPTS = (KeyboardInterrupt, asyncio.CancelledError)  # the latter of a cell with `await`


@magics_class
class JpMagics(Magics):
    """The magics `%%jp` and `%jp` of a session."""

    def __init__(self, shell: Any, session: Session) -> None:
        super().__init__(shell)
        self._shell = shell
        self._session = session

    @no_var_expand
    @cell_magic("jp")  # type: ignore[arg-type]  # IPython's own annotation
    def ask(self, line: str, cell: str) -> None:
        """Run `%%jp [options]`. The cell body is the request."""
        from jp_nb.notebook.commands.ask_commands import send_request  # not loaded by `%load_ext`

        with self._session.report_errors():
            send_request(self._shell, self._session, line, cell)

    @no_var_expand
    @line_magic("jp")  # type: ignore[arg-type]
    def command(self, line: str) -> None:
        """Run `%jp SUBCOMMAND`. Without a subcommand, list all."""
        from jp_nb.notebook.commands import run_subcommand

        name, rest = [*line.split(maxsplit=1), "", ""][:2]
        with self._session.report_errors():
            run = partial(run_subcommand, self._shell, self._session, name, rest.strip())
            # At once, also while a turn of another thread runs. If none runs, no turn starts before
            # the subcommand ends.
            self._session.active.line.run_command(run)


JpMagics.ask.__doc__ = format_ask_help()  # type: ignore[assignment]
JpMagics.command.__doc__ = format_subcommands_help()  # type: ignore[assignment]


@context_matcher(identifier="jp_nb")  # type: ignore[untyped-decorator]  # it has no annotations
def complete_magic(context: Any) -> Any:
    """Return IPython's completions for the magics."""
    if "%jp" not in context.full_text:
        return {"completions": []}
    from jp_nb.notebook.completion.magic_completion import match_completions

    return match_completions(get_session(), context)


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
