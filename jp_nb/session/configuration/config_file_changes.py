"""Write settings to the configuration file of the user or of the workspace.

`%jp config --user KEY=VALUE` and `%jp mcp import` use it. The file must be valid together with all
other layers before it is written.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from jp_nb.config.aliases import resolve_model
from jp_nb.config.directives import Directive
from jp_nb.config.layers import (
    MCP_FILE_LAYER,
    REGISTRATIONS_LAYER,
    USER_FILE_LAYER,
    WORKSPACE_FILE_LAYER,
    Layer,
    merge_layers,
)
from jp_nb.config.masked_settings import mask_secrets
from jp_nb.config.partials.partial import get_path
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.setting_paths import parse_path
from jp_nb.config.validation import validate_config
from jp_nb.record.changes.config_draft import Draft
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.changes.provenance import BASE, CONVERSATION
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.configuration.config_writer import ConfigFile


def write_config_file(
    where: Literal["user", "workspace"],
    directives: Sequence[Directive],
    projection: Projection,
    files: ConfigFiles,
) -> list[str]:
    """Write values to the file of the user or the workspace, effective at once; return notices.

    The conversation's values at the same paths are removed.

    Raises:
        ConfigError: A value or the resulting configuration is not valid.
        StorageError: The file cannot be read or written.
    """
    layer_name = USER_FILE_LAYER if where == "user" else WORKSPACE_FILE_LAYER
    file = ConfigFile(files.workspace.find_config_file(where), layer_name)

    for directive in directives:
        file.change(directive)
    _check_layer(file.layer(), projection.layers())

    # The content of a file applies only if the user consented to it (`file_consents.py`). The user
    # has written the new content. But if the old content still waits for the consent, so does the
    # new one, which contains it.
    awaited_consent = files.awaits_consent(where)
    file.save()
    if not awaited_consent:
        files.store_consent_to_written(where)

    _unset_in_conversation(file.paths, projection)

    notices = [f"written to {file.path}: {', '.join(file.paths)}"]
    for path in _list_secret_paths(file):
        notices.append(f"{path} looks like a secret: the file now contains it as plain text")
    return notices + _list_override_notices(file, projection)


def _check_layer(layer: Layer, layers: list[Layer]) -> None:
    """Raise `ConfigError` if the configuration is not valid with `layer` for its file.

    `layers` are those of the configuration, by increasing priority. `layer` replaces the one of its
    file. That of a new file is inserted above the layers with less priority.
    """
    files = [other.file for other in layers]
    if layer.file in files:
        layers[files.index(layer.file)] = layer
    else:
        weaker = [REGISTRATIONS_LAYER, MCP_FILE_LAYER, USER_FILE_LAYER]
        if layer.name != USER_FILE_LAYER:
            weaker.append(WORKSPACE_FILE_LAYER)
        weaker_count = sum(other.name in weaker for other in layers)
        layers.insert(weaker_count, layer)

    config = validate_config(merge_layers(layers), layer=layer.name, file=layer.file)
    # The model of the file may be an alias. An unknown one raises an error.
    resolve_model(validate_config(layer.partial).assistant.model.id, config.providers.llm.aliases)


def _list_secret_paths(file: ConfigFile) -> list[str]:
    """Return the changed paths whose values contain secrets. A reference to one is no secret."""
    settings = file.layer().partial
    found: list[str] = []
    for path in file.paths:
        value = get_path(settings, path)
        if mask_secrets(value, parse_path(path)) != value:
            found.append(path)

    def has_setting(table: str) -> bool:
        return any(path.startswith(f"{table}.") for path in found)

    # A table is not named beside its own setting.
    return [path for path in found if not has_setting(path)]


def _unset_in_conversation(paths: Sequence[str], projection: Projection) -> None:
    """Remove the conversation's values at `paths`, which would override the written file."""
    projection.reload_layers()
    draft = Draft(projection)
    for path in paths:
        # None: no source owns the change. Uncovered, the path gets the value of the layers below,
        # and not the default.
        draft.add_from(None, Change(unsets=(path,), uncovers=frozenset({path})))
    draft.config()  # validates it
    draft.record()


def _list_override_notices(file: ConfigFile, projection: Projection) -> list[str]:
    """Return a notice for each path of the written file that a layer above it also sets."""
    notices: list[str] = []
    for path, sources in projection.explain(file.paths).items():
        outside = [source for source in sources if source.source not in (BASE, CONVERSATION)]
        if outside and outside[-1].file != str(file.path):
            stronger = outside[-1].place
            notices.append(
                f"{path} has another value here, from {stronger}, which overrides that file"
            )
    return notices
