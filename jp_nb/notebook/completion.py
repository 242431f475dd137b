"""Complete `%jp` lines, and register the completer with IPython.

`complete` reads the line, the table of subcommands and the schema of the configuration. It asks
`Facts` for what only a session knows. Nothing is evaluated, sent or run. `matches` is the function
that IPython calls; it returns no matches if the session raises an error.

Source: `docs/guide.md`, and the Matcher API of IPython,
https://ipython.readthedocs.io/en/stable/api/generated/IPython.core.completer.html.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from IPython import get_ipython
from IPython.core.completer import SimpleCompletion
from pydantic import ValidationError

from jp_nb.config.assignments import parse_value
from jp_nb.config.schema import ROOT, SchemaNode, find_node, lookup, parse_path
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.base import ShortTable
from jp_nb.config.tree.models import EFFORTS, PROVIDER_NAMES, ModelId
from jp_nb.config.tree.tools import JSON_TYPES, SOURCES, STAR
from jp_nb.errors import ConfigError, JpNbError
from jp_nb.notebook.subcommands import ASK_OPTIONS, SUBCOMMANDS, MagicOption, Offer, Subcommand
from jp_nb.record.conversations import ConversationInfo, list_conversations
from jp_nb.session.session import Session
from jp_nb.session.structured import is_schema_like
from jp_nb.storage.config_files import SUFFIXES, user_folder

MAX_OFFERED = 300
MAX_CHARS = 200
"""Length of one completion; longer texts are not offered."""


# --- what is asked and answered --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Completions:
    """The texts that may stand at the end of a line.

    Attributes:
        start: Where that begins which each of `texts` replaces; it ends at the cursor.
        texts: Best first.
        notes: What may be said beside some of `texts`.
    """

    start: int
    texts: list[str]
    notes: Mapping[str, str] = field(default_factory=dict)


class Facts(Protocol):
    """The names that a line may hold. Only those that the line needs are asked for."""

    def keys(self, path: str) -> Sequence[str]:
        """Return the keys below `path` in the configuration in force; of a list its numbers."""

    def tools(self) -> Sequence[str]:
        """Names of tools."""

    def toolsets(self) -> Mapping[str, int]:
        """Return the number of tools in each toolset, by name."""

    def aliases(self) -> Sequence[str]:
        """Names for models."""

    def models(self) -> Sequence[str]:
        """Models in use, with an alias, or told of by a provider before, as `provider/name`."""

    def config_files(self, folder: str) -> Sequence[str]:
        """Return what `-c` finds by name in `folder`; folders end with `/`."""

    def entries(self, folder: str) -> Sequence[str]:
        """Return the names in `folder`, as seen from the notebook; folders end with `/`."""

    def conversations(self, *, damaged: bool) -> Sequence[str]:
        """Ids of the conversations that are not active, `damaged` ones included or not."""

    def turns(self) -> int:
        """Return the number of turns of the active conversation."""

    def answers(self) -> Sequence[str]:
        """Ids of the questions that were answered, the newest first."""

    def variables(self) -> Sequence[str]:
        """Names of the notebook."""

    def schemas(self) -> Sequence[str]:
        """Those that an answer may have to fit."""


# --- a cell, a line, a word ------------------------------------------------------------------

_CELL_MAGIC = re.compile(r"\s*%%jp(\s|$)")
_MAGIC = re.compile(r"\s*(?P<mark>%%?)jp\s+(?P<asks>q\s)?")
_PLACE = re.compile(r"(?<!\\)\{\{\s*(?P<name>(?:[^\W\d]\w*)?)$")


def complete_cell(cell: str, line: int, column: int, facts: Facts) -> Completions:
    """Return what may stand at the cursor, in `line` and `column` of `cell`, counted from 0.

    Below `%%jp` the text is the request's: there only names in `{{` are completed.
    """
    lines = cell.split("\n")
    before = lines[line][:column]
    first = next((i for i, text in enumerate(lines) if text.strip()), 0)
    if line != first and _CELL_MAGIC.match(lines[first]):
        return _bounded(_variables(before, facts))
    if line != first and _CELL_MAGIC.match(before):
        return Completions(column, [])
    return complete(before, facts)


def complete(before: str, facts: Facts) -> Completions:
    """Return what may stand at the end of `before`, a line of ours up to the cursor."""
    magic = _MAGIC.match(before)
    if magic is None:
        return Completions(len(before), [])
    if magic["asks"] and magic["mark"] == "%":
        return _bounded(_variables(before, facts))
    done, typed = _words(before, magic.start("asks") if magic["asks"] else magic.end())
    if magic["mark"] == "%%":
        found = _word(ASK_OPTIONS, None, done, typed.text, facts)
    elif not done:
        found = _starting(typed.text, SUBCOMMANDS)
    elif command := SUBCOMMANDS.get(done[0]):
        found = _word(command.options, command, done[1:], typed.text, facts)
    else:
        return Completions(len(before), [])
    quote = typed.quotes[found.start]
    written = {text: word for text in found.texts if (word := _quoted(text, quote))}
    notes = {written[text]: note for text, note in found.notes.items() if text in written}
    return _bounded(Completions(typed.places[found.start], [*written.values()], notes))


def _bounded(found: Completions) -> Completions:
    # A stranger's record may name things: nothing that a page or a terminal would act on.
    texts = [text for text in found.texts if text.isprintable() and len(text) <= MAX_CHARS]
    return Completions(found.start, list(dict.fromkeys(texts))[:MAX_OFFERED], found.notes)


def _starting(text: str, names: Iterable[str], start: int = 0) -> Completions:
    """Those of `names` that begin as `text` does from `start` on."""
    return Completions(start, [name for name in names if name.startswith(text[start:])])


def _variables(before: str, facts: Facts) -> Completions:
    place = _PLACE.search(before)
    if place is None:
        return Completions(len(before), [])
    hidden = () if place["name"].startswith("_") else ("_",)
    names = sorted(name for name in facts.variables() if not name.startswith(hidden))
    return _starting(before, names, place.start("name"))


class _TypedWord:
    """The word that is being typed, read as a shell does.

    Attributes:
        text: What it says so far.
        places: Where in the line each character of `text` is written, and where the cursor is.
        quotes: The quote that is open at each of these places, or nothing.
    """

    def __init__(self) -> None:
        self.text = ""
        self.places: list[int] = []
        self.quotes: list[str] = []

    def add(self, char: str, place: int, quote: str) -> None:
        """The next character, or nothing where the cursor is."""
        self.text += char
        self.places.append(place)
        self.quotes.append(quote)


def _words(line: str, place: int) -> tuple[list[str], _TypedWord]:
    """The words of `line` from `place` on: whole ones, and the one that ends at the cursor."""
    done: list[str] = []
    typed, begun, quote = _TypedWord(), False, ""
    while place < len(line):
        char, following = line[place], line[place + 1 : place + 2]
        escapes = char == "\\" and (not quote or (quote == '"' and following in ('"', "\\")))
        if escapes and following:
            typed.add(following, place, quote)
            place += 1
        elif char in ("'", '"') and quote in ("", char):
            quote = "" if quote else char
        elif char in " \t\r\n" and not quote:
            done += [typed.text] if begun else []
            typed = _TypedWord()
        elif not escapes:
            typed.add(char, place, quote)
        begun = bool(quote) or char not in " \t\r\n" or escapes
        place += 1
    typed.add("", place, quote)
    return done, typed


def _quoted(text: str, quote: str) -> str | None:
    """`text` as it is written where `quote` is open; None where it cannot be."""
    match quote:
        case "'":
            return None if "'" in text else text
        case '"':
            return re.sub(r'["\\]', r"\\\g<0>", text)
    return re.sub(r"[\s'\"\\]", r"\\\g<0>", text)


# --- options and arguments -------------------------------------------------------------------


def _word(
    options: Sequence[MagicOption],
    command: Subcommand | None,
    done: Sequence[str],
    text: str,
    facts: Facts,
) -> Completions:
    """Return what the last word of a magic may be, when it begins as `text` does."""
    last = _option(options, done[-1]) if done else None
    if last is not None and last.takes:
        found = _value(last, text, facts)
        if found.texts or not last.has_optional_value:
            return found
    flag, equals, value = text.partition("=")
    if flag.startswith("--") and equals:
        option = _option(options, flag)
        if option is None or not option.takes:
            return Completions(len(text), [])
        return _moved(_value(option, value, facts), len(flag) + 1)
    flags = _starting(text, [flag for option in options for flag in option.flags])
    if text.startswith("-"):
        return flags
    if command is None or not command.accepts_word_count(_count(options, done) + 1):
        return Completions(len(text), []) if text else flags
    found = _behind_verb(command, options, done, text, facts)
    return found if found.texts or text else flags


def _behind_verb(
    command: Subcommand,
    options: Sequence[MagicOption],
    done: Sequence[str],
    text: str,
    facts: Facts,
) -> Completions:
    """Return what an argument may be; of some subcommands the first one says what follows it."""
    if not command.verbs:
        return _argument(command.offers, text, facts)
    before = list(_arguments(options, done))
    if not before:
        return _starting(text, command.verbs)
    return _argument(command.verbs.get(before[0]) if len(before) == 1 else None, text, facts)


def _count(options: Iterable[MagicOption], done: Sequence[str]) -> int:
    return sum(1 for _ in _arguments(options, done))


def _arguments(options: Iterable[MagicOption], done: Sequence[str]) -> Iterator[str]:
    """Yield those of the words `done` that are neither options nor what follows one."""
    takers = {flag for option in options if option.takes for flag in option.flags}
    for before, word in zip(["", *done], done, strict=False):
        if before not in takers and not word.startswith("-"):
            yield word


def _option(options: Iterable[MagicOption], flag: str) -> MagicOption | None:
    return next((option for option in options if flag in option.flags), None)


def _value(option: MagicOption, text: str, facts: Facts) -> Completions:
    if option.choices:
        return _starting(text, option.choices)
    return _argument(option.offers, text, facts)


def _argument(offer: Offer | None, text: str, facts: Facts) -> Completions:
    return OFFERED[offer](text, facts) if offer else Completions(len(text), [])


def _setting(text: str, facts: Facts) -> Completions:
    """A path, perhaps with its value."""
    return _assignment(text, facts) if "=" in text else _path(text, facts)


def _change(text: str, facts: Facts) -> Completions:
    """Likewise, or the name of a configuration file."""
    found = _setting(text, facts)
    return found if "=" in text else _either(found, _config_file(text, facts))


def _moved(found: Completions, by: int) -> Completions:
    return Completions(found.start + by, found.texts)


def _either(first: Completions, second: Completions) -> Completions:
    if first.start == second.start:
        return Completions(first.start, [*first.texts, *second.texts])
    return first if first.texts else second


def _models(text: str, facts: Facts) -> list[str]:
    """Aliases and providers; full ids once there is a slash."""
    providers = [f"{name}/" for name in PROVIDER_NAMES]
    return [*(facts.models() if "/" in text else sorted(facts.aliases())), *providers]


def _config_file(text: str, facts: Facts) -> Completions:
    if text.startswith(("@", ".", "/", "~")):
        at = text.startswith("@")
        return _moved(_file(text[at:], facts.entries, suffixes=(".toml", ".json")), int(at))
    return _file(text, facts.config_files, suffixes=("",))


def _attachment(text: str, facts: Facts) -> Completions:
    """A file; or a variable, once its name has begun."""
    found = _file(text, facts.entries, suffixes=("",))
    names = [name for name in facts.variables() if text and not name.startswith("_")]
    return _either(found, _starting(text, sorted(names)))


def _file(
    text: str, entries: Callable[[str], Sequence[str]], *, suffixes: tuple[str, ...]
) -> Completions:
    """Names in the folder that `text` has come to; of files those with one of `suffixes`."""
    start = text.rfind("/") + 1
    names = [name for name in entries(text[:start]) if name.endswith(("/", *suffixes))]
    if not text.startswith(".", start):
        names = [name for name in names if not name.startswith(".")]
    return _starting(text, sorted(names), start)


# --- paths of the configuration --------------------------------------------------------------

_PLAIN_KEY = re.compile(r"[^.\[\]=]+")
_TOOLS = "conversation.tools"


def _path(text: str, facts: Facts) -> Completions:
    """The next key of the path `text`."""
    for boundary in reversed([*re.finditer(r"^|[.\[]", text)]):
        above = text[: boundary.start()]
        if boundary[0] == "[":
            above = above.removesuffix(".")
        node = ROOT if boundary.end() == 0 else find_node(above) if above else None
        if node is not None:
            return _next_key(text, node, above, boundary.start(), facts)
    return Completions(len(text), [])


def _next_key(text: str, node: SchemaNode, above: str, start: int, facts: Facts) -> Completions:
    """The keys below `node`, behind a dot or a bracket in `text` at `start`."""
    behind = text[start : start + 1] if above else ""
    typed = text[start + len(behind) :]
    as_json = behind == "[" and typed.startswith('"')
    typed = typed[as_json:]
    keys = [key for key in _keys(node, above, facts) if key.startswith(typed) and "=" not in key]
    if behind == "[":
        if node.kind == "table":
            return Completions(len(text), [])
        texts = _written(keys, node, above, facts, brackets=True, as_json=as_json)
        return Completions(start, texts)
    plain = [key for key in keys if _PLAIN_KEY.fullmatch(key)]
    texts = _written(plain, node, above, facts)
    if len(plain) == len(keys) or not above:
        return Completions(start + len(behind), texts)
    others = [key for key in keys if key not in plain]  # brackets, in place of the dot
    in_brackets = _written(others, node, above, facts, brackets=True)
    return Completions(start, [*(f".{text}" for text in texts), *in_brackets])


def _keys(node: SchemaNode, path: str, facts: Facts) -> list[str]:
    own = [*node.fields, *([STAR] if path == _TOOLS else [])]
    open_ended = node.kind != "table" or node.child(STAR) is not None
    return list(dict.fromkeys([*own, *(facts.keys(path) if open_ended else [])]))


def _written(
    keys: Iterable[str],
    node: SchemaNode,
    above: str,
    facts: Facts,
    *,
    brackets: bool = False,
    as_json: bool = False,
) -> list[str]:
    """`keys` with the dot behind them where more is to come, and without where it need not."""
    found = []
    for key in keys:
        child = node.child(key)
        written = _in_brackets(key, as_json=as_json) if brackets else key
        path = f"{above}{written}" if brackets else f"{above}.{written}".removeprefix(".")
        found += [written + end for end in _ends(child, path, facts)] if child else []
    return found


def _ends(node: SchemaNode, path: str, facts: Facts) -> tuple[str, ...]:
    if node.kind == "map":
        return (".",) if path == _TOOLS or facts.keys(path) else ("",)
    if node.table is None:
        return ("",)
    has_short_form = node.takes_any_text or node.choices or issubclass(node.table, ShortTable)
    return ("", ".") if has_short_form else (".",)


def _in_brackets(key: str, *, as_json: bool) -> str:
    if not as_json and "]" not in key and parse_path(f"x[{key}]")[1:] == (key,):
        return f"[{key}]"  # a shell takes quotes away
    return f"[{json.dumps(key, ensure_ascii=False)}]"


# --- values ----------------------------------------------------------------------------------

_WORDS = ("true", "false", "on", "off", "always", "explicit", "short", "long", "full")
_KNOWN_WORDS = dict.fromkeys((*_WORDS, *EFFORTS, *PROVIDER_NAMES, *SOURCES, *JSON_TYPES))
"""Words that validators take here and there, and that no annotation lists."""
_NO_WORD = "no_such_word"


def _assignment(text: str, facts: Facts) -> Completions:
    """Return what may stand behind the `=` of `path=…`, `path:=…`, `path+=…`."""
    left, _, right = text.partition("=")
    path = left.rstrip(" :+").strip()
    node = find_node(path) if path else None
    nothing = Completions(len(text), [])
    if node is None or text.lstrip().startswith("{"):
        return nothing
    start = len(left) + 1
    if ":" in left[len(path) :]:
        null = ["null"] if node.optional else []
        return _starting(text, [*(w for w in node.choices if w in ("true", "false")), *null], start)
    if node.kind == "list":
        start += right.rfind(",") + 1
        start += len(text[start:]) - len(text[start:].lstrip())
        node = node.item
    return _starting(text, _values(node, path, text[start:], facts), start)


def _values(node: SchemaNode, path: str, text: str, facts: Facts) -> list[str]:
    if node.table is ModelId:
        return _models(text, facts)
    if parse_path(path)[-1] == "tool_choice":
        return ["auto", "none", "required", *facts.tools()]
    if node.kind in ("map", "list", "json") or _takes(node, _NO_WORD):
        return node.choices
    return list(dict.fromkeys([*node.choices, *(w for w in _KNOWN_WORDS if _takes(node, w))]))


def _takes(node: SchemaNode, word: str) -> bool:
    try:
        node.adapter.validate_python(parse_value(node, word, ""))
    except (ValidationError, ConfigError):
        return False
    return True


def _tools(text: str, facts: Facts) -> Completions:
    """Return the tools that begin as `text` does, and the toolsets with their number of tools."""
    sets = facts.toolsets()
    counts = {name: f"{n} tool{'' if n == 1 else 's'}" for name, n in sets.items()}
    return replace(_starting(text, [*facts.tools(), *sets]), notes=counts)


# --- what is offered, by the words of the tables of the magics --------------------------------

OFFERED: Final[Mapping[Offer, Callable[[str, Facts], Completions]]] = {
    "path": _path,
    "setting": _setting,
    "change": _change,
    "model": lambda text, facts: _starting(text, _models(text, facts)),
    "provider": lambda text, facts: _starting(text, PROVIDER_NAMES),
    "tool": lambda text, facts: _starting(text, facts.tools()),
    "tool or toolset": _tools,
    "conversation": lambda text, facts: _starting(text, facts.conversations(damaged=False)),
    "stored conversation": lambda text, facts: _starting(text, facts.conversations(damaged=True)),
    "answer": lambda text, facts: _starting(text, facts.answers()),
    "turn": lambda text, facts: _starting(text, map(str, reversed(range(facts.turns())))),
    "folder": lambda text, facts: _file(text, facts.entries, suffixes=()),
    "file": lambda text, facts: _file(text, facts.entries, suffixes=("",)),
    "attachment": lambda text, facts: _attachment(text, facts),
    "schema": lambda text, facts: _starting(text, sorted(facts.schemas())),
}
"""What Tab offers for each word of `Offer`, where a text has been typed."""


MAX_ENTRIES = 5000
"""Of one folder."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def _or(nothing: _T, ask: Callable[[], _T]) -> _T:
    """Return what `ask` does, or `nothing` where a file or the record is wrong: others say so."""
    try:
        return ask()
    except (JpNbError, OSError) as exc:
        _log.debug("Cannot list names for completion: %s", exc)
        return nothing


