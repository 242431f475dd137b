"""The notice about a turn that can be continued, with the state of its tool calls.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from jp_nb.record.call_progress import OpenCall
from jp_nb.record.cut_short import CutShort
from jp_nb.rendering.wording import one_name

MAX_NAMED: Final = 5
"""Tools that are named in one sentence."""


def interrupted_turn(found: CutShort, finished: Sequence[str] = ()) -> str:
    """Return the notice that `found` can be continued.

    Args:
        found: The turn.
        finished: Names of the tools whose results the journal kept.
    """
    sentences = [f"turn {found.turn} was interrupted."]
    if finished:
        sentences.append(finished_words(finished))
    sentences += state_words(found.open_calls)
    return " ".join([*sentences, "Continue it: `%jp resume`"])


def finished_words(names: Sequence[str]) -> str:
    """Return the sentence about calls that finished before the interruption."""
    has, result, runs = (
        ("have", "results are", "they do") if len(names) > 1 else ("has", "result is", "it does")
    )
    return f"{_listed(names)} {has} finished: the {result} kept, and {runs} not run again."


def skipped_words(names: Sequence[str]) -> str:
    """Return the sentence about calls that the user chose not to run."""
    return f"{_listed(names)} skipped; the model is informed"


def state_words(calls: Iterable[OpenCall]) -> list[str]:
    """Return a sentence about the open calls of each state."""
    asked, ready, unclear = list[str](), list[str](), list[str]()
    for call in calls:
        names = {"asked": asked, "permitted": ready}.get(call.stage or "", unclear)
        names.append(call.request.name)
    found = []
    if asked:
        were = "were" if len(asked) > 1 else "was"
        found.append(
            f"{_listed(asked)} {were} waiting for your permission and did not run, even if a cell "
            'still shows "Waiting for your permission".'
        )
    if ready:
        found.append(f"{_listed(ready)} did not start.")
    if unclear:
        found.append(f"{_listed(unclear)} may have run, fully or partly.")
    return found


def _listed(names: Sequence[str]) -> str:
    shown = [one_name(name) for name in dict.fromkeys(names)]
    if more := shown[MAX_NAMED:]:
        shown[MAX_NAMED:] = [f"{len(more)} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
