"""Open decisions of a run: list them at its end, and write an answers file to fill in.

Source: `docs/answers.md`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.file_writing import open_file
from jp_nb.headless.files import format_line
from jp_nb.storage.answers_file import DECISIONS, AnswersFile, Key, Section, is_answer_table
from jp_nb.text import one_line, plain
from jp_nb.tools.answer_types import SelectAnswer
from jp_nb.tools.question import FormAnswer, Question

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
MAX_LISTED: Final = 20
MAX_DECISIONS: Final = 1000
"""Maximum number of decisions that are read, because a tool may ask without end."""
MIN_SIMILARITY: Final = 0.85
"""Similarity, from 0 to 1, at which a key counts as misspelled."""
SECTIONS: Final[Mapping[str, Section]] = {
    "question": "questions",
    "permission": "permissions",
    "result": "results",
    "change": "changes",
}
DESCRIPTIONS: Final[Mapping[str, str]] = {
    "permission": "permission to run {}",
    "result": "approval of the result of {}",
    "change": "approval of a configuration change proposed by {}",
}


@dataclass(frozen=True, slots=True)
class ReportedDecision:
    """A decision that needed the user and was not prepared.

    Attributes:
        key: Key in an answers file.
        times: Number of times that the run needed it.
        question: The question to answer; None for a permission or an approval.
    """

    key: Key
    kind: str
    why: str
    detail: tuple[str, ...] = ()
    question: Question | None = None
    times: int = 1

    @property
    def description(self) -> str:
        """Description in one line."""
        tool = one_line(self.key[1], limit=80)
        if self.question is None:
            return DESCRIPTIONS[self.kind].format(tool)
        name = one_line(self.question.id, limit=80)
        return f"question {name} of {tool}: {format_line(self.question.text)}"


@dataclass(slots=True)
class RunLog:
    """Decisions of a run.

    Attributes:
        undecided: Open decisions in the order of the run, each once.
        used: Keys of the answers file that decided something.
    """

    undecided: list[ReportedDecision] = field(default_factory=list)
    used: set[Key] = field(default_factory=set)


def read_decisions(path: Path) -> RunLog:
    """Read the file in the kernel's variable `JP_NB_DECISIONS`. Incomplete lines are skipped."""
    found: dict[Key, ReportedDecision] = {}
    decisions = RunLog()
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    for line in lines:
        match _parse_entry(line):
            case {"used": list(key)}:
                decisions.used.add(tuple(map(str, key)))
            case {"open": str(kind), **entry} if kind in SECTIONS and len(found) < MAX_DECISIONS:
                one = _make_decision(kind, entry)
                earlier = found.get(one.key)
                found[one.key] = (
                    one if earlier is None else replace(earlier, times=earlier.times + 1)
                )
    decisions.undecided = [*found.values()]
    return decisions


def _parse_entry(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:  # the kernel died while it wrote the line
        return None


def _make_decision(kind: str, entry: Mapping[Any, Any]) -> ReportedDecision:
    question = entry.get("question")
    asked = None if question is None else Question.model_validate(question)
    key: Key = (SECTIONS[kind], str(entry.get("tool")), *([asked.id] if asked else []))
    detail = entry.get("detail")
    lines = tuple(map(str, detail)) if isinstance(detail, list) else ()
    return ReportedDecision(key, kind, str(entry.get("why")), lines, asked)


def format_decisions(decisions: RunLog, answers: AnswersFile | None) -> Iterator[str]:
    """Yield lines about open decisions and unused answers, for the end of a run."""
    undecided = decisions.undecided
    if undecided:
        count = len(undecided)
        yield "1 open decision:" if count == 1 else f"{count} open decisions:"
        for each in undecided[:MAX_LISTED]:
            times = f" ({each.times} times)" if each.times > 1 else ""
            yield plain(f"  {each.description}{times} — {format_line(each.why, limit=300)}")
        if count > MAX_LISTED:
            yield f"  and {count - MAX_LISTED} more"
        yield "to prepare them, write an answers file to fill in: `--answers-template FILE`"
    if answers is not None:
        yield from format_unused_answers(decisions, answers)


def format_unused_answers(decisions: RunLog, answers: AnswersFile) -> Iterator[str]:
    """Yield a line for each answer that was not used."""
    misspelled = find_misspelled_answers(decisions, answers)
    for unused in answers.answers:
        if unused.key in decisions.used:
            continue
        near = misspelled.get(unused.key)
        why = (
            f"did you mean {_format_key_path(near)}?" if near else "the notebook did not ask for it"
        )
        yield plain(f"{answers.place(unused)}: {_format_key_path(unused.key)} was not used: {why}")


def find_misspelled_answers(decisions: RunLog, answers: AnswersFile) -> dict[Key, Key]:
    """Return the similar open decision, if any, of each unused answer, both as keys."""
    undecided = {_format_key_path(each.key): each.key for each in decisions.undecided}
    found: dict[Key, Key] = {}
    for unused in answers.answers:
        if unused.key in decisions.used:
            continue
        of_its_kind = [name for name, key in undecided.items() if key[0] == unused.key[0]]
        if near := get_close_matches(
            _format_key_path(unused.key), of_its_kind, n=1, cutoff=MIN_SIMILARITY
        ):
            found[unused.key] = undecided[near[0]]
    return found


def _format_key_path(key: Key) -> str:
    return ".".join(one_line(name, limit=80) for name in key)


def write_template(path: Path, undecided: Sequence[ReportedDecision], notebook: str) -> None:
    """Write a new answers file with the open decisions as comments.

    Raises:
        UsageError: The file exists or cannot be written.
    """
    content = format_template(undecided, notebook).encode(errors="replace")
    try:
        with os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
    except FileExistsError as exc:
        raise UsageError(format_exists_error(path)) from exc
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror}") from exc


