"""Which describer a kind of values has.

A kind is a class by the module that has it under its name: nothing is imported for it, and only
the class that stands there counts, whatever another one calls itself.

Source: `docs/values.md`.
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

from jp_nb.values import (
    arrays,
    code_objects,
    drawn_figures,
    frames,
    handles,
    raised,
    scalars,
)
from jp_nb.values.own_text import method_of, types_of
from jp_nb.values.telling import Describer


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
    Kind("numpy", "generic", scalars.describe_numpy_scalar),
    Kind("torch", "Tensor", arrays.describe_tensor, True),
    Kind("jax", "Array", arrays.describe_tensor, True),
    Kind("array", "array", arrays.describe_buffer),
    Kind("builtins", "memoryview", arrays.describe_buffer),
    Kind("matplotlib.figure", "Figure", drawn_figures.describe_figure, True),
    Kind("matplotlib.figure", "SubFigure", scalars.describe_own),
    Kind("matplotlib.axes", "Axes", drawn_figures.describe_axes, True),
    Kind("PIL.Image", "Image", drawn_figures.describe_picture, True),
    Kind("plotly.basedatatypes", "BaseFigure", drawn_figures.describe_plotly, True),
    Kind("jp_nb.image", "Image", drawn_figures.describe_image, True),
    Kind("IPython.core.display", "DisplayObject", handles.describe_displayed, True),
    Kind("ipywidgets", "Widget", handles.describe_widget),
    Kind("builtins", "str", scalars.describe_text),
    Kind("enum", "Enum", scalars.describe_member),
    Kind("builtins", "bytes", scalars.describe_bytes),
    Kind("builtins", "bytearray", scalars.describe_bytes),
    Kind("builtins", "int", scalars.describe_int),
    Kind("datetime", "date", scalars.describe_as_text),
    Kind("datetime", "time", scalars.describe_as_text),
    Kind("datetime", "timedelta", scalars.describe_as_text),
    Kind("datetime", "tzinfo", scalars.describe_as_text),
    Kind("decimal", "Decimal", scalars.describe_as_text),
    Kind("fractions", "Fraction", scalars.describe_as_text),
    Kind("uuid", "UUID", scalars.describe_as_text),
    Kind("pathlib", "PurePath", scalars.describe_path),
    Kind("re", "Pattern", scalars.describe_pattern),
    Kind("builtins", "BaseException", raised.describe_exception),
    Kind("builtins", "type", code_objects.describe_class),
    Kind("types", "ModuleType", code_objects.describe_module),
    Kind("types", "FunctionType", code_objects.describe_function),
    Kind("types", "BuiltinFunctionType", code_objects.describe_function),
    Kind("types", "MethodType", code_objects.describe_bound_method),
    Kind("numpy", "ufunc", scalars.describe_own),
    Kind("_io", "_IOBase", handles.describe_file),
    Kind("tempfile", "_TemporaryFileWrapper", handles.describe_file),
    Kind("types", "GeneratorType", handles.describe_generator),
    Kind("types", "CoroutineType", handles.describe_generator),
    Kind("types", "AsyncGeneratorType", handles.describe_generator),
    Kind("_asyncio", "Future", handles.describe_future),
    Kind("asyncio", "Future", handles.describe_future),
    Kind("threading", "Thread", handles.describe_thread),
    Kind("socket", "socket", handles.describe_socket),
    Kind("sqlite3", "Connection", handles.describe_connection),
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
_ITERATOR: Final = Kind("builtins", "iterator", handles.describe_iterator)


def _is_iterator(value: object) -> bool:
    """Return True for what gives its items just once, and says nothing of itself."""
    if method_of(value, "__next__") is None:
        return False
    return method_of(value, "__repr__") is object.__repr__
