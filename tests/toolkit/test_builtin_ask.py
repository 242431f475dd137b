"""Tests of the tool `ask`: registration, validation, and its results as text and JSON.

Some requirements are implemented differently:

- RPI-11: options are optional.
- RPI-13: a question has at most 200 options.
- RPI-21: an index out of range means no recommendation.
- RPI-34: "not answered" and "cancelled" are different.
- RPI-36, RCP-19: a confirmed blank text is an answer with the mark `empty`.
- RCP-5: at most one option is recommended.
- RCP-6, RPI-23: the number of options is advice.
- RCP-35: an outcome replaces a flag.

RCP-94 lists the required tests. See also `tests/agent/test_questions_of_ask.py` (prompts),
`tests/session/test_question_log.py` and `tests/storage/test_question_log.py` (storage and trust),
`tests/record/test_question_log_rows.py` (older logs), and `tests/toolkit/test_ask_user_read.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.tools import configured, new_tool, offer_now
from tests.support.fakes import InlineCell

MAX_ASK_CHARS = 100_000
NO_SECRETS = (
    "⚠ Do not type a password or a key. The answer is sent to the model and stored in the notebook."
)
MAX_QUESTIONS = 50
MAX_OPTIONS = 200


SIZE: dict[str, Any] = {
    "id": "size",
    "question": "Which size?",
    "options": [{"label": "Small", "value": "s"}, {"label": "Large"}],
}
TOPPINGS: dict[str, Any] = {
    "id": "toppings",
    "question": "Which toppings?",
    "options": [{"label": "Cheese"}, {"label": "Olives", "value": "o"}, {"label": "Basil"}],
    "multi": True,
}
NAME: dict[str, Any] = {"id": "name", "question": "For whom?", "mode": "freetext"}


ASK = offer_now(configured({})).tools["ask"].definition


async def call_ask(arguments: Any, context: jp.ToolContext | None = None) -> jp.Outcome:
    tool = new_tool("ask")
    outcome: jp.Outcome = await tool.run(arguments, context or jp.ToolContext("ask"), InlineCell())
    return outcome


async def run(
    *questions: JsonValue, context: jp.ToolContext | None = None, **more: Any
) -> jp.Outcome:
    arguments = {"questions": list(questions), **more}
    return await call_ask(arguments, context)


async def asked(*questions: JsonValue) -> jp.NeedsInput:
    outcome = await run(*questions)
    assert isinstance(outcome, jp.NeedsInput), outcome
    return outcome


async def problems(*questions: JsonValue, **more: Any) -> list[str]:
    """Return the listed problems of a call."""
    outcome = await run(*questions, **more)
    assert is_kind(outcome, "failure")
    first, *lines = outcome.message.split("\n")
    assert first.startswith("Nothing was shown to the user")
    return [line.removeprefix("- ") for line in lines]


def changed(question: Mapping[str, Any], /, **fields: Any) -> dict[str, Any]:
    return {**question, **fields}


def options(*labels: str) -> list[dict[str, str]]:
    return [{"label": label} for label in labels]


# --- valid calls -----------------------------------------------------------------------------


@pytest.mark.req("RPI-1", "RPI-8", "RPI-10", "RPI-11", "RCP-4", "RPI-37")
async def test_call_becomes_the_questions_of_one_form_verbatim() -> None:
    label = "  <b>Large</b> $x$ {x}"
    one: dict[str, Any] = {
        **{"id": "size", "question": " Which  size? ", "header": "Size", "context": "a\nb"},
        "options": [
            {"label": label, "description": "two\nlines"},
            {"label": "Small", "value": "s"},
        ],
    }
    needs = await asked(one, NAME)
    size, name = needs.questions
    assert (size.id, size.text, size.header, size.context) == (
        "size",
        " Which  size? ",
        "Size",
        "a\nb",
    )
    kind = size.answer_type
    assert is_kind(kind, "select_answer")
    assert kind.labels == (label, "Small")
    assert kind.values == (label, "s")
    assert kind.options[0].description == "two\nlines"
    assert (name.id, name.answer_type.type) == ("name", "text")
    assert (needs.partial, needs.menu) == (True, True)


@pytest.mark.req("RPI-16", "RCP-3", "RCP-7")
async def test_default_question_is_a_required_choice_with_an_own_answer() -> None:
    question = (await asked(SIZE)).question
    kind = question.answer_type
    assert is_kind(kind, "select_answer")
    assert (kind.multi, kind.other, kind.recommended) == (False, True, None)
    assert (question.required, question.exclusive, question.persistence) == (True, True, "none")


async def test_optional_question_is_not_exclusive() -> None:
    question = (await asked(changed(SIZE, required=False))).question
    assert (question.required, question.exclusive) == (False, False)


@pytest.mark.req("RPI-12", "RPI-14", "RCP-8")
async def test_question_may_have_only_options_or_only_an_own_answer() -> None:
    only_own = (await asked(changed(SIZE, options=[]))).question.answer_type
    assert is_kind(only_own, "select_answer")
    assert (only_own.options, only_own.other) == ((), True)
    only_options = (await asked(changed(SIZE, allow_other=False))).question.answer_type
    assert is_kind(only_options, "select_answer")
    assert only_options.other is False


@pytest.mark.req("RPI-13", "RPI-23", "RCP-6")
@pytest.mark.parametrize("count", [1, MAX_OPTIONS])
async def test_number_of_options_has_a_limit(count: int) -> None:
    labels = [f"colour {number}" for number in range(count)]
    kind = (await asked(changed(SIZE, options=options(*labels)))).question.answer_type
    assert is_kind(kind, "select_answer")
    assert list(kind.labels) == labels


async def test_null_is_an_absent_field() -> None:
    nothing = dict.fromkeys(("header", "context", "mode", "multi", "recommended", "required"))
    question = changed(SIZE, **nothing, options=[{"label": "a", "value": None}])
    assert (await asked(question)).question == (
        (await asked(changed(SIZE, options=options("a")))).question
    )


@pytest.mark.req("RPI-17", "RPI-21", "RCP-5")
async def test_option_is_recommended_by_index_or_mark(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[dict[str, Any], int | None]] = [
        ({"recommended": 1}, 1),
        ({"recommended": 2}, None),
        ({"recommended": -1}, None),
        ({"options": [{"label": "a"}, {"label": "b", "recommended": True}]}, 1),
        ({"options": [{"label": "a"}, {"label": "b", "recommended": True}], "recommended": 1}, 1),
        ({"options": [{"label": "a", "recommended": False}, {"label": "b"}]}, None),
    ]
    for fields, index in rows:
        with subtests.test(fields=fields):
            kind = (await asked(changed(SIZE, **fields))).question.answer_type
            assert is_kind(kind, "select_answer")
            assert kind.recommended == index


@pytest.mark.req("HB-8", "RPI-20")
async def test_label_that_looks_recommended_is_unchanged() -> None:
    question = changed(SIZE, options=options("Small (Recommended)", "Large"), recommended=0)
    result = await answered(question, answers={"size": "Small (Recommended)"})
    assert result.content == "User selected: Small (Recommended)"


@pytest.mark.req("HB-18")
async def test_question_about_a_secret_has_a_warning(subtests: pytest.Subtests) -> None:
    for question in [SIZE, NAME]:
        for fields in [
            {"id": "api_key"},
            {"question": "What is your API key?"},
            {"question": "Which password shall the account have?"},
            {"header": "Password"},
        ]:
            with subtests.test(fields=fields, question=question):
                found = (await asked(changed(question, **fields, context="Why."))).question
                assert found.context == f"Why.\n\n{NO_SECRETS}"
                without = (await asked(changed(question, context="Why."))).question
                assert without.context == "Why."


async def test_question_without_text_input_has_no_warning() -> None:
    found = (await asked(changed(SIZE, id="api_key", allow_other=False))).question
    assert found.context is None


# --- invalid calls ---------------------------------------------------------------------------


@pytest.mark.req("RPI-4")
async def test_questions_must_be_a_list(subtests: pytest.Subtests) -> None:
    rows: list[JsonValue] = [None, "size", {"id": "size"}, 1]
    for value in rows:
        with subtests.test(value=value):
            outcome = await call_ask({"questions": value})
            assert is_kind(outcome, "failure")
            assert "expected a list of at least one question" in outcome.message


@pytest.mark.req("RPI-6")
async def test_empty_list_of_questions_is_an_error() -> None:
    assert await problems() == ["`questions`: the list is empty: ask at least one question."]


@pytest.mark.req("RPI-8", "RPI-10", "RPI-11", "RCP-15", "RPI-15", "HB-6", "HB-13")
async def test_invalid_fields_are_named_with_their_place(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], str, str]] = [
        ({"id": None}, "questions[0].id", "is missing"),
        ({"id": " "}, "questions[0].id", "is blank"),
        ({"id": 5}, "questions[0].id", "expected a text, found 5"),
        ({"id": "a\nb"}, "questions[0].id", "has several lines"),
        ({"id": " a"}, "questions[0].id", "starts or ends with a space"),
        ({"id": "a\u200bb"}, "questions[0].id", "contains invisible characters"),
        ({"id": "x" * 65}, "questions[0].id", "has 65 characters, at most 64"),
        ({"question": None}, "questions[0].question", "is missing"),
        ({"question": "\t"}, "questions[0].question", "is blank"),
        ({"question": "a\nb"}, "questions[0].question", "Move further lines into `context`"),
        ({"question": "a\u2028b"}, "questions[0].question", "has several lines"),
        ({"header": 1}, "questions[0].header", "expected a text"),
        ({"mode": "multi"}, "questions[0].mode", 'expected "choice" or "freetext"'),
        ({"multi": "yes"}, "questions[0].multi", "expected true or false"),
        ({"required": 1}, "questions[0].required", "expected true or false"),
        ({"allow_other": []}, "questions[0].allow_other", "expected true or false"),
        ({"options": "a, b"}, "questions[0].options", "expected a list of options"),
        ({"options": ["a", "b"]}, "questions[0].options[0]", 'such as {"label": "a"}'),
        ({"options": [[]]}, "questions[0].options[0]", "found []"),
        ({"options": [{}]}, "questions[0].options[0].label", "is missing"),
        ({"options": options(" ")}, "questions[0].options[0].label", "is blank"),
        ({"options": options("a\nb")}, "questions[0].options[0].label", "has several lines"),
        ({"options": [], "allow_other": False}, "questions[0].options", ("the question cannot be "
            "answered")),
        ({"options": [{"label": "a", "value": 1}]}, "questions[0].options[0].value", "found 1"),
        ({"options": [{"label": "a", "value": ""}]}, "questions[0].options[0].value", "blank"),
        ({"choices": []}, "questions[0].choices", "is not a field of a question"),
        ({"disableOther": True}, "questions[0].disableOther", "Known fields: id, question, header"),
        ({"options": [{"label": "a", "preview": "b"}]}, "questions[0].options[0].preview",
         "is not a field of an option"),
        ({"recommended": True}, "questions[0].recommended", "expected the index of an option"),
        ({"recommended": 1.5}, "questions[0].recommended", "found 1.5"),
        ({"recommended": 1.0}, "questions[0].recommended", "found 1.0"),
    ]  # fmt: skip
    for fields, place, says in rows:
        with subtests.test(fields=fields):
            first, *_ = await problems(changed(SIZE, **fields))
            assert first.startswith(f"`{place}`")
            assert says in first
            if fields.get("id", "size") == "size":
                assert '(question "size")' in first


async def test_unknown_fields_of_the_call_are_refused() -> None:
    [line] = await problems(SIZE, title="Pizza")
    assert line == "`title`: is not a field of the call. Known fields: questions."


@pytest.mark.req("RPI-8")
async def test_ids_must_differ() -> None:
    [line] = await problems(SIZE, NAME, changed(TOPPINGS, id="size"))
    assert line == (
        '`questions[2].id` (question "size"): questions[0] has the same id: give each question a '
        "different id."
    )


@pytest.mark.req("HB-6", "RPI-55")
async def test_similar_labels_are_refused(
    subtests: pytest.Subtests,
) -> None:
    rows: list[str] = [
        "Large", "large", " LARGE ", "L\u0430rge", "\uff2carge", "La\u200brge", "Lar\u00adge",
    ]  # fmt: skip
    for twin in rows:
        with subtests.test(twin=twin):
            [line] = await problems(changed(SIZE, options=options("Large", twin)))
            assert line.startswith('`questions[0].options[1].label` (question "size")')
            assert "rename one of them" in line


async def test_labels_must_differ_in_more_than_white_space() -> None:
    assert await problems(changed(SIZE, options=options("Extra large", "Extra  large")))


async def test_different_labels_are_accepted(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [("12 גרסה", "21 גרסה"), ("Large", "Larger"), ("a.b", "ab")]
    for pair in rows:
        with subtests.test(pair=pair):
            assert await asked(changed(SIZE, options=options(*pair)))


@pytest.mark.req("RCP-4")
async def test_values_must_differ() -> None:
    twins = [{"label": "a", "value": "x"}, {"label": "b", "value": "x"}]
    [line] = await problems(changed(SIZE, options=twins))
    assert line == (
        '`questions[0].options[1].value` (question "size"): the option "a" has the same value: '
        "use a different one."
    )


@pytest.mark.req("RPI-15", "HB-6")
async def test_labels_used_by_the_form_are_refused(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "Other", " other ", "OTHER (type your own)", "Done", "done selecting", "Submit",
        "\u041ether",
    ]  # fmt: skip
    for label in rows:
        with subtests.test(label=label):
            [line] = await problems(changed(SIZE, options=options("Small", label)))
            assert line.startswith('`questions[0].options[1].label` (question "size")')
            assert ": the form uses " in line


@pytest.mark.req("RCP-5")
async def test_at_most_one_option_is_recommended(subtests: pytest.Subtests) -> None:
    rows: list[dict[str, Any]] = [
        {"options": [{"label": label, "recommended": True} for label in "ab"]},
        {"options": [{"label": "a"}, {"label": "b", "recommended": True}], "recommended": 0},
    ]
    for fields in rows:
        with subtests.test(fields=fields):
            [line] = await problems(changed(SIZE, **fields))
            assert line.startswith('`questions[0].recommended` (question "size")')
            assert line.endswith("options 0, 1 are recommended: recommend at most one.")


async def test_all_problems_are_reported_at_once() -> None:
    found = await problems(
        changed(SIZE, id="", multi=1, options=options("a", "A", "Other")),
        "Which?",
        changed(NAME, question="a\nb", extra=1),
        title="x",
    )
    places = [line.split("`")[1] for line in found]
    assert places == [
        "title",
        "questions[0].id",
        "questions[0].multi",
        "questions[0].options[1].label",
        "questions[0].options[2].label",
        "questions[1]",
        "questions[2].extra",
        "questions[2].question",
    ]


@pytest.mark.req("HB-13")
async def test_errors_are_also_structured() -> None:
    outcome = await run(changed(SIZE, options=["a"]))
    assert is_kind(outcome, "failure")
    assert outcome.structured == {
        "schema": "jp_nb.ask",
        "version": 1,
        "outcome": "invalid",
        "errors": [
            {
                "path": "questions[0].options[0]",
                "question": "size",
                "message": 'expected an object such as {"label": "a"}, found "a".',
            }
        ],
    }


async def test_size_of_a_call_is_limited() -> None:
    many = [changed(NAME, id=str(number)) for number in range(MAX_QUESTIONS + 1)]
    assert await asked(*many[:-1])
    [line] = await problems(*many)
    assert "at most 50 questions are allowed, found 51" in line
    [line] = await problems(
        changed(SIZE, options=options(*(str(n) for n in range(MAX_OPTIONS + 1))))
    )
    assert "at most 200 options are allowed, found 201" in line
    long = [changed(NAME, id=str(number), context="x" * 9_990) for number in range(11)]
    [line] = await problems(*long)
    assert f"at most {MAX_ASK_CHARS} are allowed" in line


async def test_list_of_errors_is_limited_and_hostile_texts_are_escaped() -> None:
    hostile = "\x1b[31m\u202e<script>`\n"
    wrong = [changed(SIZE, id="", **{hostile: 1}) for _ in range(MAX_QUESTIONS)]
    found = await problems(*wrong)
    assert len(found) == 31
    assert found[-1] == "… and 70 more."
    assert all(line.isprintable() for line in found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below),
    max_leaves=12,
)
FIELDS: Any = ASK.parameters["properties"]["questions"]["items"]["properties"]
OPTION = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        FIELDS["options"]["items"]["properties"], st.text(max_size=6) | st.booleans() | JSON
    ),
)
QUESTION = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(FIELDS, st.text(max_size=6) | st.booleans() | JSON),
        "mode": st.sampled_from(["choice", "freetext", 1]),
        "options": st.lists(OPTION | JSON, max_size=4) | JSON,
    },
)


@given(st.lists(QUESTION | JSON, max_size=4) | JSON)
async def test_any_call_is_asked_or_refused_in_printable_lines(questions: Any) -> None:
    outcome = await call_ask({"questions": questions})
    if is_kind(outcome, "failure"):
        _, *lines = outcome.message.split("\n")
        assert lines
        for line in lines:
            assert line.isprintable(), line
            assert line.startswith(("- `questions", "- …")), line
        return

    assert isinstance(outcome, jp.NeedsInput)
    for question, given_question in zip(outcome.questions, questions, strict=True):
        kind = question.answer_type
        assert is_kind(kind, "select_answer") == (given_question.get("mode") != "freetext")
        assert question.text.strip()


# --- results ---------------------------------------------------------------------------------


async def result(
    *questions: dict[str, Any],
    answers: Mapping[str, JsonValue],
    ends: Mapping[str, Any],
    reply: str | None = None,
) -> Any:
    context = jp.ToolContext("ask", answers=answers, ends=ends, reply=reply)
    outcome = await run(*questions, context=context)
    assert is_kind(outcome, "success", "failure")
    assert outcome.structured == json.loads(json.dumps(outcome.structured))
    return outcome


async def answered(*questions: dict[str, Any], answers: Mapping[str, JsonValue]) -> jp.Success:
    ends = {question["id"]: FORM for question in questions}
    outcome = await result(*questions, answers=answers, ends=ends)
    assert isinstance(outcome, jp.Success)
    return outcome


FORM = make("question_outcome", "answered", "form")


def own_text(text: str, *picks: str) -> JsonValue:
    return {"selected": [*picks], "custom": text}


@pytest.mark.req("RPI-25", "RPI-26", "RPI-27", "RPI-33", "RPI-35", "RPI-56", "RCP-32", "RCP-37")
async def test_one_answer_is_a_line_for_picks_and_one_for_own_text(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[dict[str, Any], JsonValue, str]] = [
        (SIZE, "Large", "User selected: Large"),
        (SIZE, "s", "User selected: Small (value: s)"),
        (SIZE, own_text("Medium"), "User provided custom input: Medium"),
        (SIZE, own_text("Large"), "User provided custom input: Large"),
        (SIZE, own_text("a\n\n b"), "User provided custom input:\n  a\n  \n   b"),
        (NAME, "Ada", "User provided custom input: Ada"),
        (TOPPINGS, ["Basil", "o"], "User selected: [Basil, Olives (value: o)]"),
        (TOPPINGS, [], "User selected: [] (none of these)"),
        (TOPPINGS, own_text("ham"), "User provided custom input: ham"),
        (TOPPINGS, own_text("ham\nand eggs", "Basil", "Cheese"),
         "User selected: [Basil, Cheese]\nUser provided custom input:\n  ham\n  and eggs"),
    ]  # fmt: skip
    for question, answer, text in rows:
        with subtests.test(question=question):
            assert (await answered(question, answers={question["id"]: answer})).content == text


@pytest.mark.req("RPI-9", "RPI-28", "RPI-33", "RPI-35", "HB-5", "HB-7")
async def test_several_answers_are_listed_by_id_in_order() -> None:
    questions = (
        SIZE,
        TOPPINGS,
        NAME,
        changed(SIZE, id="again"),
        changed(TOPPINGS, id="more"),
        changed(NAME, id="last"),
    )
    answers: dict[str, JsonValue] = {
        "last": "one\n\ntwo ",
        "more": [],
        "again": own_text("none"),
        "name": "Ada",
        "toppings": own_text("ham", "o", "Cheese"),
        "size": "s",
    }
    assert (await answered(*questions, answers=answers)).content == (
        "User answers:\n"
        "size: Small (value: s)\n"
        "toppings: [Olives (value: o), Cheese]; custom input: ham\n"
        "name: custom input: Ada\n"
        "again: custom input: none\n"
        "more: [] (none of these)\n"
        "last: custom input:\n  one\n  \n  two "
    )


@pytest.mark.req("RPI-29", "RPI-31", "RPI-32", "RPI-37", "RCP-20", "RCP-33", "RCP-34", "RCP-37")
async def test_one_answer_is_also_structured() -> None:
    assert (await answered(SIZE, answers={"size": "s"})).structured == {
        "schema": "jp_nb.ask",
        "version": 1,
        "question": "Which size?",
        "mode": "choice",
        "options": ["Small", "Large"],
        "multi": False,
        "outcome": "answered",
        "channel": "form",
        "selectedOptions": ["Small"],
        "selected": [{"index": 0, "label": "Small", "value": "s"}],
    }
    other: Any = (await answered(SIZE, answers={"size": own_text(" Medium\n")})).structured
    assert (other["selectedOptions"], other["customInput"]) == ([], " Medium\n")


@pytest.mark.req("RPI-9", "RPI-20", "RPI-30", "RPI-32", "RPI-38")
async def test_several_answers_are_also_structured_in_order() -> None:
    label = "<b>$x$ {x}</b> (Recommended)"
    first = changed(SIZE, options=options("a", label), recommended=1)
    answers: dict[str, JsonValue] = {"size": label, "toppings": own_text("", "o", "Cheese")}
    whole: Any = (await answered(first, TOPPINGS, answers=answers)).structured
    assert (whole["schema"], whole["version"]) == ("jp_nb.ask", 1)
    size, toppings = whole["results"]
    assert (size["id"], toppings["id"]) == ("size", "toppings")
    assert size["selected"] == [{"index": 1, "label": label, "value": label}]
    assert "customInput" not in size
    assert toppings["selectedOptions"] == ["Olives", "Cheese"]
    assert toppings["customInput"] == ""
    assert toppings["multi"] is True


def end(how: Any, *marks: Any, channel: str | None = None) -> Any:
    return make("question_outcome", how, channel, frozenset(marks))


@pytest.mark.req("HB-1", "RPI-34", "RPI-39", "RPI-70", "RCP-25", "RCP-35")
async def test_each_unanswered_end_has_its_own_text(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[str, bool, str]] = [
        ("declined", True, "Not answered: the user left it open on purpose."),
        ("cancelled", False, "Cancelled: the user did not answer it."),
        ("timed_out", False, "Timed out: the user did not answer in time."),
        ("interrupted", False, "Not answered: an interrupt closed the form."),
        ("unavailable", False, "Not answered: no user was available."),
    ]
    for how, ok, text in rows:
        with subtests.test(how=how):
            found = await result(TOPPINGS, answers={}, ends={"toppings": end(how)})
            assert is_kind(found, "success" if ok else "failure")
            assert (found.content if isinstance(found, jp.Success) else found.message) == text
            whole: Any = found.structured
            assert whole["outcome"] == how
            assert not {"selectedOptions", "selected", "customInput"} & whole.keys()


@pytest.mark.req("HB-1", "RPI-34", "RPI-61")
async def test_unanswered_question_differs_from_an_empty_selection() -> None:
    ends = {"size": end("declined"), "toppings": FORM, "name": end("timed_out")}
    found = await result(SIZE, TOPPINGS, NAME, answers={"toppings": []}, ends=ends)
    assert isinstance(found, jp.Success)
    assert found.content == (
        "User answers:\n"
        "size: not answered (the user left it open on purpose)\n"
        "toppings: [] (none of these)\n"
        "name: timed out (the user did not answer in time)"
    )


async def test_form_without_any_answer_is_an_error_unless_declined() -> None:
    found = await result(
        SIZE, NAME, answers={}, ends={"size": end("declined"), "name": end("timed_out")}
    )
    assert is_kind(found, "failure")
    assert found.message == (
        "Answers:\n"
        "size: not answered (the user left it open on purpose)\n"
        "name: timed out (the user did not answer in time)"
    )
    left = {"size": end("declined"), "name": end("declined")}
    assert isinstance(await result(SIZE, NAME, answers={}, ends=left), jp.Success)


@pytest.mark.req("RPI-66", "RPI-68", "RPI-69", "HB-3", "RCP-24")
async def test_automatic_answer_is_marked() -> None:
    auto = end("answered", "auto", "timed_out")
    picked = end("answered", "timed_out", channel="form")
    nobody = end("answered", "auto")
    found = await result(SIZE, answers={"size": "s"}, ends={"size": auto})
    assert isinstance(found, jp.Success)
    assert found.content == (
        "Chosen automatically, because the user did not answer in time: Small (value: s)"
    )
    whole: Any = found.structured
    assert (whole["auto"], whole["timed_out"], "channel" in whole) == (True, True, False)
    found = await result(
        SIZE,
        TOPPINGS,
        changed(SIZE, id="more"),
        answers={"size": "s", "toppings": ["o"], "more": "s"},
        ends={"size": auto, "toppings": picked, "more": nobody},
    )
    assert isinstance(found, jp.Success)
    assert found.content == (
        "User answers:\n"
        "size (chosen automatically, because the user did not answer in time): Small (value: s)\n"
        "toppings (selected before the time ran out, but not submitted): [Olives (value: o)]\n"
        "more (chosen automatically, because no user was available): Small (value: s)"
    )


@pytest.mark.req("HB-10", "RCP-25")
async def test_configured_answer_is_marked() -> None:
    given = end("answered", channel="configured")
    found = await result(SIZE, answers={"size": own_text("XL")}, ends={"size": given})
    assert isinstance(found, jp.Success)
    assert found.content == "Configured by the user in advance, as custom input: XL"
    found = await result(
        SIZE, NAME, answers={"size": "s", "name": "Ada"}, ends={"size": given, "name": given}
    )
    assert isinstance(found, jp.Success)
    assert found.content == (
        "Answers:\n"
        "size (configured by the user in advance): Small (value: s)\n"
        "name (configured by the user in advance): custom input: Ada"
    )


@pytest.mark.req("RPI-36", "RCP-17", "RCP-18", "RCP-19")
async def test_confirmed_blank_text_is_a_marked_answer() -> None:
    blank = end("answered", "empty", channel="form")
    found = await result(NAME, answers={"name": " "}, ends={"name": blank})
    assert isinstance(found, jp.Success)
    assert found.content == (
        "User provided custom input: (left blank on purpose: treat this point as undecided, or "
        "ask differently)"
    )
    whole: Any = found.structured
    assert (whole["outcome"], whole["empty"], whole["customInput"]) == ("answered", True, " ")


@pytest.mark.req("RPI-62", "HB-12")
async def test_reply_includes_the_answers_so_far() -> None:
    ends = {"size": FORM, "toppings": end("cancelled", channel="form")}
    found = await result(
        SIZE, TOPPINGS, answers={"size": "s"}, ends=ends, reply="Why?\nTell me more."
    )
    assert isinstance(found, jp.Success)
    assert found.content == (
        "The user did not send the form, but replied to you:\n  Why?\n  Tell me more.\n"
        "User answers so far:\n"
        "size: Small (value: s)\n"
        "toppings: cancelled (the user replied instead)"
    )
    whole: Any = found.structured
    assert whole["reply"] == "Why?\nTell me more."
    assert [each["outcome"] for each in whole["results"]] == ["answered", "cancelled"]
    alone = await result(SIZE, answers={}, ends={"size": end("cancelled")}, reply="Later.")
    assert isinstance(alone, jp.Success)
    assert alone.content == (
        "The user did not send the form, but replied to you: Later.\n"
        "Cancelled: the user replied instead."
    )
    late = await result(SIZE, answers={}, ends={"size": end("timed_out")}, reply=" ")
    assert isinstance(late, jp.Success)
    assert late.content == (
        "The user did not send the form, but replied to you: (nothing more)\n"
        "Timed out: the user did not answer in time."
    )


@pytest.mark.req("RCP-16")
async def test_options_of_a_free_text_question_are_ignored_with_a_note() -> None:
    question = changed(NAME, options=[{"label": "Ada"}, "Bob"], multi=True, allow_other=True)
    needs = await asked(question)
    assert needs.question.answer_type.type == "text"
    found = await answered(question, answers={"name": "Eve"})
    assert found.content == (
        "User provided custom input: Eve\n"
        "(`options`, `multi` had no effect on 'name': its mode is freetext.)"
    )
    whole: Any = found.structured
    assert whole["ignored"] == ["options", "multi"]


@pytest.mark.req("RPI-38")
async def test_labels_are_shown_literally() -> None:
    for label in ("<b>x</b>", "$x$", "{x}", "%s", "`x`", "cancelled", "[]"):
        question = changed(SIZE, options=options(label))
        found = await answered(question, answers={"size": label})
        assert found.content == f"User selected: {label}"


# --- registration ----------------------------------------------------------------------------


@pytest.mark.req("RCP-1")
def test_ask_is_registered_next_to_ask_user() -> None:
    tools = configured({}).conversation.tools
    tool = tools["ask"]
    assert "ask_user" in tools
    assert (tool.source, tool.run, tool.result) == ("builtin", "unattended", "unattended")
    assert tool.style.hidden is True
    assert tool.description == ASK.description


@pytest.mark.req("RPI-4", "RPI-5", "RPI-8", "RPI-10")
def test_schema_states_the_checked_fields() -> None:
    questions: Any = ASK.parameters["properties"]["questions"]
    assert (ASK.parameters["required"], questions["minItems"]) == (["questions"], 1)
    question = questions["items"]
    assert question["required"] == ["id", "question"]
    option = question["properties"]["options"]["items"]
    assert option["required"] == ["label"]
    for node in (ASK.parameters, question, option):
        assert node["additionalProperties"] is False


@pytest.mark.req("RCP-2", "RCP-14", "RPI-23")
def test_descriptions_tell_the_question_tools_apart() -> None:
    assert "For a single short question use `ask_user` instead" in ASK.description
    ask_user = configured({}).conversation.tools["ask_user"]
    assert "for several questions at once, use `ask` instead" in str(ask_user.description)
    assert "Ask rather than assume a default that matters." in ASK.description
    assert "2 to 5 options" in ASK.description
    assert "Never use it to collect secrets" in ASK.description


def test_ask_is_the_only_tool_that_needs_a_user() -> None:
    builtins = configured({}).conversation.tools
    assert [name for name in builtins if new_tool(name).needs_user] == ["ask"]
    assert new_tool("missing").needs_user is False


LIST_OF_TESTS = {
    "choice": ("RCP-4", "RCP-7", "RCP-8"),
    "freetext": ("RCP-16", "RCP-17", "RCP-18"),
    "modes": ("RCP-22", "RCP-23", "RCP-30", "RCP-31"),
    "persistence": ("RCP-39", "RCP-43", "RCP-49", "RCP-50"),
    "migration": ("RCP-57", "RCP-58", "RCP-60"),
    "trust": ("RCP-63", "RCP-65", "RCP-67"),
    "read actions": ("RCP-72", "RCP-75", "RCP-77", "RCP-79"),
    "essential": ("RCP-24", "RCP-29"),
}


@pytest.mark.req("RCP-94")
def test_listed_requirements_of_the_question_tools_have_tests(subtests: pytest.Subtests) -> None:
    for what in LIST_OF_TESTS:
        with subtests.test(what=what):
            tests = Path(__file__).parents[1]
            marked = "".join(path.read_text(encoding="utf-8") for path in tests.rglob("test_*.py"))
            missing = [row for row in LIST_OF_TESTS[what] if marked.count(f'"{row}"') < 2]
            assert missing == [], "named here and nowhere else"
