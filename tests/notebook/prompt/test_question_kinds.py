"""Each kind of question has an entry in every table, and a new one needs nothing else."""

from __future__ import annotations

import json
from typing import Any, Literal

import ipywidgets
import pytest
from pydantic import JsonValue, ValidationError

import jp_nb as jp
from jp_nb.agent.inquiry import InquiryError, answer_schema, extract_answer
from jp_nb.agent.question_entries import make_inquiry_request
from jp_nb.notebook.prompt.controls import FORM_CONTROLS, FormControl, NoValidAnswer
from jp_nb.notebook.prompt.form import Form
from jp_nb.notebook.prompt.stdin import STDIN_DIALOGUES, ask_on_stdin
from jp_nb.notebook.prompt.stdin_dialogue import StdinDialogue
from jp_nb.record.events import RECORDED_KINDS, InquirySource, decode_event
from jp_nb.rendering.prompt_text import summarize_prompt
from jp_nb.toolkit.answer_types import AnswerType, TextAnswer
from jp_nb.toolkit.outcome import read_outcome
from jp_nb.toolkit.question import QUESTION_KINDS, FormAnswer
from tests.kit.kinds import is_kind
from tests.kit.questions import answered, new_prompt
from tests.kit.records import new_event
from tests.notebook.prompt.paged_forms import context_of
from tests.support.fakes import model_inquiry


def test_every_kind_has_a_recorded_shape_a_form_control_and_a_dialogue_on_stdin() -> None:
    kinds = {*QUESTION_KINDS.values()}
    assert QUESTION_KINDS.keys() == RECORDED_KINDS.keys()
    asked = kinds - {FormAnswer}  # that is a page of fields, each of another kind
    assert asked == FORM_CONTROLS.keys() == STDIN_DIALOGUES.keys()
    for name, kind in QUESTION_KINDS.items():
        assert kind.model_fields["type"].default == name


# --- one more kind ---------------------------------------------------------------------------


class VersionAnswer(AnswerType):
    """Answered by an integer that is not less than `least`."""

    type: Literal["version"] = "version"
    least: int = 0

    def answer_schema(self) -> dict[str, JsonValue]:
        return {"type": "integer", "minimum": self.least}

    def misfit(self, answer: JsonValue) -> Any | None:
        whole = isinstance(answer, int) and not isinstance(answer, bool)
        return None if whole and int(str(answer)) >= self.least else "type"

    @property
    def expects(self) -> str:
        return "an integer"

    def format_answer(self, answer: JsonValue) -> str:
        return f"No. {answer}"


def number_control(prompt: Any, in_form: bool) -> FormControl:
    entry = ipywidgets.IntText()

    def read(message: Any) -> Any | NoValidAnswer:
        value = message.get("value", entry.value)
        fits = prompt.question.misfit(value) is None
        return answered(value, "form") if fits else NoValidAnswer("Too small.")

    return FormControl(entry, read=read)


