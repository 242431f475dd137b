"""Messages that no page of a form sends, to each widget of each kind of form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ipywidgets
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

import jp_nb as jp
from tests.kit.forms import FormUser
from tests.kit.kinds import is_kind, kind_of, make
from tests.kit.questions import answered
from tests.notebook.prompt.prompts import DELIVERY, DELTAS, PERMISSION, STREAMING, TOOLS

COLOURS = ["red", "green", "blue"]
MANY = [f"colour {number}" for number in range(20)]
LONG = make(
    "decision_prompt",
    "Run it?",
    PERMISSION.actions,
    exhibits=(make("prompt_detail", "Code", "x = 1\n" * 1100, language="python"),),
    only_buttons=True,
)


def text(**more: Any) -> jp.Question:
    return jp.Question(id="q", text="Why?", answer_type=make("text_answer", **more))


# For each kind of question: the state of its control that a page sends, and its answer.
QUESTIONS: dict[str, tuple[jp.Question, dict[str, JsonValue], JsonValue]] = {
    "radio buttons": (jp.Question.select("q", "Which?", COLOURS), {"index": 1}, "green"),
    "list": (jp.Question.select("q", "Which?", MANY), {"picks": [9], "custom": None}, "colour 9"),
    "descriptions": (
        jp.Question.select(
            "q", "Which?", [jp.Option(value=1, description="one"), jp.Option(value=2)]
        ),
        {"picks": [1], "custom": None},
        2,
    ),
    "several": (
        jp.Question.select("q", "Which?", COLOURS, multi=True),
        {"picks": [2, 0], "custom": None},
        ["blue", "red"],
    ),
    "own text": (
        jp.Question.select("q", "Which?", COLOURS, other=True),
        {"picks": [], "custom": "pink"},
        {"selected": [], "custom": "pink"},
    ),
    "text": (text(min_length=2), {"value": "because\nof this"}, "because\nof this"),
    "line": (text(lines=False), {"value": "because"}, "because"),
    "address": (text(format="email"), {"value": "a@example.org"}, "a@example.org"),
    "date": (text(format="date"), {"value": "2026-11-23"}, "2026-11-23"),
    "number": (jp.Question.number("q", "How much?", maximum=9), {"value": "2.5"}, 2.5),
    "integer": (jp.Question.integer("q", "How many?", minimum=1), {"value": "12"}, 12),
    "web page": (jp.Question.url("q", "Sign in?", "https://example.org/a"), {}, True),
    "secret": (jp.Question.secret("q", "Key?"), {"value": "hunter2"}, "hunter2"),
}
FIELDS = {
    name: (question.model_copy(update={"id": f"f{number}"}), state, answer)
    for number, (name, (question, state, answer)) in enumerate(QUESTIONS.items())
    if name not in ("secret", "web page")
}
FIELD_STATES: list[JsonValue] = [state for _, state, _ in FIELDS.values()]
FIELD_ANSWER: dict[str, JsonValue] = {
    question.id: answer for question, _, answer in FIELDS.values()
}
FORM_OF_FIELDS = jp.Question(
    id="q",
    text="Settings",
    answer_type=make("form_answer", fields=tuple(question for question, _, _ in FIELDS.values())),
)
ACTIONS: dict[str, Any] = {
    "permission": PERMISSION,
    "long code": LONG,
    "result": DELIVERY,
    "menu of an answer": STREAMING,
    "menu of tools": TOOLS,
    **DELTAS,
}


def read_texts(user: FormUser) -> dict[str, Any]:
    """Return all texts and options of a form, but not its messages to the user."""
    named = ("jp-nb-note", "jp-nb-problem", "jp-nb-part")
    found = {}
    for widget in user.widgets:
        if isinstance(widget, ipywidgets.HTML) and not {*named} & {*widget._dom_classes}:
            found[widget.model_id] = widget.value
        elif isinstance(widget, ipywidgets.Button):
            found[widget.model_id] = (widget.description, widget.disabled)
        elif type(widget).__name__ == "Choices":
            found[widget.model_id] = (widget.question, widget.options, widget.other)
        elif isinstance(widget, ipywidgets.RadioButtons):
            found[widget.model_id] = widget.options

    return found


@contextmanager
def shown(prompt: Any) -> Iterator[FormUser]:
    """Show a form, and fail if an error would be shown in the cell."""
    user = FormUser(prompt=prompt)
    with pytest.MonkeyPatch.context() as patch:
        # ipywidgets shows the errors of its callbacks in the cell, through the shell.
        patch.setattr("ipywidgets.widgets.widget.get_ipython", Failing)
        yield user
        assert "An error occurred" not in user.note

    user.close()


class Failing:
    def showtraceback(self, *args: Any, **kwargs: Any) -> None:
        raise


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([-1, 0, 1, 2, 99, 10**400, 1.0, 1e400, float("nan")])
    | st.sampled_from(["", "x", "red", "a\nb", "\ud800", "7" * 5000, "2026-02-30", "é" * 10**4]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
NAMES = [
    "submit",
    "cancel",
    "next",
    "back",
    "go-0",
    "go-9",
    "empty-0",
    "send",
    "reply",
    "stop",
    "discard",
    "resume",
    "rendered",
    "writing",
    "unchosen",
    "heard",
    "announce",
    "",
    "run",
]
STATE = dict.fromkeys(("index", "value", "picks", "custom", "fields", "confirmed"), JUNK)
CLICKS = st.fixed_dictionaries(
    {"type": st.sampled_from(NAMES) | JUNK},
    optional={"step": st.integers(-1, 3) | JUNK, "place": JUNK, **STATE},
)
TRAITS = [
    "value",
    "index",
    "picks",
    "custom",
    "draft",
    "search",
    "writing",
    "options",
    "question",
    "_options_labels",
    "description",
    "disabled",
    "children",
    "outputs",
    "layout",
    "_esm",
    "_dom_classes",
    "controls",
    "step",
    "screen",
    "only_buttons",
    "hint",
    "multi",
    "no such",
]
MESSAGES: st.SearchStrategy[Any] = st.one_of(
    JUNK,
    st.fixed_dictionaries(
        {
            "method": st.sampled_from(["update", "echo_update", "request_state", "custom"]) | JUNK,
            "state": st.dictionaries(st.sampled_from(TRAITS), JUNK, max_size=3) | JUNK,
            "content": CLICKS | JUNK,
        },
    ),
    st.fixed_dictionaries({"method": st.just("custom"), "content": CLICKS}),
)
SENT = st.lists(st.tuples(st.integers(0, 10**6), MESSAGES), min_size=1, max_size=25)


def is_producible(prompt: Any, end: Any) -> bool:
    """Return True if a user of the form can give this answer."""
    match kind_of(end), kind_of(prompt):
        case "not_answered", "decision_prompt":
            if end.end == "cancelled":
                return not prompt.only_buttons
            return bool(end.end == "declined")
        case "not_answered", _:
            return end.end in ("cancelled", "declined")
        case "answered", "decision_prompt":
            return end.value in {action.value for action in prompt.actions if action.on_form}
        case "answered", "question_prompt":
            str(end.value).encode()  # fails for half of a surrogate pair
            return prompt.question.answer_type.misfit(end.value) is None
    return False


def attack(page: FormUser, sent: list[tuple[int, Any]], prompts: tuple[Any, ...]) -> None:
    """Send the messages, each to one of the widgets; stop at the end of the form."""
    for number, message in sent:
        step = page.step
        before = read_texts(page)
        page.deliver(page.widgets[number % len(page.widgets)], message)
        if page.step == step:
            after = read_texts(page)
            assert {name: after[name] for name in before if name in after} == {
                name: text for name, text in before.items() if name in after
            }
        for end in page.ends:
            ends = end.ends if is_kind(end, "form_end") else [end] * len(prompts)
            assert all(map(is_producible, prompts, ends)), (message, end)
        if page.ends:
            return


@given(kind=st.sampled_from([*QUESTIONS]), sent=SENT)
def test_question_keeps_its_texts_and_takes_only_possible_answers(
    kind: str, sent: list[tuple[int, Any]]
) -> None:
    question, state, answer = QUESTIONS[kind]
    prompt = make("question_prompt", question)
    with shown(prompt) as page:
        attack(page, sent, (prompt,))
        if not page.ends:
            page.tell("submit", **state)
            assert page.ends == [answered(answer, "form")]


BOOLEAN = make("question_prompt", jp.Question.boolean("q", "Sure?"))
DECISIONS: dict[str, tuple[Any, str, JsonValue]] = {
    "boolean": (BOOLEAN, "Yes", True),
    **{
        name: (prompt, prompt.actions[0].label, prompt.actions[0].value)
        for name, prompt in ACTIONS.items()
    },
}
"""Prompts that a button answers, with the label of the first one, and its value."""


@given(kind=st.sampled_from([*DECISIONS]), sent=SENT)
def test_decision_keeps_its_texts_and_takes_only_its_buttons(
    kind: str, sent: list[tuple[int, Any]]
) -> None:
    prompt, label, value = DECISIONS[kind]
    with shown(prompt) as page:
        attack(page, sent, (prompt,))
        if not page.ends:
            page.click(label)
            assert page.ends == [answered(value, "form")]


def test_each_kind_of_question_is_attacked() -> None:
    attacked = {question.answer_type.type for question, _, _ in QUESTIONS.values()}
    attacked |= {BOOLEAN.question.answer_type.type, FORM_OF_FIELDS.answer_type.type}
    with pytest.raises(ValueError, match="unknown question type 'x'") as caught:
        jp.Question(id="q", text="?", answer_type={"type": "x"})
    _, _, known = str(caught.value).partition("expected one of: ")
    assert attacked == set(re.findall("`([a-z]+)`", known))


PAGES = tuple(
    make("question_prompt", question.model_copy(update={"id": name.replace(" ", "_")}))
    for name, (question, _, _) in QUESTIONS.items()
)


def fill_in(page: FormUser, states: list[dict[str, JsonValue]]) -> None:
    """Answer each page of a form, whatever it shows."""
    while page.screen != "page":
        page.tell("resume")
    while page.page > 0:
        page.tell("back", **states[page.page])
    for state in states[:-1]:
        page.tell("next", **state)
    page.tell("submit", **states[-1])


@pytest.mark.parametrize("pages", ["one of each kind", "one with all fields"])
@given(sent=SENT)
def test_form_with_pages_stays_usable(pages: str, sent: list[tuple[int, Any]]) -> None:
    if pages == "one of each kind":
        prompts = PAGES
        states = [state for _, state, _ in QUESTIONS.values()]
        answers: list[JsonValue] = [answer for _, _, answer in QUESTIONS.values()]
    else:
        prompts = (make("question_prompt", FORM_OF_FIELDS),)
        states = [{"fields": FIELD_STATES}]
        answers = [FIELD_ANSWER]

    with shown(make("form_prompt", prompts, menu=True)) as page:
        attack(page, sent, prompts)
        if not page.ends:
            fill_in(page, states)
            [end] = page.ends
            assert is_kind(end, "form_end")
            assert [each.value for each in end.ends if is_kind(each, "answered")] == answers


def test_comms_of_a_form_are_its_own_until_it_is_closed() -> None:
    with shown(make("question_prompt", jp.Question.boolean("q", "Sure?"))) as page:
        names = {widget.comm.comm_id for widget in page.widgets}
        assert names <= page.guarded_comms
    assert not names & page.guarded_comms


LATE: dict[str, Callable[[FormUser], None]] = {
    "click": lambda page: page.tell("submit", index=2),
    "button": lambda page: page.click("Cancel"),
}


@pytest.mark.parametrize("name", LATE)
def test_message_for_a_form_that_has_ended_changes_nothing(name: str) -> None:
    with shown(make("question_prompt", jp.Question.select("q", "Which?", COLOURS))) as page:
        page.tell("submit", index=0)
        LATE[name](page)
        assert page.ends[0] == answered("red", "form")
