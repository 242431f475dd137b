"""What a model reads of the variables of a notebook. On the cell's thread.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from jp_nb.config.secret_names import NOT_SHOWN
from jp_nb.errors import ToolError
from jp_nb.safe_text import one_line
from jp_nb.tooling.known_secrets import KnownSecrets
from jp_nb.tooling.notebook_frame import DataSection, framed
from jp_nb.tooling.outcome import Success
from jp_nb.values.data_path import NotShown, follow_data, readable_items
from jp_nb.values.describing import describe
from jp_nb.values.description import DEFAULT_SIDE, Description, ValueBudget
from jp_nb.values.privacy import private
from jp_nb.values.value_parts import Part, part_of, pieces_of
from jp_nb.values.value_path import NotAValuePath, ValuePathError, read_value_path

VARIABLES_AT_ONCE: Final = 100
ROWS_AT_ONCE: Final = 20
"""Of a frame: the description of more shows the first and the last ones alone."""
MAX_CHARS: Final = 20_000
"""Of the description of one value."""
MAX_IMAGES: Final = 4
MAX_HIDDEN: Final = 1_000_000
"""Characters of a text that is looked through as a whole."""
_LINE: Final = 160
_ROOM: Final = 400
"""Characters of a description beyond those that are shown: a key that is cut is not recognised."""
_NAME: Final = 80
_PATIENCE_S: Final = 3.0
"""Seconds for one list: the texts of some values take long."""
_LISTED: Final = 30
_OF_IPYTHON: Final = frozenset({"In", "Out", "exit", "quit"})
_OF_IPYTHON_TOO: Final = frozenset({"get_ipython", "open"})
"""If nobody bound something of their own to them."""
_ERROR: Final = 500
NO_PATH: Final = (
    "This is not a path to a value. Write a name with attributes and subscripts, "
    "such as table.columns, rows[0], rows[10:20] or config['user']. Function calls "
    "are not possible."
)


# --- all of them -----------------------------------------------------------------------------


def variables(namespace: Mapping[str, Any], match: str, first: int, hide: KnownSecrets) -> Success:
    """Return a line for each variable whose name holds `match`, from number `first` on."""
    own = [(name, value) for name, value in _own(namespace) if match.lower() in name.lower()]
    known = sorted(own, key=lambda named: named[0])
    listed = [(name, value) for name, value in known if not _is_imported(value)]
    shown = listed[first : first + VARIABLES_AT_ONCE]
    if first and not shown:
        bound = f"0 to {len(listed) - 1}" if listed else "0"
        raise ToolError(f"There are {len(listed)} variables: `first` must be {bound}.")
    about = _about(first, len(shown), len(listed), match)
    sections = [DataSection("variables", "\n".join(_lines(shown, hide)) or "(none)")]
    others = (name for name, value in known if _is_imported(value))
    if imported := [name for name in others if name not in _OF_IPYTHON_TOO]:
        more = f" and {len(imported) - _LISTED} more" if len(imported) > _LISTED else ""
        names = ", ".join(one_line(name, limit=_NAME) for name in imported[:_LISTED])
        sections.append(DataSection("imported modules, functions and classes", f"{names}{more}"))
    return Success(framed(about, sections))


def _about(first: int, shown: int, total: int, match: str) -> str:
    what = "variables whose names contain the text" if match else "variables"
    about = (
        f"{total} {what}, sorted by name. Names that begin with _ and the names of "
        "IPython are omitted."
    )
    if shown < total:
        about += f" This list holds numbers {first} to {first + shown - 1}, counted from 0."
    if first + shown < total:
        about += f" For more, call with first={first + shown}."
    return about


def _own(namespace: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in list(namespace.items()):
        if type(name) is str and not name.startswith("_") and name not in _OF_IPYTHON:
            yield name, value


def _is_imported(value: Any) -> bool:
    """True for a module, and for a function or class of one; those of the notebook are its own."""
    kind = type(value)
    if issubclass(kind, ModuleType):
        return True
    is_code = kind in (FunctionType, BuiltinFunctionType) or issubclass(kind, type)
    is_code |= kind.__name__ in ("method", "builtin_function_or_method")
    if not is_code:
        return False
    try:
        return bool(getattr(value, "__module__", None) != "__main__")
    except Exception:  # of a metaclass: it may do anything
        return False


def _lines(shown: list[tuple[str, Any]], hide: KnownSecrets) -> Iterator[str]:
    ends = time.monotonic() + _PATIENCE_S
    for name, value in shown:
        kind = one_line(type(value).__name__, limit=_NAME)
        if hide.name(name, value) is not None:
            said = NOT_SHOWN
        elif time.monotonic() > ends:
            said = "(not read: the variables above took too long)"
        else:
            said = _cut(hide(_described(value, hide, _LINE + _ROOM).text))
        yield f"{one_line(name, limit=_NAME)} ({kind}): {said}"


def _cut(text: str) -> str:
    line = one_line(text, limit=_LINE + 2 * _ROOM)
    return line if len(line) <= _LINE else f"{line[:_LINE]}…"


# --- one -------------------------------------------------------------------------------------


def variable(
    namespace: Mapping[str, Any],
    expression: str,
    part: tuple[Part, int] | None,
    hide: KnownSecrets,
    side: int = DEFAULT_SIDE,
) -> Success:
    """Return what the value at `expression` is, or some of its items.

    Raises:
        ToolError: The path leads nowhere, to a secret, or through something that is no data.
    """
    try:
        with private(hide):
            value = follow_data(read_value_path(expression), namespace)
            if part is not None:
                value = part_of(readable_items(value), *part)
        pieces = pieces_of(value, ROWS_AT_ONCE) if part else [value]
    except NotAValuePath:
        raise ToolError(NO_PATH) from None
    except NotShown as exc:
        raise ToolError(str(exc)) from None
    except ValuePathError as exc:
        why = DataSection("error", hide(one_line(str(exc), limit=_ERROR)))
        raise ToolError(framed("The value cannot be read.", [why])) from exc
    about = "The value"
    if part is not None:
        what = {"head": "The first", "tail": "The last", "sample": "An evenly spread sample of"}
        about = f"{what[part[0]]} {part[1]} items of the value (fewer if it has fewer)"
    told = [_described(piece, hide, MAX_CHARS // len(pieces), MAX_IMAGES, side) for piece in pieces]
    made = Description("\n\n".join(each.text for each in told), told[0].images)
    if made.images:
        about += f", with {len(made.images)} image{'s' if made.images[1:] else ''}"
    kind = one_line(type(pieces[0]).__name__, limit=_NAME)
    sections = [DataSection("type", kind), DataSection("value", hide(made.text))]
    return Success(framed(f"{about}.", sections), images=made.images)


def _described(
    value: Any, hide: KnownSecrets, chars: int, images: int = 0, side: int = DEFAULT_SIDE
) -> Description:
    if type(value) is str and len(value) <= MAX_HIDDEN:
        value = hide(value)  # a key is recognized as a whole only
    return describe(value, ValueBudget(chars, side, images, hide))
