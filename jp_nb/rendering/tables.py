"""Tables: usage, models, pending changes, cassettes, compactions.

Source: `docs/guide.md`, `docs/record.md`, `docs/configuration.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.compaction import CompactionPlan
from jp_nb.agent.provider import ModelInfo, ModelList
from jp_nb.config.layers import format_value
from jp_nb.config.masking import mask_secrets
from jp_nb.config.partial import Change, Partial, get_path, iter_leaves
from jp_nb.config.schema import Keys, format_path, node_at, parse_path
from jp_nb.config.secrets import hide_secrets
from jp_nb.json_values import as_object, compact_json
from jp_nb.record.compaction import WHOLE, TurnRange, format_treatment, turn_treatments
from jp_nb.record.document import Document, events_of
from jp_nb.record.events import USAGE, ChatRequest, Compaction
from jp_nb.record.marks import ModelUsage, Usage, read_usage
from jp_nb.record.stream import ConversationStream, TurnEntries
from jp_nb.rendering.markdown import safe_markdown
from jp_nb.rendering.questions import with_note
from jp_nb.rendering.report import Report, joined, table
from jp_nb.rendering.status import tokens_line
from jp_nb.storage.cassette import CassetteContent, StoredExchange
from jp_nb.storage.trust import PendingConsent
from jp_nb.text import escape_invisible, one_line, plain, spell_invisible

UNKNOWN: Final = "-"
ALL: Final = "all"
MAX_USAGE_ROWS: Final = 50
"""So many have a row: whoever wrote the record may have named any number."""
_REQUEST_CHARS: Final = 40
_COUNTS: Final = ("in", "from cache", "out", "reasoning")
_BY_TURN: Final = ("turn", "request", "model", *_COUNTS)
_BY_MODEL: Final = (
    "model",
    "responses",
    "in",
    "from cache",
    "share",
    "into cache",
    "out",
    "reasoning",
)
NOTHING: Final = "No provider has reported any tokens in this conversation yet."
COUNTED_ONCE: Final = "turns that a branch shares with its parent are counted once"


@dataclass(slots=True)
class _Sum:
    """What one model took in several responses."""

    responses: int = 0
    tokens: Usage = field(default_factory=Usage)

    def add(self, tokens: Usage) -> None:
        self.responses += 1
        self.tokens += tokens


def usage_report(document: Document, last: int) -> Report:
    """Return what the conversation of `document` took: its `last` turns, each model, and all."""
    stream = document.conversation
    sums = _by_model(_used_in(stream.raw))
    elsewhere = _elsewhere(document)
    if not sums and elsewhere is None:
        return Report(f"*{NOTHING}*", NOTHING)
    turns = list(stream.turns())
    parts = []
    if sums:
        rows = [row for turn in turns[-last:] for row in _turn_rows(turn)]
        parts = [table(_BY_TURN, rows), table(_BY_MODEL, list(_model_rows(sums)))]
    shown = joined(parts, between="\n\n")
    for note in _notes(stream, len(turns), last, elsewhere):
        shown = with_note(shown, note)
    return shown


def _used_in(raw: Iterable[JsonValue]) -> Iterator[ModelUsage]:
    for entry in raw:
        metadata = as_object(entry).get("metadata")
        if isinstance(metadata, dict) and USAGE in metadata:
            yield from read_usage(metadata)


def _by_model(used: Iterable[ModelUsage]) -> dict[str, _Sum]:
    sums: dict[str, _Sum] = {}
    for one in used:
        sums.setdefault(one.model, _Sum()).add(one.tokens)
    return sums


# --- rows --------------------------------------------------------------------------------------


def _turn_rows(turn: TurnEntries) -> list[tuple[str, ...]]:
    asked = next((e.content for e in turn.entries if isinstance(e, ChatRequest)), "")
    request = one_line(asked, limit=_REQUEST_CHARS)
    used = (one for entry in turn.entries for one in read_usage(entry.metadata))
    sums = _by_model(used) or {UNKNOWN: _Sum()}
    return [
        (str(turn.number), "" if row else request, model or UNKNOWN, *_counts(each.tokens))
        for row, (model, each) in enumerate(list(sums.items())[:MAX_USAGE_ROWS])
    ]


def _counts(tokens: Usage) -> tuple[str, ...]:
    counts = tokens.input_tokens, tokens.cache_read_tokens, tokens.output_tokens
    return tuple(map(_number, (*counts, tokens.reasoning_tokens)))


def _model_rows(sums: dict[str, _Sum]) -> Iterator[tuple[str, ...]]:
    everything = _Sum(sum(each.responses for each in sums.values()))
    for each in sums.values():
        everything.tokens += each.tokens
    most = sorted(sums.items(), key=lambda item: -(item[1].tokens.input_tokens or 0))
    for model, each in most[:MAX_USAGE_ROWS]:
        yield _model_row(model or UNKNOWN, each)
    if len(sums) > MAX_USAGE_ROWS:
        yield (f"{len(sums) - MAX_USAGE_ROWS} more", *[""] * (len(_BY_MODEL) - 1))
    if len(sums) > 1:
        yield _model_row(ALL, everything)


def _model_row(model: str, each: _Sum) -> tuple[str, ...]:
    took = each.tokens
    return (
        model,
        f"{each.responses:,}",
        _number(took.input_tokens),
        _number(took.cache_read_tokens),
        _share(took),
        _number(took.cache_write_tokens),
        _number(took.output_tokens),
        _number(took.reasoning_tokens),
    )


def _share(took: Usage) -> str:
    """Return how much of what was sent came from the provider's cache."""
    if took.cache_read_tokens is None or not took.input_tokens:
        return UNKNOWN
    return f"{took.cache_read_tokens / took.input_tokens:.0%}"


