"""A form with pages without a page: effects of clicks and keys.

Settled otherwise: RPI-62 would drop the answers that were given when the user cancels. The menu's
reply sends them along.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.forms import FormUser
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered as kit_answered
from tests.kit.questions import not_answered

COLOUR = jp.Question.select("colour", "Which colour?", ["red", "green", "blue"])
EXTRAS = jp.Question.select("extras", "Which extras?", ["a", "b", "c"], multi=True)
NAME = jp.Question.text("name", "Which name?")
SIZE = jp.Question.integer("size", "Which size?", minimum=1, maximum=9)
KEY = jp.Question.secret("key", "Which key?")
CANCELLED = not_answered("cancelled", "form")
DECLINED = not_answered("declined", "form")
LATE = not_answered("timed_out", "form")
TIMEOUT = 10.0
UNTOUCHED = "You changed nothing here. Press Next to continue."
TIME_WENT = "The time for the previous question is over. Press Back to see it."


def given_(value: Any) -> Any:
    return kit_answered(value, "form")


def form_of(*fields: jp.Question, **more: Any) -> jp.Question:
    return jp.Question(
        id="f", text="Settings", answer_type=make("form_answer", fields=fields, **more)
    )


# --- pages -----------------------------------------------------------------------------------


@pytest.mark.req("RPI-57", "RPI-59", "RPI-60")
def test_pages_have_progress_back_next_and_submit() -> None:
    user = FormUser(COLOUR.with_header("Colour"), NAME, SIZE)
    shown = []
    for _ in range(3):
        shown.append((user.progress, user.labels, user.disabled))
        user.send("next")
    first, second, third = shown
    assert "Question 1 of 3" in first[0]
    assert "Colour" in first[0]
    assert first[1:] == (["Back", "Next", "Cancel"], ["Back"])
    assert second[1:] == (["Back", "Next", "Cancel"], [])
    assert third[1:] == (["Back", "Submit", "Cancel"], [])
    assert user.page == 2
    assert user.ends == []


@pytest.mark.req("RPI-60")
def test_one_page_has_neither_navigation_nor_progress() -> None:
    user = FormUser(COLOUR)
    assert user.progress == ""
    assert user.labels == ["Submit", "Cancel"]


@pytest.mark.req("RPI-58")
def test_earlier_answers_stay_and_can_be_taken_back() -> None:
    user = FormUser(EXTRAS, NAME)
    user.boxes[0].picks = [2, 0]
    user.send("next")
    user.boxes[0].value = "Ada"
    user.send("back")
    assert user.boxes[0].picks == [2, 0]
    user.boxes[0].picks = [0]
    user.send("next")
    assert user.boxes[0].value == "Ada"
    user.boxes[0].value = ""
    user.send("submit")
    assert user.screen == "summary"
    user.send("send")
    assert user.ends == [make("form_end", (given_(["a"]), DECLINED))]


@pytest.mark.req("RCP-88", "RPI-59")
def test_click_on_an_earlier_page_changes_nothing() -> None:
    user = FormUser(COLOUR, NAME, SIZE)
    step = user.step
    user.send("next", step=step)
    user.send("cancel", step=step)
    assert user.page == 1
    assert user.note == "Something else happened first, so your click changed nothing."
    user.send("back")
    assert (user.page, user.note) == (0, "")


def test_second_click_of_a_double_click_says_nothing() -> None:
    user = FormUser(COLOUR, NAME, SIZE)
    for number in (1, 2):
        step = user.step
        user.send("next", step=step)
        user.send("next", step=step)
        assert (user.page, user.note) == (number, "")


def test_state_at_the_click_counts_although_its_change_arrives_later() -> None:
    user = FormUser(NAME, NAME.model_copy(update={"id": "other"}))
    user.send("next", value="typed just now")
    user.send("submit", value="this too")
    assert user.ends == [make("form_end", (given_("typed just now"), given_("this too")))]


def test_problem_stays_when_the_change_arrives_that_it_is_about() -> None:
    user = FormUser(SIZE, NAME)
    user.send("next", value="12")
    user.boxes[0].value = "12"  # on its way when the button was clicked
    assert user.problems == ["Expected a whole number from 1 to 9"]
    user.boxes[0].value = "1"
    assert user.problems == [""]


def test_demand_stays_when_a_change_arrives_that_was_sent_with_the_click() -> None:
    user = FormUser(COLOUR, NAME, partial=False)
    user.send("next")
    (box,) = user.boxes
    user.send("submit", value="Ada")
    demand = "Please choose an option first."
    assert (user.page, user.note, user.problems) == (0, "", [demand])
    box.value = "Ada"  # on its way when the button was clicked
    assert user.problems == [demand]
    user.boxes[0].index = 1
    assert user.problems == [""]


@pytest.mark.req("RPI-53", "RPI-61")
def test_next_needs_no_answer_and_submit_lists_open_questions() -> None:
    user = FormUser(COLOUR, NAME, EXTRAS)
    user.send("next")
    user.boxes[0].value = "Ada"
    user.send("next")
    user.send("submit")
    assert user.summary.count("not answered") == 2
    assert "Ada" in user.summary
    user.send("go-0")
    assert (user.page, user.labels) == (0, ["Back", "Next", "Submit", "Cancel"])
    user.boxes[0].index = 1
    user.send("submit")
    user.send("send")
    assert user.ends == [make("form_end", (given_("green"), given_("Ada"), DECLINED))]


def test_submit_moves_to_the_first_required_question_and_keeps_the_answers() -> None:
    user = FormUser(NAME, COLOUR, SIZE.with_required(False), partial=False)
    user.boxes[0].value = "Ada"
    user.send("next")
    user.send("next")
    user.boxes[0].value = "4"
    user.send("submit")
    assert (user.page, user.note) == (1, "")
    assert user.problems == ["Please choose an option first."]
    user.boxes[0].index = 0
    user.send("submit")
    assert user.ends == [make("form_end", (given_("Ada"), given_("red"), given_(4)))]


def test_value_that_does_not_fit_stays_with_its_message() -> None:
    user = FormUser(SIZE, NAME)
    user.boxes[0].value = "12"
    user.send("next")
    assert user.page == 0
    assert user.problems == ["Expected a whole number from 1 to 9"]
    assert user.boxes[0].value == "12"
    user.boxes[0].value = "3"
    assert user.problems == [""]
    user.send("next")
    assert user.page == 1


def test_check_that_fails_lets_nothing_pass_and_the_form_can_be_left() -> None:
    def broken(_: Any) -> Any:
        raise LookupError("oops")

    user = FormUser(form_of(NAME, check=broken))
    user.boxes[0].value = "Ada"
    user.send("submit")
    assert "LookupError" in user.page_problem
    assert (user.boxes[0].value, user.ends) == ("Ada", [])
    user.send("cancel")
    user.send("stop")
    assert user.ends == [make("form_end", (CANCELLED,), "stop")]


@pytest.mark.req("RCP-92", "RPI-81")
def test_page_that_cannot_be_shown_ends_the_form_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(**_: Any) -> Any:
        raise LookupError("oops")

    user = FormUser(COLOUR, NAME)
    monkeypatch.setattr("ipywidgets.Textarea", broken)
    user.send("next")
    (end,) = user.ends
    assert is_kind(end, "unavailable")
    assert "LookupError: oops" in end.reason
    user.close()
    assert user.widget.comm is None


# --- nothing as an answer --------------------------------------------------------------------


@pytest.mark.req("HB-4", "RPI-52")
def test_no_pick_is_an_answer_once_it_is_confirmed() -> None:
    user = FormUser(EXTRAS, NAME)
    user.send("next")
    user.boxes[0].value = "Ada"
    user.send("submit")
    assert "None of these" in user.summary
    user.send("empty-0")
    assert user.screen == "summary"
    user.send("send")
    assert user.ends == [make("form_end", (given_([]), given_("Ada")))]


def test_required_question_asks_once_to_confirm_an_empty_answer() -> None:
    user = FormUser(EXTRAS, partial=False)
    user.send("submit")
    assert user.ends == []
    assert "none of these" in user.problems[0]
    user.send("submit")
    assert user.ends == [make("form_end", (given_([]),))]


@pytest.mark.req("RPI-36", "RCP-18")
def test_blank_text_is_sent_once_it_is_confirmed() -> None:
    user = FormUser(NAME)
    user.boxes[0].value = "  "
    user.send("submit")
    user.send("empty-0")
    user.send("send")
    assert user.ends == [
        make("form_end", (kit_answered("  ", "form", marks=frozenset({"empty"})),))
    ]


# --- the ways out ----------------------------------------------------------------------------


@pytest.mark.req("RPI-62", "HB-12", "RCP-90")
def test_reply_sends_the_answers_so_far_and_the_text() -> None:
    user = FormUser(COLOUR, EXTRAS, NAME, SIZE)
    user.boxes[0].index = 2
    user.send("next")
    user.boxes[0].picks = [1]  # on screen, and never sent
    user.send("cancel")
    assert user.labels == ["Reply to the assistant", "Stop the turn", "Back"]
    user.send("reply", value=" ")
    assert user.note == "Please type what you want to say."
    user.send("reply", value="Why these?")
    answered = (given_("blue"), given_(["b"]), CANCELLED, CANCELLED)
    assert user.ends == [make("form_end", answered, "reply", "Why these?")]


@pytest.mark.req("HB-12", "RPI-58")
def test_entry_on_a_page_left_by_back_is_an_answer_so_far() -> None:
    user = FormUser(COLOUR, NAME)
    user.send("next")
    user.boxes[0].value = "Ada"
    user.send("back")
    user.send("cancel")
    user.send("reply", value="Why?")
    assert user.ends == [make("form_end", (CANCELLED, given_("Ada")), "reply", "Why?")]


def test_key_continues_only_where_an_answer_was_sent_before() -> None:
    user = FormUser(COLOUR, NAME)
    user.send("unchosen")
    assert (user.page, user.note) == (0, UNTOUCHED)
    user.boxes[0].index = 2
    user.send("next")
    user.send("back")
    user.send("unchosen")
    assert user.page == 1


@pytest.mark.req("HB-12")
def test_back_returns_to_the_same_page_with_the_same_answers() -> None:
    user = FormUser(COLOUR, NAME)
    user.send("next")
    user.boxes[0].value = "half a na"
    user.send("cancel")
    user.send("resume")
    assert (user.page, user.boxes[0].value) == (1, "half a na")
    user.send("cancel")
    user.send("cancel")  # Esc, again
    assert (user.screen, user.page) == ("page", 1)


def test_proposed_option_is_no_answer_so_far() -> None:
    proposed = jp.Question.select("q", "Which?", ["x", "y"], recommended=1)
    user = FormUser(proposed, proposed.model_copy(update={"id": "r"}))
    user.send("next")
    user.send("cancel")
    user.send("reply", value="Hm.")
    assert user.ends == [make("form_end", (given_("y"), CANCELLED), "reply", "Hm.")]


@pytest.mark.req("HB-1")
def test_without_a_menu_cancel_asks_once_before_answers_are_thrown_away() -> None:
    user = FormUser(COLOUR, NAME, menu=False)
    user.boxes[0].index = 1
    user.send("cancel")
    assert (user.labels, user.ends) == (["Back", "Discard"], [])
    user.send("resume")
    assert user.boxes[0].index == 1
    user.send("cancel")
    user.send("discard")
    assert user.ends == [CANCELLED]
    untouched = FormUser(COLOUR, NAME, menu=False)
    untouched.send("cancel")
    assert untouched.ends == [CANCELLED]


# --- fields ----------------------------------------------------------------------------------


def test_page_of_fields_is_answered_by_an_object() -> None:
    user = FormUser(
        form_of(NAME, SIZE.with_default(4), COLOUR.with_required(False), NAME_TOO), COLOUR
    )
    user.send("next")  # nothing was entered: the question stays open
    user.send("back")
    user.boxes[0].value = "Ada"
    user.boxes[1].value = "40"
    user.send("next")
    size, *_ = [each for each in user.problems if each]
    assert user.problems[1] == size == "Expected a whole number from 1 to 9"
    assert "Press the button again" in user.problems[3]
    user.boxes[1].value = "5"
    user.boxes[3].value = "Lovelace"
    user.send("next")
    user.boxes[0].index = 0
    user.send("submit")
    values = {"name": "Ada", "size": 5, "last": "Lovelace"}
    assert user.ends == [make("form_end", (given_(values), given_("red")))]


NAME_TOO = jp.Question.text("last", "Last name?")


def test_page_of_fields_that_is_half_filled_in_is_not_passed_over() -> None:
    user = FormUser(form_of(NAME, SIZE), COLOUR)
    user.boxes[1].value = "5"
    user.send("next")
    assert user.page == 0
    assert user.problems[0].startswith("Nothing was typed.")
    user.boxes[0].value = "Ada"
    user.send("next")
    assert user.page == 1


def test_problems_of_a_check_are_shown_beside_the_field_or_below_all() -> None:
    def check(values: Any) -> dict[str, str]:
        if values["name"] == "Ada":
            return {"name": "that one is taken"}
        return {} if values["size"] == 1 else {"": "name and size do not fit"}

    user = FormUser(form_of(NAME, SIZE, check=check))
    user.boxes[0].value = "Ada"
    user.boxes[1].value = "2"
    user.send("submit")
    assert user.problems == ["That one is taken", ""]
    user.boxes[0].value = "Bo"
    user.send("submit")
    assert user.problems == ["", ""]
    assert "Name and size do not fit" in user.page_problem
    user.boxes[1].value = "1"
    user.send("submit")
    assert user.ends == [make("form_end", (given_({"name": "Bo", "size": 1}),))]


def test_text_that_was_proposed_and_cleared_is_empty_and_not_the_proposed_one() -> None:
    user = FormUser(form_of(NAME.with_default("Ada").with_required(False), SIZE))
    user.boxes[0].value = ""
    user.boxes[1].value = "2"
    user.send("submit")
    assert user.ends == [make("form_end", (given_({"name": "", "size": 2}),))]


def test_secret_that_was_sent_stays_though_no_widget_has_it() -> None:
    user = FormUser(KEY, NAME)
    user.send("next", value="hunter2")
    user.send("back")
    assert user.boxes[0].hint == "Entered. Type to replace it."
    assert "hunter2" not in str([each.get_state() for each in user.made_pages[0].children])
    user.send("next")
    user.boxes[0].value = "Ada"
    user.send("submit")
    assert user.ends == [make("form_end", (given_("hunter2"), given_("Ada")))]


# --- deadlines -------------------------------------------------------------------------------


@pytest.mark.req("RPI-68", "RPI-75", "HB-2")
def test_deadline_of_a_page_keeps_its_picks_and_shows_the_next_page() -> None:
    proposed = jp.Question.select("q", "Which?", ["x", "y"], recommended=1)
    user = FormUser(EXTRAS, proposed, COLOUR.with_required(False))
    user.boxes[0].picks = [2, 0]
    for page in (1, 2):
        user.send("rendered")
        user.pass_time(TIMEOUT)
        assert (user.page, user.note) == (page, TIME_WENT)
    user.send("rendered")
    user.pass_time(TIMEOUT)
    late = frozenset({"timed_out"})
    auto = frozenset({"timed_out", "auto"})
    assert user.ends == [
        make(
            "form_end",
            (
                kit_answered(["c", "a"], "form", marks=late),
                LATE,  # required, and the user did not choose the proposed option
                kit_answered("red", "form", marks=auto),
            ),
        )
    ]


@pytest.mark.req("RPI-71", "RPI-73", "HB-2")
def test_change_begins_the_time_anew_and_a_text_stops_it() -> None:
    user = FormUser(COLOUR, NAME)
    user.send("rendered")
    user.pass_time(9)
    user.boxes[0].index = 1
    user.pass_time(9)
    assert user.page == 0
    user.send("writing", value=True)
    user.pass_time(100)
    assert user.page == 0
    user.send("writing", value=False)
    user.send("next")
    user.send("rendered")
    user.boxes[0].value = "x"
    user.pass_time(100)
    assert user.ends == []
    user.boxes[0].value = ""
    user.send("cancel")
    user.send("rendered")
    user.reply_box.value = "Wai"
    user.pass_time(100)
    assert user.ends == []
    user.reply_box.value = ""
    user.pass_time(TIMEOUT)
    assert len(user.ends) == 1


@pytest.mark.req("RPI-73", "HB-2")
def test_press_that_leads_nowhere_begins_the_time_anew() -> None:
    user = FormUser(COLOUR, NAME)
    user.send("rendered")
    user.pass_time(9)
    user.send("unchosen")
    user.pass_time(9)
    assert user.page == 0
    user.pass_time(1)
    assert user.page == 1


@pytest.mark.req("RPI-72")
def test_time_begins_once_a_page_shows_the_step_however_often_it_is_drawn() -> None:
    user = FormUser(COLOUR, NAME)
    user.pass_time(100)  # no page shows it
    user.send("rendered")
    user.pass_time(6)
    user.send("rendered")
    user.pass_time(4)
    assert user.page == 1
    user.send("rendered", step=0)  # the page before, late
    user.pass_time(3.0)  # then the time begins without a page
    user.pass_time(9)
    assert user.ends == []
    user.send("rendered")
    user.pass_time(9)
    assert user.ends == []
    user.pass_time(1)
    assert len(user.ends) == 1


# --- bounded, hostile, any way through ---------------------------------------------------------


@pytest.mark.parametrize(
    ("questions", "incomplete", "complete"),
    [
        ((EXTRAS,), "The question is not answered.", "The question is answered."),
        ((EXTRAS, NAME), "Not every question is answered.", "Every question is answered."),
    ],
    ids=["one", "two"],
)
def test_summary_reports_unanswered_questions(
    questions: tuple[jp.Question, ...], incomplete: str, complete: str
) -> None:
    user = FormUser(*questions)
    for _ in questions[1:]:
        user.send("next")
        user.boxes[0].value = "Ada"

    user.send("submit")
    assert incomplete in user.heading
    assert user.labels == ["Back", "Send as it is"]

    user.send("empty-0")
    assert complete in user.heading
    assert user.labels == ["Back", "Send"]

    user.send("send")
    assert user.ends == [make("form_end", (given_([]), given_("Ada"))[: len(questions)])]


def test_summary_that_was_left_is_closed() -> None:
    user = FormUser(COLOUR)
    user.send("submit")
    summary = set(user.widgets)
    user.send("resume")
    closed = [each for each in summary - set(user.widgets) if each.comm is None]
    assert user.screen == "page"
    assert any("jp-nb-summary" in each._dom_classes for each in closed if hasattr(each, "value"))


@pytest.mark.req("RCP-87")
def test_page_is_made_when_it_is_shown_and_all_are_closed_with_the_form() -> None:
    user = FormUser(*(NAME.model_copy(update={"id": f"q{n}"}) for n in range(20)))
    assert [*user.made_pages] == [0]
    user.send("next")
    assert [*user.made_pages] == [0, 1]
    user.send("cancel")
    pages = [*user.made_pages.values()]
    user.close()
    assert all(page.comm is None for page in pages)


def test_message_that_no_page_sends_changes_nothing(subtests: pytest.Subtests) -> None:
    messages: list[dict[str, Any]] = [
        {"type": "submit"},  # not offered yet
        {"type": "go-1"},
        {"type": "next", "step": "0"},
        {"type": "next", "step": None},
        {"type": ["next"]},
        {"type": "empty-99999999999999999999"},
        {"type": "reply", "value": "x"},
        {"type": "stop"},
        {"type": "send"},
        {"type": None},
        {"type": "_cancel"},
    ]
    for message in messages:
        with subtests.test(message=message):
            user = FormUser(form_of(NAME, SIZE), COLOUR)
            user.post({"step": 0, "fields": "x"} | message)
            assert (user.page, user.screen, user.ends) == (0, "page", [])


@pytest.mark.req("HB-4")
def test_summary_offers_nothing_as_an_answer_only_where_it_is_one() -> None:
    user = FormUser(COLOUR, EXTRAS)
    user.send("next")
    user.send("submit")
    assert "jp-nb-do-empty-1" in user.summary
    assert "jp-nb-do-empty-0" not in user.summary


@pytest.mark.req("RPI-38")
def test_summary_has_hostile_texts_as_texts() -> None:
    evil = "<img src=x onerror=alert(1)>"
    user = FormUser(NAME.model_copy(update={"text": f"Which {evil}?"}), COLOUR)
    user.send("next", value=evil)
    user.send("submit")
    assert user.summary.count("&lt;img src=x") == 3  # the question, its button, the answer
    assert "<img" not in user.summary


@pytest.mark.parametrize("place", ["", "9", "-1", "²", "x", "9" * 5000])
def test_place_that_the_summary_does_not_have_leads_nowhere(place: str) -> None:
    user = FormUser(COLOUR, NAME)
    user.send("next")
    user.send("submit")
    for does in ("go", "empty"):
        user.send(f"{does}-{place}")
    assert (user.screen, user.note, user.ends) == ("summary", "", [])


MOVES = st.lists(
    st.one_of(
        st.sampled_from(["next", "back", "cancel", "resume", "again", "late"]),
        st.tuples(st.just("tick"), st.integers(0, 2)),
        st.tuples(st.just("type"), st.sampled_from(["", "x", "two\nlines", "<b>"])),
        st.tuples(st.just("radio"), st.integers(0, 2)),
    ),
    max_size=25,
)


class Clicks:
    """A person in front of a form with three pages, and what that person sees on each."""

    def __init__(self) -> None:
        self.user = FormUser(EXTRAS, NAME, COLOUR)
        self.seen: list[Any] = [[], "", None]

    def do(self, move: Any) -> None:
        user = self.user
        match move:
            case "again":  # the page is loaded again
                user.send("rendered")
            case "late":
                user.send("next", step=user.step - 1)
            case "resume" | "cancel" | "next" | "back":
                user.send(move)
            case ("tick", index) if (user.screen, user.page) == ("page", 0):
                picks = self.seen[0]
                self.seen[0] = [x for x in picks if x != index] + [index] * (index not in picks)
                user.boxes[0].picks = self.seen[0]
            case ("type", words) if (user.screen, user.page) == ("page", 1):
                self.seen[1] = user.boxes[0].value = words
            case ("radio", index) if (user.screen, user.page) == ("page", 2):
                self.seen[2] = user.boxes[0].index = index

    def submit(self) -> None:
        if self.user.screen == "menu":
            self.user.send("resume")
        while self.user.page < 2:
            self.user.send("next")
        self.user.send("submit")
        if self.user.screen == "summary":
            self.user.send("send")

    @property
    def meant(self) -> Iterator[Any | Any]:
        ticks, words, index = self.seen
        yield given_(["abc"[tick] for tick in ticks]) if ticks else DECLINED
        yield given_(words) if words else DECLINED
        yield DECLINED if index is None else given_(["red", "green", "blue"][index])


@settings(deadline=None)
@given(MOVES)
def test_submit_sends_the_visible_answers_after_any_steps(moves: list[Any]) -> None:
    person = Clicks()
    for move in moves:
        person.do(move)
    assert person.user.ends == []
    person.submit()
    assert person.user.ends == [make("form_end", tuple(person.meant))]
    person.user.close()
