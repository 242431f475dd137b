"""`%%jp`, `%jp` and loading the extension.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import atexit
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from IPython.core.completer import context_matcher
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand

from jp_nb.errors import JpNbError
from jp_nb.notebook.host import NotebookHost
from jp_nb.notebook.subcommands import help_on_ask, help_on_commands
from jp_nb.session.current import current, set_current
from jp_nb.session.session import Session
from jp_nb.text import one_line

_Magic = TypeVar("_Magic", bound=Callable[..., None])
_KEPT = "_jp_nb_session"
"""Attribute of the shell that keeps the session while the extension is unloaded."""


def _documented(text: str) -> Callable[[_Magic], _Magic]:
    """Return a decorator that has `?` show `text`."""

    def decorate(magic: _Magic) -> _Magic:
        magic.__doc__ = text
        return magic

    return decorate


@magics_class
class JpMagics(Magics):
    """The two magics, over one session."""

    def __init__(self, shell: Any, session: Session) -> None:
        super().__init__(shell)
        self._shell = shell
        self._session = session

    @no_var_expand
    @cell_magic("jp")  # type: ignore[arg-type]  # IPython's own annotation
    @_documented(help_on_ask())
    def ask(self, line: str, cell: str) -> None:
        """Ask the model: `%%jp [options]` and the request below."""
        from jp_nb.notebook import commands  # not before something is asked

        with self._session.guarded():
            commands.ask(self._shell, self._session, line, cell)

    @no_var_expand
    @line_magic("jp")  # type: ignore[arg-type]
    @_documented(help_on_commands())
    def command(self, line: str) -> None:
        """`%jp SUBCOMMAND`; bare, it lists them."""
        from jp_nb.notebook import commands

        name, rest = [*line.split(maxsplit=1), "", ""][:2]
        with self._session.guarded():
            commands.run_subcommand(self._shell, self._session, name, rest.strip())


def keep_question_marks(lines: list[str]) -> list[str]:
    """Have `%jp q TEXT?` ask TEXT, where IPython would look up its last word.

    Source: https://ipython.readthedocs.io/en/stable/config/inputtransforms.html
    """
    if (lines and lines[0].startswith("%%")) or not any(map(_QUESTION.match, lines)):
        return lines
    kept: list[str] = []
    python: list[str] = []  # the same without escapes, in which quotes mean nothing
    for line in lines:
        text = line.lstrip()
        escaped = text.startswith(("%", "!", "?")) and not _inside("".join(python))
        found = _QUESTION.match(line) if escaped else None
        kept.append(
            f"{found[1]}get_ipython().run_line_magic('jp', {found[2]!r})\n" if found else line
        )
        python.append(f"{line[: len(line) - len(text)]}pass\n" if escaped else line)
    return kept


_QUESTION = re.compile(r"([ \t]*)%jp[ \t]+(\S.*\?)\s*$")


def _inside(code: str) -> bool:
    """Return True if `code` ends in a text of several lines, in brackets, or before the end."""
    try:
        for _ in tokenize.generate_tokens(io.StringIO(code).readline):
            pass
    except tokenize.TokenError as exc:
        return any(word in str(exc) for word in ("multi-line", "triple-quoted", "unexpected EOF"))
    except SyntaxError:  # Python will say so
        return False
    return False


@context_matcher(identifier="jp_nb")  # type: ignore[untyped-decorator]  # it has no annotations
def complete(context: Any) -> Any:
    """Return what Tab offers in our magics. Nothing of it is loaded before the first Tab in one."""
    if "%jp" not in context.full_text:
        return {"completions": []}
    from jp_nb.notebook.completion import matches

    return matches(current(), context)


def load(shell: Any, *, version: str) -> None:
    """Register the magics on `shell`, and say the `version`.

    A session that was unloaded before goes on.
    """
    previous: Session | None = getattr(shell, _KEPT, None)
    session = previous
    if session is None or session.should_reopen():
        setattr(shell, _KEPT, None)  # whatever was there is closed now
        host = NotebookHost(shell)
        try:
            session = Session(host, previous=previous)
        except JpNbError as exc:
            host.show_in_one_line(exc)
            raise
        setattr(shell, _KEPT, session)
        atexit.register(session.close)
    set_current(session)
    magics = JpMagics(shell, session)
    shell.register_magics(magics)
    if keep_question_marks not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(keep_question_marks)
    if complete not in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.append(complete)
    shell.events.register("post_run_cell", _after_a_cell)
    for event, callback in _watching(session):
        shell.events.register(event, callback)
    print(f"jp_nb {version} · {one_line(session.summary())}")
    session.say_notices(*session.store.take_notices())


def _watching(session: Session | None) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Yield what the host of `session` wants to know of each cell, by IPython's names of events."""
    if session is not None and isinstance(host := session.host, NotebookHost):
        yield "post_run_cell", host.errors.after_cell
        yield "pre_run_cell", host.ran_cells.cell_begins
        yield "post_run_cell", host.ran_cells.cell_ended


def _after_a_cell(_: object = None) -> None:
    """Say what there is to say of tools that the cell defined, and end it with its record kept."""
    if (session := current()) is not None:
        session.say_notices()
        with suppress(KeyboardInterrupt):  # it ends the wait; nothing gets lost
            session.store.cell_ends()


def unload(shell: Any) -> None:
    """Take the magics away; the conversation is kept for the next load."""
    session = current()
    set_current(None)
    for event, callback in _watching(session):
        if callback in shell.events.callbacks[event]:
            shell.events.unregister(event, callback)
    if _after_a_cell in shell.events.callbacks["post_run_cell"]:
        shell.events.unregister("post_run_cell", _after_a_cell)
    if keep_question_marks in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(keep_question_marks)
    if complete in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(complete)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("jp", None)
