"""`%%jp`, `%jp` and loading the extension.

Source: `design/interface.md` sections 2 and 3.
"""

from __future__ import annotations

import argparse
import atexit
import difflib
import shlex
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand

import jp_nb
from jp_nb.config.assign import require
from jp_nb.config.layers import set_by, to_text
from jp_nb.config.partial import at, leaves
from jp_nb.errors import JpNbError, UsageError
from jp_nb.notebook import report
from jp_nb.notebook.session import Session

USAGE = "%%jp [-m MODEL] [-c PATH=VALUE]… [-n] [-o NAME] [--strict]   and the request below"


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. Usage: {USAGE}")


def _ask_parser() -> _Parser:
    parser = _Parser(prog="%%jp", add_help=False, allow_abbrev=False)
    parser.add_argument("-m", "--model", metavar="ID", help="model for this and later turns")
    parser.add_argument(
        "-c", "--cfg", metavar="X", action="append", default=[], help="change the configuration"
    )
    parser.add_argument("-n", "--new", action="store_true", help="start a new conversation")
    parser.add_argument("-o", "--out", metavar="NAME", help="also bind the result to NAME")
    parser.add_argument(
        "--strict", action="store_true", help="fail the cell if nobody can answer a question"
    )
    return parser


@magics_class
class JpMagics(Magics):
    """The two magics, over one session."""

    def __init__(self, shell: Any, session: Session) -> None:
        super().__init__(shell)
        self._shell = shell
        self.session = session
        self._parser = _ask_parser()

    @no_var_expand
    @cell_magic("jp")  # type: ignore[arg-type]  # IPython's own annotation
    def ask(self, line: str, cell: str) -> None:
        """Ask the model: `%%jp [options]` and the request below."""
        self._guarded(lambda: self._ask(line, cell))

    @no_var_expand
    @line_magic("jp")  # type: ignore[arg-type]
    def command(self, line: str) -> None:
        """`%jp SUBCOMMAND`; bare, it lists them."""
        self._guarded(lambda: self._command(line))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (JpNbError, KeyboardInterrupt) as exc:
            # IPython asks an exception for its own rendering before it makes one.
            vars(exc)["_render_traceback_"] = partial(self._render, exc)
            raise
        finally:
            self._say_notices()

    def _render(self, exc: BaseException) -> list[str]:
        """One line instead of our own traceback, unless the user wants it all."""
        if getattr(self._shell.InteractiveTB, "mode", "") == "Verbose":
            found = self._shell.InteractiveTB.structured_traceback(
                type(exc), exc, exc.__traceback__
            )
            return list(found)
        if isinstance(exc, KeyboardInterrupt):
            return ["Interrupted. What arrived so far is in the record."]
        return [f"{type(exc).__name__}: {report.plain_text(str(exc))}"]

    def _say_notices(self) -> None:
        notices, self.session.notices = self.session.notices, []
        for notice in [*notices, *self.session.store.take_notices()]:
            print(f"jp_nb: {report.plain_text(notice)}")

    def _ask(self, line: str, cell: str) -> None:
        options = self._parser.parse_args(split(line))
        if options.out is not None and not options.out.isidentifier():
            raise UsageError(f"-o takes a name, {options.out!r} is none")
        before = self.session.last
        try:
            self.session.ask(
                cell,
                model=options.model,
                assignments=options.cfg,
                new=options.new,
                strict=options.strict,
            )
        finally:
            turn = self.session.last
            if turn is not None and turn is not before:
                self._shell.user_ns["_jp"] = turn
                if options.out is not None:
                    self._shell.user_ns[options.out] = turn

    def _command(self, line: str) -> None:
        name, _, rest = line.strip().partition(" ")
        commands: dict[str, Callable[[str], None]] = {
            "q": self._q,
            "config": self._config,
            "tools": self._tools,
            "log": self._log,
            "new": self._new,
            "save": self._save,
            "doctor": self._doctor,
        }
        if not name:
            report.show(self._shell, report.subcommands())
            return
        if name not in commands:
            near = difflib.get_close_matches(name, commands, n=1)
            hint = f"did you mean `%jp {near[0]}`? " if near else ""
            raise UsageError(
                f"there is no `%jp {name}`: {hint}A request is written below `%%jp`, or in one "
                "line after `%jp q`; `%jp` alone lists what there is"
            )
        commands[name](rest.strip())

    # --- subcommands -------------------------------------------------------------------------

    def _q(self, rest: str) -> None:
        if not rest:
            raise UsageError("there is nothing to ask: %jp q TEXT")
        self._ask("", rest)

    def _config(self, rest: str) -> None:
        words = split(rest)
        assignments = [word for word in words if "=" in word or word.startswith("{")]
        if assignments and len(assignments) < len(words):
            other = next(word for word in words if word not in assignments)
            raise UsageError(f"%jp config takes paths or PATH=VALUE, not both: {other!r}")
        if assignments:
            self.session.configure(*assignments)
            return
        rows = [self._setting(path) for path in words] if words else self._all_settings()
        report.show(self._shell, report.table(("path", "value", "set by"), rows))

    def _setting(self, path: str) -> tuple[str, str, str]:
        require(path)
        value = at(self.session.config.model_dump(mode="json", exclude_none=True), path)
        sources = set_by(self.session.projection.layers(), path)
        return path, to_text(value), sources[-1][0] if sources else "default"

    def _all_settings(self) -> list[tuple[str, str, str]]:
        layers = [x for x in self.session.projection.layers() if x.name != "registrations"]
        paths = sorted({path for layer in layers for path, _ in leaves(layer.partial)})
        return [(p, to_text(s[-1][1]), s[-1][0]) for p in paths if (s := set_by(layers, p))]

    def _tools(self, rest: str) -> None:
        report.show(self._shell, report.tools(self.session.config, self.session.offer))

    def _log(self, rest: str) -> None:
        if rest and not (rest.isdigit() and int(rest)):
            raise UsageError(f"%jp log takes a number of turns, found {rest!r}")
        turns = self.session.turns()
        shown = turns[-int(rest) :] if rest else turns
        report.show(self._shell, report.log(self.session.document, shown))

    def _new(self, rest: str) -> None:
        if rest:
            raise UsageError(f"%jp new takes nothing, found {rest!r}")
        self.session.new_conversation()
        print(f"jp_nb: {load_line(self.session)}")

    def _save(self, rest: str) -> None:
        if rest:
            raise UsageError("%jp save takes nothing: the record is saved with the notebook")
        print(f"jp_nb: {report.plain_text(self.session.store.save())}")

    def _doctor(self, rest: str) -> None:
        from jp_nb.notebook.doctor import examine

        report.show(self._shell, report.table(("what", "finding"), examine(self.session)))


