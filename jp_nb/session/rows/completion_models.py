"""Open the models for `jp.complete`, `jp.complete_all`, and `%%jp --each`, from any thread.

Their requests are no turns of a conversation. In a notebook, they use the settings of the active
conversation nevertheless (`session_models.py`). In a Python program or a worker process, the
settings are those of the current folder, the user, and the environment (`folder_models.py`).

A *cassette* is a file that records requests with their responses, and replays them later.

Source: `docs/rows.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import NamedTuple

from jp_nb.agent.model_requests.chat_model import ChatModel, make_model_parameters
from jp_nb.agent.provider import Provider
from jp_nb.config.aliases import resolve_model
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.providers_table import Llm
from jp_nb.config.tree.system_texts import list_system_texts
from jp_nb.session.model_access.provider_pool import ProviderPool
from jp_nb.session.model_access.ready_check import check_ready
from jp_nb.storage.configuration.config_files import ConfigFiles


class ChosenModel(NamedTuple):
    """A model and changed settings, as arguments of a function give them.

    `model` is None for the configured one, `system` None for the configured instructions.
    """

    model: str | None = None
    system: str | None = None
    cfg: tuple[str, ...] = ()


class OpenedModel(NamedTuple):
    """A model that can be asked.

    Attributes:
        model: The model, with its provider, instructions, and parameters.
        llm: The settings of all providers.
        has_cassette: True if a cassette records the requests, or answers them.
    """

    model: ChatModel
    llm: Llm
    has_cassette: bool = False

    def check_ready(self, text: str) -> None:
        """Check that the model can be asked `text`. Sends nothing.

        Raises:
            ConfigError: No model is configured.
            ProviderError: The key is missing.
        """
        check_ready(self.model.provider, self.model.model, text, self.llm)


class CompletionModels(ABC):
    """Opens models from any thread. A subclass knows the settings.

    A lock lets one thread at a time read the settings, and open or take providers.

    Attributes:
        files: The configuration files.
    """

    def __init__(self, files: ConfigFiles, pool: ProviderPool) -> None:
        self.files = files
        self._pool = pool
        self._lock = threading.RLock()

    def open(self, choice: ChosenModel) -> OpenedModel:
        """Return the chosen model.

        Raises:
            ConfigError: A setting is not valid, or there is no such model.
        """
        with self._lock:
            config = self._read_config(choice)
            return _open_model(self._pool, config, choice.system)

    @abstractmethod
    def _read_config(self, choice: ChosenModel) -> AppConfig:
        """Return the settings with the changes of `choice`."""

    def take_providers(self) -> list[Provider]:
        """Return the open providers, to close them."""
        with self._lock:  # a provider that another thread opens is closed as well
            return self._pool.take_all()


def _open_model(pool: ProviderPool, config: AppConfig, system: str | None) -> OpenedModel:
    """Return the model of `config`. `system` replaces its instructions; "" for none."""
    assistant = config.assistant
    model = resolve_model(assistant.model.id, config.providers.llm.aliases)
    provider = pool.open(model.provider, config.providers.llm)
    cassette = pool.cassette  # of the provider that was just opened

    texts = list_system_texts(assistant)
    if system is not None:
        texts = (system,) if system.strip() else ()

    opened = ChatModel(
        provider=provider,
        model=model.name,
        system=texts,
        parameters=make_model_parameters(assistant.model.parameters),
        request=assistant.request,
        provider_name=model.provider,
        is_replayed=cassette is not None and cassette.is_offline,
    )
    return OpenedModel(opened, config.providers.llm, has_cassette=cassette is not None)
