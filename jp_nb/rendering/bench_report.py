"""What came of a tool call on the bench, beside the lines that a turn would show.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jp_nb.agent.call_outcome import CallOutcome
from jp_nb.json_values import indented_json
from jp_nb.rendering.markdown import code_block
from jp_nb.rendering.report import Report, joined
from jp_nb.rendering.tool_calls import MAX_BLOCK_CHARS, no_markup
from jp_nb.safe_text import one_line, plain
from jp_nb.tooling.process_log import ProcessRun

DEBUG = "%debug opens the debugger where it failed"
NOT_OFFERED = "The tool {} is not offered to the model: {}. It was called anyway."


def call_report(outcome: CallOutcome, *, timed: bool) -> Report:
    """Return what the model would read of a call, and what processes got and printed.

    `timed` says how long it took: that is another each time.
    """
    parts = [*_processes(outcome), *_result(outcome, timed=timed)]
    return joined(parts)


def said(text: str) -> Report:
    """Return a sentence of our own."""
    line = one_line(text, limit=2000)
    return Report(no_markup(line), line)


def block(text: str, language: str = "text") -> Report:
    """Return `text` as it is, marked as a text of somebody else."""
    shown = plain(text, limit=MAX_BLOCK_CHARS).rstrip("\n")
    lines = (f"    {line}".rstrip() for line in shown.split("\n"))
    return Report(code_block(shown, language), "\n".join(lines))


def _result(outcome: CallOutcome, *, timed: bool) -> Iterator[Report]:
    yield said(f"{_heading(outcome, timed=timed)}:")
    yield block(outcome.content) if outcome.content.strip() else said("(nothing)")
    if outcome.structured is not None:
        yield said("The record would also keep:")
        yield block(indented_json(outcome.structured), "json")
    for image in outcome.images:
        yield said(f"The model also sees {image.words_with_size}")
    if outcome.exception is not None:
        yield said(DEBUG)


def _heading(outcome: CallOutcome, *, timed: bool) -> str:
    count = len(outcome.content)
    facts = [f"{count:,} character{'' if count == 1 else 's'}"]
    if outcome.is_cut:
        facts.append(f"truncated: the whole result has {outcome.whole_chars:,}")
    if timed:
        facts.append(f"{outcome.seconds:.1f} s")
    kind = " as an error" if outcome.is_error else ""
    return f"The model reads{kind} ({', '.join(facts)})"


def _processes(outcome: CallOutcome) -> Iterator[Report]:
    several = sum(not run.formats for run in outcome.processes) > 1
    number = 0
    for run in outcome.processes:
        number += not run.formats
        about = "Its formatter" if run.formats else f"Run {number}" if several else "The command"
        yield from _process(about, run)


def _process(about: str, run: ProcessRun) -> Iterator[Report]:
    yield said(f"{about} got on stdin:")
    yield block(run.stdin, "json")
    for name, text in (("stdout", run.stdout), ("stderr", run.stderr)):
        if text.strip():
            yield said(f"printed on {name}:")
            yield block(text)
    nothing = "" if (run.stdout + run.stderr).strip() else "printed nothing and "
    ended = f"exit status {run.exit_code}" if run.exit_code >= 0 else f"signal {-run.exit_code}"
    yield said(f"{nothing}ended with {ended}")
