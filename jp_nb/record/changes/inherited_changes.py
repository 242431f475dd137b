"""Find the settings of a conversation that the next conversation of the notebook inherits.

`%jp new --keep-config` copies all of them (`make_own_result`). Every new conversation inherits the
user's `providers`, so that its requests go to the same host (`make_user_settings`).

A *projection* has all configuration changes of a conversation (`config_history.py`). A `Step` is
one of them, with the merged settings `below` the conversation and `after` the change.

Source: `docs/record.md`, `docs/decisions.md` D13.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import takewhile

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial, is_wrapper
from jp_nb.config.partials.partial_change import Change, apply_change
from jp_nb.config.partials.partial_diff import diff_partials
from jp_nb.config.partials.setting_leaves import select_settings
from jp_nb.config.schema import SchemaNode
from jp_nb.config.setting_paths import PathKeys, format_path, parse_path
from jp_nb.record.changes.changed_paths import ChangedPaths
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.changes.config_step import Step
from jp_nb.record.entries.proposed_by import is_tool_change


def make_own_result(projection: Projection, beginning: Partial) -> Change:
    """Return the change from `beginning` to the settings of the conversation of `projection`.

    Only the results of the conversation's own changes are included, by the user and by tools.
    `beginning` are the settings with which the next conversation begins, without merge strategies.
    """
    change = diff_partials(beginning, projection.partial())
    steps = projection.steps() if change else ()
    changed = ChangedPaths(steps)
    return select_changes(change, lambda path: path in changed)


def make_user_settings(
    previous: Projection, following: Projection, paths: Collection[str]
) -> Change:
    """Return the change of the `following` conversation to the user's values of the `previous` one.

    The user's changes of the `previous` conversation are applied again to the `following` one. Of
    them, only values at `paths` and below are included. Changes by tools, and changes in an
    untrusted record, are not the user's. Changes that both conversations share, as after a fork,
    are omitted.
    """
    parents = [parse_path(path) for path in paths]

    def is_wanted(path: str) -> bool:
        keys = parse_path(path)
        return any(keys[: len(parent)] == parent for parent in parents)

    below = following.now().below
    before = following.partial()
    after = before

    for step in _iter_user_steps(previous, following):
        change = select_changes(step.change, is_wanted)
        if change:
            # Where the change removes a value, that of the defaults or the lower layers applies.
            after = following.strip(apply_change(after, change, step.defaults, below))

    return diff_partials(before, after)


def _iter_user_steps(previous: Projection, following: Projection) -> Iterator[Step]:
    """Yield the changes of the user in `previous` that `following` does not have already."""
    pairs = zip(previous.deltas, following.deltas, strict=False)
    shared_count = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))

    for step in previous.steps():
        if step.is_reset or step.delta is None or is_tool_change(step.delta):
            continue

        is_untrusted = step.number < previous.untrusted_count
        # A shared change that is untrusted in `following` does not apply there in full.
        is_shared = following.untrusted_count <= step.number < shared_count
        if not is_untrusted and not is_shared:
            yield step


def select_changes(change: Change, wanted: Callable[[str], bool]) -> Change:
    """Return the part of `change` at the `wanted` paths."""

    # `select_settings` keeps a value for True, omits it for False, and looks into it for None.
    def is_wanted(node: SchemaNode | None, keys: PathKeys, value: JsonValue) -> bool | None:
        is_group = node is not None and node.kind in ("table", "map")
        # A *wrapper* is a value with its merge strategy, `{value, strategy}`.
        if is_group and isinstance(value, dict) and not is_wrapper(value, node):
            return None  # each setting in it is asked for by itself
        return wanted(format_path(keys))

    unsets = tuple(path for path in change.unsets if wanted(path))
    delta = select_settings(change.delta, is_wanted)
    return Change(delta, unsets, change.uncovers.intersection(unsets))
