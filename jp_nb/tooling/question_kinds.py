"""The kinds of questions, one class each: what fits as an answer, as a schema, a check and words.

A new kind is a class listed in `QUESTION_KINDS`, and one entry each in `RECORDED_KINDS` of
`record/inquiry_events.py` (what a record needs of it), `FORM_CONTROLS` of
`notebook/prompt/controls.py` and `STDIN_DIALOGUES` of `notebook/prompt/stdin.py`.

Source: `docs/extending.md`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from jp_nb.config.secret_names import SECRET_ANSWER
from jp_nb.safe_text import one_line, spell_unseen

Misfit = Literal["type", "option"]
"""Says what is wrong with an answer: its type, or that it is not among the options."""


class AnswerType(BaseModel, ABC):
    """The kind of a question and of its answers: one class for each, whose fields make it precise.

    Attributes:
        type: Name of the kind, on the wire and in records.
        secret: Whether an answer is never shown, stored or sent to a model.
        rememberable: Whether the person may answer for the rest of the turn.
        expects: What kind of JSON an answer is, for a model: `a string`.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)
    type: str
    secret: ClassVar[bool] = False
    rememberable: ClassVar[bool] = False
    expects: ClassVar[str] = "a string"

    @abstractmethod
    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the JSON schema of an answer."""

    @abstractmethod
    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return why `answer` does not fit; None if it does."""

    def in_words(self, answer: JsonValue) -> str:
        """Return what a person reads of a fitting `answer`, in one line."""
        return one_line(str(answer), limit=200)

    def recorded(self) -> dict[str, JsonValue]:
        """Return the object that stands for it in an inquiry's entry."""
        return self.model_dump(mode="json")

    def verbatim(self) -> tuple[str, ...]:
        """Return the texts that come back as an answer, and can therefore not be altered."""
        return ()


class BooleanAnswer(AnswerType):
    """Answered by JSON `true` or `false`."""

    type: Literal["boolean"] = "boolean"
    rememberable: ClassVar[bool] = True
    expects: ClassVar[str] = "a boolean"

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of a boolean."""
        return {"type": "boolean"}

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` for anything but a boolean."""
        return None if isinstance(answer, bool) else "type"

    def in_words(self, answer: JsonValue) -> str:
        """Return `Yes` or `No`."""
        return "Yes" if answer else "No"


class SelectAnswer(AnswerType):
    """Answered by one of `options`."""

    type: Literal["select"] = "select"
    options: tuple[str, ...] = Field(min_length=1)

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of one of the options."""
        return {"type": "string", "enum": list(self.options)}

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `option` for a text that is not among the options."""
        if not isinstance(answer, str):
            return "type"
        return None if answer in self.options else "option"

    def in_words(self, answer: JsonValue) -> str:
        """Return the whole option, with what is unseen in it spelled out."""
        return spell_unseen(str(answer))

    def verbatim(self) -> tuple[str, ...]:
        """Return the options."""
        return self.options


class TextAnswer(AnswerType):
    """Answered by any string, also the empty one."""

    type: Literal["text"] = "text"

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of a string."""
        return {"type": "string"}

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` for anything but a string."""
        return None if isinstance(answer, str) else "type"


class SecretAnswer(AnswerType):
    """Answered by a string that is never shown, stored or sent to a model."""

    type: Literal["secret"] = "secret"
    secret: ClassVar[bool] = True

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of a string."""
        return {"type": "string"}

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` for anything but a string."""
        return None if isinstance(answer, str) else "type"

    def in_words(self, answer: JsonValue) -> str:
        """Return the same words for every secret."""
        return SECRET_ANSWER


QUESTION_KINDS: Final[dict[str, type[AnswerType]]] = {
    "boolean": BooleanAnswer,
    "select": SelectAnswer,
    "text": TextAnswer,
    "secret": SecretAnswer,
}
"""Every kind by its name on the wire."""


def read_answer_type(value: Any) -> AnswerType:
    """Return the answer type that `value` is, as a tool sends it, or as it is made in Python.

    Older tools write `"Boolean"`, `"Text"` and `{"Select": {"options": […]}}`.

    Raises:
        ValueError: If the kind is unknown, or its fields are wrong.
    """
    if isinstance(value, AnswerType):
        if QUESTION_KINDS.get(value.type) is not type(value):
            raise _unknown(value.type)
        return value
    if isinstance(value, str):
        value = {"type": value.lower()}
    elif isinstance(value, dict) and len(value) == 1:
        [(older, fields)] = value.items()
        if isinstance(fields, dict):
            value = {"type": str(older).lower(), **fields}
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        raise ValueError("expected the name of a kind of question, or an object with a `type`")
    if kind not in QUESTION_KINDS:
        raise _unknown(kind)
    return QUESTION_KINDS[kind].model_validate(value)


def _unknown(kind: str) -> ValueError:
    known = ", ".join(f"`{name}`" for name in QUESTION_KINDS)
    return ValueError(f"{kind!r:.80} is not a kind of question: known are {known}")
