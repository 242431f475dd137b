"""Settings of a conversation before its first change: configuration files and options of the run.

`%load_ext` loads this module if there is any configuration, so it imports little. Invalid settings
are a `ConfigError`.

Source: `docs/configuration.md`, `docs/record.md`, `docs/decisions.md` D8, D34.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from functools import lru_cache
from typing import Any

from jp_nb.config.access_rule_checks import find_rule_warnings, iter_rules
from jp_nb.config.aliases import MODEL_PATH, get_aliases, resolve_model, resolve_references
from jp_nb.config.assignments import FILE_ONLY_SETTINGS, is_assignment, parse_assignment
from jp_nb.config.authority import strip_untrusted
from jp_nb.config.directives import DEFAULT_MODEL, Directive
from jp_nb.config.layers import Layer, merge_layers
from jp_nb.config.partials.partial import Partial, build_partial, get_path
from jp_nb.config.partials.partial_change import Change, apply_change
from jp_nb.config.partials.partial_merge import make_replacement, merge_partials, strip_strategies
from jp_nb.config.validation import validate_config
from jp_nb.errors import ConfigError, UsageError
from jp_nb.storage import environment
from jp_nb.storage.configuration.config_files import ConfigFiles

CASSETTE_TABLE = "providers.cassette"
LOAD_PATHS = "config_load_paths"


def read_requested_changes(
    text: str, current: Partial, files: ConfigFiles
) -> list[tuple[Change, Layer | None]]:
    """Return the changes of `-c TEXT` on top of `current`, each with its file.

    Raises:
        ConfigError: It is not an assignment, a JSON object, or the name of a configuration file, or
            a conversation may not set its path.
        UsageError: It is empty.
    """
    if not text.strip():
        raise UsageError("-c takes path=value, a JSON object, or the name of a configuration file")

    found: list[tuple[Change, Layer | None]]
    if is_assignment(text):
        found = [(parse_assignment(text, current), None)]
    else:
        layers = files.named(text, get_path(current, LOAD_PATHS) or [])
        found = [(Change(_without_file_settings(layer.partial)), layer) for layer in layers]

    changes: list[tuple[Change, Layer | None]] = []
    for change, source in found:
        if get_path(change.delta, CASSETTE_TABLE) is not None:  # D109
            raise ConfigError(
                "a conversation cannot set this. Use `%jp cassette` for this kernel, "
                "options of `jp-nb run` for a run, or `%jp config` with `--user` or "
                "`--workspace` for a file",
                path=CASSETTE_TABLE,
            )

        # Models in place of aliases, because an alias can have another meaning later.
        delta, aliases = resolve_references(change.delta, {})
        if aliases or len(found) > 1:
            current = apply_change(current, change)
            delta, _ = resolve_references(change.delta, get_aliases(current))
        changes.append((Change(delta, change.unsets), source))

    return changes


def make_model_partial(reference: Any, current: Partial) -> Partial:
    """Return a partial configuration with the model of `reference`, which may be an alias."""
    model = resolve_model(reference, get_aliases(current))
    return build_partial(MODEL_PATH, {"provider": model.provider, "name": model.name})


def make_base_config(files: ConfigFiles) -> Partial:
    """Return the base configuration of a new conversation: the layers and a model (D8).

    It has no settings with authority, which stay in the files and variables of their owner. A
    scripted model is stored, and only a trusted record may select a script of the folder.
    """
    return _make_base_config(tuple(files.layers()))


@lru_cache(maxsize=4)
def _make_base_config(layers: tuple[Layer, ...]) -> Partial:
    partial = with_model(merge_layers(layers))
    validate_config(partial)
    stored = strip_untrusted(to_store(partial), "record")[0]

    model = get_path(partial, MODEL_PATH)
    if isinstance(model, dict) and model.get("provider") == "scripted":
        stored = merge_partials(stored, build_partial(MODEL_PATH, model))
    return stored


def continues_headless(files: ConfigFiles) -> bool:
    """Return True if headless runs continue a conversation (`record.headless`, D18)."""
    partial = merge_layers(files.load_valid_layers()[0])
    return bool(get_path(partial, "record.headless") == "continue")


def is_reproducible(files: ConfigFiles) -> bool:
    """Return True if headless runs are reproducible (`record.reproducible`)."""
    below = merge_layers(files.load_valid_layers()[0])
    with suppress(ConfigError):  # reported when the conversation begins
        below = merge_partials(below, apply_overrides({}, files))

    return get_path(below, "record.reproducible") is True


def keeps_journal(files: ConfigFiles, base: Partial) -> bool:
    """Return True if the journal is on (`record.journal`) for `base` on top of `files`."""
    below = merge_layers(files.layers())
    return get_path(merge_partials(below, base), "record.journal") is not False


def to_store(partial: Partial) -> Partial:
    """Return `partial` as stored in a record: replacing values, without settings of files."""
    return _without_file_settings(make_replacement(partial))


def _without_file_settings(partial: Partial) -> Partial:
    return {key: value for key, value in partial.items() if key not in FILE_ONLY_SETTINGS}


def with_model(partial: Partial) -> Partial:
    """Return `partial` with its model resolved, or with the default model."""
    return merge_partials(
        partial, make_model_partial(get_path(partial, MODEL_PATH) or DEFAULT_MODEL, partial)
    )


def read_overrides() -> list[Directive]:
    """Return the `-c` arguments of the runner."""
    value = json.loads(os.environ.get(environment.OVERRIDES_VARIABLE) or "[]")
    return [Directive("cfg", str(item)) for item in value]


def apply_overrides(base: Partial, files: ConfigFiles) -> Partial:
    """Return `base` with the arguments of the run (D34)."""
    if not (directives := read_overrides()):
        return base

    below = merge_layers(files.layers())
    for directive in directives:
        for change, _ in read_requested_changes(directive.text, merge_partials(below, base), files):
            base = apply_change(base, change)

    validate_config(merge_partials(below, base))
    return base


def list_registered_functions() -> Partial:
    """Return the default settings of the Python tools of this kernel, by name."""
    if "jp_nb.toolkit.function_tools.python" not in sys.modules:  # there are no tools
        return {}
    from jp_nb.toolkit.function_tools.python import REGISTRY

    return {name: dict(tool.registration) for name, tool in REGISTRY.all().items()}


def find_odd_rules(files: ConfigFiles, base: Partial) -> list[str]:
    """Return warnings about access rules in `base` on top of `files`, without invalid files."""
    functions: Partial = {"conversation": {"tools": list_registered_functions()}}
    below = merge_partials(functions, merge_layers(files.load_valid_layers()[0]))
    return find_odd_rules_in(merge_partials(below, base))


def find_odd_rules_in(partial: Partial) -> list[str]:
    """Return warnings about access rules in `partial`."""
    warnings: list[str] = []
    for tool, rules in iter_rules(strip_strategies(partial)):
        warnings += find_rule_warnings(tool, rules)
    return warnings