def format_exists_error(path: Path) -> str:
    """Return the message for a template that would replace a file."""
    return f"{path} already exists: choose a new file for the template"


def format_template(undecided: Sequence[ReportedDecision], notebook: str) -> str:
    """Return an answers file with the open decisions as comments."""
    lines = [
        _format_comment(f"Open decisions of {notebook}. Uncomment and edit the answers you want."),
        "# { skip = true } leaves a question unanswered. Commented lines are ignored.",
    ]
    tables: dict[str, list[str]] = {}  # TOML allows each table only once
    for each in sorted(undecided, key=lambda one: [*SECTIONS.values()].index(SECTIONS[one.kind])):
        tables.setdefault(_format_header(each), []).extend(_format_decision(each))
    for header, decisions in tables.items():
        lines += ["", header, *decisions]
    return "\n".join(lines) + "\n"


def _format_header(each: ReportedDecision) -> str:
    return (
        f"[questions.{_format_toml_key(each.key[1])}]"
        if each.question
        else f"[{SECTIONS[each.kind]}]"
    )


def _format_decision(each: ReportedDecision) -> list[str]:
    if each.question is not None:
        return ["", *_format_question(each.question), *_format_examples(each.question)]
    section = SECTIONS[each.kind]
    details = [_format_comment(line) for line in each.detail]
    return [
        "",
        *details,
        f'# {_format_toml_key(each.key[1])} = "{DECISIONS[section]}"  # or "skip"',
    ]


def _format_question(question: Question) -> list[str]:
    lines = [question.text]
    lines += (question.context or "").splitlines()
    lines.append(f"Expected: {question.answer_type.expects}.")
    if question.human_only:
        lines.append("Only a user or this file can answer it, not a model.")
    if not question.required:
        lines.append("It may stay unanswered.")
    return [_format_comment(line) for line in lines if line.strip()]


def _format_examples(question: Question) -> list[str]:
    kind, key = question.answer_type, _format_toml_key(question.id)
    if not isinstance(kind, FormAnswer):
        return [*_format_options(question), f"# {key} = {_format_example(question)}"]
    lines = []
    for field_ in kind.fields:
        about = f"{field_.id}: {field_.text}, {field_.answer_type.expects}"
        lines += [_format_comment(about), *_format_options(field_)]
    fields = ", ".join(f"{_format_toml_key(x.id)} = {_format_example(x)}" for x in kind.fields)
    form = f"{{ {fields} }}"
    if is_answer_table(
        {each.id for each in kind.fields}
    ):  # the field is named like a key of the long form
        form = f"{{ answer = {form} }}"
    return [*lines, f"# {key} = {form}"]


def _format_options(question: Question) -> list[str]:
    kind = question.answer_type
    if not isinstance(kind, SelectAnswer):
        return []
    return [
        _format_comment(f"  {_format_toml(option.value)}: {option.shown}")
        for option in kind.options
    ]


def _format_example(question: Question) -> str:
    kind = question.answer_type
    if kind.secret:
        return '{ env = "NAME" }'
    if question.fits_default:
        return _format_toml(question.default)
    if isinstance(kind, SelectAnswer):
        first = [option.value for option in kind.options][:1]
        return _format_toml(list(first) if kind.multi else first[0] if first else "")
    return {"boolean": "true", "number": "0.0", "integer": "0"}.get(kind.type, '""')


def _format_comment(text: str) -> str:
    return f"# {one_line(text, limit=500)}"


def _format_toml_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _format_toml_text(name)


def _format_toml(value: JsonValue) -> str:
    match value:
        case dict():
            items = (f"{_format_toml_key(x)} = {_format_toml(y)}" for x, y in value.items())
            return f"{{ {', '.join(items)} }}"
        case list():
            return f"[{', '.join(map(_format_toml, value))}]"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case _:
            return _format_toml_text(value or "")


def _format_toml_text(text: str) -> str:
    return '"' + "".join(map(_escape_toml_char, text)) + '"'


def _escape_toml_char(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return f"\\u{ord(char):04X}" if char < " " or char in "\x7f\x85\u2028\u2029" else char
