"""Schemas that Anthropic enforces for structured answers.

A schema for an answer that the API cannot enforce is an error of the user, with the path of the
problem (`check_anthropic`). `anthropic_strict_tools.py` uses the same check for tools.

To *expand* a schema is to merge its `$ref` and `allOf` into one schema. `expand` returns None if
that is impossible, and `expand_or_keep` the schema itself (`schema_expansion.py`).

Source: `docs/providers.md`;
https://platform.claude.com/docs/en/build-with-claude/structured-outputs, as of November 2026.
"""

from __future__ import annotations

import json

from jp_nb.errors import UsageError
from jp_nb.json_schema import (
    Schema,
    SchemaPath,
    format_schema_path,
    walk_child_schemas,
    walk_schemas,
)
from jp_nb.providers.schemas.answer_schemas import AnswerSchema, wrap_in_object
from jp_nb.providers.schemas.schema_expansion import (
    expand,
    expand_or_keep,
    is_composed,
)
from jp_nb.providers.schemas.schema_keywords import CONSTRAINING, UNSUPPORTED
from jp_nb.providers.schemas.schema_parts import find_undeclared, get_type_names
from jp_nb.providers.schemas.schema_rewriter import (
    SchemaRewriter,
    has_divided_properties,
    has_two_alternatives,
)
from jp_nb.providers.schemas.type_lists import has_mixed_types, split_types
from jp_nb.schema_loops import check_references, find_loop


def adapt_for_anthropic(schema: Schema) -> AnswerSchema:
    """Adapt `schema` for Anthropic's `output_config.format`.

    Raises:
        UsageError: The schema is too large.
    """
    root, wrapped = wrap_in_object(schema)
    rewriter = SchemaRewriter("anthropic", root)
    sent = rewriter.rewrite(root)
    if rewriter.is_too_large:
        raise _make_error((), "the schema with all of its references expanded is too large")
    return AnswerSchema(schema, sent, wrapped=wrapped)


def check_anthropic(schema: Schema) -> None:
    """Check that Anthropic's `output_config.format` can enforce `schema`.

    Raises:
        UsageError: It cannot.
    """
    check_references(schema)

    if (path := find_loop(schema)) is not None:
        raise _make_error(path, "the schema is recursive: write out as many levels as you need")

    for path, part in walk_schemas(schema).items():
        if problem := _find_anthropic_problem(part, schema):
            raise _make_error(path, problem)

        # A schema may be `true` or `false`, which the API accepts only as `additionalProperties`.
        for step, child in walk_child_schemas(part):
            if isinstance(child, bool) and step[0] != "additionalProperties":
                word = json.dumps(child)
                problem = f"`{word}` is used as a schema: write out a schema"
                raise _make_error((*path, *step), problem)

        # The members of `allOf` are checked together, at their parent.
        is_member_of_all_of = path[-2:-1] == ("allOf",)
        undeclared = find_undeclared(expand_or_keep(part, schema))
        if undeclared and not is_member_of_all_of:
            raise _make_error(
                path, f"`required` names {undeclared[0]!r}, which is missing under `properties`"
            )

    adapt_for_anthropic(schema)  # raises if the expanded schema is too large


def _make_error(path: SchemaPath, problem: str) -> UsageError:
    place = format_schema_path(path)
    return UsageError(f"anthropic does not support this schema: {place}: {problem}")


def _find_anthropic_problem(part: Schema, root: Schema) -> str | None:
    """Return the reason why the API cannot enforce a part of the schema `root`; None if it can."""
    for keyword in UNSUPPORTED:
        if keyword in part:
            return f"`{keyword}` is not supported; describe the condition in `description`"

    if not CONSTRAINING & part.keys():
        return "the schema allows any value; add a `type`"

    choices = part.get("enum", [])
    if isinstance(choices, list) and any(isinstance(choice, dict | list) for choice in choices):
        return "an `enum` can contain only texts, numbers, booleans, and null"

    if has_mixed_types(split_types(expand_or_keep(part, root))):
        return "objects or arrays among several types; make each type a schema of an `anyOf`"

    if isinstance(part.get("items"), list):
        return "`items` must be one schema for all items, not a list of schemas"

    if isinstance(part.get("additionalProperties"), dict) or _has_open_keys(part):
        return (
            "an object needs fixed keys; list them under `properties`, or use an "
            "array of objects with a key and a value"
        )

    return _find_composition_problem(part, root)


def _has_open_keys(part: Schema) -> bool:
    """Return True for an object that may have any keys, because it declares none."""
    if "object" not in get_type_names(part) or is_composed(part):
        return False
    return "properties" not in part and part.get("additionalProperties") is not False


def _find_composition_problem(part: Schema, root: Schema) -> str | None:
    """Return the problem of schemas that apply to the same value, or None."""
    if is_composed(part) and expand(part, root) is None:
        return "the schemas of `allOf` or next to `$ref` cannot be merged; write out one schema"

    whole = expand_or_keep(part, root)
    if has_two_alternatives(whole):
        return "`anyOf` and `oneOf` cannot be combined; write out one `anyOf`"
    if has_divided_properties(whole, root):
        return (
            "`properties` next to `anyOf` or `oneOf` are not supported; write all properties into "
            "each of the alternatives, without `properties` next to them"
        )
    return None
