"""The types of the magics' tables: an option, a subcommand, and the kinds of completions.

`ask_options.py` and `subcommands.py` have the tables.

Source: `docs/guide.md`, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from jp_nb.config.directives import Directive, DirectiveKind
from jp_nb.errors import UsageError

Offer = Literal[
    "path", "setting", "change", "model", "tool", "tool or toolset", "conversation",
    "stored conversation", "turn", "folder", "file", "attachment", "schema", "rows", "answer",
    "provider", "server",
]  # fmt: skip
"""Kinds of completions. A `stored conversation` may be damaged. A `setting` is a path or an
assignment, and a `change` may also be the name of a configuration file."""


@dataclass(frozen=True, slots=True)
class MagicOption:
    """An option of a magic.

    Attributes:
        flags: All spellings, the short one first.
        help: The effect of the option, for the help.
        takes: Name of the value, such as `NAME`; in brackets if the value is optional, and empty
            if the option has no value.
        choices: All allowed values, if the option is restricted.
        into: Name of the parsed value; by default the long flag.
        parse: For an option that can be repeated: makes a value of the flag and the text after it.
            The values of all options with the same `into` form one list, in their order.
        offers: Kind of completions of the value.
        beside: Words of the subcommand that the option needs, for the help: `--user PATH=VALUE`.
    """

    flags: tuple[str, ...]
    help: str
    takes: str = ""
    offers: Offer | None = None
    choices: tuple[str, ...] = ()
    into: str = ""
    parse: Callable[[str, str | None], object] | None = None
    beside: str = ""

    @property
    def name(self) -> str:
        """The name of the parsed value."""
        return self.into or self.flags[-1].lstrip("-").replace("-", "_")

    @property
    def has_optional_value(self) -> bool:
        """True if a value may follow, but need not."""
        return self.takes.startswith("[")

    @property
    def value_count(self) -> Literal[0, "?"] | None:
        """The number of values as `nargs` of `argparse`: 0, "?" (0 or 1), or None (1)."""
        if not self.takes:
            return 0
        return "?" if self.has_optional_value else None

    @property
    def usage(self) -> str:
        """The option in a usage line, with `…` if repeating it makes sense.

        It does for *directives*, the options that change the configuration, such as `-c`. Of a
        repeated option such as `--call`, only the last value counts.
        """
        repeated = "…" if self.into == "directives" else ""
        return f"[{f'{self.flags[0]} {self.takes}'.strip()}]{repeated}"

    @property
    def spellings(self) -> str:
        """All flags with the name of the value."""
        return ", ".join(f"{flag} {self.takes or self.beside}".strip() for flag in self.flags)


def make_directive_option(
    kind: DirectiveKind, flags: tuple[str, ...], help_text: str, takes: str, offers: Offer
) -> MagicOption:
    """Return an option that changes the configuration, in the way that `kind` names.

    All such options of a line form one list, because their changes apply in the order in which the
    user wrote them.
    """

    def parse(flag: str, text: str | None) -> Directive:
        if kind in ("tool", "no_tool") and text is not None and not text.strip():
            raise UsageError(
                f"`{flag}` takes the name of a tool or toolset, or no name for all tools."
            )
        return Directive(kind, text or "")

    return MagicOption(flags, help_text, takes, offers, into="directives", parse=parse)


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A subcommand of `%jp`.

    Attributes:
        name: Its name, the first word of the line.
        help: Its effect, for the help.
        action: `module:function`. The module is in `jp_nb.notebook`, and the function takes an
            `Invocation` (`jp_nb/notebook/commands/__init__.py`).
        takes: Names of the words after the subcommand, such as `DIR`. Optional words are in
            separate brackets; `…` marks several words. Empty if no words may follow.
        takes_description: Description of these words for errors.
        offers: Kind of completions of these words.
        verbs: The allowed first words, with the completions of the word after each.
        options: The options of the subcommand.
        is_text: The rest of the line is text, with its quotes. The action reads it, not the parser.
        assigns: A word such as `path=value` is a change of the configuration, as after `-c`.
    """

    name: str
    help: str
    action: str
    takes: str = ""
    takes_description: str = "no arguments"
    offers: Offer | None = None
    verbs: Mapping[str, Offer | None] = field(default_factory=dict)
    options: tuple[MagicOption, ...] = ()
    is_text: bool = False
    assigns: bool = False

    def accepts_word_count(self, count: int) -> bool:
        """Return True if `count` words may follow.

        `takes` is a single required word (`DIR`), or optional ones (`[PROVIDER [WORD…]]`).
        """
        if not self.takes:
            return count == 0

        optional_count = self.takes.count("[")
        at_least = 0 if self.takes.startswith("[") else 1
        at_most = max(1, optional_count)
        return at_least <= count and ("…" in self.takes or count <= at_most)

    @property
    def usage(self) -> str:
        """The usage line."""
        options = " ".join(option.usage for option in self.options)
        return " ".join(filter(None, ("%jp", self.name, self.takes, options)))

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Syntax and description of the subcommand, and of it with each option."""
        rows = [(f"{self.name} {self.takes}".strip(), self.help)]
        for option in self.options:
            syntax = " ".join(filter(None, (option.flags[0], option.takes, option.beside)))
            rows.append((f"{self.name} {syntax}", option.help))
        return rows
