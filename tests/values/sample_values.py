"""Sample values of many types. Each call creates equal values."""

from __future__ import annotations

import array
import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import io
import math
import pathlib
import re
import socket
import sqlite3
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from typing import Any
from unittest.mock import MagicMock, Mock

import attrs
import matplotlib as mpl
import numpy as np
import pandas as pd
import PIL.Image
import pydantic
from matplotlib.figure import Figure

import jp_nb as jp
from tests.kit.values import describe_value

BUDGETS = (200, 2_000, 20_000)


class Color(enum.Enum):
    RED = "r"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: object = None
    hidden: str = dataclasses.field(default="s", repr=False)


class Model(pydantic.BaseModel):
    a: int = 1
    tags: list[str] = ["x"]
    key: pydantic.SecretStr = pydantic.SecretStr("geheim")


@attrs.define
class Attributes:
    a: int
    b: str = "q"


Pair = collections.namedtuple("Pair", "a b")


class Thing:
    def __init__(self) -> None:
        self.size = 1
        self._own = 2


class WithText:
    def __str__(self) -> str:
        return "only a text"


class WithAddress:
    def __repr__(self) -> str:
        return f"<Thing at {hex(id(self))}>"


class WithAiRepr:
    def _ai_repr_(self, **hints: object) -> dict[str, object]:
        return {"text/plain": f"hints: {', '.join(sorted(hints))}"}


class WithAsyncAiRepr:
    async def _ai_repr_(self, multimodal: bool) -> dict[str, object]:
        await asyncio.sleep(0)
        return {"text/markdown": f"**later**, images: {multimodal}"}


class WithFailingAiRepr:
    def _ai_repr_(self) -> object:
        raise ValueError("no words")


class ListWithRepr(list[int]):
    def __repr__(self) -> str:
        return "an odd list"


def function(a: int, b: int = 2, *rest: str, key: object = WithAddress()) -> str:
    """Do something with `a`.

    And more.
    """
    return str(a)


def generator() -> Iterator[int]:
    yield 1
    yield 2


def started() -> Iterator[int]:
    made = generator()
    next(made)
    return made


async def streams() -> AsyncIterator[int]:
    yield 1


async def coroutine() -> None: ...


def closed_coroutine() -> object:
    made = coroutine()
    made.close()
    return made


def error() -> BaseException:
    try:
        try:
            dict[str, int]()["missing"]
        except KeyError as exc:
            raise ValueError("a bad value") from exc
    except ValueError as exc:
        exc.add_note("a note")
        return exc
    raise AssertionError


def frame(rows: int = 1000) -> pd.DataFrame:
    made = pd.DataFrame(
        {
            "n": np.arange(rows),
            "f": np.linspace(0, 1, rows),
            "s": [f"text {i}" for i in range(rows)],
            "d": pd.date_range("2024-01-01", periods=rows),
        }
    )
    made.loc[3 : min(9, rows), "f"] = np.nan
    return made


def figure() -> Figure:
    made = Figure(figsize=(6, 4))
    axes = made.add_subplot()
    axes.plot([1, 2, 3], label="line")
    axes.set_title("Growth")
    axes.set_xlabel("time")
    axes.legend()
    return made


def closed_file() -> io.TextIOWrapper:
    with open(__file__, encoding="utf-8") as file:
        return file


def cyclic() -> list[object]:
    made: list[object] = [1]
    made.append(made)
    return made


def deep(levels: int = 3000) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


def closed_socket() -> socket.socket:
    made = socket.socket()
    made.close()
    return made


def closed_database() -> sqlite3.Connection:
    made = sqlite3.connect(":memory:")
    made.close()
    return made


OPTIONAL = ("polars frame", "polars series", "lazy frame", "plotly")
"""Values of optional packages."""


def optional_values() -> dict[str, Any]:
    """Return the values of the installed optional packages."""
    found: dict[str, Any] = {}
    if find_spec("polars"):
        import polars as pl

        frame = pl.DataFrame({"n": [1, 2, None], "s": ["a", "b", "c"], "l": [[1], [1, 2], []]})
        found["polars frame"] = frame
        found["polars series"] = pl.Series("q", [1, 2, None])
        found["lazy frame"] = frame.lazy().filter(pl.col("n") > 1).select("n", "s")
    if find_spec("plotly"):
        import plotly.graph_objects as go

        scatter = go.Scatter(x=[1, 2], y=[3, 4], name="measured")
        found["plotly"] = go.Figure(scatter, layout={"title": {"text": "Measured"}})
    return found


