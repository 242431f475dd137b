"""Values written into the user's or the workspace's configuration file, so that they count.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from jp_nb.config.directives import Directive
from jp_nb.config.layers import REGISTRATIONS, USER_FILE, WORKSPACE_FILE, Layer, fold
from jp_nb.config.masking import is_secret
from jp_nb.config.model_aliases import resolve_model
from jp_nb.config.partial import Change
from jp_nb.config.paths import parse_path
from jp_nb.config.validation import validate
from jp_nb.record.claims import claims_for
from jp_nb.record.draft import Draft
from jp_nb.record.projection import Projection
from jp_nb.record.provenance import BASE, CONVERSATION
from jp_nb.workspace.config_files import ConfigFiles
from jp_nb.workspace.config_writing import ConfigFile


def write_config_file(
    where: Literal["user", "workspace"],
    directives: Sequence[Directive],
    projection: Projection,
    files: ConfigFiles,
) -> list[str]:
    """Write values into the user's file, or the workspace's, and let them count at once.

    What the conversation of `projection` says about them is taken back. Returns what the person
    should be told.

    Raises:
        ConfigError: If one is malformed, or the result is no valid configuration.
        StorageError: If the file cannot be read or written.
    """
    file = ConfigFile(files.file_of(where), USER_FILE if where == "user" else WORKSPACE_FILE)
    for directive in directives:
        file.change(directive)
    _check_with(file.layer(), projection.layers())
    waits = files.awaits_consent(where)
    file.save()
    if not waits:  # what else is in it counted already
        files.agree_to(where)
    return [f"written to {file.path}: {', '.join(file.paths)}", *_let_count(file, projection)]


def _check_with(layer: Layer, layers: list[Layer]) -> None:
    """Raise what would be wrong with the configuration if `layer` were its file's."""
    old = next((n for n, other in enumerate(layers) if other.file == layer.file), None)
    if old is not None:
        layers[old] = layer
    else:  # above the weaker kinds
        kinds = [REGISTRATIONS, USER_FILE, *([WORKSPACE_FILE] * (layer.name != USER_FILE))]
        layers.insert(sum(other.name in kinds for other in layers), layer)
    aliases = validate(fold(layers), layer=layer.name, file=layer.file).providers.llm.aliases
    resolve_model(validate(layer.partial).assistant.model.id, aliases)


def _let_count(file: ConfigFile, projection: Projection) -> Iterator[str]:
    """Take back what the conversation says of what was written, and say what there is to say."""
    projection.below_changed()
    draft = Draft(projection)
    for path in file.paths:
        if is_secret(parse_path(path)):
            yield f"{path} looks like a secret: the file now contains it as plain text"
        change = Change(unsets=(path,), uncovers=frozenset({path}))
        draft.add(change, claims_for(change, None))
    draft.config()
    draft.record()
    for path, said in projection.explain(file.paths).items():
        below = [x for x in said if x.source not in (BASE, CONVERSATION)]
        if below and below[-1].file != str(file.path):
            stronger = ", ".join(filter(None, (below[-1].source, below[-1].file)))
            yield f"{path} has another value here, from {stronger}, which overrides that file"
