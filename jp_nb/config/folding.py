"""Several changes of the configuration as one.

Source: `spec/tools-and-turn-loop.md` 10.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from jp_nb.config.partial import (
    Change,
    Partial,
    apply,
    at,
    build,
    is_wrapper,
    merge,
    settled,
    touched,
    unset,
    unwrap,
)
from jp_nb.config.paths import JSON, ROOT, Element, Node, format_path, node_at, parse_path

Keys = tuple[str, ...]


def folded(changes: Sequence[Change], before: Partial, below: Mapping[str, JsonValue]) -> Change:
    """One change that does to `before` what `changes` do, one after the other.

    The last word on a path counts, and no path is both set and unset. What strategies of merging
    cannot say about several changes at once is said by the value itself.

    Args:
        changes: In the order in which they are made.
        before: What is in force before the first.
        below: What an unset shows.
    """
    after, both = before, _Both()
    for change in changes:
        after = apply(after, change, below)
        both.add(change)
    return both.exact(before, after, below)


class _Both:
    """What several changes set and unset, path by path."""

    def __init__(self) -> None:
        self.delta: Partial = {}
        self.unsets: dict[Keys, None] = {}
        self._restated: set[Keys] = set()

    def add(self, change: Change) -> None:
        """One more: what it unsets first, then what it sets."""
        for keys in map(parse_path, change.unsets):
            self._unset(keys)
        for keys, _ in touched(change.delta):
            self.unsets.pop(keys, None)
            # A list that was unset and is begun anew: what lies below must not come back.
            above = keys[:-1] if isinstance(keys[-1], Element) else keys
            if above in self.unsets and _kind(above) == "list":
                del self.unsets[above]
                self._restated.add(above)
        self.delta = merge(self.delta, change.delta)

    def _unset(self, keys: Keys) -> None:
        self.delta = _pruned(unset(self.delta, format_path(keys)))
        for other in [k for k in self.unsets if k[: len(keys)] == keys]:
            del self.unsets[other]
        self.unsets[keys] = None

    def exact(
        self, before: Partial, after: Partial, below: Mapping[str, JsonValue]
    ) -> Change:
        """The change that makes `after` of `before`."""
        got, wanted = settled(apply(before, self.change, below)), settled(after)
        differ = [
            keys
            for keys in dict.fromkeys([*self._restated, *_fields(got), *_fields(wanted)])
            if keys in self._restated or _at(got, keys) != _at(wanted, keys)
        ]
        for keys in sorted(differ, key=lambda keys: _at(wanted, keys) is not None):
            value = _at(wanted, keys)
            self._unset(keys)
            if value is not None:
                del self.unsets[keys]
                self.delta = merge(self.delta, build(format_path(keys), _whole(keys, value)))
        return self.change

    @property
    def change(self) -> Change:
        """What they come to."""
        return Change(self.delta, tuple(map(format_path, self.unsets)))


def _fields(partial: Mapping[str, JsonValue], node: Node = ROOT, above: Keys = ()) -> Iterator[Keys]:
    """The keys of every field that `partial` sets; a list, and free JSON, is one."""
    for key, value in partial.items():
        keys, inner = (*above, key), node.child(key) or JSON
        if isinstance(value, dict) and inner.kind != "json":
            yield from _fields(value, inner, keys)
        else:
            yield keys


def _at(partial: Partial, keys: Keys) -> JsonValue:
    value: JsonValue = at(partial, format_path(keys))
    return None if value == [] and _kind(keys) == "list" else value


def _kind(keys: Keys) -> str:
    node = node_at(keys)
    return "" if node is None else node.kind


def _whole(keys: Keys, value: JsonValue) -> JsonValue:
    """`value` so that it takes the place of whatever it meets."""
    if _kind(keys) in ("list", "json") and isinstance(value, (dict, list)):
        return {"value": value, "strategy": "replace"}
    return value


def _pruned(partial: Partial, node: Node = ROOT) -> Partial:
    """`partial` without tables, and lists that add, in which nothing is left."""
    kept: Partial = {}
    for key, value in partial.items():
        below = node.child(key) or JSON
        wrapped = is_wrapper(value, below)
        if isinstance(value, dict) and not wrapped and below.kind != "json":
            value = _pruned(value, below)
            if not value:
                continue
        replaces = wrapped and isinstance(value, dict) and value.get("strategy") == "replace"
        if below.kind == "list" and not replaces and unwrap(value, below) == []:
            continue
        kept[key] = value
    return kept