def _number(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count:,}"


# --- what is below the tables ------------------------------------------------------------------


def _notes(
    stream: ConversationStream, turns: int, last: int, elsewhere: Usage | None
) -> Iterator[str]:
    if turns > last:
        yield f"Only the last {last} of {turns} turns are listed; the totals include all turns."
    parent = as_object(stream.head.get("parent"))
    turn, name = parent.get("turn"), parent.get("id")
    if isinstance(turn, int) and isinstance(name, str):
        copied = "Turn 0 was" if turn == 0 else f"Turns 0 to {turn} were"
        source = one_line(name, limit=40)
        yield f"{copied} copied from {source}: used once, and listed in both conversations."
    took = _for_summaries(stream)
    if took != Usage():
        told = tokens_line(took.input_tokens, took.output_tokens)
        yield f"Summaries of earlier turns used {told} of this; they belong to no turn."
    if elsewhere is not None:
        told = tokens_line(elsewhere.input_tokens, elsewhere.output_tokens)
        yield f"All conversations of this notebook: {told}; {COUNTED_ONCE}."


def _for_summaries(stream: ConversationStream) -> Usage:
    """Return what it took to sum up turns, as far as that was not counted with a turn."""
    total = Usage()
    for entry in stream.entries:
        if isinstance(entry, Compaction):
            for one in read_usage(entry.metadata):
                total += one.tokens
    return total


def _elsewhere(document: Document) -> Usage | None:
    """Return what all conversations took together; None if the others took nothing more."""
    seen: set[str] = set()
    own = _once(document.conversation.raw, seen)
    here = len(seen)
    total = own
    for other in document.others:
        total += _once(events_of(other), seen)
    return total if len(seen) > here else None


def _once(raw: Sequence[JsonValue], seen: set[str]) -> Usage:
    """Return what entries took that were not `seen`: a branch copies them as they are."""
    total = Usage()
    for entry in map(as_object, raw):
        metadata = entry.get("metadata")
        if not (isinstance(metadata, dict) and USAGE in metadata):
            continue
        identity = [entry.get("event_id"), entry.get("timestamp"), metadata[USAGE]]
        if (key := compact_json(identity)) in seen:
            continue
        seen.add(key)
        for one in read_usage(metadata):
            total += one.tokens
    return total


MAX_MODELS: Final = 50
NOT_TOLD: Final = ""
IN_FORCE: Final = "current"
_GIGA: Final = 1e9

_COLUMNS: Final[Mapping[str, Callable[[ModelInfo], str]]] = {
    "name": lambda model: model.name if model.name != model.id else "",
    "context": lambda model: _count(model.context_window),
    "output": lambda model: _count(model.max_output),
    "reads": lambda model: ", ".join(model.inputs),
    "tools": lambda model: _flag(model.tools),
    "reasoning": lambda model: _flag(model.reasoning),
    "$/M in": lambda model: _price(model.input_price),
    "$/M out": lambda model: _price(model.output_price),
    "size": lambda model: _size(model),
    "ends": lambda model: model.ends or model.state,
}
"""What may be known of a model. A column that is empty is left out."""


