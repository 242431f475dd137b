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
            with a `commands.Invocation`.
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
    what: str = "nothing"
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
            raise UsageError(f"{flag} takes the name of a tool or toolset, or nothing for all")
        return Directive(kind, text or "")

    return MagicOption(flags, does, takes, offers, into="directives", reads=read)


# One entry, one paragraph.
# fmt: off
ASK_OPTIONS: Final = (
    MagicOption(("-m", "--model"), "model `provider/name`, or an alias, for this and later turns",
           "MODEL", "model"),
    _change("cfg", ("-c", "--cfg"),
            "path=value, path:=json, path+=value, a JSON object, or a file's name", "X", "change"),
    _change("no_cfg", ("-C", "--no-cfg"), "take back what that set", "X", "change"),
    _change("tool", ("-t", "--tool"),
            "enable a tool, or those of a toolset, for this and later turns; bare: all of them",
            "[NAME]", "tool or toolset"),
    _change("no_tool", ("-T", "--no-tool"), "disable a tool likewise", "[NAME]", "tool or toolset"),
    _change("attach", ("-a", "--attachment"),
            "attach a file, a pattern or a variable, for this and later turns", "FILE",
            "attachment"),
    MagicOption(("-u", "--tool-use"),
           "force a tool for the first request of this turn; bare: any tool", "[NAME]", "tool",
           into="tool_uses", reads=lambda _, name: True if name is None else name),
    MagicOption(("-U", "--no-tool-use"), "forbid tools for the first request of this turn",
           into="tool_uses", reads=lambda *_: False),
    MagicOption(("-n", "--new"), "start a new conversation in this notebook"),
    MagicOption(("-k", "--compact"), "first make the conversation shorter, as `%jp compact` does"),
    MagicOption(("-s", "--schema"),
           "an answer that fits the type or JSON schema NAME of the notebook", "NAME", "schema"),
    MagicOption(("-o", "--out"), "also bind the result to NAME; it is `_jp` anyway", "NAME"),
    MagicOption(("--strict",), "a question that nobody can answer fails the cell"),
)
"""What `%%jp` takes."""

