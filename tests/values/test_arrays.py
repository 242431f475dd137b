"""Descriptions of arrays and tensors."""

from __future__ import annotations

import array
import pathlib
import sys
import types
from typing import Any

import numpy as np
import pytest

from tests.values.helpers import text


def test_array_has_its_range_and_first_values(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str]] = [
        (np.array([1.0, np.nan, 3.0]), "min 1, max 3, mean 2, 1 nan\n[1.0, nan, 3.0]"),
        (np.array([np.nan] * 2), "shape (2,), float64\nall elements are nan\n[nan, nan]"),
        (np.full((900, 900), np.nan), "all elements are nan (in a sample of at most 200,000"),
        (np.array([True, False, True]), "2 elements True of 3\n[True, False, True]"),
        (np.ones((900, 900), bool), "True (in a sample of at most 200,000 elements, evenly"),
        (np.full(1_000, 60_000, "float16"), "min 60000, max 60000, mean 60000\n"),  # not inf
        (np.array([1j]), "shape (1,), complex128\n[1j]"),
        (np.zeros((0, 3)), "numpy.ndarray, shape (0, 3), float64"),
        (np.ones((300, 2), int), "mean 1\n[1, 1]\n[1, 1]\n[1, 1]\n[1, 1]\n[1, 1]\n… 600 elements"),
        (np.ones((300, 11), int), "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, …]\n"),
        (array.array("d", range(50)), "19.0] … 30 more elements; value[20:40] has the next"),
        (memoryview(bytes(100)), "… 80 more elements; value[20:40] has the next"),
        (memoryview(b"abcdef").cast("B", (2, 3)), "memoryview, shape (2, 3), format 'B'"),
    ]
    for value, part in rows:
        with subtests.test(part=part):
            assert part in text(value)


def test_array_in_a_file_is_sampled(tmp_path: pathlib.Path) -> None:
    made = np.memmap(tmp_path / "a", dtype="u1", mode="w+", shape=(100_000,))
    assert "in a sample of at most 10,000 elements" in text(made)


class FakeTensor:
    """Fake of `torch.Tensor`: torch is too large to install for a test."""

    shape = (2, 2)
    dtype = "float32"

    def __init__(self, device: object) -> None:
        self.device = device

    def min(self) -> Any:
        return np.float32(1)

    def max(self) -> Any:
        return np.float32(2)

    def tolist(self) -> list[list[int]]:
        return [[1, 1], [2, 2]]


def test_tensor_on_another_device_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = types.ModuleType("torch")
    torch.Tensor = FakeTensor  # type: ignore[attr-defined]
    FakeTensor.__name__ = "Tensor"
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert text(FakeTensor("cuda:0")).endswith("shape (2, 2), float32, on cuda:0")
    assert text(FakeTensor("cpu")).endswith("on cpu\nmin 1, max 2\n[[1, 1], [2, 2]]")


class FakeDevice:
    """Fake of `jax.Device`, whose text for main memory is not `cpu`."""

    def __init__(self, platform: str, text: str) -> None:
        self.platform = platform
        self._text = text

    def __str__(self) -> str:
        return self._text


def test_jax_array_in_main_memory_is_described_with_its_elements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jax = types.ModuleType("jax")
    array = type("Array", (FakeTensor,), {"__module__": "jax"})
    jax.Array = array  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jax", jax)
    assert text(array(FakeDevice("gpu", "cuda:0"))).endswith("float32, on cuda:0")
    described = text(array(FakeDevice("cpu", "TFRT_CPU_0")))
    assert described.endswith("on TFRT_CPU_0\nmin 1, max 2\n[[1, 1], [2, 2]]")
