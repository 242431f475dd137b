"""Decide which scripts of the notebook's folder may replace the model.

A script calls the user's tools, as a model does. So a script that came with a folder is used only
if the user chose it in this conversation, or consented to its content. Scripts of the package need
neither. In a headless run, all scripts apply.

Source: `docs/providers.md`, `docs/security.md`, `docs/decisions.md` D199.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.config.aliases import MODEL_PATH, Aliases, get_aliases, resolve_model
from jp_nb.config.partials.partial import get_path
from jp_nb.errors import ConfigError
from jp_nb.providers.scripts.script_files import MAX_SCRIPT_BYTES
from jp_nb.providers.scripts.script_format import SCRIPTED_NAME
from jp_nb.record.changes.config_step import Step
from jp_nb.session.conversation import ActiveConversation
from jp_nb.storage.files import ForeignFileError, read_owned_file

_MODEL_SETTINGS: Final = (
    MODEL_PATH,
    "conversation.inquiry",
    "conversation.compaction",
    "conversation.tools",
    "providers.llm.aliases",
)
"""Settings that can name a model."""


class FolderScripts:
    """Scripts of the notebook's folder, of which the user chose some.

    To *choose* a script is to name it as a model: with `-m`, or in a changed setting.
    """

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        self._chosen: set[str] = set()

    def choose(self, model: JsonValue, aliases: Aliases) -> None:
        """Use the script `model`, which the user has named, from now on in this kernel."""
        self._chosen.update(_find_scripts(model, aliases))

    def choose_changed(self, steps: Iterable[Step]) -> None:
        """Use the scripts that these changes of the user select."""
        for step in steps:
            aliases = get_aliases(step.after)
            for path in _MODEL_SETTINGS:
                if get_path(step.change.delta, path) is not None:
                    self._chosen.update(_find_scripts(get_path(step.after, path), aliases))

    def read(self, path: Path) -> bytes:
        """Return the content of the script file at `path`, in the notebook's folder.

        Raises:
            ConfigError: The file is not owned, is too long, or needs the user's consent.
            OSError: It cannot be read.
        """
        name = path.name.removesuffix(".toml")
        files = self._active.files
        try:
            content = read_owned_file(path, max_bytes=MAX_SCRIPT_BYTES)
        except ForeignFileError as exc:
            files.notices.add(f"the script {name} is not used: {exc}")
            raise ConfigError(f"the script is not used: {exc}", path=MODEL_PATH) from exc

        # A script that the user chose, in this kernel or in the record, needs no other consent.
        self.choose_changed(self._list_own_changes())
        shown_value = (
            "script",
            f"replies that replace the model {SCRIPTED_NAME}/{name}: {len(content)} bytes",
        )
        # Without the consent, `check` is False, and notes the file for `%jp trust --workspace`. In
        # a headless run, it is always True.
        if name in self._chosen or files.consents.check(path, content, [shown_value]):
            return content

        need = f"the script {path} came with this folder and needs your consent"
        files.notices.add(f"{need}: `%jp trust --workspace`")
        raise ConfigError(
            f"{need}. Agree to its content with `%jp trust --workspace`, or choose it here with "
            f"`%%jp -m {SCRIPTED_NAME}/{name}`",
            path=MODEL_PATH,
        )

    def _list_own_changes(self) -> Iterator[Step]:
        """Yield the recorded changes of settings that the user made.

        In an untrusted record, the first `untrusted_count` changes may be by someone else.
        """
        projection = self._active.settings.projection
        for step in projection.steps():
            is_base_config = step.delta is None
            if not is_base_config and step.number >= projection.untrusted_count:
                yield step


def _find_scripts(value: JsonValue, aliases: Aliases) -> Iterator[str]:
    """Yield the names of the scripts that `value`, a model or a table with models, names."""
    match value:
        case str():
            try:
                model = resolve_model(value, aliases)
            except ConfigError:
                return  # a text that is no model
            if model.provider == SCRIPTED_NAME:
                yield model.name
        case {"provider": str(provider), "name": str(name)} if provider == SCRIPTED_NAME:
            yield name
        case dict():
            for inner in value.values():
                yield from _find_scripts(inner, aliases)
        case list():
            for inner in value:
                yield from _find_scripts(inner, aliases)
