"""Open the models for `jp.complete` with the settings of a folder, in a program or a worker.

Source: `docs/rows.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from pathlib import Path

from jp_nb.agent.provider import Provider
from jp_nb.config.aliases import get_aliases, parse_model_reference, resolve_model
from jp_nb.config.layers import merge_layers
from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_change import apply_change
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.validation import validate_config
from jp_nb.providers.scripts.scripted import ScriptedProvider
from jp_nb.session.configuration.requested_changes import (
    make_model_partial,
    read_requested_changes,
)
from jp_nb.session.configuration.run_overrides import apply_overrides
from jp_nb.session.configuration.whole_configuration import with_model
from jp_nb.session.model_access.cassettes import Cassettes
from jp_nb.session.model_access.provider_pool import ProviderPool
from jp_nb.session.rows.completion_models import ChosenModel, CompletionModels
from jp_nb.storage.configuration.config_files import ConfigFiles


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
