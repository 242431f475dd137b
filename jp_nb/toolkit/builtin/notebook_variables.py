"""List the variables of the notebook for the model, and describe their values.

`hide` are the user's secrets (`notebook_secrets.py`). `hide(text)` is a text without them, and
`hide.name(name, value)` is None if a variable with this name may be shown.

Source: `docs/notebook-tools.md`, `docs/decisions.md` D91 to D93.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final, TypeGuard

from jp_nb.config.secrets.replacements import NOT_SHOWN
from jp_nb.errors import ToolError
from jp_nb.images import count_images
from jp_nb.text import one_line
from jp_nb.toolkit.builtin.notebook_cells import MAX_TEXT_CHARS
from jp_nb.toolkit.data_sections import DataSection, frame_sections
from jp_nb.toolkit.outcome import Success
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets
from jp_nb.values.base import DEFAULT_SIDE, Description, ValueBudget
from jp_nb.values.data_access import clear_for_selection, follow_data
from jp_nb.values.data_parts import DataPart, split_rows, take_part
from jp_nb.values.describe import describe
from jp_nb.values.privacy import apply_privacy
from jp_nb.values.secret_parts import NotShown
from jp_nb.values.value_path import NotAValuePath, ValuePathError, read_value_path

VARIABLES_AT_ONCE: Final = 100
ROWS_AT_ONCE: Final = 20
"""Rows of a frame in one description: a longer one would show only the first and last rows."""
_VALUE_LINE: Final = 160
"""Length of a value in the list of variables."""
_EXTRA_CHARS: Final = 400
"""Characters after `_VALUE_LINE` in which secrets are hidden: a partial key is not recognized."""
_NAME: Final = 80
"""Length of a name of a variable or a type."""
_LIST_TIMEOUT_S: Final = 3.0
"""Seconds in which values are read for a list. A value of the user may take long to describe."""
_MAX_IMPORTS: Final = 30
_SEARCHED_CHARS: Final = 1_000_000
"""Length of a text in which secrets are hidden before it is truncated. It takes time in others."""
_IPYTHON_VARIABLES: Final = frozenset({"In", "Out", "exit", "quit"})
_IPYTHON_FUNCTIONS: Final = frozenset({"get_ipython", "open"})
"""Omitted from the imported names. Variables of the user with these names are listed."""
NO_PATH: Final = (
    "This is not a path to a value. Write a name with attributes and subscripts, "
    "such as table.columns, rows[0], rows[10:20] or config['user']. Function calls "
    "are not possible."
)


def list_variables(
    namespace: Mapping[str, Any], match: str, first: int, hide: NotebookSecrets
) -> Success:
    """Return a line for each of up to `VARIABLES_AT_ONCE` variables, starting with number `first`.

    Only names that contain `match` are counted and listed. Imported names are listed separately.
    Raise a `ToolError` if there is no variable with this number.
    """
    matching = [
        (name, value)
        for name, value in list(namespace.items())
        if _is_listed(name) and match.lower() in name.lower()
    ]
    matching.sort(key=lambda item: item[0])

    variables: list[tuple[str, Any]] = []
    imported_names: list[str] = []
    for name, value in matching:
        if not _is_imported(value):
            variables.append((name, value))
        elif name not in _IPYTHON_FUNCTIONS:
            imported_names.append(name)

    shown = variables[first : first + VARIABLES_AT_ONCE]
    if first and not shown:
        bound = f"0 to {len(variables) - 1}" if variables else "0"
        raise ToolError(f"There are {len(variables)} variables: `first` must be {bound}.")

    lines = "\n".join(_format_variables(shown, hide))
    sections = [DataSection("variables", lines or "(none)")]
    if imported_names:
        sections.append(_make_import_section(imported_names))

    about = _describe_list(match, first, len(shown), len(variables))
    return Success(frame_sections(about, sections))


def _describe_list(match: str, first: int, shown_count: int, total: int) -> str:
    """Return the sentences above the list: how many variables there are, and how to get more."""
    noun = "variables whose names contain the text" if match else "variables"
    about = (
        f"{total} {noun}, sorted by name. Names that begin with _ and the names of "
        "IPython are omitted."
    )

    end = first + shown_count
    if shown_count < total:
        about += f" This list holds numbers {first} to {end - 1}, counted from 0."
    if end < total:
        about += f" For more, call with first={end}."
    return about


def _make_import_section(names: list[str]) -> DataSection:
    text = ", ".join(one_line(name, limit=_NAME) for name in names[:_MAX_IMPORTS])
    omitted_count = len(names) - _MAX_IMPORTS
    if omitted_count > 0:
        text += f" and {omitted_count} more"
    return DataSection("imported modules, functions, and classes", text)


def _is_listed(name: object) -> TypeGuard[str]:
    """Return True for the name of a user's variable. A namespace may have other keys than texts."""
    return type(name) is str and not name.startswith("_") and name not in _IPYTHON_VARIABLES