def model_table(
    listed: ModelList,
    provider: str,
    *,
    in_force: str = "",
    aliases: Mapping[str, Sequence[str]] | None = None,
    words: Sequence[str] = (),
) -> Report:
    """Return the models of `provider` in which all `words` occur, those in use first.

    Args:
        listed: What it offers.
        provider: Its name.
        in_force: The name of the model in force, if it is one of this provider.
        aliases: Aliases by the name of the model that they stand for.
        words: What to look for in names, in lower or upper case.
    """
    named = aliases or {}
    found = [model for model in listed.models if _fits(model, words)]
    if not found:
        return _nothing(listed, provider, words)
    found.sort(key=lambda model: _rank(model, in_force, named))
    shown = found[:MAX_MODELS]
    columns = {head: [read(model) for model in shown] for head, read in _COLUMNS.items()}
    columns = {head: cells for head, cells in columns.items() if any(cells)}
    uses = [_use(model.id, in_force, named) for model in shown]
    if any(uses):
        columns["used as"] = uses
    ids = [f"{provider}/{model.id}" for model in shown]
    rows = list(zip(ids, *columns.values(), strict=True))
    report = table(("model", *columns), rows)
    return with_note(report, _note(found, listed, provider))


def _fits(model: ModelInfo, words: Sequence[str]) -> bool:
    text = f"{model.id} {model.name}".lower()
    return all(word.lower() in text for word in words)


def _rank(
    model: ModelInfo, in_force: str, aliases: Mapping[str, Sequence[str]]
) -> tuple[bool, bool, bool, float, str]:
    """Return where a model stands: used, then still there, then new, then by name."""
    used = model.id == in_force, model.id in aliases
    return not used[0], not used[1], model.state == "retired", -(model.created or 0.0), model.id


def _use(name: str, in_force: str, aliases: Mapping[str, Sequence[str]]) -> str:
    return ", ".join([*([IN_FORCE] if name == in_force else []), *aliases.get(name, ())])


def _nothing(listed: ModelList, provider: str, words: Sequence[str]) -> Report:
    if words and listed.models:
        text = f"None of the {len(listed.models)} models of {provider} matches {' '.join(words)!r}."
    else:
        text = f"{provider} lists no models."
    return with_note(Report("", ""), text)


def _note(found: Sequence[ModelInfo], listed: ModelList, provider: str) -> str:
    of_all = "" if len(found) == len(listed.models) else f" of {len(listed.models)}"
    total = f"{provider}: {len(found)}{of_all} {'model' if len(listed.models) == 1 else 'models'}"
    hidden = len(found) - MAX_MODELS
    search = f"search with `%jp models {provider} WORD`"
    more = f"; {hidden} are not shown: {search}" if hidden > 0 else ""
    cut = "; the list of the provider was truncated" if listed.is_cut else ""
    return f"{total}{more}{cut}. Use one: `%%jp -m {provider}/NAME`"


def _count(number: int | None) -> str:
    return NOT_TOLD if number is None else f"{number:,}"


def _flag(value: bool | None) -> str:
    return NOT_TOLD if value is None else "yes" if value else "no"


def _price(price: float | None) -> str:
    return NOT_TOLD if price is None else "free" if price == 0 else f"{price:,.4g}"


def _size(model: ModelInfo) -> str:
    size = "" if model.size_bytes is None else f"{model.size_bytes / _GIGA:,.1f} GB"
    return ", ".join(part for part in (model.parameters, model.quantization, size) if part)


PENDING_HEAD: Final = ("path", "value", "file")


def pending_rows(found: Iterable[PendingConsent]) -> list[tuple[str, str, str]]:
    """Return what would count if the user agreed to it: path, value, and the file."""
    return [
        (
            spell_invisible(path),
            escape_invisible(format_value(mask_secrets(value, parse_path(path)))),
            spell_invisible(file),
        )
        for pending in found
        for path, value, file in pending.leaves
    ]


MAX_LISTED = 10
MAX_VALUE_CHARS = 60

FOR_ALL = "For every conversation: `%jp config --user PATH=VALUE`"


def kept_notices(change: Change) -> list[str]:
    """Return the line about settings that a conversation took over; none if there are none."""
    return [f"Kept from the previous conversation: {_listed(change)}"] if change else []


