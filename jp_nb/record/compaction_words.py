"""What becomes of turns that are sent shorter, in words.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Sequence

from jp_nb.record.compacted import TurnTreatment
from jp_nb.record.events import Compaction, ToolCallPolicy

WHOLE = "whole"
MAX_NAMED = 10
"""Of compactions: somebody else may have recorded any number."""


def in_words(entries: Sequence[Compaction]) -> str:
    """Return what `entries` make of which turns: `turns 1 to 4 are sent as a summary`."""
    more = len(entries) - MAX_NAMED
    said = [f"{turns_in_words(entry)} {_becomes(entry)}" for entry in entries[:MAX_NAMED]]
    return ", ".join([*said, *([f"and {more} more"] if more > 0 else [])])


def as_sentence(entries: Sequence[Compaction]) -> str:
    """Return the same as a line of its own: `⊟ Turns 1 to 4 are sent as a summary from here on`."""
    words = in_words(entries)
    return f"⊟ {words[:1].upper()}{words[1:]} from here on"


def turns_in_words(entry: Compaction) -> str:
    """Return the turns of `entry` and a verb: `turns 1 to 4 are`."""
    if entry.from_turn == entry.to_turn:
        return f"turn {entry.from_turn} is"
    return f"turns {entry.from_turn} to {entry.to_turn} are"


def _becomes(entry: Compaction) -> str:
    if entry.summary is not None:
        return "sent as a summary"
    said = _without(entry.reasoning is not None, entry.tool_calls)
    return f"sent {said}" if said != WHOLE else "sent as before"


def how_sent(treatment: TurnTreatment) -> str:
    """Return how a turn is sent: `whole`, `as a summary`, `without reasoning`."""
    if treatment.summary is not None:
        return "as a summary"
    return _without(treatment.without_reasoning, treatment.tool_calls)


def _without(reasoning: bool, policy: ToolCallPolicy | None) -> str:
    gone = ["reasoning"] if reasoning else []
    if policy is not None and policy.policy == "omit":
        gone.append("tool calls")
    elif policy is not None:
        halves = (("arguments of tool calls", policy.request), ("tool results", policy.response))
        gone += [words for words, is_gone in halves if is_gone]
    *others, last = gone or [""]
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"without {listed}" if last else WHOLE
