"""Recorded configuration changes in words, for the log and for differences of records.

For example: `⟳ configuration style.reasoning.display = "full" (proposed by t, applied by you)`.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import JsonValue

from jp_nb.config.masked_settings import mask_path, mask_secrets
from jp_nb.config.partials.partial import is_wrapper
from jp_nb.config.schema import JSON, ROOT, SchemaNode
from jp_nb.config.secrets.api_keys import hide_credentials
from jp_nb.config.setting_paths import format_path
from jp_nb.record.entries.proposed_by import ProposedBy
from jp_nb.record.reading.turn_view import ConfigChange
from jp_nb.rendering.report import MAX_CELL_CHARS
from jp_nb.rendering.transcripts.event_text import format_approver, format_name
from jp_nb.rendering.transcripts.setting_text import Toolsets, split_change
from jp_nb.text import MAX_FEW_NAMES, one_line


def format_recorded_change(change: ConfigChange, toolsets: Toolsets) -> str:
    """Return a recorded change in one line, with the tools that proposed it.

    `toolsets` has the names of the tools of each toolset, which is shown in place of all its tools.
    """
    if change.begins_again:  # it only discards all earlier settings
        return f"⟳ configuration reset{_format_proposers(change)}"

    # For example, `model openai/gpt-5` and `tools on: notebook`, and the settings without words.
    words, other_settings = split_change(change.delta, toolsets)
    changes: list[str] = []
    if settings := ", ".join(_format_settings(other_settings)):
        changes.append(one_line(settings, limit=300))

    # At a reverted path, the value of the configuration files applies again.
    reverted = frozenset(change.uncovers)
    unset_paths = [path for path in change.unsets if path not in reverted]
    reverted_paths = [path for path in change.unsets if path in reverted]
    if unset_paths:
        changes.append(f"unset {_list_paths(unset_paths)}")
    if reverted_paths:
        changes.append(f"reverted {_list_paths(reverted_paths)}")

    if changes:
        words.append(f"configuration {', '.join(changes)}")

    return f"⟳ {one_line('; '.join(words), limit=600)}{_format_proposers(change)}"


def _list_paths(paths: Sequence[str]) -> str:
    """Return paths in one line. An untrusted record may have very many."""
    # Each path has at least one character, so further paths would be cut off anyway.
    listed = ", ".join(map(mask_path, paths[:MAX_CELL_CHARS]))
    return one_line(listed, limit=MAX_CELL_CHARS)


def _format_settings(
    delta: Mapping[str, JsonValue], node: SchemaNode = ROOT, above: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield each changed setting with its value: `style.theme = "dark"`.

    A table is divided into its settings. A value is shown as a whole if the schema does not
    describe its inside (`json`), or if it is a list or map with its merge strategy (a *wrapper*).
    """
    for key, value in delta.items():
        keys = (*above, key)
        below = node.child(key) or JSON
        is_whole = below.kind == "json" or is_wrapper(value, below)

        if isinstance(value, dict) and value and not is_whole:
            yield from _format_settings(value, below, keys)
        else:
            shown = json.dumps(mask_secrets(value, keys), ensure_ascii=False)
            yield f"{format_path(keys)} = {hide_credentials(shown)}"


def _format_proposers(change: ConfigChange) -> str:
    """Return the tools that proposed a change: ` (proposed by a, b, applied by you)`, or "".

    Tools whose proposals were approved in the same way are listed together.
    """
    tools_by_approval: dict[str, dict[str, None]] = {}
    for call in change.proposed_by:
        tools = tools_by_approval.setdefault(_format_approval(call), {})
        tools[format_name(call.tool)] = None

    texts: list[str] = []
    for approval, tools in tools_by_approval.items():
        names = ", ".join(_limit_names(tools))
        texts.append(f"proposed by {names}, {approval}")
    if not texts:
        return ""

    listed = "; ".join(_limit_names(texts))
    return f" ({listed})"


def _format_approval(call: ProposedBy) -> str:
    return f"applied by {format_approver(call.applied_by, call.channel, call.by)}"


def format_proposing_tools(calls: Iterable[ProposedBy]) -> list[str]:
    """Return a short text for each of `calls`: `by tool t, applied by you (form)`."""
    texts = (f"by tool {format_name(call.tool)}, {_format_approval(call)}" for call in calls)
    return _limit_names(dict.fromkeys(texts))


def _limit_names(names: Iterable[str]) -> list[str]:
    listed = list(names)
    omitted_count = len(listed) - MAX_FEW_NAMES
    if omitted_count <= 0:
        return listed

    return [*listed[:MAX_FEW_NAMES], f"and {omitted_count} more"]
