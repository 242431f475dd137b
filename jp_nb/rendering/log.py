"""Recorded turns: the log, and the comparison of two records.

The comparison ignores ids and times, because they differ in each run. Secrets are masked, and
differing inactive conversations are only counted. Everything else is shown completely and exactly.
The work is linear in the size of the records.

Source: `docs/guide.md`, `docs/decisions.md` D121.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from pydantic import JsonValue

from jp_nb.agent.permission_rules import describe_rule
from jp_nb.config.partial import is_wrapper
from jp_nb.config.schema import (
    JSON,
    ROOT,
    Element,
    SchemaNode,
    format_path,
    is_secret_path,
    mask_secrets,
    parse_path,
)
from jp_nb.config.secrets import NOT_SHOWN, SECRET_ANSWER, hide_credentials
from jp_nb.errors import ConfigError
from jp_nb.json_values import as_object, canonical_json, indented_json, sorted_json
from jp_nb.record.compaction import PlacedCompaction, find_compactions, format_compactions
from jp_nb.record.document import Document, get_conversation_head, get_events, list_conversations
from jp_nb.record.events import ChatRequest, ChatResponse, Entry, InquiryRequest
from jp_nb.record.marks import read_usage
from jp_nb.record.stream import ProposedBy
from jp_nb.record.turn_numbers import to_shown_turn
from jp_nb.record.turn_view import (
    ConfigChange,
    Inquiry,
    RejectedAnswer,
    StructuredData,
    ToolCall,
    Turn,
    TurnPart,
    TurnText,
    read_turns,
)
from jp_nb.rendering.markdown import sanitize_markdown
from jp_nb.rendering.question_text import format_outcome, make_question_card
from jp_nb.rendering.report import (
    MAX_CELL_CHARS,
    Report,
    indent_text,
    join_reports,
    make_block,
    make_heading,
    make_line,
    make_note,
    make_remark,
    make_table,
)
from jp_nb.rendering.setting_text import NO_TOOLSETS, Toolsets, split_change
from jp_nb.rendering.text_diff import diff_lines, find_same_runs
from jp_nb.rendering.transcript import (
    format_approver,
    format_call,
    format_content_for_user,
    format_name,
    format_rule_note,
    get_call_mark,
)
from jp_nb.text import (
    MAX_FEW_NAMES,
    MAX_LISTED_LINES,
    MAX_PLAIN_CHARS,
    escape_invisible,
    format_user_name,
    one_line,
    plain,
)
from jp_nb.toolkit.base import remove_frame

_UNANSWERED = {
    "failed": "✗ failed: no answer",
    "interrupted": "⏹ interrupted before the answer",
}
_INCOMPLETE = {
    "failed": "✗ failed: the answer is incomplete",
    "interrupted": "⏹ interrupted",
    "stopped": "⏹ stopped by you",
}


def render_log(
    document: Document,
    turns: Sequence[Turn],
    *,
    total: int | None = None,
    image_hosts: Collection[str] = (),
    toolsets: Toolsets = NO_TOOLSETS,
    as_typed: bool = False,
) -> Report:
    """Return the last `turns` as a conversation, and the other conversations of the notebook.

    `total` is the number of all turns. Only images of `image_hosts` are shown; others are linked.
    `toolsets` name the tools that are switched together. With `as_typed`, requests are shown as the
    user typed them, without the values of the notebook that they were sent with. Use it only for a
    trusted record, because its author chose what it says.
    """
    parts: list[Report | str] = []
    if (earlier := (total or 0) - len(turns)) > 0:
        word = "turn" if earlier == 1 else "turns"
        parts.append(make_note(f"{earlier} earlier {word} hidden. Show all: `%jp log {total}`"))
    compactions: dict[int, list[PlacedCompaction]] = {}  # by the turn before them
    for placed in find_compactions(document.conversation.entries) if turns else ():
        compactions.setdefault(placed.after, []).append(placed)
    for turn in turns:
        shown = _as_typed(turn) if as_typed else turn
        parts += _turn_reports(shown, image_hosts, toolsets)
        parts += _compaction_reports(compactions.get(turn.number, []))
    if not turns:
        parts.append(make_remark("No turns in this conversation yet."))
    if document.others:
        parts += ["Other conversations in this notebook:", render_conversations(document)]
    return join_reports(parts)


def _as_typed(turn: Turn) -> Turn:
    """Return `turn` with the words of the user as the text of its request."""
    parts = tuple(
        replace(part, content=part.typed) if isinstance(part, TurnText) and part.typed else part
        for part in turn.parts
    )
    return replace(turn, parts=parts)


def _get_speaker(part: TurnPart) -> str:
    if isinstance(part, RejectedAnswer):
        return "answer rejected"
    if not (isinstance(part, TurnText) and part.by_person):
        return "assistant"
    return "you" if part.by is None else f"asked by {format_user_name(part.by)}"


def _turn_reports(turn: Turn, image_hosts: Collection[str], toolsets: Toolsets) -> Iterator[Report]:
    requests = (x for x in turn.parts if isinstance(x, TurnText) and x.by_person)
    request = next(requests, TurnText("", by_person=True))
    speaker = _get_speaker(request)
    asked = _part_report(request, image_hosts, toolsets)
    number = to_shown_turn(turn.number)
    begins = make_heading(f"{number} · {speaker}")
    text = f"{number} {speaker}: {asked.text.lstrip()}"
    yield Report(f"{begins.markdown}\n\n{asked.markdown}", text)
    for image in turn.images:
        yield _line_report(f"[{image.noun}: {image.words}]")
    for part in (x for x in turn.parts if x is not request):
        if isinstance(part, ConfigChange) and not (part.delta or part.unsets or part.begins_again):
            continue  # only the source of a value changed
        says = _get_speaker(part)
        if says != speaker and not isinstance(part, ConfigChange):
            speaker = says
            yield Report(make_heading(f"{number} · {says}").markdown, f"{number} {says}:")
        yield _part_report(part, image_hosts, toolsets)
    if turn.uncalled:
        yield _line_report(f"⚠ {describe_uncalled_tool(turn.uncalled)}")
    if turn.left_out:
        taken = "; its settings were reverted" if turn.taken_back else ""
        how = _UNANSWERED.get(turn.status, "✗ no answer")
        yield _line_report(f"{how} (this turn is not sent to models{taken})")
    elif turn.status in _INCOMPLETE:
        yield _line_report(_INCOMPLETE[turn.status])


def _compaction_reports(compactions: list[PlacedCompaction]) -> Iterator[Report]:
    for placed in compactions[:MAX_LISTED_LINES]:
        entry = placed.effective
        end = " (undone)" if placed.is_reverted else ""
        yield _line_report(f"⊟ {format_compactions([entry])} from here on{end}")
        if entry.summary is not None and not placed.is_reverted:
            said = entry.summary.summary
            yield Report(sanitize_markdown(said), indent_text(plain(said)))
    if (more := len(compactions) - MAX_LISTED_LINES) > 0:
        yield _line_report(f"⊟ and {more} more")


def _part_report(part: TurnPart, image_hosts: Collection[str], toolsets: Toolsets) -> Report:
    match part:
        case TurnText(content=content, by_person=by_person):
            # Markdown joins lines that do not end in two spaces.
            markdown = content.replace("\n", "  \n") if by_person else content
            shown = sanitize_markdown(markdown, image_hosts=image_hosts)
            return Report(shown, indent_text(plain(content)))
        case StructuredData(data=data):
            return make_block(indented_json(data), "json", limit=MAX_PLAIN_CHARS)
        case RejectedAnswer(content=content):
            return Report(sanitize_markdown(content), indent_text(plain(content)))
        case ToolCall():
            return _line_report(_format_call(part))
        case Inquiry():
            return _line_report(_format_inquiry(part))
        case ConfigChange():
            return _line_report(_format_change(part, toolsets))
        case _:
            assert_never(part)


def _line_report(text: str) -> Report:
    shown = make_line(text, limit=1000)  # one line of the log
    return Report(f"- {shown.markdown}", f"  {shown.text}")


def render_conversations(document: Document, *, with_active: bool = False) -> Report:
    """Return the other conversations of `document` as a table, or all `with_active`."""
    rows = []
    for each in list_conversations(document):
        if with_active or not each.active:
            title = " ".join(filter(None, (each.title, "(active)" if each.active else None)))
            turns = f"{each.turns} turn{'' if each.turns == 1 else 's'}"
            parent = each.parent or ""
            if each.parent is not None and each.parent_turn is not None:
                parent = f"{parent}, turn {to_shown_turn(each.parent_turn)}"
            state = "damaged" if each.damaged else turns
            rows.append((each.id, title, state, each.made or "", parent))
    return make_table(("id", "title", "turns", "made", "from"), rows)


def describe_uncalled_tool(required: str) -> str:
    """Return the sentence about a required tool call that the model did not make."""
    return f"a call of {required} was required, but the model made none"


def _format_call(call: ToolCall) -> str:
    shown = format_call(call.name, call.arguments)
    if call.edited_by is not None:
        channel = f", {format_name(call.channel)}" if call.channel else ""
        shown = f"{shown} (arguments edited by you{channel})"
    if call.rule is not None:
        shown += format_rule_note(format_recorded_rule(call.rule))
    if call.is_error is None:
        return f"⚙ {shown} …"
    content = remove_frame(format_content_for_user(call.name, call.content or ""))
    result = one_line(content, limit=MAX_CELL_CHARS)
    images = "".join(f" · {image.words}" for image in call.images)
    return f"{get_call_mark(call)} {shown} → {result}{images}"


def format_recorded_rule(rule: Mapping[str, JsonValue]) -> str:
    """Return the rule of a record in words."""
    when = rule.get("when")
    only_these = rule.get("only_these") is True
    return describe_rule(when if isinstance(when, dict) else {}, only_these=only_these)


def _format_inquiry(inquiry: Inquiry) -> str:
    answered = inquiry.outcome == "answered"
    card = make_question_card(dict(inquiry.answer_type), inquiry.answer, answered=answered)
    # The card has the first line of a text, and the log has all lines in one.
    answer = inquiry.answer if isinstance(inquiry.answer, str) and card.own else card.words
    outcome = format_outcome(inquiry.ended, one_line(answer, limit=300))
    return f"? {one_line(inquiry.question, limit=300)} {outcome}"


def _format_change(change: ConfigChange, toolsets: Toolsets) -> str:
    if change.begins_again:
        return f"⟳ configuration reset{_format_proposers(change)}"

    words, delta = split_change(change.delta, toolsets)
    settings = ", ".join(_format_settings(delta))
    says = [one_line(settings, limit=300)] if settings else []
    back = frozenset(change.taken_back)
    for word, taken in (("unset", False), ("reverted", True)):
        if found := [path for path in change.unsets if (path in back) is taken]:
            # Each path has at least one character, so `one_line` would cut further paths.
            paths = ", ".join(map(mask_path, found[:MAX_CELL_CHARS]))
            says.append(f"{word} {one_line(paths, limit=200)}")
    if says:
        words.append(f"configuration {', '.join(says)}")
    return f"⟳ {one_line('; '.join(words), limit=600)}{_format_proposers(change)}"


def _format_settings(
    delta: Mapping[str, JsonValue], node: SchemaNode = ROOT, above: tuple[str, ...] = ()
) -> Iterator[str]:
    for key, value in delta.items():
        keys = (*above, key)
        below = node.child(key) or JSON
        is_whole = below.kind == "json" or is_wrapper(value, below)
        if isinstance(value, dict) and value and not is_whole:
            yield from _format_settings(value, below, keys)
        else:
            shown = json.dumps(mask_secrets(value, keys), ensure_ascii=False)
            yield f"{format_path(keys)} = {hide_credentials(shown)}"


def mask_path(path: str) -> str:
    """Return `path` without list items that may be secrets."""
    try:
        keys = parse_path(path)
    except ConfigError:
        return hide_credentials(path)
    shown = [
        Element(NOT_SHOWN) if isinstance(key, Element) and is_secret_path(keys[:i]) else key
        for i, key in enumerate(keys)
    ]
    return hide_credentials(format_path(shown))


def _format_proposers(change: ConfigChange) -> str:
    # Tools of one response are named together.
    tools: dict[str, dict[str, None]] = {}
    for call in change.proposed_by:
        tools.setdefault(_format_approval(call), {})[format_name(call.tool)] = None
    said = [f"proposed by {', '.join(_limit_names(names))}, {how}" for how, names in tools.items()]
    return f" ({'; '.join(_limit_names(said))})" if said else ""


def _format_approval(call: ProposedBy) -> str:
    return f"applied by {format_approver(call.applied_by, call.channel, call.by)}"


def format_proposing_tools(calls: Iterable[ProposedBy]) -> list[str]:
    """Return a short text for each of `calls`: `by tool t, applied by you (form)`."""
    texts = (f"by tool {format_name(call.tool)}, {_format_approval(call)}" for call in calls)
    return _limit_names(dict.fromkeys(texts))


def _limit_names(names: Iterable[str]) -> list[str]:
    found = list(names)
    more = len(found) - MAX_FEW_NAMES
    return [*found[:MAX_FEW_NAMES], f"and {more} more"] if more > 0 else found


# --- the comparison of two records -------------------------------------------------------------

INDENT: Final = "  "
_TITLE_CHARS: Final = 60
_IGNORED_KEYS: Final = frozenset({"event_id", "request_id", "timestamp", "id"})


@dataclass(frozen=True, slots=True)
class ComparedRecord:
    """The compared parts of a notebook's record, as lines.

    Attributes:
        beginning: Title and configuration of the active conversation.
        requests: The request of each turn.
        others: The other conversations, without ids and times.
    """

    beginning: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    turns: tuple[tuple[str, ...], ...] = ()
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Document) -> ComparedRecord:
        """Return the record in `document`, whose entries may be damaged."""
        stream = document.conversation
        turns = read_turns(stream)
        lines = [
            [*_turn_lines(turn), *_entry_lines(each.entries)]
            for turn, each in zip(turns, stream.turns(), strict=True)
        ]
        beginning = [f"title: {stream.title}"] if stream.title else []
        beginning += _json_lines("configuration", mask_secrets(stream.base_config))
        beginning += [f"damaged: {damage.message}" for damage in stream.damage]
        for placed in find_compactions(stream.entries):
            end = " (undone)" if placed.is_reverted else ""
            where = lines[placed.after] if 0 <= placed.after < len(lines) else beginning
            where.append(f"compaction: {format_compactions([placed.effective])}{end}")
        return cls(
            tuple(beginning),
            tuple(turn.request for turn in turns),
            tuple(map(tuple, lines)),
            tuple(map(_normalize_conversation, document.others)),
        )


def diff_records(before: ComparedRecord, after: ComparedRecord) -> list[str]:
    """Return the differences as lines; empty if the records are equal."""
    found: list[str] = []
    if lines := diff_lines(before.beginning, after.beginning):
        found += ["at the beginning", *map(str, lines), ""]
    for at, there in _pair_turns(before.requests, after.requests):
        now = before.turns[at] if at is not None else ()
        then = after.turns[there] if there is not None else ()
        if at is not None and there is not None and now == then:
            continue
        request = after.requests[there] if there is not None else before.requests[at or 0]
        title = escape_invisible(one_line(request, limit=_TITLE_CHARS))
        if at is None or there is None:
            only = there if at is None else at
            sign = "+" if at is None else "-"
            place = f"{sign} turn {to_shown_turn(only or 0)}"
        elif at == there:
            place = f"turn {to_shown_turn(at)}"
        else:
            place = f"turn {to_shown_turn(at)} → {to_shown_turn(there)}"
        found += [f"{place}: {title}", *map(str, diff_lines(now, then)), ""]
    gone = Counter(before.others)
    new = Counter(after.others)
    counts = ((gone - new).total(), "-"), ((new - gone).total(), "+")
    if others := [f"{sign} {count} without a counterpart" for count, sign in counts if count]:
        found += ["other conversations", *others, ""]
    return found


def _pair_turns(
    before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[int | None, int | None]]:
    # Pairs turns with equal requests. Between them, equal numbers of turns are paired in order.
    at = there = 0
    for run in find_same_runs(before, after):
        gone = range(at, run.at)
        new = range(there, run.there)
        if len(gone) == len(new):
            yield from zip(gone, new, strict=True)
        else:
            yield from ((index, None) for index in gone)
            yield from ((None, index) for index in new)
        yield from ((run.at + step, run.there + step) for step in range(run.length))
        at = run.at + run.length
        there = run.there + run.length


def _turn_lines(turn: Turn) -> Iterator[str]:
    for part in turn.parts:
        yield from _part_lines(part)
    yield from (
        f"{image.noun} of the request: {image.words}, {image.digest}" for image in turn.images
    )
    if turn.uncalled:
        yield describe_uncalled_tool(turn.uncalled)
    if turn.left_out:
        end = f" ({turn.status})" if turn.status else ""
        yield f"no answer{end}: this turn is not sent to models"
    usage = turn.usage
    counts = (
        (usage.input_tokens, "in"),
        (usage.cache_read_tokens, "from cache"),
        (usage.cache_write_tokens, "into cache"),
        (usage.output_tokens, "out"),
        (usage.reasoning_tokens, "reasoning"),
    )
    if tokens := ", ".join(f"{count:,} {word}" for count, word in counts if count is not None):
        yield f"tokens: {tokens}"


def _entry_lines(entries: Iterable[Entry]) -> Iterator[str]:
    # `Turn` has no author, reasoning, asker or model, so they are read from the entries.
    models: dict[str, None] = {}
    for entry in entries:
        models.update((used.model, None) for used in read_usage(entry.metadata) if used.model)
        match entry:
            case ChatRequest(author=str(author)):
                yield f"author: {author}"
            case ChatResponse(kind="reasoning", reasoning=reasoning):
                yield from _text_lines("reasoning", reasoning or "")
            case InquiryRequest(source=source, question=question):
                exclusive = ", which only a user may answer" if question.exclusive else ""
                yield f"question of {source.name or source.source}{exclusive}"
    if models:
        yield f"tokens of: {', '.join(models)}"


def _part_lines(part: TurnPart) -> Iterator[str]:
    match part:
        case TurnText(content=content, by_person=by_person):
            yield from _text_lines("you" if by_person else "assistant", content)
        case StructuredData(data=data):
            yield from _json_lines("answer", data)
        case RejectedAnswer(content=content):
            yield from _text_lines("answer rejected", content)
        case ToolCall():
            yield from _call_lines(part)
        case Inquiry():
            yield from _inquiry_lines(part)
        case ConfigChange():
            yield from _change_lines(part)
        case _:
            assert_never(part)


def _call_lines(call: ToolCall) -> Iterator[str]:
    yield f"call {call.name}"
    for name, value in sorted(call.arguments.items()):
        yield from _indent(_json_lines(name, value))
    if call.requested_arguments is not None:
        yield f"{INDENT}arguments edited by you"
        yield from _indent(_json_lines("model's arguments", dict(call.requested_arguments)))
    if call.rule is not None:
        rule = f"rule ({call.rule['from']}): {format_recorded_rule(call.rule)}"
        yield f"{INDENT}{escape_invisible(one_line(rule, limit=MAX_CELL_CHARS))}"
    if call.content is None:
        yield f"{INDENT}no result"
    else:
        yield from _indent(_text_lines("error" if call.is_error else "result", call.content))
    yield from (f"{INDENT}{image.noun}: {image.words}, {image.digest}" for image in call.images)


def _inquiry_lines(inquiry: Inquiry) -> Iterator[str]:
    yield from _text_lines("question", inquiry.question)
    yield from _indent(_json_lines("kind", dict(inquiry.answer_type)))
    by = f"by {format_user_name(inquiry.by)}" if inquiry.by is not None else None
    ended = inquiry.ended
    # An answered question may have another end, such as a timeout.
    other = f"end: {ended.unexpected}" if ended.is_answered and ended.unexpected else None
    said = [inquiry.channel, *inquiry.marks, other, by]
    about = ", ".join(filter(None, said))
    shown = f" ({about})" if about else ""
    match inquiry.outcome:
        case "answered":
            answer = json.dumps(inquiry.answer, ensure_ascii=False)
            yield f"{INDENT}answer{shown}: {answer}"
        case "redacted":
            yield f"{INDENT}answer{shown}: {SECRET_ANSWER}"
        case _:
            yield f"{INDENT}no answer{shown}: {inquiry.end or inquiry.reason or 'open'}"
            if inquiry.reason and inquiry.end:
                yield f"{INDENT}reason: {inquiry.reason}"


def _change_lines(change: ConfigChange) -> Iterator[str]:
    if not (change.delta or change.unsets or change.begins_again):
        return  # only the source of a value changed
    yield "configuration reset" if change.begins_again else "configuration"
    if change.delta:
        yield from _indent(_json_lines("set", mask_secrets(dict(change.delta))))
    yield from (f"{INDENT}unset {mask_path(path)}" for path in change.unsets)
    yield from (f"{INDENT}{said}" for said in format_proposing_tools(change.proposed_by))


def _text_lines(name: str, text: str) -> Iterator[str]:
    yield f"{name}:"
    yield from _indent(text.split("\n"))


def _json_lines(name: str, value: JsonValue) -> Iterator[str]:
    # Front ends may sort the keys when they save a notebook, so the keys are always sorted.
    first, *more = indented_json(json.loads(sorted_json(value))).split("\n")
    yield f"{name}: {first}"
    yield from more


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"{INDENT}{line}" if line else "" for line in lines)


def _normalize_conversation(entry: JsonValue) -> str:
    if not get_events(entry):
        return canonical_json(entry)
    events: list[JsonValue] = [
        {key: value for key, value in event.items() if key not in _IGNORED_KEYS}
        if isinstance(event, dict)
        else event
        for event in get_events(entry)
    ]
    title = get_conversation_head(entry).get("title")
    config = as_object(entry).get("base_config")
    return canonical_json({"title": title, "base_config": config, "events": events})
