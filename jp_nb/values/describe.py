"""Describe a Python value for the model, within a size budget.

The kind of a value is found by the module and name of its class, without importing anything. A
class that only claims another name is not accepted.

Source: `docs/values.md`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import Any, Final, NamedTuple, cast

from pydantic_core import to_json, to_jsonable_python

from jp_nb.values import (
    arrays,
    figures,
    frames,
    objects,
)
from jp_nb.values.base import (
    BRIEF_CHARS,
    Describer,
    Description,
    DescriptionLimits,
    ValueBudget,
    hidden_value,
    private,
    to_one_line,
    truncate_end,
    truncate_middle,
    without_hidden,
)
from jp_nb.values.containers import (
    MAX_COMPARED,
    MAX_PARTS,
    NestedRules,
    NestedText,
    Special,
    contents,
    describe_container,
    is_uniform,
)
from jp_nb.values.custom import (
    FAILURES,
    custom_description,
    has_custom_description,
    has_own_repr,
    method_of,
    repr_text,
    types_of,
)


class Kind(NamedTuple):
    """One kind of values.

    Attributes:
        module: Where its class stands.
        name: The name of the class there.
        describe: What describes it.
        is_rich: True if it is described as a value of its own where a container holds it.
    """

    module: str
    name: str
    describe: Describer
    is_rich: bool = False


KINDS: Final = (
    Kind("pandas", "DataFrame", frames.describe_pandas_frame, True),
    Kind("pandas", "Series", frames.describe_pandas_series, True),
    Kind("pandas", "Index", frames.describe_pandas_series, True),
    Kind("polars", "DataFrame", frames.describe_polars_frame, True),
    Kind("polars", "LazyFrame", frames.describe_lazy_polars, True),
    Kind("polars", "Series", frames.describe_polars_series, True),
    Kind("dask.dataframe", "DataFrame", frames.describe_lazy_table, True),
    Kind("duckdb", "DuckDBPyRelation", frames.describe_lazy_table, True),
    Kind("ibis.expr.types", "Table", frames.describe_lazy_table, True),
    Kind("pyspark.sql", "DataFrame", frames.describe_lazy_table, True),
    Kind("numpy", "ndarray", arrays.describe_numpy_array, True),
    Kind("numpy", "generic", arrays.describe_numpy_scalar),
    Kind("torch", "Tensor", arrays.describe_tensor, True),
    Kind("jax", "Array", arrays.describe_tensor, True),
    Kind("array", "array", arrays.describe_buffer),
    Kind("builtins", "memoryview", arrays.describe_buffer),
    Kind("matplotlib.figure", "Figure", figures.describe_figure, True),
    Kind("matplotlib.figure", "SubFigure", arrays.describe_own),
    Kind("matplotlib.axes", "Axes", figures.describe_axes, True),
    Kind("PIL.Image", "Image", figures.describe_picture, True),
    Kind("plotly.basedatatypes", "BaseFigure", figures.describe_plotly, True),
    Kind("jp_nb.images", "Image", figures.describe_image, True),
    Kind("IPython.core.display", "DisplayObject", objects.describe_displayed, True),
    Kind("ipywidgets", "Widget", objects.describe_widget),
    Kind("builtins", "str", arrays.describe_text),
    Kind("enum", "Enum", arrays.describe_member),
    Kind("builtins", "bytes", arrays.describe_bytes),
    Kind("builtins", "bytearray", arrays.describe_bytes),
    Kind("builtins", "int", arrays.describe_int),
    Kind("datetime", "date", arrays.describe_as_text),
    Kind("datetime", "time", arrays.describe_as_text),
    Kind("datetime", "timedelta", arrays.describe_as_text),
    Kind("datetime", "tzinfo", arrays.describe_as_text),
    Kind("decimal", "Decimal", arrays.describe_as_text),
    Kind("fractions", "Fraction", arrays.describe_as_text),
    Kind("uuid", "UUID", arrays.describe_as_text),
    Kind("pathlib", "PurePath", arrays.describe_path),
    Kind("re", "Pattern", arrays.describe_pattern),
    Kind("builtins", "BaseException", objects.describe_exception),
    Kind("builtins", "type", objects.describe_class),
    Kind("types", "ModuleType", objects.describe_module),
    Kind("types", "FunctionType", objects.describe_function),
    Kind("types", "BuiltinFunctionType", objects.describe_function),
    Kind("types", "MethodType", objects.describe_bound_method),
    Kind("numpy", "ufunc", arrays.describe_own),
    Kind("_io", "_IOBase", objects.describe_file),
    Kind("tempfile", "_TemporaryFileWrapper", objects.describe_file),
    Kind("types", "GeneratorType", objects.describe_generator),
    Kind("types", "CoroutineType", objects.describe_generator),
    Kind("types", "AsyncGeneratorType", objects.describe_generator),
    Kind("_asyncio", "Future", objects.describe_future),
    Kind("asyncio", "Future", objects.describe_future),
    Kind("threading", "Thread", objects.describe_thread),
    Kind("socket", "socket", objects.describe_socket),
    Kind("sqlite3", "Connection", objects.describe_connection),
)
_BY_NAME: Final[dict[str, list[Kind]]] = {}
for _kind in KINDS:
    _BY_NAME.setdefault(_kind.name, []).append(_kind)


def kind_of(value: object) -> Kind | None:
    """Return the kind of `value`, the nearest of those it inherits from; None if it has none."""
    for cls in types_of(value):
        if (found := _kind_of_class(cls)) is not None:
            return found
    return _ITERATOR if _is_iterator(value) else None


def _kind_of_class(cls: type) -> Kind | None:
    for kind in _BY_NAME.get(_own_name(cls), ()):
        module = sys.modules.get(kind.module)
        if module is not None and vars(module).get(kind.name) is cls:
            return kind
    return None


def _own_name(cls: type) -> str:
    """Return the name of a class, also of one that C gives another name than its module does."""
    name: str = type.__dict__["__name__"].__get__(cls)
    return _OTHER_NAMES.get(name, name)


_OTHER_NAMES: Final = {
    "function": "FunctionType",
    "builtin_function_or_method": "BuiltinFunctionType",
    "method": "MethodType",
    "module": "ModuleType",
    "generator": "GeneratorType",
    "coroutine": "CoroutineType",
    "async_generator": "AsyncGeneratorType",
}
_ITERATOR: Final = Kind("builtins", "iterator", objects.describe_iterator)


def _is_iterator(value: object) -> bool:
    """Return True for what gives its items just once, and says nothing of itself."""
    if method_of(value, "__next__") is None:
        return False
    return method_of(value, "__repr__") is object.__repr__


def describe(value: object, budget: ValueBudget | None = None, *, name: str = "") -> Description:
    """Describe a Python value for the model as text and images, within a size budget.

    Equal values have equal descriptions. The function runs code of the value, such as `__repr__`,
    so call it in the thread that uses the value. It raises no exception except `KeyboardInterrupt`:
    if the value's code fails, the text reports that.

    Args:
        value: Any value. It is not changed, displayed, or consumed. A lazy value is not computed,
            and a file is not read.
        budget: Limits of the description, with the attributes `chars`, `side`, and `images`; None
            for 20,000 characters and 4 images of at most 768 pixels a side.
        name: Expression for the value, such as a variable name. If a part is omitted, the text
            shows an expression for it.

    Returns:
        A description with the attributes `text` and `images`. A notebook displays both.
    """
    budget = budget or ValueBudget()
    limits = DescriptionLimits(
        max(budget.chars, 0), budget.side, max(budget.images, 0), name, _describe
    )
    with warnings.catch_warnings(), private(budget.privacy):
        warnings.simplefilter("ignore")  # those of the libraries are not about what is asked
        said = _describe(value, limits)
        text = truncate_middle(without_hidden(said.text), limits.chars)
    return Description(text, said.images[: limits.images])


def _describe(value: object, limits: DescriptionLimits) -> Description:
    """Return what is said of `value`, by the first that knows how to say it."""
    if (hidden := hidden_value(value)) is not None:
        return Description(truncate_end(hidden, limits.chars))
    said, problems = custom_description(value, _budget(limits))
    if said is None:
        said = _by_kind(value, limits)
    if problems:
        room = limits.chars - sum(len(problem) + 1 for problem in problems)
        text = "\n".join([truncate_middle(said.text, max(room, 0)), *problems])
        said = Description(truncate_end(text, limits.chars), said.images)
    if limits.brief and "\n" in said.text:
        return replace(said, text=to_one_line(said.text, limits.chars))
    return said


def _budget(limits: DescriptionLimits) -> ValueBudget:
    return ValueBudget(limits.chars, limits.side, limits.images)


def _by_kind(value: object, limits: DescriptionLimits) -> Description:
    try:
        said = _known(value, limits)
        if said is None:
            said = repr_text(value, limits.chars)
    except FAILURES:
        # A kind whose values are not what they should be: it is told as what it says of itself.
        said = repr_text(value, limits.chars)
    if isinstance(said, Description):
        return replace(said, text=truncate_end(said.text, limits.chars))
    return Description(truncate_middle(said, limits.chars))


def _known(value: object, limits: DescriptionLimits) -> Description | str | None:
    kind = kind_of(value)
    if kind is not None:
        return kind.describe(value, limits)
    if has_own_repr(value) and contents(value) is not None:
        return None
    return describe_container(value, limits, _special(limits), is_rich)


def _special(limits: DescriptionLimits) -> Special:
    def special(value: object, room: int) -> str:
        part = limits.part(min(room, BRIEF_CHARS) if limits.brief else room, brief=True)
        return _describe(value, part).text

    return special


def in_order(items: Iterable[object]) -> list[object]:
    """Return the elements of a set in the order in which a description has them."""
    limits = DescriptionLimits(BRIEF_CHARS, 0, 0, "", _describe)
    nested = NestedText(NestedRules(_special(limits)), greedy=False)
    return nested.sorted((None, item) for item in items)


def is_rich(value: object) -> bool:
    """Return True for a frame, a figure, an array, or what somebody has words of their own for."""
    kind = kind_of(value)
    return (kind is not None and kind.is_rich) or has_custom_description(value)


_LEAVES: Final = frozenset((str, int, float, bool, type(None), bytes))


def as_json(result: object) -> str | None:
    """Return the JSON of plain data, sets in order; None if `result` is to be described.

    Iterators, at any depth, are not plain data: to write one as JSON would consume it.
    """
    if is_rich(result) or _has_rich_items(result):
        return None
    with suppress(Exception):  # JSON cannot hold it: it is described
        has_sets = _find_sets(result)
        if has_sets is None:
            return None
        if not has_sets:
            return to_json(result).decode()
        return to_json(_ordered(result, to_jsonable_python(result))).decode()
    return None


def describe_result(result: object, budget: ValueBudget) -> Description:
    """Return the description of `result`; of texts and values in a row, of each in its place."""
    if type(result) not in (list, tuple) or not _has_rich_items(result):
        return describe(result, budget)
    parts = cast("list[object] | tuple[object, ...]", result)
    share = replace(budget, chars=max(budget.chars // len(parts) - 2, 0))
    told = [describe(part, share) for part in parts]
    images = [image for said in told for image in said.images]
    return Description("\n\n".join(said.text for said in told), tuple(images))


def _has_rich_items(value: object) -> bool:
    inside = contents(value)
    if inside is None or inside.items is None or not 0 < inside.length <= MAX_PARTS:
        return False
    return any(is_rich(part) for _, part in inside.items())


def _find_sets(value: object) -> bool | None:
    """Return True if a set is in `value`; None if an iterator is, or a set that is not sorted."""
    found = False
    todo = [value]
    seen: dict[int, object] = {}
    while todo:
        part = todo.pop()
        if type(part) in _LEAVES or id(part) in seen:
            continue
        seen[id(part)] = part
        if method_of(part, "__next__") is not None or method_of(part, "__anext__") is not None:
            return None
        kinds = types_of(part)
        if set in kinds or frozenset in kinds:
            items = cast("set[object]", part)
            if len(items) > MAX_COMPARED and not is_uniform(items):
                return None
            found = True
        todo.extend(_parts(part))
    return found


def _parts(value: Any) -> Iterable[object]:
    """Return all values in `value` that JSON of it would hold."""
    kinds = types_of(value)
    if dict in kinds:
        return [*dict.keys(value), *dict.values(value)]
    for base in (list, tuple, set, frozenset):
        if base in kinds:
            return cast("Iterable[object]", base.__iter__(value))
    fields = _fields(value)
    if fields is not None:
        return list(fields.values())
    return [value._value_] if _is_member(value) else []


def _is_member(value: object) -> bool:
    return Enum in types_of(value)


def _fields(value: Any) -> Mapping[str, object] | None:
    """Return the fields of a record by the names that they have in JSON; None if it is none."""
    models = method_of(value, "__pydantic_fields__")
    if models is not None and method_of(value, "__dataclass_fields__") is None:
        stored = object.__getattribute__(value, "__dict__")
        extra = object.__getattribute__(value, "__pydantic_extra__") or {}
        names = {name: one.serialization_alias or one.alias or name for name, one in models.items()}
        return {names.get(name, name): part for name, part in {**stored, **extra}.items()}
    fields = method_of(value, "__dataclass_fields__")
    if type(fields) is not dict or type in types_of(value):
        return None
    found = {}
    for name in fields:
        with suppress(AttributeError):  # a field that was never set, or of the class alone
            found[name] = object.__getattribute__(value, name)
    return found


def _ordered(value: Any, data: Any) -> Any:
    """Return `data`, the JSON of `value`, with the elements of sets in their order."""
    if type(value) in _LEAVES:
        return data
    kinds = types_of(value)
    if set in kinds or frozenset in kinds:
        items = list(value)
        by_id = {id(item): _ordered(item, one) for item, one in zip(items, data, strict=True)}
        return [by_id[id(item)] for item in in_order(items)]
    if list in kinds or tuple in kinds:
        return [_ordered(item, one) for item, one in zip(value, data, strict=True)]
    if dict in kinds:
        pairs = zip(dict.values(value), data.items(), strict=True)
        return {key: _ordered(item, one) for item, (key, one) in pairs}
    fields = _fields(value)
    if fields is not None and isinstance(data, dict):
        return {
            name: _ordered(fields[name], one) if name in fields else one
            for name, one in data.items()
        }
    if fields is not None and len(fields) == 1:  # a model of pydantic with a root
        return _ordered(next(iter(fields.values())), data)
    return _ordered(value._value_, data) if _is_member(value) else data
