"""`jp.ask`: a question, several, or the fields of a type; configured, asked, or without a user.

Without a user a field with a default takes it, as the type does when it is made without one; a
field without fails, and the error names what to configure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr, model_validator
from typing_extensions import TypedDict

import jp_nb
from jp_nb.session.session import Session
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered, not_answered
from tests.kit.sessions import directive
from tests.support.fake_host import FakeHost
from tests.support.fakes import FakePrompter

ANSWER = "conversation.tools.*.questions.{}.answer"
TOOL_TURN = """
[[replies]]
tool_calls = [{name = "plan", arguments = {}}]
[[replies]]
text = "Settled."
"""


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Trip(BaseModel):
    """A destination."""

    city: str
    days: int = Field(3, ge=1, le=14)
    size: Size = Size.SMALL
    note: str | None = None

    @model_validator(mode="after")
    def _affordable(self) -> Trip:
        if self.days > 7 and self.size is Size.LARGE:
            raise ValueError("too much")
        return self


Ask = Callable[..., Session]


@pytest.fixture
def session_of(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Return a function that makes a session for `jp.ask` with the given configuration."""
    (bare_folder / "tools.toml").write_text(TOOL_TURN)
    made = list[Session]()

    def make_session(person: FakePrompter, **answers: str) -> Session:
        session = Session(FakeHost(person))
        for name, json in answers.items():
            session.configure(directive("cfg", f"{ANSWER.format(name)}:={json}"))
        monkeypatch.setattr("jp_nb.session._current", session)
        made.append(session)
        return session

    yield make_session
    for session in made:
        session.close()


def form_answers(*answers: Any) -> FakePrompter:
    """A user who submits one form with `answers`."""
    ends = [x if is_kind(x, "not_answered") else answered(x, "form") for x in answers]
    return FakePrompter(make("form_end", tuple(ends)))


def away() -> FakePrompter:
    return FakePrompter(away="the test is alone")


def test_model_is_asked_as_a_form_and_returned_as_an_instance(session_of: Ask) -> None:
    person = form_answers({"city": "Delft", "days": 2, "size": "l"})
    session_of(person)
    trip = jp_nb.ask(Trip, label="Plan")
    assert trip == Trip(city="Delft", days=2, size=Size.LARGE)
    [prompt] = person.asked
    assert is_kind(prompt, "form_prompt")
    [page] = prompt.pages
    assert (page.question.text, page.label, prompt.partial, prompt.menu) == (
        "Trip",
        "Plan",
        False,
        False,
    )
    kind = page.question.answer_type
    assert is_kind(kind, "form_answer")
    assert [field.id for field in kind.fields] == ["city", "days", "size", "note"]
    assert kind.problems({"city": "x", "days": 9, "size": "l"}) == {"": "too much"}


def test_title_is_shown_above_the_fields(session_of: Ask) -> None:
    class Person(TypedDict):
        name: str

    person = form_answers({"name": "Ada"})
    session_of(person)
    assert jp_nb.ask(Person, title="Who are you?") == {"name": "Ada"}
    assert person.asked[0].pages[0].question.text == "Who are you?"


def test_several_questions_are_one_form_with_a_dict_of_answers(session_of: Ask) -> None:
    trip_answer = {"city": "Delft", "days": 1, "size": "s"}
    person = form_answers("Delft", True, not_answered("declined", "form"), trip_answer)
    session_of(person)
    answers = jp_nb.ask(
        [
            jp_nb.Question.text("city", "Where?"),
            jp_nb.Question.boolean("sure", "Sure?"),
            jp_nb.Question.text("note", "Anything else?").with_required(False),
            jp_nb.Question.form("trip", Trip),
        ]
    )
    trip = Trip(city="Delft", days=1)
    assert answers == {"city": "Delft", "sure": True, "note": None, "trip": trip}
    assert [page.question.id for page in person.asked[0].pages] == ["city", "sure", "note", "trip"]


def test_configured_fields_are_not_asked_and_checked_with_the_rest(session_of: Ask) -> None:
    person = form_answers({"city": "Delft", "size": "s"})
    session_of(person, days="9", note='"by boat"')
    assert jp_nb.ask(Trip) == Trip(city="Delft", days=9, note="by boat")
    kind = person.asked[0].pages[0].question.answer_type
    assert is_kind(kind, "form_answer")
    assert [field.id for field in kind.fields] == ["city", "size"]
    assert kind.problems({"city": "x", "size": "l"}) == {"": "too much"}