def _is_imported(value: Any) -> bool:
    """Return True for a module, and for a function or class that is not of the notebook."""
    kind = type(value)
    if issubclass(kind, ModuleType):
        return True

    is_code = kind in (FunctionType, BuiltinFunctionType) or issubclass(kind, type)
    is_method = kind.__name__ in ("method", "builtin_function_or_method")
    if not is_code and not is_method:
        return False

    try:
        return bool(getattr(value, "__module__", None) != "__main__")
    except Exception:  # a metaclass may raise anything
        return False


def _format_variables(shown: list[tuple[str, Any]], hide: NotebookSecrets) -> Iterator[str]:
    """Yield a line for each variable. After `_LIST_TIMEOUT_S`, values are not read any more."""
    deadline = time.monotonic() + _LIST_TIMEOUT_S
    for name, value in shown:
        kind = one_line(type(value).__name__, limit=_NAME)
        if hide.name(name, value) is not None:
            text = NOT_SHOWN
        elif time.monotonic() > deadline:
            text = "(not read: the variables above took too long)"
        else:
            text = _format_value_line(value, hide)
        yield f"{one_line(name, limit=_NAME)} ({kind}): {text}"


def _format_value_line(value: Any, hide: NotebookSecrets) -> str:
    description = _describe_value(value, hide, _VALUE_LINE + _EXTRA_CHARS)
    line = one_line(hide(description.text), limit=_VALUE_LINE + 2 * _EXTRA_CHARS)
    return line if len(line) <= _VALUE_LINE else f"{line[:_VALUE_LINE]}…"


def read_variable(
    namespace: Mapping[str, Any],
    expression: str,
    part: tuple[DataPart, int] | None,
    hide: NotebookSecrets,
    side: int = DEFAULT_SIDE,
) -> Success:
    """Return the value at `expression`, or raise a `ToolError`.

    `part` selects some of its items, such as the `head` of 10; None for the whole value. `side` is
    the maximum number of pixels of the longest side of an image.
    """
    pieces = _read_pieces(namespace, expression, part, hide)
    max_chars = MAX_TEXT_CHARS // len(pieces)
    descriptions = [
        _describe_value(piece, hide, max_chars, images=4, side=side) for piece in pieces
    ]
    text = "\n\n".join(description.text for description in descriptions)
    images = descriptions[0].images  # several pieces are rows of a frame, which have no images

    about = "The value"
    if part is not None:
        kind, count = part
        about = f"{_PART_WORDS[kind]} {count} items of the value (fewer if it has fewer)"
    if images:
        about += f", with {' and '.join(count_images(images))}"

    type_name = one_line(type(pieces[0]).__name__, limit=_NAME)
    sections = [DataSection("type", type_name), DataSection("value", hide(text))]
    return Success(frame_sections(f"{about}.", sections), images=images)


_PART_WORDS: Final[Mapping[DataPart, str]] = {
    "head": "The first",
    "tail": "The last",
    "sample": "An evenly spread sample of",
}


def _read_pieces(
    namespace: Mapping[str, Any],
    expression: str,
    part: tuple[DataPart, int] | None,
    hide: NotebookSecrets,
) -> list[Any]:
    """Return the value, as a list of one. A `part` of a frame is split into pieces of a few rows.

    No code of the user is called to find the value. A secret on the path is an error (`NotShown`).
    Before a `part` is selected, secrets inside of the value are replaced (`clear_for_selection`):
    a single item would not be recognized as a part of a secret any more.
    """
    try:
        with apply_privacy(hide):  # so that these functions know the secrets
            value = follow_data(read_value_path(expression), namespace)
            if part is not None:
                value = take_part(clear_for_selection(value), *part)
        return split_rows(value, ROWS_AT_ONCE) if part else [value]
    except NotAValuePath:
        raise ToolError(NO_PATH) from None
    except NotShown as exc:
        raise ToolError(str(exc)) from None
    except ValuePathError as exc:
        reason = DataSection("error", hide(one_line(str(exc), limit=500)))
        raise ToolError(frame_sections("The value cannot be read.", [reason])) from exc


def _describe_value(
    value: Any, hide: NotebookSecrets, chars: int, images: int = 0, side: int = DEFAULT_SIDE
) -> Description:
    """Return the description of a value in `chars` characters, without secrets."""
    if type(value) is str and len(value) <= _SEARCHED_CHARS:
        value = hide(value)  # before truncation: only a complete key is recognized
    return describe(value, ValueBudget(chars, side, images, hide))
