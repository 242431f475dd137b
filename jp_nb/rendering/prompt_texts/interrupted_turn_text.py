"""Notices about a turn that was interrupted, and can be continued with `%jp resume`.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.interrupted_turn import InterruptedTurn
from jp_nb.record.unfinished_calls import OpenCall
from jp_nb.rendering.prompt_texts.prompt_text import spell_name
from jp_nb.text import MAX_FEW_NAMES


def describe_interrupted_turn(turn: InterruptedTurn, finished: Sequence[str] = ()) -> str:
    """Return the notice that `turn` can be continued.

    `finished` are the names of the tools whose results the journal kept, which is the log for the
    case that the kernel dies.
    """
    sentences = [f"turn {to_shown_turn(turn.turn)} was interrupted."]
    if finished:
        sentences.append(describe_finished_calls(finished))
    sentences += _describe_open_calls(turn.open_calls)
    sentences.append("Continue it: `%jp resume`")

    return " ".join(sentences)


def describe_finished_calls(names: Sequence[str]) -> str:
    """Return the sentence about calls that finished before the interruption."""
    tools = _list_tools(names)
    have = "have" if len(set(names)) > 1 else "has"
    if len(names) > 1:
        return f"{tools} {have} finished: the results are kept, and the calls do not run again."

    return f"{tools} {have} finished: the result is kept, and it does not run again."


def describe_skipped_calls(names: Sequence[str]) -> str:
    """Return the sentence about calls that the user chose not to run."""
    return f"{_list_tools(names)} skipped; the model is informed"


def _describe_open_calls(calls: Iterable[OpenCall]) -> Iterator[str]:
    """Yield a sentence for each state in which open calls are: they waited, or may have run."""
    waiting = list[str]()
    not_started = list[str]()
    unclear = list[str]()
    for call in calls:
        name = call.request.name
        match call.stage:
            case "asked":
                waiting.append(name)
            case "permitted":
                not_started.append(name)
            case _:  # it started, or its stage is unknown
                unclear.append(name)

    if waiting:
        were = "were" if len(set(waiting)) > 1 else "was"
        yield (
            f"{_list_tools(waiting)} {were} waiting for your permission and did not run, even if a "
            'cell still shows "Waiting for your permission".'
        )

    if not_started:
        yield f"{_list_tools(not_started)} did not start."

    if unclear:
        yield f"{_list_tools(unclear)} may have run, fully or partly."


def _list_tools(names: Sequence[str]) -> str:
    """Return the names without repetitions as text, such as `a, b and c`, or `a, b and 3 more`."""
    shown = [spell_name(name) for name in dict.fromkeys(names)]
    omitted = shown[MAX_FEW_NAMES:]
    if omitted:
        shown[MAX_FEW_NAMES:] = [f"{len(omitted)} more"]

    *first, last = shown
    if not first:
        return last
    return f"{', '.join(first)} and {last}"
