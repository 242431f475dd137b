"""What `%jp SUBCOMMAND` does.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

from jp_nb.config.assignments import is_assignment
from jp_nb.config.directives import Collect, Directive, add_options
from jp_nb.config.layers import to_text
from jp_nb.config.masking import masked
from jp_nb.config.partial import get_path
from jp_nb.config.paths import parse_path
from jp_nb.errors import ConfigError, PromptCancelled, UsageError
from jp_nb.notebook.options import OptionParser
from jp_nb.notebook.usage import rows_of
from jp_nb.record.projection import BASE, CONVERSATION, NOT_FOLLOWED, Provenance
from jp_nb.rendering import report, tool_report
from jp_nb.safe_text import escape_unseen, one_line, spell_unseen
from jp_nb.session.session import Session

MAX_LINE = 5000
"""Of a line about folders: their names may be long."""

DEFAULT_TURNS = 10
"""So many `%jp log` shows."""

MAX_DIGITS = 10
"""Of a number of turns."""


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
            "fork": self._fork,
            "undo": self._undo,
            "switch": self._switch,
            "drop": self._drop,
            "save": self._save,
            "export": self._export,
            "import": self._import,
            "trust": self._trust,
            "doctor": self._doctor,
        }
        asked = name.rstrip("?")
        if not asked:
            report.show(self._shell, report.subcommands())
            return
        if asked != name and asked in ("q", *commands) and not rest:  # `%jp config?`
            report.show(self._shell, report.subcommands(rows_of(asked)))
            return
        if name not in commands:
            raise UsageError(_unknown(name, rest, ["q", *commands]))
        commands[name](rest)

    # --- configuration -----------------------------------------------------------------------

    def _config(self, rest: str) -> None:
        options = OPTIONS["config"].parse_intermixed_args(list(_in_order(split(rest))))
        changes: list[Directive] = options.directives
        paths: list[str] = options.words
        if changes and (paths or options.explain):
            raise UsageError(
                f"%jp config shows or changes, not both at once: {(paths or options.explain)[0]!r}"
            )
        where: Literal["user", "workspace"] | None = options.where
        if where is not None:
            if not changes:
                raise UsageError(f"--{where} takes what to write: PATH=VALUE, or --unset PATH")
            self._session.write_config(where, *changes)
        elif changes:
            self._session.configure(*changes)
        elif options.explain:
            self._explain([*options.explain, *paths])
        else:
            self._show(paths or self._session.settings.set_paths())

    def _show(self, paths: Sequence[str]) -> None:
        said, value_at = self._session.settings.explain(paths), self._values()
        rows = [
            (
                path,
                value_at(path),
                _who(decider, path) if (decider := _decider(said[path])) else "default",
            )
            for path in paths
        ]
        report.show(self._shell, report.table(("path", "value", "set by"), rows))

    def _explain(self, paths: Sequence[str]) -> None:
        rows: list[tuple[str, str, str]] = []
        value_at = self._values()
        for path, said in self._session.settings.explain(paths).items():
            rows += [
                (path, _who(x, path), "taken back" if x.taken_back else _shown(path, x.value))
                for x in said
            ]
            rows.append((path, "in force", value_at(path)))
        report.show(self._shell, report.table(("path", "says", "value"), rows))

    def _values(self) -> Callable[[str], str]:
        """What is in force at a path, in words, also while the whole is not valid."""
        try:
            config = self._session.config.model_dump(mode="json", exclude_none=True, by_alias=True)
        except ConfigError as exc:
            partial = self._session.settings.readable_partial()
            print(f"jp_nb: this configuration is not valid: {report.plain_text(str(exc))}")
            return lambda path: f"{_shown(path, get_path(partial, path))} (not valid as a whole)"
        return lambda path: to_text(masked(get_path(config, path), parse_path(path)))

    def _tools(self, rest: str) -> None:
        config, offer = self._session.config, self._session.turns.resolver.offer
        if not rest.strip():
            report.show(self._shell, tool_report.tools(config, offer))
        else:
            name = _one("tools", "the name of one tool", rest)
            report.show(self._shell, tool_report.tool(name, config, offer))

    def _log(self, rest: str) -> None:
        if rest and not (rest.isdecimal() and len(rest) < MAX_DIGITS and int(rest)):
            raise UsageError(f"%jp log takes a number of turns, found {rest!r}")
        total = self._session.document.conversation.turn_count
        turns = self._session.log(int(rest) if rest else DEFAULT_TURNS)
        shown = report.log(
            self._session.document, turns, total=total, image_hosts=self._image_hosts()
        )
        report.show(self._shell, shown)

    def _image_hosts(self) -> tuple[str, ...]:
        """Return the hosts whose images are shown; none while the configuration is broken."""
        try:
            return tuple(self._session.config.style.remote_images)
        except ConfigError:
            return ()

    # --- conversations -----------------------------------------------------------------------

    def _new(self, rest: str) -> None:
        options = OPTIONS["new"].parse_args(split(rest))
        self._session.new_conversation(keep_config=options.keep_config)
        self._say_summary()

    def _fork(self, rest: str) -> None:
        if rest and not (rest.isdecimal() and len(rest) < MAX_DIGITS):
            raise UsageError(f"%jp fork takes the number of the last turn to keep, found {rest!r}")
        self._session.fork(int(rest) if rest else None)
        self._say_summary()

    def _undo(self, rest: str) -> None:
        _nothing("undo", rest)
        self._session.undo()
        self._say_summary()

    def _switch(self, rest: str) -> None:
        if not self._session.switch(_one("switch", "the id of a conversation", rest)):
            print("jp_nb: that is the active conversation already")
            return
        self._say_summary()

    def _drop(self, rest: str) -> None:
        dropped = self._session.drop(_one("drop", "the whole id of a conversation", rest))
        print(f"jp_nb: {one_line(dropped)} is no longer in this notebook")

    def _say_summary(self) -> None:
        print(f"jp_nb: {report.plain_text(self._session.summary())}")

    # --- JP's directories --------------------------------------------------------------------

    def _export(self, rest: str) -> None:
        from jp_nb.interop.jp_directories import folder_at, save_directory

        options = OPTIONS["export"].parse_args(split(rest))
        folder = folder_at(options.folder, self._session.files.folder)
        saved = save_directory(self._session.document.to_json(), folder, options.dialect)
        for line in saved.dropped:
            print(f"jp_nb: dropped: {one_line(line, limit=1000)}")
        for name in saved.others:
            print(f"jp_nb: also written, as it was imported: {one_line(name)}")
        print(f"jp_nb: written to {report.plain_text(str(folder))}")

    def _import(self, rest: str) -> None:
        from jp_nb.interop.jp_directories import folder_at, load_directory
        from jp_nb.record.document import Document
        from jp_nb.record.timestamps import utc_now

        path = _one("import", "a JP conversation directory", rest)
        folder = folder_at(path, self._session.files.folder)
        loaded = Document.load(load_directory(folder, clock=utc_now), clock=utc_now)
        self._session.adopt_imported(loaded)
        self._say_summary()

    # --- trust -------------------------------------------------------------------------------

    def _trust(self, rest: str) -> None:
        options = OPTIONS["trust"].parse_args(split(rest))
        if options.workspace:
            self._trust_workspace(yes=options.yes, revoke=options.revoke)
            return
        if options.revoke:
            had = self._session.revoke()
            print(f"jp_nb: this conversation {'is no longer' if had else 'was not'} trusted")
            return
        if self._session.is_trusted:
            print("jp_nb: this conversation is trusted already")
            return
        ignored = self._session.settings.if_trusted()
        if unseen := next((path for path in ignored if path.startswith(NOT_FOLLOWED)), None):
            raise UsageError(
                f"this conversation asks for {unseen[1:-1]}: what is not followed cannot be shown, "
                "nor agreed to. `%jp new` begins a conversation of your own"
            )
        rows = [
            (
                spell_unseen(path),
                escape_unseen(path if path.startswith("(") else _shown(path, value)),
            )
            for path, value in sorted(ignored.items())
        ]
        if rows and not options.yes and not self._may_count(("path", "value"), rows):
            raise PromptCancelled("this conversation stays untrusted", end="declined")
        self._session.accept()
        print("jp_nb: what this conversation configures counts from here on; it is signed")

    def _trust_workspace(self, *, yes: bool, revoke: bool) -> None:
        from jp_nb.workspace import folder_trust

        files = self._session.files
        if revoke:
            for line in folder_trust.revoked(files.folder):
                print(f"jp_nb: {one_line(line, limit=MAX_LINE)}")
            return
        pending = files.pending()
        if not pending:
            print(f"jp_nb: {one_line(files.why_nothing_waits(), limit=MAX_LINE)}")
            return
        rows = folder_trust.rows(pending)
        if not yes and not self._may_count(folder_trust.HEAD, rows):
            raise PromptCancelled("the files of this folder stay as they are", end="declined")
        self._session.agree(pending)
        print("jp_nb: what these files set counts from here on, until their content changes")

    def _may_count(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
        """Show what would count, and ask."""
        from jp_nb.tooling.question import Question

        report.show(self._shell, report.table(head, rows, limit=sys.maxsize))  # nothing unseen
        question = Question.boolean(
            "trust", "Does what is listed above count from here on? It may run code, reach hosts."
        )
        return self._session.turns.ask_person(question, label="Trust", tool=None) is True

    def _save(self, rest: str) -> None:
        if rest:
            raise UsageError(
                "%jp save takes nothing: the record is saved with the notebook; "
                "%jp export writes it elsewhere"
            )
        print(f"jp_nb: {report.plain_text(self._session.store.save())}")

    def _doctor(self, rest: str) -> None:
        from jp_nb.notebook.doctor import examine

        report.show(self._shell, report.table(("what", "finding"), examine(self._session)))


def _unknown(name: str, rest: str, commands: Sequence[str]) -> str:
    """What to say of words that begin with no subcommand: perhaps they are a request."""
    near = difflib.get_close_matches(name, commands, n=1)
    hint = f"did you mean `%jp {near[0]}`? " if near else ""
    words = one_line(f"{name} {rest}".strip(), limit=200)
    how = f"`%jp q {words}` asks the model this" if rest else "in one line after `%jp q`"
    return (
        f"there is no `%jp {one_line(name, limit=60)}`: {hint}A request is written below `%%jp`, "
        f"or {how}; `%jp` alone lists what there is"
    )


def _decider(said: Sequence[Provenance]) -> Provenance | None:
    """Who a value is from; None if it is nobody's.

    If a conversation began with what a file says, it is the file; likewise if a conversation took
    back what it had set. What it unset is unset by it.
    """
    last = said[-1] if said else None
    below = [x for x in said if x.source not in (BASE, CONVERSATION)]
    if last is None or last.taken_back:
        return below[-1] if below else None
    begun = last.source == BASE and below and below[-1].value == last.value
    return below[-1] if begun else last


def _in_order(words: Sequence[str]) -> Iterator[str]:
    """`words` in which an assignment is what `-c` takes: their order among options counts."""
    before = ""
    for word in words:
        if not word.startswith("-") and is_assignment(word) and before not in _TAKE_A_VALUE:
            yield "-c"
        yield word
        before = word


_TAKE_A_VALUE = ("-c", "--cfg", "-C", "--no-cfg", "--explain", "--unset")


def _shown(path: str, value: Any) -> str:
    return "unset" if value is None else to_text(masked(value, parse_path(path)))


def _who(said: Provenance, path: str) -> str:
    """Where the value of `path` comes from: its layer, and the file, variable, turn or tools."""
    where = [said.source]
    if said.file:
        where.append(said.file)
    if said.when is not None:
        where.append(said.when)
    return ", ".join([*where, *report.by_tools(said.tools(path))])


def _nothing(name: str, rest: str) -> None:
    if rest:
        raise UsageError(f"%jp {name} takes nothing, found {rest!r}")


def _one(name: str, what: str, rest: str) -> str:
    words = split(rest)
    if len(words) != 1:
        raise UsageError(f"%jp {name} takes {what}, found {rest!r}")
    return words[0]


def _config_options() -> OptionParser:
    parser = OptionParser(
        "%jp config [PATH… | PATH=VALUE… | --explain PATH | --unset PATH | -c X | -C X], or "
        "%jp config --user | --workspace PATH=VALUE… | --unset PATH"
    )
    parser.add_argument("words", nargs="*")
    parser.add_argument("--explain", action="append", default=[], metavar="PATH")
    parser.add_argument(
        "--unset", dest="directives", action=Collect, kind="unset", default=[], metavar="PATH"
    )
    add_options(parser)
    layer = parser.add_mutually_exclusive_group()
    for where in ("user", "workspace"):
        layer.add_argument(f"--{where}", dest="where", action="store_const", const=where)
    return parser


def _new_options() -> OptionParser:
    parser = OptionParser("%jp new [--keep-config]")
    parser.add_argument("--keep-config", action="store_true")
    return parser


def _export_options() -> OptionParser:
    parser = OptionParser("%jp export DIR [--dialect native|jp-head]")
    parser.add_argument("folder")
    parser.add_argument("--dialect", choices=("native", "jp-head"), default="native")
    return parser


def _trust_options() -> OptionParser:
    parser = OptionParser("%jp trust [--workspace] [--yes] [--revoke]")
    parser.add_argument("--workspace", action="store_true")
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--revoke", action="store_true")
    return parser


OPTIONS: Final = {
    "config": _config_options(),
    "export": _export_options(),
    "new": _new_options(),
    "trust": _trust_options(),
}
"""What subcommands take; the others take words alone."""


def split(line: str) -> list[str]:
    """The words of a magic's line, quoted as in a shell.

    Raises:
        UsageError: If a quote is not closed.
    """
    try:
        return shlex.split(line)
    except ValueError as exc:
        raise UsageError(f"{line.strip()!r} is not quoted as in a shell: {exc}") from exc
