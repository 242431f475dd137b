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

from jp_nb.agent.permission_rules import (
    KeptRule,
    KeptRules,
    RuleScope,
    Ruling,
    format_rule_table,
    judged_call,
)
from jp_nb.agent.prompt_queue import SafeAsk
from jp_nb.agent.prompts import (
    Action,
    ActionPrompt,
    Answered,
    FormEnd,
    FormPrompt,
    NotAnswered,
    PromptDetail,
    QuestionPrompt,
    Unavailable,
    is_back,
)
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.config.argument_rules import (
    GLOB_PREFIX,
    INSIDE_PREFIX,
    JudgedCall,
    check_conditions,
    make_exact_condition,
    make_exact_conditions,
    matches_conditions,
)
from jp_nb.errors import StorageError
from jp_nb.json_values import as_object, compact_json
from jp_nb.text import escape_invisible, one_line, spell_invisible
from jp_nb.toolkit.answer_types import MAX_FIELDS
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.select_answer import Option

ANY: Final[JsonValue] = {"any": True}
MAX_CHOICE_CHARS: Final = 60
"""Maximum length of a value in the label of a choice."""
_EXACT: Final = "exact"
_ANY: Final = "any"
_OTHERS: Final = "other arguments"
_FORMS: Final = (
    "expected `inside:FOLDER`, `glob:PATTERN`, or a condition in TOML, such as `{ max = 10 }`"
)
_SHORTEN_HINT: Final = 'Write shorter conditions, or choose "any value" for an argument'
_WORDS_FOR_FILES: Final = ("path", "file", "folder", "dir")


def make_rule(
    tool: OfferedTool, arguments: Mapping[str, JsonValue], root: str, ruling: Ruling
) -> KeptRule | None:
    """Return the rule for calls with the same `arguments`; None if they are too long for one."""
    when = make_exact_conditions(arguments)
    try:
        check_conditions(when)
    except ValueError:
        return None

    rule = KeptRule(tool.name, tool.identity, when, "session", asked_by=ruling.asked_by)
    is_met = matches_conditions(rule.when, judged_call(tool, arguments, root), only_these=True)
    return rule if is_met else None


@dataclass(frozen=True, slots=True)
class _ArgumentChoice:
    """The choice of the condition of one argument."""

    argument: str
    question: Question


