"""Write the lines of a report about open decisions, and about answers that a run did not use.

A *decision* is a consent or an answer of the user that a tool call needs. In an unattended run, an
answers file prepares them; a decision without an answer is *open* (`undecided`).

An answer prepares a decision by its `key`: section, tool, and the id of a question. Several answers
may have one key, each for a call with exact `arguments`: their `identity` differs.

Source: `docs/answers.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from jp_nb.headless.run_events_reading import RunEvents
from jp_nb.headless.terminal_text import format_one_line
from jp_nb.storage.configuration.answers_content import AnswerKey, AnswersFile
from jp_nb.text import MAX_LISTED_LINES, one_line, plain

MIN_SIMILARITY: Final = 0.85  # similarity, from 0 to 1, at which a key counts as misspelled


def format_decisions(events: RunEvents, answers: AnswersFile | None) -> Iterator[str]:
    """Yield lines about open decisions and unused answers, for the end of a run."""
    undecided = [*events.undecided.values()]
    if undecided:
        count = len(undecided)
        yield "1 open decision:" if count == 1 else f"{count} open decisions:"
        for decision in undecided[:MAX_LISTED_LINES]:
            times = f" ({decision.times} times)" if decision.times > 1 else ""
            why = format_one_line(decision.why, limit=300)
            yield plain(f"  {decision.description}{times} — {why}")
        if count > MAX_LISTED_LINES:
            yield f"  and {count - MAX_LISTED_LINES} more"
        yield "to prepare them, write an answers file to fill in: `--answers-template FILE`"

    if answers is not None:
        yield from format_unused_answers(events, answers)


def format_unused_answers(events: RunEvents, answers: AnswersFile) -> Iterator[str]:
    """Yield a line for each answer that was not used. Those for runs of a batch do not count."""
    misspelled = find_misspelled_answers(events, answers)

    # `select_run(None)` omits the answers for runs of a batch.
    for unused in answers.select_run(None).answers:
        if unused.identity in events.used_answers:
            continue

        near = misspelled.get(unused.key)
        why = "the notebook did not ask for it"
        if near is not None:
            why = f"did you mean {_format_key_path(near)}?"
        elif unused.arguments is not None and unused.key in events.undecided:
            why = "the call has other arguments now"

        name = _format_key_path(unused.key)
        yield plain(f"{answers.format_place(unused)}: {name} was not used: {why}")


def find_misspelled_answers(events: RunEvents, answers: AnswersFile) -> dict[AnswerKey, AnswerKey]:
    """Return the similar open decision, if any, of each unused answer, both as keys."""
    undecided = {_format_key_path(key): key for key in events.undecided}
    misspelled: dict[AnswerKey, AnswerKey] = {}

    for unused in answers.select_run(None).answers:
        is_spelled_right = unused.key in events.undecided  # but it is for other arguments
        if unused.identity in events.used_answers or is_spelled_right:
            continue

        name = _format_key_path(unused.key)
        section = unused.key[0]
        candidates = [path for path, key in undecided.items() if key[0] == section]
        near = get_close_matches(name, candidates, n=1, cutoff=MIN_SIMILARITY)
        if near:
            misspelled[unused.key] = undecided[near[0]]

    return misspelled


def _format_key_path(key: AnswerKey) -> str:
    return ".".join(one_line(name, limit=80) for name in key)
