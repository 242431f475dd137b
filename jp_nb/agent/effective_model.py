"""The effective configuration of a turn, resolved for its model requests.

`Resolved` is a model with everything that its requests in a turn contain: instructions, tools, and
attachments. These are the *head* of a request, in front of the messages. The session makes a
`Resolved` at the beginning of a turn, and again if the configuration changed or tools are outdated
(`jp_nb/session/resolution/resolver.py`). Until then, all requests of the turn use the same one.

Source: `docs/turns.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from pydantic import JsonValue

from jp_nb.agent.calls.recorded_results import FindRecordedResults
from jp_nb.agent.inquiries.inquiry import InquiryBackend
from jp_nb.agent.model_requests.chat_model import ChatModel
from jp_nb.agent.offered_tools.tool_set import ToolSet
from jp_nb.agent.provider import Attachment, ModelRequest, Provider, ToolChoice
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.request_context.request_head import RequestHead


def get_host(provider: Provider) -> str:
    """Return host and port of the provider's server; "" without a network."""
    return urlsplit(provider.address).netloc


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved(ChatModel):
    """The effective configuration, resolved for the model requests of a turn.

    It extends `ChatModel`, which has the provider, the model, its parameters, and the system texts.

    Attributes:
        tools: The tools that requests offer.
        tool_choice: The tools that the model may or must call in the first request of the turn.
        attachments: The files in front of the messages.
        inquiry: Asks models the questions of tools; None if there is no model for them.
        basis: The effective configuration from which all this was made.
        continues_answers: True if a response that reaches the token limit is continued.
        results: Recorded results of calls, for a replay; None: tools run.
        uses_cassette: True if responses are recorded or replayed.
        plan_first: True if the turn begins with a plan.
        unavailable_reason: Why no user is available; None if one may be.
        context_tokens: Size of the model's context; None if it is unknown.
    """

    tools: ToolSet
    tool_choice: ToolChoice
    attachments: tuple[Attachment, ...] = ()
    inquiry: InquiryBackend | None = None
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    continues_answers: bool = False
    results: FindRecordedResults | None = None
    uses_cassette: bool = False
    plan_first: bool = False
    unavailable_reason: str | None = None
    context_tokens: int | None = None

    def make_turn_request(
        self,
        context: RequestContext,
        *,
        choice: ToolChoice,
        schema: Mapping[str, JsonValue] | None,
        conversation_id: str,
    ) -> ModelRequest:
        """Return the request of the turn that continues `context`."""
        # Later requests may have to send these files again, and a recorded head has only their
        # digests.
        context.note_contents(self.attachments)
        request = self.make_request(
            context,
            attachments=self.attachments,
            tools=tuple(tool.definition for tool in self.tools.tools.values()),
            choice=choice,
            schema=schema,
            conversation_id=conversation_id,
        )
        # The next request of the turn begins with this one, so prompt caches can cover it.
        return replace(request, is_turn=True)

    @property
    def head(self) -> RequestHead:
        """The head of a request without a schema, to compare with the recorded heads."""
        context = RequestContext()
        request = self.make_turn_request(context, choice="auto", schema=None, conversation_id="")
        return request.head

    @property
    def host(self) -> str:
        """Host and port of the server, such as `127.0.0.1:8080`; "" without a network."""
        return get_host(self.provider)
