"""Open the models of requests outside of a conversation, from any thread.

With a session, the settings are those of its conversation. Without one, as in a script or a
worker process, they are those of the current folder, the user, and the environment.

Source: `docs/rows.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jp_nb.agent.chat_model import ChatModel, make_model_parameters
from jp_nb.agent.provider import Provider
from jp_nb.config.aliases import get_aliases, parse_model_reference, resolve_model
from jp_nb.config.directives import Directive
from jp_nb.config.layers import merge_layers
from jp_nb.config.partial_change import apply_change
from jp_nb.config.partial_merge import merge_partials
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.providers_table import Llm
from jp_nb.config.validation import validate_config
from jp_nb.providers.scripted import ScriptedProvider
from jp_nb.record.stream import ConversationStream
from jp_nb.session.base_config import (
    apply_overrides,
    model_partial,
    requested_changes,
    with_model,
)
from jp_nb.session.cassettes import Cassettes
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.provider_pool import ProviderPool, check_ready
from jp_nb.session.scripts import FolderScripts
from jp_nb.session.settings import Settings
from jp_nb.storage.config_files import ConfigFiles


class ChosenModel(NamedTuple):
    """A model and changed settings, as arguments of a function give them.

    `model` is None for the configured one, `system` None for the configured instructions.
    """

    model: str | None = None
    system: str | None = None
    cfg: tuple[str, ...] = ()


class OpenedModel(NamedTuple):
    """A model, and the settings of all providers. `has_cassette`: of the running notebook."""

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
        return self._pool.take_all()


class SessionModels(CompletionModels):
    """Opens models with the settings of the active conversation.

    `get_scripts` returns the scripts that the user chose for turns; None before the first turn.
    `hide` removes secrets from text that is recorded on a cassette.
    """

    def __init__(
        self,
        active: ActiveConversation,
        get_scripts: Callable[[], FolderScripts | None],
        hide: Callable[[str], str],
    ) -> None:
        files = ConfigFiles(active.files.folder, active.files.trust)
        super().__init__(files, ProviderPool(lambda: active.cassettes, self._make_scripted, hide))
        self._active = active
        self._get_scripts = get_scripts
        self._own_scripts = FolderScripts(active)
        self._known: tuple[ConversationStream, Settings] | None = None

    def _read_config(self, choice: ChosenModel) -> AppConfig:
        stream = self._active.document.conversation
        if self._known is None or self._known[0] is not stream:
            self._known = stream, self._active.make_settings(self.files)

        directives = [Directive("cfg", text) for text in choice.cfg]
        draft = self._known[1].draft(directives, model=choice.model)
        config = draft.config()
        if choice.model is not None:
            self._scripts.choose(choice.model, config.providers.llm.aliases)
        return config

    @property
    def _scripts(self) -> FolderScripts:
        return self._get_scripts() or self._own_scripts

    def _make_scripted(self) -> Provider:
        def read(path: Path) -> bytes:
            return self._scripts.read(path)

        return ScriptedProvider(folders=[self.files.folder], read=read)


class FolderModels(CompletionModels):
    """Opens models with the settings of `folder`, the user, and the environment.

    The program that calls this is the user's own, so all files of its folder apply.
    """

    def __init__(self, folder: Path) -> None:
        files = ConfigFiles(folder)
        cassettes = Cassettes(files, None)
        super().__init__(files, ProviderPool(lambda: cassettes, self._make_scripted))

    def _read_config(self, choice: ChosenModel) -> AppConfig:
        partial = with_model(merge_layers(self.files.layers()))
        partial = merge_partials(partial, apply_overrides({}, self.files))

        for text in choice.cfg:
            for change, _ in requested_changes(text, partial, self.files):
                partial = apply_change(partial, change)
        if choice.model is not None:
            reference = parse_model_reference(choice.model)
            partial = merge_partials(partial, model_partial(reference, partial))

        config = validate_config(partial)
        config.providers.llm.require(
            resolve_model(config.assistant.model.id, get_aliases(partial)).provider
        )
        return config

    def _make_scripted(self) -> Provider:
        return ScriptedProvider(folders=[self.files.folder])


def _open_model(pool: ProviderPool, config: AppConfig, system: str | None) -> OpenedModel:
    assistant = config.assistant
    model = resolve_model(assistant.model.id, config.providers.llm.aliases)
    provider = pool.open(model.provider, config.providers.llm)

    texts = assistant.system_texts()
    if system is not None:
        texts = (system,) if system.strip() else ()

    opened = ChatModel(
        provider=provider,
        model=model.name,
        system=texts,
        parameters=make_model_parameters(assistant.model.parameters),
        request=assistant.request,
        provider_name=model.provider,
        is_replayed=pool.cassette is not None and pool.cassette.is_offline,
    )
    return OpenedModel(opened, config.providers.llm, pool.cassette is not None)