class SessionFacts:
    """The names that `session` knows, for one Tab. What cannot be read is left out."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @cached_property
    def _config(self) -> AppConfig:
        return _or(AppConfig(), lambda: self._session.config)

    @cached_property
    def _dumped(self) -> dict[str, Any]:
        return self._config.model_dump(mode="json", exclude_none=True)

    # --- configuration -----------------------------------------------------------------------

    def keys(self, path: str) -> Sequence[str]:
        """Return the keys below `path` now."""
        found = lookup(self._dumped, parse_path(path))
        if isinstance(found, list):
            return [str(number) for number in range(len(found))]
        return list(found) if isinstance(found, dict) else []

    def tools(self) -> Sequence[str]:
        """Tools that are configured or registered, on or off."""
        return sorted(name for name in self._config.conversation.tools if name != STAR)

    def toolsets(self) -> Mapping[str, int]:
        """Return the number of tools in each toolset whose name is no tool's too."""
        conversation = self._config.conversation
        names = (name for name in conversation.list_toolsets() if name not in conversation.tools)
        return {name: len(conversation.list_toolset_tools(name)) for name in names}

    def aliases(self) -> Sequence[str]:
        """Aliases of models."""
        return list(self._config.providers.llm.aliases)

    def models(self) -> Sequence[str]:
        """The model in force, those that aliases mean, and what `%jp models` was told."""
        known = [self._config.assistant.model.id, *self._config.providers.llm.aliases.values()]
        known += self._told()
        return list(dict.fromkeys(str(model) for model in known if "/" in str(model)))

    def _told(self) -> list[str]:
        """Return what providers told in this kernel. Tab itself asks nobody."""
        session = self._session
        return (
            list(session.turns.catalog.known_models(self._config))
            if "turns" in vars(session)
            else []
        )

    # --- files -------------------------------------------------------------------------------

    def config_files(self, folder: str) -> Sequence[str]:
        """Names without the suffix that `-c` can do without."""
        roots = (user_folder() / "config", self._session.files.root)
        places = [root / path / folder for root in roots for path in self._config.config_load_paths]
        found: list[str] = []
        for name in (name for place in places for name in _entries(place)):
            suffix = Path(name).suffix
            if name.endswith("/"):
                found.append(name)
            elif suffix and suffix in SUFFIXES:
                found.append(name.removesuffix(suffix))
        return found

    def entries(self, folder: str) -> Sequence[str]:
        """Return the names in `folder`, from the notebook's on."""
        return _or([], lambda: _entries(self._session.files.folder / Path(folder).expanduser()))

    # --- the record and the notebook ---------------------------------------------------------

    def conversations(self, *, damaged: bool) -> Sequence[str]:
        """Ids of the conversations that are not active."""
        found: list[ConversationInfo] = _or([], lambda: list_conversations(self._session.document))
        return [x.id for x in found if not x.active and (damaged or not x.damaged)]

    def turns(self) -> int:
        """Return how many turns `fork` may keep."""
        return _or(0, lambda: self._session.document.conversation.turn_count)

    def answers(self) -> Sequence[str]:
        """Ids of the questions that were answered, the newest first."""
        history = _or(None, lambda: self._session.active.questions.history(everybody=True))
        return [str(answer.id) for answer in reversed(history.answers)] if history else []

    def variables(self) -> Sequence[str]:
        """Names that the user bound."""
        hidden = getattr(get_ipython(), "user_ns_hidden", {})
        names = list(self._session.host.namespace)
        return [n for n in names if isinstance(n, str) and n not in hidden]

    def schemas(self) -> Sequence[str]:
        """Names of models, types and JSON schemas that the user bound."""
        values = self._session.host.namespace
        names = (name for name in self.variables() if not name.startswith("_"))
        return [name for name in names if is_schema_like(values.get(name))]


def _entries(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [f"{x.name}/" if x.is_dir() else x.name for x in islice(found, MAX_ENTRIES)]
    except (OSError, ValueError) as exc:  # `ValueError`: a name that no file can have
        _log.debug("Cannot read the folder %s: %s", folder, exc)
        return []


# --- IPython ---------------------------------------------------------------------------------


def matches(session: Session | None, context: Any) -> dict[str, Any]:
    """The result of a matcher of IPython's, for its `CompletionContext`. Never raises."""
    before: str = context.text_until_cursor
    found = Completions(len(before), [])
    try:
        if session is not None:
            place = context.cursor_line, context.cursor_position
            found = complete_cell(context.full_text, *place, SessionFacts(session))
    except Exception:  # IPython would print the traceback below the cell
        _log.debug("Completion failed for %r", before, exc_info=True)
    return {
        "completions": [
            SimpleCompletion(text=text, type=found.notes.get(text, "param")) for text in found.texts
        ],
        "matched_fragment": before[found.start :],
        "suppress": bool(found.texts),
        "ordered": True,
    }