def test_fully_configured_form_asks_nothing(session_of: Ask) -> None:
    session_of(FakePrompter(), Trip='{"city": "Delft", "days": 1, "size": "Large"}')
    assert jp_nb.ask(Trip) == Trip(city="Delft", days=1, size=Size.LARGE)
    session_of(FakePrompter(), city='"Delft"', days="1", size='"s"', note='"n"')
    assert jp_nb.ask(Trip) == Trip(city="Delft", days=1, note="n")


def test_user_confirms_a_form_without_fields(session_of: Ask) -> None:
    class Consent(BaseModel):
        """Nothing to fill in."""

    person = form_answers({})
    session_of(person)
    assert jp_nb.ask(Consent) == Consent()
    assert len(person.asked) == 1

    session_of(away())
    with pytest.raises(jp_nb.PromptUnavailable):
        jp_nb.ask(Consent)


def test_options_can_be_configured_by_label(session_of: Ask) -> None:
    class Pets(BaseModel):
        pets: list[Literal["cat", "dog"]]
        size: Size

    session_of(FakePrompter(), pets='["dog", "cat"]', size='"Large"')
    assert jp_nb.ask(Pets) == Pets(pets=["dog", "cat"], size=Size.LARGE)


def test_invalid_configured_answer_is_an_error_with_its_path(
    session_of: Ask, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[dict[str, str], str, str]] = [
        ({"days": "15"}, ANSWER.format("days"), "from 1 to 14"),
        ({"size": '"Huge"'}, ANSWER.format("size"), "does not answer"),
        ({"Trip": '{"city": "x", "days": 0, "size": "s"}'}, ANSWER.format("Trip") + ".days", "14"),
        ({"Trip": '{"town": "x"}'}, ANSWER.format("Trip") + ".town", "unknown field"),
        ({"Trip": '"Delft"'}, ANSWER.format("Trip"), "expected an object with `city`"),
        ({"Trip": '{"city": "x", "days": 9, "size": "l"}'}, ANSWER.format("Trip"), "too much"),
        ({"city": '"x"', "days": "9", "size": '"l"', "note": '""'}, ANSWER.format("city"), "much"),
    ]
    for answers, path, why in rows:
        with subtests.test(answers=answers):
            session_of(FakePrompter(), **answers)
            with pytest.raises(jp_nb.ConfigError, match=why) as caught:
                jp_nb.ask(Trip)
            assert caught.value.path == path


def test_tools_own_configured_answers_are_used(session_of: Ask) -> None:
    session = session_of(form_answers({"city": "Delft", "days": 2, "size": "s"}), city='"Nowhere"')
    path = "conversation.tools.planner.questions.note.answer"
    session.configure(directive("cfg", f'{path}:="mine"'))
    assert jp_nb.ask(Trip, tool="planner") == Trip(city="Delft", days=2, note="mine")


def test_without_a_user_defaults_apply_and_missing_settings_are_named(
    session_of: Ask,
) -> None:
    session_of(away(), city='"Delft"')
    assert jp_nb.ask(Trip) == Trip(city="Delft", days=3)
    session_of(away())
    with pytest.raises(jp_nb.PromptUnavailable) as caught:
        jp_nb.ask(Trip)
    assert caught.value.reason == "the test is alone"
    assert str(caught.value) == (
        "'Trip' needs a user, and no user is available: the test is alone. To answer "
        "without a user, "
        "set conversation.tools.*.questions.city.answer"
    )


def test_without_a_user_missing_answers_of_several_questions_are_named(session_of: Ask) -> None:
    questions = [
        jp_nb.Question.select("how", "How?", ["train", "boat"]).with_required(False),
        jp_nb.Question.text("note", "Anything else?").with_required(False),
        jp_nb.Question.text("city", "Where?").with_default("Delft"),
        jp_nb.Question.boolean("sure", "Sure?").with_required(False).with_exclusive(),
    ]
    session_of(away())
    assert jp_nb.ask(questions[:2]) == {"how": "train", "note": None}
    with pytest.raises(jp_nb.PromptUnavailable) as caught:
        jp_nb.ask(questions)
    assert "questions.city.answer" in str(caught.value)
    assert "questions.sure.answer" in str(caught.value)
    assert "questions.how" not in str(caught.value)


