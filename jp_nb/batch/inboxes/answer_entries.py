"""Entries of an answers file, and the lines of TOML that the inbox writes for them.

The key of an answer has the section of the file, the tool, and for a question its id. So the key
`("questions", "publish", "audience")` is written as

    [questions.publish]
    audience = "team"

Source: `docs/answers.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from jp_nb.batch.inboxes.answers_comments import EntryText
from jp_nb.json_writing import compact_json
from jp_nb.storage.configuration.answers_content import (
    CONSENT_WORDS,
    SKIP_WORD,
    AnswersSection,
    EnvironmentVariable,
    PreparedAnswer,
)
from jp_nb.storage.configuration.prepared_answer_tables import is_answer_table
from jp_nb.storage.configuration.toml_text import (
    format_toml,
    format_toml_key,
    is_toml,
)

AnswerValue = JsonValue | EnvironmentVariable | Mapping[str, JsonValue | EnvironmentVariable]
"""The value of an answer. A secret, or a secret field of a form, is an environment variable."""


@dataclass(frozen=True, slots=True)
class AnswerEntry:
    """An answer, with the user's own text for it: comments, and its line as the user wrote it."""

    answer: PreparedAnswer
    text: EntryText


def format_answer_table(
    table: str, entries: Sequence[AnswerEntry], comments: Sequence[str]
) -> Iterator[str]:
    """Yield the lines of a table with its entries, below the `comments` about the table.

    Permissions are an array of tables, each with one entry. Other answers are keys of one table.
    """
    if entries[0].answer.key[0] == "permissions":
        for entry in entries:
            # The user's own lines are not written again, so comments in them move above the table.
            lines = _format_permission(entry.answer)
            yield from ("", *entry.text.list_all_comments(), f"[[{table}]]", *lines)
        return

    yield from ("", *comments, f"[{table}]")
    for entry in entries:
        key = format_toml_key(entry.answer.key[-1])
        yield from entry.text.comments
        # The user's own line is kept if it still says this.
        yield entry.text.source or f"{key} = {format_answer_value(entry.answer)}"


def _format_permission(answer: PreparedAnswer) -> Iterator[str]:
    """Yield the lines of a permission, with the arguments of the only call that it is about."""
    yield f"decision = {format_answer_value(answer)}"
    if answer.arguments is None:
        return

    arguments = dict(answer.arguments)
    if is_toml(arguments):
        yield f"arguments = {format_toml(arguments)}"
    else:  # TOML has no null: the arguments are JSON in a string
        yield f"arguments = {format_toml(compact_json(arguments))}"


def format_answer_value(answer: PreparedAnswer) -> str:
    """Return the answer as TOML, in one line."""
    section = answer.key[0]
    if section != "questions":
        consent = CONSENT_WORDS[cast(AnswersSection, section)]
        word = SKIP_WORD if answer.skip else consent
        return format_toml(word)

    if answer.skip:
        return format_toml({SKIP_WORD: True})

    value = answer.value
    if isinstance(value, EnvironmentVariable):
        return format_toml(to_toml_value(value))
    if not isinstance(value, Mapping):
        return format_toml(value)

    fields = {name: to_toml_value(field_value) for name, field_value in value.items()}
    if is_answer_table(fields):  # fields such as `skip` would be read as a key of the file
        return format_toml({"answer": fields})
    return format_toml(fields)


def to_toml_value(value: JsonValue | EnvironmentVariable) -> JsonValue:
    """Return a value as the file has it: a variable as `{"env": NAME}`."""
    return {"env": value.name} if isinstance(value, EnvironmentVariable) else value
