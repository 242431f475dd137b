"""The magics `%%jp` and `%jp`, and their completion with Tab.

`extension.py` registers them when the extension is loaded.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from IPython.core.completer import context_matcher
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand

from jp_nb.notebook.magic_help import format_ask_help, format_subcommands_help
from jp_nb.session import get_session
from jp_nb.session.session import Session


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
