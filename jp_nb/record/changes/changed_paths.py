"""`ChangedPaths`: the paths at which a conversation has its own value.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Sequence

from jp_nb.config.partials.partial import Partial, get_path
from jp_nb.config.partials.setting_leaves import iter_leaves
from jp_nb.config.setting_paths import PathKeys, parse_path
from jp_nb.record.changes.config_step import Step

NEVER = -1


class ChangedPaths:
    """The paths that the changes of a conversation set or unset: `"style.reasoning" in paths`.

    A change may also *uncover* a path (`Change.uncovers`): it removes the value of the conversation
    there, and that of the layers below applies again. Then the path counts as not changed. Each
    change is read once.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        # The last step that set a path, with its delta.
        self._set: dict[PathKeys, tuple[int, Partial]] = {}
        # The last step that unset a path.
        self._unset: dict[PathKeys, int] = {}
        # The last step that set or unset a path, or a path below it.
        self._changed: dict[PathKeys, int] = {}
        # The last step that uncovered a path.
        self._uncovered: dict[PathKeys, int] = {}

        resets = (number for number, step in enumerate(steps) if step.is_reset)
        start = 1 + max(resets, default=NEVER)

        for number, step in enumerate(steps[start:]):
            self._add(number, step)

    def _add(self, number: int, step: Step) -> None:
        delta = step.change.delta
        uncovers = step.change.uncovers
        leaves = [keys for keys, _ in iter_leaves(delta)]
        unsets = [parse_path(path) for path in step.change.unsets if path not in uncovers]

        self._set |= dict.fromkeys(leaves, (number, delta))
        self._unset |= dict.fromkeys(unsets, number)
        self._uncovered |= dict.fromkeys(map(parse_path, uncovers), number)

        for keys in (*leaves, *unsets):
            self._changed |= {keys[:length]: number for length in range(1, len(keys) + 1)}

    def __contains__(self, path: str) -> bool:
        """Return True if the conversation has its own value at `path`.

        That is so if the path was changed and not uncovered since then. A step that does both
        uncovers the path first, and then sets it.
        """
        keys = parse_path(path)
        changed = self._find_last_change(keys)
        return changed > NEVER and changed >= self._find_last_uncovering(keys)

    def _find_last_change(self, keys: PathKeys) -> int:
        """Return the number of the last step that changed the path, or one below or above it."""
        last = self._changed.get(keys, NEVER)

        for length in range(1, len(keys)):
            parent = keys[:length]
            last = max(last, self._unset.get(parent, NEVER))

            # A list was set as a whole, and the path is one of its items: only if it has the item.
            number, delta = self._set.get(parent, (NEVER, {}))
            if number > last and get_path(delta, keys) is not None:
                last = number

        return last

    def _find_last_uncovering(self, keys: PathKeys) -> int:
        """Return the number of the last step that uncovered the path, or one above it."""
        paths = (keys[:length] for length in range(1, len(keys) + 1))
        return max((self._uncovered.get(path, NEVER) for path in paths), default=NEVER)
