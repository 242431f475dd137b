"""The state of a form without a front end: pages, summary, menu, deadlines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.agent.prompting.form_draft import FormDraft
from jp_nb.agent.prompting.page_drafts import PageDraft
from tests.kit.kinds import make
from tests.kit.questions import answered, not_answered

BLANK = PageDraft()
COLOUR = jp.Question.select("colour", "Which colour?", ["red", "green"], recommended=1)
EXTRAS = jp.Question.select("extras", "Which extras?", ["a", "b", "c"], multi=True)
NAME = jp.Question.text("name", "Which name?")
SIZE = jp.Question.integer("size", "Which size?", minimum=1)
CANCELLED = not_answered("cancelled", "form")
DECLINED = not_answered("declined", "form")
REFUSED = not_answered("declined", "form", marks=frozenset({"refused"}))
LATE = not_answered("timed_out", "form")


def draft_of(*questions: jp.Question, partial: bool = False, menu: bool = False) -> FormDraft:
    pages = tuple(make("question_prompt", question) for question in questions)
    return FormDraft(make("form_prompt", pages, partial=partial, menu=menu), "form")


def answer(value: object) -> PageDraft:
    return PageDraft(answered(value, "form"))  # any JSON


def test_back_and_next_stay_within_the_pages_and_keep_answers() -> None:
    draft = draft_of(COLOUR, NAME)
    draft.back()
    assert (draft.page, draft.is_first, draft.is_last, draft.step) == (0, True, False, 0)
    draft.store_draft(answer("red"))
    draft.next()
    draft.next()
    assert (draft.page, draft.is_last, draft.can_submit) == (1, True, True)
    draft.back()
    assert draft.pages[0] == answer("red")
    assert not draft.can_submit
    assert draft.end is None


@pytest.mark.req("RPI-61")
def test_open_questions_are_shown_before_sending() -> None:
    draft = draft_of(COLOUR, NAME, partial=True)
    draft.next()
    draft.store_draft(answer("Ada"))
    draft.send()  # of nothing that was shown
    assert draft.end is None
    draft.submit()
    assert (draft.screen, draft.open_pages, draft.end) == ("summary", [0], None)
    draft.go(0)
    assert (draft.screen, draft.page, draft.can_submit) == ("page", 0, True)
    draft.submit()
    draft.send()
    assert draft.end == make("form_end", (DECLINED, answered("Ada", "form")))


def test_submit_turns_to_the_first_missing_required_answer() -> None:
    draft = draft_of(NAME.with_required(False), COLOUR, SIZE)
    draft.next()
    draft.next()
    draft.store_draft(answer(3))
    draft.submit()
    assert (draft.page, draft.screen, draft.must_answer) == (1, "page", True)
    draft.store_draft(answer("red"))
    draft.next()
    assert (draft.page, draft.must_answer) == (2, False)  # the demand is shown once
    draft.submit()  # from where it is
    assert draft.screen == "summary"
    draft.send()
    assert draft.end == make("form_end", (DECLINED, answered("red", "form"), answered(3, "form")))


def test_submit_turns_to_an_invalid_answer() -> None:
    draft = draft_of(SIZE, NAME, partial=True)
    draft.store_draft(PageDraft(problem="expected a whole number"))
    draft.next()
    draft.submit()
    assert (draft.page, draft.must_answer, draft.end) == (0, True, None)


@pytest.mark.req("HB-4")
def test_empty_answer_needs_confirmation() -> None:
    draft = draft_of(EXTRAS, partial=True)
    draft.store_draft(PageDraft(empty=answered([], "form")))
    draft.submit()
    assert draft.screen == "summary"
    step = draft.step
    draft.confirm_empty(0)
    assert draft.step > step  # the summary is another one
    draft.send()
    assert draft.end == make("form_end", (answered([], "form"),))


def test_summary_can_be_shown_while_a_required_question_is_open() -> None:
    draft = draft_of(COLOUR, NAME)
    draft.review()
    assert (draft.screen, draft.reviewed, draft.blocking_page) == ("summary", True, 0)
    draft.submit()
    assert (draft.screen, draft.page, draft.must_answer, draft.end) == ("page", 0, True, None)


@pytest.mark.parametrize("first", [BLANK, PageDraft(problem="expected a whole number")])
@pytest.mark.parametrize("required", [True, False])
def test_send_turns_to_the_page_that_prevents_it(first: PageDraft, required: bool) -> None:
    draft = draft_of(SIZE.with_required(required), NAME)
    draft.store_draft(first)
    draft.next()
    draft.decline()
    assert draft.screen == "summary"
    draft.send()
    if required or first.problem:
        assert (draft.screen, draft.page, draft.must_answer, draft.end) == ("page", 0, True, None)
    else:
        assert draft.end == make("form_end", (DECLINED, REFUSED))


@pytest.mark.req("RPI-62", "HB-12")
@pytest.mark.parametrize(
    ("leave", "end"),
    [
        (
            lambda draft: draft.reply("Why?"),
            make("form_end", (answered("red", "form"), CANCELLED, CANCELLED), "reply", "Why?"),
        ),
        (FormDraft.stop, make("form_end", (CANCELLED,) * 3, "stop")),
    ],
)
def test_menu_resumes_replies_or_stops(leave: Callable[[FormDraft], None], end: Any) -> None:
    draft = draft_of(COLOUR, NAME, SIZE, menu=True)
    draft.store_draft(answer("red"))
    draft.next()
    draft.cancel()
    assert (draft.screen, draft.end) == ("menu", None)
    draft.resume()
    assert (draft.screen, draft.page) == ("page", 1)
    draft.cancel()
    leave(draft)
    assert draft.end == end


def test_cancel_asks_before_entered_answers_are_lost() -> None:
    draft = draft_of(COLOUR, NAME)
    draft.cancel()
    assert draft.end == CANCELLED
    wrong = PageDraft(problem="expected a whole number")
    for touched, held in ((True, BLANK), (False, answer("red")), (False, wrong)):
        draft = draft_of(COLOUR, NAME)
        draft.store_draft(held)
        draft.cancel(entered=touched)
        assert (draft.screen, draft.end) == ("discard", None)
        draft.resume()
        assert draft.pages[0] == held
        draft.cancel(entered=True)
        draft.discard()
        assert draft.end == CANCELLED


@pytest.mark.req("RCP-88")
def test_first_end_of_a_form_is_final() -> None:
    draft = draft_of(NAME, partial=True)
    draft.store_draft(answer("Ada"))
    draft.submit()
    ended = draft.end
    step = draft.step
    draft.store_draft(answer("Bo"))
    assert draft.pages == [answer("Ada")]
    for again in (draft.submit, draft.send, draft.cancel, draft.stop, draft.expire, draft.back):
        again()
    draft.reply("late")
    assert (draft.end, draft.step) == (ended, step)
    assert ended == make("form_end", (answered("Ada", "form"),))


def test_input_after_the_end_changes_nothing() -> None:
    inputs: list[Callable[[FormDraft], None]] = [
        FormDraft.next,
        FormDraft.back,
        FormDraft.submit,
        FormDraft.review,
        FormDraft.send,
        FormDraft.cancel,
        FormDraft.decline,
        FormDraft.resume,
        FormDraft.discard,
        FormDraft.stop,
        FormDraft.expire,
        lambda draft: draft.go(0),
        lambda draft: draft.store_draft(answer(["a"])),
        lambda draft: draft.confirm_empty(1),
        lambda draft: draft.reply("late"),
        lambda draft: draft.expire(answered("late", "form")),
    ]
    for late_input in inputs:
        draft = draft_of(NAME, EXTRAS, SIZE)
        draft.next()
        draft.store_draft(PageDraft(empty=answered([], "form")))
        draft.stop()
        ended = state_of(draft)
        late_input(draft)
        draft.resume()
        assert state_of(draft) == ended


def state_of(draft: FormDraft) -> tuple[object, ...]:
    pages = list(draft.pages)
    flags = (draft.must_answer, draft.reviewed)
    return draft.page, draft.screen, draft.step, flags, pages, draft.end


# --- deadlines -------------------------------------------------------------------------------


def late(value: object, *marks: str) -> Any:
    return answered(value, "form", marks=frozenset({"timed_out", *marks}))


@pytest.mark.req("RPI-66", "RPI-67", "RPI-69", "HB-3")
@pytest.mark.parametrize(
    ("question", "chosen"),
    [
        (COLOUR, "green"),
        (jp.Question.select("q", "?", ["x", "y"]), "x"),
        (jp.Question.select("q", "?", ["x", "y"], recommended=7), "x"),
        (EXTRAS, ["a"]),
    ],
)
def test_expired_optional_selection_takes_the_recommended_option(
    question: jp.Question, chosen: object
) -> None:
    draft = draft_of(question.with_required(False))
    draft.expire()
    assert draft.end == make("form_end", (late(chosen, "auto"),))


@pytest.mark.req("RPI-70", "RPI-82", "HB-3")
@pytest.mark.parametrize(
    "question",
    [
        COLOUR,  # it must be answered
        COLOUR.with_required(False).with_exclusive(),
        NAME.with_required(False),
        jp.Question.select("q", "?", [], other=True).with_required(False),
    ],
)
def test_nothing_is_chosen_for_other_expired_questions(question: jp.Question) -> None:
    draft = draft_of(question, partial=True)
    draft.expire()
    assert draft.end == make("form_end", (LATE,))


@pytest.mark.req("RPI-68")
def test_expired_page_keeps_the_picked_answer() -> None:
    draft = draft_of(EXTRAS, partial=True)
    draft.expire(answered(["c", "a"], "form"))
    assert draft.end == make("form_end", (late(["c", "a"]),))
    draft = draft_of(NAME, partial=True)
    draft.expire(answered("", "form", marks=frozenset({"empty"})))
    assert draft.end == make("form_end", (late("", "empty"),))


@pytest.mark.req("RPI-68", "HB-2")
@pytest.mark.parametrize("question", [COLOUR, COLOUR.with_required(False)])
def test_expired_page_keeps_its_earlier_answer(
    question: jp.Question,
) -> None:
    draft = draft_of(question, NAME, partial=True)
    draft.store_draft(answer("red"))
    draft.next()
    draft.back()
    draft.expire()
    draft.expire()
    assert draft.end == make("form_end", (answered("red", "form"), LATE))


@pytest.mark.req("RPI-82", "HB-2")
def test_exclusive_question_takes_no_unsent_answer() -> None:
    draft = draft_of(COLOUR.with_exclusive(), COLOUR.with_exclusive(), partial=True)
    draft.store_draft(answer("red"))
    draft.next()
    draft.expire(answered("red", "form"))
    assert draft.end == make("form_end", (answered("red", "form"), LATE))


@pytest.mark.req("RPI-75")
def test_each_page_has_its_own_deadline() -> None:
    draft = draft_of(NAME, COLOUR.with_required(False), SIZE, partial=True)
    draft.expire()
    assert (draft.page, draft.end) == (1, None)
    draft.expire()
    assert (draft.page, draft.end) == (2, None)
    draft.back()
    draft.back()
    draft.store_draft(answer("Ada"))  # there is time again
    draft.next()
    draft.next()
    draft.expire()
    assert draft.end == make("form_end", (answered("Ada", "form"), late("green", "auto"), LATE))


def test_form_without_partial_times_out_as_a_whole() -> None:
    draft = draft_of(NAME, COLOUR)
    draft.expire()
    draft.store_draft(answer("red"))
    draft.expire()
    assert draft.end == LATE


def test_deadline_applies_to_menu_and_summary() -> None:
    draft = draft_of(NAME, COLOUR.with_required(False), partial=True, menu=True)
    draft.cancel()
    draft.expire()  # on the menu, which leads back to page 1
    assert (draft.page, draft.screen) == (1, "page")
    draft.submit()
    assert draft.screen == "summary"
    draft.expire()
    assert draft.end == make("form_end", (LATE, late("green", "auto")))


# --- random moves -------------------------------------------------------------------------

MOVES = st.lists(
    st.one_of(st.sampled_from(["next", "back", "cancel", "resume", "send"]), st.integers(0, 2)),
    max_size=40,
)


class Person:
    """Ticks options on three pages and sees the ticks in the order of the clicks."""

    def __init__(self) -> None:
        self.draft = draft_of(EXTRAS, EXTRAS, EXTRAS, partial=True, menu=True)
        self.ticked: list[list[str]] = [[], [], []]

    def do(self, move: str | int) -> None:
        if isinstance(move, int):
            ticked = self.ticked[self.draft.page]
            option = "abc"[move]
            ticked.remove(option) if option in ticked else ticked.append(option)
            return
        if move in ("next", "back", "submit"):
            values = list(self.ticked[self.draft.page])
            self.draft.store_draft(
                answer(values) if values else PageDraft(empty=answered([], "form"))
            )
        getattr(self.draft, move)()

    def can(self, move: str | int) -> bool:
        on_page = self.draft.screen == "page"
        return on_page != (move == "resume") and move != "send"

    def submit(self) -> None:
        if self.draft.screen == "menu":
            self.do("resume")
        while not self.draft.is_last:
            self.do("next")
        self.do("submit")


@given(MOVES)
def test_random_moves_submit_the_visible_answers(moves: list[str | int]) -> None:
    person = Person()
    draft = person.draft
    for move in filter(person.can, moves):
        person.do(move)
        assert draft.end is None
    person.submit()
    if draft.screen == "summary":
        assert draft.open_pages == [page for page in range(3) if not person.ticked[page]]
        draft.send()
    shown = (answered(list(ticked), "form") if ticked else DECLINED for ticked in person.ticked)
    assert draft.end == make("form_end", tuple(shown))
