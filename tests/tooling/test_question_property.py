"""What holds of every kind of question and every answer.

A whole number written as 5.0 is an integer for JSON schemas, and no answer here: a tool gets an
`int`. That a format is right is beyond a schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import ValidationError

from jp_nb.safe_text import one_line
from jp_nb.tooling.question import FormAnswer, Question, read_answer_type
from jp_nb.tooling.question_kinds import AnswerType, IntegerAnswer, NumberAnswer, TextAnswer
from jp_nb.tooling.select_kind import Option, Picks, SelectAnswer
from jp_nb.tooling.text_formats import FORMATS
from tests.support.question_strategies import KINDS, SELECTS, answers

PAIRS = KINDS.flatmap(lambda kind: st.tuples(st.just(kind), answers(kind)))


@settings(max_examples=600, deadline=None)
@given(PAIRS)
def test_the_schema_takes_exactly_what_is_an_answer(pair: tuple[AnswerType, Any]) -> None:
    kind, answer = pair
    schema = kind.answer_schema()
    Draft202012Validator.check_schema(schema)
    fits = Draft202012Validator(schema).is_valid(answer)
    assert fits is (kind.misfit(answer) is None), (schema, answer)


@settings(max_examples=300, deadline=None)
@given(PAIRS)
def test_an_answer_is_kept_settled_and_worded_as_it_is(pair: tuple[AnswerType, Any]) -> None:
    kind, answer = pair
    settled = kind.settled(answer)
    assert kind.settled(settled) == settled
    words = kind.in_words(answer)
    assert "\n" not in words
    assert "\u202e" not in words
    if kind.misfit(answer) is None:
        assert settled == answer
        assert not kind.has_secret or "(secret)" in json.dumps(kind.kept(answer)) or answer == {}
        if not kind.has_secret:
            assert kind.kept(answer) == answer


@settings(max_examples=300, deadline=None)
@given(KINDS)
def test_a_kind_comes_back_from_the_wire(kind: AnswerType) -> None:
    text = kind.model_dump_json()
    again = read_answer_type(json.loads(text))
    assert again.model_dump_json() == text
    assert again.answer_schema() == kind.answer_schema()
    assert again.reworded(lambda words: words) == again


@settings(max_examples=300, deadline=None)
@given(SELECTS.flatmap(lambda kind: st.tuples(st.just(kind), answers(kind))))
def test_picks_and_answers_say_the_same(pair: tuple[SelectAnswer, Any]) -> None:
    kind, answer = pair
    picks = kind.picks(answer)
    assert (picks is None) is (kind.misfit(answer) is not None)
    if picks is not None:
        assert kind.answer(picks) == answer
        assert kind.picks(kind.answer(picks)) == picks


def test_options_are_picked_once_each_and_an_own_text_where_it_is_offered(
    subtests: pytest.Subtests,
) -> None:
    for fields, answer, misfit in [
        ({"multi": True}, ["b", "a"], None),
        ({"multi": True}, ["a", "a"], "option"),
        ({"multi": True}, ["c"], "option"),
        ({"multi": True}, "a", "type"),
        ({"multi": True}, {"selected": ["a"], "custom": "x"}, "option"),
        ({"multi": True, "other": True}, {"selected": ["a", "b"], "custom": "x"}, None),
        ({"multi": True, "other": True, "max_picks": 2}, ["a", "b"], None),
        (
            {"multi": True, "other": True, "max_picks": 2},
            {"selected": ["a", "b"], "custom": "x"},
            "option",
        ),
        (
            {"multi": True, "other": True, "min_picks": 2},
            {"selected": ["a"], "custom": "x"},
            None,
        ),
        (
            {"multi": True, "other": True, "min_picks": 2},
            {"selected": [], "custom": "x"},
            "option",
        ),
        ({"other": True}, {"selected": [], "custom": "x"}, None),
        ({"other": True}, {"selected": ["a"], "custom": "x"}, "option"),
        ({"other": True}, {"selected": [], "custom": "x", "more": 1}, "option"),
        ({}, {"selected": [], "custom": "x"}, "option"),
        ({}, ["a"], "type"),
    ]:
        with subtests.test(fields=fields):
            kind = SelectAnswer(options=(Option(value="a"), Option(value="b")), **fields)
            assert kind.misfit(answer) == misfit
            assert Draft202012Validator(kind.answer_schema()).is_valid(answer) is (misfit is None)


def test_what_nobody_sees_in_a_label_or_an_own_text_is_spelled_out() -> None:
    kind = SelectAnswer(options=(Option(value="a", label="x\u200b"),), other=True)
    assert kind.in_words("a") == "x⟨U+200B⟩"
    assert kind.in_words({"selected": [], "custom": "y\u200b"}) == '"y⟨U+200B⟩"'


def test_a_recommendation_of_nothing_is_not_recorded() -> None:
    for index, recorded in ((1, 1), (2, None), (-1, None)):
        kind = SelectAnswer(options=(Option(value="a"), Option(value="b")), recommended=index)
        assert kind.recorded().get("recommended") == recorded


def test_an_own_text_stands_beside_several_picks_and_in_place_of_one() -> None:
    options = (Option(value="a"), Option(value="b"))
    for multi, selected in ((True, ["b", "a"]), (False, [])):
        kind = SelectAnswer(options=options, multi=multi, other=True)
        picks = Picks((1, 0) if multi else (1,), "mine")
        assert kind.answer(picks) == {"selected": selected, "custom": "mine"}


@settings(max_examples=300, deadline=None)
@given(KINDS)
def test_what_is_taken_with_nobody_there_is_an_answer(kind: AnswerType) -> None:
    automatic = kind.automatic
    assert automatic is None or kind.misfit(automatic) is None


@settings(max_examples=300, deadline=None)
@given(SELECTS)
def test_a_label_settles_to_the_value_of_its_option(kind: SelectAnswer) -> None:
    for option in kind.options:
        others = [each for each in kind.options if each.shown == option.shown]
        named = option.label is not None and option.label not in kind.values
        if named and others == [option]:
            settled = kind.settled([option.label] if kind.multi else option.label)
            assert settled == ([option.value] if kind.multi else option.value)


def test_a_model_is_told_what_the_options_mean() -> None:
    bee = Option(value="b", label="Bee", description="It\nstings.")
    kind = SelectAnswer(options=(Option(value="a"), bee, Option(value="c", label="Sea")))
    assert kind.answer_schema() == {
        "type": "string",
        "description": '"b": Bee, It stings.; "c": Sea',
        "enum": ["a", "b", "c"],
    }


def test_the_value_of_an_option_means_that_option_even_if_it_is_anothers_label() -> None:
    crossed = (Option(value="b", label="a"), Option(value="c", label="b"))
    kind = SelectAnswer(options=crossed)
    assert [kind.settled(name) for name in ("a", "b", "c")] == ["b", "b", "c"]


def test_a_question_that_nobody_could_answer_cannot_be_made(subtests: pytest.Subtests) -> None:
    for kind, fields in [
        (NumberAnswer, {"minimum": 3, "maximum": 2}),
        (NumberAnswer, {"above": 2, "maximum": 2}),
        (NumberAnswer, {"minimum": float("inf")}),
        (NumberAnswer, {"minimum": "3"}),
        (NumberAnswer, {"min": 3}),
        (IntegerAnswer, {"above": 2, "below": 3}),
        (IntegerAnswer, {"minimum": 2.1, "maximum": 2.9}),
        (TextAnswer, {"min_length": 3, "max_length": 2}),
        (TextAnswer, {"max_length": True}),
        (TextAnswer, {"lines": "no"}),
        (TextAnswer, {"format": "phone"}),
        (SelectAnswer, {"options": ()}),
        (SelectAnswer, {"options": ("a", "a")}),
        (SelectAnswer, {"options": (1, 1.0)}),
        (SelectAnswer, {"options": (float("nan"),)}),
        (SelectAnswer, {"options": ("a",), "multi": 1}),
        (SelectAnswer, {"options": ("a",), "recommended": True}),
        (SelectAnswer, {"options": ("a",), "multi": True, "min_picks": 2}),
        (SelectAnswer, {"options": ("a",), "max_picks": 1}),
        (SelectAnswer, {"options": ({"value": "a", "preview": "b"},)}),
    ]:
        with subtests.test(kind=kind), pytest.raises(ValidationError):
            kind(**fields)


def test_what_is_expected_is_said_exactly(subtests: pytest.Subtests) -> None:
    for kind, expects in [
        (NumberAnswer(minimum=0.0, maximum=1_000_000), "a number from 0 to 1000000"),
        (NumberAnswer(above=0, below=0.5), "a number above 0 below 0.5"),
        (IntegerAnswer(minimum=2**60 + 1), "a whole number of at least 1152921504606846977"),
        (TextAnswer(max_length=80), "a string of at most 80 characters"),
        (TextAnswer(format="date"), "a date such as 2026-11-23"),
        (SelectAnswer(options=("a", "b"), multi=True), "a list of options"),
        (SelectAnswer(options=("a", "b"), multi=True, min_picks=1), "a list of at least 1 options"),
        (SelectAnswer(options=("a", "b"), multi=True, max_picks=1), "a list of 0 to 1 options"),
    ]:
        with subtests.test(kind=kind):
            assert kind.expects == expects


@pytest.mark.parametrize(
    ("name", "begin", "end"), [("email", "", "@b.org"), ("uri", "https://b.org/", "")]
)
def test_what_is_as_long_as_a_chapter_has_no_format(name: Any, begin: str, end: str) -> None:
    texts = [f"{begin}{'a' * length}{end}" for length in (100, 4000)]
    assert [TextAnswer(format=name).misfit(text) for text in texts] == [None, "value"]


def test_no_number_is_infinite_or_none() -> None:
    assert [NumberAnswer().misfit(float(x)) for x in ("inf", "-inf", "nan")] == ["value"] * 3


def test_what_is_wrong_with_a_field_that_is_given_is_said_once_of_the_rest() -> None:
    fields = (Question.text("a", "A?"), Question.text("b", "B?"))
    form = FormAnswer(fields=fields, check=lambda _: {"a": "wrong", "b": "bad"})
    assert form.rest({"a": "x"}).problems({"b": "y"}) == {"b": "bad", "": "A?: wrong"}


def test_a_default_that_is_no_answer_fills_nothing_in() -> None:
    size = Question.integer("size", "Size?", minimum=1)
    form = FormAnswer(fields=(size.with_default(0), Question.text("a", "A?").with_default("b")))
    assert form.filled({}) == {"a": "b"}


def test_what_a_check_says_is_one_line_without_escapes() -> None:
    fields = (Question.text("a", "A?"),)
    form = FormAnswer(fields=fields, check=lambda _: {"a": "no\x1b[2J\nSent.", "": "nor\nall"})
    assert form.problems({"a": "b"}) == {"a": one_line("no\x1b[2J\nSent."), "": "nor all"}


def test_an_integer_of_many_digits_keeps_them() -> None:
    kind = IntegerAnswer(minimum=2**60 + 1)
    assert kind.answer_schema() == {"type": "integer", "minimum": 2**60 + 1}
    assert [kind.misfit(x) for x in (2**60, 2**60 + 1, 10**5000)] == ["value", None, None]


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("email", ["a@b", "a.b+c@d.org", "é@ü.de"],
         ["", "a", "@b", "a@", "a b@c", "a@b@c", "a@.b", "a@b.", "a\u202e@b.c", "a@b\n"]),
        ("uri", ["https://example.org/a?b#c", "mailto:a@b", "urn:x:y"],
         ["", "example.org", "//example.org", "https:", "https://a b", "http://[::1", "a\x00:b"]),
        ("date", ["2026-11-23", "2024-02-29"],
         ["", "2026-02-29", "23.11.2026", "2026-1-1", "20261123", "2026-W01-1", "\uff12026-01-01"]),
        ("time", ["17:30", "17:30:05", "17:30:05.5Z", "17:30+01:00"],
         ["", "17", "1730", "T17:30", "25:00", "17:60", "5 pm"]),
        ("date-time", ["2026-11-23T17:30", "2026-11-23 17:30:00Z", "2026-11-23T17:30:00+01:00"],
         ["", "2026-11-23", "2026-11-23T", "2026-02-30T10:00", "2026-11-23x17:30", "17:30"]),
    ],
)  # fmt: skip
def test_formats_take_what_people_type_and_nothing_else(
    form: Any, good: list[str], bad: list[str]
) -> None:
    assert {text: FORMATS[form](text) for text in good} == dict.fromkeys(good, True)
    assert {text: FORMATS[form](text) for text in bad} == dict.fromkeys(bad, False)


UNIT = 500
"""Size of the smaller value; the larger one is sixteen times as large."""
MOST = 64
"""What is linear takes 16 times as long for it, what is quadratic 256 times."""
HOSTILE: dict[str, Callable[[int], tuple[AnswerType, Any]]] = {
    "e-mail": lambda n: (TextAnswer(format="email"), "a." * n + "@" + "b." * n),
    "address": lambda n: (TextAnswer(format="uri"), "http://" + "[" * n),
    "time": lambda n: (TextAnswer(format="date-time"), "2026-11-23T" + "1" * n),
    "numbers": lambda n: (SelectAnswer(options=tuple(range(n)), multi=True), [*range(n)]),
    "own text": lambda n: (
        SelectAnswer(options=tuple(map(str, range(n))), multi=True, other=True),
        {"selected": [str(each) for each in range(n)], "custom": "x" * n},
    ),
    "no fields": lambda n: (
        FormAnswer(fields=(Question.text("a", "A"),)),
        dict.fromkeys(map(str, range(n)), "x"),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_answer_is_looked_at_in_time_that_grows_with_its_size_alone(name: str) -> None:
    def seconds(size: int) -> float:
        kind, answer = HOSTILE[name](size)
        begun = process_time()
        kind.misfit(answer)
        kind.settled(answer)
        kind.in_words(answer)
        return process_time() - begun

    least = max(min(seconds(UNIT) for _ in range(3)), 0.001)
    assert seconds(16 * UNIT) < MOST * least


def test_options_are_compared_as_json_does() -> None:
    kind = SelectAnswer(options=(1, True, "1"), multi=True)
    assert kind.picks([True, 1.0, "1"]) == Picks((1, 0, 2))
    assert SelectAnswer(options=(1,)).misfit(True) == "type"
    assert SelectAnswer(options=(1,)).misfit(2.5) == "option"


def test_one_of_a_list_is_not_chosen_from_several_that_are_configured() -> None:
    kind = SelectAnswer(options=("S", "M"))
    assert kind.misfit(kind.settled(["M", "S"])) is not None
    own = SelectAnswer(options=("S", "M"), other=True)
    assert own.settled({"custom": "XL"}) == {"custom": "XL", "selected": []}
    several = SelectAnswer(
        options=(Option(value="s", label="Small"), Option(value="m")), multi=True
    )
    assert several.settled("Small") == ["s"]
    assert several.settled(["m", "Small"]) == ["m", "s"]
