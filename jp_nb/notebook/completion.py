"""Complete `%jp` lines and `%%jp` cells with IPython.

Nothing is evaluated or run. After the name of a provider, its list of models may be requested in
the background.

Source: `docs/guide.md`, and the Matcher API of IPython,
https://ipython.readthedocs.io/en/stable/api/generated/IPython.core.completer.html.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from IPython import get_ipython
from IPython.core.completer import SimpleCompletion
from pydantic import ValidationError

from jp_nb.agent.provider import ModelList
from jp_nb.config.assignments import parse_setting_value
from jp_nb.config.schema import ROOT, SchemaNode, find_node, look_up, parse_path
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.base import ShortTable
from jp_nb.config.tree.model_settings import (
    PROVIDER_NAMES,
    REASONING_EFFORTS,
    SERVERS_PATH,
    ModelId,
)
from jp_nb.config.tree.tool_settings import JSON_TYPES, STAR, TOOL_SOURCES
from jp_nb.errors import ConfigError, JpNbError
from jp_nb.notebook.subcommands import ASK_OPTIONS, SUBCOMMANDS, MagicOption, Offer, Subcommand
from jp_nb.record.conversation_list import ConversationInfo, list_conversations
from jp_nb.session.session import Session
from jp_nb.session.structured import is_schema_like
from jp_nb.storage.config_files import CONFIG_SUFFIXES
from jp_nb.storage.files import get_config_folder

MAX_COMPLETIONS = 300
MAX_COMPLETION_CHARS = 200  # longer texts are not offered


@dataclass(frozen=True, slots=True)
class Completions:
    """Completions of a line, best first. They replace the text from `start` to the cursor."""

    start: int
    texts: list[str]
    notes: Mapping[str, str] = field(default_factory=dict)


class Names:
    """Snapshot of the names in a session, for one completion.

    Names are read once, when the line needs them. Unreadable files and records have none.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    @cached_property
    def _config(self) -> AppConfig:
        return _try(lambda: self.session.config, AppConfig())

    @cached_property
    def _dumped(self) -> dict[str, Any]:
        return self._config.model_dump(mode="json", exclude_none=True)

    def keys(self, path: str) -> Sequence[str]:
        """Return the keys below `path` in the effective configuration, or the indexes of a list."""
        value = look_up(self._dumped, parse_path(path))
        if isinstance(value, list):
            return [str(number) for number in range(len(value))]
        return list(value) if isinstance(value, dict) else []

    @cached_property
    def tools(self) -> Sequence[str]:
        """Configured and registered tools, enabled or not."""
        return sorted(name for name in self._config.conversation.tools if name != STAR)

    @cached_property
    def toolsets(self) -> Mapping[str, int]:
        """Number of tools, by toolset. Toolsets with the name of a tool are omitted."""
        conversation = self._config.conversation
        names = (name for name in conversation.list_toolsets() if name not in conversation.tools)
        return {name: len(conversation.list_toolset_tools(name)) for name in names}

    @cached_property
    def providers(self) -> Sequence[str]:
        """Providers, and the servers of the configuration."""
        return [*PROVIDER_NAMES, *sorted(self.keys(SERVERS_PATH))]

    @cached_property
    def mcp_servers(self) -> Sequence[str]:
        """MCP servers of the configuration."""
        return sorted(self._config.providers.mcp)

    @cached_property
    def aliases(self) -> Sequence[str]:
        """Aliases of models."""
        return list(self._config.providers.llm.aliases)

    def models(self, provider: str) -> Sequence[str]:
        """Return the current model, models with an alias, and those that `provider` lists.

        The list may be requested, but only from a provider whose name is complete.
        """
        known = [self._config.assistant.model.id, *self._config.providers.llm.aliases.values()]
        if provider in self.providers:
            catalog = self.session.turns.catalog
            listed = _try(lambda: catalog.offer(provider, self._config), ModelList())
            current = (model.id for model in listed.models if model.state != "retired")
            known += [f"{provider}/{name}" for name in current]

        return list(dict.fromkeys(str(model) for model in known if "/" in str(model)))

    def config_files(self, folder: str) -> Sequence[str]:
        """Return the names in `folder` that `-c` accepts, without suffixes; see `entries`."""
        folders: list[Path] = []
        for root in (get_config_folder() / "config", self.session.files.root):
            folders += [root / path / folder for path in self._config.config_load_paths]

        entries: list[str] = []
        nothing: list[str] = []
        for each in folders:
            entries += _try(partial(_list_folder, each), nothing)

        suffixes = {each: Path(each).suffix for each in entries}

        return [
            entry.removesuffix(suffix)
            for entry, suffix in suffixes.items()
            if entry.endswith("/") or (suffix and suffix in CONFIG_SUFFIXES)
        ]

    def entries(self, folder: str) -> Sequence[str]:
        """Return the names in `folder`, a path from the notebook's folder; folders end with `/`."""
        root = self.session.files.folder
        return _try(lambda: _list_folder(root / Path(folder).expanduser()), [])

    @cached_property
    def conversations(self) -> Mapping[str, bool]:
        """Ids of inactive conversations, with True for damaged ones."""
        found: list[ConversationInfo] = _try(lambda: list_conversations(self.session.document), [])
        return {each.id: each.damaged for each in found if not each.active}

    @cached_property
    def turn_count(self) -> int:
        """Number of turns of the active conversation."""
        return _try(lambda: self.session.document.conversation.turn_count, 0)

    @cached_property
    def answers(self) -> Sequence[str]:
        """Ids of answered questions, newest first."""
        history = _try(lambda: self.session.active.questions.history(everybody=True), None)
        return [str(answer.id) for answer in reversed(history.answers)] if history else []

    @cached_property
    def variables(self) -> Sequence[str]:
        """Names of the user's variables."""
        hidden = getattr(get_ipython(), "user_ns_hidden", {})
        names = list(self.session.host.namespace)
        return [n for n in names if isinstance(n, str) and n not in hidden]

    @cached_property
    def schemas(self) -> Sequence[str]:
        """Names of variables with models, types, and JSON schemas."""
        values = self.session.host.namespace
        names = (name for name in self.variables if not name.startswith("_"))
        return [name for name in names if is_schema_like(values.get(name))]


