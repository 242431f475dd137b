"""Check that a model can be asked, before a turn begins or the first row is sent.

Source: `docs/turns.md`, `docs/rows.md`.
"""

from __future__ import annotations

from jp_nb.agent.provider import Provider
from jp_nb.config.tree.providers_table import Llm
from jp_nb.errors import ConfigError
from jp_nb.providers.network.model_choices import format_model_choices


def check_ready(provider: Provider, model: str, text: str, llm: Llm) -> None:
    """Check that a request with `text` can be sent to `model`. Sends nothing.

    Raises:
        ConfigError: The user has configured no model, and the default one is a script that only
            answers the quickstart notebook. The message lists the models of `llm`.
        ConfigError: An address cannot be used.
        ProviderError: The key is missing.
    """
    try:
        provider.check_ready(model, text)
    except ConfigError as exc:
        if exc.kind != "no_model":
            raise
        raise ConfigError(f"{exc}\n{format_model_choices(llm)}", kind=exc.kind) from exc
