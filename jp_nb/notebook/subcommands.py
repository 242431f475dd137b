"""The tables of the magics: options of `%%jp`, subcommands of `%jp`. A new one is one entry here.

Parsing, errors, a bare `%jp`, `%jp?` and Tab all read these tables. A subcommand's action lies in
another module, which is loaded when it first runs.

Source: `docs/guide.md`, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from jp_nb.config.directives import Directive, Kind
from jp_nb.errors import UsageError

Offer = Literal[
    "path", "setting", "change", "model", "tool", "tool or toolset", "conversation",
    "stored conversation", "turn", "folder", "file", "attachment", "schema", "answer",
    "provider",
]  # fmt: skip
"""What Tab may offer. A `stored conversation` may be damaged; a `setting` is a path or an
assignment, a `change` a configuration file's name besides."""


@dataclass(frozen=True, slots=True)
class MagicOption:
    """One option: how it is written, what follows it, what Tab offers, where its value goes.

    Attributes:
        flags: All spellings, the short one first.
        help: What it does.
        takes: What follows it, such as `NAME`; in brackets if that may be left out.
        offers: What Tab offers for that.
        choices: Or all that it may be.
        into: Its name among the values that are read; without one, the longest flag's.
        reads: If it may be given several times: makes a value of the flag and what follows it.
            The values of all options with the same `into` are listed as they are written.
        beside: What else the line holds, where help lists the option.
    """

    flags: tuple[str, ...]
    help: str
    takes: str = ""
    offers: Offer | None = None
    choices: tuple[str, ...] = ()
    into: str = ""
    reads: Callable[[str, str | None], object] | None = None
    beside: str = ""

    @property
    def name(self) -> str:
        """Return the name of its value among those that are read."""
        return self.into or self.flags[-1].lstrip("-").replace("-", "_")

    @property
    def may_stand_alone(self) -> bool:
        """True if nothing has to follow it."""
        return not self.takes or self.takes.startswith("[")

    @property
    def usage(self) -> str:
        """Return how it is written in a usage line."""
        again = "…" if self.reads is not None and self.into == "directives" else ""
        return f"[{f'{self.flags[0]} {self.takes}'.strip()}]{again}"

    @property
    def spellings(self) -> str:
        """Return each of its flags, with what follows."""
        return ", ".join(f"{flag} {self.takes or self.beside}".strip() for flag in self.flags)


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One subcommand of `%jp`.

    Attributes:
        name: Its first word.
        help: What it does.
        action: `module:function`; the module is in `jp_nb.notebook`, and the function is called
            with an `Invocation` of `jp_nb/notebook/commands/__init__.py`.
        takes: The words that follow, such as `DIR`; each in brackets of its own if it may be left
            out, with `…` if they may be several. Nothing if it is empty.
        what: The same in words, for errors.
        offers: What Tab offers for a word.
        verbs: If the first word is one of a few: what Tab offers for the word behind each.
        options: Its options.
        is_text: True if what follows is a text of any words, quotes included.
        assigns: True if a word such as `path=value` is the value of a `-c`.
    """

    name: str
    help: str
    action: str
    takes: str = ""
    what: str = "no arguments"
    offers: Offer | None = None
    verbs: Mapping[str, Offer | None] = field(default_factory=dict)
    options: tuple[MagicOption, ...] = ()
    is_text: bool = False
    assigns: bool = False

    def takes_words(self, count: int) -> bool:
        """True if as many words may follow."""
        at_least = 0 if not self.takes or self.takes.startswith("[") else 1
        at_most = max(bool(self.takes), self.takes.count("["))
        return at_least <= count and ("…" in self.takes or count <= at_most)

    @property
    def usage(self) -> str:
        """Return its usage line."""
        options = " ".join(option.usage for option in self.options)
        return " ".join(filter(None, ("%jp", self.name, self.takes, options)))

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Return what help lists: how it is written and what that does, then each option."""
        ways = [(f"{self.name} {self.takes}".strip(), self.help)]
        for option in self.options:
            what = " ".join(filter(None, (option.flags[0], option.takes, option.beside)))
            ways.append((f"{self.name} {what}", option.help))
        return ways


# --- the tables --------------------------------------------------------------------------------


