"""What the configuration in force comes to: a provider, a model, tools.

Source: `spec/tools-and-turn-loop.md` section 10.4, `spec/config.md` section 2.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from jp_nb.agent.offer import Offer, offer
from jp_nb.agent.ports import ModelParameters, Provider
from jp_nb.agent.turn import Resolved
from jp_nb.config.app_config import AppConfig, Llm
from jp_nb.config.models import resolve
from jp_nb.errors import ConfigError
from jp_nb.providers import registry
from jp_nb.tools.base import Tool
from jp_nb.tools.builtin import BUILTINS
from jp_nb.tools.python import REGISTRY

if TYPE_CHECKING:
    from jp_nb.notebook.session import Session


class Resolver:
    """Resolves the configuration of one session; keeps its providers open."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._providers: dict[str, Provider] = {}

    def resolve(self, config: AppConfig | None = None) -> Resolved:
        """Provider, model and tools of `config`, else of the configuration in force.

        Raises:
            ConfigError: If one of them cannot be had; the message names the path.
        """
        config = config or self._session.settings.projection.config()
        model = resolve(config.assistant.model.id, config.providers.llm.aliases)
        tools = self.offer(config)
        parameters = config.assistant.model.parameters
        return Resolved(
            provider=self._provider(model.provider, config.providers.llm),
            provider_name=model.provider,
            model=model.name,
            system=config.assistant.system(),
            offer=tools,
            tool_choice=_tool_choice(config.assistant.tool_choice, tools),
            parameters=ModelParameters(
                max_tokens=parameters.max_tokens,
                reasoning=_json(parameters.reasoning),
                temperature=parameters.temperature,
                top_p=parameters.top_p,
                top_k=parameters.top_k,
                stop_words=tuple(parameters.stop_words),
                other=parameters.model_extra or {},
            ),
            request=config.assistant.request,
            interrupts=config.interrupt,
        )

    def offer(self, config: AppConfig) -> Offer:
        """The tools that `config` enables."""
        executors: Mapping[str, Mapping[str, Tool]] = {
            "builtin": BUILTINS,
            "python": REGISTRY.all(),
        }
        return offer(config, executors)

    def take_providers(self) -> list[Coroutine[Any, Any, None]]:
        """What closes the providers; none of them is used again."""
        closing = [provider.aclose() for provider in self._providers.values()]
        self._providers.clear()
        return closing

    def _provider(self, name: str, llm: Llm) -> Provider:
        """A provider with its settings: the same one as long as they are the same."""
        settings: dict[str, Any]
        if name == "scripted":
            settings = {"folders": [str(self._session.files.folder)]}
        else:
            given = getattr(llm, name, None)  # a known name may have no settings
            settings = given.model_dump() if given is not None else {}
        key = json.dumps([name, settings], sort_keys=True)
        if key not in self._providers:
            self._providers[key] = registry.create(name, settings)
        return self._providers[key]


def _tool_choice(choice: str, tools: Offer) -> str:
    if choice in ("auto", "none", "required"):
        return choice
    if choice not in tools.tools:
        raise ConfigError(
            f"tool choice '{choice}' does not match any enabled tools", path="assistant.tool_choice"
        )
    return f"tool:{choice}"


def _json(value: object) -> JsonValue:
    dump = getattr(value, "model_dump", None)
    return dump() if dump is not None else value  # type: ignore[return-value]