def left_behind(change: Change, *, asks: bool) -> str:
    """One line: what the conversation before had set, and how to have it in the new one.

    Args:
        change: What would carry it over; not empty.
        asks: Whether the new conversation begins with a request, and not by `%jp new`.
    """
    how = "Keep them: `%jp new --keep-config`"
    if asks:
        how = "Set a value again: `%jp config PATH=VALUE`, or `-c PATH=VALUE` together with `-n`"
    return (
        "these settings of the previous conversation do not apply to the new one: "
        f"{_listed(change)}. {how}. {FOR_ALL}"
    )


def _listed(change: Change) -> str:
    found = [*_values(change.delta), *(f"{path} unset" for path in change.unsets)]
    more = len(found) - MAX_LISTED
    return ", ".join([*found[:MAX_LISTED], *([f"and {more} more"] if more > 0 else [])])


def _values(delta: Partial) -> Iterator[str]:
    shown: dict[Keys, None] = {}
    for keys, _ in iter_leaves(delta):
        above = node_at(keys[:-1])
        is_model = above is not None and above.required_fields == ["provider", "name"]
        shown[keys[:-1] if is_model else keys] = None
    for keys in shown:
        path = format_path(keys)
        value = mask_secrets(get_path(delta, path), parse_path(path))
        if isinstance(value, dict) and {"provider", "name"} <= value.keys():
            value = f"{value['provider']}/{value['name']}"
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"{one_line(path, limit=200)}={one_line(text, limit=MAX_VALUE_CHARS)}"


MAX_CHARS = 60


def exchanges(count: int) -> str:
    """Return `1 exchange`, `2 exchanges`."""
    return f"{count:,} exchange{'' if count == 1 else 's'}"


def exchange_in_words(cassette: CassetteContent, exchange: StoredExchange) -> str:
    """Return where `exchange` is and what was asked: `line 7, anthropic/opus: "Hello"`."""
    model = f"{exchange.summary['provider']}/{exchange.summary['model']}"
    last = cassette.parts.get(("message", exchange.last_message))
    said = "" if last is None else str(last.value.get("text") or last.value.get("name") or "")
    hidden = hide_secrets(plain(said, limit=sys.maxsize))  # the beginning of a key is none
    return f"line {exchange.line}, {one_line(model)}: {one_line(hidden, limit=MAX_CHARS)}"


MAX_COMPACTIONS = 50
"""So many are listed: a record that somebody else wrote may alternate at every turn."""


def how_turns_are_sent(stream: ConversationStream) -> Report:
    """Return how the turns of `stream` are sent to a model, neighbours that are alike together."""
    rows = list(_rows(stream))
    if len(rows) > MAX_COMPACTIONS:
        rows[MAX_COMPACTIONS:] = [("…", f"{len(rows) - MAX_COMPACTIONS} more")]
    return table(("turns", "sent"), rows)


def _rows(stream: ConversationStream) -> Iterator[tuple[str, str]]:
    words = [format_treatment(each) for each in turn_treatments(stream)] or [
        WHOLE
    ] * stream.turn_count
    for said, grouped in groupby(enumerate(words), key=lambda each: each[1]):
        turns = [turn for turn, _ in grouped]
        one = turns[0] == turns[-1]
        yield str(turns[0]) if one else f"{turns[0]} to {turns[-1]}", said


def compaction_report(
    plan: CompactionPlan, stream: ConversationStream, entries: Sequence[Compaction], *, now: int
) -> Report:
    """Return what was made shorter: how turns are sent, the new summaries, and what it frees.

    Args:
        plan: What was planned.
        stream: The conversation, with what was recorded.
        entries: That.
        now: About how many tokens of messages a model is sent now.
    """
    parts = [how_turns_are_sent(stream)]
    for entry in entries:
        if entry.summary is not None:
            turns = f"The summary of {TurnRange(entry.from_turn, entry.to_turn)}:"
            text = entry.summary.summary
            shown = Report(f"{turns}\n\n{safe_markdown(text)}", f"{turns}\n{plain(text)}")
            parts.append(shown)
    note = (
        f"About {now:,} tokens of messages are sent instead of {plan.before:,}. The record keeps "
        "everything. Undo: `%jp compact --undo`"
    )
    return with_note(joined(parts, between="\n\n"), note)


def preview_report(plan: CompactionPlan) -> Report:
    """Return what `plan` would make shorter."""
    note = f"About {plan.after:,} tokens of messages would be sent instead of {plan.before:,}"
    if any(cut.rule.summary is not None for cut in plan.steps):
        note += ", plus the summary, which is not written yet"
    return with_note(how_turns_are_sent(plan.outcome), f"{note}. Nothing has changed.")
