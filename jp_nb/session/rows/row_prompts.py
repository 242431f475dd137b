"""Read prompts from lists, series, and frames, with templates and images.

A row is a text, or a record with named values that fill a template (`prompt_template.py`).

Source: `docs/rows.md`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Final

from jp_nb.errors import UsageError
from jp_nb.session.rows.frame_libraries import find_frame_library
from jp_nb.session.rows.prompt_images import PromptError, read_images
from jp_nb.session.rows.prompt_template import PromptTemplate, is_missing, read_template
from jp_nb.session.rows.single_completion import RowPrompt
from jp_nb.storable_json import replace_surrogates

_NO_IMAGES: Final = object()
"""Stands for the images of a row that the user's list of images does not have."""


@dataclass(frozen=True, slots=True)
class RowPrompts:
    """The prompts of some rows, read one by one.

    Attributes:
        prompts: A prompt for each row, or the reason why the row has none.
        total: Number of rows; None if it is not known before the last one.
        source: The series or the frame; None for other rows.
    """

    prompts: Iterator[RowPrompt | PromptError]
    total: int | None = None
    source: Any = None


def read_rows(rows: Any, template: str | None, images: Any, folder: Path) -> RowPrompts:
    """Return the prompts of `rows`: of texts, or of records that fill a `template`.

    `images` is None, the name of a column, or the images of each row in the order of the rows. A
    path is relative to `folder`, and inside of it.

    Raises:
        UsageError: `rows`, `template`, or `images` cannot be used. No row was read.
    """
    if isinstance(rows, str | bytes):
        raise UsageError("expected several prompts, not one text. Use `jp.complete` for one prompt")
    if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
        kind = type(rows).__name__
        raise UsageError(f"expected a list, an iterator, a series, or a frame, not a {kind}")

    prompt_template = None if template is None else read_template(template)
    image_column = images if isinstance(images, str) else None
    library = find_frame_library(rows)  # of a series or a frame: pandas or polars
    records: Iterator[Any] = iter(rows)

    is_frame = library is not None and hasattr(rows, "columns")
    if library is not None and is_frame:
        if prompt_template is None:
            raise UsageError('a frame needs a template: `prompt="Classify: {text}"`')
        records = _read_frame(rows, library, prompt_template.names, image_column)

    # The images of each row: from the user's list, or none if there is a column or nothing.
    image_lists: Iterator[Any] = repeat(None)
    if images is not None and image_column is None:
        image_lists = _read_image_lists(images, rows)

    prompts = _read_prompts(records, prompt_template, image_column, image_lists, folder)
    total = len(rows) if isinstance(rows, Sized) else None
    source = None if library is None else rows
    return RowPrompts(prompts, total, source)


def _read_frame(
    frame: Any, library: str, names: Iterable[str], image_column: str | None
) -> Iterator[Mapping[str, Any]]:
    """Return the rows of `frame`, with only the columns that are needed."""
    needed = list(dict.fromkeys(names))
    if image_column is not None and image_column not in needed:
        needed.append(image_column)

    columns = [str(name) for name in frame.columns]
    for name in needed:
        _check_column(name, columns)

    if library == "polars":
        series = [frame[name] for name in needed]
    else:
        series = [frame.iloc[:, columns.index(name)] for name in needed]
    if not series:  # a template without columns
        return iter([{}] * len(frame))
    return (dict(zip(needed, values, strict=True)) for values in zip(*series, strict=True))


def _check_column(name: str, columns: list[str]) -> None:
    """Raise `UsageError` unless there is one column `name`."""
    if columns.count(name) == 1:
        return
    if name in columns:
        raise UsageError(f"the frame has several columns {name!r}. Rename them")

    nearest = difflib.get_close_matches(name, columns, n=1)
    hint = f", only {', '.join(columns[:10])}"
    if nearest:
        hint = f": did you mean {nearest[0]!r}?"
    raise UsageError(f"the frame has no column {name!r}{hint}")


def _read_image_lists(images: Any, rows: Any) -> Iterator[Any]:
    """Return the images of each row, which the user gave as a list or an iterator."""
    if isinstance(images, bytes) or not isinstance(images, Iterable):
        kind = type(images).__name__
        raise UsageError(
            f"`images` is a {kind}: give the name of a column, or a list with the images of each "
            "row"
        )
    if isinstance(images, Sized) and isinstance(rows, Sized) and len(images) != len(rows):
        raise UsageError(f"there are {len(rows)} rows, and images for {len(images)}")
    return iter(images)


def _read_prompts(
    records: Iterator[Any],
    template: PromptTemplate | None,
    image_column: str | None,
    image_lists: Iterator[Any],
    folder: Path,
) -> Iterator[RowPrompt | PromptError]:
    """Yield the prompt of each record, or the reason why it has none.

    The images of a row are in its column `image_column`, or the next item of `image_lists`.
    """
    make_text: Callable[[Any], str] = _read_text
    if template is not None:
        make_text = template.fill

    for record in records:
        try:
            row_images = next(image_lists, _NO_IMAGES)
            if row_images is _NO_IMAGES:
                raise PromptError("`images` has no item for the row")

            text = make_text(_name_value(record, template))
            if image_column is not None:  # then `image_lists` has None for each row
                row_images = _take_images(record, image_column)
            if is_missing(row_images):
                row_images = None
            yield RowPrompt(replace_surrogates(text), read_images(row_images, folder))
        except PromptError as exc:
            yield exc


def _take_images(record: Any, column: str) -> Any:
    """Return the images of a row from its `column`. A row without images has None there."""
    if not isinstance(record, Mapping):
        kind = type(record).__name__
        raise PromptError(
            f"the row is of type {kind}, so it has no column {column!r} for `images`. Give a list "
            "with the images of each row"
        )
    if column not in record:
        raise PromptError(f"the row has no {column!r} for `images`. Use None for no image")
    return record[column]


def _name_value(record: Any, template: PromptTemplate | None) -> Any:
    """Return the row as a template needs it: a single value gets the only name of the template.

    Without a template, the row is the prompt itself.
    """
    if template is None or isinstance(record, Mapping):
        return record
    if len(template.names) == 1:
        return {template.names[0]: record}
    kind = type(record).__name__
    raise PromptError(f"a template with several names needs named values, not a {kind}")


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        kind = type(value).__name__
        raise PromptError(f"the row is of type {kind}, not a text. Fill a template: `prompt=`")
    if not value.strip():
        raise PromptError("the prompt is empty")
    return value
