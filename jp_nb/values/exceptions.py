"""Describe exceptions with their causes and the lines of the user's code.

The text may be longer than the limits of the description: the caller omits its middle.

Source: `docs/values.md`.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final

from jp_nb.values.base import DescriptionLimits, ValueKind, ValueKinds
from jp_nb.values.class_facts import FAILURES, name_type
from jp_nb.values.cut_text import cut_middle, format_quantity, to_one_line
from jp_nb.values.source_locations import format_location, is_own_code

MAX_CAUSES: Final = 5
"""Maximum number of members of an exception group; no cause follows so many exceptions."""
MAX_TRACEBACK_FRAMES: Final = 20
"""Maximum number of lines of a traceback that are shown."""
MAX_WALKED_FRAMES: Final = 5_000
"""Maximum number of frames of a traceback that are read."""


def _describe_exception(value: BaseException, limits: DescriptionLimits) -> str:
    if limits.brief:
        return _format_summary(value, limits.chars)
    return "\n".join(_format_exception(value, set()))


def _format_exception(value: BaseException, seen: set[int]) -> Iterator[str]:
    """Yield the lines of an exception, its members, and its causes.

    `seen` has the `id` of each exception so far, because causes may form a cycle.
    """
    seen.add(id(value))
    yield _format_summary(value, 2000)  # leaves room for the messages of causes

    notes = getattr(value, "__notes__", None)
    for note in notes[:5] if isinstance(notes, list) else ():
        if isinstance(note, str):
            yield to_one_line(note, 500)

    yield from _format_frames(value.__traceback__)

    parts: Sequence[BaseException] = ()
    if isinstance(value, BaseExceptionGroup):
        parts = getattr(value, "exceptions", ())

    for part in parts[:MAX_CAUSES]:
        if id(part) not in seen:
            yield "One of them:"
            yield from _format_exception(part, seen)

    if len(parts) > MAX_CAUSES:
        yield f"… {format_quantity(len(parts) - MAX_CAUSES, 'more exception')}"

    # As in a traceback of Python: the cause of `raise … from`, or the exception that was handled.
    cause = value.__cause__
    word = "Caused by:"
    if cause is None and not value.__suppress_context__:
        cause = value.__context__
        word = "While handling:"

    if cause is not None and id(cause) not in seen:
        if len(seen) > MAX_CAUSES:
            yield "… more causes"
            return
        yield word
        yield from _format_exception(cause, seen)


def _format_summary(value: BaseException, room: int) -> str:
    try:
        text = str(value)
    except FAILURES as exc:
        text = f"(no text available: {type(exc).__name__})"
    text = cut_middle(text, max(room - 100, 40))
    end = f": {text}" if text else ""
    return f"{name_type(type(value))}{end}"


def _format_frames(traceback: TracebackType | None) -> Iterator[str]:
    """Yield the lines of the user's code, first and last ones, and the number of other lines."""
    own: list[str] = []
    others = 0
    walked = 0

    while traceback is not None and walked < MAX_WALKED_FRAMES:
        walked += 1
        code = traceback.tb_frame.f_code
        if is_own_code(code.co_filename):
            line = traceback.tb_lineno
            source = linecache.getline(code.co_filename, line).strip()
            place = format_location(code.co_filename, line)
            inside = "" if code.co_name == "<module>" else f", in {code.co_name}"
            shown = f": {to_one_line(source, 200)}" if source else ""
            own.append(f"  {place}{inside}{shown}")
        else:
            others += 1
        traceback = traceback.tb_next

    yield from own[: MAX_TRACEBACK_FRAMES // 2]
    if len(own) > MAX_TRACEBACK_FRAMES:
        yield f"  … {format_quantity(len(own) - MAX_TRACEBACK_FRAMES, 'more line')}"
    yield from own[max(MAX_TRACEBACK_FRAMES // 2, len(own) - MAX_TRACEBACK_FRAMES // 2) :]

    if others:
        yield f"  ({format_quantity(others, 'line')} of installed code omitted)"


EXCEPTION_KINDS: Final[ValueKinds] = (
    ("builtins", "BaseException", ValueKind(_describe_exception)),
)
