"""Keep a rule for calls like one that waits for permission.

At first, the rule covers only the same arguments. The user sees the exact rule before it is kept,
and can change its conditions in a form, with a choice for each argument.

Source: `docs/turns.md`, `docs/decisions.md` D230.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.approvals.call_rulings import Ruling, make_judged_call
from jp_nb.agent.approvals.permission_rules import KeptRule
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prompting.prompts import FormPrompt, QuestionPrompt
from jp_nb.config.argument_rules import (
    GLOB_PREFIX,
    INSIDE_PREFIX,
    JudgedCall,
    check_conditions,
    make_exact_condition,
    make_exact_conditions,
    matches_conditions,
)
from jp_nb.exact_form import escape_invisible, spell_invisible
from jp_nb.json_values import as_object
from jp_nb.json_writing import compact_json
from jp_nb.text import one_line
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.answer_types import MAX_FIELDS
from jp_nb.toolkit.question_types.select_options import Option

ANY: Final[JsonValue] = {"any": True}
"""The condition that each value of an argument meets."""
MAX_CHOICE_CHARS: Final = 60
"""Maximum length of a value in the label of a choice."""
# Values of the options in the form, and the id of its last field.
_EXACT: Final = "exact"
_ANY: Final = "any"
_OTHERS: Final = "other arguments"
_EXPECTED_FORMS: Final = (
    "expected `inside:FOLDER`, `glob:PATTERN`, or a condition in TOML, such as `{ max = 10 }`"
)
_SHORTEN_HINT: Final = 'Write shorter conditions, or choose "any value" for an argument'
_WORDS_FOR_FILES: Final = ("path", "file", "folder", "dir")


def make_rule(
    tool: OfferedTool, arguments: Mapping[str, JsonValue], root: str, ruling: Ruling
) -> KeptRule | None:
    """Return the rule for calls with the same `arguments`.

    None if they are too long for a rule, or if no exact conditions match them.
    """
    when = make_exact_conditions(arguments)
    try:
        check_conditions(when)
    except ValueError:
        return None

    rule = KeptRule(tool.name, tool.identity, when, "session", asked_by=ruling.asked_by)
    is_met = matches_conditions(rule.when, make_judged_call(tool, arguments, root), only_these=True)
    return rule if is_met else None


@dataclass(frozen=True, slots=True)
class _ArgumentChoice:
    """The question by which the user chooses the condition of one argument."""

    argument: str
    question: Question


class RuleEditor:
    """The form that changes the conditions of a rule, and its answer.

    It has a field for each argument of the call: exactly this value, a path inside its folder, any
    value, or a condition that the user writes. The last field is about other arguments.
    """

    def __init__(self, tool: OfferedTool, arguments: Mapping[str, JsonValue], root: str) -> None:
        self._tool = tool
        self._arguments = arguments
        self._call = make_judged_call(tool, arguments, root)
        self._choices = [self._make_choice(name) for name in arguments]

    @property
    def can_change(self) -> bool:
        """True if the rule has conditions that the form can change."""
        return 0 < len(self._choices) < MAX_FIELDS

    def make_prompt(self) -> FormPrompt:
        """Return the form."""
        others = Question.select(
            _OTHERS,
            "Other arguments",
            [
                Option(value="none", label="none: a call with another argument asks"),
                Option(value=_ANY, label="any other arguments"),
            ],
        ).with_default("none")
        fields = (*(choice.question for choice in self._choices), others)

        question = Question(
            id="rule",
            text=f"Calls of {spell_invisible(self._tool.name)} that may run without a question",
            answer_type=FormAnswer(fields=fields, check=self._check),
            default={field.id: field.default for field in fields},
            exclusive=True,  # no model may answer
        )
        # `consents`: an empty line on stdin must not accept the rule.
        return FormPrompt((QuestionPrompt(question, consents=True),))

    def change(self, rule: KeptRule, answer: JsonValue) -> KeptRule:
        """Return `rule` with the conditions in the `answer`."""
        answers = as_object(answer)
        when = check_conditions(self._read_conditions(answers))
        return replace(rule, when=when, only_these=_covers_only_these(answers))

    def _read_conditions(self, answers: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the condition of each argument.

        If calls may have other arguments, an argument with any value needs no condition.
        """
        when = {
            choice.argument: self._read_answer(choice, answers.get(choice.question.id))
            for choice in self._choices
        }
        if _covers_only_these(answers):
            return when
        return {name: condition for name, condition in when.items() if condition != ANY}

    def _check(self, answers: Mapping[str, JsonValue]) -> Mapping[str, str]:
        """Return the problems of an answer by field; "" is the whole form. The form shows them."""
        problems: dict[str, str] = {}
        for choice in self._choices:
            try:
                condition = self._read_answer(choice, answers.get(choice.question.id))
                if not matches_conditions({choice.argument: condition}, self._call):
                    problems[choice.question.id] = "this call does not meet the condition"
            except ValueError as exc:
                problems[choice.question.id] = str(exc)

        if problems:
            return problems

        # Each condition may be short enough, but not all of them together.
        try:
            check_conditions(self._read_conditions(answers))
        except ValueError as exc:
            return {"": f"{exc}. {_SHORTEN_HINT}"}
        return {}

    def _read_answer(self, choice: _ArgumentChoice, answer: JsonValue) -> JsonValue:
        """Return the condition that the user chose.

        Raises:
            ValueError: The user's own text is not a condition.
        """
        value = self._arguments[choice.argument]
        match answer:
            case {"custom": str(text)}:  # the user's own text, in place of an option
                return _read_condition(choice.argument, text.strip())
            case str(chosen) if chosen.startswith(INSIDE_PREFIX):
                return chosen
            case str(chosen) if chosen == _ANY:
                return ANY
        return make_exact_condition(value)  # `_EXACT`

    def _make_choice(self, name: str) -> _ArgumentChoice:
        question = Question.select(
            f"argument {name}",
            one_line(spell_invisible(name), limit=MAX_CHOICE_CHARS),
            list(self._iter_options(name)),
            other=True,
        )
        return _ArgumentChoice(name, question.with_default(_EXACT))

    def _iter_options(self, name: str) -> Iterator[Option]:
        """Yield the options for the argument `name`, besides a condition of the user's own."""
        value = self._arguments[name]
        shown = one_line(escape_invisible(compact_json(value)), limit=MAX_CHOICE_CHARS)
        yield Option(value=_EXACT, label=f"exactly {shown}")

        folder = _find_folder(name, value, self._call)
        if folder is not None:
            label = f"a path inside the folder {escape_invisible(compact_json(folder))}"
            yield Option(value=f"{INSIDE_PREFIX}{folder}", label=label)
        yield Option(value=_ANY, label="any value")


