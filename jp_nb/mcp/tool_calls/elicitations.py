"""Turn questions of MCP servers into questions for the user, and the user's answers back.

A server asks with a text and a JSON schema of a form, or with an address that the user opens:

    ServerQuestion(message="Which region?", mode="form", schema={"type": "object", …})
    becomes  Question("Which region?", answer_type=FormAnswer(fields=(…)))
    becomes  ServerAnswer("accept", {"region": "eu"}), or "decline", or "cancel"

Everything that a server writes into a question is hostile text. It is shown as plain text, and the
size of a form is limited. A question that no form can show is an error, and its server gets
`cancel`.

Source: `docs/mcp.md`, Questions of servers;
https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue, ValidationError

from jp_nb.config.secrets.secret_names import is_secret_name
from jp_nb.errors import UsageError
from jp_nb.json_writing import compact_json
from jp_nb.mcp.exchange import CANCEL, ServerAnswer, ServerQuestion
from jp_nb.record.entries.outcomes import QuestionOutcome
from jp_nb.storable_json import make_storable
from jp_nb.text import one_line
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.answer_type_reading import find_first_problem
from jp_nb.toolkit.question_types.answer_types import SecretAnswer, UrlAnswer
from jp_nb.toolkit.question_types.forms import SchemaCheck, make_form
from jp_nb.toolkit.question_types.select_answer import SelectAnswer
from jp_nb.toolkit.question_types.server_schema_checks import find_schema_problem
from jp_nb.toolkit.question_types.text_answer import TextAnswer

MAX_FORM_CHARS: Final = 100_000
"""Maximum length of the schema of a server's form as JSON."""
MAX_OPTIONS: Final = 1_000
"""Maximum number of options of a field of a server's form."""
MAX_QUESTION_CHARS: Final = 4_000
"""Maximum length of the message of a server's question. The rest is cut."""
MAX_KEY_CHARS: Final = 100
"""Maximum length of a server's key of a question in the record and in the configuration."""
ASKS_FOR_SECRET: Final = (
    "⚠ This looks like a secret. The server {} receives it. It is in no record and no cassette."
)
COMPLETE_CHANNELS: Final = frozenset({"form", "stdin", "terminal", "remembered", "recorded"})
"""Channels whose answers have all fields as the user left them: no default is added to them."""


def make_question_id(key: str) -> str:
    """Return the id of the question with the server's `key`, in one line."""
    return one_line(key, limit=MAX_KEY_CHARS) or "elicitation"


def make_question(
    server: str,
    asked: ServerQuestion,
    question_id: str,
    *,
    notes: tuple[str, ...] = (),
    earlier: Mapping[str, JsonValue] | None = None,
) -> Question:
    """Return the question for the user.

    Of a message with several lines, the last one is the question, and the others are above it,
    below the `notes`. The answers in `earlier` to the same fields are suggested.

    Raises:
        UsageError: No form can show it.
    """
    *others, last = asked.message[:MAX_QUESTION_CHARS].strip().split("\n")
    lines = [*notes, *others]

    if asked.mode == "url":
        question = _make_url_question(asked, question_id, last or server)
    else:
        question = _make_form(server, asked, question_id, last or server, earlier or {})
        lines += filter(None, [question.context])

    background = "\n".join(lines).strip() or None
    return question.model_copy(
        update={
            "context": background,
            "context_is_text": True,  # not Markdown: the server wrote it
            "exclusive": True,  # only the user may answer, never a model
            "persistence": "none",  # its answer is not reused for another question
        }
    )


def _make_url_question(asked: ServerQuestion, question_id: str, text: str) -> Question:
    """Return the question whether the user has opened an address."""
    try:
        kind = UrlAnswer(url=asked.url or "")
    except ValidationError as exc:
        raise UsageError(f"its address cannot be shown: {find_first_problem(exc)[1]}") from exc
    return Question(id=question_id, text=text, answer_type=kind)


def _make_form(
    server: str,
    asked: ServerQuestion,
    question_id: str,
    text: str,
    earlier: Mapping[str, JsonValue],
) -> Question:
    """Return the question for a form: the fields of its schema, and a check of the whole answer."""
    schema = make_storable(dict(asked.schema or {}))
    assert isinstance(schema, dict)
    if len(compact_json(schema)) > MAX_FORM_CHARS:
        raise UsageError(f"its form has more than {MAX_FORM_CHARS} characters")

    parts = make_form(schema, of_server=True)
    fields = [_make_field(server, arguments, earlier) for arguments in parts.fields]
    check = parts.check  # of the whole answer; None if the fields check everything
    has_secret = any(isinstance(field.answer_type, SecretAnswer) for field in fields)
    if check is None and has_secret:
        check = _make_check_with_secrets(schema)

    try:
        kind = FormAnswer(
            fields=tuple(fields),
            check=check,
            keeps_cleared=False,  # a field that the user cleared is not part of the answer
        )
    except ValidationError as exc:
        raise UsageError(f"its form cannot be shown: {find_first_problem(exc)[1]}") from exc

    about = "\n".join(filter(None, [parts.title, parts.description])) or None
    return Question(id=question_id, text=text, context=about, answer_type=kind)


def _make_field(
    server: str, arguments: Mapping[str, object], earlier: Mapping[str, JsonValue]
) -> Question:
    """Return a field of a form, a password field if it seems to ask for a secret.

    `arguments` are those of `Question`, and `earlier` has answers to suggest, by field.
    """
    field = Question.model_validate(arguments).model_copy(update={"context_is_text": True})
    kind = field.answer_type
    if isinstance(kind, SelectAnswer) and len(kind.options) > MAX_OPTIONS:
        raise UsageError(f"`{one_line(field.id)}` has more than {MAX_OPTIONS} options")

    is_named_secret = is_secret_name(field.id) or is_secret_name(field.text)
    if isinstance(kind, SecretAnswer) or (is_named_secret and isinstance(kind, TextAnswer)):
        warning = ASKS_FOR_SECRET.format(server)
        about = "\n".join(filter(None, [warning, field.context]))
        return field.model_copy(
            update={"answer_type": SecretAnswer(), "default": None, "context": about}
        )

    suggested = earlier.get(field.id)
    if suggested is not None and field.misfit(suggested) is None:
        return field.with_default(suggested)
    return field


def _make_check_with_secrets(schema: Mapping[str, JsonValue]) -> SchemaCheck | None:
    """Return a check of the whole answer to a form with password fields.

    `_make_field` made password fields of text fields. A password field accepts every text, so
    conditions such as `minLength` are checked here. None if the schema cannot be used for checks.
    """
    if find_schema_problem(schema) is not None:
        return None

    return SchemaCheck(compact_json(dict(schema)))


def make_answer(
    question: Question, outcome: QuestionOutcome | None, answer: JsonValue
) -> ServerAnswer:
    """Return the answer for the server.

    Only a user, or an answer that the user prepared, accepts or declines. Every other end is
    `cancel`, also that of a question that the user never saw.
    """
    if outcome is None or not (outcome.is_answered or outcome.end == "declined"):
        return CANCEL
    if not outcome.is_answered:
        return ServerAnswer("decline")

    kind = question.answer_type
    if not isinstance(kind, FormAnswer) or not isinstance(answer, dict):
        return ServerAnswer("accept")
    if outcome.channel not in COMPLETE_CHANNELS:  # a prepared answer may leave fields alone
        answer = kind.with_defaults(answer)
    return ServerAnswer("accept", answer)
