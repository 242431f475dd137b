"""Describes what stands for something else: files, iterators, tasks, locks, sockets, widgets.

None of them is read, advanced, awaited or written to.

Source: `docs/values.md`.
"""

from __future__ import annotations

import inspect
import io
import os
from typing import Any

from jp_nb.values.cutting import count, cut_end, cut_middle, in_one_line, without_addresses
from jp_nb.values.description import Description
from jp_nb.values.own_text import FAILURES, type_name, types_of
from jp_nb.values.privacy import hidden_part
from jp_nb.values.telling import Telling


def describe_file(value: Any, telling: Telling) -> str:
    """Return name, mode and position of an open file; it is not read."""
    name = getattr(value, "name", None)
    shown = f" {_file_name(name)!r}" if isinstance(name, str | bytes | int) else ""
    mode = getattr(value, "mode", None)
    words = [f"{type_name(type(value))}{shown}"]
    if isinstance(mode, str):
        words.append(f"mode {mode!r}")
    words.append(_position(value))
    return cut_end(", ".join(words), telling.chars)


def _file_name(name: str | bytes | int) -> str:
    if isinstance(name, int):
        return f"file descriptor {name}"
    text = os.fsdecode(name)
    folder = os.path.join(os.getcwd(), "")
    return in_one_line(text.removeprefix(folder), 300)


def _position(value: Any) -> str:
    if value.closed:
        return "closed"
    # A text file that is written to would write its buffer to tell its position.
    if isinstance(value, io.TextIOWrapper) and value.writable():
        return "open, not read"
    try:
        return f"open at position {value.tell():,}, not read"
    except (OSError, ValueError):
        return "open, not read"


def describe_iterator(value: Any, telling: Telling) -> str:
    """Return what kind of iterator it is; nothing is taken from it."""
    return f"{type_name(type(value))}, an iterator (not consumed)"


def describe_generator(value: Any, telling: Telling) -> str:
    """Return name and state of a generator or a coroutine, which does not run for this."""
    state: str
    if inspect.iscoroutine(value):
        state, word = inspect.getcoroutinestate(value), "coroutine"
    elif inspect.isasyncgen(value):
        state, word = _state_of_async(value), "async generator"
    else:
        state, word = inspect.getgeneratorstate(value), "generator"
    todo = "not awaited" if word == "coroutine" else "not consumed"
    words = state.partition("_")[2].lower()  # such as GEN_SUSPENDED
    return f"{word} {value.__qualname__}, {words} ({todo})"


def _state_of_async(value: Any) -> str:
    if value.ag_frame is None:
        return "AGEN_CLOSED"
    return "AGEN_RUNNING" if value.ag_running else "AGEN_OPEN"


def describe_future(value: Any, telling: Telling) -> str:
    """Return the state of a task or a future; it is not waited for."""
    name = f"{type_name(type(value))}"
    code = getattr(getattr(value, "get_coro", lambda: None)(), "__qualname__", "")
    named = f" of {code}" if code else ""
    if value.cancelled():
        return f"{name}{named}, cancelled"
    if not value.done():
        return f"{name}{named}, not done"
    failed = value._exception if hasattr(value, "_exception") else None
    if failed is not None:  # asking for it the usual way would count as having seen it
        return f"{name}{named}, failed: {telling.inner(failed, telling.part(300, brief=True)).text}"
    inner = telling.inner(value.result(), telling.part(max(telling.chars - 200, 40), brief=True))
    return f"{name}{named}, done: {inner.text}"


def describe_thread(value: Any, telling: Telling) -> str:
    """Return name and state of a thread."""
    state = "alive" if value.is_alive() else "not alive"
    return f"{type_name(type(value))} {value.name!r}, {state}"


def describe_socket(value: Any, telling: Telling) -> str:
    """Return kind and state of a socket; nothing is read from it."""
    state = "closed" if value.fileno() < 0 else "open"
    return f"{type_name(type(value))}, {value.family.name}, {value.type.name}, {state}, not read"


def describe_connection(value: Any, telling: Telling) -> str:
    """Return the kind of a connection to a database; nothing is asked of it."""
    return f"{type_name(type(value))}, a database connection (not queried)"


def describe_widget(value: Any, telling: Telling) -> str:
    """Return type, description and value of a widget; a password stays hidden."""
    name = type(value).__name__
    words = [f"ipywidgets.{name}"]
    hidden = "hidden" if "Password" in {kind.__name__ for kind in types_of(value)} else None
    try:
        description = value.description
        if isinstance(description, str) and description:
            words.append(f"description {in_one_line(description, 100)!r}")
            hidden = hidden or hidden_part(description)
    except FAILURES:
        pass  # most layouts have none
    if hidden is not None:
        return f"{', '.join(words)}, value {hidden}"
    try:
        inner = telling.inner(value.value, telling.part(max(telling.chars - 200, 40), brief=True))
        words.append(f"value {inner.text}")
    except FAILURES:
        children = getattr(value, "children", ())
        if isinstance(children, tuple) and children:
            words.append(count(len(children), "child", "children"))
    return cut_end(", ".join(words), telling.chars)


def describe_displayed(value: Any, telling: Telling) -> str | Description:
    """Return the text of one of IPython's display objects, such as `Markdown`."""
    data = value.data
    if isinstance(data, bytes):
        return telling.inner(data, telling)
    if isinstance(data, str):
        return cut_middle(data, telling.chars)
    if isinstance(data, dict | list):
        return telling.inner(data, telling)
    return without_addresses(f"IPython {type(value).__name__}")
