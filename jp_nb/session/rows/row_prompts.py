"""Read prompts from lists, series, and frames, with templates and images.

A template names columns: `Classify: {text}`. Values are inserted as text and never evaluated, so
data with braces or code stays data.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from itertools import repeat
from numbers import Real
from pathlib import Path
from string import Formatter
from typing import Any, Final

from jp_nb.errors import UsageError
from jp_nb.json_values import replace_surrogates
from jp_nb.session.rows.completion_frames import find_frame_library
from jp_nb.session.rows.prompt_images import PromptError, read_images
from jp_nb.session.rows.single_completion import RowPrompt

_NO_IMAGES: Final = object()
"""Stands for the images of a row that the user's list of images does not have."""
_ADVICE: Final = "A template has the names of columns in braces. Write `{{` and `}}` for braces"


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


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A text with the names of columns in braces.

    Attributes:
        parts: Literal texts, each with the name of the column after it; None at the end.
    """

    parts: tuple[tuple[str, str | None], ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns, each once."""
        return list(dict.fromkeys(name for _, name in self.parts if name is not None))

    def fill(self, record: Mapping[str, Any]) -> str:
        """Return the text with the values of `record`.

        Raises:
            PromptError: It has no such name, or its values are empty and leave no text.
        """
        texts: list[str] = []
        for literal, name in self.parts:
            texts.append(literal)
            if name is None:
                continue
            if name not in record:
                raise PromptError(f"the row has no {name!r}")
            texts.append(_format_value(record[name]))

        text = "".join(texts)
        if not text.strip():
            raise PromptError("the prompt is empty: the row has no value for the template")
        return text


def read_template(text: str) -> PromptTemplate:
    """Return the template `text`.

    Raises:
        UsageError: A brace is not closed, or there is more than a name in braces.
    """
    try:
        fields = list(Formatter().parse(text))
    except ValueError as exc:
        raise UsageError(f"the template cannot be read: {exc}. {_ADVICE}") from exc

    parts: list[tuple[str, str | None]] = []
    for literal, name, spec, conversion in fields:
        # Python's own format strings allow more, such as `{price!r:>10}`.
        if name is not None and (not name or spec or conversion):
            conversion_text = f"!{conversion}" if conversion else ""
            spec_text = f":{spec}" if spec else ""
            shown = f"{{{name}{conversion_text}{spec_text}}}"
            raise UsageError(f"the template has {shown}, which is no name of a column. {_ADVICE}")
        parts.append((literal, name))
    return PromptTemplate(tuple(parts))


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
    library = find_frame_library(rows)
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

    return RowPrompts(
        prompts=_read_prompts(records, prompt_template, image_column, image_lists, folder),
        total=len(rows) if isinstance(rows, Sized) else None,
        source=None if library is None else rows,
    )


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
                row_images = record.get(image_column)
            if _is_missing(row_images):
                row_images = None
            yield RowPrompt(replace_surrogates(text), read_images(row_images, folder))
        except PromptError as exc:
            yield exc


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


def _format_value(value: Any) -> str:
    return "" if _is_missing(value) else str(value)


def _is_missing(value: Any) -> bool:
    """Return True for None, NaN, and the missing values of pandas and numpy."""
    type_name = type(value).__name__
    if value is None or type_name in ("NAType", "NaTType"):
        return True
    if type_name in ("datetime64", "timedelta64"):
        return str(value) == "NaT"
    return isinstance(value, Real) and math.isnan(value)
