"""What the magics take, as tables: for a bare `%jp`, and for IPython's `%%jp?` and `%jp?`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

USAGE: Final = (
    "%%jp [-m MODEL] [-c X]… [-C X]… [-t [NAME]]… [-T [NAME]]… [-a FILE]… [-u [NAME] | -U] [-n] "
    "[-s NAME] [-o NAME] [--strict]   and the request below"
)

ASK_OPTIONS: Final = (
    ("-m ID, --model ID", "model `provider/name`, or an alias, for this and later turns"),
    ("-c X, --cfg X", "path=value, path:=json, path+=value, a JSON object, or a file's name"),
    ("-C X, --no-cfg X", "take back what that set"),
    ("-t [NAME], -T [NAME]", "enable or disable a tool; bare: all of them"),
    ("-u [NAME], -U", "force a tool, or forbid tools, for the first request of this turn"),
    ("-a FILE, --attach FILE", "attach a file or a pattern, for this and later turns"),
    ("-n, --new", "start a new conversation in this notebook"),
    ("-s NAME, --schema NAME", "an answer that fits the type or JSON schema NAME of the notebook"),
    ("-o NAME, --out NAME", "also bind the result to NAME; it is `_jp` anyway"),
    ("--strict", "a question that nobody can answer fails the cell"),
)

SUBCOMMANDS: Final = (
    ("q TEXT", "ask in one line"),
    ("config [PATH… | PATH=VALUE…]", "show or change the configuration"),
    ("config --explain PATH", "say which layer and file set it"),
    ("config --unset PATH", "take back what this conversation set there"),
    ("config --user PATH=VALUE", "write it into your own configuration file, for all notebooks"),
    ("config --workspace PATH=VALUE", "write it into the file of this workspace"),
    ("config -c X, config -C X", "apply a configuration file, or take back what it set"),
    ("tools [NAME]", "the tools the model may call, or all about one"),
    ("log [N]", "the last turns, and the other conversations of this notebook"),
    ("new [--keep-config]", "start a new conversation in this notebook, with what this one set"),
    ("fork [TURN]", "go on from a turn in a conversation of its own"),
    ("undo", "go on without the last turn"),
    ("switch ID, drop ID", "go to another conversation; take one out for good"),
    ("save", "store the record now"),
    ("export DIR, import DIR", "to and from a conversation directory of JP"),
    ("trust [--revoke]", "let what this record configures count in full"),
    ("trust --workspace [--revoke]", "likewise what the files of this folder configure"),
    ("doctor", "what works here, and why not"),
)


def help_on_ask() -> str:
    """What `%%jp` takes, for `%%jp?`."""
    return "\n".join(
        [
            "Ask the model: `%%jp [options]`, and the request below.",
            "",
            USAGE,
            "",
            *_columns(ASK_OPTIONS),
            "",
            "`{{name}}` in the request is replaced by that value of the notebook.",
            "",
            "Beside it there are:",
            "",
            *_columns([(f"%jp {how}", does) for how, does in SUBCOMMANDS]),
        ]
    )


def help_on_commands() -> str:
    """What `%jp` does, for `%jp?`."""
    return "\n".join(
        [
            "`%jp SUBCOMMAND`; bare, it lists them.",
            "",
            *_columns([(f"%jp {how}", does) for how, does in SUBCOMMANDS]),
            "",
            "A request is written below `%%jp`; `%%jp?` says what that takes.",
        ]
    )


def rows_of(name: str) -> list[tuple[str, str]]:
    """The rows about subcommand `name`."""
    return [row for row in SUBCOMMANDS if name in (part.split()[0] for part in row[0].split(", "))]


def _columns(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    width = max(len(how) for how, _ in rows)
    for how, does in rows:
        yield f"  {how:<{width}}  {does}"