class RuleEditor:
    """The form that changes the conditions of a rule, and its answer."""

    def __init__(self, tool: OfferedTool, arguments: Mapping[str, JsonValue], root: str) -> None:
        self._tool = tool
        self._arguments = arguments
        self._call = judged_call(tool, arguments, root)
        self._fields = [self._make_field(name) for name in arguments]

    @property
    def can_change(self) -> bool:
        """True if the rule has conditions that the form can change."""
        return 0 < len(self._fields) < MAX_FIELDS

    def prompt(self) -> FormPrompt:
        """Return the form."""
        others = Question.select(
            _OTHERS,
            "Other arguments",
            [
                Option(value="none", label="none: a call with another argument asks"),
                Option(value=_ANY, label="any other arguments"),
            ],
        ).with_default("none")
        fields = (*(each.question for each in self._fields), others)

        question = Question(
            id="rule",
            text=f"Calls of {spell_invisible(self._tool.name)} that may run without a question",
            answer_type=FormAnswer(fields=fields, check=self._check),
            default={field.id: field.default for field in fields},
            exclusive=True,
        )
        return FormPrompt((QuestionPrompt(question, consents=True),))

    def change(self, rule: KeptRule, answer: JsonValue) -> KeptRule:
        """Return `rule` with the conditions in the `answer`."""
        answers = as_object(answer)
        when = check_conditions(self._read_all(answers))
        return replace(rule, when=when, only_these=_covers_only_these(answers))

    def _read_all(self, answers: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        when = {
            each.argument: self._read(each, answers.get(each.question.id)) for each in self._fields
        }
        if _covers_only_these(answers):
            return when
        return {name: condition for name, condition in when.items() if condition != ANY}

    def _check(self, answers: Mapping[str, JsonValue]) -> Mapping[str, str]:
        problems: dict[str, str] = {}
        for each in self._fields:
            try:
                condition = self._read(each, answers.get(each.question.id))
                if not matches_conditions({each.argument: condition}, self._call):
                    problems[each.question.id] = "this call does not meet the condition"
            except ValueError as exc:
                problems[each.question.id] = str(exc)

        if problems:
            return problems

        # Each condition may be short enough, but not all of them together.
        try:
            check_conditions(self._read_all(answers))
        except ValueError as exc:
            return {"": f"{exc}. {_SHORTEN_HINT}"}
        return {}

    def _read(self, each: _ArgumentChoice, answer: JsonValue) -> JsonValue:
        """Return the condition that the user chose.

        Raises:
            ValueError: The user's own text is no condition.
        """
        value = self._arguments[each.argument]
        match answer:
            case {"custom": str(text)}:
                return _read_condition(each.argument, text.strip())
            case str(choice) if choice.startswith(INSIDE_PREFIX):
                return choice
            case str(choice) if choice == _ANY:
                return ANY
        return make_exact_condition(value)

    def _make_field(self, name: str) -> _ArgumentChoice:
        question = Question.select(
            f"argument {name}",
            one_line(spell_invisible(name), limit=MAX_CHOICE_CHARS),
            list(self._options(name)),
            other=True,
        )
        return _ArgumentChoice(name, question.with_default(_EXACT))

    def _options(self, name: str) -> Iterator[Option]:
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
    """Return the folder of the path `value`, relative to the workspace; None if it is no path."""
    if not isinstance(value, str) or not matches_conditions({name: f"{INSIDE_PREFIX}."}, call):
        return None
    root = os.path.realpath(call.root)
    path = os.path.realpath(os.path.join(root, value))
    is_named = any(word in name.lower() for word in _WORDS_FOR_FILES)
    if not (is_named or "/" in value or os.path.exists(path)):
        return None

    folder = path if os.path.isdir(path) else os.path.dirname(path)
    relative = os.path.relpath(folder, root)
    is_match = matches_conditions({name: f"{INSIDE_PREFIX}{relative}"}, call)
    return relative if is_match else None


def _read_condition(name: str, text: str) -> JsonValue:
    condition: JsonValue = text
    if not text.startswith((INSIDE_PREFIX, GLOB_PREFIX)):
        try:
            [(key, condition)] = tomllib.loads(f"condition = {text}").items()
        except (ValueError, RecursionError) as exc:
            raise ValueError(_FORMS) from exc
        if key != "condition":
            raise ValueError(_FORMS)
    return check_conditions({name: condition})[name]


RULE_PROMPT: Final = "Always allow these calls of `{}`?"
RULE_CAPTION: Final = "Rule: calls that meet all conditions run without a question"
KEEP_ACTIONS: Final[Mapping[RuleScope, Action]] = {
    "session": Action("s", "Run, and keep the rule for this session", "session"),
    "notebook": Action("k", "Run, and keep the rule in this notebook", "notebook"),
}
_CHANGE: Final = Action("c", "Change the conditions …", "change", is_separated=True)
_BACK: Final = Action("b", "Back", "back", is_separated=True)


class RulePrompts:
    """Shows a rule until the user keeps it or goes back."""

    def __init__(self, ask: SafeAsk, editor: RuleEditor, kept: KeptRules) -> None:
        self._ask = ask
        self._editor = editor
        self._kept = kept

    async def ask(self, rule: KeptRule) -> KeptRule | NotAnswered | Unavailable | None:
        """Return the kept rule, or the end of the prompt; None if the user went back."""
        problem = ""

        while True:
            end = await self._ask(self._prompt(rule, problem))
            if not isinstance(end, Answered):
                return None if is_back(end) else end

            problem = ""
            match end.value:
                case "session" | "notebook" as scope:
                    kept = replace(rule, scope=scope)
                    try:
                        self._kept.keep(kept)
                    except StorageError as exc:
                        problem = str(exc)
                    else:
                        return kept
                case "change":
                    changed = await self._change(rule)
                    if not isinstance(changed, KeptRule):
                        return changed
                    rule = changed
                case _:
                    return None

    async def _change(self, rule: KeptRule) -> KeptRule | NotAnswered | Unavailable:
        end = await self._ask(self._editor.prompt())
        if not isinstance(end, FormEnd):
            return rule if is_back(end) else end

        [answered] = end.ends
        if isinstance(answered, Answered):
            return self._editor.change(rule, answered.value)
        return rule if is_back(answered) else answered

    def _prompt(self, rule: KeptRule, problem: str) -> ActionPrompt:
        details = [PromptDetail(RULE_CAPTION, format_rule_table(rule.tool, rule.rule), "toml")]
        if problem:
            details.append(PromptDetail("The rule was not kept", problem))

        keep = [KEEP_ACTIONS[scope] for scope in self._kept.scopes]
        change = [_CHANGE] if self._editor.can_change else []
        return ActionPrompt(
            text=RULE_PROMPT.format(spell_invisible(rule.tool)),
            actions=(*keep, *change, _BACK),
            exhibits=tuple(details),
        )