def split(line: str) -> list[str]:
    """The words of a magic's line, quoted as in a shell.

    Raises:
        UsageError: If a quote is not closed.
    """
    try:
        return shlex.split(line)
    except ValueError as exc:
        raise UsageError(f"{line.strip()!r} is not quoted as in a shell: {exc}") from exc


def load_line(session: Session) -> str:
    """Model, conversation, and where the record is kept."""
    model = session.config.assistant.model.id
    turns = session.document.conversation.turn_count
    conversation = "new conversation"
    if session.restored and turns:
        conversation = f"conversation restored ({turns} turn{'' if turns == 1 else 's'})"
    return f"model {model} · {conversation} · {session.store.where}"


def load(shell: Any) -> None:
    """Register the magics on `shell`; a session that was unloaded before goes on."""
    session = getattr(shell, "_jp_nb_session", None)
    if session is None:
        session = Session(shell)
        shell._jp_nb_session = session
        atexit.register(session.close)
    jp_nb._session = session
    magics = JpMagics(shell, session)
    shell.register_magics(magics)
    print(f"jp_nb {jp_nb.__version__} · {report.plain_text(load_line(session))}")
    magics._say_notices()


def unload(shell: Any) -> None:
    """Take the magics away; the conversation is kept for the next load."""
    jp_nb._session = None
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("jp", None)
