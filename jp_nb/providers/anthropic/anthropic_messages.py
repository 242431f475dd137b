"""The provider of Anthropic Messages: it sends requests, and repairs those that the API rejects.

The members of a request are in `anthropic_fields.py` and `anthropic_rendering.py`, the decoder of
responses in `anthropic_decoder.py`.

Source: `docs/providers.md`, https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelInfo, ModelList
from jp_nb.agent.model_requests.model_batches import ModelBatches
from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.provider_events import ProviderEvent, Retry
from jp_nb.config.tree.named_servers import Server
from jp_nb.config.tree.provider_settings import Anthropic
from jp_nb.errors import ProviderError
from jp_nb.json_schema import Schema
from jp_nb.providers.anthropic.anthropic_batches import AnthropicBatches, split_message
from jp_nb.providers.anthropic.anthropic_blocks import format_attachments
from jp_nb.providers.anthropic.anthropic_decoder import AnthropicDecoder
from jp_nb.providers.anthropic.anthropic_fields import build_request_fields
from jp_nb.providers.anthropic.anthropic_model_list import list_anthropic_models
from jp_nb.providers.anthropic.anthropic_models import Abilities, find_max_pdf_pages
from jp_nb.providers.anthropic.anthropic_open_blocks import THINKING_SIGNATURE_KEY
from jp_nb.providers.anthropic.anthropic_rendering import AnthropicRendering
from jp_nb.providers.anthropic.anthropic_schemas import adapt_for_anthropic, check_anthropic
from jp_nb.providers.anthropic.anthropic_signatures import (
    find_signatures,
    is_about_signatures,
    iter_signatures,
)
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.providers.network.endpoint import Endpoint, make_endpoint
from jp_nb.providers.network.token_counts import CountQuery
from jp_nb.providers.request_parts.attachment_parts import FormattedAttachments
from jp_nb.providers.request_parts.call_rules import ANTHROPIC_CALLS
from jp_nb.providers.request_parts.omission_reports import Omitted
from jp_nb.providers.request_parts.parameter_names import ParameterNames
from jp_nb.providers.request_parts.request_body import RequestBody, WireMessage
from jp_nb.providers.response_parts.cache_diagnostics import CacheDiagnostics, read_response_id
from jp_nb.providers.response_parts.stream_decoder import WireObject
from jp_nb.providers.schemas.answer_schemas import AnswerSchema

_COUNTED: Final = frozenset(
    {"model", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control"}
)
"""Members of a request for a token count, besides the messages."""
_NO_SYSTEM_MESSAGES: Final = re.compile(
    r"claude-(?:[23]|instant|(?:sonnet|haiku)-4|opus-4(?:-[0-7])?(?:-20\d{6})?$)"
)
"""Models that accept system messages only at the beginning."""
_SYSTEM_MESSAGE: Final = b'{"role":"system"'
"""The beginning of an encoded system message, which tells of a change of the head."""
_TOOL_CHANGE_BETAS: Final = (
    "mid-conversation-tool-changes-2026-07-01",
    "inline-tools-2026-09-15",
)
"""Names in the header `anthropic-beta` that messages with changes of tools need."""
_LOGGER: Final = logging.getLogger(__name__)


MESSAGES_PATH: Final = "/v1/messages"
ANTHROPIC_VERSION: Final = "2023-06-01"


class AnthropicProvider(HttpProvider[AnthropicRendering]):
    """Provider for servers with the Anthropic Messages API.

    It fills in the methods of `HttpProvider` (`http_provider.py`). Without `strict_tools`, the API
    is not asked to enforce the schemas of tools.

    A `Retry` event that `_recover` returns makes the caller send the request again. With
    `drop_metadata`, the user learns that the record's signatures are no longer sent.
    """

    def __init__(self, endpoint: Endpoint, *, strict_tools: bool = True) -> None:
        super().__init__(endpoint, AnthropicRendering, format_attachments)
        self._strict_tools = strict_tools
        # The models as the server lists them, and their abilities after its errors, by name:
        self._listed: Mapping[str, ModelInfo] = {}
        self._corrected: dict[str, Abilities] = {}
        self._diagnostics = CacheDiagnostics(_LOGGER, self._http.get_redactor)

    def _adapt_schema(self, schema: Schema) -> AnswerSchema:
        return adapt_for_anthropic(schema)

    def _encode_body(
        self,
        request: ModelRequest,
        rendering: AnthropicRendering,
        attached: FormattedAttachments,
        answer: AnswerSchema | None,
        omitted: Omitted,
    ) -> RequestBody:
        """Return the body, with the header of the betas that its messages need."""
        appends_tool_choice = "tool_choice" in rendering.appended
        fields = self._build_fields(request, answer, omitted, appends=appends_tool_choice)
        if self._diagnostics.are_wanted:
            fields["diagnostics"] = {"previous_message_id": rendering.last_message_id}

        messages = rendering.encode(request.context, user_parts=attached.user_parts)

        headers = {}
        if any(map(_changes_tools, messages)):
            configured = self._http.endpoint.headers.get("anthropic-beta")
            headers["anthropic-beta"] = ",".join(filter(None, (configured, *_TOOL_CHANGE_BETAS)))
        return RequestBody(fields, messages, headers=headers)

    def _build_fields(
        self,
        request: ModelRequest,
        answer: AnswerSchema | None,
        omitted: Omitted,
        *,
        appends: bool = False,
    ) -> WireMessage:
        """Return the members of the body except the messages; see `build_request_fields`."""
        betas = self._http.endpoint.headers.get("anthropic-beta", "")
        abilities = self._get_abilities(request.model)
        return build_request_fields(
            request,
            answer=answer,
            betas=betas,
            abilities=abilities,
            appends=appends,
            omitted=omitted,
        )

    def _select_appended(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        """Return the parts, such as `system`, whose changes `model` accepts among the messages."""
        # Only changed attachments are a message of the user. Others need a system message.
        if _NO_SYSTEM_MESSAGES.match(model):
            parts = frozenset({"attachments"})
        return super()._select_appended(model, parts)

    def _find_page_limit(self, model: str) -> int | None:
        betas = self._http.endpoint.headers.get("anthropic-beta", "")
        return find_max_pdf_pages(model, self._listed.get(model), betas)

    def _get_abilities(self, model: str) -> Abilities:
        """Return what `model` accepts, as far as it is known so far."""
        known = self._corrected.get(model) or Abilities.of(model, self._listed.get(model))
        return known if self._strict_tools else replace(known, strict=False)

    def _make_decoder(
        self,
        request: ModelRequest,
        rendering: AnthropicRendering,
        answer: AnswerSchema | None,
        body: bytes,
    ) -> AnthropicDecoder:
        """Return the decoder, which keeps the id of the response for the next diagnostics."""
        # As in the body of this request: the log may be switched on or off meanwhile.
        asks_for_diagnostics = self._diagnostics.are_wanted

        def on_message(message: WireObject) -> None:
            rendering.last_message_id = read_response_id(message.get("id"))
            if asks_for_diagnostics:
                self._diagnostics.log(message.get("diagnostics"))

        return AnthropicDecoder(
            answer,
            request=body,
            on_message=on_message,
            parameter_names={
                tool.name: ParameterNames.of(tool, ANTHROPIC_CALLS) for tool in request.tools
            },
            find_signatures=lambda paths: find_signatures(paths, body),
        )

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: AnthropicRendering
    ) -> ProviderEvent | None:
        """Return a `Retry` if one of these repairs fits the text of an error 400.

        - About signatures: the thinking from the rejected one on is sent as text.
        - About the diagnostics: they are not requested again.
        - About a part that the model does not accept: it is omitted or changed (`Abilities`).
        """
        if error.status != 400:
            return super()._recover(error, request, rendering)

        text = str(error).lower()
        if is_about_signatures(text) and rendering.signed_items:
            self._drop_signatures(text, request, rendering)
            return Retry(error.without_address, drop_metadata=THINKING_SIGNATURE_KEY)

        if "diagnostics" in text and self._diagnostics.are_wanted:
            self._diagnostics.is_accepted = False
            return Retry(error.without_address)

        if self._correct_abilities(text, request):
            return Retry(error.without_address)
        return super()._recover(error, request, rendering)

    def _drop_signatures(
        self, error: str, request: ModelRequest, rendering: AnthropicRendering
    ) -> None:
        """Render the conversation again, with thinking as text from the rejected item on.

        A valid signature covers everything before it, so all later thinking is invalid as well.
        """
        first = self._find_rejected_item(error, request, rendering)
        rejected = rendering.rejected_items.union(range(first, len(request.context)))
        self._renderings.render_and_keep(request.context, rendering.copy_without_messages(rejected))

    def _find_rejected_item(
        self, error: str, request: ModelRequest, rendering: AnthropicRendering
    ) -> int:
        """Return the position of the first item with rejected thinking; 0 if it is unknown."""
        # The end of the context was rejected before, and the API rejects an earlier block as well.
        if len(request.context) - 1 in rendering.rejected_items:
            return 0

        sent = self._build_body(request, rendering, self._make_answer_schema(request)).body
        signatures = iter_signatures(error, list(map(json.loads, sent.messages)))
        first_signature = next(filter(None, signatures), "")
        return rendering.signed_items.get(first_signature, 0)

    def _correct_abilities(self, error: str, request: ModelRequest) -> bool:
        """Learn from `error` what the model does not accept. Return False if it is not known."""
        abilities = self._get_abilities(request.model)
        sent = self._build_fields(request, self._make_answer_schema(request), {})
        corrected = abilities.correct(error, sent)
        if corrected == abilities:
            return False

        self._corrected[request.model] = corrected
        return True

    def open_batches(self) -> ModelBatches:
        """Return the Message Batches API."""
        return AnthropicBatches(self._http, self._make_whole_answers(split_message))

    def _make_count_query(self, request: ModelRequest, body: RequestBody) -> CountQuery | None:
        return CountQuery(f"{self._http.endpoint.url}/count_tokens", body.select(_COUNTED))

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the server. Later requests use their abilities."""
        listed = await list_anthropic_models(self._http, seconds)
        self._listed = {model.id: model for model in listed.models}
        return listed

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Check that the API can enforce `schema`.

        Raises:
            UsageError: It cannot.
        """
        check_anthropic(schema)


def _changes_tools(message: bytes) -> bool:
    """Return True for an encoded system message with changes of tools, which are a beta."""
    return message.startswith(_SYSTEM_MESSAGE) and b'"type":"tool_' in message


def create_server(name: str, config: Server) -> AnthropicProvider:
    """Return the provider for the configured server `name`.

    Raises:
        ConfigError: The address is not valid.
    """
    headers = {"anthropic-version": ANTHROPIC_VERSION}
    endpoint = make_endpoint(name, config, MESSAGES_PATH, headers=headers, key_header="x-api-key")
    return AnthropicProvider(endpoint)


def create(name: str, config: Anthropic) -> AnthropicProvider:
    """Return the provider that `config` describes.

    Raises:
        ConfigError: The address is not valid.
    """
    headers = {"anthropic-version": ANTHROPIC_VERSION}
    if config.beta_headers:
        headers["anthropic-beta"] = ",".join(config.beta_headers)
    endpoint = make_endpoint(name, config, MESSAGES_PATH, headers=headers, key_header="x-api-key")
    return AnthropicProvider(endpoint, strict_tools=config.strict_tools)