def sample_values() -> dict[str, Any]:
    """Return the values by name."""
    random = np.random.default_rng(0)
    return {
        "text": "first line\nsecond",
        "long text": "0123456789" * 5_000,
        "bytes": b"abc",
        "long bytes": b"\x00abc" * 10_000,
        "int": 5,
        "huge int": 10**100_000,
        "bool": True,
        "float": 0.1,
        "none": None,
        "list": [1, "a", [2, {"k": (1,)}]],
        "many numbers": list(range(1_000_000)),
        "many texts": [f"name number {i}" for i in range(5_000)],
        "rows": [{"id": i, "name": f"n{i}", "tags": ["a", "b"]} for i in range(3_000)],
        "dict": {"a": 1, "b": [1, 2]},
        "large dict": {f"key{i}": list(range(i)) for i in range(1_000)},
        "empty ones": [(), [], {}, set(), frozenset()],
        "set": {"b", "a", "c"},
        "mixed set": {1, "a", (2, 3), None},
        "many in a set": {f"s{i}" for i in range(5_000)},
        "too many in a set": {f"s{i}" for i in range(50_000)},
        "Counter": collections.Counter("abracadabra"),
        "OrderedDict": collections.OrderedDict(a=1),
        "defaultdict": collections.defaultdict(list, {"a": [1]}),
        "deque": collections.deque([1, 2]),
        "range": range(10),
        "cyclic": cyclic(),
        "deep": deep(),
        "odd list": ListWithRepr([1]),
        "dataclass": Point(1, Point(2)),
        "pydantic": Model(),
        "attrs": Attributes(1),
        "named tuple": Pair(1, 2),
        "enum": Color.RED,
        "int enum": Level.HIGH,
        "thing": Thing(),
        "with text": WithText(),
        "with address": WithAddress(),
        "list of things": [WithAddress(), Thing(), Color.RED],
        "own words": WithAiRepr(),
        "later words": WithAsyncAiRepr(),
        "failing words": WithFailingAiRepr(),
        "exception": error(),
        "exception group": ExceptionGroup("several", [ValueError("a"), TypeError("b")]),
        "module": math,
        "large module": np,
        "function": function,
        "builtin": len,
        "class": Point,
        "builtin class": int,
        "method": Thing().__init__,  # type: ignore[misc]
        "partial": functools.partial(function, 1),
        "file": closed_file(),
        "file in memory": io.StringIO("abc"),
        "no path": pathlib.PurePosixPath("a/b"),
        "missing path": pathlib.Path("nothing/here"),
        "time": datetime.datetime(2024, 1, 2, 3, 4),
        "decimal": decimal.Decimal("1.50"),
        "uuid": uuid.UUID(int=5),
        "generator": generator(),
        "started generator": started(),
        "async generator": streams(),
        "coroutine": closed_coroutine(),
        "iterator": iter([1, 2]),
        "map": map(str, [1]),
        "lock": threading.Lock(),
        "thread": threading.Thread(name="worker"),
        "socket": closed_socket(),
        "database": closed_database(),
        "regex": re.compile("a+", re.IGNORECASE),
        "mock": Mock(),
        "magic mock": MagicMock(),
        "pandas frame": frame(),
        "small frame": pd.DataFrame({"a": [1, 2], "b": ["x", None]}),
        "wide frame": pd.DataFrame(np.zeros((3, 500)), columns=[f"col{i}" for i in range(500)]),
        "indexed frame": frame().set_index(["s", "n"]),
        "empty frame": pd.DataFrame(),
        "pandas series": frame()["f"],
        "series by float": pd.Series(range(1000), index=np.arange(1000) / 2),
        "frame by float": pd.DataFrame({"a": range(1000)}, index=np.arange(1000) / 2),
        "labelled series": pd.Series([1, 2], index=["x", "y"], name="q"),
        "index": pd.Index(["a", "b"]),
        "array": np.arange(6).reshape(2, 3),
        "large array": random.normal(size=(1000, 1000)),
        "deep array": np.zeros((10, 20, 30, 40)),
        "array of objects": np.array([WithAddress(), None], dtype=object),
        "record array": np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]),
        "numpy number": np.float64(3.5),
        "array.array": array.array("d", [1, 2]),
        "memoryview": memoryview(b"abc"),
        "figure": figure(),
        "axes": figure().axes[0],
        "picture": PIL.Image.new("RGB", (2000, 1000), "red"),
        "image": jp.Image("image/png", b"\x89PNG\r\n\x1a\n", "a dot"),
        "text and figure": ("See:", figure(), {"a": 1}),
        "dict of frames": {"small": pd.DataFrame({"a": [1]}), "n": 3},
        **optional_values(),
    }


def descriptions(chars: int) -> dict[str, list[str]]:
    """Return the text and the image digests of the description of each value."""
    mpl.use("agg")
    found = {}
    for name, value in sample_values().items():
        described = describe_value(value, chars=chars, name="value")
        found[name] = [described.text, *(image.digest for image in described.images)]
    return found
