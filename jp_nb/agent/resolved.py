"""The effective configuration, resolved into what a model request needs.

Source: `docs/turns.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic import JsonValue

from jp_nb.agent.model_events import (
    Attachment,
    ModelParameters,
    ModelRequest,
    Provider,
    ToolChoice,
)
from jp_nb.agent.model_inquiry import InquiryBackend
from jp_nb.agent.recorded_results import RecordedResults
from jp_nb.agent.tool_set import ToolSet
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.model_config import Request as RequestConfig
from jp_nb.config.tree.style_config import Interrupt as InterruptConfig
from jp_nb.record.thread import Thread


@dataclass(frozen=True, slots=True)
class Resolved:
    """All that one model request needs of the configuration in force.

    Attributes:
        inquiry: Answers questions of tools by asking a model.
        interrupts: What an interrupt of the kernel does.
        basis: The configuration itself, which tools may propose to change.
        chains: True if an answer that reaches the token limit is continued.
        results: Has the results of calls in their place; None: tools run.
        is_taped: True if a cassette records the model or answers in its place.
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
    results: RecordedResults | None = None
    is_taped: bool = False
    nobody: str | None = None

    def model_request(
        self,
        thread: Thread,
        *,
        choice: ToolChoice,
        schema: Mapping[str, JsonValue] | None,
        conversation_id: str,
    ) -> ModelRequest:
        """Return the request that has `thread` gone on with."""
        return ModelRequest(
            model=self.model,
            thread=thread,
            system=self.system,
            attachments=self.attachments,
            tools=tuple(tool.definition for tool in self.tools.tools.values()),
            tool_choice=choice,
            parameters=self.parameters,
            schema=schema,
            idle_timeout=float(self.request.stream_idle_timeout_secs),
            max_response_bytes=self.request.max_response_bytes,
            conversation_id=conversation_id,
        )

    @property
    def host(self) -> str:
        """The host that requests are sent to, such as `127.0.0.1:8080`; "" without a network."""
        return urlsplit(self.provider.address).netloc

    @property
    def full_name(self) -> str:
        """The model's name as it is configured: `provider/name`."""
        return f"{self.provider_name}/{self.model}"
