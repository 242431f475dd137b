"""What a turn looks like: one static output, safe, and the same every time."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.agent.ports import (
    DiscardText,
    DisplayEvent,
    EndOfText,
    Notice,
    QuestionEnds,
    ShowText,
    ToolBegins,
    ToolEnds,
)
from jp_nb.notebook.transcript import Transcript
from jp_nb.tools.question import Question
from tests.notebook.test_markdown import HTML, dangers


def folded(*events: DisplayEvent, **options: Any) -> Transcript:
    transcript = Transcript(**options)
    transcript.apply(events)
    return transcript


def text(*pieces: str, kind: Any = "message") -> list[DisplayEvent]:
    return [*(ShowText(kind, piece) for piece in pieces), EndOfText()]


def tool(name: str = "t", *, error: bool = False, **more: Any) -> list[DisplayEvent]:
    begins = ToolBegins("c", name, {"a": 1, "none": None, "empty": {}}, more.get("hidden", False))
    return [begins, ToolEnds("c", name, "no such file", error, seconds=1.25, **more)]


def question(**fields: Any) -> QuestionEnds:
    return QuestionEnds("c", "t", Question.boolean("q", "Ship it?"), **fields)


def test_text_tools_questions_and_notices_come_in_order() -> None:
    transcript = folded(
        *text("Let me", " look."),
        *tool(),
        question(outcome="answered", answer=True, channel="form", label="Ops"),
        *tool(error=True),
        Notice("⚠ cut off"),
        Notice("⚠ retrying", transient=True),
        *text("Done."),
    )
    assert transcript.plain_text().split("\n") == [
        "Let me look.",
        "✓ t(a=1)",
        "? Ops: Ship it? → Yes",
        "✗ t(a=1) — no such file",
        "⚠ cut off",
        "Done.",
    ]
    assert set(transcript.bundle()) == {"text/plain", "text/markdown"}


def test_only_while_it_runs_there_is_anything_volatile() -> None:
    transcript = folded(*text("Hi."), *tool())
    assert "1.2 s" in transcript.markdown(live=True, status="⚠ retrying")
    assert "retrying" in transcript.markdown(live=True, status="⚠ retrying")
    for static in transcript.bundle().values():
        assert "1.2" not in static
        assert "retrying" not in static


def test_the_live_view_and_the_static_one_are_folds_of_the_same_events() -> None:
    events = [*text("a"), *tool(), *text("b"), question(outcome="redacted"), *text("c")]
    growing = Transcript()
    for event in events:
        growing.apply([event])
        growing.markdown(live=True)
    assert growing.bundle() == folded(*events).bundle()


def test_a_refusal_takes_back_its_answer_and_nothing_before_it() -> None:
    transcript = folded(*text("a"), *tool(), *text("b"), DiscardText(), Notice("refused"))
    assert transcript.plain_text() == "a\n✓ t(a=1)\nrefused"


def test_reasoning_is_folded_or_hidden_and_tools_may_be() -> None:
    events = [*text("hm", kind="reasoning"), *tool(), *tool("secret", hidden=True)]
    shown = folded(*events).markdown()
    assert "<details><summary>Reasoning</summary>\n\nhm\n\n</details>" in shown
    assert "secret" not in shown
    assert folded(*events, show_reasoning=False, show_tools=False).markdown() == ""


def test_a_traceback_is_folded_and_names_the_cell_the_same_way_each_time() -> None:
    trace = 'File "/tmp/ipykernel_123/456.py", line 1\nFile "<ipython-input-3-abc>", line 2'
    shown = folded(*tool(error=True, traceback=trace)).markdown()
    assert shown.count('File "<cell>"') == 2
    assert "<details><summary>Traceback</summary>" in shown


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"outcome": "answered", "answer": False, "channel": "configured"}, "→ No (configured)"),
        ({"outcome": "answered", "answer": ""}, "→ (empty)"),
        ({"outcome": "redacted"}, "→ (secret)"),
        ({"outcome": "cancelled", "reason": "user", "end": "timed_out"}, "no answer in time"),
        ({"outcome": "cancelled", "reason": "user"}, "— no answer: cancelled"),
        ({"outcome": "cancelled", "reason": "no_prompt_backend"}, "nobody could be asked"),
        (
            {"outcome": "cancelled", "reason": "assistant_routing_denied"},
            "only a person may answer",
        ),
        ({"outcome": "cancelled", "reason": "invalid_static_answer"}, "does not fit"),
        ({"outcome": "cancelled", "reason": "from_the_future"}, "from_the_future"),
    ],
)
def test_a_question_is_shown_with_its_answer_or_the_reason_there_is_none(
    fields: dict[str, Any], says: str
) -> None:
    assert says in folded(question(**fields)).plain_text()


def test_whatever_models_and_tools_say_there_is_no_html_in_it() -> None:
    evil = f"{HTML} `{HTML}` ```\n{HTML}\n $$ {HTML}"
    transcript = folded(
        *text(evil),
        *text(evil, kind="reasoning"),
        *text(evil, kind="structured"),
        ToolBegins("c", "t", {"a": evil}),
        ToolEnds("c", "t", evil, True, 1.0, traceback=evil),
        QuestionEnds(
            "c",
            "t",
            Question.free_text("q", evil).with_context(evil),
            "answered",
            evil,
            label=evil,
        ),
        Notice(evil),
        *text(f"```\n{HTML}\n```\n{evil}"),
    )
    assert dangers(transcript.markdown()) == []
    assert dangers(transcript.markdown(live=True, status=evil)) == []
