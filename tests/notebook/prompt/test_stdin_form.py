"""Forms on stdin: their lines and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

import jp_nb as jp
from tests.kit.consoles import ConsoleUser
from tests.kit.kinds import is_kind, kind_of, make
from tests.kit.questions import answered, not_answered
from tests.kit.renderings import render
from tests.notebook.prompt.scribe import parts_of

SNAPSHOTS = Path(__file__).with_name("stdin_form.txt")
STORES = [
    jp.Option(value="pg", label="Postgres", description="Rock solid.\nNeeds a server."),
    jp.Option(value="rd", label="Redis"),
    jp.Option(value="SQLite"),
]
STORE = jp.Question.select("store", "Which store?", STORES, other=True, recommended=0)
EXTRAS = jp.Question.select("extras", "Which extras?", STORES, multi=True, other=True)
WHY = jp.Question.text("why", "Why?")
COUNT = jp.Question.integer("count", "How many?", minimum=1, maximum=9).with_default(3)
SURE = jp.Question.boolean("sure", "Sure?").with_default(True)
KEY = jp.Question.secret("key", "Which key?")
EVIL = "x\x1b[2J\u202e\u200b\n\nYour answers:\n  1  Pay → yes\n[s/1/!/?] s"


def form(*questions: jp.Question, **more: Any) -> Any:
    pages = tuple(make("question_prompt", x, label="Assistant", tool="ask") for x in questions)
    return make("form_prompt", pages, **more)


def fields(
    *questions: jp.Question,
    check: Callable[[Mapping[str, JsonValue]], dict[str, str]] | None = None,
) -> jp.Question:
    kind = make("form_answer", fields=questions, check=check)
    return jp.Question(id="setup", text="Set it up", answer_type=kind)


def text_of(**bounds: Any) -> jp.Question:
    return jp.Question(id="t", text="?", answer_type=make("text_answer", **bounds))


def no_twins(answer: Mapping[str, JsonValue]) -> dict[str, str]:
    return {"why": "that is the number again"} if answer.get("why") == "3" else {}


PLAN = form(STORE.with_header("Store").with_context("Two lines\nof context."), EXTRAS, WHY, COUNT)
ASKED = form(STORE, EXTRAS, WHY.with_required(False), partial=True, menu=True)
CASES: dict[str, tuple[Any, list[str]]] = {
    "four questions, answered": (PLAN, ["?", "2", "?", "3,1", "because", "", "s"]),
    "back, and what was answered is kept": (
        PLAN,
        ["1", "2,1", "<", "", "", "so", "5", "2", "1,2", "3", "<", "<", "9", "s", "now", "s"],
    ),
    "own texts": (
        PLAN,
        ["mine", "4", "", "4", "my own store", "1,4", '"<"', '""', "y", "", "1", "4", "=", "s"],
    ),
    "nothing picked, nothing written": (PLAN, ["1", "", '""', "n", '""', "y", "", "s", "0", "s"]),
    "some left open": (ASKED, ["", "0", "", "s"]),
    "what must be answered is asked again": (form(STORE, WHY), ["", "so", "s", "1", "s"]),
    "a reply": (ASKED, ["1", "!", "?", "r", "", "b", "3", "!", "r", "Use both."]),
    "stop": (ASKED, ["1", "!", "s"]),
    "five bad answers, and the end of the input": (ASKED, ["x", "9", "-1", "1,2", "Redis!"]),
    "cancelled without a menu": (PLAN, ["1", "!", "n", "!", "y"]),
    "one question": (form(STORE, partial=True, menu=True), ["?", "2"]),
    "one question, left open": (form(STORE, partial=True, menu=True), ["", "s"]),
    "yes or no, and a secret": (form(KEY, SURE), ["<", "n", "", "<", "<", "y", "n", "s"]),
    "fields": (
        form(fields(WHY, COUNT, KEY.with_required(False), check=no_twins)),
        ["3", "x", "", "", "4", "1", "", "<", "", "5", "hunter2", "s"],
    ),
    "hostile text": (
        form(
            jp.Question.select("q", EVIL, [jp.Option(value="v", label=EVIL, description=EVIL)])
            .with_context(EVIL)
            .with_header(EVIL),
            fields(WHY.model_copy(update={"text": EVIL, "context": EVIL})),
        ),
        ["1", "s"],
    ),
}


def shown(prompt: Any, typed: list[str]) -> str:
    user = ConsoleUser(*typed)
    end = user.ask(prompt)
    record = render("prompt", prompt, end).plain.split("\n")
    blocks = {"stdin": [*user.transcript, *said(end)], "record": record}
    lines = [x for name, block in blocks.items() for x in (name, *(f"  {b}" for b in block))]
    return "\n".join(line.rstrip() for line in lines)


def said(end: Any) -> list[str]:
    match kind_of(end):
        case "form_end":
            told = f"{end.then} {end.text!r}" if end.text else end.then
            return [f"= {told}", *(f"  {each_said(each)}" for each in end.ends)]
        case "not_answered":
            return [f"= {end.end}"]
        case _:
            raise AssertionError(end)


def each_said(end: Any) -> Any:
    if is_kind(end, "not_answered"):
        return end.end
    return f"{end.value!r}{''.join(f' {mark}' for mark in sorted(end.marks))}"


@pytest.mark.req("RCP-22", "RCP-11", "RCP-13", "RPI-36", "RPI-58", "RPI-59", "RPI-61")
def test_dialogues_match_their_snapshots(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case=case):
            stored = parts_of(SNAPSHOTS.read_text(encoding="utf-8"))
            assert shown(*CASES[case]) == stored[case].strip()


def test_last_step_names_the_effect_of_sending() -> None:
    page = make("question_prompt", fields(WHY), submit="Run with these arguments")
    user = ConsoleUser("because", "s")
    assert is_kind(user.ask(make("form_prompt", (page,))), "form_end")
    assert "s  run with these arguments" in map(str.strip, user.transcript)


def test_there_is_a_snapshot_of_each_case_and_of_nothing_else() -> None:
    assert [*parts_of(SNAPSHOTS.read_text(encoding="utf-8"))] == [*CASES]


# --- ends --------------------------------------------------------------------------------------


def ended(prompt: Any, *lines: str | None) -> Any:
    return ConsoleUser(*lines).ask(prompt, "terminal")


def left(end: Any) -> Any:
    return not_answered(end, "terminal")


def given_(value: JsonValue, *marks: Any) -> Any:
    return answered(value, "terminal", marks=frozenset(marks))


@pytest.mark.req("RPI-66", "RPI-67", "RPI-82", "HB-3")
def test_deadline_ends_a_question_and_keeps_the_answers() -> None:
    optional = jp.Question.select("q", "?", STORES, recommended=1).with_required(False)
    without = jp.Question.select("q", "?", STORES, recommended=7).with_required(False)
    prompt = form(WHY, optional, without, optional.with_exclusive(), EXTRAS, COUNT, partial=True)
    assert ended(prompt, "so", None, None, None, None, "4", "s") == make(
        "form_end",
        (
            given_("so"),
            given_("rd", "auto", "timed_out"),
            given_("pg", "auto", "timed_out"),
            left("timed_out"),
            left("timed_out"),
            given_(4),
        ),
    )


def test_deadline_of_the_summary_ends_the_form() -> None:
    assert ended(form(WHY, COUNT, partial=True), "so", "", None) == make(
        "form_end", (given_("so"), given_(3))
    )
    optional = form(WHY, STORE.with_required(False))
    assert ended(optional, "so", "", None) == make(
        "form_end", (given_("so"), given_("pg", "auto", "timed_out"))
    )
    assert ended(form(WHY, STORE), "so", "", None) == left("timed_out")
    # The same after an answer was looked at once more.
    looked = form(WHY, COUNT, EXTRAS, partial=True)
    assert ended(looked, "so", "4", "", "1", "", None) == make(
        "form_end", (given_("so"), given_(4), left("timed_out"))
    )


@pytest.mark.req("RPI-62")
def test_input_ends_twice_and_the_turn_stops() -> None:
    assert ended(ASKED, "1") == make("form_end", (left("cancelled"),) * 3, then="stop")
    assert ended(PLAN, "1") == left("cancelled")
    assert ended(ASKED, "1", "!", "r") == make("form_end", (left("cancelled"),) * 3, then="stop")


def test_return_from_the_ways_out_shows_all_answers_again() -> None:
    answers = make("form_end", (given_("pg"), given_(["rd"]), given_("so")))
    assert ended(ASKED, "1", "2", "so", "!", "b", "s") == answers
    assert ended(form(WHY, COUNT), "so", "4", "!", "n", "s") == make(
        "form_end", (given_("so"), given_(4))
    )


def test_submit_leads_to_the_field_that_is_wrong() -> None:
    page = form(fields(WHY, COUNT, check=no_twins))
    user = ConsoleUser("3", "3", "", "s", "because", "", "s")
    end = user.ask(page)
    assert end == make("form_end", (answered({"why": "because", "count": 3}, "stdin"),))
    said = user.transcript
    sent = said.index("[s/1/</!/?] s⏎")
    assert said[sent + 1 : sent + 4] == ["", "Set it up", "Why?: that is the number again"]


def test_fields_that_hold_something_at_first_are_answered_by_enter() -> None:
    held = fields(WHY, COUNT).with_default({"why": "so", "count": 4})
    assert ended(form(held), "", "", "s") == make("form_end", (given_({"why": "so", "count": 4}),))


def test_enter_alone_sends_no_suggested_yes_or_no_without_a_summary() -> None:
    assert ended(form(SURE, partial=True), "", "s") == make("form_end", (left("declined"),))
    assert ended(form(SURE, WHY, partial=True), "", "so", "s") == make(
        "form_end", (given_(True), given_("so"))
    )


@pytest.mark.req("HB-12")
def test_reply_contains_the_answers_so_far() -> None:
    assert ended(ASKED, "1", "!", "r", "Both.") == make(
        "form_end", (given_("pg"), left("cancelled"), left("cancelled")), then="reply", text="Both."
    )


def test_only_empty_lines_cancel_the_form_in_the_end() -> None:
    needs = form(fields(WHY, EXTRAS, COUNT))
    user = ConsoleUser(*[""] * 1000)
    assert user.ask(needs, "terminal") == left("cancelled")
    assert len(user.lines) > 980


@pytest.mark.req("RPI-58")
def test_answer_can_be_taken_back_and_the_sign_for_it_be_an_answer() -> None:
    asked = form(WHY, EXTRAS, KEY, partial=True)
    typed = ["-", "1,4", "mine", "k", "1", '"-"', "2", "1", "3", "-", "n", "1", "-", "s"]
    assert ended(asked, *typed) == make(
        "form_end", (left("declined"), given_(["pg"]), left("declined"))
    )
    address = text_of(format="email").with_required(False)
    page = form(fields(WHY, address))
    typed = ["so", "a@b.org", "1", "", "?", "-", "s"]
    end = ended(page, *typed)
    assert end == make("form_end", (given_({"why": "so"}),))


@pytest.mark.req("RPI-63", "HB-5")
def test_own_text_that_is_left_gives_way_to_the_earlier_choice() -> None:
    again = ["2", "<", "4", "", "", "so", "s"]
    assert ended(form(STORE, WHY), *again) == make("form_end", (given_("rd"), given_("so")))


@pytest.mark.req("HB-7")
def test_two_questions_of_one_text_keep_their_own_answers() -> None:
    same = form(jp.Question.text("a", "Which?"), jp.Question.text("b", "Which?"))
    assert ended(same, "one", "two", "s") == make("form_end", (given_("one"), given_("two")))


def test_page_shows_its_own_label() -> None:
    one = jp.Question.text("a", "One?")
    two = jp.Question.text("b", "Two?").with_header("Stores")
    pages = (
        make("question_prompt", one, label="Assistant"),
        make("question_prompt", two, label="Shop"),
    )
    user = ConsoleUser("x", "y", "s")
    user.ask(make("form_prompt", pages))
    shown = "\n".join(user.transcript)
    assert "Question 1 of 2\nOne?" in shown
    assert "Question 2 of 2 · Shop · Stores\nTwo?" in shown


@pytest.mark.req("RPI-20", "HB-8")
def test_mark_of_a_recommended_option_is_no_part_of_it() -> None:
    marked = jp.Option(value="rd", label="Redis (recommended)")
    shouted = jp.Option(value="rd", label="Redis (Recommended)")
    for option, typed, listed in (
        (marked, "Redis (recommended)", "Redis (recommended)"),
        (shouted, "Redis (Recommended)", "Redis (Recommended)"),
        (STORES[1], "Redis", "Redis (recommended)"),
    ):
        asked = jp.Question.select("q", "Which?", [option, STORES[0]], recommended=0)
        user = ConsoleUser(typed)
        end = user.ask(form(asked, partial=True))
        assert end == make("form_end", (answered("rd", "stdin"),))
        (line,) = [x for x in user.transcript if x.startswith("  1")]
        assert line == f"  1  {listed}"


@pytest.mark.req("RPI-19", "RPI-21")
def test_where_several_may_be_picked_or_none_is_meant_nothing_is_marked() -> None:
    for multi, recommended in ((True, 0), (False, 9), (False, -1)):
        asked = jp.Question.select("q", "?", STORES, multi=multi, recommended=recommended)
        user = ConsoleUser()
        user.ask(form(asked))
        assert "recommended" not in "\n".join(user.transcript)


@pytest.mark.parametrize(
    ("question", "bad", "good", "value"),
    [
        (COUNT, ["0", "10", "1.5", "9" * 5000], "9", 9),
        (jp.Question.number("n", "?", minimum=0), ["-1", "inf", "1e999", "x"], " 2.5 ", 2.5),
        pytest.param(jp.Question.number("n", "?"), ["NaN"], "9" * 400, int("9" * 400), id="long"),
        (text_of(format="date"), ["2026-02-30", "today"], " 2026-02-28 ", "2026-02-28"),
        (text_of(format="email"), ["x"], "a@b.org", "a@b.org"),
        (text_of(min_length=2, max_length=3), ["", "a", "abcd"], "abc", "abc"),
    ],
)
def test_invalid_answer_is_asked_again_alone_and_in_a_form(
    question: jp.Question, bad: list[str], good: str, value: JsonValue
) -> None:
    for line in bad:
        user = ConsoleUser(line, good)
        assert user.ask(make("question_prompt", question)) == answered(value, "stdin")
        assert len([x for x in user.transcript if x.startswith("Please type a")]) == 1
    typed = [line for line in bad if line]
    assert ended(form(question), *typed, good) == make("form_end", (given_(value),))


@pytest.mark.req("RPI-27", "RPI-32", "RPI-56", "RCP-20")
def test_one_question_alone_takes_several_picks_and_own_texts(subtests: pytest.Subtests) -> None:
    rows: list[tuple[jp.Question, list[str], JsonValue]] = [
        (EXTRAS, ["3,1"], ["SQLite", "pg"]),
        (EXTRAS, ["", "4 2", "mine"], {"selected": ["rd"], "custom": "mine"}),
        (EXTRAS, ["0"], []),
        (EXTRAS, ["1,1", "1,0", "5", "SQLite"], ["SQLite"]),
        (EXTRAS.with_default(["rd", "pg"]), [""], ["rd", "pg"]),
        (STORE, ["4", "", "2"], "rd"),
        (STORE, ["4", " mine, all of it "], {"selected": [], "custom": " mine, all of it "}),
        (STORE, ["4", '""', "n", '""', "x", "y"], {"selected": [], "custom": ""}),
        (jp.Question.select("q", "?", [], other=True), ["", "1"], {"selected": [], "custom": "1"}),
    ]
    for question, typed, value in rows:
        with subtests.test(question=question):
            end = ConsoleUser(*typed).ask(make("question_prompt", question), "terminal")
            empty = ["empty"] if '""' in typed else []
            assert end == given_(value, *empty)


TWO = jp.Question(
    id="q",
    text="?",
    answer_type=make(
        "select_answer", options=tuple(STORES), multi=True, other=True, min_picks=2, max_picks=3
    ),
)


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        (["0", "1", "SQLite", "1,2,3,4", "2,1"], ["rd", "pg"]),
        (["4", "4,1", "", "4,1", "mine"], {"selected": ["pg"], "custom": "mine"}),
    ],
)
def test_so_many_are_picked_as_are_wanted(typed: list[str], value: JsonValue) -> None:
    user = ConsoleUser(*typed)
    assert user.ask(make("question_prompt", TWO)) == answered(value, "stdin")
    assert "  Please pick 2 to 3." in user.transcript
    assert not any("none of these" in line.lower() for line in user.transcript)


@pytest.mark.req("RCP-12")
def test_label_means_its_option_even_if_it_is_anothers_value() -> None:
    crossed = jp.Question.select(
        "q", "?", [jp.Option(value="b", label="a"), jp.Option(value="c", label="b")]
    )
    assert ended(form(crossed, partial=True), "b") == make("form_end", (given_("c"),))


STEPS = st.lists(
    st.sampled_from(["", "<", "1", "2,1", "0", "text", '""', "y", "n", "!", "b", "?", "s", "7"]),
    max_size=40,
)


@given(STEPS, st.booleans(), st.booleans())
def test_any_input_ends_and_every_answer_fits(typed: list[str], partial: bool, menu: bool) -> None:
    prompt = form(STORE, EXTRAS, fields(WHY, COUNT), SURE, partial=partial, menu=menu)
    end = ended(prompt, *typed)
    if is_kind(end, "form_end"):
        for page, each in zip(prompt.pages, end.ends, strict=True):
            assert is_kind(each, "not_answered") or page.question.misfit(each.value) is None
            assert partial or end.then != "submitted" or is_kind(each, "answered")
