"""Open the models for `jp.complete` and its relatives, from any thread.

Their requests are no turns of a conversation. In a notebook, they use the settings of the active
conversation nevertheless (`SessionModels`). In a Python program or a worker process, the settings
are those of the current folder, the user, and the environment (`FolderModels`).

A model may be a *script*: a file with replies that replaces a model, for tests and examples. Its
model is `scripted/NAME`, and its file is `NAME.toml` in the folder. A script of the notebook's
folder needs the user's choice or consent (`FolderScripts`). A *cassette* is a file that records
requests with their responses, and replays them later.

Source: `docs/rows.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jp_nb.agent.model_requests.chat_model import ChatModel, make_model_parameters
from jp_nb.agent.provider import Provider
from jp_nb.config.aliases import get_aliases, parse_model_reference, resolve_model
from jp_nb.config.directives import Directive
from jp_nb.config.layers import merge_layers
from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_change import apply_change
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.providers_table import Llm
from jp_nb.config.tree.system_texts import list_system_texts
from jp_nb.config.validation import validate_config
from jp_nb.providers.scripts.scripted import ScriptedProvider
from jp_nb.record.stream import ConversationStream
from jp_nb.session.configuration.requested_changes import (
    make_model_partial,
    read_requested_changes,
    with_model,
)
from jp_nb.session.configuration.run_overrides import apply_overrides
from jp_nb.session.configuration.scripts import FolderScripts
from jp_nb.session.configuration.settings import Settings
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.model_access.cassettes import Cassettes
from jp_nb.session.model_access.provider_pool import ProviderPool, check_ready
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


class SessionModels(CompletionModels):
    """Opens models with the settings of the active conversation.

    `get_scripts` returns the scripts that turns may use; None before the first turn.
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
        self._own_scripts = FolderScripts(active)  # before the first turn

        # The settings of the active conversation, and the conversation that they were made for.
        self._settings: Settings | None = None
        self._stream: ConversationStream | None = None

    def _read_config(self, choice: ChosenModel) -> AppConfig:
        # The changes of `choice` are only drafted: they are not recorded in the conversation.
        directives = [Directive("cfg", text) for text in choice.cfg]
        draft = self._get_settings().draft(directives, model=choice.model)
        config = draft.config()

        if choice.model is not None:
            # The user has named the model, so it needs no other consent if it is a script.
            self._scripts.choose(choice.model, config.providers.llm.aliases)

        return config

    def _get_settings(self) -> Settings:
        stream = self._active.document.conversation
        if self._settings is None or self._stream is not stream:
            self._settings = self._active.make_settings(self.files)
            self._stream = stream

        return self._settings

    @property
    def _scripts(self) -> FolderScripts:
        return self._get_scripts() or self._own_scripts

    def _make_scripted(self) -> Provider:
        def read(path: Path) -> bytes:
            return self._scripts.read(path)  # looked up for each file, because a turn may begin

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
        """Return the settings in four steps, of which a later one overrides the earlier ones."""
        # 1. Files and environment variables, with the default model if they name none.
        partial = with_model(merge_layers(self.files.load_layers()))

        # 2. The `-c` options of `jp-nb run`, which a worker process inherits.
        run_options = apply_overrides({}, self.files)
        partial = merge_partials(partial, run_options)

        # 3. The changed settings of the call.
        for text in choice.cfg:
            partial = self._apply_setting(text, partial)

        # 4. The model of the call.
        if choice.model is not None:
            reference = parse_model_reference(choice.model)
            partial = merge_partials(partial, make_model_partial(reference, partial))

        config = validate_config(partial)
        model = resolve_model(config.assistant.model.id, get_aliases(partial))
        config.providers.llm.require(model.provider)
        return config

    def _apply_setting(self, text: str, partial: Partial) -> Partial:
        # `text` is an assignment, a JSON object, or the name of a configuration file.
        changes = read_requested_changes(text, partial, self.files)
        for change, _file in changes:
            partial = apply_change(partial, change)

        return partial

    def _make_scripted(self) -> Provider:
        return ScriptedProvider(folders=[self.files.folder])


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