_TABLE: Final = (
    Subcommand("q", "ask in one line", "commands:ask_in_one_line", "TEXT", is_text=True),
    Subcommand(
        "config", "show or change the configuration", "config_commands:config",
        "[PATH… | PATH=VALUE…]", offers="setting", assigns=True,
        options=(
            MagicOption(("--explain",), "say which layer and file set it", "PATH", "path",
                   reads=lambda _, path: path),
            _change("unset", ("--unset",), "take back what this conversation set there",
                    "PATH", "path"),
            _change("cfg", ("-c", "--cfg"), "apply a configuration file", "X", "change"),
            _change("no_cfg", ("-C", "--no-cfg"), "take back what that set", "X", "change"),
            MagicOption(("--user",), "write it into your own configuration file, for all notebooks",
                   beside="PATH=VALUE"),
            MagicOption(("--workspace",), "write it into the file of this workspace",
                   beside="PATH=VALUE"),
        ),
    ),
    Subcommand("tools", "the tools the model may call, or all about one", "report_commands:tools",
               "[NAME]", "the name of one tool or toolset", "tool or toolset"),
    Subcommand("log", "the last turns, and the other conversations of this notebook",
               "report_commands:log", "[N]", "a number of turns"),
    Subcommand(
        "qna", "the questions that were answered so far, here and in the workspace",
        "qna_commands:qna", "[list | get ID | search TEXT… | import FILE]",
        verbs={"list": None, "get": "answer", "search": None, "import": "file"},
        options=(MagicOption(("--limit",), "so many of the newest", "N"),),
    ),
    Subcommand(
        "models", "what a provider or local server offers, the one in force if none is named",
        "model_commands:models", "[PROVIDER [WORD…]]", "a provider, and words to look for",
        "provider", options=(MagicOption(("--refresh",), "ask again what was told before"),),
    ),
    Subcommand(
        "cassette", "record models on a file, or have it answer in their place; bare: what is so",
        "cassette_commands:cassette", "[record | replay | replay-or-record [FILE] | off]",
        "what to do, and the file",
        verbs={"record": "file", "replay": "file", "replay-or-record": "file", "off": None},
    ),
    Subcommand("usage", "the tokens that were used, by turn and by model",
               "report_commands:usage", "[N]", "a number of turns"),
    Subcommand(
        "call", "run a tool as a turn would, outside the conversation", "bench_commands:call",
        "NAME [ARGUMENT=VALUE… | JSON]", offers="tool", is_text=True,
        options=(
            MagicOption(("--last",), "with the arguments that the model used last for it"),
            MagicOption(("--id",), "as the model called it in the call with that id", "CALL_ID"),
        ),
    ),
    Subcommand(
        "request", "what was sent to the model, or would be: the last request, or that of turn N",
        "request_commands:request", "[N…]",
        "the number of a turn, such as 3, or 3.1 for one of its requests, or next", "turn",
        options=(MagicOption(("--diff",), "what differs between two, and what both begin with",
                        beside="N M"),
                 MagicOption(("--full",), "every message and every text whole"),
                 MagicOption(("--json",), "the body, to copy"),
                 MagicOption(("--curl",), "a command line that sends it again, without the key"),
                 MagicOption(("-o", "--out"), "bind it to NAME, as a dict", "NAME")),
    ),
    Subcommand("why", "have the last error explained; TEXT is what else you want to know",
               "commands:explain", "[TEXT]", is_text=True),
    Subcommand("retry", "ask the last request again, in a branch without the last turn",
               "commands:retry", what="nothing but -m MODEL",
               options=(MagicOption(("-m", "--model"), "with another model, for later turns, too",
                                    "MODEL", "model"),)),
    Subcommand("resume", "continue the last turn if it was interrupted, or restore a conversation "
               "that a kernel left outside of a notebook", "commands:resume", "[ID]",
               "the id of a conversation that a kernel left"),
    Subcommand(
        "code", "put a block of code of the last answer into a new cell, which does not run",
        "code_commands:code", "[N]", "the number of a block, from 1",
        options=(
            MagicOption(("--call",), "or a call of the model, as Python; bare: the last one",
                        "[CALL_ID]", reads=lambda _, call_id: call_id),
        ),
    ),
    Subcommand(
        "replay", "run the tool calls of a turn again, beside what they answered then",
        "bench_commands:replay", "[N]", "the number of a turn", "turn",
        options=(
            MagicOption(("--ask",), "with its questions asked anew"),
            MagicOption(("--strict",), "what is not the same fails the cell"),
        ),
    ),
    Subcommand("new", "start a new conversation in this notebook", "conversation_commands:new",
               options=(MagicOption(("--keep-config",), "likewise, with what this one has set"),)),
    Subcommand("fork", "go on from a turn in a conversation of its own",
               "conversation_commands:fork", "[TURN]", "the number of the last turn to keep",
               "turn"),
    Subcommand(
        "compact", "send the model earlier turns shorter from here on; the record keeps them whole",
        "compact_commands:compact", what="options alone",
        options=(
            MagicOption(("--undo",), "take the last compaction back"),
            MagicOption(("--dry-run",), "show what would be sent, and change nothing"),
            MagicOption(("-s", "--summarize"), "have a model sum up the turns"),
            MagicOption(("-r", "--reasoning"), "leave out reasoning"),
            MagicOption(("-t", "--tools"), "leave out what tools were given and returned; `omit`: "
                        "their calls, too", "[strip|strip-requests|strip-responses|omit]",
                   reads=lambda _, mode: mode or "strip"),
            MagicOption(("-m", "--model"), "who writes the summary", "MODEL", "model"),
            MagicOption(("--from",), "from this turn on, as `%jp log` numbers it; `-N`: from the "
                        "end, `5h`: ago, `last`: behind the last compaction", "TURN", "turn",
                   into="first"),
            MagicOption(("--to",), "up to this turn, likewise", "TURN", "turn", into="last"),
            MagicOption(("--keep-first",), "so many turns at the beginning stay whole", "N"),
            MagicOption(("--keep-last",), "so many turns at the end stay whole", "N"),
            _change("cfg", ("-c", "--cfg"), "with a setting or a configuration file, for this "
                    "time alone", "X", "change"),
        ),
    ),
    Subcommand("undo", "go on without the last turn", "conversation_commands:undo"),
    Subcommand("switch", "go to another conversation; without an id, list all",
               "conversation_commands:switch", "[ID]", "the id of a conversation", "conversation"),
    Subcommand("drop", "take a conversation out of this notebook for good",
               "conversation_commands:drop", "ID", "the whole id of a conversation",
               "stored conversation"),
    Subcommand("save", "store the record now", "conversation_commands:save",
               what="nothing (the notebook holds the record; %jp export writes it elsewhere)"),
    Subcommand(
        "export", "write the conversation as a directory of JP",
        "conversation_commands:export_directory", "DIR", "the name of a directory", "folder",
        options=(MagicOption(("--dialect",), "in our own form, or in the one JP reads",
                        "native|jp-head", choices=("native", "jp-head")),),
    ),
    Subcommand("import", "go on with a conversation from a directory of JP",
               "conversation_commands:import_directory", "DIR", "a JP conversation directory",
               "folder"),
    Subcommand(
        "trust", "let what this record configures count in full", "trust_commands:trust",
        options=(MagicOption(("--workspace",), "likewise what the files of this folder configure"),
                 MagicOption(("--yes",), "without a question"),
                 MagicOption(("--revoke",), "take that back")),
    ),
    Subcommand("doctor", "what works here, and why not", "report_commands:doctor"),
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
            "Ask the model: `%%jp [options]`, and the request below.",
            "",
            ASK_USAGE,
            "",
            *_columns([(option.spellings, option.help) for option in ASK_OPTIONS]),
            "",
            "`{{name}}` in the request is replaced by that value of the notebook.",
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
