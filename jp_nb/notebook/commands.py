"""What `%jp SUBCOMMAND` does.

Source: `design/interface.md` section 2.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable
from typing import Any

from jp_nb.config.assign import require
from jp_nb.config.layers import set_by, to_text
from jp_nb.config.partial import at, leaves
from jp_nb.errors import UsageError
from jp_nb.notebook import report
from jp_nb.notebook.session import Session

NAMES = ("q", "config", "tools", "log", "new", "save", "doctor")


class Commands:
    """The subcommands but for `q`, which asks."""

    def __init__(self, shell: Any, session: Session) -> None:
        self._shell = shell
        self._session = session

    def run(self, name: str, rest: str) -> None:
        """Run subcommand `name` with the `rest` of the line; without a name list them.

        Raises:
            UsageError: If there is no such subcommand; the message offers the nearest.
        """
        commands: dict[str, Callable[[str], None]] = {
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
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean `%jp {near[0]}`? " if near else ""
            raise UsageError(
                f"there is no `%jp {name}`: {hint}A request is written below `%%jp`, or in one "
                "line after `%jp q`; `%jp` alone lists what there is"
            )
        commands[name](rest)

    def _config(self, rest: str) -> None:
        words = split(rest)
        assignments = [word for word in words if "=" in word or word.startswith("{")]
        if assignments and len(assignments) < len(words):
            other = next(word for word in words if word not in assignments)
            raise UsageError(f"%jp config takes paths or PATH=VALUE, not both: {other!r}")
        if assignments:
            self._session.settings.change(*assignments)
            return
        rows = [self._setting(path) for path in words] if words else self._all_settings()
        report.show(self._shell, report.table(("path", "value", "set by"), rows))

    def _setting(self, path: str) -> tuple[str, str, str]:
        require(path)
        value = at(self._session.config.model_dump(mode="json", exclude_none=True), path)
        sources = set_by(self._session.settings.projection.layers(), path)
        return path, to_text(value), sources[-1][0] if sources else "default"

    def _all_settings(self) -> list[tuple[str, str, str]]:
        layers = [
            x for x in self._session.settings.projection.layers() if x.name != "registrations"
        ]
        paths = sorted({path for layer in layers for path, _ in leaves(layer.partial)})
        return [(p, to_text(s[-1][1]), s[-1][0]) for p in paths if (s := set_by(layers, p))]

    def _tools(self, rest: str) -> None:
        report.show(self._shell, report.tools(self._session.config, self._session.turns.offer))

    def _log(self, rest: str) -> None:
        if rest and not (rest.isdecimal() and int(rest)):
            raise UsageError(f"%jp log takes a number of turns, found {rest!r}")
        turns = self._session.log()
        shown = turns[-int(rest) :] if rest else turns
        report.show(self._shell, report.log(self._session.document, shown))

    def _new(self, rest: str) -> None:
        if rest:
            raise UsageError(f"%jp new takes nothing, found {rest!r}")
        self._session.new_conversation()
        print(f"jp_nb: {report.plain_text(self._session.summary())}")

    def _save(self, rest: str) -> None:
        if rest:
            raise UsageError("%jp save takes nothing: the record is saved with the notebook")
        print(f"jp_nb: {report.plain_text(self._session.store.save())}")

    def _doctor(self, rest: str) -> None:
        from jp_nb.notebook.doctor import examine

        report.show(self._shell, report.table(("what", "finding"), examine(self._session)))


def split(line: str) -> list[str]:
    """The words of a magic's line, quoted as in a shell.

    Raises:
        UsageError: If a quote is not closed.
    """
    try:
        return shlex.split(line)
    except ValueError as exc:
        raise UsageError(f"{line.strip()!r} is not quoted as in a shell: {exc}") from exc
