"""Settings of the assistant: the texts of its system prompt, its model, and its requests.

`AssistantOverrides` are the same settings for a separate task, such as the answer to a question.
A *section* is one part of the system prompt. `system_texts.py` makes the texts for the model.

`base.py` has the types of settings, and explains forms: `TABLE_OR_PLAIN_FORM` marks a setting that
is a table or a plain value.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field

from jp_nb.config.tree.base import (
    PLAIN_FORM,
    TABLE_FORM,
    TABLE_OR_PLAIN_FORM,
    ConfigTable,
    ShortTable,
    table,
)
from jp_nb.config.tree.merge_rules import APPEND_MERGE, REPLACE_MERGE, TEXT_MERGE, merge_by_keys
from jp_nb.config.tree.model_settings import Model, ModelChoice
from jp_nb.config.tree.request_settings import Request, RequestOverrides
from jp_nb.config.tree.value_checks import Flag, Whole, not_blank, one_of
from jp_nb.config.tree.value_errors import UnexpectedValueError

MAX_FILE_NAME_CHARS: Final = 200


class Section(ShortTable):
    """A section of the system prompt. It can be written as a text, which is its content."""

    TEXT: ClassVar[str] = "content"
    FORMS: ClassVar[str] = "a text, or a table of content, tag, title, and position"

    content: str
    """The text."""
    tag: str | None = None
    """Name of an XML element that contains the text."""
    title: str | None = None
    """Title of the section."""
    position: Whole = 0
    """Sections are sorted by this number."""


class Contrast(ConfigTable):
    """A good and a bad example."""

    good: str
    """The good example."""
    bad: str
    """The bad example."""
    reason: str | None = None
    """The reason for the difference."""


Example = Annotated[
    Annotated[str, PLAIN_FORM] | Annotated[Contrast, TABLE_FORM],
    TABLE_OR_PLAIN_FORM,
    one_of(str, dict, Contrast, expected="a text, or a table of good, bad, and reason"),
]


class Instruction(ConfigTable):
    """A list of instructions in the system prompt."""

    title: str | None = None
    """Title of the list."""
    description: str | None = None
    """Text before the list."""
    position: Whole = 0
    """Lists and sections are sorted by this number."""
    items: Annotated[list[str], APPEND_MERGE] = Field(default_factory=list)
    """The instructions."""
    examples: Annotated[list[Example], APPEND_MERGE] = Field(default_factory=list)
    """Examples: a text, or a good and a bad example."""


def make_default_instructions() -> list[Instruction]:
    """Return the instructions that apply until others are configured."""
    items = [
        "Be concise.",
        "Use simple sentences.",
        "Explain no more than was asked for.",
        "No flattery and no marketing tone.",
        "No vague claims: say what you know and how you know it.",
    ]
    return [Instruction(title="How to respond to the user", items=items)]


SECTIONS_MERGE = merge_by_keys("tag", "title")
INSTRUCTIONS_MERGE = merge_by_keys("title")


ToolChoiceSetting = Annotated[str, not_blank("auto, none, required, or the name of a tool")]


def _check_file_name(name: str) -> str:
    is_name = name.isprintable() and not {"/", "\\", ":"} & {*name} and name not in (".", "..")
    if is_name and len(name) <= MAX_FILE_NAME_CHARS:
        return name
    raise UnexpectedValueError('the name of a file without its folder, or ""', name)


class Assistant(ConfigTable):
    """The assistant: its prompt, its model, and its requests."""

    name: str | None = None
    """Name of the assistant. No prompt contains it."""
    system_prompt: Annotated[str, TEXT_MERGE] = "You are a helpful assistant."
    """First text of the system prompt."""
    system_prompt_sections: Annotated[list[Section], SECTIONS_MERGE] = Field(default_factory=list)
    """Further sections of the system prompt."""
    instructions: Annotated[list[Instruction], INSTRUCTIONS_MERGE] = Field(
        default_factory=make_default_instructions
    )
    """Lists of instructions in the system prompt."""
    project_instructions: Annotated[str, AfterValidator(_check_file_name)] = "AGENTS.md"
    """Name of the file with instructions of the project: the nearest one from the folder of the
    notebook up to the root of the workspace is part of the system prompt. `""` for none."""
    skills: Flag = True
    """`false` to offer no skills of the workspace to the model."""
    tool_choice: Annotated[ToolChoiceSetting, REPLACE_MERGE] = "auto"
    """Use of tools in the first request of a turn: `auto`, `none`, `required`, or the name of a
    tool."""
    model: Model = table()
    request: Request = table()


class AssistantOverrides(ConfigTable):
    """Overrides of `assistant` for a separate task. Unset settings are inherited."""

    system_prompt: str | None = None
    """First text of the system prompt."""
    system_prompt_sections: Annotated[list[Section], SECTIONS_MERGE] = Field(default_factory=list)
    """Further sections of the system prompt."""
    tool_choice: ToolChoiceSetting | None = None
    """Use of tools."""
    model: ModelChoice | None = None
    request: RequestOverrides | None = None


class QuestionAssistant(AssistantOverrides):
    """Settings of the model that answers a question of a tool. Unset ones are inherited."""

    name: str | None = None
    """Name of the assistant. No prompt contains it."""
    system_prompt: Annotated[str | None, TEXT_MERGE] = None
    instructions: Annotated[list[Instruction], INSTRUCTIONS_MERGE] = Field(default_factory=list)
    """Lists of instructions in the system prompt."""
