"""The one table of what has authority: which values are the user's alone to decide.

Three askers, from the strictest to the mildest:

    a stranger's record    sets words alone; nothing of it switches on, unlocks or hides
    a folder's file        the same until the user agreed to it, but for what is tame there
    a tool's proposal      what its rules grant; what reaches out needs a person whatever they say
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.config.partial import Partial, is_wrapper
from jp_nb.config.paths import format_path
from jp_nb.config.schema import ROOT, SchemaNode, node_at
from jp_nb.config.tree.attachment_url import attachment_parts
from jp_nb.config.tree.style_config import REMOTE_IMAGES

IsInside = Callable[[str], bool]
"""True if the URL of an attachment stays in the workspace."""


def _patterns(*paths: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(path.split(".")) for path in paths)


_WORDS_ALONE: Final = _patterns(
    "template.values",
    "user.name",
    "assistant.name",
    "assistant.system_prompt",
    "assistant.system_prompt_sections",
    "assistant.instructions",
    "assistant.tool_choice",
    "assistant.model",
    "conversation.tools.*.enable.state",
    "conversation.toolsets.*.state",
    "conversation.tools.*.cancellation_response",
    "conversation.tools.*.style.hidden",
    "conversation.tools.*.style.inline_results",
    "conversation.tools.*.style.error",
    "style",
)
"""Paths that a stranger may set, with all below them, but for `REMOTE_IMAGES`, and the values that
`_widens` names."""

_TAME: Final = _patterns(
    "assistant.request",
    "conversation.tools.*.enable.allow_toggle",
    "conversation.toolsets.*.allow_toggle",
    "conversation.tools.*.summary",
    "conversation.tools.*.description",
    "conversation.tools.*.examples",
    "conversation.tools.*.questions.*.prompt_label",
    "prompt.channel",
    "prompt.rendered_timeout_s",
    "prompt.timeout_s",
    "prompt.notify",
    "record",
    "interpolation",
    "values",
)
"""Paths that reach nothing outside and are not a stranger's all the same: bounds, locks, words."""

_ENABLING: Final = _patterns("conversation.tools.*.enable", "conversation.toolsets")
_ATTACHMENTS: Final = ("conversation", "attachments")
_RUN_MODES: Final = ("run", "format", "result")
_UNATTENDED: Final = "unattended"
_PLAIN_STYLES: Final = ("json", "function_call", "off")


def _leads(pattern: Sequence[str], keys: Sequence[str]) -> bool:
    """True if one is the beginning of the other; `*` is any key."""
    return all(part in ("*", key) for part, key in zip(pattern, keys, strict=False))


def _holds(pattern: Sequence[str], keys: Sequence[str]) -> bool:
    """True if `keys` are `pattern`, or lie below it."""
    return len(pattern) <= len(keys) and _leads(pattern, keys)


def has_authority(keys: Sequence[str]) -> bool:
    """True if a value at `keys` is the user's alone to set.

    That is what could run code, reach a host, name a key, widen access, spend money out of
    sight, hide what happens, or pass for the user's own words. A table that also holds other
    things has none of its own.
    """
    if _holds(REMOTE_IMAGES, keys):
        return True
    return not any(_leads(allowed, keys) for allowed in _WORDS_ALONE)


def _widens(keys: Sequence[str], value: JsonValue) -> bool:
    """True if `value` switches on, or hides, what the user's own files may have ruled out."""
    match tuple(keys):
        case ("assistant", "tool_choice"):  # what it names is offered, also if it is off
            return value not in ("auto", "none", "required")
        case ("conversation", "tools", _, "enable", *_) | ("conversation", "toolsets", *_):
            return value is not False
        case ("conversation", "tools", _, "style", "hidden"):
            return value is True
        case ("style", "tool_call", "show"):
            return value is False
        case ("style", "reasoning", "display"):
            return value in ("hidden", 0)
        case _:
            return False


# --- a stranger's record -----------------------------------------------------------------------


def strip_untrusted(partial: Partial) -> tuple[Partial, dict[str, JsonValue]]:
    """`partial` without what a stranger's record may not decide, and what was left out, by path.

    Ignored are leaves with authority, and values that switch on or hide something.
    """
    return _without(partial, lambda keys, value: has_authority(keys) or _widens(keys, value))


