"""Benchmark descriptions of values against their own `repr`, the slowest first.

    python -m bench.values

Figures are medians in milliseconds, with images (`all`) and without (`text`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any
from unittest.mock import MagicMock

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl

from jp_nb.values.base import ValueBudget
from jp_nb.values.describe import describe
from tests.values.sample_values import deep, sample_values

RUNS = 5


class Endless:
    """An object whose text is as long as memory allows."""

    def __repr__(self) -> str:
        return "x" * 200_000_000


class Raising(list[int]):
    """A list that does not say how long it is."""

    def __len__(self) -> int:
        raise RuntimeError("no")


def hostile() -> Iterator[tuple[str, Any]]:
    """Yield values that are meant to take long."""
    yield "200 MB of repr", Endless()
    yield "raising __len__", Raising([1])
    yield "100,000 levels", deep(100_000)
    yield "answers everything", MagicMock()
    yield "10 million numbers", list(range(10_000_000))
    yield "3 million bits", 1 << 3_000_000
    yield "a million texts in a set", {f"s{i}" for i in range(1_000_000)}
    yield "20,000 texts in a set", {f"s{i}" for i in range(20_000)}
    yield "2,000 keys, each a frame", {i: pd.DataFrame({"a": [1]}) for i in range(2_000)}
    yield "800 MB of numbers", np.zeros((100_000, 1_000))
    yield "5 million rows of texts", pd.DataFrame({"s": ["text"] * 5_000_000})
    yield "5,000 columns", pd.DataFrame(np.zeros((100, 5_000)))
    rows = pl.LazyFrame({"a": range(100_000)})
    yield "10 GB, lazy", rows.join(rows, how="cross")


def median_ms(work: Callable[[], object]) -> float:
    """Return the median time of `work`."""
    times = []
    for _ in range(RUNS):
        start = perf_counter()
        work()
        times.append((perf_counter() - start) * 1000)
    return statistics.median(times)


def own_ms(value: object) -> float | None:
    """Return the time of the value's own `repr`; None if it fails."""
    try:
        return median_ms(partial(repr, value))
    except (Exception, RecursionError):
        return None


def main() -> None:
    """Print a line for each value."""
    mpl.use("agg")
    lines = []
    for name, value in [*sample_values().items(), *hostile()]:
        whole = median_ms(partial(describe, value))
        text = median_ms(partial(describe, value, ValueBudget(images=0)))
        lines.append((whole, text, own_ms(value), name))
    print(f"{'all':>8} {'text':>8} {'repr':>8}")
    for whole, text, own, name in sorted(lines, key=lambda line: -line[1])[:40]:
        print(f"{whole:8.1f} {text:8.1f} {'fails' if own is None else f'{own:.1f}':>8}  {name}")


if __name__ == "__main__":
    main()
