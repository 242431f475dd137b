"""Read the configuration change of a tool: its settings, and the paths that it unsets.

`basis` is the present configuration, and a *node* is the type of a setting in the schema. A key in
brackets is an `Element`; after `mark_items`, only items of lists are Elements, and keys of maps are
plain.

The readers add each error to a list of problems, so that the tool gets all of them at once. A
`Problem` has a `message` and the `expected` values for the tool, and a `short_message` with the
`value` for the line that the user reads, which hides a secret value (`refusal.py`). `proposal.py`
then checks if the tool may make the change.

Source: `docs/turns.md`, `docs/decisions.md` D29, D38.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from jp_nb.config.access_rules import Grants
from jp_nb.config.aliases import ALIASES_PATH, resolve_references
from jp_nb.config.assignments import (
    ASSIGNMENT_LAYER,
    FILE_ONLY_SETTINGS,
    ONLY_IN_FILES_MESSAGE,
    read_partial,
)
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.config.partials.partial import Partial, get_path
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.partials.setting_leaves import remove_empty
from jp_nb.config.refusal import Problem
from jp_nb.config.schema import ROOT, SchemaNode, describe_keys, mark_items
from jp_nb.config.setting_paths import (
    Element,
    PathKeys,
    format_path,
    is_index,
    look_up,
    parse_path,
    try_parse_path,
)
from jp_nb.config.tree.app import REMOTE_IMAGES
from jp_nb.config.tree.value_errors import describe_found, shorten_for_error
from jp_nb.errors import ConfigError, ConfigProblem
from jp_nb.text import MAX_LISTED_LINES


def read_proposed_config(
    config: JsonValue, basis: ConfigSnapshot, grants: Grants, problems: list[Problem]
) -> Partial:
    """Return the settings of `config` with models in place of aliases; add errors to `problems`."""
    if config is None:
        return {}

    if not isinstance(config, dict):
        problems.append(Problem("", "expected `config` to be an object", config))
        return {}

    try:
        delta = read_partial(config, layer=ASSIGNMENT_LAYER)
    except ConfigError as exc:
        problems += [_convert_problem(problem, config) for problem in exc.problems]
        return {}

    # Each host gets the addresses of images, so a tool could send it data.
    hosts = get_path(delta, REMOTE_IMAGES)
    if hosts is not None:
        problems.append(Problem(format_path(REMOTE_IMAGES), "only the user sets this", hosts))
        return {}

    aliases = get_path(basis.partial, ALIASES_PATH) or {}
    if get_path(delta, ALIASES_PATH):  # the change may use an alias that it defines itself
        aliases = get_path(merge_partials(basis.partial, delta), ALIASES_PATH)
    delta, unresolved = resolve_references(delta, aliases)

    known = f" ({', '.join(sorted(aliases)[:MAX_LISTED_LINES]) or 'no alias is defined'})"
    for path, name in unresolved:
        expected = "expected `provider/name` or an alias"
        if grants.may_read(parse_path(ALIASES_PATH)):
            expected += known
        message = f"unknown model alias {shorten_for_error(name)!r}"
        short = "no such model alias"
        problems.append(Problem(path, message, name, expected, short_message=short))

    return remove_empty(delta)


def _convert_problem(problem: ConfigProblem, config: Mapping[str, JsonValue]) -> Problem:
    """Return an error of the configuration in the words for a tool.

    Of `problem`, the `message` is for the user. It is made of a `cause`, which is "" if the value
    itself is wrong, and of `expected`, the accepted values.
    """
    path = problem.path
    expected = problem.expected
    value = look_up(config, try_parse_path(path) or (path,))
    if problem.kind == "unknown_key":
        return Problem(path, "unknown field", value, expected, short_message="no such setting")

    # The text for the user has the value in quotes, but not one that may be a secret. Then the
    # message for the tool omits it too.
    text_for_user = problem.cause or describe_found(value, path)
    may_name_value = repr(value) in text_for_user
    if isinstance(value, str) and may_name_value and expected.startswith("one of "):
        return Problem(
            path,
            f"unknown variant {shorten_for_error(value)!r}",
            value,
            f"expected {expected}",
            short_message=f"not a valid {path.rpartition('.')[2]}",
        )

    if problem.cause:
        return Problem(path, problem.cause, value, f"expected {expected}")
    return Problem(path, problem.message, value)


def read_proposed_unsets(paths: Sequence[str], problems: list[Problem]) -> list[PathKeys]:
    """Return the keys of the `paths` that can be unset, each once; add errors to `problems`."""
    unsets: dict[PathKeys, None] = {}
    for path in paths:
        parsed = try_parse_path(path)
        if parsed is None:
            problems.append(Problem(path, "not a path", unset=True))
            continue

        keys = mark_items(parsed)
        problem = _find_unset_problem(path, keys)
        if problem is not None:
            problems.append(problem)
        else:
            unsets[keys] = None

    return list(unsets)


def _find_unset_problem(path: str, keys: PathKeys) -> Problem | None:
    """Return the reason why nothing can be unset at `path`, or None."""

    def make_problem(message: str, expected: str = "") -> Problem:
        return Problem(path, message, expected=expected, unset=True)

    if keys[0] in FILE_ONLY_SETTINGS:
        return make_problem(ONLY_IN_FILES_MESSAGE)

    parent: SchemaNode = ROOT
    for position, key in enumerate(keys):
        is_last = position == len(keys) - 1

        if parent.kind == "json":
            return make_problem("a free-form value can only be unset as a whole")
        # `field.0` instead of `field["item"]`: the index of an item may change.
        if parent.kind == "list" and is_index(key) and not isinstance(key, Element):
            return make_problem("an item of a list is named by its value", 'expected field["item"]')

        node = parent.child(key)
        if node is None:
            known = describe_keys(parent, key, keys[:position])
            if parent.kind == "list":
                return make_problem(known)
            return make_problem("unknown field", known)

        if parent.kind == "list" and not is_last:
            return make_problem("an item of a list can only be unset as a whole")
        if is_last and _can_be_unset(node, parent):
            return None

        parent = node

    return make_problem("cannot be unset", "expected an optional value, a list, or an item of one")


def _can_be_unset(node: SchemaNode, parent: SchemaNode) -> bool:
    """Return True for a list, an item of a list, and a value that may be missing in its parent.

    A table cannot be unset: a deeper access rule may deny the tool a part of it.
    """
    if node.kind == "list" or parent.kind == "list":
        return True

    is_value = node.kind in ("text", "scalar", "json") or node.has_short_form
    may_be_missing = node.optional or parent.kind == "map"
    return is_value and may_be_missing
