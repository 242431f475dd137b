"""A question that a tool puts to somebody while it runs.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, overload

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    model_serializer,
    model_validator,
)

from jp_nb.tooling.question_kinds import (
    AnswerType,
    BooleanAnswer,
    Misfit,
    SecretAnswer,
    SelectAnswer,
    TextAnswer,
    read_answer_type,
)

Persistence = Literal["none", "turn"]


class _MakeText(Protocol):
    def __call__(self, id: str, text: str) -> Question:  # noqa: A002 - the field's name
        """Return a question answered by any string."""


class _Text:
    """`Question.text(id, text)` makes a question of free text; `question.text` is what it asks."""

    @overload
    def __get__(self, question: None, owner: type[Question]) -> _MakeText: ...
    @overload
    def __get__(self, question: Question, owner: type[Question]) -> str: ...
    def __get__(self, question: Question | None, owner: type[Question]) -> str | _MakeText:
        return owner.free_text if question is None else question.wording


class Question(BaseModel):
    """One typed question. Make it with a constructor of its kind, then say more with `with_…`.

    >>> ask = Question.select("size", "Which size?", ["S", "M"]).with_default("M")
    >>> ask.misfit("M") is None, ask.misfit("XL")
    (True, 'option')

    Shape, as a program writes it:
        {"id", "text", "answer_type", "context"?, "default"?, "exclusive"?, "persistence"?}

    `exclusive` is left out when false, `persistence` when `turn`, the other two when absent.

    Attributes:
        id: Key of the answer in the tool's answers and in `conversation.tools.<tool>.questions`.
        text: One line. Line breaks are shown as spaces. (On the class it is the constructor of a
            question that any string answers: `Question.text("name", "Which name?")`.)
        context: Several lines shown above the question.
        default: A value that is marked as suggested; a hint, never an answer. Never put a secret
            here.
        exclusive: Only a person may answer (RFD 083).
        persistence: `turn` if the person may answer for the rest of the turn, else `none`.
        answer_type: Its kind, with what belongs to it, such as the options.

    Raises:
        ValueError: From a constructor, if the kind or a field is wrong; pydantic's, with the place.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    text: ClassVar[_Text] = _Text()
    id: str
    wording: str = Field(alias="text")
    answer_type: Annotated[AnswerType, BeforeValidator(read_answer_type)] = TextAnswer()
    context: str | None = None
    default: JsonValue = None
    exclusive: bool = False
    persistence: Persistence = "turn"

    @model_validator(mode="before")
    @classmethod
    def _accept_pre_amble(cls, data: Any) -> Any:
        if isinstance(data, dict) and "pre_amble" in data:  # the field's name before RFD 083
            data = {"context": data["pre_amble"], **data}
            del data["pre_amble"]
        return data

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield "text" if name == "wording" else name, value

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with `update`, in which `text` is what it asks."""
        fields = {"wording" if name == "text" else name: x for name, x in (update or {}).items()}
        return super().model_copy(update=fields, deep=deep)

    @model_serializer(mode="plain")
    def _compact(self) -> dict[str, JsonValue]:
        shape: dict[str, JsonValue] = {
            "id": self.id,
            "text": self.text,
            "answer_type": self.answer_type.model_dump(mode="json"),
        }
        if self.context is not None:
            shape["context"] = self.context
        if self.default is not None:
            shape["default"] = self.default
        if self.exclusive:
            shape["exclusive"] = True
        if self.persistence != "turn":
            shape["persistence"] = self.persistence
        return shape

    @classmethod
    def free_text(cls, id: str, text: str) -> Self:  # noqa: A002 - the field's name
        """Return a question that any string answers: the older name of `Question.text`."""
        return cls(id=id, text=text, answer_type=TextAnswer())

    @classmethod
    def boolean(cls, id: str, text: str) -> Self:  # noqa: A002
        """Return a question answered by yes or no: `True` or `False`.

        Args:
            id: Key of the answer, such as `sure`.
            text: What is asked, in one line.
        """
        return cls(id=id, text=text, answer_type=BooleanAnswer())

    @classmethod
    def select(cls, id: str, text: str, options: list[str] | tuple[str, ...]) -> Self:  # noqa: A002
        """Return a question answered by one of `options`, at least one.

        Args:
            id: Key of the answer.
            text: What is asked, in one line.
            options: What may be chosen; the answer is one of these texts.
        """
        return cls(id=id, text=text, answer_type=SelectAnswer(options=tuple(options)))

    @classmethod
    def secret(cls, id: str, text: str) -> Self:  # noqa: A002
        """Return a question whose answer, a string, reaches the tool and is kept nowhere.

        No model is ever asked it. Where a tool repeats an answer of four characters or more,
        `(secret)` stands in its place.

        Args:
            id: Key of the answer.
            text: What is asked, in one line.
        """
        return cls(id=id, text=text, answer_type=SecretAnswer())

    def with_context(self, context: str) -> Self:
        """Return the same question under `context`: lines that are shown above it."""
        return self.model_copy(update={"context": context})

    def with_default(self, default: JsonValue) -> Self:
        """Return the same question with `default` marked as the tool's suggestion."""
        return self.model_copy(update={"default": default})

    def with_options(self, options: list[str] | tuple[str, ...]) -> Self:
        """Return the same question, answered by one of `options`."""
        return self.model_copy(update={"answer_type": SelectAnswer(options=tuple(options))})

    def with_exclusive(self, exclusive: bool = True) -> Self:
        """Return the same question for a person alone: no model may answer it."""
        return self.model_copy(update={"exclusive": exclusive})

    def with_persistence(self, persistence: Persistence) -> Self:
        """Return the same question whose answer counts for the rest of the turn, or `none`."""
        return self.model_copy(update={"persistence": persistence})

    @property
    def human_only(self) -> bool:
        """True if no model may answer it."""
        return self.exclusive or self.answer_type.secret

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return why `answer` does not answer it: `type` or `option`; None if it does."""
        return self.answer_type.misfit(answer)
