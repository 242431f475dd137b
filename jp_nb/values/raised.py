"""Describes exceptions: type, text, the user's own lines on the way, and what caused them.

Source: `docs/values.md`.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from types import TracebackType
from typing import Final

from jp_nb.values.cutting import count, cut_middle, in_one_line
from jp_nb.values.own_text import FAILURES, type_name
from jp_nb.values.source_places import is_own_code, place_of
from jp_nb.values.telling import Telling

MAX_CAUSES: Final = 5
MAX_FRAMES: Final = 20
MAX_WALKED: Final = 5_000
_TEXT = 2000


def describe_exception(value: BaseException, telling: Telling) -> str:
    """Return what happened, where in the user's code, and why."""
    if telling.brief:
        return _what(value, telling.chars)
    return cut_middle("\n".join(_told(value, set())), telling.chars)


def _told(value: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(value))
    yield _what(value, _TEXT)
    for note in _notes(value):
        yield in_one_line(note, 500)
    yield from _frames(value.__traceback__)
    parts = getattr(value, "exceptions", ()) if isinstance(value, BaseExceptionGroup) else ()
    for part in parts[:MAX_CAUSES]:
        if id(part) not in seen:
            yield "One of them:"
            yield from _told(part, seen)
    if len(parts) > MAX_CAUSES:
        yield f"… {count(len(parts) - MAX_CAUSES, 'more exception')}"
    cause = value.__cause__
    word = "Caused by:"
    if cause is None and not value.__suppress_context__:
        cause, word = value.__context__, "While handling:"
    if cause is not None and id(cause) not in seen:
        if len(seen) > MAX_CAUSES:
            yield "… more causes"
            return
        yield word
        yield from _told(cause, seen)


def _what(value: BaseException, room: int) -> str:
    try:
        text = str(value)
    except FAILURES as exc:
        text = f"(no text available: {type(exc).__name__})"
    text = cut_middle(text, max(room - 100, 40))
    return f"{type_name(type(value))}{f': {text}' if text else ''}"


def _notes(value: BaseException) -> list[str]:
    notes = getattr(value, "__notes__", None)
    return [note for note in notes[:5] if isinstance(note, str)] if isinstance(notes, list) else []


def _frames(traceback: TracebackType | None) -> Iterator[str]:
    """Yield the lines of the user's code that the exception went through, and how many others."""
    own: list[str] = []
    others = walked = 0
    while traceback is not None and walked < MAX_WALKED:
        walked += 1
        code = traceback.tb_frame.f_code
        if is_own_code(code.co_filename):
            line = traceback.tb_lineno
            source = linecache.getline(code.co_filename, line).strip()
            place = place_of(code.co_filename, line)
            inside = "" if code.co_name == "<module>" else f", in {code.co_name}"
            own.append(f"  {place}{inside}{f': {in_one_line(source, 200)}' if source else ''}")
        else:
            others += 1
        traceback = traceback.tb_next
    yield from own[: MAX_FRAMES // 2]
    if len(own) > MAX_FRAMES:
        yield f"  … {count(len(own) - MAX_FRAMES, 'more line')}"
    yield from own[max(MAX_FRAMES // 2, len(own) - MAX_FRAMES // 2) :]
    if others:
        yield f"  ({count(others, 'line')} of installed code omitted)"
