"""What is wrong with a partial configuration, all of it at once, in words.

Source: `spec/config.md` sections 4.2 and 7.4.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from pydantic import JsonValue, ValidationError

from jp_nb.config.left_out import left_out
from jp_nb.config.partial import Partial, unset, walk
from jp_nb.config.partial_model import normal, problems, problems_of
from jp_nb.config.paths import ROOT, Element, Node, format_path, parse_path
from jp_nb.errors import ConfigError, ConfigProblem


def require(path: str) -> Node:
    """The schema node at `path`.

    Raises:
        ConfigError: If there is none; the message offers the nearest known key.
    """
    node: Node = ROOT
    seen: list[str] = []
    for key in parse_path(path):
        below = node.child(key)
        if below is None:
            raise ConfigError(
                unknown_key(node, key, seen), path=format_path([*seen, key]), kind="unknown_key"
            )
        node = below
        seen.append(key)
    return node


def unknown_key(node: Node, key: str, above: Sequence[str] = ()) -> str:
    """What to say about `key`, which `node` does not have."""
    if node.kind == "list":
        return "expected the number of an item, or an item in brackets"
    known = sorted(node.fields)
    if not known:
        return "unknown key, nothing lies below it"
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {format_path([*above, near[0]])!r}? " if near else ""
    return f"unknown key, {hint}expected one of: {', '.join(known)}"


def checked(partial: Mapping[str, JsonValue], *, layer: str, file: str | None = None) -> Partial:
    """One layer, every value in the one form in which it is stored.

    Raises:
        ConfigError: With everything that is wrong in it.
    """
    found = problems(partial)
    if found:
        raise _error(found, layer, file)
    return normal(partial)


def explain(
    exc: ValidationError, *, layer: str | None = None, file: str | None = None
) -> ConfigError:
    """What the whole configuration says against its parts, as one error."""
    return _error(problems_of(exc), layer, file)


def _error(found: Sequence[ConfigProblem], layer: str | None, file: str | None) -> ConfigError:
    first, *others = found
    return ConfigError(
        first.message, path=first.path, kind=first.kind, layer=layer, file=file, others=others
    )


# --- what others wrote -----------------------------------------------------------------------


def without_left_out(partial: Mapping[str, JsonValue]) -> Partial:
    """`partial` without what JP configures for a terminal and a notebook has no use for."""
    result = dict(partial)
    for keys, _ in walk(result):
        for end in range(1, len(keys) + 1):
            if left_out(path := format_path(keys[:end])):
                result = unset(result, path)
                break
    return result


def known(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[ConfigProblem]]:
    """The part of a stored `partial` that this release understands, and what it does not.

    The part is in the one form in which values are written.

    A wrong value counts as not understood, alone: what stands beside it stays in force. What is
    left out on purpose is not mentioned.
    """
    kept = without_left_out(partial)
    unknown: list[ConfigProblem] = []
    while found := problems(kept):
        unknown += found
        before = kept
        for problem in sorted(found, key=_last_item_first):
            kept = unset(kept, problem.path) if problem.path else {}
        if kept == before:  # no path leads there: the whole section goes
            sections = {parse_path(problem.path)[0] for problem in found}
            kept = {key: value for key, value in kept.items() if key not in sections}
    return normal(kept), unknown


def _last_item_first(problem: ConfigProblem) -> list[tuple[int, str]]:
    """Items are taken out of a list from its end, so that numbers stay true."""
    keys = parse_path(problem.path) if problem.path else ()
    plain = [key for key in keys if not isinstance(key, Element)]
    return [(-int(key), "") if key.isdigit() else (0, key) for key in plain]