def _covers_only_these(answers: Mapping[str, JsonValue]) -> bool:
    return answers.get(_OTHERS) != _ANY


def _find_folder(name: str, value: JsonValue, call: JudgedCall) -> str | None:
    """Return the folder of the path `value`, relative to the workspace.

    None if it is outside of the workspace, or is probably no path.
    """
    if not isinstance(value, str):
        return None
    is_in_workspace = matches_conditions({name: f"{INSIDE_PREFIX}."}, call)
    if not is_in_workspace:
        return None

    root = os.path.realpath(call.root)
    path = os.path.realpath(os.path.join(root, value))
    is_named_so = any(word in name.lower() for word in _WORDS_FOR_FILES)
    is_probably_path = is_named_so or "/" in value or os.path.exists(path)
    if not is_probably_path:
        return None

    folder = path if os.path.isdir(path) else os.path.dirname(path)
    relative = os.path.relpath(folder, root)
    is_match = matches_conditions({name: f"{INSIDE_PREFIX}{relative}"}, call)
    return relative if is_match else None


def _read_condition(name: str, text: str) -> JsonValue:
    """Return the condition that the user wrote for the argument `name`.

    Raises:
        ValueError: It is none.
    """
    condition: JsonValue = text
    if not text.startswith((INSIDE_PREFIX, GLOB_PREFIX)):
        # A text with a line break could set other keys, so there must be exactly this one.
        try:
            [(key, condition)] = tomllib.loads(f"condition = {text}").items()
        except (ValueError, RecursionError) as exc:
            raise ValueError(_EXPECTED_FORMS) from exc
        if key != "condition":
            raise ValueError(_EXPECTED_FORMS)
    return check_conditions({name: condition})[name]
