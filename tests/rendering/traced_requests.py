"""Requests as `%jp request` has them, without a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.kit.kinds import make
from tests.kit.providers import new_provider


def trace_request(
    request: Any,
    provider: str = "openai",
    *,
    name: str = "0.1",
    sent: Any = None,
    answer: tuple[Mapping[str, Any], ...] = (),
    **settings: Any,
) -> Any:
    """Return the request `name` to a provider, for `render("request", …)`.

    It is sent in the form `sent`, or in that of the provider with these `settings`.
    """
    if sent is None:
        at_home = {"base_url": "http://127.0.0.1:1", **settings}
        sent = new_provider(provider, at_home).preview(request)

    remarks = ("exact request",)
    return make("traced_request", name, provider, request, sent, remarks, answer)
