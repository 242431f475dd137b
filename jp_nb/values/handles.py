"""Describe handles: files, generators, tasks, threads, sockets, connections, and widgets.

A *handle* gives access to something else. The description has its state, and the value that it
already holds, if any. It is not read, advanced, awaited, or written.

A *describer* returns the text of a value for the model, within its `limits` (`base.py`). With
`limits.brief`, the text is one line. `limits.describe_part` describes a part of the value within
`limits.for_part(chars)`.

Source: `docs/values.md`.
"""

from __future__ import annotations

import inspect
import io
import os
from typing import Any, Final

from jp_nb.values.base import DescriptionLimits, ValueKind, ValueKinds
from jp_nb.values.class_facts import FAILURES, list_types, name_type
from jp_nb.values.cut_text import cut_end, format_quantity, to_one_line
from jp_nb.values.privacy import hide_part

_TITLE_CHARS: Final = 200
"""Room for the title of a handle, before the value that it holds."""
_MIN_PART_CHARS: Final = 40
"""Minimum room for this value."""


def _describe_file(value: Any, limits: DescriptionLimits) -> str:
    name = getattr(value, "name", None)
    mode = getattr(value, "mode", None)
    title = name_type(type(value))

    if isinstance(name, int):
        title += f" 'file descriptor {name}'"
    elif isinstance(name, str | bytes):
        path = os.fsdecode(name).removeprefix(os.path.join(os.getcwd(), ""))
        title += f" {to_one_line(path, 300)!r}"

    words = [title]
    if isinstance(mode, str):
        words.append(f"mode {mode!r}")
    words.append(_format_position(value))
    return cut_end(", ".join(words), limits.chars)


def _format_position(value: Any) -> str:
    if value.closed:
        return "closed"
    # `tell` of a writable text file flushes its buffer.
    if isinstance(value, io.TextIOWrapper) and value.writable():
        return "open, not read"
    try:
        return f"open at position {value.tell():,}, not read"
    except (OSError, ValueError):
        return "open, not read"


def _describe_generator(value: Any, limits: DescriptionLimits) -> str:
    state: str
    if inspect.iscoroutine(value):
        state = inspect.getcoroutinestate(value)
        word = "coroutine"
    elif inspect.isasyncgen(value):
        # `inspect.getasyncgenstate` is new in Python 3.12.
        running = "AGEN_RUNNING" if value.ag_running else "AGEN_OPEN"
        state = "AGEN_CLOSED" if value.ag_frame is None else running
        word = "async generator"
    else:
        state = inspect.getgeneratorstate(value)
        word = "generator"

    todo = "not awaited" if word == "coroutine" else "not consumed"
    return f"{word} {value.__qualname__}, {state.partition('_')[2].lower()} ({todo})"


def _describe_future(value: Any, limits: DescriptionLimits) -> str:
    name = name_type(type(value))
    # A task has a coroutine, a future has none.
    get_coroutine = getattr(value, "get_coro", None)
    coroutine = None if get_coroutine is None else get_coroutine()
    code = getattr(coroutine, "__qualname__", "")
    named = f" of {code}" if code else ""

    if value.cancelled():
        return f"{name}{named}, cancelled"
    if not value.done():
        return f"{name}{named}, not done"

    # The method `exception` would suppress the warning about an exception that is never retrieved.
    failed = getattr(value, "_exception", None)
    if failed is not None:
        error = limits.describe_part(failed, limits.for_part(300, brief=True))
        return f"{name}{named}, failed: {error.text}"

    room = max(limits.chars - _TITLE_CHARS, _MIN_PART_CHARS)
    result = limits.describe_part(value.result(), limits.for_part(room, brief=True))
    return f"{name}{named}, done: {result.text}"


def _describe_thread(value: Any, limits: DescriptionLimits) -> str:
    state = "alive" if value.is_alive() else "not alive"
    return f"{name_type(type(value))} {value.name!r}, {state}"


def _describe_socket(value: Any, limits: DescriptionLimits) -> str:
    state = "closed" if value.fileno() < 0 else "open"
    return f"{name_type(type(value))}, {value.family.name}, {value.type.name}, {state}, not read"


def _describe_widget(value: Any, limits: DescriptionLimits) -> str:
    name = type(value).__name__
    words = [f"ipywidgets.{name}"]
    hidden = "hidden" if "Password" in {kind.__name__ for kind in list_types(value)} else None

    try:
        description = value.description
        if isinstance(description, str) and description:
            words.append(f"description {to_one_line(description, 100)!r}")
            hidden = hidden or hide_part(description)
    except FAILURES:
        pass  # layout widgets have no description

    if hidden is not None:
        return f"{', '.join(words)}, value {hidden}"

    try:
        room = max(limits.chars - _TITLE_CHARS, _MIN_PART_CHARS)
        shown = limits.describe_part(value.value, limits.for_part(room, brief=True))
        words.append(f"value {shown.text}")
    except FAILURES:
        children = getattr(value, "children", ())
        if isinstance(children, tuple) and children:
            words.append(format_quantity(len(children), "child", "children"))

    return cut_end(", ".join(words), limits.chars)


_CONNECTION: Final = ValueKind(
    lambda value, _: f"{name_type(type(value))}, a database connection (not queried)"
)
HANDLE_KINDS: Final[ValueKinds] = (
    ("ipywidgets", "Widget", ValueKind(_describe_widget)),
    ("_io", "_IOBase", ValueKind(_describe_file)),
    ("tempfile", "_TemporaryFileWrapper", ValueKind(_describe_file)),
    ("types", "GeneratorType", ValueKind(_describe_generator)),
    ("types", "CoroutineType", ValueKind(_describe_generator)),
    ("types", "AsyncGeneratorType", ValueKind(_describe_generator)),
    ("_asyncio", "Future", ValueKind(_describe_future)),
    ("asyncio", "Future", ValueKind(_describe_future)),
    ("threading", "Thread", ValueKind(_describe_thread)),
    ("socket", "socket", ValueKind(_describe_socket)),
    ("sqlite3", "Connection", _CONNECTION),
)
