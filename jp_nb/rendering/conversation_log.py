"""The log of a conversation: its turns, and who changed its configuration.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import assert_never

from jp_nb.agent.decisions import SKIPPED
from jp_nb.agent.questions import NOT_ANSWERED
from jp_nb.config.masking import is_secret, masked
from jp_nb.config.paths import Element, format_path, parse_path
from jp_nb.config.secret_names import NOT_SHOWN, SECRET_ANSWER, without_credentials
from jp_nb.errors import ConfigError
from jp_nb.record.answer_words import LEFT
from jp_nb.record.compaction_words import in_words
from jp_nb.record.compactions import placed_compactions
from jp_nb.record.conversations import Listed, listing
from jp_nb.record.document import Document
from jp_nb.record.entry import Entry
from jp_nb.record.proposals import ProposedBy
from jp_nb.record.turn_view import (
    ConfigChange,
    Inquiry,
    Part,
    StructuredData,
    Text,
    ToolCall,
    Turn,
)
from jp_nb.rendering.markdown import code_block, safe_markdown
from jp_nb.rendering.question_card import answer_as_json, marks_in_words
from jp_nb.rendering.report import MAX_CELL_CHARS, Report, table
from jp_nb.rendering.tool_calls import for_user
from jp_nb.rendering.wording import by_in_words
from jp_nb.safe_text import (
    escape_markdown,
    escape_unseen,
    one_line,
    plain,
    shown_name,
    spell_unseen,
)

MAX_COMPACTIONS = 20
"""So many are listed after one turn: somebody else may have recorded any number."""
MAX_NAMED = 5
"""Of the tools that proposed one change."""
_NAME = re.compile(r"[\w.-]{1,64}")
_CHANNELS = {
    "form": "through the form",
    "stdin": "through the input field",
    "terminal": "in the terminal",
    "answers": "in the answers file",
}
_UNANSWERED = {
    "failed": "✗ failed: no answer",
    "interrupted": "⏹ interrupted before the answer",
}
_BROKEN_OFF = {
    "failed": "✗ failed: the answer is incomplete",
    "interrupted": "⏹ interrupted",
    "stopped": "⏹ stopped by you",
}


def log(
    document: Document,
    turns: Sequence[Turn],
    *,
    total: int | None = None,
    image_hosts: Collection[str] = (),
) -> Report:
    """`turns` as a conversation, and the other conversations of the notebook.

    Args:
        document: The conversations.
        turns: Those to show, the last ones.
        total: How many turns there are, if not all are shown.
        image_hosts: The hosts whose images in answers are shown, not linked.
    """
    markdown: list[str] = []
    text: list[str] = []
    if total is not None and total > len(turns):
        earlier = total - len(turns)
        word = "turn" if earlier == 1 else "turns"
        said = f"{earlier} earlier {word} hidden. Show all: `%jp log {total}`"
        markdown.append(f"*{said}*")
        text.append(said)
    shorter = _compactions(document.conversation.entries) if turns else {}
    for turn in turns:
        for shown in (*_turn(turn, image_hosts), *shorter.get(turn.number, ())):
            markdown.append(shown.markdown)
            text.append(shown.text)
    if not turns:
        markdown.append("*no turn yet*")
        text.append("no turn yet")
    if document.others:
        others = conversations_table(document)
        markdown.append(f"Other conversations in this notebook:\n\n{others.markdown}")
        text += ["other conversations in this notebook:", others.text]
    return Report("\n\n".join(markdown), "\n".join(text))


def _speaker(part: Part) -> str:
    if not (isinstance(part, Text) and part.by_person):
        return "assistant"
    return "you" if part.by is None else f"asked by {shown_name(part.by)}"


def _turn(turn: Turn, image_hosts: Collection[str]) -> Iterator[Report]:
    """Yield what was asked, then under the assistant's name what came, in its order."""
    parts = turn.parts or _parts(turn)
    asked = (x for x in parts if isinstance(x, Text) and x.by_person)
    request = next(asked, Text(turn.request, by_person=True))
    speaker = _speaker(request)
    heading, before = f"{turn.number} · {escape_markdown(speaker)}", f"{turn.number} {speaker}:"
    yield _spoken(heading, before, request.content, image_hosts)
    for image in turn.images:
        yield _line(f"[image: {image.words}]")
    for part in (x for x in parts if x is not request):
        if isinstance(part, ConfigChange) and not (part.delta or part.unsets or part.begins_again):
            continue  # it changed only whose a value is
        says = _speaker(part)
        if says != speaker and not isinstance(part, ConfigChange):
            speaker = says
            yield Report(f"**{turn.number} · {escape_markdown(says)}**", f"{turn.number} {says}:")
        yield _part(part, image_hosts)
    if turn.uncalled:
        yield _line(f"⚠ {uncalled_words(turn.uncalled)}")
    if end := _end(turn):
        yield _line(end)