def _change(
    kind: Kind,
    flags: tuple[str, ...],
    does: str,
    takes: str,
    offers: Offer,
) -> MagicOption:
    """Return an option that changes the configuration; those of a line count in their order."""

    def read(flag: str, text: str | None) -> Directive:
        if kind in ("tool", "no_tool") and text is not None and not text.strip():
            raise UsageError(
                f"`{flag}` takes the name of a tool or toolset, or no name for all tools."
            )
        return Directive(kind, text or "")

    return MagicOption(flags, does, takes, offers, into="directives", reads=read)


_NO_CFG: Final = "revert the assignment X, or the settings of the configuration file X"

# One entry, one paragraph.
# fmt: off
ASK_OPTIONS: Final = (
    MagicOption(("-m", "--model"), "use this model, `PROVIDER/NAME` or an alias, for this and "
           "later turns", "MODEL", "model"),
    _change("cfg", ("-c", "--cfg"),
            "change the configuration: `path=value`, `path:=json`, `path+=value`, a JSON object, "
            "or the name of a configuration file", "X", "change"),
    _change("no_cfg", ("-C", "--no-cfg"), _NO_CFG, "X", "change"),
    _change("tool", ("-t", "--tool"),
            "enable a tool or toolset for this and later turns; without a name, all tools",
            "[NAME]", "tool or toolset"),
    _change("no_tool", ("-T", "--no-tool"),
            "disable a tool or toolset for this and later turns; without a name, all tools",
            "[NAME]", "tool or toolset"),
    _change("attach", ("-a", "--attachment"),
            "attach a file, a file pattern, or a variable, for this and later turns", "FILE",
            "attachment"),
    MagicOption(("-u", "--tool-use"),
           "require a tool call in the first request of this turn; without a name, of any tool",
           "[NAME]", "tool",
           into="tool_uses", reads=lambda _, name: True if name is None else name),
    MagicOption(("-U", "--no-tool-use"), "forbid tool calls in the first request of this turn",
           into="tool_uses", reads=lambda *_: False),
    MagicOption(("-n", "--new"), "start a new conversation in this notebook"),
    MagicOption(("-k", "--compact"), "compact the conversation first, as `%jp compact` does"),
    MagicOption(("-s", "--schema"),
           "require an answer that matches NAME, a type or JSON schema in the notebook", "NAME",
           "schema"),
    MagicOption(("-o", "--out"), "bind the result to the variable NAME, in addition to `_jp`",
           "NAME"),
    MagicOption(("--strict",), "fail the cell if no user can answer a question"),
)
"""What `%%jp` takes."""

