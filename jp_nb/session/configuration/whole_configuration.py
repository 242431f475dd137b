"""A whole configuration, merged of all layers, as a conversation begins with it.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from jp_nb.config.aliases import MODEL_PATH
from jp_nb.config.early_constants import DEFAULT_MODEL
from jp_nb.config.partials.partial import Partial, get_path
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.partials.partial_strategies import make_replacement
from jp_nb.session.configuration.requested_changes import (
    make_model_partial,
    without_file_settings,
)


def with_model(partial: Partial) -> Partial:
    """Return `partial` with its model resolved, or with the default model."""
    return merge_partials(
        partial, make_model_partial(get_path(partial, MODEL_PATH) or DEFAULT_MODEL, partial)
    )


def to_store(partial: Partial) -> Partial:
    """Return `partial` as a record stores it.

    Its lists and tables replace those of lower layers, instead of being merged with them. Settings
    that only files may have are omitted.
    """
    return without_file_settings(make_replacement(partial))