def _compactions(entries: Sequence[Entry]) -> dict[int, list[Report]]:
    """Return what was made shorter for the model, by the turn after which that was."""
    found: dict[int, list[Report]] = {}
    counts: Counter[int] = Counter()
    for placed in placed_compactions(entries):
        entry, lines = placed.of_its_time, found.setdefault(placed.after, [])
        counts[placed.after] += 1
        if counts[placed.after] > MAX_COMPACTIONS:
            continue
        end = " (undone)" if placed.taken_back else ""
        lines.append(_line(f"⊟ {in_words([entry])} from here on{end}"))
        if entry.summary is not None and not placed.taken_back:
            said = entry.summary.summary
            lines.append(Report(safe_markdown(said), _within(plain(said))))
    for turn, count in counts.items():
        if count > MAX_COMPACTIONS:
            found[turn].append(_line(f"⊟ and {count - MAX_COMPACTIONS} more"))
    return found


def _spoken(heading: str, before: str, content: str, image_hosts: Collection[str]) -> Report:
    shown = _within(plain(content)).lstrip()
    return Report(
        f"**{heading}**\n\n{safe_markdown(content, image_hosts=image_hosts)}", f"{before} {shown}"
    )


def _within(text: str) -> str:
    """`text` farther in than anything of ours: no line of it passes for one."""
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())


def _parts(turn: Turn) -> Sequence[Part]:
    """Return what is known of a turn without its order."""
    said: list[Part] = [
        Text(turn.request, by_person=True),
        *turn.tool_calls,
        *turn.inquiries,
        *turn.config_changes,
    ]
    said += [Text(turn.text)] if turn.text else []
    return [*said, StructuredData(turn.data)] if turn.data is not None else said


def _part(part: Part, image_hosts: Collection[str]) -> Report:
    match part:
        case Text(content=content):
            shown = safe_markdown(content, image_hosts=image_hosts)
            return Report(shown, _within(plain(content)))
        case StructuredData(data=data):
            shown = plain(json.dumps(data, ensure_ascii=False, indent=2))
            return Report(code_block(shown, "json"), _within(shown))
        case ToolCall():
            return _line(_call(part))
        case Inquiry():
            return _line(_inquiry(part))
        case ConfigChange():
            return _line(_change(part))
        case _:
            assert_never(part)


def _line(text: str) -> Report:
    line = one_line(text, limit=1000)
    return Report(f"- {escape_markdown(line)}", f"  {line}")


def _end(turn: Turn) -> str:
    """Return how the turn ended, if not well; "" if it did, or nobody knows."""
    if turn.left_out:
        taken = "; its settings were reverted" if turn.taken_back else ""
        how = _UNANSWERED.get(turn.status, "✗ no answer")
        return f"{how} (this turn is not sent to models{taken})"
    return _BROKEN_OFF.get(turn.status, "")


def conversations_table(document: Document, *, with_active: bool = False) -> Report:
    """Return the conversations of `document` as a table, the active one only if asked for."""
    rows = [
        (
            x.id,
            " ".join(filter(None, (x.title, "(active)" if x.active else None))),
            "damaged" if x.damaged else f"{x.turns} turn{'' if x.turns == 1 else 's'}",
            x.made or "",
            _parent(x),
        )
        for x in listing(document)
        if with_active or not x.active
    ]
    return table(("id", "title", "turns", "made", "from"), rows)


def _parent(listed: Listed) -> str:
    if listed.parent is None:
        return ""
    return (
        listed.parent
        if listed.parent_turn is None
        else f"{listed.parent}, turn {listed.parent_turn}"
    )


def uncalled_words(required: str) -> str:
    """Return the sentence about a required tool call that the model did not make."""
    return f"a call of {required} was required, but the model made none"


def _call(call: ToolCall) -> str:
    arguments = ", ".join(
        f"{spell_unseen(key)}={escape_unseen(json.dumps(value, ensure_ascii=False))}"
        for key, value in call.arguments.items()
    )
    mark = "⊘" if was_skipped(call) else {None: "…", True: "✗", False: "✓"}[call.is_error]
    result = one_line(for_user(call.name, call.content or ""), limit=MAX_CELL_CHARS)
    shown = plain(f"{spell_unseen(call.name)}({arguments})", limit=120)
    images = "".join(f" · {image.words}" for image in call.images)
    return f"{mark} {shown}{_edited(call)} → {result}{images}"


