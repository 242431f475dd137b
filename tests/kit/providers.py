"""Model providers: how they are made, and the parts of the program that a test replaces."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

from jp_nb import json_writing
from jp_nb.config.tree.provider_settings import LlamaCpp
from jp_nb.providers import create_provider, create_server
from jp_nb.providers.network import endpoint, http, local_server, response_bodies
from jp_nb.providers.openai import openai_responses
from jp_nb.providers.response_parts import idle_watch, sse, stream_decoder, streamed_arguments
from jp_nb.providers.schemas import schema_rewriter
from jp_nb.values import ai_repr, registered_describers

PARTS: Mapping[str, tuple[ModuleType | type, str]] = {
    "clock of streams": (idle_watch, "wall_clock"),
    "seconds between looks at the clock": (idle_watch, "POLL_SECONDS"),
    "seconds for the end of an answer": (idle_watch, "END_SECONDS"),
    "idle timeouts with keep-alives": (idle_watch, "IDLE_TIMEOUTS"),
    "seconds for the body of an error": (http, "ERROR_BODY_SECONDS"),
    "bytes of a JSON body": (response_bodies, "MAX_JSON_BYTES"),
    "names of this computer": (http, "_LOOPBACK"),
    "bytes of an event": (sse, "MAX_EVENT_BYTES"),
    "bytes without content": (stream_decoder, "MAX_EMPTY_BYTES"),
    "bytes besides an answer": (stream_decoder, "MAX_OVERHEAD_BYTES"),
    "check of complete arguments": (streamed_arguments, "is_json_object"),
    "JSON encoder": (json_writing, "_encode_compact"),
    "parts of a schema": (schema_rewriter, "_MAX_NODES"),
    "seconds between keep-alives": (openai_responses, "KEEP_ALIVE_SECONDS"),
    "address of OpenAI": (endpoint, "_OPENAI_URL"),
    "addresses of llamacpp": (LlamaCpp, "DEFAULT_ADDRESSES"),
    "addresses that have answered": (local_server, "_answering"),
    "addresses that are silent": (local_server, "_silent_until"),
    "seconds to connect to an address": (local_server, "PROBE_SECONDS"),
    "describers of the user": (registered_describers, "_DESCRIBERS"),
    "seconds for an async description": (ai_repr, "AI_REPR_SECONDS"),
}


def new_provider(
    name: str, settings: Mapping[str, Any] | None = None, *, is_server: bool = False
) -> Any:
    """Return the provider `name` with the settings of its table; or the server of that `name`."""
    make = create_server if is_server else create_provider
    return make(name, settings or {})


def prepare_request(provider: Any, request: Any) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Return the body of `request` as `provider.stream` makes it, and its parts. Nothing is sent.

    As a sent request, it is the base of the next one of its conversation.
    """
    rendering = provider._renderings.choose(request)
    answer = provider._make_answer_schema(request)
    body = provider._build_body(request, rendering, answer).body
    return body.encode(), body.list_parts()


def substitute(monkeypatch: pytest.MonkeyPatch, part: str, value: Any) -> None:
    """Replace a part of the program, such as `"bytes of an event"`, until the test ends."""
    assert part in PARTS, f"the kit has no {part!r}: use one of {', '.join(PARTS)}"
    monkeypatch.setattr(*PARTS[part], value)
