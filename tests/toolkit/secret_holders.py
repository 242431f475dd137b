"""Values of many types that contain a secret, and paths into these values."""

from __future__ import annotations

import array
import asyncio
import collections
import dataclasses
import enum
import functools
import io
import logging
import os
import sqlite3
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs
import numpy as np
import pandas as pd
import pydantic

try:
    import polars as pl
except ImportError:  # an extra: pip install -e ".[tiers]"
    pl = None  # type: ignore[assignment]

SECRET = "geheim-Zx9!qQ7~wV3"
PIN = 471_199
PIECE = 6
"""Characters of the secret that no answer may have in a row."""


@dataclasses.dataclass
class Record:
    user: str
    password: str


@dataclasses.dataclass(repr=False)
class OwnText:
    user: str
    password: str

    def __repr__(self) -> str:
        return f"OwnText({self.user}:{self.password})"


@dataclasses.dataclass(slots=True)
class Slots:
    user: str
    password: str


class Login(NamedTuple):
    user: str
    password: str
    pin: int = PIN


class Model(pydantic.BaseModel):
    user: str
    password: str
    hidden: pydantic.SecretStr = pydantic.SecretStr(SECRET)


@attrs.define
class Attributes:
    user: str
    password: str


class Own:
    limit = 3
    api_key = SECRET

    def __init__(self) -> None:
        self.user = "ada"
        self.password = SECRET
        self._token = SECRET
        self.inner = {"db": {"password": SECRET}}

    @property
    def shown(self) -> str:
        return self.password[:4]

    def method(self) -> str:
        return self.password

    def __getitem__(self, key: object) -> str:
        return self._token


class LoginError(Exception):
    def __init__(self) -> None:
        super().__init__(f"login with {SECRET} failed")
        self.password = SECRET


class Level(enum.Enum):
    LOW = 1
    SECRET_VALUE = SECRET


def closure() -> Any:
    inner = SECRET
    return lambda: inner


def generator() -> Iterator[int]:
    password = SECRET
    yield len(password)
    yield 2


def started() -> Iterator[int]:
    made = generator()
    next(made)
    return made


def sqlite_row() -> Any:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    row = database.execute("select 'ada' as user, ? as password", (SECRET,)).fetchone()
    database.close()
    return row


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {"user": ["ada", "bob"], "password": [SECRET, f"{SECRET}2"], "pin": [PIN, PIN + 1]}
    )


def named_index() -> pd.DataFrame:
    return pd.DataFrame({"n": [1, 2]}, index=pd.Index([SECRET, "b"], name="token"))


def levels() -> pd.DataFrame:
    columns = pd.MultiIndex.from_tuples([("login", "user"), ("login", "password")])
    return pd.DataFrame([["ada", SECRET]], columns=columns)


def structured() -> Any:
    return np.array(
        [("ada", SECRET, PIN)] * 2, [("user", "U9"), ("password", "U30"), ("pin", "i8")]
    )


def nested_structured() -> Any:
    kind = np.dtype([("n", "i4"), ("login", [("user", "U9"), ("password", "U30")])])
    return np.array([(1, ("ada", SECRET))], kind)


def holders() -> dict[str, Any]:
    """Return values that contain the secret under a secret name, by variable name."""
    return {
        "a_dict": {"user": "ada", "password": SECRET, "pin": PIN},
        "rows": [{"user": "ada", "password": SECRET}, {"user": "bob", "password": SECRET}],
        "nested": {"db": [{"login": {"password": SECRET}}]},
        "pairs": [("user", "ada"), ("password", SECRET)],
        "table": [["user", "password"], ["ada", SECRET]],
        "views": {"user": "ada", "password": SECRET}.items(),
        "view_of_values": {"user": "ada", "password": SECRET}.values(),
        "ordered": collections.OrderedDict(user="ada", password=SECRET),
        "defaults": collections.defaultdict(str, password=SECRET),
        "chain": collections.ChainMap({"user": "ada"}, {"password": SECRET}),
        "user_dict": collections.UserDict(user="ada", password=SECRET),
        "proxy": types.MappingProxyType({"user": "ada", "password": SECRET}),
        "space": types.SimpleNamespace(user="ada", password=SECRET),
        "named": Login("ada", SECRET),
        "record": Record("ada", SECRET),
        "own_text": OwnText("ada", SECRET),
        "slots": Slots("ada", SECRET),
        "model": Model(user="ada", password=SECRET),
        "attributes": Attributes("ada", SECRET),
        "own": Own(),
        "own_class": Own,
        "failed": LoginError(),
        "level": Level.SECRET_VALUE,
        "levels_class": Level,
        "frame": frame(),
        "turned": frame().T,
        "by_label": frame().set_index("user").T,
        "named_index": named_index(),
        "column_levels": levels(),
        "row": frame().iloc[0],
        "text_row": pd.Series({"user": "ada", "password": SECRET}),
        "column": frame()["password"],
        "where": frame().iloc,
        "cells": pd.DataFrame({"login": [{"user": "ada", "password": SECRET}]}),
        "category": frame().astype({"password": "category"}),
        "structured": structured(),
        "void": structured()[0],
        "record_array": structured().view(np.recarray),
        "nested_structured": nested_structured(),
        "sqlite_row": sqlite_row(),
        "partial": functools.partial(print, password=SECRET),
        "generator": started(),
        "closure": closure(),
        "config_of_logging": logging.getLogger("x"),
        **polars_holders(),
    }


