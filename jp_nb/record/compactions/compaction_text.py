"""The effect of compactions as text for the user.

Source: `docs/configuration.md` (RFD 064).
"""

from __future__ import annotations

from collections.abc import Sequence

from jp_nb.record.compactions.compaction_range import TurnRange
from jp_nb.record.compactions.turn_treatments import TurnTreatment
from jp_nb.record.entries.events import Compaction, ToolCallPolicy
from jp_nb.text import MAX_ITEMS_IN_LINE

SENT_WHOLE = "whole"
"""The effect on a turn of which nothing is omitted."""


def format_compactions(entries: Sequence[Compaction]) -> str:
    """Return a text such as `turns 1 to 4 are sent as a summary`."""
    more = len(entries) - MAX_ITEMS_IN_LINE
    texts = [_format_compaction(entry) for entry in entries[:MAX_ITEMS_IN_LINE]]
    if more > 0:
        texts.append(f"and {more} more")
    return ", ".join(texts)


def format_compaction_line(entries: Sequence[Compaction]) -> str:
    """Return a line such as `⊟ Turns 1 to 4 are sent as a summary from here on`."""
    text = format_compactions(entries)
    return f"⊟ {text[:1].upper()}{text[1:]} from here on"


def _format_compaction(entry: Compaction) -> str:
    turns = TurnRange(entry.from_turn, entry.to_turn)
    effect = "as a summary"
    if entry.summary is None:
        has_reasoning_policy = entry.reasoning is not None
        effect = _format_omissions(has_reasoning_policy, entry.tool_calls)

    verb = "is" if turns.first == turns.last else "are"
    form = "as before" if effect == SENT_WHOLE else effect  # a policy that strips nothing
    return f"{turns} {verb} sent {form}"


def format_treatment(treatment: TurnTreatment) -> str:
    """Return a text such as `whole`, `as a summary`, or `without reasoning`."""
    if treatment.summary is not None:
        return "as a summary"
    return _format_omissions(treatment.without_reasoning, treatment.tool_calls)


def _format_omissions(reasoning: bool, policy: ToolCallPolicy | None) -> str:
    """Return a text such as `without reasoning and tool calls`; `SENT_WHOLE` without omissions."""
    omitted = ["reasoning"] if reasoning else []

    if policy is not None and policy.policy == "omit":
        omitted.append("tool calls")
    elif policy is not None:
        parts = (("arguments of tool calls", policy.request), ("tool results", policy.response))
        omitted += [text for text, is_omitted in parts if is_omitted]

    if not omitted:
        return SENT_WHOLE

    *others, last = omitted
    if not others:
        return f"without {last}"
    listed = ", ".join(others)
    return f"without {listed} and {last}"
