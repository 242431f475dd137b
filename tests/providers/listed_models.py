"""Models as the servers of each protocol list them."""

from __future__ import annotations

from typing import Any


def anthropic_page(*models: Any, more: bool = False) -> dict[str, Any]:
    """Return one page of Anthropic's list of models."""
    ids = [model.get("id") for model in models if isinstance(model, dict)] or [None]
    return {"data": list(models), "has_more": more, "first_id": ids[0], "last_id": ids[-1]}


CLAUDE: dict[str, Any] = {
    "type": "model",
    "id": "claude-opus-4-5",
    "display_name": "Claude Opus 4.5",
    "created_at": "2025-11-24T00:00:00Z",
    "max_input_tokens": 200_000,
    "max_tokens": 64_000,
    "lifecycle": "active",
    "capabilities": {
        "image_input": {"supported": True},
        "pdf_input": {"supported": True},
        "thinking": {"supported": True},
    },
}
OLD_CLAUDE: dict[str, Any] = {
    **CLAUDE,
    "id": "claude-opus-3",
    "display_name": "Claude Opus 3",
    "created_at": "2024-02-29T00:00:00Z",
    "lifecycle": "deprecated",
    "retires_at": "2027-01-05T00:00:00Z",
}
GPT: dict[str, Any] = {"id": "gpt-5", "object": "model", "created": 1_754_425_777,
                       "owned_by": "openai"}  # fmt: skip
OLD_GPT: dict[str, Any] = {**GPT, "id": "gpt-4", "created": 1_687_882_411,
                           "shutdown_date": "2027-02-01"}  # fmt: skip
ROUTED: dict[str, Any] = {
    "id": "anthropic/claude-opus-4.5",
    "name": "Anthropic: Claude Opus 4.5",
    "created": 1_764_010_580,
    "context_length": 200_000,
    "architecture": {"input_modalities": ["text", "image", "file"]},
    "pricing": {"prompt": "0.000005", "completion": "0.000025"},
    "top_provider": {"max_completion_tokens": 32_000},
    "supported_parameters": ["tools", "reasoning", "max_tokens"],
    "expiration_date": None,
}
