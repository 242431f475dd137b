"""What nobody decided in a run: told at its end, and written as a file to fill in.

Source: `docs/answers.md`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.file_writing import open_file
from jp_nb.headless.files import shown_line
from jp_nb.storage.answers_file import DECISIONS, AnswersFile, Key, Section, is_answer_table
from jp_nb.text import one_line, plain
from jp_nb.tools.answer_types import SelectAnswer
from jp_nb.tools.question import FormAnswer, Question

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
MAX_LISTED: Final = 20
MAX_DECISIONS: Final = 1000
"""That are read: a tool may ask without end."""
NEAR: Final = 0.85
"""Similarity of two keys, from 0 to 1, from which one is taken for the other misspelt."""
SECTIONS: Final[Mapping[str, Section]] = {
    "question": "questions",
    "permission": "permissions",
    "result": "results",
    "change": "changes",
}
WORDS: Final[Mapping[str, str]] = {
    "permission": "permission to run {}",
    "result": "approval of the result of {}",
    "change": "approval of a configuration change proposed by {}",
}


@dataclass(frozen=True, slots=True)
class Undecided:
    """Something that nobody decided; where it is about a question, with that.

    Attributes:
        key: Where an answers file would decide it.
        times: How often.
    """

    key: Key
    kind: str
    why: str
    detail: tuple[str, ...] = ()
    question: Question | None = None
    times: int = 1

    @property
    def words(self) -> str:
        """What it is, in one line."""
        tool = one_line(self.key[1], limit=80)
        if self.question is None:
            return WORDS[self.kind].format(tool)
        name = one_line(self.question.id, limit=80)
        return f"question {name} of {tool}: {shown_line(self.question.text)}"


@dataclass(slots=True)
class Decisions:
    """What a run says of its decisions.

    Attributes:
        undecided: In the order in which they were to be taken, each once.
        used: Parts of the answers file that decided something.
    """

    undecided: list[Undecided] = field(default_factory=list)
    used: set[Key] = field(default_factory=set)


def read_decisions(path: Path) -> Decisions:
    """Read the file that a kernel was told of in `JP_NB_DECISIONS`; a torn line is passed over."""
    found: dict[Key, Undecided] = {}
    decisions = Decisions()
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    for line in lines:
        match _entry(line):
            case {"used": list(key)}:
                decisions.used.add(tuple(map(str, key)))
            case {"open": str(kind), **entry} if kind in SECTIONS and len(found) < MAX_DECISIONS:
                one = _undecided(kind, entry)
                seen = found.get(one.key)
                found[one.key] = one if seen is None else _again(seen)
    decisions.undecided = [*found.values()]
    return decisions


def _entry(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:  # the kernel died as it wrote it
        return None


def _undecided(kind: str, entry: Mapping[Any, Any]) -> Undecided:
    question = entry.get("question")
    asked = None if question is None else Question.model_validate(question)
    key: Key = (SECTIONS[kind], str(entry.get("tool")), *([asked.id] if asked else []))
    detail = entry.get("detail")
    lines = tuple(map(str, detail)) if isinstance(detail, list) else ()
    return Undecided(key, kind, str(entry.get("why")), lines, asked)


def _again(seen: Undecided) -> Undecided:
    return Undecided(
        seen.key, seen.kind, seen.why, seen.detail, seen.question, times=seen.times + 1
    )


def report_lines(decisions: Decisions, answers: AnswersFile | None) -> Iterator[str]:
    """Yield what a person reads at the end of a run: what nobody decided, what was not used."""
    undecided = decisions.undecided
    if undecided:
        yield f"{_count(len(undecided))}:"
        for each in undecided[:MAX_LISTED]:
            times = f" ({each.times} times)" if each.times > 1 else ""
            yield plain(f"  {each.words}{times} — {shown_line(each.why, limit=300)}")
        if left := len(undecided) - MAX_LISTED:
            yield from [f"  and {left} more"] if left > 0 else []
        yield "to prepare them, write an answers file to fill in: `--answers-template FILE`"
    if answers is not None:
        yield from unused_answers(decisions, answers)


def unused_answers(decisions: Decisions, answers: AnswersFile) -> Iterator[str]:
    """Yield a line for each part of `answers` that decided nothing."""
    meant = misspelt_answers(decisions, answers)
    for unused in answers.answers:
        if unused.key in decisions.used:
            continue
        near = meant.get(unused.key)
        why = f"did you mean {_dotted(near)}?" if near else "the notebook did not ask for it"
        yield plain(f"{answers.place(unused)}: {_dotted(unused.key)} was not used: {why}")


def misspelt_answers(decisions: Decisions, answers: AnswersFile) -> dict[Key, Key]:
    """Return the parts of `answers` that seem to be misspelt, each with the key that it means.

    Such a part decided nothing, and its key is close to that of an open decision.
    """
    undecided = {_dotted(each.key): each.key for each in decisions.undecided}
    found: dict[Key, Key] = {}
    for unused in answers.answers:
        if unused.key in decisions.used:
            continue
        of_its_kind = [name for name, key in undecided.items() if key[0] == unused.key[0]]
        if near := get_close_matches(_dotted(unused.key), of_its_kind, n=1, cutoff=NEAR):
            found[unused.key] = undecided[near[0]]
    return found


def _dotted(key: Key) -> str:
    return ".".join(one_line(name, limit=80) for name in key)


def _count(number: int) -> str:
    return "1 open decision" if number == 1 else f"{number} open decisions"


def write_template(path: Path, undecided: Sequence[Undecided], notebook: str) -> None:
    """Write a new answers file at `path`, in which nothing is answered yet.

    Raises:
        UsageError: If there is a file already, or none can be written.
    """
    content = template(undecided, notebook).encode(errors="replace")
    try:
        with os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
    except FileExistsError as exc:
        raise UsageError(already_there(path)) from exc
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror}") from exc


def already_there(path: Path) -> str:
    """Return the message for a template that would replace a file."""
    return f"{path} already exists: choose a new file for the template"


def template(undecided: Sequence[Undecided], notebook: str) -> str:
    """Return an answers file in which each of `undecided` stands as a comment to fill in."""
    lines = [
        _comment(f"Open decisions of {notebook}. Uncomment and edit the answers you want."),
        "# { skip = true } leaves a question unanswered. Commented lines are ignored.",
    ]
    tables: dict[str, list[str]] = {}  # each once, whoever asked in between: so TOML wants it
    for each in sorted(undecided, key=lambda one: [*SECTIONS.values()].index(_section(one))):
        tables.setdefault(_header(each), []).extend(_to_fill_in(each))
    for header, decisions in tables.items():
        lines += ["", header, *decisions]
    return "\n".join(lines) + "\n"


def _section(each: Undecided) -> Section:
    return SECTIONS[each.kind]


def _header(each: Undecided) -> str:
    return f"[questions.{_key(each.key[1])}]" if each.question else f"[{_section(each)}]"


def _to_fill_in(each: Undecided) -> list[str]:
    if each.question is not None:
        return ["", *_about(each.question), *_examples(each.question)]
    section = _section(each)
    said = [_comment(line) for line in each.detail]
    return ["", *said, f'# {_key(each.key[1])} = "{DECISIONS[section]}"  # or "skip"']


def _about(question: Question) -> list[str]:
    lines = [question.text]
    lines += (question.context or "").splitlines()
    lines.append(f"Expected: {question.answer_type.expects}.")
    if question.human_only:
        lines.append("Only a user or this file can answer it, not a model.")
    if not question.required:
        lines.append("It may stay unanswered.")
    return [_comment(line) for line in lines if line.strip()]


def _examples(question: Question) -> list[str]:
    """Return the lines that answer `question`, if the # before them is taken away."""
    kind, key = question.answer_type, _key(question.id)
    if not isinstance(kind, FormAnswer):
        return [*_options(question), f"# {key} = {_example(question)}"]
    lines = []
    for field_ in kind.fields:
        about = f"{field_.id}: {field_.text}, {field_.answer_type.expects}"
        lines += [_comment(about), *_options(field_)]
    fields = ", ".join(f"{_key(x.id)} = {_example(x)}" for x in kind.fields)
    form = f"{{ {fields} }}"
    if is_answer_table(
        {each.id for each in kind.fields}
    ):  # its one field has a name that means more
        form = f"{{ answer = {form} }}"
    return [*lines, f"# {key} = {form}"]


