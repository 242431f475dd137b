"""The card of a question: its options, the answer, a custom text, its outcome."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue

import jp_nb as jp
from jp_nb.rendering.transcripts.transcript import Transcript
from tests.kit.kinds import make
from tests.kit.questions import answered as kit_answered
from tests.kit.renderings import render
from tests.kit.screens import display_event
from tests.rendering.markdown_readers import dangers

question_outcome = partial(make, "question_outcome")
"""The end of a question: `answered`, `declined`, `cancelled` …, and its channel."""

STORES = [
    jp.Option(value="pg", label="Postgres"),
    jp.Option(value="rd", label="Redis"),
    jp.Option(value="SQLite"),
]
ONE = jp.Question.select("store", "Which store?", STORES, other=True)
MANY = jp.Question.select("extras", "Which extras?", STORES, multi=True, other=True)


def answered(value: JsonValue, *marks: Any) -> Any:
    return kit_answered(value, "form", marks=frozenset(marks))


def shown(question: jp.Question, outcome: Any, answer: JsonValue = None) -> dict[str, str]:
    transcript = Transcript()
    transcript.add(display_event("question_ends", "c", "ask", question, outcome, answer))
    return transcript.parts[-1].render()


@pytest.mark.req("RPI-38", "RCP-84")
def test_labels_and_custom_texts_are_safe() -> None:
    evil = "<b>$x$ {x} | \\href{javascript:alert(1)}{y}\n- [z](javascript:alert(1))\u202e"
    question = jp.Question.select(
        "q", evil, [jp.Option(value=1, label=evil)], multi=True, other=True
    )
    answer: JsonValue = {"selected": [1], "custom": evil}
    for markdown in (
        render("prompt", make("question_prompt", question), answered(answer)).markdown,
        shown(question, question_outcome("answered"), answer)["text/markdown"],
    ):
        assert dangers(markdown) == []
        assert "\u202e" not in markdown
    plain = render("prompt", make("question_prompt", question), answered(answer)).plain
    assert [line[:5] for line in plain.split("\n")[1:]] == ["    ☑", "    │", "    │"]


# --- the turn's transcript ---------------------------------------------------------------------


@pytest.mark.req("RPI-83", "RPI-84", "RPI-88")
def test_turn_shows_all_options_and_the_answer_in_the_order_of_selection() -> None:
    bundle = shown(MANY, question_outcome("answered", "form"), ["rd", "pg"])
    assert bundle["text/plain"] == (
        "? Which extras? → Redis, Postgres\n    ☑ Postgres\n    ☑ Redis\n    ☐ SQLite"
    )
    assert bundle["text/markdown"] == (
        "> ❓ Which extras? **→ Redis, Postgres**\n>\n> - ☑ Postgres\n> - ☑ Redis\n> - ☐ SQLite"
    )


@pytest.mark.req("RPI-34", "HB-1")
def test_turn_distinguishes_the_outcomes() -> None:
    auto = question_outcome("answered", marks=frozenset({"auto"}))
    rows: list[tuple[Any, JsonValue, str]] = [
        (question_outcome("answered"), [], "→ none of these"),
        (question_outcome("declined"), None, "— not answered"),
        (question_outcome("cancelled"), None, "— no answer: cancelled"),
        (auto, ["pg"], "→ Postgres (chosen automatically)"),
    ]
    for outcome, answer, text in rows:
        head, *options = shown(MANY, outcome, answer)["text/plain"].split("\n")
        assert head == f"? Which extras? {text}"
        assert len(options) == (3 if outcome.is_answered else 0)


def test_options_of_a_question_that_was_never_shown_are_not_listed() -> None:
    text = shown(ONE, question_outcome("unavailable"))["text/plain"]
    assert text == "? Which store? — no answer: no user was available"


# --- damaged records ---------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ONE_LINE = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")))
KEYS = st.sampled_from(["type", "options", "fields", "multi", "value", "label", "id", "text"])
DAMAGED = st.recursive(
    JSON | st.sampled_from(["select", "form", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
ANSWERS = JSON | st.fixed_dictionaries({"selected": JSON, "custom": JSON})


@pytest.mark.req("RPI-87")
@given(DAMAGED, ANSWERS, st.booleans())
@example({"type": "select", "options": [{"label": "no value"}]}, "a", True)
@example({"type": "select"}, {"selected": [], "custom": None}, True)
@example({"type": "form", "fields": []}, {}, True)
def test_any_json_in_a_record_has_a_card(kind: Any, answer: Any, answered: bool) -> None:
    card = render("question_card", kind, answer, answered=answered)
    assert bool(card["words"]) is answered
    assert dangers(card["markdown"]) == []
    assert not any("\n" in line for line in card["lines"])


@pytest.mark.req("RPI-84", "RPI-90")
def test_readable_parts_of_a_damaged_record_are_shown(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, Any, list[str]]] = [
        ({"type": "select"}, "a", ["a", "◉ a"]),  # without options, the chosen values
        ({"type": "select", "options": 3}, ["a", 1], ["a, 1", "☑ a", "☑ 1"]),
        ({"type": "select", "options": ["b"]}, "a", ["a", "○ b", "◉ a"]),
        ({"type": "select", "options": [{"value": True}, 1]}, 1, ["1", "○ true", "◉ 1"]),
        ({"options": [{"value": 1, "label": ["x"]}]}, 1, ["1", "◉ 1"]),
        ({"type": "later", "shades": 3}, {"a": 1}, ['{"a":1}']),
        ({"type": "form", "fields": [{"id": "a"}, 3]}, {"a": True}, ["a: Yes", "a: Yes"]),
        (None, "said", ["said"]),
        (None, None, ["null"]),
        ("select", json.loads("[" * 60 + "]" * 60), ["(nested too deeply to be shown)"]),
        ({"type": "select", "options": ["a"]}, json.loads("[" * 60 + "]" * 60),
         ["(nested too deeply to be shown)"]),
        ({"type": "select", "options": [{"value": 1, "label": "x"}, {"value": 1, "label": "y"}]}, 1,
         ["x", "◉ x"]),
    ]  # fmt: skip
    for kind, answer, lines in rows:
        with subtests.test(kind=kind):
            card = render("question_card", kind, answer)
            assert [card["words"], *card["lines"]] == lines


@given(st.permutations(["pg", "rd", "SQLite"]), st.integers(0, 3), st.none() | ONE_LINE)
def test_text_of_a_valid_answer_is_that_of_its_type(
    values: list[JsonValue], count: int, own: str | None
) -> None:
    picked = values[:count]
    answer: JsonValue = picked if own is None else {"selected": picked, "custom": own}
    card = render("question_card", MANY.answer_type.to_record(), answer)
    assert card["words"] == MANY.answer_type.format_answer(answer)


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        (question_outcome("answered", "answers"), "→ Yes (answers file)"),
        (question_outcome("declined", "answers"), "— not answered (answers file)"),
        (question_outcome("declined", "form", by="Ada"), "— not answered (by Ada)"),
        (question_outcome("timed_out", "form"), "— no answer: timed out"),
    ],
)
def test_outcome_names_its_source_unless_the_user_answered_a_prompt(
    outcome: Any, shown: str
) -> None:
    assert render("question_outcome", outcome, "Yes") == shown
