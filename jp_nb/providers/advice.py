"""Advice for errors of providers, and for a notebook without a model.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from jp_nb.config.tree.provider_config import Llm
from jp_nb.errors import ProviderError
from jp_nb.providers import registry
from jp_nb.providers.endpoint import Endpoint

CHOOSE: Final = "`%jp config assistant.model.id=PROVIDER/NAME`"

_ROOM: Final[Mapping[str, str]] = {
    "llamacpp": ", or start llama-server with a larger `--ctx-size`",
    "ollama": ", or start Ollama with a larger OLLAMA_CONTEXT_LENGTH",
}
_START: Final[Mapping[str, str]] = {
    "llamacpp": "Start it (`llama-server -m MODEL.gguf --port 8080`)",
    "ollama": "Start it (`ollama serve`)",
}


def set_key(variable: str) -> str:
    """Return the statement that sets the key in `variable` in a running kernel, and hides it."""
    return f'import os, getpass; os.environ["{variable}"] = getpass.getpass()'


def ways_to_choose(llm: Llm) -> str:
    """Return lines about each provider: how to choose it, and whether its key is set."""
    rows: list[tuple[str, str]] = []
    missing: list[str] = []
    for name in registry.NAMES:
        if (settings := getattr(llm, name, None)) is None:
            continue  # a script is no model
        variable = settings.api_key_env
        if variable is None:
            said = f"no key; server at {settings.base_url}"
        elif os.environ.get(variable, "").strip():
            said = f"{variable} is set"
        else:
            said = f"{variable} is not set"
            missing.append(variable)
        rows.append((f"%%jp -m {name}/MODEL", said))
    width = max(len(option) for option, _ in rows)
    lines = [f"  {option.ljust(width)}  {said}" for option, said in rows]
    lines.insert(0, "Choose a model; it is used for the rest of the conversation:")
    if missing:
        lines.append(f"Set a key in this running kernel: {set_key(missing[0])}")
    lines.append(f"Keep a model for all notebooks: {CHOOSE.replace('config ', 'config --user ')}")
    return "\n".join(lines)


def advice(error: ProviderError, endpoint: Endpoint) -> str:
    """Return what to do about `error`, in whole sentences; "" if it says so itself."""
    match error.kind:
        case "refused" | "connect":
            return _reach(endpoint, refused=error.kind == "refused")
        case "rate_limit":
            return (
                "Wait, then run the cell again. To retry longer automatically, set "
                "`%jp config assistant.request.max_retries=N` and "
                "`assistant.request.max_backoff_secs=SECONDS`"
            )
        case "quota":
            return f"Check your account at the provider, or choose another model: {CHOOSE}"
        case "too_long":
            return (
                "The conversation is longer than the model's context window. Compact "
                "the earlier turns with `%jp compact`, then continue with `%jp "
                "resume`. To compact automatically at N tokens, set "
                "`conversation.compaction.auto.max_tokens=N`. Or ask a shorter "
                "request, attach less, start a new conversation (`%jp new`), "
                "continue from an earlier turn (`%jp fork TURN`), or choose a model "
                f"with a larger context window ({CHOOSE})" + _ROOM.get(endpoint.provider, "")
            )
        case "other":
            return _refused(error, endpoint)
        case _:
            return ""


def _reach(endpoint: Endpoint, *, refused: bool) -> str:
    if endpoint.override:
        where = f"The address is in the environment variable {endpoint.base_url_env}"
    else:
        where = (
            f"Its address is the setting {endpoint.setting}.base_url. Change it with `%jp "
            f"config {endpoint.setting}"
        )
        where += ".base_url=http://HOST:PORT`"
    start = _START.get(endpoint.provider, "Start it") if refused else "Is the server running?"
    return f"{start}, or set its address. {where}" if refused else f"{start} {where}"


def _refused(error: ProviderError, endpoint: Endpoint) -> str:
    match error.status:
        case 401 | 403 if endpoint.key_env and not endpoint.key_is_set:
            return f"The environment variable {endpoint.key_env} for the key is not set"
        case 401 | 403 if endpoint.key_env:
            return f"Check the key in the environment variable {endpoint.key_env}"
        case 401 | 403:
            return (
                f"Set {endpoint.setting}.api_key_env to the name of the environment "
                "variable with the key"
            )
        case 404 if endpoint.provider == "ollama":
            return (
                "Check that the model is installed: `ollama list` shows the "
                "installed models, and `ollama pull NAME` downloads one. Or choose "
                f"another model: {CHOOSE}"
            )
        case 404:
            return f"Check the model ({CHOOSE}) and {endpoint.setting}.base_url ({endpoint.url})"
    return ""