_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def _try(read: Callable[[], _T], default: _T) -> _T:
    """Return the result of `read`, or `default` if a file or the record cannot be read."""
    try:
        return read()
    except (JpNbError, OSError, ValueError) as exc:  # `ValueError`: a path with a null byte
        _log.debug("Cannot list names for completion: %s", exc)
        return default


def _list_folder(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        # A folder may be very large.
        return list(map(_format_entry, islice(entries, 5000)))


def _format_entry(entry: os.DirEntry[str]) -> str:
    return f"{entry.name}/" if entry.is_dir() else entry.name


_CELL_MAGIC = re.compile(r"\s*%%jp(\s|$)")
_MAGIC = re.compile(r"\s*(?P<mark>%%?)jp\s+(?P<asks>q\s)?")
_PLACEHOLDER = re.compile(r"(?<!\\)\{\{\s*(?P<name>(?:[^\W\d]\w*)?)$")


def complete_cell(cell: str, line: int, column: int, names: Names) -> Completions:
    """Return the completions at the cursor, in `line` and `column` of `cell`, counted from 0.

    Below `%%jp` is the text of the request, in which only names after `{{` are completed.
    """
    lines = cell.split("\n")
    before = lines[line][:column]
    first = next((i for i, text in enumerate(lines) if text.strip()), 0)
    if line != first and _CELL_MAGIC.match(lines[first]):
        return _limit(_complete_placeholder(before, names))
    if line != first and _CELL_MAGIC.match(before):
        return Completions(column, [])
    return complete_line(before, names)


def complete_line(before: str, names: Names) -> Completions:
    """Return the completions of `before`, the line of a magic up to the cursor."""
    magic = _MAGIC.match(before)
    if magic is None:
        return Completions(len(before), [])
    if magic["asks"] and magic["mark"] == "%":
        return _limit(_complete_placeholder(before, names))

    begin = magic.start("asks") if magic["asks"] else magic.end()
    done, typed = _split_words(before, begin)
    word = _join_chars(typed)
    if magic["mark"] == "%%":
        found = _complete_word(_ASK, done, word, names)
    elif not done:
        found = _match_prefix(word, SUBCOMMANDS)
    elif command := SUBCOMMANDS.get(done[0]):
        found = _complete_word(command, done[1:], word, names)
    else:
        return Completions(len(before), [])

    _, start, quote = typed[found.start]
    escaped = {}
    for text in found.texts:
        if form := _escape(text, quote):
            escaped[text] = form

    notes = {escaped[text]: note for text, note in found.notes.items() if text in escaped}

    return _limit(Completions(start, [*escaped.values()], notes))


def _limit(found: Completions) -> Completions:
    # Names of untrusted records must not contain control characters.
    texts = [
        text for text in found.texts if text.isprintable() and len(text) <= MAX_COMPLETION_CHARS
    ]
    return Completions(found.start, list(dict.fromkeys(texts))[:MAX_COMPLETIONS], found.notes)


def _match_prefix(text: str, names: Iterable[str], start: int = 0) -> Completions:
    return Completions(start, [name for name in names if name.startswith(text[start:])])


def _complete_placeholder(before: str, names: Names) -> Completions:
    placeholder = _PLACEHOLDER.search(before)
    if placeholder is None:
        return Completions(len(before), [])
    hidden = () if placeholder["name"].startswith("_") else ("_",)
    offered = sorted(name for name in names.variables if not name.startswith(hidden))
    return _match_prefix(before, offered, placeholder.start("name"))


class _TypedChar(NamedTuple):
    """A character of the word before the cursor, without quotes and escapes; "" at the cursor.

    `position` is its position in the line, and `quote` the quote that is open there, or "".
    """

    char: str
    position: int
    quote: str


def _split_words(line: str, position: int) -> tuple[list[str], list[_TypedChar]]:
    """Split `line` from `position` as a shell does: complete words, and the word at the cursor."""
    done: list[str] = []
    typed: list[_TypedChar] = []
    begun = False
    quote = ""

    while position < len(line):
        char = line[position]
        following = line[position + 1 : position + 2]
        escapes = char == "\\" and (not quote or (quote == '"' and following in ('"', "\\")))
        if escapes and following:
            typed.append(_TypedChar(following, position, quote))
            position += 1
        elif char in ("'", '"') and quote in ("", char):
            quote = "" if quote else char
        elif char in " \t\r\n" and not quote:
            done += [_join_chars(typed)] if begun else []
            typed = []
        elif not escapes:
            typed.append(_TypedChar(char, position, quote))

        begun = bool(quote) or char not in " \t\r\n" or escapes
        position += 1

    return done, [*typed, _TypedChar("", position, quote)]


def _join_chars(typed: Iterable[_TypedChar]) -> str:
    return "".join(each.char for each in typed)


def _escape(text: str, quote: str) -> str | None:
    """Escape `text` inside of the open `quote`; None if that is not possible."""
    match quote:
        case "'":
            return None if "'" in text else text
        case '"':
            return re.sub(r'["\\]', r"\\\g<0>", text)

    return re.sub(r"[\s'\"\\]", r"\\\g<0>", text)


_ASK = Subcommand("", "", "", options=ASK_OPTIONS)


def _complete_word(
    command: Subcommand, done: Sequence[str], text: str, names: Names
) -> Completions:
    """Complete the word `text`, after the words `done`."""
    by_flag: dict[str, MagicOption] = {}
    for option in command.options:
        by_flag |= dict.fromkeys(option.flags, option)

    takers = {flag for flag, option in by_flag.items() if option.takes}
    if done and done[-1] in takers:
        last = by_flag[done[-1]]
        found = _complete_offer(last.choices or last.offers, text, names)
        if found.texts or not last.has_optional_value:
            return found

    flag, equals, value = text.partition("=")
    if flag.startswith("--") and equals:
        if flag not in takers:
            return Completions(len(text), [])
        found = _complete_offer(by_flag[flag].choices or by_flag[flag].offers, value, names)
        return Completions(found.start + len(flag) + 1, found.texts)

    flags = _match_prefix(text, by_flag)
    if text.startswith("-"):
        return flags

    arguments = [
        word
        for previous, word in zip(["", *done], done, strict=False)
        if previous not in takers and not word.startswith("-")
    ]
    if not command.accepts_word_count(len(arguments) + 1):
        return Completions(len(text), []) if text else flags

    offer: Offer | Mapping[str, Offer | None] | None = command.offers
    if command.verbs:
        offer = command.verbs if not arguments else None
        if len(arguments) == 1:
            offer = command.verbs.get(arguments[0])

    found = _complete_offer(offer, text, names)
    return found if found.texts or text else flags


def _complete_offer(
    offer: Offer | tuple[str, ...] | Mapping[str, Offer | None] | None, text: str, names: Names
) -> Completions:
    """Complete `text` as one kind of offer, or as one of several words."""
    if offer is None:
        return Completions(len(text), [])
    return OFFERED[offer](text, names) if isinstance(offer, str) else _match_prefix(text, offer)


def _combine(first: Completions, second: Completions) -> Completions:
    if first.start == second.start:
        return Completions(first.start, [*first.texts, *second.texts])
    return first if first.texts else second


def _list_models(text: str, names: Names) -> list[str]:
    """Return aliases and providers; after a slash, full ids instead of aliases."""
    providers = [f"{name}/" for name in names.providers]
    provider, slash, _ = text.partition("/")
    if slash:
        return [*names.models(provider), *providers]
    return [*sorted(names.aliases), *providers]


def _complete_config_file(text: str, names: Names) -> Completions:
    if not text.startswith(("@", ".", "/", "~")):
        return _complete_file(text, names.config_files, suffixes=("",))
    at = text.startswith("@")
    found = _complete_file(text[at:], names.entries, suffixes=(".toml", ".json"))
    return replace(found, start=found.start + at)


def _complete_attachment(text: str, names: Names) -> Completions:
    found = _complete_file(text, names.entries, suffixes=("",))
    variables = [name for name in names.variables if text and not name.startswith("_")]
    return _combine(found, _match_prefix(text, sorted(variables)))


def _complete_file(
    text: str, entries: Callable[[str], Sequence[str]], *, suffixes: tuple[str, ...]
) -> Completions:
    start = text.rfind("/") + 1
    names = [name for name in entries(text[:start]) if name.endswith(("/", *suffixes))]
    if not text.startswith(".", start):
        names = [name for name in names if not name.startswith(".")]
    return _match_prefix(text, sorted(names), start)


_PLAIN_KEY = re.compile(r"[^.\[\]=]+")
_TOOLS = "conversation.tools"


def _complete_path(text: str, names: Names) -> Completions:
    boundaries = list(re.finditer(r"^|[.\[]", text))
    for boundary in reversed(boundaries):
        above = text[: boundary.start()]
        if boundary[0] == "[":
            above = above.removesuffix(".")

        node = find_node(above) if above else None
        if boundary.end() == 0:
            node = ROOT
        if node is not None:
            return _complete_key(text, node, above, boundary.start(), names)

    return Completions(len(text), [])


def _complete_key(text: str, node: SchemaNode, above: str, start: int, names: Names) -> Completions:
    """Complete a key below `node`, after the dot or bracket in `text` at `start`."""
    separator = text[start : start + 1] if above else ""
    typed = text[start + len(separator) :]
    as_json = separator == "[" and typed.startswith('"')
    typed = typed[as_json:]
    known = [*node.fields]
    if above == _TOOLS:
        known.append(STAR)

    if node.kind != "table" or node.child(STAR) is not None:
        known += names.keys(above)

    keys = [k for k in dict.fromkeys(known) if k.startswith(typed) and "=" not in k]
    if separator == "[" and node.kind == "table":
        return Completions(len(text), [])

    plain = [key for key in keys if separator != "[" and _PLAIN_KEY.fullmatch(key)]
    texts: list[str] = []
    for key in plain:
        texts += _list_forms(key, key, node, above, names)

    others = [key for key in keys if above and key not in plain]
    if separator != "[" and not others:
        return Completions(start + len(separator), texts)

    texts = [f".{text}" for text in texts]  # brackets replace the dot
    for key in others:
        as_text = as_json or "]" in key or parse_path(f"x[{key}]")[1:] != (key,)
        # The shell-like splitting removes quotes.
        index = json.dumps(key, ensure_ascii=False) if as_text else key
        texts += _list_forms(key, f"[{index}]", node, above, names)

    return Completions(start, texts)


def _list_forms(key: str, shown: str, node: SchemaNode, above: str, names: Names) -> list[str]:
    """Return `shown` with a dot if another key must follow, and in both forms if one may follow."""
    child = node.child(key)
    if child is None:
        return []
    if child.kind == "map":
        path = f"{above}{shown}" if shown.startswith("[") else f"{above}.{shown}".removeprefix(".")
        return [f"{shown}."] if path == _TOOLS or names.keys(path) else [shown]
    if child.table is None:
        return [shown]

    has_short_form = child.takes_any_text or child.choices or issubclass(child.table, ShortTable)
    return [shown, f"{shown}."] if has_short_form else [f"{shown}."]


_WORDS = ("true", "false", "on", "off", "always", "explicit", "short", "long", "full")
_KNOWN_WORDS = dict.fromkeys(
    (*_WORDS, *REASONING_EFFORTS, *PROVIDER_NAMES, *TOOL_SOURCES, *JSON_TYPES)
)
"""Words that validators of some settings accept, but that their annotations do not list."""
_NO_WORD = "no_such_word"


def _complete_assignment(text: str, names: Names) -> Completions:
    """Complete the value in `path=…`, `path:=…`, or `path+=…`."""
    left, _, right = text.partition("=")
    path = left.rstrip(" :+").strip()
    node = find_node(path) if path else None
    if node is None or text.lstrip().startswith("{"):
        return Completions(len(text), [])

    start = len(left) + 1
    if ":" in left[len(path) :]:
        words = [word for word in node.choices if word in ("true", "false")]
        if node.optional:
            words.append("null")
        return _match_prefix(text, words, start)

    if node.kind == "list":
        start += right.rfind(",") + 1
        start += len(text[start:]) - len(text[start:].lstrip())
        node = node.item

    if node.table is ModelId:
        values = _list_models(text[start:], names)
    elif parse_path(path)[-1] == "tool_choice":
        values = ["auto", "none", "required", *names.tools]
    elif node.kind in ("map", "list", "json") or _accepts(node, _NO_WORD):
        values = node.choices
    else:
        known = (word for word in _KNOWN_WORDS if _accepts(node, word))
        values = list(dict.fromkeys([*node.choices, *known]))

    return _match_prefix(text, values, start)


def _accepts(node: SchemaNode, word: str) -> bool:
    try:
        node.adapter.validate_python(parse_setting_value(node, word, ""))
    except (ValidationError, ConfigError):
        return False
    return True


def _complete_tool(text: str, names: Names) -> Completions:
    sizes = names.toolsets
    notes = {name: f"{size} tools" for name, size in sizes.items()}
    notes |= {name: "1 tool" for name, size in sizes.items() if size == 1}
    return replace(_match_prefix(text, [*names.tools, *sizes]), notes=notes)


OFFERED: Final[Mapping[Offer, Callable[[str, Names], Completions]]] = {
    "path": _complete_path,
    "setting": lambda text, names: (
        _complete_assignment(text, names) if "=" in text else _complete_path(text, names)
    ),
    "change": lambda text, names: (
        _complete_assignment(text, names)
        if "=" in text
        else _combine(_complete_path(text, names), _complete_config_file(text, names))
    ),
    "model": lambda text, names: _match_prefix(text, _list_models(text, names)),
    "provider": lambda text, names: _match_prefix(text, names.providers),
    "server": lambda text, names: _match_prefix(text, names.mcp_servers),
    "tool": lambda text, names: _match_prefix(text, names.tools),
    "tool or toolset": _complete_tool,
    "conversation": lambda text, names: _match_prefix(
        text, (name for name, is_damaged in names.conversations.items() if not is_damaged)
    ),
    "stored conversation": lambda text, names: _match_prefix(text, names.conversations),
    "answer": lambda text, names: _match_prefix(text, names.answers),
    "turn": lambda text, names: _match_prefix(text, map(str, range(names.turn_count, 0, -1))),
    "folder": lambda text, names: _complete_file(text, names.entries, suffixes=()),
    "file": lambda text, names: _complete_file(text, names.entries, suffixes=("",)),
    "attachment": _complete_attachment,
    "schema": lambda text, names: _match_prefix(text, sorted(names.schemas)),
}
"""The function that completes each kind of text."""


def match_completions(session: Session | None, context: Any) -> dict[str, Any]:
    """Return IPython's `MatcherResult` for its `CompletionContext`. Raise no errors."""
    before: str = context.text_until_cursor
    found = Completions(len(before), [])

    try:
        if session is not None:
            line = context.cursor_line
            column = context.cursor_position
            found = complete_cell(context.full_text, line, column, Names(session))
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
