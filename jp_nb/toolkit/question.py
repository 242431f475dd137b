"""Questions that a tool asks while it runs.

A question has an id, a text, and an answer type (`answer_types.py`), which decides which answers
are valid. A form is an answer type too. Its fields are questions, so both classes are in this
module.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol, Self, overload

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    model_serializer,
    model_validator,
)

from jp_nb.errors import UsageError
from jp_nb.text import one_line
from jp_nb.toolkit.question_types.answer_type_reading import read_answer_type
from jp_nb.toolkit.question_types.answer_types import (
    MAX_FIELDS,
    AnswerType,
    BooleanAnswer,
    Misfit,
    SecretAnswer,
    UrlAnswer,
)
from jp_nb.toolkit.question_types.form_answer import FieldsAnswer
from jp_nb.toolkit.question_types.number_answer import IntegerAnswer, NumberAnswer
from jp_nb.toolkit.question_types.select_answer import SelectAnswer
from jp_nb.toolkit.question_types.select_options import Option, OptionValue
from jp_nb.toolkit.question_types.text_answer import TextAnswer
from jp_nb.toolkit.question_types.web_address import NO_LINK, read_web_address

Persistence = Literal["none", "turn"]


def _read_answer_type(value: Any) -> AnswerType:
    return read_answer_type(value, QUESTION_KINDS)


class _MakeText(Protocol):
    def __call__(self, id: str, text: str) -> Question:  # noqa: A002 - the field's name
        """Return a question answered by any string."""


# `text` is a constructor on the class `Question`, and the question's text on an instance.
class _TextDescriptor:
    """Create a question that any string answers: `Question.text(id, text)`.

    On an instance, this is the text of the question.
    """

    @overload
    def __get__(self, question: None, owner: type[Question]) -> _MakeText: ...
    @overload
    def __get__(self, question: Question, owner: type[Question]) -> str: ...
    def __get__(self, question: Question | None, owner: type[Question]) -> str | _MakeText:
        return owner.free_text if question is None else question.wording


class Question(BaseModel):
    """One typed question. Create it with one of the constructors below.

    Each `with_…` method returns a changed copy.

    Example:
        >>> ask = Question.select("size", "Which size?", ["S", "M"]).with_default("M")
        >>> ask.misfit("M") is None, ask.misfit("XL")
        (True, 'option')

    A program prints a question as a JSON object with the keys `id`, `text`, and `answer_type`. The
    keys `header`, `context`, `default`, `exclusive`, `required`, and `persistence` are optional.

    Attributes:
        id: Key of the answer in `ToolContext.answers` and in the setting
            `conversation.tools.<tool>.questions`.
        text: The question, in one line. Line breaks are shown as spaces.
        answer_type: Kind of the question, with its properties, such as the options of a selection.
        header: A word or two that label the page of the question in a form.
        context: Lines that are shown above the question, in Markdown.
        context_is_text: True if these lines are plain text. It is not serialized.
        default: A suggested answer, which the user can accept. For a secret, it is neither shown
            nor recorded. In a form that is made from a Python type (`form`), not from a JSON
            schema, the default of a field is also its answer when no user is available.
        exclusive: True if only the user may answer, never a model (RFD 083).
        required: False if the user may leave the question open. The answer is None then.
        persistence: `turn` if the user can reuse the answer for the rest of the turn, else `none`.

    Raises:
        ValueError: From a constructor, if a value is invalid. This is pydantic's `ValidationError`.
    """

    model_config = ConfigDict(frozen=True, defer_build=True, extra="forbid")

    text: ClassVar[_TextDescriptor] = _TextDescriptor()
    id: str
    wording: str = Field(alias="text")
    answer_type: Annotated[AnswerType, BeforeValidator(_read_answer_type)] = TextAnswer()
    header: str | None = None
    context: str | None = None
    context_is_text: bool = Field(False, exclude=True, repr=False)
    default: JsonValue = None
    exclusive: StrictBool = False
    required: StrictBool = True
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
            shown_name = "text" if name == "wording" else name
            yield shown_name, value

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with the values of `update`. The key `text` sets the question's text."""
        fields = dict(update or {})
        if "text" in fields:
            fields["wording"] = fields.pop("text")
        return super().model_copy(update=fields, deep=deep)

    @model_serializer(mode="plain")
    def _compact(self) -> dict[str, JsonValue]:
        """Return the JSON object of the question, without defaults and without a secret."""
        shape: dict[str, JsonValue] = {
            "id": self.id,
            "text": self.text,
            "answer_type": self.answer_type.to_record(),
        }
        if self.header is not None:
            shape["header"] = self.header
        if self.context is not None:
            shape["context"] = self.context
        if self.default is not None and not self.answer_type.has_secret:
            shape["default"] = self.default

        if self.exclusive:
            shape["exclusive"] = True
        if not self.required:
            shape["required"] = False
        if self.persistence != "turn":
            shape["persistence"] = self.persistence
        return shape

    @classmethod
    def free_text(cls, id: str, text: str) -> Self:  # noqa: A002 - the field's name
        """Return a question that any string answers. Prefer `Question.text`."""
        return cls(id=id, text=text, answer_type=TextAnswer())

    @classmethod
    def boolean(cls, id: str, text: str) -> Self:  # noqa: A002
        """Return a yes-or-no question. The answer is `True` or `False`."""
        return cls(id=id, text=text, answer_type=BooleanAnswer())

    @classmethod
    def select(
        cls,
        id: str,  # noqa: A002
        text: str,
        options: Iterable[Option | OptionValue],
        *,
        multi: bool = False,
        other: bool = False,
        recommended: int | None = None,
    ) -> Self:
        """Return a question that is answered by one of `options`, or with `multi` by several.

        Args:
            id: Key of the answer.
            text: The question, in one line.
            options: Plain values, or `Option` objects with a label and a description. At least one
                is necessary, unless `other` is True. The answer is the value of the option.
            multi: Allow several picks. The answer is a list of values, in the order of the picks.
            other: Allow the user's own text. Such an answer is `{"selected": [values], "custom":
                "text"}`.
            recommended: Index of the option that is marked as recommended.
        """
        choices = tuple(options)
        kind = SelectAnswer(options=choices, multi=multi, other=other, recommended=recommended)
        return cls(id=id, text=text, answer_type=kind)

    @classmethod
    def number(
        cls,
        id: str,  # noqa: A002
        text: str,
        *,
        minimum: float | None = None,
        maximum: float | None = None,
    ) -> Self:
        """Return a question that is answered by a number from `minimum` to `maximum`."""
        return cls(id=id, text=text, answer_type=NumberAnswer(minimum=minimum, maximum=maximum))

    @classmethod
    def integer(
        cls,
        id: str,  # noqa: A002
        text: str,
        *,
        minimum: int | None = None,
        maximum: int | None = None,
    ) -> Self:
        """Return a question that is answered by a whole number from `minimum` to `maximum`."""
        return cls(id=id, text=text, answer_type=IntegerAnswer(minimum=minimum, maximum=maximum))

    @classmethod
    def secret(cls, id: str, text: str) -> Self:  # noqa: A002
        """Return a question for a secret string, which only the tool receives. It is not stored.

        A model never answers such a question. If the tool repeats an answer of four characters or
        more, `(secret)` replaces it.
        """
        return cls(id=id, text=text, answer_type=SecretAnswer())

    @classmethod
    def url(cls, id: str, text: str, url: str) -> Self:  # noqa: A002
        """Return a question that asks the user to open `url`, such as a page to sign in.

        The form shows the whole address with its host, and a button that opens it in a new tab of
        the browser. The program itself never opens it. The answer is `True` after the user pressed
        Done. A model never answers such a question.

        Raises:
            UsageError: `url` is not an address that begins with `https://` or `http://`.
        """
        if read_web_address(url).link is None:
            raise UsageError(f"{one_line(NO_LINK, limit=200)}: {one_line(url, limit=200)!r}")
        return cls(id=id, text=text, answer_type=UrlAnswer(url=url))

    @classmethod
    def form(cls, id: str, what: Any, text: str | None = None) -> Self:  # noqa: A002
        """Return a question that is answered by an object: a form with the fields of `what`.

        Each field of the type becomes a field of the form, with its title (or its name),
        description, and default. The default is the initial value. The type of a field selects its
        widget:

        - `Literal` and `Enum` are a choice. A list or a set of them allows several picks.
        - `bool`, `int`, `float`, `str`, `date`, `time`, and `datetime` keep their type and their
          bounds. `Decimal` is read as a float, with 15 digits.
        - `SecretStr` is a secret.
        - A type that is written as text, such as a URL, is a text.
        - `Optional` allows the user to leave the field open. The value is None then.
        - A text has several lines if its maximum length is above 200, if its default contains a
          line break, or with `json_schema_extra={"lines": True}`.

        A default factory is called when the form is created. Errors of the type's validators are
        shown next to the field.

        A form has one level. Nested objects, tuples, dictionaries, unions, and lists without
        options are not supported. Use a separate form for an inner model. Without fields, the user
        only confirms, and the answer is an empty object.

        Of a JSON schema, the whole answer is checked before it is accepted, also for keywords that
        a field does not know. An optional field that the user leaves alone has its default, or is
        absent without one. A cleared one is absent.

        Args:
            id: Key of the answer.
            what: A pydantic model, a dataclass, a TypedDict, or a JSON schema of an object with one
                level, as in the elicitation requests of MCP servers.
            text: Heading of the form; None for the title of `what`, which is usually its name.

        Raises:
            UsageError: If `what` has a field that a form cannot show. The message names the field.

        Source: https://modelcontextprotocol.io/specification/2025-06-18/client/elicitation
        """
        from jp_nb.toolkit.question_types.forms import make_form  # most questions are no forms

        # The arguments of a `Question` for each field, and a check of the whole answer.
        parts = make_form(what)
        fields = tuple(cls(**field) for field in parts.fields)
        kind = FormAnswer(fields=fields, check=parts.check, keeps_cleared=parts.keeps_cleared)
        heading = text or parts.title or id
        return cls(id=id, text=heading, context=parts.description, answer_type=kind)

    def with_context(self, context: str) -> Self:
        """Return a copy that shows the lines of `context` above the question."""
        return self.model_copy(update={"context": context})

    def with_default(self, default: JsonValue) -> Self:
        """Return a copy that suggests `default` as the answer."""
        return self.model_copy(update={"default": default})

    def with_header(self, header: str) -> Self:
        """Return a copy with the label `header`, a word or two."""
        return self.model_copy(update={"header": header})

    def with_options(self, options: Iterable[Option | OptionValue]) -> Self:
        """Return a copy that is answered by one of `options`, which replace earlier ones.

        A selection keeps its number of picks and the user's own text. No option is recommended.
        """
        earlier = self.answer_type
        if isinstance(earlier, SelectAnswer):
            kind = earlier.with_options(options)
        else:
            kind = SelectAnswer(options=tuple(options))
        return self.model_copy(update={"answer_type": kind})

    def with_required(self, required: bool = True) -> Self:
        """Return a copy that must be answered, or with `False` may be left open."""
        return self.model_copy(update={"required": required})

    def with_exclusive(self, exclusive: bool = True) -> Self:
        """Return a copy that only the user may answer, never a model."""
        return self.model_copy(update={"exclusive": exclusive})

    def with_persistence(self, persistence: Persistence) -> Self:
        """Return a copy whose answer can (`turn`) or cannot (`none`) be reused in the turn."""
        return self.model_copy(update={"persistence": persistence})

    @property
    def human_only(self) -> bool:
        """True if no model may answer: the question is exclusive, has a secret, or a URL."""
        return self.exclusive or self.answer_type.is_for_user

    @property
    def may_stay_open(self) -> bool:
        """True if the turn may continue without an answer: it is optional and not exclusive."""
        return not self.required and not self.exclusive

    @property
    def automatic(self) -> JsonValue:
        """The answer when no user is available, for an optional question. None if it stays open.

        Only a form has one: the defaults of its fields.
        """
        return self.answer_type.automatic if self.may_stay_open else None

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return the reason why `answer` is invalid, or None.

        The reason is `type` for a wrong type, `option` for an unknown option, and `value` for a
        value that is not allowed.
        """
        return self.answer_type.misfit(answer)

    @property
    def fits_default(self) -> bool:
        """True if `default` is a valid answer that the user need not give."""
        kind = self.answer_type
        return self.default is not None and not kind.is_for_user and not kind.misfit(self.default)

    def validated(self, answer: JsonValue) -> Any:
        """Return `answer`, which must be valid. For a form of a type, return an instance of it."""
        return self.answer_type.validated(answer)

    def reworded(self, change: Callable[[str], str]) -> Self:
        """Return a copy whose displayed texts are replaced by the results of `change`."""
        texts = {"wording": self.text, "header": self.header, "context": self.context}
        changed = {name: change(text) for name, text in texts.items() if text is not None}
        kind = self.answer_type.reworded(change)
        return self.model_copy(update={**changed, "answer_type": kind})


class FormAnswer(FieldsAnswer):
    """Answered by an object: a form with a field for each question in `fields`.

    The object has no key for a field that the user left open. A question has the label (`text`),
    description (`context`), and initial value (`default`) of its field. It cannot be a form.
    Without fields, the user only confirms: the answer is an empty object.
    """

    fields: tuple[Question, ...] = Field(max_length=MAX_FIELDS)


QUESTION_KINDS: Final[dict[str, type[AnswerType]]] = {
    "boolean": BooleanAnswer,
    "select": SelectAnswer,
    "text": TextAnswer,
    "secret": SecretAnswer,
    "number": NumberAnswer,
    "integer": IntegerAnswer,
    "form": FormAnswer,
    "url": UrlAnswer,
}
"""The answer types by the value of `type`."""
