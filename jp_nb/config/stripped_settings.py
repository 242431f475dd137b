"""Remove the settings that a source may not set, before they are merged into the configuration.

- `strip_untrusted`: values that need the user's consent, by the table `ALLOWANCES` of
  `authority.py`. It is for records that are not signed, and for files without the user's consent.
- `strip_own_settings`: settings that only the user's own files may have. It is for all files of a
  folder, also after the user's consent.

A *partial* is a tree of some settings, such as the content of one file.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.config.authority import AuthoritySource, find_value_test, is_tested_as_whole
from jp_nb.config.partials.partial import Partial, is_wrapper
from jp_nb.config.partials.setting_leaves import select_settings
from jp_nb.config.schema import SchemaNode
from jp_nb.config.setting_paths import PathKeys, format_path
from jp_nb.config.tree.ignored_settings import covers_keys, overlaps_keys

OWN_SETTINGS: Final[Sequence[PathKeys]] = (("providers", "mcp", "*", "trust_read_only_hint"),)
"""Settings that no file of a folder may switch on, not even with the user's consent."""


def strip_untrusted(
    partial: Partial, source: AuthoritySource
) -> tuple[Partial, dict[str, JsonValue]]:
    """Return `partial` without values that an untrusted `source` may not set, and these by path.

    The user can read the removed values, and consent to them.
    """
    refused: dict[str, JsonValue] = {}

    # `select_settings` calls this for each setting and table. None: it descends into the table.
    def is_allowed(node: SchemaNode | None, keys: PathKeys, value: JsonValue) -> bool | None:
        # A list, text, or map with its merge strategy, `{value, strategy}`, is one value.
        is_table = isinstance(value, dict) and bool(value) and not is_wrapper(value, node)
        if is_table and not is_tested_as_whole(keys):
            return None

        accepts = find_value_test(keys, source)
        if not accepts(value):
            refused[format_path(keys)] = value
            return False
        return True

    return select_settings(partial, is_allowed), refused


def strip_own_settings(partial: Partial) -> tuple[Partial, Sequence[str]]:
    """Return `partial` without the settings that only the user's own files have, and their paths.

    A value of `false` stays.
    """
    refused: list[str] = []

    # Called for each setting and table. None: `select_settings` descends into the table.
    def is_allowed(node: SchemaNode | None, keys: PathKeys, value: JsonValue) -> bool | None:
        is_own = any(
            len(pattern) == len(keys) and covers_keys(pattern, keys) for pattern in OWN_SETTINGS
        )
        if is_own and value is not False:
            refused.append(format_path(keys))
            return False

        is_above = any(overlaps_keys(pattern, keys) for pattern in OWN_SETTINGS)
        return None if is_above and isinstance(value, dict) else True

    return select_settings(partial, is_allowed), refused
