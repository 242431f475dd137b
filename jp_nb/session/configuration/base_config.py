"""Settings of a conversation before its first change: configuration files and options of the run.

`%load_ext` loads this module if there is any configuration, so it imports little. Invalid settings
are a `ConfigError`.

Source: `docs/configuration.md`, `docs/record.md`, `docs/decisions.md` D8, D34.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache

from jp_nb.config.aliases import MODEL_PATH
from jp_nb.config.layers import Layer, merge_layers
from jp_nb.config.partials.partial import Partial, build_partial, get_path
from jp_nb.config.partials.partial_change import apply_change
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.stripped_settings import strip_untrusted
from jp_nb.config.validation import validate_config
from jp_nb.errors import ConfigError
from jp_nb.session.configuration.requested_changes import read_requested_changes
from jp_nb.session.configuration.run_overrides import read_overrides
from jp_nb.session.configuration.whole_configuration import to_store, with_model
from jp_nb.storage.configuration.config_files import ConfigFiles


def make_base_config(files: ConfigFiles) -> Partial:
    """Return the base configuration of a new conversation: the layers and a model (D8).

    It has no settings with authority, which only the user may set, such as the command of a server:
    they stay in the files and variables of their owner. The exception is a scripted model, which
    replays a file with prepared replies: it is stored, but only the record that the user trusts may
    select a script of the notebook's folder.
    """
    return _make_base_config(tuple(files.load_layers()))


@lru_cache(maxsize=4)
def _make_base_config(layers: tuple[Layer, ...]) -> Partial:
    partial = with_model(merge_layers(layers))
    validate_config(partial)
    # Without the settings that an untrusted record may not set.
    stored, _refused = strip_untrusted(to_store(partial), "record")

    # A scripted model is one of these, and is stored nevertheless.
    model = get_path(partial, MODEL_PATH)
    if isinstance(model, dict) and model.get("provider") == "scripted":
        stored = merge_partials(stored, build_partial(MODEL_PATH, model))
    return stored


def continues_headless(files: ConfigFiles) -> bool:
    """Return True if headless runs continue a conversation (`record.headless`, D18)."""
    return bool(get_path(_merge_with_options(files), "record.headless") == "continue")


def is_reproducible(files: ConfigFiles) -> bool:
    """Return True if headless runs are reproducible (`record.reproducible`)."""
    return get_path(_merge_with_options(files), "record.reproducible") is True


def _merge_with_options(files: ConfigFiles) -> Partial:
    """Return the settings before a conversation begins: the valid layers, and options of the run.

    An option that is not valid is left out here, and reported when the conversation begins.
    """
    partial = merge_layers(files.load_valid_layers()[0])
    for directive in read_overrides():
        with suppress(ConfigError):
            for change, _file in read_requested_changes(directive.text, partial, files):
                partial = apply_change(partial, change)
    return partial


def keeps_journal(files: ConfigFiles, base: Partial) -> bool:
    """Return True if the journal is on (`record.journal`) for `base` on top of `files`.

    `base` has the options of the run already.
    """
    below = merge_layers(files.load_layers())
    return get_path(merge_partials(below, base), "record.journal") is not False
