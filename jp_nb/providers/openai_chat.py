"""OpenAI's chat completions, and the servers that speak it in their own way.

Source: `docs/providers.md`;
https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace

from pydantic import JsonValue

from jp_nb.agent.model_events import (
    ModelRequest,
    ProviderEvent,
    SentRequest,
)
from jp_nb.agent.model_info import ModelList
from jp_nb.config.tree.provider_table import DIALECTS_NOT_BUILT
from jp_nb.errors import ConfigError
from jp_nb.providers import answer_schema as schemas
from jp_nb.providers.attachment_parts import IMAGES, AttachedOnce
from jp_nb.providers.chat_decoder import ChatDecoder
from jp_nb.providers.chat_profiles import PROFILES, Profile
from jp_nb.providers.chat_request import (
    ChatRendering,
    answer_schema,
    attach,
    build_head,
    system_messages,
)
from jp_nb.providers.endpoint import Endpoint, ProviderSettings
from jp_nb.providers.http import HttpClient
from jp_nb.providers.messages import (
    Renderings,
    encode_body,
)
from jp_nb.providers.model_queries import list_chat
from jp_nb.providers.parameters import LeftOut, Warnings
from jp_nb.providers.streaming import StreamDecoder, events


class ChatProvider:
    """A server that speaks chat completions. Keeps its rendering of the threads it is sent."""

    def __init__(self, endpoint: Endpoint, profile: Profile) -> None:
        self._http = HttpClient(endpoint)
        self._profile = profile
        self._renderings = Renderings(lambda: ChatRendering(profile))
        self._attached = AttachedOnce(lambda attachments: attach(attachments, profile))
        self._warnings = Warnings(profile.name)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response; see `Provider`."""
        profile = self._profile
        answer = answer_schema(request, profile)
        body = self._body(request, self._renderings.of(request.thread), answer, self._warnings)
        return events(
            self._http.post(body),
            StreamDecoder(
                ChatDecoder(profile, answer, request=body),
                provider=profile.name,
                max_response_bytes=request.max_response_bytes,
                redaction=self._http.redaction(),
            ),
            provider=profile.name,
            idle_timeout=request.idle_timeout,
            told=self._http.told,
        )

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return what `stream` would send; see `Provider`."""
        profile = self._profile
        rendering, left_out = self._renderings.beside(request.thread), LeftOut(profile.name)
        body = self._body(request, rendering, answer_schema(request, profile), left_out)
        return self._http.preview(body, left_out=left_out.lines)

    def _body(
        self,
        request: ModelRequest,
        rendering: ChatRendering,
        answer: schemas.AnswerSchema | None,
        warnings: Warnings,
    ) -> bytes:
        profile = self._profile
        attached = self._attached.of(request.attachments)
        attached.warn(warnings, conversation_id=request.conversation_id)
        system = system_messages(request, profile, documents=attached.system)
        return encode_body(
            build_head(request, profile, answer=answer, warnings=warnings),
            rendering.encode(request.thread, before=(*system, *attached.messages)),
        )

    @property
    def address(self) -> str:
        """Return the address of the server; see `Provider`."""
        return self._http.endpoint.url

    def check_ready(self, model: str, text: str) -> None:
        """Refuse a request without its key; see `Provider`."""
        self._http.check_ready()

    async def models(self, *, seconds: float) -> ModelList:
        """Ask what there is; see `Provider`."""
        return await list_chat(self._http, seconds, self._profile.local)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Every schema is taken, as strict as it can be; see `Provider`."""
        schemas.check_references(schema)

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()


def create(settings: ProviderSettings) -> ChatProvider:
    """Return the provider that `settings` describe.

    Raises:
        ConfigError: If a setting cannot be.
    """
    if (dialect := settings.text("dialect")) in DIALECTS_NOT_BUILT:
        raise ConfigError(
            f"the dialect `{dialect}` is not available yet, expected `chat` or no value",
            path=f"providers.llm.{settings.provider}.dialect",
        )
    profile = PROFILES[settings.provider]
    if settings.flag("images", default=profile.takes_images) != profile.takes_images:
        profile = replace(profile, media_types=profile.media_types ^ IMAGES)
    attribution = {
        "x-title": settings.text("app_name"),
        "http-referer": settings.text("app_referrer"),
    }
    headers = {key: value for key, value in attribution.items() if value}
    return ChatProvider(settings.endpoint(profile.path, headers=headers), profile)