_TABLE: Final = (
    Subcommand("q", "ask in one line", "commands:ask_in_one_line", "TEXT", is_text=True),
    Subcommand(
        "config", "show or change the configuration", "commands.tools:config",
        "[PATH… | PATH=VALUE…]", offers="setting", assigns=True,
        options=(
            MagicOption(("--explain",), "show which layer and file set PATH", "PATH", "path",
                   reads=lambda _, path: path),
            _change("unset", ("--unset",), "remove the value that this conversation set at PATH",
                    "PATH", "path"),
            _change("cfg", ("-c", "--cfg"), "apply a configuration file", "X", "change"),
            _change("no_cfg", ("-C", "--no-cfg"), _NO_CFG, "X", "change"),
            MagicOption(("--user",), "save the change in your user configuration, for all "
                   "notebooks", beside="PATH=VALUE"),
            MagicOption(("--workspace",), "save the change in the configuration of this workspace",
                   beside="PATH=VALUE"),
        ),
    ),
    Subcommand("tools", "list the tools that the model can call, or describe one",
               "commands.reports:tools",
               "[NAME]", "the name of one tool or toolset", "tool or toolset"),
    Subcommand("log", "show the last turns, and list the other conversations of this notebook",
               "commands.reports:log", "[N]", "a number of turns"),
    Subcommand(
        "qna", "show or search the answered questions of this notebook and its workspace",
        "commands.reports:qna", "[list | get ID | search TEXT… | import FILE]",
        verbs={"list": None, "get": "answer", "search": None, "import": "file"},
        options=(MagicOption(("--limit",), "show the newest N questions", "N"),),
    ),
    Subcommand(
        "models", "list the models of a provider or local server, by default the current one",
        "commands.reports:models", "[PROVIDER [WORD…]]", "a provider and words to search for",
        "provider", options=(MagicOption(("--refresh",), "request the list again"),),
    ),
    Subcommand(
        "cassette",
        "record model responses to a file or replay them; without arguments, show the status",
        "commands.reports:cassette", "[record | replay | replay-or-record [FILE] | off]",
        "a mode and a file",
        verbs={"record": "file", "replay": "file", "replay-or-record": "file", "off": None},
    ),
    Subcommand("usage", "show the tokens used, by turn and by model",
               "commands.reports:usage", "[N]", "a number of turns"),
    Subcommand(
        "call", "run a tool as in a turn, but outside of the conversation", "commands.tools:call",
        "NAME [ARGUMENT=VALUE… | JSON]", offers="tool", is_text=True,
        options=(
            MagicOption(("--last",), "use the arguments of the model's last call"),
            MagicOption(("--id",), "use the arguments of the call with this id", "CALL_ID"),
        ),
    ),
    Subcommand(
        "request", "show a request to the model: the last one, that of turn N, or the next one",
        "commands.reports:request", "[N…]",
        "the number of a turn (3), of one of its requests (3.1), or `next`", "turn",
        options=(MagicOption(("--diff",), "compare two requests: their common beginning and the "
                        "differences", beside="N M"),
                 MagicOption(("--full",), "show all messages in full"),
                 MagicOption(("--json",), "print the body as JSON"),
                 MagicOption(("--curl",), "print a `curl` command that sends the request "
                        "again, without the key"),
                 MagicOption(("-o", "--out"), "bind the request to the variable NAME, as a "
                        "dict", "NAME")),
    ),
    Subcommand("why", "ask the model to explain the last error; TEXT is an additional question",
               "commands:explain", "[TEXT]", is_text=True),
    Subcommand("retry", "ask the last request again, in a branch without the last turn",
               "commands:retry", what="only `-m MODEL`",
               options=(MagicOption(("-m", "--model"), "use this model, also for later turns",
                                    "MODEL", "model"),)),
    Subcommand("resume", "continue an interrupted turn, or recover a conversation from the journal "
               "of an earlier kernel", "commands:resume", "[ID]",
               "the id of a conversation in a journal"),
    Subcommand(
        "code", "insert a code block of the last answer as a new cell, without running it",
        "commands.tools:code", "[N]", "the number of a code block",
        options=(
            MagicOption(("--call",), "insert a tool call as Python code; without an id, the last "
                        "call", "[CALL_ID]", reads=lambda _, call_id: call_id),
        ),
    ),
    Subcommand(
        "replay", "run the tool calls of a turn again, and compare the results",
        "commands.tools:replay", "[N]", "the number of a turn", "turn",
        options=(
            MagicOption(("--ask",), "ask the questions of the tools again"),
            MagicOption(("--strict",), "fail the cell if a result differs"),
        ),
    ),
    Subcommand("new", "start a new conversation in this notebook", "commands.conversation:new",
               options=(MagicOption(("--keep-config",), "start it with the settings of this "
                                    "conversation"),)),
    Subcommand("fork", "copy the conversation up to a turn, and continue in the copy",
               "commands.conversation:fork", "[TURN]", "the number of the last turn to keep",
               "turn"),
    Subcommand(
        "compact", "make the context smaller; the record keeps every entry",
        "commands.conversation:compact", what="only options",
        options=(
            MagicOption(("--undo",), "undo the last compaction"),
            MagicOption(("--dry-run",), "show the resulting context, and change nothing"),
            MagicOption(("-s", "--summarize"), "have a model summarize the turns"),
            MagicOption(("-r", "--reasoning"), "omit reasoning"),
            MagicOption(("-t", "--tools"), "omit the arguments and results of tool calls; with "
                        "`omit` the calls as well", "[strip|strip-requests|strip-responses|omit]",
                   reads=lambda _, mode: mode or "strip"),
            MagicOption(("-m", "--model"), "write the summary with this model", "MODEL", "model"),
            MagicOption(("--from",), "the first turn to compact: its number in `%jp log`, `-N` "
                        "from the end, `5h` ago, or `last` (after the last compaction)", "TURN",
                   "turn", into="first"),
            MagicOption(("--to",), "the last turn to compact", "TURN", "turn", into="last"),
            MagicOption(("--keep-first",), "keep the first N turns unchanged", "N"),
            MagicOption(("--keep-last",), "keep the last N turns unchanged", "N"),
            _change("cfg", ("-c", "--cfg"), "apply a setting or a configuration file to this "
                    "compaction only", "X", "change"),
        ),
    ),
    Subcommand("undo", "continue without the last turn", "commands.conversation:undo"),
    Subcommand("switch", "switch to another conversation; without an id, list all",
               "commands.conversation:switch", "[ID]", "the id of a conversation", "conversation"),
    Subcommand("drop", "delete a conversation from this notebook permanently",
               "commands.conversation:drop", "ID", "the full id of a conversation",
               "stored conversation"),
    Subcommand("save", "save the record now", "commands.conversation:save",
               what="no arguments (`%jp export DIR` writes a conversation to a directory)"),
    Subcommand(
        "export", "write the conversation to a directory in JP's format",
        "commands.conversation:export_directory", "DIR", "the name of a directory", "folder",
        options=(MagicOption(("--dialect",), "write `native`, the format of jp_nb, or `jp-head`, "
                        "which JP reads", "native|jp-head", choices=("native", "jp-head")),),
    ),
    Subcommand("import", "continue with a conversation from a JP directory",
               "commands.conversation:import_directory", "DIR", "a JP conversation directory",
               "folder"),
    Subcommand(
        "trust", "trust the settings in this notebook's record", "commands.conversation:trust",
        options=(MagicOption(("--workspace",), "trust the configuration files of this folder"),
                 MagicOption(("--yes",), "skip the confirmation"),
                 MagicOption(("--revoke",), "withdraw your trust")),
    ),
    Subcommand("doctor", "check the setup: what works here, and why something does not",
               "commands.reports:doctor"),
)
# fmt: on
SUBCOMMANDS: Final[Mapping[str, Subcommand]] = {each.name: each for each in _TABLE}
"""What `%jp` takes, in the order of its help."""
ASK_USAGE: Final = f"%%jp {' '.join(x.usage for x in ASK_OPTIONS)}   and the request below"


