"""The assistant: prompt, model, limits; and overrides where a model answers a tool's question.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from jp_nb.config.tree.model_config import Model, ModelChoice, Request, RequestOverrides
from jp_nb.config.tree.node import ConfigTable, table
from jp_nb.config.tree.prompt_parts import Instruction, Section, how_to_respond
from jp_nb.config.tree.strategy import REPLACE, TEXT, keyed

SECTIONS = keyed("tag", "title")
INSTRUCTIONS = keyed("title")


def _a_choice(value: str) -> str:
    if not value.strip():
        raise ValueError("expected auto, none, required, or the name of a tool, found nothing")
    return value


ToolChoice = Annotated[str, AfterValidator(_a_choice)]


class Assistant(ConfigTable):
    """The assistant: its prompt, its model, and its limits.

    Attributes:
        name: Name of the assistant. No prompt contains it.
        system_prompt: First text of the system prompt.
        system_prompt_sections: Further sections of the system prompt.
        instructions: Lists of instructions in the system prompt.
        tool_choice: Use of tools in the first request of a turn: `auto`, `none`, `required`, or the
            name of a tool.
    """

    name: str | None = None
    system_prompt: Annotated[str, TEXT] = "You are a helpful assistant."
    system_prompt_sections: Annotated[list[Section], SECTIONS] = Field([])
    instructions: Annotated[list[Instruction], INSTRUCTIONS] = Field(default_factory=how_to_respond)
    tool_choice: Annotated[ToolChoice, REPLACE] = "auto"
    model: Model = table()
    request: Request = table()

    def system(self) -> tuple[str, ...]:
        """The system texts in the order they are sent."""
        sections = [*self.system_prompt_sections, *(i.section() for i in self.instructions)]
        texts = [self.system_prompt, *(s.render() for s in sorted(sections, key=_position))]
        return tuple(text for text in texts if text.strip())


def _position(section: Section) -> int:
    return section.position


class AssistantOverrides(ConfigTable):
    """Overrides of `assistant` for a separate task. Unset settings are inherited.

    Attributes:
        system_prompt: First text of the system prompt.
        system_prompt_sections: Further sections of the system prompt.
        tool_choice: Use of tools.
    """

    system_prompt: str | None = None
    system_prompt_sections: Annotated[list[Section], SECTIONS] = Field([])
    tool_choice: ToolChoice | None = None
    model: ModelChoice | None = None
    request: RequestOverrides | None = None


class QuestionAssistant(AssistantOverrides):
    """The model that answers a question of a tool. Unset settings are inherited.

    Attributes:
        system_prompt: First text of the system prompt.
        system_prompt_sections: Further sections of the system prompt.
        tool_choice: Use of tools.
        name: Name of the assistant. No prompt contains it.
        instructions: Lists of instructions in the system prompt.
    """

    name: str | None = None
    system_prompt: Annotated[str | None, TEXT] = None
    instructions: Annotated[list[Instruction], INSTRUCTIONS] = Field([])
