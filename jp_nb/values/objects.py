"""Describe texts, numbers, functions, classes, modules, and handles.

Handles are not read, advanced, awaited, or written.

Source: `docs/values.md`.
"""

from __future__ import annotations

import inspect
import io
import os
import re
import stat
import types
from contextlib import suppress
from typing import Any, Final

from jp_nb.images import Image, detect_media_type
from jp_nb.values.base import Description, DescriptionLimits, ValueKind, ValueKinds
from jp_nb.values.custom import FAILURES, format_repr, list_types, name_type
from jp_nb.values.cut_text import count, cut_end, cut_middle, to_one_line, without_addresses
from jp_nb.values.nested_text import format_int
from jp_nb.values.privacy import hide_part, read_bytes_without_hidden
from jp_nb.values.source_locations import format_location, is_cell_file

MAX_VALUE_IMAGE_BYTES = 5_000_000


# --- texts, numbers, and other plain values ----------------------------------------------------


def _describe_text(value: str, limits: DescriptionLimits) -> str:
    text = str.__str__(value)
    if limits.brief:
        return repr(cut_end(text, limits.chars))
    return cut_middle(text, limits.chars, limits.name)


def _describe_bytes(value: bytes | bytearray, limits: DescriptionLimits) -> str | Description:
    length = len(value)
    kind = detect_media_type(bytes(value[:16]))
    title = f"{type(value).__name__}, {count(length, 'byte')}"

    if kind is not None:
        shown = limits.images > 0 and length <= MAX_VALUE_IMAGE_BYTES
        images = (Image(kind, bytes(value), limits.name),) if shown else ()
        return Description(f"{title}: {kind}", images)

    room = max((limits.chars - len(title) - 60) // 4, 8)
    if length <= room:
        return repr(bytes(value))

    left = limits.more(length - room, "byte", f"[{room}:] has the rest")
    return f"{title}: {read_bytes_without_hidden(value)[:room]!r} {left}"


def _describe_numpy_scalar(value: Any, limits: DescriptionLimits) -> str:
    if value.dtype.names is None:
        return str(value)
    return limits.inner({name: value[name] for name in value.dtype.names}, limits).text


def _describe_member(value: Any, limits: DescriptionLimits) -> str:
    kind = type(value)
    name = f"{name_type(kind).rpartition('.')[2]}.{value._name_}"
    inner = limits.inner(value._value_, limits.part(200, brief=True))
    return f"{name} (value {inner.text})"


def _describe_path(value: Any, limits: DescriptionLimits) -> str:
    text = str(value)
    if "Path" not in {kind.__name__ for kind in list_types(value)}:
        return text  # a pure path may be a path of another machine

    try:
        found = os.stat(text)
    except (OSError, ValueError):
        return f"{text} (does not exist)"

    if stat.S_ISDIR(found.st_mode):
        return f"{text} (a folder)"
    return f"{text} (a file of {count(found.st_size, 'byte')}, not read)"


def _describe_pattern(value: re.Pattern[Any], limits: DescriptionLimits) -> str:
    flags = re.RegexFlag(value.flags & ~re.UNICODE.value)
    end = f", flags {flags!s}" if flags else ""
    return f"re.compile({cut_end(repr(value.pattern), limits.chars - len(end) - 14)}{end})"


# --- functions, classes, and modules -----------------------------------------------------------


def _describe_function(value: Any, limits: DescriptionLimits) -> str:
    module = getattr(value, "__module__", None)
    is_qualified = isinstance(module, str) and module not in ("__main__", "builtins")
    prefix = f"{module}." if is_qualified else ""
    name = f"{prefix}{getattr(value, '__qualname__', type(value).__name__)}"

    function = inspect.unwrap(value) if inspect.isfunction(value) else value
    code = getattr(function, "__code__", None)
    word = "async def" if inspect.iscoroutinefunction(value) else "function"
    title = f"{word} {name}{_format_signature(value)}"
    if limits.brief:
        return title

    place = None if code is None else format_location(code.co_filename, code.co_firstlineno)
    title = f"{title}, {place or 'built in'}"

    if code is not None and is_cell_file(code.co_filename):
        with suppress(*FAILURES):
            source = inspect.getsource(value).rstrip()
            room = limits.chars - len(title) - 2
            return cut_end(f"{title}\n{cut_middle(source, max(room, 20))}", limits.chars)

    return cut_middle("\n".join([title, *_read_docstring(value)]), limits.chars)


def _describe_bound_method(value: types.MethodType, limits: DescriptionLimits) -> str:
    owner = value.__self__
    kind = owner if isinstance(owner, type) else type(owner)
    inner = _describe_function(value.__func__, limits)
    return cut_end(f"method of {name_type(kind)}: {inner}", limits.chars)


def _describe_class(value: Any, limits: DescriptionLimits) -> str:
    bases = ", ".join(name_type(base) for base in value.__bases__ if base is not object)
    kinds = f", a kind of {bases}" if bases else ""
    title = f"class {name_type(value)}{kinds}"
    if limits.brief:
        return title

    lines = [title]
    if signature := _format_signature(value):
        lines.append(f"{value.__name__}{signature}")

    lines += _read_docstring(value)
    names = [name for name in vars(value) if not name.startswith("_")]

    if names:
        lines.append(f"Own public names: {_list_names(names, limits)}")

    return "\n".join(lines)


def _describe_module(value: types.ModuleType, limits: DescriptionLimits) -> str:
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

    return cut_end("\n".join(lines), limits.chars)


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


def _list_names(names: list[str], limits: DescriptionLimits) -> str:
    room = limits.chars // 2

    shown = []
    for name in names[:200]:  # a module may have very many names
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(to_one_line(name, 80))

    text = ", ".join(shown)
    if len(shown) == len(names):
        return text

    return f"{text}, … {count(len(names) - len(shown), 'more name')}; dir({limits.name}) has all"


# --- handles ----------------------------------------------------------------------------------


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
        inner = limits.inner(value.value, limits.part(max(limits.chars - 200, 40), brief=True))
        words.append(f"value {inner.text}")
    except FAILURES:
        children = getattr(value, "children", ())
        if isinstance(children, tuple) and children:
            words.append(count(len(children), "child", "children"))

    return cut_end(", ".join(words), limits.chars)


def _describe_displayed(value: Any, limits: DescriptionLimits) -> str | Description:
    data = value.data
    if isinstance(data, str):
        return data
    if isinstance(data, bytes | dict | list):
        return limits.inner(data, limits)
    return without_addresses(f"IPython {type(value).__name__}")


_STR: Final = ValueKind(lambda value, _: str(value))
_REPR: Final = ValueKind(lambda value, limits: format_repr(value, limits.chars))
_INT: Final = ValueKind(lambda value, _: str(value) if type(value) is bool else format_int(value))
_CONNECTION: Final = ValueKind(
    lambda value, _: f"{name_type(type(value))}, a database connection (not queried)"
)
OBJECT_KINDS: Final[ValueKinds] = (
    ("numpy", "generic", ValueKind(_describe_numpy_scalar)),
    ("matplotlib.figure", "SubFigure", _REPR),
    ("IPython.core.display", "DisplayObject", ValueKind(_describe_displayed, is_rich=True)),
    ("ipywidgets", "Widget", ValueKind(_describe_widget)),
    ("builtins", "str", ValueKind(_describe_text)),
    ("enum", "Enum", ValueKind(_describe_member)),
    ("builtins", "bytes", ValueKind(_describe_bytes)),
    ("builtins", "bytearray", ValueKind(_describe_bytes)),
    ("builtins", "int", _INT),
    ("datetime", "date", _STR),
    ("datetime", "time", _STR),
    ("datetime", "timedelta", _STR),
    ("datetime", "tzinfo", _STR),
    ("decimal", "Decimal", _STR),
    ("fractions", "Fraction", _STR),
    ("uuid", "UUID", _STR),
    ("pathlib", "PurePath", ValueKind(_describe_path)),
    ("re", "Pattern", ValueKind(_describe_pattern)),
    ("builtins", "type", ValueKind(_describe_class)),
    ("types", "ModuleType", ValueKind(_describe_module)),
    ("types", "FunctionType", ValueKind(_describe_function)),
    ("types", "BuiltinFunctionType", ValueKind(_describe_function)),
    ("types", "MethodType", ValueKind(_describe_bound_method)),
    ("numpy", "ufunc", _REPR),
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
