"""Advice for the user about an error of a provider: what to check, start, or set.

The kind of an error is in `errors.py`. Source: `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jp_nb.errors import ProviderError
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.network.model_choices import CHOOSE_MODEL

_LARGER_CONTEXT: Final[Mapping[str, str]] = {
    "llamacpp": ", or start llama-server with a larger `--ctx-size`",
    "ollama": ", or start Ollama with a larger OLLAMA_CONTEXT_LENGTH",
}
_START_SERVER: Final[Mapping[str, str]] = {
    "llamacpp": "Start it (`llama-server -m MODEL.gguf`)",
    "ollama": "Start it (`ollama serve`)",
}


def format_advice(error: ProviderError, endpoint: Endpoint) -> str:
    """Return advice that helps the user to solve `error`; "" for errors without advice."""
    match error.kind:
        case "refused" | "connect":
            return _advise_connection(endpoint, refused=error.kind == "refused")
        case "rate_limit":
            return (
                "Wait, then run the cell again. To retry longer automatically, set "
                "`%jp config assistant.request.max_retries=N` and "
                "`assistant.request.max_backoff_secs=SECONDS`"
            )
        case "quota":
            return f"Check your account at the provider, or choose another model: {CHOOSE_MODEL}"
        case "too_long":
            return (
                "The conversation is longer than the model's context window. Compact "
                "the earlier turns with `%jp compact`, then continue with `%jp "
                "resume`. To compact automatically at N tokens, set "
                "`conversation.compaction.auto.max_tokens=N`. You can also "
                "shorten the request, attach less, start a new conversation (`%jp new`), or "
                "continue from an earlier turn (`%jp fork TURN`). Or choose a model "
                f"with a larger context window ({CHOOSE_MODEL})"
                + _LARGER_CONTEXT.get(endpoint.software, "")
            )
        case "other":
            return _advise_status(error, endpoint)
        case _:
            return ""


def _advise_connection(endpoint: Endpoint, *, refused: bool) -> str:
    """Return advice for an address without an answer. If `refused`, no server runs there."""
    setting = f"{endpoint.setting_path}.base_url"
    if endpoint.environment_url:
        source = f"The address is in the environment variable {endpoint.base_url_env}"
    else:
        source = (
            f"Its address is the setting {setting}. Change it with `%jp config "
            f"{setting}=http://HOST:PORT`"
        )
    if not refused:
        return f"Is the server running? {source}"

    start = _START_SERVER.get(endpoint.software, "Start it")
    return f"{start}, or set its address. {source}"


def _advise_status(error: ProviderError, endpoint: Endpoint) -> str:
    """Return advice by the HTTP status: for the key, the model, or the API of the server."""
    status = 401 if "API key not valid" in str(error) else error.status  # Google answers 400
    match status:
        case 401 | 403 if endpoint.key_env and not endpoint.has_key:
            return f"The environment variable {endpoint.key_env} for the key is not set"
        case 401 | 403 if endpoint.key_env:
            return f"Check the key in the environment variable {endpoint.key_env}"
        case 401 | 403:
            return (
                f"Set {endpoint.setting_path}.api_key_env to the name of the environment "
                "variable with the key"
            )
        case 404 if endpoint.software == "ollama":
            return (
                "Check that the model is installed: `ollama list` shows the "
                "installed models, and `ollama pull NAME` downloads one. Or choose "
                f"another model: {CHOOSE_MODEL}"
            )
        case 404 | 405 if endpoint.path.endswith("/responses") and not endpoint.is_openai:
            return (
                f"If the model exists, this server does not have the Responses API. Use chat "
                f"completions: `%jp config {endpoint.setting_path}.dialect=chat`. Otherwise, "
                f"choose another model: {CHOOSE_MODEL}"
            )
        case 404 | 405 if endpoint.path.endswith("/interactions"):
            return (
                f"Check the model ({CHOOSE_MODEL}). If it exists, the Interactions API does not "
                "have it, or this server does not have that API. Use generateContent: `%jp config "
                f"{endpoint.setting_path}.dialect=generate`"
            )
        case 404:
            return (
                f"Check the model ({CHOOSE_MODEL}) and {endpoint.setting_path}.base_url "
                f"({endpoint.url})"
            )
    return ""
