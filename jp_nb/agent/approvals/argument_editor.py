"""Edit the arguments of a call before it runs, in a form with one box for each argument.

A text is edited as it is, any other value as JSON. The form has a box for each parameter of the
tool, and for each argument that is no parameter. An empty box of an optional parameter omits it.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prompting.prompts import FormPrompt, QuestionPrompt
from jp_nb.exact_form import escape_invisible, spell_invisible
from jp_nb.json_reading import read_json
from jp_nb.json_values import JsonObject, as_object
from jp_nb.json_writing import indented_json
from jp_nb.toolkit.arguments.json_types import list_declared_types
from jp_nb.toolkit.arguments.text_arguments import list_text_arguments
from jp_nb.toolkit.outcome import ToolFailure
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.answer_types import MAX_FIELDS
from jp_nb.toolkit.question_types.text_answer import TextAnswer

WHOLE_FIELD: Final = "arguments"
"""Id of the only box, with all arguments as JSON, if there are no boxes or too many."""
JSON_TEXT: Final = TextAnswer(min_length=1)


def format_visible_json(value: JsonValue) -> str:
    """Return `value` as JSON for the user, in which every character is visible."""
    lines = indented_json(value).split("\n")
    # Elsewhere, `⟨` begins the name of an invisible character (`spell_invisible`).
    return "\n".join(map(escape_invisible, lines)).replace("⟨", "\\u27e8")


@dataclass(frozen=True, slots=True)
class _Box:
    """The box of one argument.

    Attributes:
        question: The field of the form; its id is the name of the argument.
        is_json: True if the text in the box is JSON, and not the argument itself.
        is_code: True for JSON, and for a text in a language such as SQL.
    """

    question: Question
    is_json: bool
    is_code: bool


class ArgumentEditor:
    """The form that edits the arguments of one call, and its answer."""

    def __init__(self, tool: OfferedTool, arguments: JsonObject) -> None:
        self._tool = tool
        self._arguments = arguments
        self._schema = dict(tool.definition.parameters or {})
        properties = as_object(self._schema.get("properties"))
        names = list(dict.fromkeys((*properties, *arguments)))

        # One box with all arguments as JSON, if there is none for each, or too many.
        self._has_one_box = not 0 < len(names) <= MAX_FIELDS
        if self._has_one_box:
            self._boxes = [self._make_whole_box()]
        else:
            self._boxes = list(self._make_boxes(names))

    def make_prompt(self, submit: str) -> FormPrompt:
        """Return the form, with `submit` as the label of the button that sends the arguments."""
        fields = tuple(box.question for box in self._boxes)
        question = Question(
            id="arguments",
            text=f"Arguments of {spell_invisible(self._tool.name)}",
            answer_type=FormAnswer(fields=fields, check=self._check),
            default={field.id: field.default for field in fields if field.default is not None},
            exclusive=True,  # only the user answers, not the model
        )
        code = frozenset(box.question.id for box in self._boxes if box.is_code)
        # `consents`: an empty line on stdin, or a deadline, must not permit the call.
        page = QuestionPrompt(question, consents=True, code_fields=code, submit=submit)
        return FormPrompt((page,))

    def read(self, answer: JsonValue) -> JsonObject | ToolFailure:
        """Return the arguments in the `answer`, or why the tool cannot run with them."""
        typed = as_object(answer)
        try:
            edited = self._read_boxes(typed)
        except _InvalidJsonError as exc:
            return ToolFailure(f"{exc.name}: {exc}")

        return self._tool.prepare_arguments(edited)

    def _check(self, typed: Mapping[str, JsonValue]) -> Mapping[str, str]:
        """Return the problems of an answer by box; "" is the whole form. The form shows them."""
        try:
            edited = self._read_boxes(typed)
        except _InvalidJsonError as exc:
            return {exc.name: str(exc)}

        prepared = self._tool.prepare_arguments(edited)
        return {"": prepared.message} if isinstance(prepared, ToolFailure) else {}

    def _read_boxes(self, typed: Mapping[str, JsonValue]) -> JsonObject:
        """Return the arguments in the texts of the boxes. An empty box is not in `typed`.

        Raises:
            _InvalidJsonError: A box has no JSON.
        """
        edited: JsonObject = {}
        for box in self._boxes:
            name = box.question.id
            if name in typed:
                text = str(typed[name])
                edited[name] = _read_json(name, text) if box.is_json else text

        if not self._has_one_box:
            return edited

        whole = edited[WHOLE_FIELD]  # the box is required, so an answer has it
        if not isinstance(whole, dict):
            raise _InvalidJsonError(WHOLE_FIELD, "Invalid JSON: expected an object")
        return whole

    def _make_whole_box(self) -> _Box:
        question = Question(id=WHOLE_FIELD, text="All arguments (JSON)", answer_type=JSON_TEXT)
        shown = format_visible_json(self._arguments)
        return _Box(question.with_default(shown), is_json=True, is_code=True)

    def _make_boxes(self, names: list[str]) -> Iterator[_Box]:
        """Yield a box for each of the arguments `names`."""
        properties = as_object(self._schema.get("properties"))
        required = self._schema.get("required")
        required_names = set(required) if isinstance(required, list) else set()
        # Texts in a language, such as SQL. Their captions name it.
        code_arguments = {
            argument.name: argument
            for argument in list_text_arguments(self._schema, self._arguments)
        }

        for name in names:
            is_text = self._is_text(name, as_object(properties.get(name)))
            label = f"{spell_invisible(name)} (JSON)"
            if is_text:
                caption = code_arguments[name].caption if name in code_arguments else name
                label = spell_invisible(caption)
            kind = TextAnswer() if is_text else JSON_TEXT

            question = Question(
                id=name,
                text=label,
                answer_type=kind,
                default=self._format_default(name, is_text=is_text),
                required=name in required_names,
            )
            is_code = not is_text or name in code_arguments
            yield _Box(question, is_json=not is_text, is_code=is_code)

    def _is_text(self, name: str, node: JsonObject) -> bool:
        """Return True if the argument is edited as a text: its schema `node` allows only texts."""
        types = list_declared_types(node)
        if name not in self._arguments:
            return types == {"string"}  # else the user could not enter `null`
        value = self._arguments[name]
        return isinstance(value, str) and types <= {"string", "null"}

    def _format_default(self, name: str, *, is_text: bool) -> str | None:
        if name not in self._arguments:
            return None
        value = self._arguments[name]
        return str(value) if is_text else format_visible_json(value)


class _InvalidJsonError(Exception):
    """The box `name` contains no JSON."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


def _read_json(name: str, text: str) -> JsonValue:
    try:
        return read_json(text)
    except ValueError as exc:
        raise _InvalidJsonError(name, f"Invalid JSON: {exc}") from exc
