"""The text that a finished form leaves in its cell."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered as kit_answered
from tests.kit.questions import not_answered as kit_not_answered
from tests.kit.renderings import render

STORES = [
    jp.Option(value="pg", label="Postgres"),
    jp.Option(value="rd", label="Redis"),
    jp.Option(value="SQLite"),
]
ONE = jp.Question.select("store", "Which store?", STORES, other=True)
MANY = jp.Question.select("extras", "Which extras?", STORES, multi=True, other=True)
WHY = jp.Question.text("why", "Why?")
COUNT = jp.Question.integer("count", "How many?", minimum=1)
FORM = make(
    "form_prompt",
    tuple(
        make("question_prompt", x, label="Assistant", tool="ask") for x in (ONE, MANY, WHY, COUNT)
    ),
)


def answered(value: JsonValue, *marks: Any) -> Any:
    return kit_answered(value, "form", marks=frozenset(marks))


def not_answered(end: Any) -> Any:
    return kit_not_answered(end, "form")


@pytest.mark.req("RPI-83", "RPI-84", "RPI-85", "RPI-88")
def test_form_leaves_an_entry_with_all_options_for_each_question() -> None:
    ends = (answered("rd"), answered({"selected": ["SQLite", "pg"], "custom": "files"}))
    record = render("prompt", FORM, make("form_end", (*ends, answered("because"), answered(3))))
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
def test_every_outcome_has_its_own_text() -> None:
    ends: dict[str, Any | Any | Any] = {
        "none of these": answered([]),
        '""': answered({"selected": [], "custom": ""}, "empty"),
        "Postgres": answered(["pg"]),
        "Postgres (chosen automatically)": answered(["pg"], "auto"),
        "Postgres (chosen automatically when time ran out)": answered(["pg"], "auto", "timed_out"),
        "Postgres (the input when time ran out)": answered(["pg"], "timed_out"),
        "not answered": not_answered("declined"),
        "cancelled": not_answered("cancelled"),
        "timed out": not_answered("timed_out"),
        "interrupted": not_answered("interrupted"),
        "not asked (the cell runs without input)": make(
            "unavailable", "the cell runs without input"
        ),
    }
    found = {}
    for words, end in ends.items():
        if is_kind(end, "unavailable"):
            record = render("prompt", make("form_prompt", (make("question_prompt", MANY),)), end)
        else:
            record = render(
                "prompt",
                make("form_prompt", (make("question_prompt", MANY),)),
                make("form_end", (end,)),
            )
        found[words] = record.plain.split("\n")[0].partition(" → ")[2]
    assert found == {w: w + (" (left blank on purpose)" if w == '""' else "") for w in ends}


def test_outcome_of_a_whole_form_is_shown_for_each_question() -> None:
    for end, text in [("cancelled",) * 2, ("interrupted",) * 2, ("timed_out", "timed out")]:
        record = render("prompt", FORM, not_answered(end))
        assert record.plain.count(f"→ {text}") == 4
        assert "◉" not in record.plain
        assert "☑" not in record.plain


@pytest.mark.req("RPI-86")
def test_plain_text_beside_a_form_lists_questions_and_options() -> None:
    assert render("prompt_without_form", FORM) == (
        "Assistant (asked by tool ask)\n"
        "1. Which store?\n    ○ Postgres\n    ○ Redis\n    ○ SQLite\n"
        "2. Which extras?\n    ☐ Postgres\n    ☐ Redis\n    ☐ SQLite\n"
        "3. Why?\n"
        "4. How many?\n"
        "[You can answer only while the form is shown. Without a form, you are asked as text.]"
    )
    assert render("prompt_without_form", make("question_prompt", ONE)).split("\n")[:2] == [
        "Which store?",
        "    ○ Postgres",
    ]


def test_single_choice_among_plain_values_is_one_line() -> None:
    bare = make("question_prompt", jp.Question.select("q", "Which?", ["a", "b"]))
    chosen = render("prompt", bare, answered("b"))
    assert (chosen.plain, chosen.markdown) == ("Which? → b", "Which? → **b**")
    worded = make("question_prompt", jp.Question.select("q", "Which?", STORES))
    assert "    ○ Postgres\n    ◉ Redis" in render("prompt", worded, answered("rd")).plain
    kept = render("prompt", worded, kit_answered("rd", "form", remember=True)).plain
    assert kept.startswith("Which? → Redis, for this turn\n")
    labelled = render("prompt", make("question_prompt", ONE), answered("rd")).plain
    assert labelled.startswith("Which store? → Redis\n    ○ Postgres\n    ◉ Redis")


@pytest.mark.req("RPI-35", "RPI-85")
def test_custom_text_keeps_its_lines() -> None:
    own = "first\n  second\n\n- third"
    record = render(
        "prompt", make("question_prompt", MANY), answered({"selected": ["pg"], "custom": own})
    )
    assert record.plain.endswith("    │ first\n    │   second\n    │ \n    │ - third")
    assert record.plain.startswith('Which extras? → Postgres, "first …"\n')
    assert "> ```text\n> first\n>   second\n>\n> - third\n> ```" in record.markdown
    prose = render(
        "prompt",
        make("form_prompt", (make("question_prompt", WHY),)),
        make("form_end", (answered(own),)),
    )
    assert prose.plain.startswith("Why? → first …\n    │ first\n    │   second\n")


def test_fields_of_a_form_are_entries_and_secrets_are_hidden() -> None:
    fields = [COUNT, MANY, jp.Question.secret("key", "API key"), WHY.with_required(False)]
    page = make(
        "question_prompt",
        jp.Question(
            id="all", text="Set it up", answer_type=make("form_answer", fields=tuple(fields))
        ),
    )
    answer: JsonValue = {"count": 3, "extras": ["rd"], "key": "hunter2"}
    record = render("prompt", page, answered(answer))
    assert "hunter2" not in record.plain + record.markdown
    assert record.plain.split("\n") == [
        "Set it up → 3 of 4 fields",
        "    How many?: 3",
        "    Which extras?: Redis",
        "    API key: (secret)",
        "    Why?: not answered",
    ]


@pytest.mark.req("RPI-84", "RPI-89")
def test_choice_among_many_options_shows_the_picks_and_their_number(
    subtests: pytest.Subtests,
) -> None:
    columns = [f"column_{n}" for n in range(60)]
    one = jp.Question.select("q", "Which?", columns)
    many = jp.Question.select("q", "Which?", columns, multi=True, other=True)
    described = jp.Question.select("q", "Which?", [jp.Option(value=n, label=n) for n in columns])
    own: JsonValue = {"selected": ["column_3"], "custom": "mine"}
    rows: list[tuple[jp.Question, JsonValue, str]] = [
        (one, "column_37", "column_37, one of 60"),
        (described, "column_37", "column_37, one of 60"),
        (many, ["column_59", "column_3"], "column_59, column_3, 2 of 60"),
        (many, ["column_3"], "column_3, 1 of 60"),
        (many, [], "none of these"),
    ]
    for question, answer, words in rows:
        with subtests.test(answer=answer):
            record = render("prompt", make("question_prompt", question), answered(answer))
            assert record.plain == f"Which? → {words}"
            assert record.markdown.count("column_") == record.plain.count("column_")

    with_own = render("prompt", make("question_prompt", many), answered(own)).plain
    assert with_own.split("\n") == ['Which? → column_3, "mine", 1 of 60', "    ✎ mine"]


@pytest.mark.req("RPI-84", "RPI-89")
def test_options_of_an_open_form_are_listed_up_to_a_number() -> None:
    many = jp.Question.select("q", "Which?", [f"n{n}" for n in range(1000)], multi=True)
    lines = render("prompt_without_form", make("question_prompt", many)).split("\n")
    assert sum("☐" in line for line in lines) == 20
    assert lines[-2] == "    … 980 more options"


def test_question_without_an_answer_leaves_no_options(subtests: pytest.Subtests) -> None:
    for end in ("cancelled", "declined", "timed_out", "interrupted"):
        with subtests.test(end=end):
            for question in (ONE, MANY):
                page = make("question_prompt", question)
                single = render("prompt", page, not_answered(end))
                paged = render(
                    "prompt", make("form_prompt", (page,)), make("form_end", (not_answered(end),))
                )
                assert "\n" not in single.plain + single.markdown
                assert "\n" not in paged.plain + paged.markdown
