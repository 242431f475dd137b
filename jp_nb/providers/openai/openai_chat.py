"""The provider of Chat Completions: OpenAI, and the many servers that speak its protocol.

`openai_dialects.py` creates it from its settings.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelList
from jp_nb.agent.model_requests.model_batches import ModelBatches
from jp_nb.agent.provider import ModelRequest
from jp_nb.json_schema import Schema
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.network.token_counts import CountQuery
from jp_nb.providers.openai.chat_profiles import Profile
from jp_nb.providers.openai.openai_batches import OpenAiBatches
from jp_nb.providers.openai.openai_chat_decoder import ChatDecoder
from jp_nb.providers.openai.openai_chat_fields import build_request_fields
from jp_nb.providers.openai.openai_chat_front import format_attachments, format_system_messages
from jp_nb.providers.openai.openai_chat_rendering import ChatRendering
from jp_nb.providers.openai.openai_model_list import list_chat_completions_models
from jp_nb.providers.request_parts.attachment_parts import FormattedAttachments, advise_images
from jp_nb.providers.request_parts.omission_reports import Omitted
from jp_nb.providers.request_parts.request_body import RequestBody, encode_json
from jp_nb.providers.schemas.answer_schemas import AnswerSchema, adapt_for_json_mode
from jp_nb.schema_loops import check_references


class ChatProvider(HttpProvider[ChatRendering]):
    """Provider for servers with the Chat Completions API.

    It fills in the methods of `HttpProvider` (`http_provider.py`), which sends the requests. The
    `profile` has the differences of the server from OpenAI's. The rendering of a conversation makes
    its messages, and is kept from one request to the next.
    """

    counts_whole_prompt = True  # in usage: so a local server that cuts the prompt is noticed

    def __init__(self, endpoint: Endpoint, profile: Profile) -> None:
        super().__init__(
            endpoint,
            lambda: ChatRendering(profile),
            lambda attachments: format_attachments(attachments, profile),
        )
        self._profile = profile

    def _adapt_schema(self, schema: Schema) -> AnswerSchema:
        adapt = self._profile.answer or adapt_for_json_mode  # None: the server only has JSON mode
        return adapt(schema)

    def _advise_images(self) -> str:
        return advise_images(self._http.endpoint, self._profile.media_types)

    def _select_appended(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        """Return those of `parts` of the head, such as `system`, whose changes become messages."""
        # Only in JSON mode is the schema a text for the model, which a message can contain.
        # Otherwise it is a member of the body.
        if self._profile.answer is not None:
            parts -= {"schema"}
        return super()._select_appended(model, parts)

    def _encode_body(
        self,
        request: ModelRequest,
        rendering: ChatRendering,
        attached: FormattedAttachments,
        answer: AnswerSchema | None,
        omitted: Omitted,
    ) -> RequestBody:
        profile = self._profile
        fields = build_request_fields(request, profile, answer=answer, omitted=omitted)
        system = format_system_messages(request, profile, documents=attached.system)
        before = (*map(encode_json, system), *attached.messages)
        messages = rendering.encode(request.context, before=before)
        # `prefix`: the members that the server's cache covers before the messages.
        return RequestBody(fields, messages, prefix=("tools",))

    def _make_decoder(
        self,
        request: ModelRequest,
        rendering: ChatRendering,
        answer: AnswerSchema | None,
        body: bytes,
    ) -> ChatDecoder:
        return ChatDecoder(
            self._profile, answer, request=body, tools=[tool.name for tool in request.tools]
        )

    def open_batches(self) -> ModelBatches:
        """Return the Batch API."""
        # `ChatDecoder` also reads a whole answer, in one message.
        answers = self._make_whole_answers(lambda completion: [completion])
        return OpenAiBatches(self._http, answers, "chat/completions")

    def _make_count_query(self, request: ModelRequest, body: RequestBody) -> CountQuery | None:
        if self._profile.local != "llamacpp":
            return None  # other servers count tokens only for requests of other APIs
        return CountQuery(f"{self._http.endpoint.url}/input_tokens", body.to_dict())

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the server."""
        return await list_chat_completions_models(self._http, seconds, self._profile.local)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Raise if a reference in `schema` refers only to itself; see `Provider`.

        A schema that strict mode does not support is sent without it.
        """
        check_references(schema)
