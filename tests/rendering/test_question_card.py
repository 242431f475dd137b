"""What stays of a question: offered and chosen options, own texts, ends that are never confused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from jp_nb.agent.display_events import QuestionEnds
from jp_nb.agent.prompts import (
    Answered,
    FormEnd,
    FormPrompt,
    Mark,
    NotAnswered,
    QuestionPrompt,
    Unavailable,
)
from jp_nb.rendering.form_record import record_of, without_form
from jp_nb.rendering.question_card import (
    answer_as_json,
    card_markdown,
    card_text,
    question_card,
)
from jp_nb.rendering.transcript import Transcript
from jp_nb.rendering.wording import StaticRecord
from jp_nb.tooling.question import FormAnswer, Question
from jp_nb.tooling.select_kind import Option
from tests.support.markdown_readers import dangers

STORES = [
    Option(value="pg", label="Postgres"),
    Option(value="rd", label="Redis"),
    Option(value="SQLite"),
]
ONE = Question.select("store", "Which store?", STORES, other=True)
MANY = Question.select("extras", "Which extras?", STORES, multi=True, other=True)
WHY = Question.text("why", "Why?")
COUNT = Question.integer("count", "How many?", minimum=1)
FORM = FormPrompt(
    tuple(QuestionPrompt(x, label="Assistant", tool="ask") for x in (ONE, MANY, WHY, COUNT))
)


def given_(value: JsonValue, *marks: Mark) -> Answered:
    return Answered(value, "form", marks=frozenset(marks))


def left(end: Any) -> NotAnswered:
    return NotAnswered(end, "form")


def shown(question: Question, **fields: Any) -> dict[str, str]:
    transcript = Transcript()
    transcript.apply([QuestionEnds("c", "ask", question, **fields)])
    return transcript.bundle()


@pytest.mark.req("RPI-83", "RPI-84", "RPI-85", "RPI-88")
def test_a_form_leaves_an_entry_for_each_question_with_all_that_was_offered() -> None:
    ends = (given_("rd"), given_({"selected": ["SQLite", "pg"], "custom": "files"}))
    record = record_of(FORM, FormEnd((*ends, given_("because"), given_(3))))
    assert record.plain == (
        "Assistant (asked by tool ask)\n"
        "Which store? → Redis\n"
        "    ○ Postgres\n    ◉ Redis\n    ○ SQLite\n"
        'Which extras? → SQLite, Postgres, "files"\n'
        "    ☑ Postgres\n    ☐ Redis\n    ☑ SQLite\n    ✎ files\n"
        "Why? → because\n"
        "How many? → 3"
    )
    assert record.markdown.split("\n\n") == [
        "Assistant (asked by tool ask)",
        "Which store? → **Redis**",
        "- ○ Postgres\n- ◉ Redis\n- ○ SQLite",
        'Which extras? → **SQLite, Postgres, "files"**',
        "- ☑ Postgres\n- ☐ Redis\n- ☑ SQLite",
        "> ✎ files",
        "Why? → **because**",
        "How many? → **3**",
    ]


@pytest.mark.req("RPI-34", "HB-1", "HB-4")
def test_no_two_ends_read_the_same() -> None:
    ends: dict[str, Answered | NotAnswered | Unavailable] = {
        "none of these": given_([]),
        '""': given_({"selected": [], "custom": ""}, "empty"),
        "Postgres": given_(["pg"]),
        "Postgres (chosen automatically)": given_(["pg"], "auto"),
        "Postgres (chosen automatically, as time ran out)": given_(["pg"], "auto", "timed_out"),
        "Postgres (as it stood when time ran out)": given_(["pg"], "timed_out"),
        "not answered": left("declined"),
        "cancelled": left("cancelled"),
        "timed out": left("timed_out"),
        "interrupted": left("interrupted"),
        "not asked (the cell runs without input)": Unavailable("the cell runs without input"),
    }
    said = {}
    for words, end in ends.items():
        if isinstance(end, Unavailable):
            record = record_of(FormPrompt((QuestionPrompt(MANY),)), end)
        else:
            record = record_of(FormPrompt((QuestionPrompt(MANY),)), FormEnd((end,)))
        said[words] = record.plain.split("\n")[0].partition(" → ")[2]
    assert said == {w: w + (" (left blank on purpose)" if w == '""' else "") for w in ends}


@pytest.mark.parametrize("end", ["cancelled", "interrupted", "timed_out"])
def test_a_form_that_ended_as_a_whole_says_so_of_each_question(end: Any) -> None:
    record = record_of(FORM, left(end))
    assert record.plain.count(f"→ {end.replace('_', ' ')}") == 4
    assert "◉" not in record.plain
    assert "☑" not in record.plain


@pytest.mark.req("RPI-86")
def test_beside_a_form_stand_its_questions_and_options() -> None:
    assert without_form(FORM) == (
        "Assistant (asked by tool ask)\n"
        "1. Which store?\n    ○ Postgres\n    ○ Redis\n    ○ SQLite\n"
        "2. Which extras?\n    ☐ Postgres\n    ☐ Redis\n    ☐ SQLite\n"
        "3. Why?\n"
        "4. How many?\n"
        "[Open only while its form is shown; without one it is asked as text.]"
    )
    assert without_form(QuestionPrompt(ONE)).split("\n")[:2] == ["Which store?", "    ○ Postgres"]


def test_a_single_choice_among_bare_values_stays_a_line() -> None:
    bare = QuestionPrompt(Question.select("q", "Which?", ["a", "b"]))
    assert record_of(bare, given_("b")) == StaticRecord("Which? → b", "Which? → **b**")
    worded = QuestionPrompt(Question.select("q", "Which?", STORES))
    assert "    ○ Postgres\n    ◉ Redis" in record_of(worded, given_("rd")).plain
    kept = record_of(worded, Answered("rd", "form", remember=True)).plain
    assert kept.startswith("Which? → Redis, for this turn\n")
    labelled = record_of(QuestionPrompt(ONE), given_("rd")).plain
    assert labelled.startswith("Which store? → Redis\n    ○ Postgres\n    ◉ Redis")


@pytest.mark.req("RPI-35", "RPI-85")
def test_an_own_text_of_several_lines_keeps_them() -> None:
    own = "first\n  second\n\n- third"
    record = record_of(QuestionPrompt(MANY), given_({"selected": ["pg"], "custom": own}))
    assert record.plain.endswith("    │ first\n    │   second\n    │ \n    │ - third")
    assert record.plain.startswith('Which extras? → Postgres, "first …"\n')
    assert "> ```text\n> first\n>   second\n>\n> - third\n> ```" in record.markdown
    prose = record_of(FormPrompt((QuestionPrompt(WHY),)), FormEnd((given_(own),)))
    assert prose.plain.startswith("Why? → first …\n    │ first\n    │   second\n")


@pytest.mark.req("RPI-38", "RCP-84")
def test_labels_and_own_texts_stay_text() -> None:
    evil = "<b>$x$ {x} | \\href{javascript:alert(1)}{y}\n- [z](javascript:alert(1))\u202e"
    question = Question.select("q", evil, [Option(value=1, label=evil)], multi=True, other=True)
    answer: JsonValue = {"selected": [1], "custom": evil}
    for markdown in (
        record_of(QuestionPrompt(question), given_(answer)).markdown,
        shown(question, outcome="answered", answer=answer)["text/markdown"],
    ):
        assert dangers(markdown) == []
        assert "\u202e" not in markdown
    plain = record_of(QuestionPrompt(question), given_(answer)).plain
    assert [line[:5] for line in plain.split("\n")[1:]] == ["    ☑", "    │", "    │"]


def test_fields_of_a_form_are_entries_and_its_secrets_are_not_told() -> None:
    fields = [COUNT, MANY, Question.secret("key", "API key"), WHY.with_required(False)]
    page = QuestionPrompt(
        Question(id="all", text="Set it up", answer_type=FormAnswer(fields=tuple(fields)))
    )
    answer: JsonValue = {"count": 3, "extras": ["rd"], "key": "hunter2"}
    record = record_of(page, given_(answer))
    assert "hunter2" not in record.plain + record.markdown
    assert record.plain.split("\n") == [
        "Set it up → How many?: 3; Which extras?: Redis; API key: (secret)",
        "    How many?: 3",
        "    Which extras?: Redis",
        *("        ☐ Postgres", "        ☑ Redis", "        ☐ SQLite"),
        "    API key: (secret)",
        "    Why?: not answered",
    ]


@pytest.mark.req("RPI-84", "RPI-89")
def test_many_options_are_counted_and_what_was_chosen_is_always_listed() -> None:
    many = Question.select("q", "Which?", [f"n{n}" for n in range(1000)], multi=True)
    lines = record_of(QuestionPrompt(many), given_(["n999", "n3"])).plain.split("\n")
    assert lines[0] == "Which? → n999, n3"
    assert sum("☐" in line for line in lines) == 20
    assert [line.strip() for line in lines if "☑" in line] == ["☑ n3", "☑ n999"]
    assert lines[-1] == "    … 978 more options, not chosen"


# --- the turn's transcript ---------------------------------------------------------------------


@pytest.mark.req("RPI-83", "RPI-84", "RPI-88")
def test_a_turn_shows_labels_in_the_order_of_the_picks_and_what_else_was_offered() -> None:
    bundle = shown(MANY, outcome="answered", answer=["rd", "pg"], end="answered", channel="form")
    assert bundle["text/plain"] == (
        "? Which extras? → Redis, Postgres\n    ☑ Postgres\n    ☑ Redis\n    ☐ SQLite"
    )
    assert bundle["text/markdown"] == (
        "> ❓ Which extras? **→ Redis, Postgres**\n>\n> - ☑ Postgres\n> - ☑ Redis\n> - ☐ SQLite"
    )


@pytest.mark.req("RPI-34", "HB-1")
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"outcome": "answered", "answer": []}, "→ none of these"),
        ({"outcome": "cancelled", "reason": "user", "end": "declined"}, "— not answered"),
        ({"outcome": "cancelled", "reason": "user", "end": "cancelled"}, "— no answer: cancelled"),
        ({"outcome": "answered", "answer": ["pg"], "marks": frozenset({"auto"})},
         "→ Postgres (chosen automatically)"),
    ],
)  # fmt: skip
def test_a_turn_tells_the_ends_apart(fields: dict[str, Any], says: str) -> None:
    head, *options = shown(MANY, **fields)["text/plain"].split("\n")
    assert head == f"? Which extras? {says}"
    assert len(options) == 3


def test_what_nobody_saw_was_not_offered() -> None:
    end = {"outcome": "cancelled", "reason": "no_prompt_backend", "end": "unavailable"}
    assert shown(ONE, **end)["text/plain"] == ("? Which store? — no answer: nobody could be asked")


# --- records of others -------------------------------------------------------------------------

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
@settings(max_examples=300, deadline=None)
def test_whatever_a_record_holds_is_shown(kind: Any, answer: Any, answered: bool) -> None:
    card = question_card(kind, answer, answered=answered)
    assert bool(card.words) is answered
    assert dangers(card_markdown(card)) == []
    assert not any("\n" in line for line in card_text(card))
    assert answer_as_json(kind, answer)


@pytest.mark.req("RPI-84", "RPI-90")
def test_a_damaged_kind_leaves_what_can_be_read(subtests: pytest.Subtests) -> None:
    for kind, answer, lines in [
        ({"type": "select"}, "a", ["a", "◉ a"]),  # no options: those that were chosen
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
    ]:  # fmt: skip
        with subtests.test(kind=kind):
            card = question_card(kind, answer, answered=True)
            assert [card.words, *card_text(card)] == lines


@given(st.permutations(["pg", "rd", "SQLite"]), st.integers(0, 3), st.none() | ONE_LINE)
def test_a_fitting_answer_reads_as_its_kind_says_it(
    values: list[JsonValue], count: int, own: str | None
) -> None:
    picked = values[:count]
    answer: JsonValue = picked if own is None else {"selected": picked, "custom": own}
    card = question_card(MANY.answer_type.recorded(), answer, answered=True)
    assert card.words == MANY.answer_type.in_words(answer)
