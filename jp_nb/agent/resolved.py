"""The effective configuration, resolved into what a model request needs.

Source: `docs/turns.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jp_nb.agent.model_events import Attachment, ModelParameters, Provider
from jp_nb.agent.model_inquiry import InquiryBackend
from jp_nb.agent.tool_set import ToolSet
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.model_config import Request as RequestConfig
from jp_nb.config.tree.style_config import Interrupt as InterruptConfig


@dataclass(frozen=True, slots=True)
class Resolved:
    """All that one model request needs of the configuration in force.

    Attributes:
        inquiry: Answers questions of tools by asking a model.
        interrupts: What an interrupt of the kernel does.
        basis: The configuration itself, which tools may propose to change.
        chains: True if an answer that reaches the token limit is continued.
        nobody: Why nobody can be asked in the running cell; None if somebody may be there.
    """

    provider: Provider
    provider_name: str
    model: str
    system: tuple[str, ...]
    tools: ToolSet
    tool_choice: str
    parameters: ModelParameters
    request: RequestConfig
    attachments: tuple[Attachment, ...] = ()
    inquiry: InquiryBackend | None = None
    interrupts: InterruptConfig = field(default_factory=InterruptConfig)
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    chains: bool = False
    nobody: str | None = None

    @property
    def full_name(self) -> str:
        """The model's name as it is configured: `provider/name`."""
        return f"{self.provider_name}/{self.model}"
