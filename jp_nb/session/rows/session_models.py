"""Open the models for `jp.complete` with the settings of the notebook's active conversation.

A model may be a *script*: a file with replies that replaces a model, for tests and examples. Its
model is `scripted/NAME`, and its file is `NAME.toml` in the folder. A script of the notebook's
folder needs the user's choice or consent (`FolderScripts`).

Source: `docs/rows.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jp_nb.agent.provider import Provider
from jp_nb.config.directives import Directive
from jp_nb.config.tree.app import AppConfig
from jp_nb.providers.scripts.scripted import ScriptedProvider
from jp_nb.record.stream import ConversationStream
from jp_nb.session.configuration.scripts import FolderScripts
from jp_nb.session.configuration.settings import Settings
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.model_access.provider_pool import ProviderPool
from jp_nb.session.rows.completion_models import ChosenModel, CompletionModels
from jp_nb.storage.configuration.config_files import ConfigFiles


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
