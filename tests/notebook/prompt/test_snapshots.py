"""What a person sees of each kind of question: on a form, on stdin, in the record that remains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any, Literal

import ipywidgets
import pytest

from jp_nb.agent.ports import Answered, NobodyThere, NotAnswered, Prompt, PromptEnd, QuestionPrompt
from jp_nb.notebook.prompt.form import Form, OwnOutput
from jp_nb.notebook.prompt.stdin import ask_on_stdin
from jp_nb.notebook.prompt.wording import static_record, without_form
from jp_nb.tools.question import Question
from tests.notebook.prompt.prompts import CASES, DELTA, prompt_of
from tests.notebook.prompt.test_stdin import Typist

Persistence = Literal["none", "turn"]
CONTEXT = "HTML.jp-nb-context: Two lines\nof context."
ACTIONS = ["Button.jp-nb-submit: Submit", "Button: Cancel"]

FORMS: dict[tuple[str, Persistence], list[str]] = {
    ("boolean", "none"): ["ToggleButtons.jp-nb-control: Yes | (No)"],
    ("boolean", "turn"): [
        "ToggleButtons.jp-nb-control: Yes | Yes, for this turn | (No) | No, for this turn"
    ],
    ("select", "none"): ["RadioButtons.jp-nb-control: red | (green)"],
    ("text", "none"): ["Textarea.jp-nb-control: because"],
    ("secret", "none"): [],
}
QUESTIONS = {
    "boolean": "Delete it?",
    "select": "Which colour?",
    "text": "Why?",
    "secret": "Key?",
}
STDIN: dict[tuple[str, Persistence], list[str]] = {
    ("boolean", "none"): ["[y/n/?] (n) "],
    ("boolean", "turn"): ["[y/Y/n/N/?] (n) "],
    ("select", "none"): ["  1  red", "  2  green", "Number [2]: "],
    ("text", "none"): ["Text [because]: "],
    ("secret", "none"): ["Secret: "],
}


def unshown(prompt: Prompt) -> Form:
    """Return a form that is in no page yet."""
    return Form(
        prompt,
        place=OwnOutput(),
        notify=True,
        on_rendered=lambda: None,
        on_end=lambda _: None,
    )


@pytest.fixture
def shown() -> Iterator[Any]:
    forms: list[Form] = []

    def show(prompt: Prompt) -> list[str]:
        forms.append(unshown(prompt))
        return list(tree(forms[-1].widget))

    yield show
    for form in forms:
        form.discard()


def tree(widget: ipywidgets.Widget) -> Iterator[str]:
    """Yield a line for each widget that a person sees."""
    for child in getattr(widget, "children", ()):
        yield from tree(child)
    name = ".".join((type(widget).__name__, *widget._dom_classes))
    match widget:
        case ipywidgets.HTML() if widget.value:
            cells = re.sub("</t[hd]><t[hd]>", " | ", widget.value).replace("</tr>", "\n")
            yield f"{name}: {unescape(re.sub('<[^>]*>', '', cells)).strip()}"
        case ipywidgets.Button():
            yield f"{name}: {widget.description}"
        case ipywidgets.ToggleButtons() | ipywidgets.RadioButtons() | ipywidgets.Dropdown():
            options = enumerate(widget.options)
            yield f"{name}: " + " | ".join(f"({o})" if i == widget.index else o for i, o in options)
        case ipywidgets.Textarea():
            yield f"{name}: {widget.value}"
    if getattr(widget, "secret", False):
        yield "Beacon: password field"


@pytest.mark.req("R083-66", "R083-19", "R083-60", "R083-61", "R083-62", "R083-64", "R083-65")
@pytest.mark.parametrize(("kind", "persistence", "label"), CASES)
def test_the_form_of_each_question(
    kind: str, persistence: Persistence, label: str | None, shown: Any
) -> None:
    control = FORMS.get((kind, persistence)) or FORMS[kind, "none"]
    assert shown(prompt_of(kind, persistence, label)) == [
        *([f"HTML.jp-nb-header: {label}"] if label else []),
        CONTEXT,
        f"HTML.jp-nb-question: {QUESTIONS[kind]}",
        *control,
        *(["Beacon: password field"] if kind == "secret" else []),
        *ACTIONS,
    ]


@pytest.mark.req("R083-66", "R083-19", "R083-60", "R083-61", "R083-62", "R083-64", "R083-65")
@pytest.mark.parametrize(("kind", "persistence", "label"), CASES)
def test_the_same_question_on_stdin(kind: str, persistence: Persistence, label: str | None) -> None:
    typist = Typist()
    ask_on_stdin(prompt_of(kind, persistence, label), typist, "stdin")
    assert typist.shown == [
        *([label] if label else []),
        "Two lines\nof context.",
        QUESTIONS[kind],
        *(STDIN.get((kind, persistence)) or STDIN[kind, "none"]),
    ]


ANSWERS: dict[str, bool | str] = {
    "boolean": True,
    "select": "red",
    "text": "no\nreason",
    "secret": "hunter2",
}
ANSWERED = {"boolean": "Yes", "select": "red", "text": "no reason", "secret": "(secret)"}


@pytest.mark.req("R083-66", "R083-62")
@pytest.mark.parametrize(("kind", "persistence", "label"), CASES)
def test_the_record_of_each_question(
    kind: str, persistence: Persistence, label: str | None
) -> None:
    prompt = prompt_of(kind, persistence, label)
    remember = kind == "boolean" and persistence == "turn"
    record = static_record(prompt, Answered(ANSWERS[kind], "form", remember=remember))
    asked = f"Assistant: {QUESTIONS[kind]}" if label else QUESTIONS[kind]
    answered = ANSWERED[kind] + (", for this turn" if remember else "")
    assert record == (f"{asked} → {answered}", f"{asked} → **{answered}**")


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (NotAnswered("declined", "form"), "not answered (declined)"),
        (NotAnswered("cancelled", "form"), "not answered (cancelled)"),
        (NotAnswered("timed_out", "stdin"), "not answered (timed out)"),
        (NotAnswered("interrupted", "form"), "not answered (interrupted)"),
        (NobodyThere("prompt.channel is 'never'"), "not asked (prompt.channel is 'never')"),
    ],
)
def test_every_end_without_an_answer_has_its_own_words(end: PromptEnd, told: str) -> None:
    assert static_record(prompt_of("text", "turn", None), end).plain == f"Why? → {told}"


def test_the_empty_text_is_told_from_no_answer() -> None:
    assert static_record(prompt_of("text", "turn", None), Answered("", "form")).plain == 'Why? → ""'


def test_the_form_of_a_delta(shown: Any) -> None:
    assert shown(DELTA) == [
        "HTML.jp-nb-question: Apply delta?",
        'HTML.jp-nb-table: path | now | proposed\nassistant.model.id | "a/opus" | "a/sonnet"',
        "Button.jp-nb-default: Apply",
        "Button: Reject",
        "HTML.jp-nb-by: asked by tool change_model",
    ]
    assert static_record(DELTA, Answered("reject", "form")) == (
        "Apply delta? (asked by tool change_model) → Reject",
        "Apply delta? (asked by tool change_model) → **Reject**",
    )


def test_many_options_are_a_dropdown_and_twins_are_told_apart(shown: Any) -> None:
    question = Question.select("q", "Which?", [str(n) for n in range(9)])
    assert any(line.startswith("Dropdown") for line in shown(QuestionPrompt(question)))
    twins = Question.select("q", "Which?", ["a", "\x1b[1ma", ""])
    assert "RadioButtons.jp-nb-control: a | a (2) | (empty)" in shown(QuestionPrompt(twins))


def test_a_notebook_saved_while_it_waits_does_not_claim_to_be_open() -> None:
    assert without_form(prompt_of("text", "turn", "Assistant")) == (
        "Assistant: Why? [This prompt is open only while its form is shown.]"
    )


def test_hostile_text_is_only_ever_escaped(shown: Any) -> None:
    evil = "<img src=x onerror=alert(1)>$\\href{javascript:alert(1)}{x}$"
    question = Question.select("q", evil, [evil]).with_context(evil)
    prompt = QuestionPrompt(question, label=evil, tool=evil)
    form = unshown(prompt)
    texts = [w for w in form.widget.children if isinstance(w, ipywidgets.HTML) and w.value]
    assert len(texts) == 3  # header, context, question
    assert not any("<img" in text.value for text in texts)
    assert not any(isinstance(w, ipywidgets.HTMLMath | ipywidgets.Label) for w in texts)
    form.discard()
    record = static_record(prompt, Answered(evil, "form")).markdown
    assert record.startswith("` <img")  # code: nothing is read in it
