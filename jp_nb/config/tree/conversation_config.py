"""Settings of a conversation: its tools, attachments and labels.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from jp_nb.config.tree.assistant_config import AssistantOverrides
from jp_nb.config.tree.attachment_url import Attachment
from jp_nb.config.tree.command_line import Command
from jp_nb.config.tree.compaction_config import CompactionConfig
from jp_nb.config.tree.node import (
    PLAIN,
    TABLE,
    TABLE_OR_PLAIN,
    ConfigTable,
    Flag,
    ShortTable,
    before,
    found,
    shortened,
    table,
    word,
)
from jp_nb.config.tree.strategy import DEEP, Merge
from jp_nb.config.tree.tool_config import STAR, Enable, ToolConfig

# --- labels ----------------------------------------------------------------------------------

LABEL_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def _label_key(value: str) -> str:
    if not LABEL_KEY.fullmatch(value):
        raise ValueError(
            f"{shortened(value)!r} is not a label name, expected a letter, followed "
            "by letters, digits, _ or -"
        )
    return value


class LabelCommand(ConfigTable):
    """A label whose value is the output of a command."""

    cmd: Command


def _label_value(value: Any) -> Any:
    if isinstance(value, (str, dict, LabelCommand)):
        return value
    raise ValueError(f"expected a text, or a table with the command `cmd`, {found(value)}")


class ApplyOn(ConfigTable):
    """New conversations that get the label.

    Attributes:
        new: Conversations that start empty.
        fork: Copies of other conversations.
    """

    new: Flag = True
    fork: Flag = False


LabelRun = Literal["ask", "unattended", "deny"]


class Label(ShortTable):
    """A label of conversations in JP. A plain text is its value. `jp_nb` does not use labels.

    Attributes:
        value: The value, or a command that prints it.
        run: Permission to run the command.
    """

    value: Annotated[
        Annotated[str, PLAIN] | Annotated[LabelCommand, TABLE], TABLE_OR_PLAIN, before(_label_value)
    ]
    apply_on: ApplyOn = table()
    run: Annotated[LabelRun, word(LabelRun)] = "ask"

    @classmethod
    def expand(cls, value: Any) -> Any:
        """A text is the value."""
        if value is None or isinstance(value, (dict, Label)):
            return value
        if isinstance(value, str):
            return {"value": value}
        raise ValueError(f"expected a text, or a table of value, apply_on and run, {found(value)}")


LabelKey = Annotated[str, AfterValidator(_label_key)]


# --- the conversation ------------------------------------------------------------------------


class InquiryConfig(ConfigTable):
    """The model that answers questions of tools instead of the user."""

    assistant: AssistantOverrides = table()


ATTACHMENTS = Merge("append", dedup=True, items="set", annotated=True)


class ConversationConfig(ConfigTable):
    """Settings of a conversation.

    Attributes:
        tools: The tools, by name.
        toolsets: Toolsets that are on or off, by name: `true`, `false`, or a table. A tool's own
            `enable` overrides its toolset.
        attachments: Files, file patterns, and variables that are sent with each request.
        labels: Labels of the conversation, by name.
    """

    tools: dict[str, ToolConfig] = Field({})
    toolsets: dict[str, Enable] = Field({})
    attachments: Annotated[list[Attachment], ATTACHMENTS] = Field([])
    labels: Annotated[dict[LabelKey, Label], DEEP] = Field({})
    inquiry: InquiryConfig = table()
    compaction: CompactionConfig = table()

    def enabling(self, name: str) -> tuple[bool, str]:
        """Return state and toggle rule of tool `name`.

        Each half is its own, else its toolset's, else that of `*`, else on and `any`.
        """
        tool, star = self.tools[name], self.tools.get(STAR)
        toolset = self.toolsets.get(tool.toolset) if tool.toolset else None
        given = (tool.enable, toolset, star.enable if star else None)
        halves = [each for each in given if each is not None]
        state = next((half.state for half in halves if half.state is not None), True)
        rules = (half.allow_toggle for half in halves if half.allow_toggle is not None)
        return state, next(rules, "any")

    def toolset(self, name: str) -> list[str]:
        """Return the names of the tools of toolset `name`, `[]` if there is no such toolset."""
        return [tool for tool, config in self.tools.items() if config.toolset == name]

    def toolset_names(self) -> list[str]:
        """Return the names of the toolsets that have tools, sorted."""
        return sorted({tool.toolset for tool in self.tools.values() if tool.toolset})
