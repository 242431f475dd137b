"""Write out a JSON schema that refers to others: references, and `allOf`.

For example, `{"$ref": "#/$defs/City", "description": "Here"}` becomes the keywords of `City` with
this description, because APIs reject keywords next to `$ref`. The expansion is shallow: schemas
below `properties` or `items` stay as they are, and the caller expands them when it gets there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jp_nb.json_schema import DEFINITIONS, Schema, resolve_reference
from jp_nb.json_values import JsonObject
from jp_nb.providers.schemas.schema_keywords import ANNOTATION_KEYWORDS
from jp_nb.providers.schemas.schema_parts import get_all_of

MAX_EXPANSIONS: Final = 64
"""Maximum depth of references that are expanded inside each other."""


def is_composed(schema: Schema) -> bool:
    """Return True if `allOf`, or keywords next to `$ref`, add to the constraints of `schema`."""
    beside = schema.keys() - ANNOTATION_KEYWORDS - set(DEFINITIONS) - {"$ref"}
    return "allOf" in schema or ("$ref" in schema and bool(beside))


def expand_or_keep(schema: Schema, root: Schema) -> Schema:
    """Return the expanded `schema`, or `schema` if it cannot be expanded."""
    return expand(schema, root) or schema


def expand(schema: Schema, root: Schema) -> Schema | None:
    """Return `schema` with `$ref` and `allOf` replaced by the keywords of their schemas.

    None: two schemas disagree about a keyword, or a reference is unknown, recursive, or nested too
    deeply. `root` has the definitions.
    """
    return _expand(schema, root, (), {})


def _expand(
    schema: Schema, root: Schema, within: tuple[str, ...], known: dict[str, Schema | None]
) -> Schema | None:
    """Return the expanded `schema`; see `expand`.

    `within` are the references that are being expanded, `known` the results of the expanded ones.
    """
    own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    members: list[Schema | None] = [own]

    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in within or len(within) >= MAX_EXPANSIONS:
            return None

        if reference not in known:
            try:
                _, target = resolve_reference(root, reference)
            except LookupError:
                return None

            # None also if the target refers back to `within`: it is recursive in every place.
            known[reference] = None
            if isinstance(target, dict):
                known[reference] = _expand(target, root, (*within, reference), known)
        members.append(known[reference])

    members += [_expand(member, root, within, known) for member in get_all_of(schema)]
    return _merge_schemas(members) if len(members) > 1 else own


def _merge_schemas(members: Iterable[Schema | None]) -> JsonObject | None:
    """Return one schema for the values that fit all `members`; None if they disagree.

    - Of annotations, descriptions, and definitions, those of the first member count.
    - `required` has the names of all members.
    - `properties` has those of all members, which must have different names.
    - Any other keyword must be the same in all members that have it.
    """
    merged: JsonObject = {}

    for member in members:
        if member is None:
            return None

        for key, value in member.items():
            earlier = merged.get(key)
            if key not in merged or earlier == value:
                merged[key] = value
            elif key in ANNOTATION_KEYWORDS or key == "description" or key in DEFINITIONS:
                continue
            elif key == "required" and isinstance(earlier, list) and isinstance(value, list):
                merged[key] = [*earlier, *(name for name in value if name not in earlier)]
            elif (
                key == "properties"
                and isinstance(earlier, dict)
                and isinstance(value, dict)
                and earlier.keys().isdisjoint(value)
            ):
                merged[key] = {**earlier, **value}
            else:
                return None

    return merged
