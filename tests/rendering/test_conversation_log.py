"""The log of a conversation whose content somebody else wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jp_nb.record.document import Document
from jp_nb.record.events import ConfigDelta
from jp_nb.record.proposals import ProposedBy, metadata_of
from jp_nb.record.timestamps import utc_now
from jp_nb.record.turn_view import ConfigChange, Inquiry, Turn, read_turn
from jp_nb.rendering import conversation_log
from jp_nb.rendering.report import Report
from tests.support.entries import ASKED, SAID, START, T, called, closed, inquiry, raw, result
from tests.support.fakes import new_stream
from tests.support.reports import HOSTILE, rendered


def test_every_line_of_a_log_is_one_line_and_plain() -> None:
    turn = Turn(
        number=0,
        request="Go.",
        inquiries=(Inquiry("i", HOSTILE, "answered", HOSTILE, channel=HOSTILE, by=HOSTILE),),
        config_changes=(ConfigChange({"a": HOSTILE}, (HOSTILE,)),),
    )
    shown = conversation_log.log(Document.new(clock=utc_now, made="live"), [turn])
    assert "\x1b" not in shown.text + shown.markdown
    assert len(shown.text.splitlines()) == 4
    assert "<img" not in rendered(shown.markdown)


def log_of(*entries: Any, status: str = "") -> Report:
    made = list(new_stream(START, {**ASKED, "content": "Go."}, *entries).turns())
    turns = [read_turn(turn.number, turn.entries, status=status) for turn in made]
    return conversation_log.log(Document.new(clock=utc_now, made="live"), turns)


@pytest.mark.parametrize(("name", "line"), [
    ("Ada", "0 asked by Ada: Go."),
    ("assistant", "0 asked by assistant: Go."),
    ("Ada:\n0 assistant", '0 asked by "Ada: 0 assistant": Go.'),
    (7, "0 you: Go."),
])  # fmt: skip
def test_a_log_says_who_asked_where_several_people_share_the_notebook(name: Any, line: str) -> None:
    [turn] = new_stream(START, {**ASKED, "content": "Go.", "metadata": {"by": name}}, SAID).turns()
    shown = conversation_log.log(
        Document.new(clock=utc_now, made="live"), [read_turn(0, turn.entries)]
    )
    assert shown.text.splitlines()[0] == line


def test_a_log_tells_what_happened_in_its_order() -> None:
    delta = ConfigDelta(
        timestamp=T, unsets=("user.name",), metadata=metadata_of([
            ProposedBy("t", "c1", ("user.name",), "grant")])
    )  # fmt: skip
    shown = log_of(
        {**SAID, "message": "First\n1 you: no"}, called(), inquiry(), closed(),
        result(), delta.to_raw(), {**SAID, "message": "Then"},
        {**ASKED, "content": "Wait!"}, {**SAID, "message": "Well."},
    )  # fmt: skip
    assert shown.text.splitlines() == [
        "0 you: Go.",
        "0 assistant:",
        "    First",
        "    1 you: no",
        "  ✓ t() → r",
        "  ? ? → true",
        "  ⟳ configuration unset user.name (proposed by t, applied by a grant)",
        "    Then",
        "0 you:",
        "    Wait!",
        "0 assistant:",
        "    Well.",
    ]
    places = [shown.markdown.index(x) for x in ("0 · you", "Go.", "0 · assistant", "First", "t()")]
    assert places == sorted(places)


OFFERED = [{"value": "pg", "label": "Postgres"}, {"value": "rd", "label": "Redis"}, "SQLite"]
MANY = {"type": "select", "options": OFFERED, "multi": True, "other": True}
FIELDS = {"type": "form", "fields": [{"id": "s", "text": "Stores", "answer_type": MANY}]}


@pytest.mark.req("RPI-34", "HB-1", "RPI-90")
def test_the_log_has_the_labels_in_the_order_of_the_picks(subtests: pytest.Subtests) -> None:
    for kind, response, says in [
        (MANY, {"answer": ["rd", "SQLite", "pg"]}, '→ ["Redis", "SQLite", "Postgres"]'),
        (MANY, {"answer": []}, "→ none of these"),
        (MANY, {"answer": {"selected": ["rd"], "custom": "a\nfile"}},
         '→ ["Redis"], own text "a\\nfile"'),
        (MANY, {"answer": ["pg"], "metadata": {"auto": True, "timed_out": True, "channel": "form"}},
         '→ ["Postgres"] (form) (chosen automatically, as time ran out)'),
        ({"type": "text"}, {"answer": "", "metadata": {"empty": True}},
         '→ "" (left blank on purpose)'),
        (FIELDS, {"answer": {"s": ["rd"]}}, '→ Stores: ["Redis"]'),
        # as older releases record them
        ({"type": "select", "options": ["a", "b"]}, {"answer": "b"}, '→ "b"'),
        ({"type": "select", "options": [{"value": 1}]}, {"answer": 1}, "→ 1"),
        ({"type": "boolean"}, {"answer": True}, "→ true"),
        ({"type": "text"}, {"outcome": "cancelled", "reason": "user"}, "— user"),
    ]:  # fmt: skip
        with subtests.test(kind=kind):
            asked = {**inquiry(), "question": {"text": "Which?", "answer_type": kind}}
            closing = raw("inquiry_response", **{"id": "a.q.1", "outcome": "answered", **response})
            assert f"  ? Which? {says}" in log_of(asked, closing).text.splitlines()


@pytest.mark.parametrize(
    ("end", "says"),
    [("declined", "not answered"), ("cancelled", "cancelled"), ("timed_out", "timed out")],
)
def test_the_log_tells_the_ends_of_a_question_apart(end: str, says: str) -> None:
    closing = raw(
        "inquiry_response",
        id="a.q.1", outcome="cancelled", reason="user", metadata={"end": end, "channel": "form"},
    )  # fmt: skip
    assert f"  ? ? — {says} (form)" in log_of(inquiry(), closing).text.splitlines()


def test_a_structured_answer_is_in_the_log() -> None:
    data = {"city": "Delft <img src=x>", "days": 2}
    shown = log_of(raw("chat_response", data=data))
    assert json.loads(shown.text.partition("assistant:\n")[2]) == data
    assert "```json" in shown.markdown
    assert "<img" not in rendered(shown.markdown)


@pytest.mark.parametrize(
    ("status", "entries", "end"),
    [
        ("", [], "  ✗ no answer came (models are not sent this turn)"),
        ("failed", [], "  ✗ failed: no answer came (models are not sent this turn)"),
        ("failed", [SAID], "  ✗ failed: the answer is not whole"),
        ("interrupted", [], "  ⏹ interrupted before anything came (models are not sent this turn)"),
        ("interrupted", [SAID], "  ⏹ interrupted"),
        ("completed", [SAID], "    a"),
        ("", [SAID], "    a"),
    ],
)
def test_how_a_turn_ended_is_in_the_log(status: str, entries: list[Any], end: str) -> None:
    assert log_of(*entries, status=status).text.splitlines()[-1] == end


def test_a_log_says_what_it_leaves_out() -> None:
    document, turn = Document.new(clock=utc_now, made="live"), Turn(7, "Go.", text="Gone.")
    shown = conversation_log.log(document, [turn], total=8)
    assert shown.text.startswith("7 earlier turns are not shown: %jp log 8 shows all\n7 you: Go.")
    assert "7 earlier turns" in shown.markdown
    assert "earlier" not in conversation_log.log(document, [turn], total=1).text


@pytest.mark.parametrize(
    "told",
    ["Tool skipped by user.", "Tool skipped by user: too late", "Tool input cancelled by user."],
)
def test_a_call_that_somebody_did_not_want_is_no_success(told: str) -> None:
    answered = {**result("c1"), "content": told}
    log = log_of(called("c1"), answered, SAID)
    assert f"  ⊘ t() → {told}" in log.text.splitlines()
