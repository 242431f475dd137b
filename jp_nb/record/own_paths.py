"""The paths at which the changes of a conversation count. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jp_nb.config.partial import Change, get_path, walk
from jp_nb.config.paths import parse_path
from jp_nb.record.steps import Step

NEVER = -1


@dataclass(slots=True)
class _Mark:
    """What was said last at one path, by the number of the step.

    Attributes:
        value: A value was set just here, by the change that is kept beside it.
        gone: This and what lies in it was unset.
        back: What was said about this and what lies in it was taken back.
        within: Something here or in it was set or unset.
    """

    value: tuple[int, Mapping[str, Any]] | None = None
    gone: int = NEVER
    back: int = NEVER
    within: int = NEVER
    parts: dict[str, _Mark] = field(default_factory=dict)


class OwnPaths:
    """The paths that changes set or unset, and did not take back since; each is read once."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._root = _Mark()
        for number, step in enumerate(steps):
            if step.is_reset:
                self._root = _Mark()
            else:
                self._add(number, step.change)

    def __contains__(self, path: object) -> bool:
        """True if a change counts at `path`, and was not taken back since."""
        keys = parse_path(str(path))
        said = back = NEVER
        mark: _Mark | None = self._root
        for key in keys:
            assert mark is not None
            if mark.value is not None and get_path(mark.value[1], str(path)) is not None:
                said = max(said, mark.value[0])
            mark = mark.parts.get(key)
            if mark is None:
                break
            said, back = max(said, mark.gone), max(back, mark.back)
        if mark is not None:
            said = max(said, mark.within)
        return said > NEVER and said >= back

    def _add(self, number: int, change: Change) -> None:
        for keys, _ in walk(change.delta):
            self._mark(keys, number).value = (number, change.delta)
        for path in change.unsets:
            keys = parse_path(path)
            if path not in change.uncovers:
                self._mark(keys, number).gone = number
        for path in change.uncovers:
            self._mark(parse_path(path), None).back = number

    def _mark(self, keys: Sequence[str], number: int | None) -> _Mark:
        mark = self._root
        for key in keys:
            mark = mark.parts.setdefault(key, _Mark())
            if number is not None:
                mark.within = number
        return mark
