"""What the bench says of a call: what the model reads, what is kept, what processes did."""

from __future__ import annotations

from typing import Any

from jp_nb.agent.call_outcome import CallOutcome
from jp_nb.rendering.bench_report import call_report
from jp_nb.tooling.process_log import ProcessRun


def told(content: str = "done", *, timed: bool = False, **outcome: Any) -> str:
    return call_report(CallOutcome("t", {}, content, **outcome), timed=timed).text


def test_what_the_model_reads_is_counted_and_shown() -> None:
    assert told() == "The model reads (4 characters):\n    done"
    assert told("x", timed=True, seconds=1.25) == "The model reads (1 character, 1.2 s):\n    x"
    assert told("", is_error=True) == "The model reads as an error (0 characters):\n(nothing)"
    assert told(whole_chars=9_000).startswith(
        "The model reads (4 characters, cut: the whole result has 9,000):"
    )


def test_what_the_record_would_keep_is_shown() -> None:
    said = told(structured={"a": [1]})
    assert "The record would keep this beside it:\n    {\n" in said
    assert '"a": [' in said


def test_where_it_failed_can_be_looked_at() -> None:
    assert told(exception=ValueError()).endswith("\n%debug opens where it failed")
    assert "%debug" not in told()


def test_each_process_says_how_it_ended() -> None:
    runs = (
        ProcessRun("{}", "text", "", 0, formats=True),
        ProcessRun("{}", "", "", 3),
        ProcessRun("{}", "out\n", "err\n", -9),
    )
    lines = told(processes=runs).split("\n")
    heads = [line for line in lines if not line.startswith("    ")][:-1]
    assert heads == [
        "Its formatter got on stdin:",
        "printed on stdout:",
        "ended with exit status 0",
        "Run 1 got on stdin:",
        "printed nothing and ended with exit status 3",
        "Run 2 got on stdin:",
        "printed on stdout:",
        "printed on stderr:",
        "ended with signal 9",
    ]
    alone = told(processes=runs[:2])
    assert "The command got on stdin:" in alone


def test_no_escapes_of_a_tool_reach_the_cell() -> None:
    report = call_report(CallOutcome("t", {}, "\x1b[31mred\u202e\n```\n<b>"), timed=False)
    for text in (report.text, report.markdown):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "````" in report.markdown  # a fence of the tool's own does not end the block