def number_dialogue(prompt: Any) -> StdinDialogue:
    def parse(line: str) -> Any | str:
        value = int(line)
        return "Too small." if prompt.question.misfit(value) else answered(value, "stdin")

    return StdinDialogue(above=[], prompt="Number: ", key_help={}, parse=parse)


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A question of a kind that has one entry in each table, as a command asks it."""
    kind: type[AnswerType] = VersionAnswer
    monkeypatch.setitem(QUESTION_KINDS, "version", kind)
    monkeypatch.setitem(RECORDED_KINDS, "version", ("least",))
    monkeypatch.setitem(FORM_CONTROLS, kind, number_control)
    monkeypatch.setitem(STDIN_DIALOGUES, kind, number_dialogue)
    asked = {"id": "n", "text": "How many?", "answer_type": {"type": "version", "least": 3}}
    outcome = read_outcome(json.dumps({"type": "needs_input", "question": asked}))
    assert isinstance(outcome, jp.NeedsInput)
    return new_prompt("question_prompt", outcome.question)


class Typist:
    def __init__(self, *lines: str) -> None:
        self.lines, self.shown = list(lines), list[str]()

    def write(self, text: str) -> None:
        self.shown.append(text)

    def read(self, prompt: str, *, secret: bool) -> str:
        self.shown.append(prompt)
        return self.lines.pop(0)


def test_new_kind_is_answered_on_a_form(prompt: Any) -> None:
    ends: list[Any] = []
    form = Form(prompt, context_of(ends))

    def press_enter(value: int) -> None:
        page: dict[str, Any] = {"type": "submit", "value": value}
        form._bridge._handle_custom_msg(page, [])

    try:
        control = form._control
        assert control.widget is not None
        assert form._bridge.controls == [control.widget.model_id]
        press_enter(2)
        assert (form._note.value, ends) == ("Too small.", [])
        press_enter(3)
    finally:
        form.close_all_widgets()
    assert ends == [answered(3, "form")]
    (end,) = ends
    assert is_kind(end, "answered")
    assert summarize_prompt(prompt, end).plain == "How many? → No. 3"


def test_new_kind_is_answered_on_stdin(prompt: Any) -> None:
    typist = Typist("2", "7")
    assert ask_on_stdin(prompt, typist, "stdin") == answered(7, "stdin")
    assert typist.shown == ["How many?", "Number: ", "Too small.", "Number: "]


def test_new_kind_is_answered_by_a_model(prompt: Any) -> None:
    inquiry = model_inquiry("c.n.1", "c", "count", prompt.question)
    properties = answer_schema(inquiry)["properties"]
    assert isinstance(properties, dict)
    assert properties["answer"] == {"type": "integer", "minimum": 3}

    def said(answer: JsonValue) -> list[Any]:
        return [new_event("chat_response", kind="structured", data={"answer": answer})]

    assert extract_answer(said(4), inquiry) == 4
    with pytest.raises(InquiryError, match="`answer` is not an integer"):
        extract_answer(said("4"), inquiry)


def test_new_kind_is_recorded_and_read(prompt: Any) -> None:
    raw = make_inquiry_request("c.n.1", InquirySource.tool("count"), prompt.question).to_raw()
    question = raw["question"]
    assert isinstance(question, dict)
    assert question["answer_type"] == {"type": "version", "least": 3}
    read = decode_event(raw, 0)
    assert is_kind(read, "inquiry_request")
    assert read.to_raw() == raw
    question["answer_type"] = {"type": "version"}
    with pytest.raises(jp.StorageError, match="a version question needs `least`"):
        decode_event(raw, 0)


# --- an unknown kind --------------------------------------------------------------------------

KNOWN = "expected one of: `boolean`, `select`, `text`, `secret`"


@pytest.mark.parametrize("spelled", [{"type": "date"}, "Date", {"Date": {"format": "iso"}}])
def test_unknown_kind_is_an_error_that_names_it_and_the_known_ones(
    spelled: Any,
) -> None:
    why = f"unknown question type 'date', {KNOWN}"
    asked = {"id": "q", "text": "When?", "answer_type": spelled}
    with pytest.raises(ValidationError, match=why):
        jp.Question.model_validate(asked)
    with pytest.raises(jp.ToolError, match=why):
        read_outcome(json.dumps({"type": "needs_input", "question": asked}))


def test_class_that_is_in_no_table_is_such_a_kind() -> None:
    with pytest.raises(ValidationError, match=f"unknown question type 'version', {KNOWN}"):
        jp.Question(id="q", text="How many?", answer_type=VersionAnswer())

    class Impostor(TextAnswer):
        """Has the name of another kind."""

    with pytest.raises(ValidationError, match="unknown question type 'text'"):
        jp.Question(id="q", text="Why?", answer_type=Impostor())


def test_record_with_an_unknown_kind_is_an_error() -> None:
    question: dict[str, JsonValue] = {"text": "When?", "answer_type": {"type": "date"}}
    source: dict[str, JsonValue] = {"source": "tool", "name": "t"}
    entry: dict[str, JsonValue] = {"type": "inquiry_request", "id": "q", "source": source}
    with pytest.raises(
        jp.StorageError, match="'date' is not a kind of question: known are `boolean`"
    ):
        decode_event({"timestamp": "", **entry, "question": question}, 0)
