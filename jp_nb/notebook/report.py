"""Tables and logs that magics show, as Markdown and as plain text.

Source: `design/interface.md` section 2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jp_nb.agent.exact import exact, visible
from jp_nb.config.paths import Element, format_path, parse_path
from jp_nb.config.secrets import HIDDEN, is_secret, masked, without_credentials
from jp_nb.errors import ConfigError
from jp_nb.notebook.markdown import safe_markdown
from jp_nb.notebook.prompt.plain import markdown as no_markup
from jp_nb.notebook.prompt.plain import one_line, plain
from jp_nb.record.conversations import Listed, listing
from jp_nb.record.document import Document
from jp_nb.record.proposals import ProposedBy
from jp_nb.record.turn_view import ConfigChange, Inquiry, ToolCall, Turn

MAX_CELL_CHARS = 200
MAX_NAMED = 5
"""Of the tools that proposed one change."""
_NAME = re.compile(r"[\w.-]{1,64}")
_CHANNELS = {
    "form": "through the form",
    "stdin": "through the input field",
    "terminal": "in the terminal",
}

SUBCOMMANDS = (
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


@dataclass(frozen=True, slots=True)
class Report:
    """The same content twice."""

    markdown: str
    text: str


def show(shell: Any, report: Report) -> None:
    """Display `report` in the running cell."""
    bundle = {"text/markdown": report.markdown, "text/plain": report.text}
    shell.display_pub.publish(data=bundle, metadata={})


def plain_text(text: str) -> str:
    """`text` for a stream or an error: nothing in it that a terminal acts on."""
    return plain(text)


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, limit: int = MAX_CELL_CHARS
) -> Report:
    """`rows` under `head`; cells are cut after `limit` characters."""
    cells = [[one_line(cell, limit=limit) for cell in row] for row in rows]
    if not cells:
        return Report("*nothing*", "nothing")
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()

    # A table is cut at its bars before anything else is read, also inside code.
    marked = [[no_markup(cell).replace("|", "\\|") for cell in row] for row in cells]
    markdown = [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in marked),
    ]
    return Report("\n".join(markdown), "\n".join(line(row) for row in [list(head), *cells]))


def subcommands() -> Report:
    """What `%jp` can do."""
    listed = table(("%jp", "does"), SUBCOMMANDS)
    rest = "A request to the model is written below %%jp."
    return Report(f"{listed.markdown}\n\n{rest}", f"{listed.text}\n{rest}")


def log(document: Document, turns: Sequence[Turn], *, image_hosts: Collection[str] = ()) -> Report:
    """`turns` as a conversation, and the other conversations of the notebook."""

    def safe(text: str) -> str:
        return safe_markdown(text, image_hosts=image_hosts)

    markdown: list[str] = []
    text: list[str] = []
    for turn in turns:
        markdown.append(f"**{turn.number} · you**\n\n{safe(turn.request)}")
        text.append(f"{turn.number} you: {plain(turn.request)}")
        for line in (one_line(text, limit=1000) for text in _happenings(turn)):
            markdown.append(f"- {no_markup(line)}")
            text.append(f"  {line}")
        if turn.text:
            markdown.append(safe(turn.text))
            text.append(plain(turn.text))
    if not turns:
        markdown.append("*no turn yet*")
        text.append("no turn yet")
    if document.others:
        others = _others(document)
        markdown.append(f"Other conversations in this notebook:\n\n{others.markdown}")
        text += ["other conversations in this notebook:", others.text]
    return Report("\n\n".join(markdown), "\n".join(text))


def _others(document: Document) -> Report:
    rows = [
        (
            x.id,
            x.title or "",
            "damaged" if x.damaged else f"{x.turns} turn{'' if x.turns == 1 else 's'}",
            x.made or "",
            _parent(x),
        )
        for x in listing(document)
        if not x.active
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


def _happenings(turn: Turn) -> list[str]:
    return [
        *(_call(call) for call in turn.tool_calls),
        *(_inquiry(inquiry) for inquiry in turn.inquiries),
        *(_change(x) for x in turn.config_changes if x.delta or x.unsets or x.begins_again),
        *([f"⚠ {turn.uncalled} was demanded and not called"] if turn.uncalled else []),
        *([_no_answer(turn)] if turn.left_out else []),
    ]


def _no_answer(turn: Turn) -> str:
    how = f" ({turn.status})" if turn.status in ("failed", "interrupted") else ""
    taken = "; its settings were taken back" if turn.taken_back else ""
    return f"⊘ no answer{how}: models are not sent this turn{taken}"


def _call(call: ToolCall) -> str:
    arguments = ", ".join(
        f"{visible(key)}={exact(json.dumps(value, ensure_ascii=False))}"
        for key, value in call.arguments.items()
    )
    mark = {None: "…", True: "✗", False: "✓"}[call.is_error]
    result = one_line(call.content or "", limit=MAX_CELL_CHARS)
    shown = plain(f"{visible(call.name)}({arguments})", limit=120)
    return f"{mark} {shown}{_edited(call)} → {result}"


def _edited(call: ToolCall) -> str:
    """Who changed the arguments of `call` before it ran."""
    if call.edited_by is None:
        return ""
    where = f" {_CHANNELS[call.channel]}" if call.channel in _CHANNELS else ""
    return f" (arguments edited by you{where})"


def _inquiry(inquiry: Inquiry) -> str:
    if inquiry.outcome == "answered":
        end = f"→ {json.dumps(inquiry.answer, ensure_ascii=False)}"
    elif inquiry.outcome == "redacted":
        end = "→ (secret)"
    else:
        end = f"— {inquiry.reason or 'open'}"
    channel = f" ({inquiry.channel})" if inquiry.channel else ""
    return f"? {one_line(inquiry.question, limit=300)} {one_line(end, limit=300)}{channel}"


def _change(change: ConfigChange) -> str:
    if change.begins_again:
        return f"⟳ configuration begins again{_proposed(change)}"
    shown = json.dumps(masked(dict(change.delta)), ensure_ascii=False)
    says = [one_line(shown, limit=300)] if change.delta else []
    back = frozenset(change.taken_back)
    for word, taken in (("unset", False), ("taken back", True)):
        found = [path for path in change.unsets if (path in back) is taken]
        if found:
            paths = ", ".join(map(_masked_path, found[:MAX_CELL_CHARS]))
            says.append(f"{word} {one_line(paths, limit=200)}")
    return f"⟳ configuration {', '.join(says)}{_proposed(change)}"


def _masked_path(path: str) -> str:
    """`path`, without an item of a list that may be a secret."""
    try:
        keys = parse_path(path)
    except ConfigError:
        return without_credentials(path)
    shown = [
        Element(HIDDEN) if isinstance(key, Element) and is_secret(keys[:i]) else key
        for i, key in enumerate(keys)
    ]
    return without_credentials(format_path(shown))


def _proposed(change: ConfigChange) -> str:
    """Which tools proposed `change`, and who let it count: those of one answer together."""
    tools: dict[str, dict[str, None]] = {}
    for call in change.proposed_by:
        tools.setdefault(_applied(call), {})[_name(call.tool)] = None
    said = [f"proposed by {_listed(names)}, {how}" for how, names in tools.items()]
    return f" ({_listed(said, '; ')})" if said else ""


def _applied(call: ProposedBy) -> str:
    if call.applied_by == "grant":
        return "applied by a grant"
    if call.channel is None:
        return "applied by you"
    return f"applied by you {_CHANNELS.get(call.channel) or _name(call.channel)}"


def by_tools(calls: Iterable[ProposedBy]) -> list[str]:
    """Each of `calls` in a few words: `by tool t (applied by you, form)`."""
    said: dict[str, None] = {}
    for call in calls:
        who = "a grant" if call.applied_by == "grant" else "you"
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