def _options(question: Question) -> list[str]:
    kind = question.answer_type
    if not isinstance(kind, SelectAnswer):
        return []
    return [_comment(f"  {_toml(option.value)}: {option.shown}") for option in kind.options]


def _example(question: Question) -> str:
    """Return an answer in TOML: the default, else the first that comes to mind."""
    kind = question.answer_type
    if kind.secret:
        return '{ env = "NAME" }'
    if question.fits_default:
        return _toml(question.default)
    if isinstance(kind, SelectAnswer):
        first = [option.value for option in kind.options][:1]
        return _toml(list(first) if kind.multi else first[0] if first else "")
    return {"boolean": "true", "number": "0.0", "integer": "0"}.get(kind.type, '""')


def _comment(text: str) -> str:
    return f"# {one_line(text, limit=500)}"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _toml(value: JsonValue) -> str:
    """Return `value` in one line of TOML; what TOML has not, such as null, is an empty text."""
    match value:
        case dict():
            return f"{{ {', '.join(f'{_key(x)} = {_toml(y)}' for x, y in value.items())} }}"
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case _:
            return _text(value or "")


def _text(text: str) -> str:
    """Return a basic string: every character that could end its line is escaped."""
    return '"' + "".join(map(_in_basic_string, text)) + '"'


def _in_basic_string(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return f"\\u{ord(char):04X}" if char < " " or char in "\x7f\x85\u2028\u2029" else char
