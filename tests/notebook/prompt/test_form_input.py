"""The controls of a form read the messages of a page, forged ones included.

Settled otherwise: RPI-52 has the button of a page always there, and an answer without a pick is
confirmed; RCP-13 has an unknown option refused, instead of taken as it is.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

import jp_nb as jp
from tests.kit.forms import ControlUser
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered

OTHER_LABEL = "Other (type your own)"


NO_MARKS: frozenset[Any] = frozenset()
EMPTY = frozenset({"empty"})
COLOURS = ("red", "green", "blue")


def select(**more: Any) -> jp.Question:
    return jp.Question.select("q", "Which?", more.pop("options", COLOURS), **more)


def field(question: jp.Question) -> ControlUser:
    return ControlUser(question)


def text(**more: Any) -> jp.Question:
    return jp.Question(id="q", text="Why?", answer_type=make("text_answer", **more))


def values(*answers: JsonValue) -> list[Any]:
    return [answered(answer, "form") for answer in answers]


def own(custom: str, *selected: str, marks: frozenset[Any] = NO_MARKS) -> Any:
    value: JsonValue = {"selected": [*selected], "custom": custom}
    return answered(value, "form", marks=marks)


# --- which control ---------------------------------------------------------------------------


def test_question_has_the_simplest_control_that_does(subtests: pytest.Subtests) -> None:
    for question, alone, beside in [
        (select(), "RadioButtons", "RadioButtons"),
        (select(options=range(8)), "RadioButtons", "RadioButtons"),
        (select(options=range(9)), "Choices", "Choices"),
        (select().with_required(False), "RadioButtons", "Choices"),
        (select(multi=True), "Choices", "Choices"),
        (select(other=True), "Choices", "Choices"),
        (select(recommended=1), "Choices", "Choices"),
        (select(options=[jp.Option(value=1, description="one")]), "Choices", "Choices"),
        (jp.Question.boolean("q", "Sure?"), None, "RadioButtons"),
        (jp.Question.boolean("q", "Sure?").with_required(False), None, "Choices"),
        (text(), "Textarea", "Textarea"),
        (text(lines=False), "Text", "Text"),
        (text(format="email"), "Text", "Text"),
        (text(format="time"), "Text", "Text"),
        (text(format="date"), "DatePicker", "DatePicker"),
        (jp.Question.number("q", "How much?"), "Text", "Text"),
        (jp.Question.integer("q", "How many?"), "Text", "Text"),
        (jp.Question.secret("q", "Key?"), "SecretField", "SecretField"),
    ]:
        with subtests.test(question=question):
            found = [ControlUser(question, alone=True), field(question)]
            names = [type(each.widget).__name__ if each.widget else None for each in found]
            assert names == [alone, beside]


def test_yes_and_no_are_buttons_alone_and_options_in_a_form() -> None:
    question = jp.Question.boolean("q", "Sure?")
    alone = ControlUser(question, alone=True)
    assert alone.buttons == ["Yes", "No"]
    beside = field(question)
    assert beside.buttons is None
    assert beside.read({}) == make(
        "no_valid_answer", "Please choose an option first.", may_stay_open=True
    )
    assert [beside.read({"index": i}) for i in (0, 1)] == values(True, False)
    assert field(question.with_default(False)).read({}) == answered(False, "form")


# --- options ---------------------------------------------------------------------------------


@pytest.mark.req("RPI-16")
def test_one_of_several_is_the_rule() -> None:
    assert select(other=True).answer_type == make(
        "select_answer",
        options=tuple(jp.Option(value=colour) for colour in COLOURS),
        other=True,
        multi=False,
    )
    control = field(select(other=True))
    assert control.read({"picks": [1], "custom": None}) == answered("green", "form")


@pytest.mark.req("RPI-32", "RCP-20", "HB-5")
def test_custom_text_replaces_one_pick_and_joins_several() -> None:
    one = field(select(other=True))
    several = field(select(other=True, multi=True))
    assert one.read({"picks": [2], "custom": "pink"}) == own("pink")
    assert one.read({"picks": [2], "custom": None}) == answered("blue", "form")
    assert several.read({"picks": [2, 0], "custom": "pink"}) == own("pink", "blue", "red")
    assert several.read({"picks": [2, 0], "custom": None}) == answered(["blue", "red"], "form")


@pytest.mark.req("RPI-14", "RCP-7", "RPI-20", "HB-8", "RPI-37")
def test_option_may_have_the_text_of_a_row_of_the_form() -> None:
    options = [OTHER_LABEL, "__other__", "red (recommended)"]
    control = field(select(options=options, other=True, recommended=2))
    assert [option["label"] for option in control.widget.options] == options
    picked = [control.read({"picks": [index], "custom": None}) for index in range(3)]
    assert picked == values(*options)


@pytest.mark.req("RCP-12", "RPI-55")
def test_equal_labels_are_numbered() -> None:
    options = [jp.Option(value=n, label="same") for n in range(3)]
    control = field(select(options=options, multi=True))
    labels = [option["label"] for option in control.widget.options]
    assert labels == ["same", "same (2)", "same (3)"]
    assert control.read({"picks": [2, 1], "custom": None}) == answered([2, 1], "form")


@pytest.mark.req("RPI-21", "HB-8")
@pytest.mark.parametrize("recommended", [-1, 3, 99, None])
def test_recommendation_of_nothing_marks_nothing(recommended: int | None) -> None:
    control = field(select(other=True, recommended=recommended))
    assert (control.widget.recommended, control.widget.picks) == (None, [])


@pytest.mark.req("RPI-22", "RPI-19")
def test_recommended_option_is_picked_at_first_where_one_is_picked() -> None:
    recommended = field(select(recommended=1))
    preset = field(select(recommended=1).with_default("blue"))
    several = field(select(recommended=1, multi=True))
    given = own("pink", "blue")
    both = field(select(recommended=1, multi=True, other=True).with_default(given.value))
    shown = [each.widget for each in (recommended, preset, several, both)]
    assert [x.picks for x in shown] == [[1], [2], [], [2]]
    assert [x.recommended for x in shown] == [1, 1, None, None]
    assert both.read({}) == given


@pytest.mark.parametrize("options", [(1, True), (True, 1), (0, False, "0")])
def test_default_is_the_option_that_it_is(options: tuple[int | str, ...]) -> None:
    for value in options:
        for ask in (select(options=options), select(options=options, other=True)):
            found = field(ask.with_default(value)).read({})
            assert is_kind(found, "answered")
            assert (found.value, type(found.value)) == (value, type(value))


@pytest.mark.req("HB-4", "RPI-52")
def test_no_pick_among_several_is_an_answer_once_it_is_confirmed() -> None:
    control = field(select(multi=True))
    nothing: dict[str, JsonValue] = {"picks": [], "custom": None}
    asked = control.read(nothing)
    assert is_kind(asked, "no_valid_answer")
    assert (asked.may_stay_open, asked.confirmable) == (True, True)
    assert "none of these" in asked.why
    assert control.read(nothing | {"confirmed": True}) == answered([], "form")
    assert control.read(nothing | {"confirmed": "yes"}) == asked


def bounded(least: int, most: int | None, *, other: bool = False) -> ControlUser:
    options = tuple(jp.Option(value=colour) for colour in COLOURS)
    kind = make(
        "select_answer", options=options, multi=True, other=other, min_picks=least, max_picks=most
    )
    return field(jp.Question(id="q", text="Which?", answer_type=kind))


@pytest.mark.parametrize(
    ("least", "most", "said"),
    [
        (1, None, "Please pick at least 1."),
        (0, 2, "Please pick at most 2."),
        (2, 2, "Please pick 2."),
        (1, 2, "Please pick 1 to 2."),
    ],
)
def test_number_of_picks_is_limited(least: int, most: int | None, said: str) -> None:
    control = bounded(least, most)
    assert control.widget.wanted == said
    for count in range(4):
        found = control.read({"picks": [*range(count)], "custom": None, "confirmed": True})
        if least <= count <= (3 if most is None else most):
            assert found == answered([*COLOURS[:count]], "form")
        else:
            assert found == make("no_valid_answer", said, may_stay_open=count == 0)
    own_too = bounded(2, 2, other=True)
    assert own_too.read({"picks": [1], "custom": "pink"}) == own("pink", "green")
    assert own_too.read({"picks": [1], "custom": None}) == make("no_valid_answer", "Please pick 2.")


@pytest.mark.req("RCP-10")
def test_no_pick_of_one_is_no_answer_however_often_it_is_sent() -> None:
    control = field(select(other=True))
    unread = make("no_valid_answer", "Please choose an option first.", may_stay_open=True)
    for confirmed in (False, True):
        assert control.read({"picks": [], "custom": None, "confirmed": confirmed}) == unread


@pytest.mark.req("RPI-36", "RCP-19")
@pytest.mark.parametrize("blank", ["", " \n\t"])
def test_blank_own_text_is_sent_once_it_is_confirmed(blank: str) -> None:
    for multi, picks in ((False, [1]), (True, []), (True, [1])):
        control = field(select(other=True, multi=multi))
        shown: dict[str, JsonValue] = {"picks": [*picks], "custom": blank}
        asked = control.read(shown)
        assert is_kind(asked, "no_valid_answer")
        assert "empty" in asked.why
        assert asked.confirmable
        assert asked.may_stay_open is not (multi and bool(picks))  # of several, something is picked
        selected = ["green"] if multi and picks else []
        sent = control.read(shown | {"confirmed": True})
        assert sent == own(blank, *selected, marks=EMPTY)


@pytest.mark.req("RPI-12")
def test_without_options_the_own_text_is_the_answer() -> None:
    control = field(select(options=[], other=True))
    said = control.read({"picks": [], "custom": "mine"})
    assert said == own("mine")
    asked = control.read({"picks": [], "custom": None})
    assert is_kind(asked, "no_valid_answer")
    assert (asked.may_stay_open, asked.confirmable) == (True, True)


@pytest.mark.req("RPI-35", "RCP-17", "RPI-37", "RPI-38")
@pytest.mark.parametrize("typed", ["  two\n  lines \n", "<b>$x$ {y}</b>", OTHER_LABEL, "red"])
def test_own_text_is_sent_as_it_was_typed(typed: str) -> None:
    control = field(select(other=True))
    assert control.read({"picks": [], "custom": typed}) == own(typed)


NO_PICKS: list[Any] = [[3], [-1], [True], [1.0], ["1"], [[1]], None, "1", 1, {}, [0, 1]]
NO_TEXTS: list[Any] = [1, False, ["x"], {}]
FORGED = [
    *({"picks": picks, "custom": None} for picks in NO_PICKS),
    *({"picks": [0], "custom": custom} for custom in NO_TEXTS),
]


@pytest.mark.req("RCP-13")
@pytest.mark.parametrize("index", [-1, 3, True, "0", 1.0, None])
def test_index_that_no_option_has_is_no_answer(index: JsonValue) -> None:
    assert is_kind(field(select()).read({"index": index}), "no_valid_answer")


@pytest.mark.req("RCP-13")
def test_forged_message_is_no_answer(subtests: pytest.Subtests) -> None:
    for forged in FORGED:
        with subtests.test(forged=forged):
            control = field(select(other=True))
            found = control.read({**forged, "confirmed": True})
            assert is_kind(found, "no_valid_answer")
            assert "not one of the options" in found.why


@pytest.mark.req("RPI-55", "RCP-8")
def test_nothing_is_picked_twice_and_no_own_text_is_taken_where_none_is_offered() -> None:
    several = field(select(multi=True))
    assert is_kind(several.read({"picks": [1, 1], "custom": None}), "no_valid_answer")
    assert is_kind(several.read({"picks": [1], "custom": "pink"}), "no_valid_answer")
    assert several.widget.other == ""


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(["picks", "custom"], json_values)),
    json_values,
    st.booleans(),
    st.booleans(),
)
def test_any_message_gives_a_fitting_answer_or_none(
    message: dict[str, Any], confirmed: Any, multi: bool, other: bool
) -> None:
    question = select(multi=multi, other=other, recommended=0)
    found = field(question).read({**message, "confirmed": confirmed})
    assert is_kind(found, "no_valid_answer") or question.misfit(found.value) is None


@given(json_values, json_values)
def test_any_message_of_the_other_controls_gives_a_fitting_answer_or_none(
    value: Any, confirmed: Any
) -> None:
    for question in (
        select(),
        jp.Question.boolean("q", "Sure?"),
        text(min_length=2, max_length=2),
        text(format="date"),
        jp.Question.number("q", "How much?", minimum=0),
        jp.Question.integer("q", "How many?"),
        jp.Question.secret("q", "Key?"),
    ):
        for sent in ({"value": value}, {"index": value}):
            found = field(question).read({**sent, "confirmed": confirmed})
            assert is_kind(found, "no_valid_answer") or question.misfit(found.value) is None


# --- texts, numbers, dates -------------------------------------------------------------------


def test_empty_text_alone_is_an_answer_as_ever() -> None:
    alone = ControlUser(text(), alone=True)
    assert [alone.read({"value": x}) for x in ("", " ")] == values("", " ")


@pytest.mark.req("RCP-18", "RPI-36")
@pytest.mark.parametrize("blank", ["", " \n"])
def test_empty_text_among_others_is_confirmed(blank: str) -> None:
    control = field(text())
    asked = control.read({"value": blank})
    assert is_kind(asked, "no_valid_answer")
    assert (asked.may_stay_open, asked.confirmable) == (True, True)
    confirmed = control.read({"value": blank, "confirmed": True})
    assert confirmed == answered(blank, "form", marks=EMPTY)


@pytest.mark.req("RCP-17", "RPI-35")
def test_text_is_sent_as_it_was_typed() -> None:
    assert field(text()).read({"value": "  a\n b "}) == answered("  a\n b ", "form")


@pytest.mark.parametrize(
    ("kind", "typed", "why"),
    [
        ({"format": "email"}, "nobody", "expected an e-mail address such as name@example.org"),
        ({"format": "uri"}, "example org", "expected an address such as https://example.org"),
        ({"format": "time"}, "25:00", "expected a time such as 17:30"),
        ({"format": "date"}, "unfinished", "expected a date such as 2026-11-23"),
        ({"min_length": 3, "max_length": 5}, "no", "expected a text of 3 to 5 characters"),
    ],
)
def test_text_that_does_not_fit_has_a_message(kind: dict[str, Any], typed: str, why: str) -> None:
    control = field(text(**kind))
    assert control.read({"value": typed, "confirmed": True}) == make("no_valid_answer", why)
    assert control.read({"value": "", "confirmed": True}) == make(
        "no_valid_answer", "Nothing was typed.", may_stay_open=True
    )


@pytest.mark.parametrize(
    ("kind", "sent", "answer"),
    [
        ("email", " me@example.org ", "me@example.org"),
        ("time", "17:30+02:00", "17:30+02:00"),
        ("date-time", "2026-11-23T17:30", "2026-11-23T17:30"),
        ("date", "2026-11-23T00:00:00.000Z", "2026-11-23"),  # as a page writes a date
        ("date", "2026-11-23", "2026-11-23"),
    ],
)
def test_text_in_a_format(kind: str, sent: str, answer: str) -> None:
    assert field(text(format=kind)).read({"value": sent}) == answered(answer, "form")


def test_date_keeps_its_default_until_it_is_changed_or_cleared() -> None:
    control = field(text(format="date").with_default("2026-11-23"))
    assert control.read({}) == answered("2026-11-23", "form")
    assert control.read({"value": None}) == make(
        "no_valid_answer", "Nothing was typed.", may_stay_open=True
    )


NUMBER = jp.Question.number("q", "How much?", minimum=0, maximum=2.5)
INTEGER = jp.Question.integer("q", "How many?", minimum=1, maximum=5)


@pytest.mark.parametrize(
    ("question", "typed", "answer"),
    [
        (INTEGER, " 3 ", 3),
        (INTEGER, "+5", 5),
        (NUMBER, "2", 2),
        (NUMBER, "1e-1", 0.1),
        (NUMBER, "2.50", 2.5),
    ],
)
def test_number_is_read_as_one(question: jp.Question, typed: str, answer: float) -> None:
    found = field(question).read({"value": typed})
    assert is_kind(found, "answered")
    assert (found.value, type(found.value)) == (answer, type(answer))


def test_no_number_is_bent_into_the_bounds(subtests: pytest.Subtests) -> None:
    for question, typed in [
        *((INTEGER, typed) for typed in ("0", "6", "2.0", "1e0", "three", "9" * 5000)),
        *((NUMBER, typed) for typed in ("-0.1", "2.6", "nan", "inf", "1,5", "9" * 5000)),
    ]:
        with subtests.test(question=question):
            control = field(question)
            control.widget.value = typed
            expected = (
                "a whole number from 1 to 5" if question is INTEGER else "a number from 0 to 2.5"
            )
            assert control.read({}) == make("no_valid_answer", f"expected {expected}")
            assert control.widget.value == typed
            assert is_kind(question.answer_type, "integer_answer") is (question is INTEGER)


# --- state and clock -------------------------------------------------------------------------


@pytest.mark.req("RPI-71", "HB-2")
def test_own_text_is_in_use_while_it_is_written_or_there() -> None:
    control = field(select(other=True))
    state: list[tuple[dict[str, Any], bool]] = [
        ({"writing": True}, False),  # the focus alone chooses nothing
        ({"custom": ""}, True),
        ({"writing": False}, False),
        ({"custom": "x"}, True),
        ({"custom": None, "draft": "x"}, False),
    ]
    for changed, in_use in state:
        for name, value in changed.items():
            setattr(control.widget, name, value)
        assert control.is_in_use() is in_use, changed


@pytest.mark.req("RPI-71")
def test_text_is_in_use_once_it_is_another_than_was_proposed() -> None:
    control = field(text().with_default("so"))
    seen = []
    for value in ("so", "so be it", "  "):
        control.widget.value = value
        seen.append(control.is_in_use())
    assert seen == [False, True, False]


@pytest.mark.req("RPI-73")
@pytest.mark.parametrize(
    ("question", "name", "value"),
    [
        (select(), "index", 1),
        (select(other=True), "picks", [1]),
        (select(other=True), "custom", "x"),
        (select(other=True), "draft", "x"),
        (select(other=True), "search", "x"),
        (text(), "value", "x"),
        (INTEGER, "value", "x"),
    ],
)
def test_every_change_is_heard(question: jp.Question, name: str, value: Any) -> None:
    control = field(question)
    heard = list[int]()
    control.observe(lambda: heard.append(1))
    setattr(control.widget, name, value)
    assert heard == [1]
