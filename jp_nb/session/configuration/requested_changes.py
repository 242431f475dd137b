"""Changes that the user requests with `-c` and `-m`, in a cell or for a run.

A *partial* configuration has only the settings that its source sets. A `Change` merges a partial
one (`delta`) into the configuration, and unsets paths (`unsets`).

Source: `docs/configuration.md`, `docs/decisions.md` D34.
"""

from __future__ import annotations

from typing import Any

from jp_nb.config.aliases import MODEL_PATH, get_aliases, resolve_model, resolve_references
from jp_nb.config.assignments import FILE_ONLY_SETTINGS, is_assignment, parse_assignment
from jp_nb.config.layers import Layer
from jp_nb.config.partials.partial import Partial, build_partial, get_path
from jp_nb.config.partials.partial_change import Change, apply_change
from jp_nb.errors import ConfigError, UsageError
from jp_nb.storage.configuration.config_files import ConfigFiles

CASSETTE_TABLE = "providers.cassette"
LOAD_PATHS = "config_load_paths"


def read_requested_changes(
    text: str, current: Partial, files: ConfigFiles
) -> list[tuple[Change, Layer | None]]:
    """Return the changes of `-c TEXT`, each with its file, if it has one.

    They are to be applied to `current`, the configuration so far, one after the other: a name may
    stand for several files. The changes have models in place of aliases, because an alias can have
    another meaning later. A file may define the aliases that it uses itself.

    Raises:
        ConfigError: It is not an assignment, a JSON object, or the name of a configuration file, or
            a conversation may not set its path.
        UsageError: It is empty.
    """
    if not text.strip():
        raise UsageError("-c takes path=value, a JSON object, or the name of a configuration file")

    found: list[tuple[Change, Layer | None]]  # as they are written, with aliases
    if is_assignment(text):
        found = [(parse_assignment(text, current), None)]
    else:
        layers = files.load_named(text, get_path(current, LOAD_PATHS) or [])
        found = [(Change(without_file_settings(layer.partial)), layer) for layer in layers]

    changes: list[tuple[Change, Layer | None]] = []
    for change, source in found:
        # A record that someone else wrote must not select recorded responses (D109).
        if get_path(change.delta, CASSETTE_TABLE) is not None:
            raise ConfigError(
                "a conversation cannot set this. Use `%jp cassette` for this kernel, "
                "options of `jp-nb run` for a run, or `%jp config` with `--user` or "
                "`--workspace` for a file",
                path=CASSETTE_TABLE,
            )

        # The change may define aliases, so it is applied first. That is slow, and only needed if it
        # uses aliases, which are unresolved without any definition, or if later files follow.
        delta, used_aliases = resolve_references(change.delta, {})
        if used_aliases or len(found) > 1:
            current = apply_change(current, change)
            delta, _ = resolve_references(change.delta, get_aliases(current))
        changes.append((Change(delta, change.unsets), source))

    return changes


def make_model_partial(reference: Any, current: Partial) -> Partial:
    """Return a partial configuration with the model of `reference`, which may be an alias."""
    model = resolve_model(reference, get_aliases(current))
    return build_partial(MODEL_PATH, {"provider": model.provider, "name": model.name})


def without_file_settings(partial: Partial) -> Partial:
    """Return `partial` without settings that only files may have, such as `extends`."""
    return {key: value for key, value in partial.items() if key not in FILE_ONLY_SETTINGS}
