"""Tests of answer types: schemas, answers, options, formats, and limits.

In JSON Schema 5.0 is an integer, but an integer question does not accept it: a tool gets an `int`.
A schema does not check formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import ValidationError

import jp_nb as jp
from tests.kit.kinds import make
from tests.toolkit.question_strategies import KINDS, SELECTS, answers

PAIRS = KINDS.flatmap(lambda kind: st.tuples(st.just(kind), answers(kind)))
SELECT_PAIRS = SELECTS.flatmap(lambda kind: st.tuples(st.just(kind), answers(kind)))


@given(PAIRS)
def test_schema_accepts_exactly_the_valid_answers(pair: tuple[Any, Any]) -> None:
    kind, answer = pair
    schema = kind.answer_schema()
    Draft202012Validator.check_schema(schema)
    fits = Draft202012Validator(schema).is_valid(answer)
    assert fits is (kind.misfit(answer) is None), (schema, answer)


@given(PAIRS)
def test_answers_are_normalized_recorded_and_formatted(pair: tuple[Any, Any]) -> None:
    kind, answer = pair
    settled = kind.normalized(answer)
    assert kind.normalized(settled) == settled
    words = kind.format_answer(answer)
    assert "\n" not in words
    assert "\u202e" not in words
    if kind.misfit(answer) is None:
        assert settled == answer
        assert (
            not kind.has_secret or "(secret)" in json.dumps(kind.redacted(answer)) or answer == {}
        )
        if not kind.has_secret:
            assert kind.redacted(answer) == answer


@given(KINDS)
def test_kinds_round_trip_through_json(kind: Any) -> None:
    text = kind.model_dump_json()
    asked = {"id": "q", "text": "Q?", "answer_type": json.loads(text)}
    again = jp.Question.model_validate(asked).answer_type
    assert again.model_dump_json() == text
    assert again.answer_schema() == kind.answer_schema()
    assert again.reworded(lambda words: words) == again


@given(SELECT_PAIRS)
def test_picks_and_answers_are_equivalent(pair: tuple[Any, Any]) -> None:
    kind, answer = pair
    picks = kind.read_picks(answer)
    assert (picks is None) is (kind.misfit(answer) is not None)
    if picks is not None:
        assert kind.make_answer(picks) == answer
        assert kind.read_picks(kind.make_answer(picks)) == picks


def test_each_option_is_picked_once_and_own_text_only_if_offered(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[dict[str, Any], Any, str | None]] = [
        ({"multi": True}, ["b", "a"], None),
        ({"multi": True}, ["a", "a"], "option"),
        ({"multi": True}, ["c"], "option"),
        ({"multi": True}, "a", "type"),
        ({"multi": True}, {"selected": ["a"], "custom": "x"}, "option"),
        ({"multi": True, "other": True}, {"selected": ["a", "b"], "custom": "x"}, None),
        ({"multi": True, "other": True, "max_picks": 2}, ["a", "b"], None),
        ({"multi": True, "other": True, "max_picks": 2}, {"selected": ["a", "b"], "custom": "x"},
         "option"),
        ({"multi": True, "other": True, "min_picks": 2}, {"selected": ["a"], "custom": "x"}, None),
        ({"multi": True, "other": True, "min_picks": 2}, {"selected": [], "custom": "x"}, "option"),
        ({"other": True}, {"selected": [], "custom": "x"}, None),
        ({"other": True}, {"selected": ["a"], "custom": "x"}, "option"),
        ({"other": True}, {"selected": [], "custom": "x", "more": 1}, "option"),
        ({}, {"selected": [], "custom": "x"}, "option"),
        ({}, ["a"], "type"),
    ]  # fmt: skip
    for fields, answer, misfit in rows:
        with subtests.test(fields=fields):
            kind = make(
                "select_answer", options=(jp.Option(value="a"), jp.Option(value="b")), **fields
            )
            assert kind.misfit(answer) == misfit
            assert Draft202012Validator(kind.answer_schema()).is_valid(answer) is (misfit is None)


def test_invisible_characters_of_labels_and_own_text_are_shown() -> None:
    kind = make("select_answer", options=(jp.Option(value="a", label="x\u200b"),), other=True)
    assert kind.format_answer("a") == "x⟨U+200B⟩"
    assert kind.format_answer({"selected": [], "custom": "y\u200b"}) == '"y⟨U+200B⟩"'


def test_recommendation_out_of_range_is_not_recorded() -> None:
    for index, recorded in ((1, 1), (2, None), (-1, None)):
        kind = make(
            "select_answer", options=(jp.Option(value="a"), jp.Option(value="b")), recommended=index
        )
        assert kind.to_record().get("recommended") == recorded


def test_own_text_is_added_to_several_picks_and_replaces_one() -> None:
    options = (jp.Option(value="a"), jp.Option(value="b"))
    for multi, selected in ((True, ["b", "a"]), (False, [])):
        kind = make("select_answer", options=options, multi=multi, other=True)
        given: Any = {"selected": selected, "custom": "mine"}
        picks = kind.read_picks(given)
        assert (picks.indices, picks.custom) == ((1, 0) if multi else (), "mine")
        assert kind.make_answer(picks) == given
        assert kind.make_answer(replace(picks, indices=(1, 0) if multi else (1,))) == given


@given(KINDS)
def test_automatic_answer_is_valid(kind: Any) -> None:
    automatic = kind.automatic
    assert automatic is None or kind.misfit(automatic) is None


@given(SELECTS)
def test_configured_label_becomes_the_value_of_its_option(kind: Any) -> None:
    for option in kind.options:
        others = [each for each in kind.options if each.shown == option.shown]
        named = option.label is not None and option.label not in kind.values
        if named and others == [option]:
            settled = kind.normalized([option.label] if kind.multi else option.label)
            assert settled == ([option.value] if kind.multi else option.value)


def test_schema_describes_the_options() -> None:
    bee = jp.Option(value="b", label="Bee", description="It\nstings.")
    kind = make(
        "select_answer", options=(jp.Option(value="a"), bee, jp.Option(value="c", label="Sea"))
    )
    assert kind.answer_schema() == {
        "type": "string",
        "description": '"b": Bee, It stings.; "c": Sea',
        "enum": ["a", "b", "c"],
    }


def test_value_of_an_option_precedes_the_label_of_another() -> None:
    crossed = (jp.Option(value="b", label="a"), jp.Option(value="c", label="b"))
    kind = make("select_answer", options=crossed)
    assert [kind.normalized(name) for name in ("a", "b", "c")] == ["b", "b", "c"]


def test_questions_without_a_possible_answer_are_refused(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, dict[str, Any]]] = [
        ("number", {"minimum": 3, "maximum": 2}),
        ("number", {"above": 2, "maximum": 2}),
        ("number", {"minimum": float("inf")}),
        ("number", {"minimum": "3"}),
        ("number", {"min": 3}),
        ("integer", {"above": 2, "below": 3}),
        ("integer", {"minimum": 2.1, "maximum": 2.9}),
        ("text", {"min_length": 3, "max_length": 2}),
        ("text", {"max_length": True}),
        ("text", {"lines": "no"}),
        ("text", {"format": "phone"}),
        ("select", {"options": ()}),
        ("select", {"options": ("a", "a")}),
        ("select", {"options": (1, 1.0)}),
        ("select", {"options": (float("nan"),)}),
        ("select", {"options": ("a",), "multi": 1}),
        ("select", {"options": ("a",), "recommended": True}),
        ("select", {"options": ("a",), "multi": True, "min_picks": 2}),
        ("select", {"options": ("a",), "max_picks": 1}),
        ("select", {"options": ({"value": "a", "preview": "b"},)}),
    ]
    for kind, fields in rows:
        with subtests.test(kind=kind), pytest.raises(ValidationError):
            make(f"{kind}_answer", **fields)


def test_expected_answer_is_described_exactly(subtests: pytest.Subtests) -> None:
    for kind, expects in [
        (make("number_answer", minimum=0.0, maximum=1_000_000), "a number from 0 to 1000000"),
        (make("number_answer", above=0, below=0.5), "a number above 0 below 0.5"),
        (
            make("integer_answer", minimum=2**60 + 1),
            "a whole number of at least 1152921504606846977",
        ),
        (make("text_answer", max_length=80), "a string of at most 80 characters"),
        (make("text_answer", format="date"), "a date such as 2026-11-23"),
        (make("select_answer", options=("a", "b"), multi=True), "a list of options"),
        (
            make("select_answer", options=("a", "b"), multi=True, min_picks=1),
            "a list of at least 1 options",
        ),
        (
            make("select_answer", options=("a", "b"), multi=True, max_picks=1),
            "a list of 0 to 1 options",
        ),
    ]:
        with subtests.test(kind=kind):
            assert kind.expects == expects


def test_very_long_text_matches_no_format(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str, str]] = [("email", "", "@b.org"), ("uri", "https://b.org/", "")]
    for name, begin, end in rows:
        with subtests.test(name=name):
            texts = [f"{begin}{'a' * length}{end}" for length in (100, 4000)]
            assert [make("text_answer", format=name).misfit(text) for text in texts] == [
                None,
                "value",
            ]


def test_infinite_numbers_and_nan_are_refused() -> None:
    assert [make("number_answer").misfit(float(x)) for x in ("inf", "-inf", "nan")] == ["value"] * 3


def test_problem_of_a_configured_field_is_reported_once() -> None:
    fields = (jp.Question.text("a", "A?"), jp.Question.text("b", "B?"))
    form = make("form_answer", fields=fields, check=lambda _: {"a": "wrong", "b": "bad"})
    assert form.make_remaining_form({"a": "x"}).problems({"b": "y"}) == {
        "b": "bad",
        "": "A?: wrong",
    }


def test_invalid_default_is_not_filled_in() -> None:
    size = jp.Question.integer("size", "Size?", minimum=1)
    form = make(
        "form_answer", fields=(size.with_default(0), jp.Question.text("a", "A?").with_default("b"))
    )
    assert form.with_defaults({}) == {"a": "b"}


def test_message_of_a_check_is_one_line_without_escapes() -> None:
    fields = (jp.Question.text("a", "A?"),)
    form = make(
        "form_answer", fields=fields, check=lambda _: {"a": "no\x1b[2J\nSent.", "": "nor\nall"}
    )
    assert form.problems({"a": "b"}) == {"a": "no Sent.", "": "nor all"}


def test_integers_of_many_digits_keep_them() -> None:
    kind = make("integer_answer", minimum=2**60 + 1)
    assert kind.answer_schema() == {"type": "integer", "minimum": 2**60 + 1}
    assert [kind.misfit(x) for x in (2**60, 2**60 + 1, 10**5000)] == ["value", None, None]


def test_formats_accept_the_usual_spellings_only(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, list[str], list[str]]] = [
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
    ]  # fmt: skip
    for form, good, bad in rows:
        kind = make("text_answer", format=form)
        with subtests.test(form=form):
            assert [text for text in good if kind.misfit(text) is not None] == []
            assert [text for text in bad if kind.misfit(text) is None] == []


UNIT = 500
"""Size of the smaller value. The larger value has 16 times this size."""
MAX_RATIO = 64
"""Maximum ratio of the times. Linear work has a ratio of 16, quadratic work of 256."""
HOSTILE: dict[str, Callable[[int], tuple[Any, Any]]] = {
    "e-mail": lambda n: (make("text_answer", format="email"), "a." * n + "@" + "b." * n),
    "address": lambda n: (make("text_answer", format="uri"), "http://" + "[" * n),
    "time": lambda n: (make("text_answer", format="date-time"), "2026-11-23T" + "1" * n),
    "numbers": lambda n: (make("select_answer", options=tuple(range(n)), multi=True), [*range(n)]),
    "own text": lambda n: (
        make("select_answer", options=tuple(map(str, range(n))), multi=True, other=True),
        {"selected": [str(each) for each in range(n)], "custom": "x" * n},
    ),
    "no fields": lambda n: (
        make("form_answer", fields=(jp.Question.text("a", "A"),)),
        dict.fromkeys(map(str, range(n)), "x"),
    ),
}


@pytest.mark.deep
def test_checking_an_answer_takes_linear_time(
    subtests: pytest.Subtests,
) -> None:
    for name in HOSTILE:
        with subtests.test(name=name):

            def seconds(size: int) -> float:
                kind, answer = HOSTILE[name](size)
                begun = process_time()
                kind.misfit(answer)
                kind.normalized(answer)
                kind.format_answer(answer)
                return process_time() - begun

            least = max(min(seconds(UNIT) for _ in range(3)), 0.001)
            assert seconds(16 * UNIT) < MAX_RATIO * least


def test_options_are_compared_as_in_json() -> None:
    kind = make("select_answer", options=(1, True, "1"), multi=True)
    assert kind.read_picks([True, 1.0, "1"]).indices == (1, 0, 2)
    assert make("select_answer", options=(1,)).misfit(True) == "type"
    assert make("select_answer", options=(1,)).misfit(2.5) == "option"


def test_configured_list_does_not_answer_a_single_choice() -> None:
    kind = make("select_answer", options=("S", "M"))
    assert kind.misfit(kind.normalized(["M", "S"])) is not None
    own = make("select_answer", options=("S", "M"), other=True)
    assert own.normalized({"custom": "XL"}) == {"custom": "XL", "selected": []}
    several = make(
        "select_answer",
        options=(jp.Option(value="s", label="Small"), jp.Option(value="m")),
        multi=True,
    )
    assert several.normalized("Small") == ["s"]
    assert several.normalized(["m", "Small"]) == ["m", "s"]
