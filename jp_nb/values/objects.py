"""Describe functions, classes, modules, handles, and exceptions.

Handles are not read, advanced, awaited, or written.

Source: `docs/values.md`.
"""

from __future__ import annotations

import inspect
import io
import linecache
import os
import types
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final

from jp_nb.values.base import (
    Description,
    DescriptionLimits,
    count,
    hidden_part,
    to_one_line,
    truncate_end,
    truncate_middle,
    without_addresses,
)
from jp_nb.values.custom import FAILURES, type_name, types_of
from jp_nb.values.expressions import format_location, is_cell_file, is_own_code

MAX_NAMES = 200


def describe_function(value: Any, limits: DescriptionLimits) -> str:
    """Return signature, location, and docstring. A function of the notebook has its source."""
    module = getattr(value, "__module__", None)
    is_qualified = isinstance(module, str) and module not in ("__main__", "builtins")
    prefix = f"{module}." if is_qualified else ""
    name = f"{prefix}{getattr(value, '__qualname__', type(value).__name__)}"
    code = getattr(inspect.unwrap(value) if inspect.isfunction(value) else value, "__code__", None)
    word = "async def" if inspect.iscoroutinefunction(value) else "function"
    title = f"{word} {name}{_format_signature(value)}"
    if limits.brief:
        return title
    where = (
        format_location(code.co_filename, code.co_firstlineno) if code is not None else "built in"
    )
    lines = [f"{title}, {where}"]
    source = _read_source(value) if code is not None and is_cell_file(code.co_filename) else None
    if source is not None:
        room = limits.chars - len(lines[0]) - 2
        return truncate_end(f"{lines[0]}\n{truncate_middle(source, max(room, 20))}", limits.chars)
    return truncate_middle("\n".join([*lines, *_read_docstring(value)]), limits.chars)


def describe_bound_method(value: types.MethodType, limits: DescriptionLimits) -> str:
    """Return the class of a method, and the description of its function."""
    owner = type_name(value.__self__ if isinstance(value.__self__, type) else type(value.__self__))
    inner = describe_function(value.__func__, limits)
    return truncate_end(f"method of {owner}: {inner}", limits.chars)


def describe_class(value: Any, limits: DescriptionLimits) -> str:
    """Return signature, bases, docstring, and public names of a class."""
    bases = ", ".join(type_name(base) for base in value.__bases__ if base is not object)
    title = f"class {type_name(value)}{f', a kind of {bases}' if bases else ''}"
    if limits.brief:
        return title
    lines = [title]
    if signature := _format_signature(value):
        lines.append(f"{value.__name__}{signature}")
    lines += _read_docstring(value)
    names = [name for name in vars(value) if not name.startswith("_")]
    if names:
        lines.append(f"Own public names: {_list_names(names, limits)}")
    return truncate_middle("\n".join(lines), limits.chars)


def describe_module(value: types.ModuleType, limits: DescriptionLimits) -> str:
    """Return name, first paragraph of the docstring, and public names of a module."""
    space = types.ModuleType.__getattribute__(value, "__dict__")
    title = f"module {to_one_line(str(space.get('__name__', '?')), 120)}"
    if limits.brief:
        return title
    if isinstance(version := space.get("__version__"), str):
        title = f"{title}, version {to_one_line(version, 40)}"
    doc = space.get("__doc__")
    doc = inspect.cleandoc(doc) if isinstance(doc, str) else ""
    lines_of_doc = [line for line in doc.partition("\n\n")[0].splitlines() if line.strip("=-~ ")]
    first = " ".join(lines_of_doc)
    lines = [title, to_one_line(first, 500)] if first else [title]
    public = space.get("__all__")
    if not isinstance(public, list | tuple):
        public = [name for name in space if not name.startswith("_")]
    if public:
        lines.append(f"Public names: {_list_names(sorted(map(str, public)), limits)}")
    return truncate_end("\n".join(lines), limits.chars)


def _format_signature(value: Any) -> str:
    try:
        return to_one_line(without_addresses(str(inspect.signature(value))), 1000)
    except FAILURES:
        return ""