def was_skipped(call: ToolCall) -> bool:
    """Return True if the model was told that somebody did not want `call`, or closed its form."""
    told = call.content or ""
    return told in NOT_ANSWERED.values() or told.startswith(SKIPPED.removesuffix("."))


def _edited(call: ToolCall) -> str:
    """Return who changed the arguments of `call` before it ran."""
    if call.edited_by is None:
        return ""
    where = f" {_CHANNELS[call.channel]}" if call.channel in _CHANNELS else ""
    return f" (arguments edited by you{where})"


def _inquiry(inquiry: Inquiry) -> str:
    if inquiry.outcome == "answered":
        end = f"→ {answer_as_json(dict(inquiry.answer_type), inquiry.answer)}"
    elif inquiry.outcome == "redacted":
        end = f"→ {SECRET_ANSWER}"
    else:
        end = f"— {LEFT.get(inquiry.end or '') or inquiry.reason or 'open'}"
    channel = f" ({inquiry.channel})" if inquiry.channel else ""
    about = f"{channel}{marks_in_words(inquiry.marks)}{by_in_words(inquiry.by)}"
    return f"? {one_line(inquiry.question, limit=300)} {one_line(end, limit=300)}{about}"


def _change(change: ConfigChange) -> str:
    if change.begins_again:
        return f"⟳ configuration reset{_proposed(change)}"
    shown = json.dumps(masked(dict(change.delta)), ensure_ascii=False)
    says = [one_line(shown, limit=300)] if change.delta else []
    back = frozenset(change.taken_back)
    for word, taken in (("unset", False), ("reverted", True)):
        found = [path for path in change.unsets if (path in back) is taken]
        if found:
            # Each path has a character or more: what comes after so many is cut off anyway.
            paths = ", ".join(map(masked_path, found[:MAX_CELL_CHARS]))
            says.append(f"{word} {one_line(paths, limit=200)}")
    return f"⟳ configuration {', '.join(says)}{_proposed(change)}"


def masked_path(path: str) -> str:
    """`path`, without an item of a list that may be a secret."""
    try:
        keys = parse_path(path)
    except ConfigError:
        return without_credentials(path)
    shown = [
        Element(NOT_SHOWN) if isinstance(key, Element) and is_secret(keys[:i]) else key
        for i, key in enumerate(keys)
    ]
    return without_credentials(format_path(shown))


def _proposed(change: ConfigChange) -> str:
    """Return which tools proposed `change`, and who let it count: those of one answer together."""
    tools: dict[str, dict[str, None]] = {}
    for call in change.proposed_by:
        tools.setdefault(_applied(call), {})[_name(call.tool)] = None
    said = [f"proposed by {_listed(names)}, {how}" for how, names in tools.items()]
    return f" ({_listed(said, '; ')})" if said else ""


def _applied(call: ProposedBy) -> str:
    if call.applied_by == "grant":
        return "applied by a grant"
    if call.channel is None:
        return f"applied by {_person(call)}"
    return f"applied by {_person(call)} {_CHANNELS.get(call.channel) or _name(call.channel)}"


def _person(call: ProposedBy) -> str:
    return "you" if call.by is None else shown_name(call.by)


def by_tools(calls: Iterable[ProposedBy]) -> list[str]:
    """Each of `calls` in a few words: `by tool t (applied by you, form)`."""
    said: dict[str, None] = {}
    for call in calls:
        who = "a grant" if call.applied_by == "grant" else _person(call)
        channel = f", {_name(call.channel)}" if call.channel is not None else ""
        said[f"by tool {_name(call.tool)} (applied by {who}{channel})"] = None
    return _first(said)


def _name(text: str) -> str:
    """`text` if it is what tools are called; else in quotes: it cannot pass for our own words."""
    return text if _NAME.fullmatch(text) else json.dumps(one_line(text, limit=60))


def _listed(names: Iterable[str], between: str = ", ") -> str:
    return between.join(_first(names))


def _first(names: Iterable[str]) -> list[str]:
    """The first of `names`, and how many more there are."""
    found = list(names)
    more = len(found) - MAX_NAMED
    return [*found[:MAX_NAMED], f"and {more} more"] if more > 0 else found
