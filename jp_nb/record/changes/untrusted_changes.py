"""Find the settings of an untrusted record that do not apply, for warnings and for `%jp trust`.

A record that someone else may have written cannot set all settings (`config_history.py`).
`Projection.ignored` has those that do not apply, by path, and None for a path that was to be unset.
A key of it may also be a note, such as `(reset)`, which is no path.

Source: `docs/record.md`, `docs/security.md`.
"""

from __future__ import annotations

from pydantic import JsonValue

from jp_nb.config.layers import merge_layers
from jp_nb.config.partials.partial import Partial, build_partial, get_path
from jp_nb.config.partials.partial_diff import diff_partials
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.config.partials.setting_leaves import iter_settings
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.changes.stored_changes import is_note


def find_untrusted_changes(projection: Projection) -> dict[str, JsonValue]:
    """Return the ignored settings of the record that differ from the user's files, by path.

    The user is warned of them when the notebook is opened.
    """
    user_settings = strip_strategies(merge_layers(projection.layers()))
    return {
        path: value
        for path, value in projection.ignored.items()
        if _differs(path, value, user_settings)
    }


def _differs(path: str, value: JsonValue, user_settings: Partial) -> bool:
    """Return True if an ignored `value` of `Projection.ignored` would change a setting."""
    if value is None or is_note(path):
        return True

    # Compared as settings, because strategies within the value are found only by its path.
    ignored = strip_strategies(build_partial(path, value))
    return ignored != build_partial(path, get_path(user_settings, path))


def find_changes_if_trusted(projection: Projection) -> dict[str, JsonValue]:
    """Return the settings that would change if the record were trusted, by path; None if unset.

    `%jp trust` shows them before the user confirms. Ignored settings that later changes override
    are included. The changes are applied again as in a trusted record, because the ignored changes
    alone do not show the result.
    """
    changed = find_untrusted_changes(projection)
    if not projection.ignored:
        return changed

    trusted = projection.if_trusted()
    after = trusted.partial()
    change = diff_partials(projection.partial(), after)

    changed |= dict.fromkeys(change.unsets)  # None: it would be unset
    changed |= {path: get_path(after, path) for path, _ in iter_settings(change.delta)}

    # The notes of changes that are too many to be applied even here.
    return changed | dict(trusted.ignored)