def _read_docstring(value: Any) -> list[str]:
    doc = value.__doc__
    if not isinstance(doc, str) or not doc.strip():
        return []
    # The default docstring of a dataclass is its signature.
    is_default = doc.startswith(f"{getattr(value, '__name__', '')}(") and "\n" not in doc
    return [] if is_default else [inspect.cleandoc(doc)]


def _read_source(value: Any) -> str | None:
    try:
        return inspect.getsource(value).rstrip()
    except FAILURES:
        return None


def _list_names(names: list[str], limits: DescriptionLimits) -> str:
    room, shown = limits.chars // 2, []
    for name in names[:MAX_NAMES]:
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(to_one_line(name, 80))
    text = ", ".join(shown)
    if len(shown) == len(names):
        return text
    return f"{text}, … {count(len(names) - len(shown), 'more name')}; dir({limits.name}) has all"


def describe_file(value: Any, limits: DescriptionLimits) -> str:
    """Return name, mode, and position of a file, without reading it."""
    name = getattr(value, "name", None)
    shown = f" {_format_file_name(name)!r}" if isinstance(name, str | bytes | int) else ""
    mode = getattr(value, "mode", None)
    words = [f"{type_name(type(value))}{shown}"]
    if isinstance(mode, str):
        words.append(f"mode {mode!r}")
    words.append(_format_position(value))
    return truncate_end(", ".join(words), limits.chars)


def _format_file_name(name: str | bytes | int) -> str:
    if isinstance(name, int):
        return f"file descriptor {name}"
    text = os.fsdecode(name)
    folder = os.path.join(os.getcwd(), "")
    return to_one_line(text.removeprefix(folder), 300)


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


def describe_iterator(value: Any, limits: DescriptionLimits) -> str:
    """Return the type of an iterator, without advancing it."""
    return f"{type_name(type(value))}, an iterator (not consumed)"


def describe_generator(value: Any, limits: DescriptionLimits) -> str:
    """Return name and state of a coroutine or a (possibly async) generator, without running it."""
    state: str
    if inspect.iscoroutine(value):
        state, word = inspect.getcoroutinestate(value), "coroutine"
    elif inspect.isasyncgen(value):
        # `inspect.getasyncgenstate` is new in Python 3.12.
        running = "AGEN_RUNNING" if value.ag_running else "AGEN_OPEN"
        state, word = "AGEN_CLOSED" if value.ag_frame is None else running, "async generator"
    else:
        state, word = inspect.getgeneratorstate(value), "generator"
    todo = "not awaited" if word == "coroutine" else "not consumed"
    return f"{word} {value.__qualname__}, {state.partition('_')[2].lower()} ({todo})"


def describe_future(value: Any, limits: DescriptionLimits) -> str:
    """Return the state of a task or a future, without waiting for it."""
    name = type_name(type(value))
    code = getattr(getattr(value, "get_coro", lambda: None)(), "__qualname__", "")
    named = f" of {code}" if code else ""
    if value.cancelled():
        return f"{name}{named}, cancelled"
    if not value.done():
        return f"{name}{named}, not done"
    failed = value._exception if hasattr(value, "_exception") else None
    if failed is not None:  # `exception()` would suppress the warning about a lost exception
        return f"{name}{named}, failed: {limits.inner(failed, limits.part(300, brief=True)).text}"
    inner = limits.inner(value.result(), limits.part(max(limits.chars - 200, 40), brief=True))
    return f"{name}{named}, done: {inner.text}"


def describe_thread(value: Any, limits: DescriptionLimits) -> str:
    """Return name and state of a thread."""
    state = "alive" if value.is_alive() else "not alive"
    return f"{type_name(type(value))} {value.name!r}, {state}"


def describe_socket(value: Any, limits: DescriptionLimits) -> str:
    """Return type and state of a socket, without reading from it."""
    state = "closed" if value.fileno() < 0 else "open"
    return f"{type_name(type(value))}, {value.family.name}, {value.type.name}, {state}, not read"


