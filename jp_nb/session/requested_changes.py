"""What `-c` and `-m` ask for: from their texts to changes of the configuration.

Source: `docs/configuration.md`, `docs/guide.md`.
"""

from __future__ import annotations

from typing import Any

from jp_nb.config.assignments import FILE_ONLY, is_assignment, parse_assignment
from jp_nb.config.layers import Layer
from jp_nb.config.model_aliases import aliases_in, resolve_model, resolve_partial
from jp_nb.config.partial import Change, Partial, apply, build, get_path, merge
from jp_nb.errors import ConfigError, UsageError
from jp_nb.workspace.config_files import ConfigFiles

MODEL = "assistant.model.id"
CASSETTE = "providers.cassette"


def requested_changes(
    text: str, current: Partial, files: ConfigFiles
) -> list[tuple[Change, Layer | None]]:
    """Return the changes that `-c TEXT` asks for under `current`, each with the file it is from.

    Raises:
        ConfigError: If it is no assignment, no JSON object and no configuration file's name, or
            sets what no conversation may say.
        UsageError: If it is empty.
    """
    if not text.strip():
        raise UsageError("-c takes path=value, a JSON object, or the name of a configuration file")
    if is_assignment(text):
        change = parse_assignment(text, current)
        _no_business_of_conversations(change.delta)
        change = Change(_resolved(change.delta, apply(current, change)), change.unsets)
        return [(change, None)]
    found: list[tuple[Change, Layer | None]] = []
    for layer in files.named(text, load_paths(current)):
        delta = {key: value for key, value in layer.partial.items() if key not in FILE_ONLY}
        _no_business_of_conversations(delta)
        change = Change(_resolved(delta, merge(current, delta)))
        current = apply(current, change)
        found.append((change, layer))
    return found


def _no_business_of_conversations(delta: Partial) -> None:
    """Raise if `delta` says of a conversation what none may say (D109)."""
    if get_path(delta, CASSETTE) is not None:
        raise ConfigError(
            "a conversation cannot set this. Use `%jp cassette` for this kernel, "
            "options of `jp-nb run` for a run, or `%jp config` with `--user` or "
            "`--workspace` for a file",
            path=CASSETTE,
        )


def load_paths(current: Partial) -> list[str]:
    """Return the folders in which configuration files are looked for by name."""
    found: list[str] = get_path(current, "config_load_paths") or []
    return found


def model_set(reference: Any, current: Partial) -> Partial:
    """Return a partial that sets the model which `reference` names under `current`'s aliases.

    Raises:
        ConfigError: If it names none.
    """
    model = resolve_model(reference, aliases_in(current))
    return build(MODEL, {"provider": model.provider, "name": model.name})


def _resolved(delta: Partial, current: Partial) -> Partial:
    """Return `delta` with its models resolved: an alias may mean another one later."""
    return resolve_partial(delta, aliases_in(current))
