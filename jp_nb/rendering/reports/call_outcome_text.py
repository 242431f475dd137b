"""Report of one call of a tool outside of a conversation: `%jp call`, `jp.call`.

It shows the input and output of the processes that the tool has started, and the result as the
model would read it.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jp_nb.agent.call_steps.call_outcome import CallOutcome
from jp_nb.json_writing import indented_json
from jp_nb.rendering.report import (
    Report,
    join_reports,
    make_block,
    make_line,
)
from jp_nb.text import pluralize

DEBUG_HINT = "%debug opens the debugger where it failed"
NOT_OFFERED_NOTE = "The tool {} is not offered to the model: {}. It was called anyway."


def render_call_outcome(outcome: CallOutcome, *, timed: bool) -> Report:
    """Return the input and output of the call's processes, and its result for the model.

    `timed` adds the duration, which differs in each run.
    """
    parts = [*_list_processes(outcome)]

    count = len(outcome.content)
    facts = [f"{count:,} {pluralize('character', count)}"]
    if outcome.is_cut:
        facts.append(f"truncated: the whole result has {outcome.whole_chars:,}")
    if timed:
        facts.append(f"{outcome.seconds:.1f} s")

    kind = " as an error" if outcome.is_error else ""
    size = ", ".join(facts)
    parts.append(make_line(f"The model reads{kind} ({size}):"))
    if outcome.content.strip():
        parts.append(make_block(outcome.content))
    else:
        parts.append(make_line("(nothing)"))

    if outcome.structured is not None:
        parts.append(make_line("The record would also keep:"))
        parts.append(make_block(indented_json(outcome.structured), "json"))
    parts += (make_line(f"The model also sees {image.words_with_size}") for image in outcome.images)

    if outcome.exception is not None:
        parts.append(make_line(DEBUG_HINT))
    return join_reports(parts)


def _list_processes(outcome: CallOutcome) -> Iterator[Report]:
    """Yield input, output, and end of each process that a command tool has started.

    A call may run its command several times. The input is shown even if it is empty, because the
    command may wait for it.
    """
    run_count = sum(not run.formats for run in outcome.processes)
    number = 0

    for run in outcome.processes:
        subject = "The command"
        if run.formats:
            subject = "Its formatter"
        elif run_count > 1:
            number += 1
            subject = f"Run {number}"

        yield make_line(f"{subject} got on stdin:")
        yield make_block(run.stdin, "json")
        for name, text in (("stdout", run.stdout), ("stderr", run.stderr)):
            if text.strip():
                yield make_line(f"printed on {name}:")
                yield make_block(text)

        prefix = "" if (run.stdout + run.stderr).strip() else "printed nothing and "
        code = run.exit_code
        end = f"exit status {code}" if code >= 0 else f"signal {-code}"
        yield make_line(f"{prefix}ended with {end}")