def stranger_may_unset(keys: Sequence[str]) -> bool:
    """True if a stranger's record may take away what is at `keys`, all of it.

    No table: there may be something with authority in it. Nor whether a tool is on: without its
    lock it is.
    """
    words = any(_holds(allowed, keys) for allowed in _WORDS_ALONE)
    locks = any(_holds(place, keys) for place in _ENABLING)
    return words and not locks and not _leads(REMOTE_IMAGES, keys)


def _without(
    partial: Partial, ruled_out: Callable[[tuple[str, ...], JsonValue], bool]
) -> tuple[Partial, dict[str, JsonValue]]:
    """`partial` without its leaves that are `ruled_out`, and those by path."""
    left_out: dict[str, JsonValue] = {}

    def admit(node: SchemaNode | None, part: Partial, above: tuple[str, ...]) -> Partial:
        kept: Partial = {}
        for key, value in part.items():
            keys, below = (*above, key), node.child(key) if node is not None else None
            inner = value if isinstance(value, dict) and value else None
            if inner is not None and not is_wrapper(value, below):
                if admitted := admit(below, inner, keys):
                    kept[key] = admitted
            elif ruled_out(keys, value):
                left_out[format_path(keys)] = value
            else:
                kept[key] = value
        return kept

    return admit(ROOT, partial, ()), left_out


# --- a folder's file, and what a tool proposes -------------------------------------------------


def reaches_out(keys: Sequence[str], value: JsonValue, is_inside: IsInside) -> bool:
    """True if `value` at `keys` runs code, reaches a host or a file outside, or widens access.

    None is no value: something is taken away there.
    """
    return has_authority(keys) and not _is_tame(keys, value, is_inside)


def needs_person(keys: Sequence[str], value: JsonValue, is_inside: IsInside) -> bool:
    """True if a change at `keys` that a tool proposes is a person's to agree to in any case.

    A table that is put there as a whole takes along what was in it.
    """
    always = always_reaches_out(keys)
    if always is None:
        return isinstance(value, dict) or reaches_out(keys, value, is_inside)
    return always


def always_reaches_out(keys: Sequence[str]) -> bool | None:
    """True if whatever is at `keys` or below reaches out; None if that depends on what it is."""
    if _never_reaches_out(node_at(keys), keys):
        return False
    depends = not has_authority(keys) or any(_leads(other, keys) for other in (*_TAME, *_BY_VALUE))
    return None if depends else True


def _never_reaches_out(node: SchemaNode | None, keys: Sequence[str]) -> bool:
    if any(_holds(pattern, keys) for pattern in (*_WORDS_ALONE, *_TAME)):
        return True
    if has_authority(keys) or node is None or node.kind != "table" or node.table is None:
        return False
    names = [field.alias or name for name, field in node.table.model_fields.items()]
    return all(_never_reaches_out(node.child(name), (*keys, name)) for name in names)


def without_consent(partial: Partial, is_inside: IsInside) -> tuple[Partial, dict[str, JsonValue]]:
    """`partial`, of a file in a folder, as it counts before the user agreed to it.

    Also: what was left out, by path.
    """
    return _without(
        partial,
        lambda keys, value: _widens(keys, value) or reaches_out(keys, value, is_inside),
    )


_BY_VALUE: Final = (
    _ATTACHMENTS,
    *_patterns(*(f"conversation.tools.*.{name}" for name in (*_RUN_MODES, "style.parameters"))),
)


def _is_tame(keys: Sequence[str], value: JsonValue, is_inside: IsInside) -> bool:
    if any(_holds(pattern, keys) for pattern in _TAME):
        return True
    match tuple(map(str, keys)):
        case ("conversation", "attachments", *_):
            return all(map(is_inside, _urls(value)))
        case ("conversation", "tools", _, name) if name in _RUN_MODES:
            return value is not None and value != _UNATTENDED
        case ("conversation", "tools", _, "style", "parameters"):
            return value in _PLAIN_STYLES
        case _:
            return False


def _urls(value: JsonValue) -> list[str]:
    """The URLs that `value`, one attachment or a list of them, attaches."""
    if isinstance(value, dict):
        value = value.get("value")
    return [url for url in (value if isinstance(value, list) else [value]) if url is not None]  # type: ignore[misc]  # texts


def is_named_inside(url: str) -> bool:
    """True if `url` names a file below the workspace's folder. Links are not looked at."""
    try:
        parts = attachment_parts(url)
    except ValueError:
        return False
    path = posixpath.normpath(parts.path.replace("\\", "/"))
    outside = path.startswith(("/", "~")) or path == ".." or path.startswith("../")
    return parts.type.lower() == "file" and not outside and ":" not in path.partition("/")[0]