def describe_connection(value: Any, limits: DescriptionLimits) -> str:
    """Return the type of a database connection, without a query."""
    return f"{type_name(type(value))}, a database connection (not queried)"


def describe_widget(value: Any, limits: DescriptionLimits) -> str:
    """Return type, description, and value of a widget. A password stays hidden."""
    name = type(value).__name__
    words = [f"ipywidgets.{name}"]
    hidden = "hidden" if "Password" in {kind.__name__ for kind in types_of(value)} else None
    try:
        description = value.description
        if isinstance(description, str) and description:
            words.append(f"description {to_one_line(description, 100)!r}")
            hidden = hidden or hidden_part(description)
    except FAILURES:
        pass  # layout widgets have no description
    if hidden is not None:
        return f"{', '.join(words)}, value {hidden}"
    try:
        inner = limits.inner(value.value, limits.part(max(limits.chars - 200, 40), brief=True))
        words.append(f"value {inner.text}")
    except FAILURES:
        children = getattr(value, "children", ())
        if isinstance(children, tuple) and children:
            words.append(count(len(children), "child", "children"))
    return truncate_end(", ".join(words), limits.chars)


def describe_displayed(value: Any, limits: DescriptionLimits) -> str | Description:
    """Return the text of one of IPython's display objects, such as `Markdown`."""
    data = value.data
    if isinstance(data, bytes):
        return limits.inner(data, limits)
    if isinstance(data, str):
        return truncate_middle(data, limits.chars)
    if isinstance(data, dict | list):
        return limits.inner(data, limits)
    return without_addresses(f"IPython {type(value).__name__}")


MAX_CAUSES: Final = 5
MAX_FRAMES: Final = 20
MAX_WALKED: Final = 5_000
_MAX_TEXT = 2000


def describe_exception(value: BaseException, limits: DescriptionLimits) -> str:
    """Return type, text, notes, lines of the user's code, and causes of an exception."""
    if limits.brief:
        return _format_summary(value, limits.chars)
    return truncate_middle("\n".join(_format_exception(value, set())), limits.chars)


def _format_exception(value: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(value))
    yield _format_summary(value, _MAX_TEXT)
    notes = getattr(value, "__notes__", None)
    for note in notes[:5] if isinstance(notes, list) else ():
        if isinstance(note, str):
            yield to_one_line(note, 500)
    yield from _format_frames(value.__traceback__)
    parts = getattr(value, "exceptions", ()) if isinstance(value, BaseExceptionGroup) else ()
    for part in parts[:MAX_CAUSES]:
        if id(part) not in seen:
            yield "One of them:"
            yield from _format_exception(part, seen)
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
        yield from _format_exception(cause, seen)


def _format_summary(value: BaseException, room: int) -> str:
    try:
        text = str(value)
    except FAILURES as exc:
        text = f"(no text available: {type(exc).__name__})"
    text = truncate_middle(text, max(room - 100, 40))
    return f"{type_name(type(value))}{f': {text}' if text else ''}"


def _format_frames(traceback: TracebackType | None) -> Iterator[str]:
    # The lines of the user's code, and the number of other lines.
    own: list[str] = []
    others = walked = 0
    while traceback is not None and walked < MAX_WALKED:
        walked += 1
        code = traceback.tb_frame.f_code
        if is_own_code(code.co_filename):
            line = traceback.tb_lineno
            source = linecache.getline(code.co_filename, line).strip()
            place = format_location(code.co_filename, line)
            inside = "" if code.co_name == "<module>" else f", in {code.co_name}"
            own.append(f"  {place}{inside}{f': {to_one_line(source, 200)}' if source else ''}")
        else:
            others += 1
        traceback = traceback.tb_next
    yield from own[: MAX_FRAMES // 2]
    if len(own) > MAX_FRAMES:
        yield f"  … {count(len(own) - MAX_FRAMES, 'more line')}"
    yield from own[max(MAX_FRAMES // 2, len(own) - MAX_FRAMES // 2) :]
    if others:
        yield f"  ({count(others, 'line')} of installed code omitted)"