# --- help --------------------------------------------------------------------------------------


GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "First steps": ("models", "log", "undo", "new", "doctor"),
    "Asking": ("q", "retry", "why", "resume", "code"),
    "Conversations": (
        "switch", "fork", "compact", "drop", "save", "qna", "usage", "request", "export", "import",
    ),
    "Tools and configuration": ("tools", "call", "replay", "config", "trust", "cassette"),
}  # fmt: skip
"""Names of subcommands as help groups them; the other subcommands come last."""
OTHER_GROUP: Final = "More"


def subcommand_groups() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the rows of help about subcommands, by group."""
    grouped = {name for names in GROUPS.values() for name in names}
    others = tuple(name for name in SUBCOMMANDS if name not in grouped)
    found = [
        (title, [row for name in names if name in SUBCOMMANDS for row in SUBCOMMANDS[name].rows])
        for title, names in (*GROUPS.items(), (OTHER_GROUP, others))
    ]
    return [(title, rows) for title, rows in found if rows]


def subcommand_rows() -> list[tuple[str, str]]:
    """Return the rows of help about all subcommands."""
    return [row for _, rows in subcommand_groups() for row in rows]


def help_on_ask() -> str:
    """Return the text of `%%jp?`."""
    return "\n".join(
        [
            "Send the text below `%%jp [options]` to the model.",
            "",
            ASK_USAGE,
            "",
            *_columns([(option.spellings, option.help) for option in ASK_OPTIONS]),
            "",
            "In the text, `{{name}}` is replaced by the value of that variable.",
            "",
            *_subcommand_help(),
        ]
    )


def help_on_commands() -> str:
    """Return the text of `%jp?`."""
    return "\n".join(
        [
            "`%jp` without arguments lists the subcommands; `%jp SUBCOMMAND?` describes one.",
            "",
            *_subcommand_help(),
            "",
            "Write a request below `%%jp`; `%%jp?` lists its options.",
        ]
    )


def _subcommand_help() -> Iterator[str]:
    groups = subcommand_groups()
    width = max(len(f"%jp {how}") for _, rows in groups for how, _ in rows)
    for number, (title, rows) in enumerate(groups):
        yield from [""] if number else []
        yield f"{title}:"
        yield from (f"  {f'%jp {how}':<{width}}  {does}" for how, does in rows)


def _columns(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    width = max(len(how) for how, _ in rows)
    for how, does in rows:
        yield f"  {how:<{width}}  {does}"
