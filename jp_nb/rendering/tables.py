"""Tables of token usage, models, pending settings, and compactions.

Source: `docs/guide.md`, `docs/record.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.compaction_plan import CompactionPlan
from jp_nb.agent.provider import ModelInfo, ModelList
from jp_nb.config.schema import format_masked, parse_path
from jp_nb.config.server_risks import describe_setting_risks
from jp_nb.config.tree.server_settings import MCP_PATH
from jp_nb.json_values import as_object, compact_json
from jp_nb.record.compaction import list_turn_treatments
from jp_nb.record.compaction_range import TurnRange
from jp_nb.record.compaction_text import SENT_WHOLE, format_treatment
from jp_nb.record.document import Document, get_events
from jp_nb.record.events import USAGE_KEY, ChatRequest, Compaction, read_words
from jp_nb.record.marks import read_input_changes
from jp_nb.record.stream import ConversationStream
from jp_nb.record.token_usage import ModelUsage, Usage, read_usage, sum_usage
from jp_nb.record.turn_entries import TurnEntries
from jp_nb.record.turn_numbers import to_shown_turn
from jp_nb.rendering.markdown import sanitize_markdown
from jp_nb.rendering.report import (
    Report,
    add_note,
    join_reports,
    make_note,
    make_remark,
    make_table,
)
from jp_nb.rendering.status import format_tokens
from jp_nb.storage.trust import PendingConsent
from jp_nb.text import escape_invisible, one_line, plain, pluralize, spell_invisible

UNKNOWN_VALUE: Final = "-"
ALL_MODELS_LABEL: Final = "all"
MAX_TABLE_ROWS: Final = 50
"""Limit of rows, because an untrusted record may have any number of models and compactions."""
_REQUEST_CHARS: Final = 40
_BY_REQUEST: Final = (
    "turn", "request", "model", "in", "from cache", "into cache", "out", "reasoning",
)  # fmt: skip
_BY_MODEL: Final = (
    "model", "responses", "in", "from cache", "share", "into cache", "out", "reasoning",
)  # fmt: skip
_OUTSIDE: Final = ("model", "requests", "in", "from cache", "out", "reasoning")
_BY_REASON: Final = ("turn", "request", "reasoning blocks", "used", "reason")
INPUT_CHANGE_REASONS: Final = {
    "prefix": "something before them changed",
    "model": "the model cannot read those of another model",
    "organization": "another account made them",
    "end_user": "another user made them",
    "turn_boundary": "they belong to an earlier turn",
}
ALL_USED: Final = "No provider reported reasoning that a model did not get in these turns."
REPORTED_BY_BETA: Final = (
    "Anthropic reports this only with `thinking-binding-controls-2026-08-01` in "
    "`providers.llm.anthropic.beta_headers`."
)
NO_TOKENS_REPORTED: Final = "No provider has reported any tokens in this conversation yet."
COUNTED_ONCE: Final = "turns that a branch shares with its parent are counted once"


def render_usage(document: Document, last: int) -> Report:
    """Return the tokens of the active conversation: by request of `last` turns, and by model."""
    stream = document.conversation
    metadata = (as_object(entry).get("metadata") for entry in stream.raw)
    models = _group_by_model(chain.from_iterable(map(read_usage, metadata)))
    notebook_total = _sum_all_conversations(document)
    if not models and notebook_total is None:
        return make_remark(NO_TOKENS_REPORTED)

    turns = list(stream.turns())
    parts = list[Report]()
    if models:
        rows = list(chain.from_iterable(map(_list_turn_rows, turns[-last:])))
        by_request = make_table(_BY_REQUEST, rows)
        by_model = make_table(_BY_MODEL, list(_list_model_rows(models)))
        parts.append(join_reports([by_request, by_model], between="\n\n"))

    parts += map(make_note, _list_usage_notes(stream, len(turns), last, notebook_total))
    return join_reports(parts)


def render_other_usage(requests: Mapping[str, int], tokens: Mapping[str, Usage]) -> Report:
    """Return the tokens of requests outside of the conversation, by model."""
    rows: list[tuple[str, ...]] = []
    for model, count in list(requests.items())[:MAX_TABLE_ROWS]:
        took = tokens[model]
        counts = (
            count,
            took.input_tokens,
            took.cache_read_tokens,
            took.output_tokens,
            took.reasoning_tokens,
        )
        rows.append((model, *map(_format_number, counts)))

    note = "These requests of `jp.complete` are outside of the conversation, in this kernel."
    return join_reports([make_table(_OUTSIDE, rows), make_note(note)])


def render_input_changes(document: Document, last: int) -> Report:
    """Return the reasoning of the `last` turns that did not fit the conversation, by reason."""
    rows = list[tuple[str, ...]]()
    for turn in list(document.conversation.turns())[-last:]:
        counts = sum((read_input_changes(each.metadata) for each in turn.entries), Counter())
        begin = _format_turn_cells(turn)
        for (reason, is_dropped), count in counts.most_common(MAX_TABLE_ROWS):
            why = INPUT_CHANGE_REASONS.get(reason, one_line(reason, limit=_REQUEST_CHARS))
            is_used = "no" if is_dropped else "yes"
            rows.append((*begin, _format_number(count), is_used, why))
            begin = ("", "")

    report = make_table(_BY_REASON, rows) if rows else make_remark(ALL_USED)
    return join_reports([report, make_note(REPORTED_BY_BETA)])


def _group_by_model(used: Iterable[ModelUsage]) -> dict[str, list[Usage]]:
    found: dict[str, list[Usage]] = {}
    for one in used:
        found.setdefault(one.model, []).append(one.tokens)
    return found


def _format_turn_cells(turn: TurnEntries) -> tuple[str, str]:
    # The number and the request of the turn, for the first of its rows.
    requests = (read_words(each) for each in turn.entries if isinstance(each, ChatRequest))
    request = one_line(next(requests, ""), limit=_REQUEST_CHARS)
    return str(to_shown_turn(turn.number)), request


def _list_turn_rows(turn: TurnEntries) -> Iterator[tuple[str, ...]]:
    # One row for each request of the turn to a model.
    begin = _format_turn_cells(turn)
    used = list(chain.from_iterable(read_usage(entry.metadata) for entry in turn.entries))

    for one in used[:MAX_TABLE_ROWS] or [ModelUsage("", Usage())]:
        took = one.tokens
        counts = (
            took.input_tokens,
            took.cache_read_tokens,
            took.cache_write_tokens,
            took.output_tokens,
            took.reasoning_tokens,
        )
        yield *begin, one.model or UNKNOWN_VALUE, *map(_format_number, counts)
        begin = ("", "")

    if len(used) > MAX_TABLE_ROWS:
        yield "", f"{len(used) - MAX_TABLE_ROWS} more", *[""] * (len(_BY_REQUEST) - 2)


def _list_model_rows(models: dict[str, list[Usage]]) -> Iterator[tuple[str, ...]]:
    most = sorted(models.items(), key=lambda item: -(sum(item[1], Usage()).input_tokens or 0))
    for model, each in most[:MAX_TABLE_ROWS]:
        yield _format_model_row(model or UNKNOWN_VALUE, each)

    if len(models) > MAX_TABLE_ROWS:
        yield (f"{len(models) - MAX_TABLE_ROWS} more", *[""] * (len(_BY_MODEL) - 1))

    if len(models) > 1:
        responses = list(chain.from_iterable(models.values()))
        yield _format_model_row(ALL_MODELS_LABEL, responses)


def _format_model_row(model: str, responses: list[Usage]) -> tuple[str, ...]:
    took = sum(responses, Usage())
    share = UNKNOWN_VALUE
    if took.cache_read_tokens is not None and took.input_tokens:
        share = f"{took.cache_read_tokens / took.input_tokens:.0%}"

    sent = map(_format_number, (len(responses), took.input_tokens, took.cache_read_tokens))
    counts = took.cache_write_tokens, took.output_tokens, took.reasoning_tokens
    return (model, *sent, share, *map(_format_number, counts))


def _format_number(count: int | None, unknown: str = UNKNOWN_VALUE) -> str:
    return unknown if count is None else f"{count:,}"


def _list_usage_notes(
    stream: ConversationStream, turns: int, last: int, notebook_total: Usage | None
) -> Iterator[str]:
    if turns > last:
        yield f"Only the last {last} of {turns} turns are listed; the totals include all turns."

    parent = as_object(stream.properties.get("parent"))
    turn = parent.get("turn")
    name = parent.get("id")
    if isinstance(turn, int) and isinstance(name, str):
        copied = "Turn 1 was" if turn == 0 else f"Turns 1 to {to_shown_turn(turn)} were"
        source = one_line(name, limit=40)
        yield f"{copied} copied from {source}: used once, and listed in both conversations."

    took = sum_usage(entry for entry in stream.entries if isinstance(entry, Compaction))
    if took != Usage():
        told = format_tokens(took.input_tokens, took.output_tokens)
        yield f"Summaries of earlier turns used {told} of this; they belong to no turn."

    if notebook_total is not None:
        told = format_tokens(notebook_total.input_tokens, notebook_total.output_tokens)
        yield f"All conversations of this notebook: {told}; {COUNTED_ONCE}."


def _sum_all_conversations(document: Document) -> Usage | None:
    # None if the other conversations add no usage.
    seen: set[str] = set()
    total = _sum_unseen(document.conversation.raw, seen)
    here = len(seen)
    for other in document.others:
        total += _sum_unseen(get_events(other), seen)

    return total if len(seen) > here else None


def _sum_unseen(raw: Sequence[JsonValue], seen: set[str]) -> Usage:
    # A branch copies entries unchanged, so `seen` prevents that they are counted twice.
    total = Usage()
    for entry in map(as_object, raw):
        metadata = as_object(entry.get("metadata"))
        if USAGE_KEY not in metadata:
            continue

        identity = [entry.get("event_id"), entry.get("timestamp"), metadata.get(USAGE_KEY)]
        key = compact_json(identity)
        if key not in seen:
            seen.add(key)
            total += sum((one.tokens for one in read_usage(metadata)), Usage())

    return total


NOT_KNOWN: Final = ""
CURRENT: Final = "current"
_GIGA: Final = 1e9

_COLUMNS: Final[Mapping[str, Callable[[ModelInfo], str]]] = {
    "name": lambda model: model.name if model.name != model.id else "",
    "context": lambda model: _format_number(model.context_window, NOT_KNOWN),
    "output": lambda model: _format_number(model.max_output, NOT_KNOWN),
    "reads": lambda model: ", ".join(model.inputs),
    "tools": lambda model: _format_flag(model.tools),
    "reasoning": lambda model: _format_flag(model.reasoning),
    "$/M in": lambda model: _format_price(model.input_price),
    "$/M out": lambda model: _format_price(model.output_price),
    "size": lambda model: _format_model_size(model),
    "ends": lambda model: _format_end(model),
}
"""Columns of the table of models. A column is omitted if it is empty for all models."""


def render_model_table(
    listed: ModelList,
    provider: str,
    *,
    current: str = "",
    aliases: Mapping[str, Sequence[str]] | None = None,
    words: Sequence[str] = (),
) -> Report:
    """Return a table of the models whose names contain all `words` in any case, used ones first.

    `current` is the name of the current model, if it belongs to this provider. `aliases` are the
    aliases of each model.
    """
    named = aliases or {}
    found = [model for model in listed.models if _has_words(model, words)]

    if not found:
        if words and listed.models:
            count = len(listed.models)
            sought = " ".join(words)
            return make_note(f"None of the {count} models of {provider} matches {sought!r}.")

        return make_note(f"{provider} lists no models.")

    # Models in use first, then available ones, then the newest, then by name.
    found.sort(key=lambda model: (-(model.created or 0.0), model.id))
    found.sort(key=lambda x: (x.id != current, x.id not in named, x.state == "retired"))
    shown = found[:MAX_TABLE_ROWS]

    columns: dict[str, list[str]] = {}
    for head, read in _COLUMNS.items():
        cells = [read(model) for model in shown]
        if any(cells):
            columns[head] = cells

    uses = []
    for model in shown:
        names = list(named.get(model.id, ()))
        if model.id == current:
            names.insert(0, CURRENT)
        uses.append(", ".join(names))
    if any(uses):
        columns["used as"] = uses

    ids = [f"{provider}/{model.id}" for model in shown]
    rows = list(zip(ids, *columns.values(), strict=True))
    return add_note(make_table(("model", *columns), rows), _format_note(found, listed, provider))


def _has_words(model: ModelInfo, words: Sequence[str]) -> bool:
    names = f"{model.id} {model.name}".lower()
    return all(word.lower() in names for word in words)


def _format_note(found: Sequence[ModelInfo], listed: ModelList, provider: str) -> str:
    count = len(listed.models)
    of_all = "" if len(found) == count else f" of {count}"
    note = f"{provider}: {len(found)}{of_all} {pluralize('model', count)}"

    hidden = len(found) - MAX_TABLE_ROWS
    if hidden > 0:
        note = f"{note}; {hidden} are not shown: search with `%jp models {provider} WORD`"
    if listed.is_cut:
        note = f"{note}; the list of the provider was truncated"

    return f"{note}. Use one: `%%jp -m {provider}/NAME`"


def _format_flag(value: bool | None) -> str:
    if value is None:
        return NOT_KNOWN

    return "yes" if value else "no"


def _format_price(price: float | None) -> str:
    if price is None:
        return NOT_KNOWN

    return "free" if price == 0 else f"{price:,.4g}"


def _format_model_size(model: ModelInfo) -> str:
    parts = (model.parameters, model.quantization, _format_size(model.size_bytes))
    return ", ".join(filter(None, parts))


def _format_end(model: ModelInfo) -> str:
    if model.state == "retired":
        return f"{model.state} {model.ends}".strip()

    return model.ends or model.state


def _format_size(size: int | None) -> str:
    return NOT_KNOWN if size is None else f"{size / _GIGA:,.1f} GB"


PENDING_HEAD: Final = ("path", "value", "file")


def list_pending_rows(found: Iterable[PendingConsent]) -> list[tuple[str, str, str]]:
    """Return the settings that wait for consent: path, value, and file."""
    leaves = chain.from_iterable(pending.leaves for pending in found)
    return [
        (spell_invisible(path), format_consent_value(path, value), spell_invisible(file))
        for path, value, file in leaves
    ]


def format_consent_value(path: str, value: JsonValue) -> str:
    """Return the `value` of a setting for the user's consent: exact, without secrets, with risks.

    The settings of an MCP server have their risks in brackets, such as those of `BASH_ENV`.
    """
    keys = parse_path(path)
    shown = escape_invisible(format_masked(path, value))
    if len(keys) <= len(MCP_PATH) + 1 or keys[: len(MCP_PATH)] != MCP_PATH:
        return shown

    risks = describe_setting_risks(keys[len(MCP_PATH) + 1 :], value)
    if not risks:
        return shown

    listed = "; ".join(risks)
    return f"{shown} [{listed}]"


def render_treatment(stream: ConversationStream) -> Report:
    """Return a table of turns and their treatment in requests: in full, compacted, or omitted."""
    words = (
        list(map(format_treatment, list_turn_treatments(stream)))
        or [SENT_WHOLE] * stream.turn_count
    )

    rows = []
    for said, grouped in groupby(enumerate(words), key=lambda each: each[1]):
        first, *more = (str(turn) for turn, _ in grouped)
        turns = f"{first} to {more[-1]}" if more else first
        rows.append((turns, said))

    if len(rows) > MAX_TABLE_ROWS:
        rows[MAX_TABLE_ROWS:] = [("…", f"{len(rows) - MAX_TABLE_ROWS} more")]

    return make_table(("turns", "sent"), rows)


def render_compactions(
    plan: CompactionPlan, stream: ConversationStream, entries: Sequence[Compaction], *, now: int
) -> Report:
    """Return the result of a compaction: treatment of turns, new summaries, and saved tokens.

    `stream` is the conversation after the compaction, `entries` are the recorded compactions, and
    `now` is the estimated number of message tokens that are sent now.
    """
    parts = [render_treatment(stream)]
    for entry in entries:
        if entry.summary is not None:
            turns = f"The summary of {TurnRange(entry.from_turn, entry.to_turn)}:"
            said = entry.summary.summary
            parts.append(join_reports([turns, Report(sanitize_markdown(said), plain(said))]))

    note = (
        f"About {now:,} tokens of messages are sent instead of {plan.before:,}. The record keeps "
        "everything. Undo: `%jp compact --undo`"
    )
    return add_note(join_reports(parts, between="\n\n"), note)


def render_compaction_preview(plan: CompactionPlan) -> Report:
    """Return the expected result of `plan`."""
    note = f"About {plan.after:,} tokens of messages would be sent instead of {plan.before:,}"
    if any(cut.rule.summary is not None for cut in plan.steps):
        note += ", plus the summary, which is not written yet"

    return add_note(render_treatment(plan.outcome), f"{note}. Nothing has changed.")
