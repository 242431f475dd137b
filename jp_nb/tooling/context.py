"""What a tool is told besides its arguments.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class DeltaRejection:
    """The reason for which the configuration change of the previous run was not applied."""

    reason: str
    fields: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """One run of a tool.

    Attributes:
        name: The tool.
        answers: Answers so far, by question id; empty on the first run.
        options: `conversation.tools.<name>.options`.
        access: Grants of the tool, if it has any.
        config: The configuration it may read, if any.
        delta_rejection: Set on a run that follows a rejected configuration change.
        root: The workspace's folder.
        action: `run`; `format_arguments` where a call is only to be shown.
        conversation_id: Such as `jp-c17738399468`.
        catalog: Documentation, in Markdown, of every tool on offer, by name.
        call_id: The model's id of this call.
    """

    name: str
    call_id: str = ""
    answers: Mapping[str, JsonValue] = field(default_factory=dict)
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    access: JsonValue = None
    config: JsonValue = None
    delta_rejection: DeltaRejection | None = None
    root: str = ""
    action: Literal["run", "format_arguments"] = "run"
    conversation_id: str = ""
    catalog: Mapping[str, str] = field(default_factory=dict)