def polars_holders() -> dict[str, Any]:
    """Return polars values for `holders`, if polars is installed."""
    if pl is None:
        return {}
    frame = pl.DataFrame(
        {"user": ["ada"], "password": [SECRET], "login": [{"user": "ada", "password": SECRET}]}
    )
    return {"pl_frame": frame, "pl_column": frame["password"]}


NOT_SEARCHED = {"where", "generator", "closure", "config_of_logging"}
"""Names of `holders` in which no secret is looked for: reading them may run code of the user."""


def copies() -> dict[str, Any]:
    """Return values with other names that repeat the secret of a variable."""
    raw = SECRET.encode()
    return {
        "text": SECRET,
        "inside": f"https://ada:{SECRET}@host/ and more",
        "long_text": "-" * 13_330 + SECRET + "-" * 20_000,
        "part": SECRET[:12],
        "raw": raw,
        "raw_array": bytearray(raw),
        "long_raw": b"-" * 4_965 + raw + b"-" * 9_000,
        "view": memoryview(raw),
        "numbers": array.array("B", raw),
        "np_bytes": np.frombuffer(raw, "u1"),
        "np_text": np.array([SECRET, "b"]),
        "np_letters": np.array(list(SECRET)),
        "np_objects": np.array([SECRET, None], object),
        "letters": list(SECRET),
        "codes": list(raw),
        "items": ["ada", SECRET, PIN],
        "long_items": ["x" * 400 + SECRET + "y" * 300] * 200,
        "a_set": {"ada", SECRET},
        "by_secret": {SECRET: "ada"},
        "a_deque": collections.deque(["ada", SECRET]),
        "values": frame().to_numpy(),
        "pins": frame()["pin"].to_numpy(),
        "one_pin": np.array([PIN]),
        "lists": frame().values.tolist(),
        "unnamed": pd.DataFrame(frame().to_numpy()),
        "long_cells": pd.DataFrame({"note": ["x" * 30 + SECRET]}),
        "a_tuple": tuple(Login("ada", SECRET)),
        "error": ValueError(f"no access with {SECRET}"),
        "in_memory": io.StringIO(SECRET),
        "future": done_future(),
        "thread": threading.Thread(name=SECRET),
        "environment": dict(os.environ),
        "environment_texts": list(os.environ.values()),
        **({} if pl is None else {"pl_unnamed": pl.DataFrame({"a": [SECRET]})}),
    }


def done_future() -> Any:
    loop = asyncio.new_event_loop()
    made = loop.create_future()
    made.set_result(SECRET)
    loop.close()
    return made


def machinery() -> dict[str, Any]:
    """Return modules, functions, and other values that are not data."""
    return {
        "os": os,
        "sys": sys,
        "modules": sys.modules,
        "function": holders,
        "method": Own().method,
        "stdout": sys.stdout,
        "python_frame": sys._getframe(),
        "code": holders.__code__,
    }


NAMES = """
    values T iloc loc at iat index columns name names dtype dtypes array obj str dt base data
    mapping maps tobytes tolist args keywords func gi_frame f_globals f_locals f_back f_builtins
    __globals__ __dict__ __class__ __self__ __func__ __closure__ cell_contents __wrapped__
    __init__ __module__ __defaults__ modules environ environb stdout session key user_ns kernel
    value user password pin hidden inner _token _secret_value api_key shown method handlers root
    parent manager stream buffer sys os path _fields fields real flat view shape schema
"""
ITEMS = (
    "[0]", "[1]", "[-1]", "[0:2]", "[:]", "[::-1]", "[1:]", "[3:9]", "[0, 1]", "[:, 1]", "[1, :]",
    "['user']", "['password']", "['login']", "['db']", "['pin']", "[0, 'password']",
    "['login', 'password']", "['ada']", "['os']", "['posix']", "['user':]",
)  # fmt: skip


def steps(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the possible next steps of a path to `value`, with the parts."""
    for name in NAMES.split():
        try:
            yield f".{name}", getattr(value, name)
        except Exception:
            continue
    for item in ITEMS:
        try:
            yield item, eval(f"value{item}", {"value": value})
        except Exception:
            yield item, None


def paths(name: str, value: Any, depth: int) -> Iterator[str]:
    """Yield the paths from the variable `name` with up to `depth` steps."""
    yield name
    if depth and value is not None:
        for step, part in steps(value):
            yield from paths(f"{name}{step}", part, depth - 1)