def test_inconsistent_defaults_are_no_answer(session_of: Ask) -> None:
    session_of(away(), city='"x"', days="9", size='"l"')
    with pytest.raises(jp_nb.ConfigError, match="too much"):
        jp_nb.ask(Trip)

    class Odd(BaseModel):
        days: int = 3

        @model_validator(mode="after")
        def _never(self) -> Odd:
            raise ValueError("never")

    session_of(away())
    with pytest.raises(jp_nb.PromptUnavailable, match="'Odd' needs a user"):
        jp_nb.ask(Odd)


def test_unanswered_form_is_an_error(session_of: Ask, subtests: pytest.Subtests) -> None:
    rows: list[Any] = ["cancelled", "timed_out", "interrupted"]
    for how in rows:
        with subtests.test(how=how):
            session_of(FakePrompter(make("form_end", (not_answered(how, "form"),))))
            with pytest.raises(jp_nb.PromptCancelled, match="'Trip' was not answered") as caught:
                jp_nb.ask(Trip)
            assert caught.value.end == how
            assert [entry.name for entry in caught.traceback] == [
                "test_unanswered_form_is_an_error",
                "ask",  # without inner frames
            ]
            session_of(FakePrompter(not_answered(how, "form")))
            with pytest.raises(
                jp_nb.PromptCancelled, match=r"^'One[?]', 'Two[?]' were not answered$"
            ):
                jp_nb.ask(
                    [jp_nb.Question.boolean("one", "One?"), jp_nb.Question.boolean("two", "Two?")]
                )


def test_secret_answer_is_hidden_in_later_questions(session_of: Ask) -> None:
    class Login(BaseModel):
        password: SecretStr
        user: str = "hunter2"

    person = FakePrompter(
        make("form_end", (answered({"password": "hunter2", "user": "ada"}, "form"),)),
        make("form_end", (answered({"password": "hunter3", "user": "ada"}, "form"),)),
        answered(True, "form"),
    )
    session_of(person)
    assert jp_nb.ask(Login).password.get_secret_value() == "hunter2"
    jp_nb.ask(Login)
    password, user = person.asked[1].pages[0].question.answer_type.fields
    assert (password.default, user.default) == (None, None)
    again = (
        jp_nb.Question.boolean("sure", "hunter2?").with_header("hunter2").with_context("hunter2")
    )
    assert jp_nb.ask(again) is True
    shown = person.asked[2]
    assert is_kind(shown, "question_prompt")
    assert "hunter2" not in repr(shown)


def test_ask_inside_a_tool_asks_in_the_turn(session_of: Ask) -> None:
    @jp_nb.tool
    def plan() -> str:
        return repr(jp_nb.ask(Trip).days)

    session = session_of(form_answers({"city": "Delft", "days": 2, "size": "s"}))
    try:
        turn = session.turns.run("Plan.", model="scripted/tools")
    finally:
        jp_nb.remove_tool("plan")
    assert [call.content for call in turn.tool_calls] == ["2"]
    # The time of the question is not counted as the tool's.
    [output] = session.turns.runner.front_end.outputs  # type: ignore[attr-defined]
    asked = [event.waits for event in output.events if is_kind(event, "code_asks")]
    assert asked == [True, False]


def test_invalid_questions_are_refused(session_of: Ask, subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str]] = [
        ([], "1 to 50 questions"),
        ([jp_nb.Question.text("a", "A?")] * 51, "1 to 50 questions"),
        ([jp_nb.Question.text("a", "A?"), Trip], r"\[1\] is a ModelMetaclass"),
        ([jp_nb.Question.text("a", "A?"), jp_nb.Question.boolean("a", "B?")], "the id 'a'"),
        (5, "no form can be made of 5"),
        ("city", "no form can be made of 'city'"),
    ]
    for what, why in rows:
        with subtests.test(what=what):
            session_of(FakePrompter())
            with pytest.raises(jp_nb.UsageError, match=why):
                jp_nb.ask(what)
