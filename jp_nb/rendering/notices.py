"""Notices about the state of a session: an interrupted turn, and settings of the last conversation.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from jp_nb.config.partial import Change, Partial, get_path, iter_leaves
from jp_nb.config.schema import Keys, format_path, mask_secrets, node_at, parse_path
from jp_nb.record.journal import OpenCall
from jp_nb.record.turns import InterruptedTurn
from jp_nb.rendering.prompts import one_name
from jp_nb.text import one_line

MAX_NAMED_TOOLS: Final = 5
"""Limit of tools named in one sentence."""


def interrupted_turn(found: InterruptedTurn, finished: Sequence[str] = ()) -> str:
    """Return the notice that `found` can be continued.

    Args:
        found: The turn.
        finished: Names of the tools whose results the journal kept.
    """
    sentences = [f"turn {found.turn} was interrupted."]
    if finished:
        sentences.append(finished_words(finished))
    sentences += state_words(found.open_calls)
    return " ".join([*sentences, "Continue it: `%jp resume`"])


def finished_words(names: Sequence[str]) -> str:
    """Return the sentence about calls that finished before the interruption."""
    has, result, runs = (
        ("have", "results are", "they do") if len(names) > 1 else ("has", "result is", "it does")
    )
    return f"{_list_tools(names)} {has} finished: the {result} kept, and {runs} not run again."


def skipped_words(names: Sequence[str]) -> str:
    """Return the sentence about calls that the user chose not to run."""
    return f"{_list_tools(names)} skipped; the model is informed"


def state_words(calls: Iterable[OpenCall]) -> list[str]:
    """Return a sentence about the open calls of each state."""
    asked, ready, unclear = list[str](), list[str](), list[str]()
    for call in calls:
        names = {"asked": asked, "permitted": ready}.get(call.stage or "", unclear)
        names.append(call.request.name)
    found = []
    if asked:
        were = "were" if len(asked) > 1 else "was"
        found.append(
            f"{_list_tools(asked)} {were} waiting for your permission and did not run, even if a "
            'cell still shows "Waiting for your permission".'
        )
    if ready:
        found.append(f"{_list_tools(ready)} did not start.")
    if unclear:
        found.append(f"{_list_tools(unclear)} may have run, fully or partly.")
    return found


def _list_tools(names: Sequence[str]) -> str:
    shown = [one_name(name) for name in dict.fromkeys(names)]
    if more := shown[MAX_NAMED_TOOLS:]:
        shown[MAX_NAMED_TOOLS:] = [f"{len(more)} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


MAX_LISTED = 10
MAX_VALUE_CHARS = 60

FOR_ALL = "For every conversation: `%jp config --user PATH=VALUE`"


def inherited_notices(change: Change) -> list[str]:
    """Return a notice about the settings that a conversation inherited; none without any."""
    return [f"Kept from the previous conversation: {_join_settings(change)}"] if change else []


def format_dropped_settings(change: Change, *, asks: bool) -> str:
    """Return a notice about settings that a new conversation does not inherit, with commands.

    Args:
        change: The settings; not empty.
        asks: True if the new conversation starts with a request, and not with `%jp new`.
    """
    how = "Keep them: `%jp new --keep-config`"
    if asks:
        how = "Set a value again: `%jp config PATH=VALUE`, or `-c PATH=VALUE` together with `-n`"
    return (
        "these settings of the previous conversation do not apply to the new one: "
        f"{_join_settings(change)}. {how}. {FOR_ALL}"
    )


def _join_settings(change: Change) -> str:
    found = [*_format_settings(change.delta), *(f"{path} unset" for path in change.unsets)]
    more = len(found) - MAX_LISTED
    return ", ".join([*found[:MAX_LISTED], *([f"and {more} more"] if more > 0 else [])])


def _format_settings(delta: Partial) -> Iterator[str]:
    shown: dict[Keys, None] = {}
    for keys, _ in iter_leaves(delta):
        above = node_at(keys[:-1])
        is_model = above is not None and above.required_fields == ["provider", "name"]
        shown[keys[:-1] if is_model else keys] = None
    for keys in shown:
        path = format_path(keys)
        value = mask_secrets(get_path(delta, path), parse_path(path))
        if isinstance(value, dict) and {"provider", "name"} <= value.keys():
            value = f"{value['provider']}/{value['name']}"
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"{one_line(path, limit=200)}={one_line(text, limit=MAX_VALUE_CHARS)}"
