"""What is said of single kinds, where it is more than their text: exact words, limits, pictures."""

from __future__ import annotations

import array
import asyncio
import io
import mmap
import pathlib
import re
import threading
import types
import warnings
from collections.abc import AsyncGenerator
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import attrs
import IPython.display
import numpy as np
import pandas as pd
import PIL.Image
import plotly.graph_objects as go
import polars as pl
import pydantic
import pytest
from matplotlib.figure import Figure

from jp_nb.image import Image
from jp_nb.values import cutting, drawn_figures, frames, scalars
from jp_nb.values.describing import describe
from jp_nb.values.description import Description, ValueBudget
from tests.support.hide_names import HideNames

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def text(value: object, chars: int = 2_000, name: str = "value") -> str:
    return describe(value, ValueBudget(chars=chars), name=name).text


def picture(value: object, side: int = 768) -> PIL.Image.Image:
    (image,) = describe(value, ValueBudget(side=side)).images
    made = PIL.Image.open(io.BytesIO(image.content))
    made.load()
    return made


# --- arrays ----------------------------------------------------------------------------------


def test_an_array_is_told_by_its_range_and_its_first_values(subtests: pytest.Subtests) -> None:
    for value, says in [
        (np.array([1.0, np.nan, 3.0]), "min 1, max 3, mean 2, 1 nan\n[1.0, nan, 3.0]"),
        (np.array([np.nan] * 2), "shape (2,), float64\nevery element is nan\n[nan, nan]"),
        (np.full((900, 900), np.nan), "every element is nan (of a sample of at most 200,000"),
        (np.array([True, False, True]), "2 elements True of 3\n[True, False, True]"),
        (np.ones((900, 900), bool), "True (of a sample of at most 200,000 elements, evenly"),
        (np.full(1_000, 60_000, "float16"), "min 60000, max 60000, mean 60000\n"),  # not inf
        (np.array([1j]), "shape (1,), complex128\n[1j]"),
        (np.zeros((0, 3)), "numpy.ndarray, shape (0, 3), float64"),
        (array.array("d", range(50)), "19.0] … 30 more elements; value[20:40] has the next"),
        (memoryview(bytes(100)), "… 80 more elements; value[20:40] has the next"),
        (memoryview(b"abcdef").cast("B", (2, 3)), "memoryview, shape (2, 3), format 'B'"),
    ]:
        with subtests.test(value=value):
            said = text(value)
            assert said.endswith(says) or f"{says}" in said


def test_of_an_array_in_a_file_fewer_elements_are_read(tmp_path: pathlib.Path) -> None:
    made = np.memmap(tmp_path / "a", dtype="u1", mode="w+", shape=(100_000,))
    assert "of a sample of at most 10,000 elements" in text(made)


class FakeTensor:
    """As a tensor of torch, which is too large to be installed for a test."""

    shape = (2, 2)
    dtype = "float32"

    def __init__(self, device: str) -> None:
        self.device = device

    def min(self) -> Any:
        return np.float32(1)

    def max(self) -> Any:
        return np.float32(2)

    def tolist(self) -> list[list[int]]:
        return [[1, 1], [2, 2]]


def test_of_a_tensor_elsewhere_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = types.ModuleType("torch")
    torch.Tensor = FakeTensor  # type: ignore[attr-defined]
    FakeTensor.__name__ = "Tensor"
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    assert text(FakeTensor("cuda:0")).endswith("shape (2, 2), float32, on cuda:0")
    assert text(FakeTensor("cpu")).endswith("on cpu\nmin 1, max 2\n[[1, 1], [2, 2]]")


# --- records ---------------------------------------------------------------------------------


@dataclass
class Record:
    a: object
    password: str = "geheim-4711"
    shared: ClassVar[int] = 3
    unseen: str = field(default="unseen", repr=False)
    given: InitVar[int] = 0

    @property
    def computed(self) -> int:
        raise AssertionError("nothing that is computed is read")


class Model(pydantic.BaseModel):
    model_config = {"extra": "allow", "arbitrary_types_allowed": True}
    a: Any
    password: str = "geheim-4711"
    unseen: str = pydantic.Field("unseen", repr=False)


@attrs.define
class Attributes:
    a: object
    password: str = "geheim-4711"
    unseen: str = attrs.field(default="unseen", repr=False)


@pytest.mark.parametrize("kind", [Record, Model, Attributes])
def test_a_record_is_told_by_its_fields_with_secrets_masked(kind: Any) -> None:
    masked = ValueBudget(privacy=HideNames("password"))
    assert describe(kind(a=1), masked).text == f"{kind.__name__}(a=1, password=(hidden))"
    inner = describe(kind(a=pd.DataFrame({"n": [1]})), masked, name="value")
    assert f"{kind.__name__} of 2 items:\n.a: pandas.DataFrame, 1 row x 1 column\n" in inner.text
    assert inner.text.endswith(".password: (hidden)")


def test_a_model_of_pydantic_is_told_with_its_extra_fields() -> None:
    assert text(Model(a=1, more=[2])) == "Model(a=1, password='geheim-4711', more=[2])"


@dataclass
class Unset:
    a: int
    b: int = 2

    def __getattr__(self, name: str) -> object:
        raise AssertionError("no code of the value runs")


def test_a_field_that_is_not_there_is_left_out() -> None:
    made = Unset(1)
    del made.a
    assert text(made) == "Unset(b=2)"


@dataclass(repr=False)
class Spoken:
    a: int

    def __repr__(self) -> str:
        return "in its own words"


def test_a_record_with_a_text_of_its_own_is_told_by_that() -> None:
    assert text(Spoken(1)) == "in its own words"


# --- frames ----------------------------------------------------------------------------------


class Measured(pd.DataFrame):  # type: ignore[misc]
    pass


def test_a_frame_of_an_own_type_says_both() -> None:
    assert text(Measured({"a": [1]})).startswith(
        "tests.values.test_each_kind.Measured (a pandas.DataFrame), 1 row x 1 column\n"
    )


def test_containers_in_cells_are_told_by_their_length() -> None:
    made = pd.DataFrame({"l": [[1, 2]], "d": [{"a": 1}], "t": [tuple(range(6))], "p": [(1, 2)]})
    assert text(made).endswith("0  list of 2  dict of 1  tuple of 6  1, 2")


def test_of_a_long_frame_the_nulls_at_its_beginning_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "MAX_COUNTED", 100)
    made = pd.DataFrame({"a": [None] * 60 + [1.0] * 40, "b": range(100)})
    assert "a: float64, 50 nulls in the first 50 rows" in text(made)
    series = text(pd.Series([None, *range(200)], dtype="float64"))
    assert "1 null among the first 100" in series
    assert "min" not in series
    assert "min 0, max 99" in text(pl.Series(range(100)))


def test_a_named_index_is_told() -> None:
    made = pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name="k"))
    assert text(made).startswith("pandas.DataFrame, 1 row x 1 column; index Index k (")


# --- pictures --------------------------------------------------------------------------------


def test_a_figure_is_drawn_as_large_as_the_budget_says() -> None:
    assert max(picture(Figure(figsize=(8, 4)), side=100).size) == 100
    assert picture(Figure(figsize=(2, 1), dpi=100)).size == (200, 100)


def test_what_made_a_picture_is_not_in_it() -> None:
    assert b"Software" not in describe(Figure(figsize=(1, 1))).images[0].content
    made = PIL.Image.new("RGB", (2, 2))
    made.info = {"icc_profile": b"of a camera"}
    assert picture(made).info == {}
    assert made.info != {}


def test_a_figure_that_cannot_be_drawn_is_told_in_words() -> None:
    said = describe(Figure(figsize=(2_000, 2)))
    assert said.text.endswith("(It cannot be drawn: ValueError: a figure of 2000 x 2 inches)")
    assert said.images == ()


def test_a_picture_is_made_smaller_and_left_as_it_is() -> None:
    made = PIL.Image.new("RGB", (2_000, 1_000))
    assert picture(made).size == (768, 384)
    assert made.size == (2_000, 1_000)


@pytest.mark.parametrize(
    ("mode", "shown"), [("P", "RGB"), ("CMYK", "RGB"), ("La", "LA"), ("PA", "RGBA")]
)
def test_a_picture_of_any_mode_becomes_one_that_models_take(mode: str, shown: str) -> None:
    assert picture(PIL.Image.new(mode, (3, 3))).mode == shown


def test_what_is_clear_in_a_picture_stays_clear() -> None:
    made = PIL.Image.new("P", (3, 3))
    made.info["transparency"] = 0
    assert picture(made).mode == "RGBA"


def test_a_huge_picture_is_not_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn_figures, "MAX_PIXELS", 8)
    said = describe(PIL.Image.new("1", (3, 3)))
    assert said.images == ()
    assert "too large to be shown; a smaller copy can be" in said.text


def test_bytes_of_an_image_are_an_image_if_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe(PNG) == Description("bytes, 28 bytes: image/png", (Image("image/png", PNG),))
    monkeypatch.setattr(scalars, "MAX_IMAGE_BYTES", 10)
    assert describe(PNG) == Description("bytes, 28 bytes: image/png")


def test_no_more_pictures_are_drawn_than_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[object] = []
    draw = drawn_figures._drawn

    def noted(figure: Any, *rest: Any) -> bytes:
        drawn.append(figure)
        return draw(figure, *rest)

    monkeypatch.setattr(drawn_figures, "_drawn", noted)
    said = describe([Figure(figsize=(1, 1)) for _ in range(4)], ValueBudget(images=2))
    assert len(said.images) == len(drawn) == 2
    assert said.text.count("matplotlib.Figure") == 4


def test_a_plotly_figure_is_drawn_where_what_draws_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = go.Figure(go.Scatter(x=[1], y=[2]), layout={"width": 1_536, "height": 100})
    monkeypatch.setitem(__import__("sys").modules, "kaleido", types.ModuleType("kaleido"))
    asked: list[dict[str, Any]] = []

    def drawn(self: object, **how: Any) -> bytes:
        asked.append(how)
        return PNG

    monkeypatch.setattr(go.Figure, "to_image", drawn)
    assert [image.content for image in describe(made).images] == [PNG]
    assert asked == [{"format": "png", "width": 1_536, "height": 100, "scale": 0.5}]


# --- containers ------------------------------------------------------------------------------


def test_what_is_very_deep_is_told_to_a_depth() -> None:
    made: list[Any] = []
    for _ in range(3_000):
        made = [made]
    assert text(made).removeprefix("list of 1 item:\n[0] ") == "[" * 12 + "[… 1]" + "]" * 12


class Worded:
    def _ai_repr_(self) -> str:
        return "first\nsecond"


def test_what_has_no_order_is_not_told_part_by_part() -> None:
    assert text({Worded(), Worded()}) == "{first second, first second}"
    assert text([Worded()]) == "list of 1 item:\n[0]: first\nsecond"


class Outdated:
    def __repr__(self) -> str:
        warnings.warn("old", FutureWarning, stacklevel=1)
        return "warned"


def test_warnings_of_libraries_are_not_shown() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert text(Outdated()) == "warned"
    assert seen == []


# --- what stands for something else ----------------------------------------------------------


async def streams() -> AsyncGenerator[int, None]:
    yield 1
    yield 2


async def test_tasks_are_told_by_their_state_and_nothing_of_them_counts_as_seen() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def five() -> int:
        return 5

    unseen: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unseen.append(context))
    failed, done = asyncio.create_task(fails()), asyncio.create_task(five())
    waits, cancelled = (asyncio.create_task(asyncio.Event().wait()) for _ in range(2))
    cancelled.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    ends = [text(task).rpartition(", ")[2] for task in (failed, done, waits, cancelled)]
    assert ends == ["failed: ValueError: no", "done: 5", "not done", "cancelled"]
    waits.cancel()
    del failed
    assert [str(context["exception"]) for context in unseen] == ["no"]  # nobody fetched it


async def test_an_async_generator_is_told_by_its_state() -> None:
    made = streams()
    await anext(made)
    assert text(made).startswith("async generator streams, open")
    await made.aclose()
    assert text(made).startswith("async generator streams, closed")


def test_a_thread_that_runs_is_alive() -> None:
    ends = threading.Event()
    thread = threading.Thread(target=ends.wait, name="worker")
    thread.start()
    try:
        assert text(thread) == "threading.Thread 'worker', alive"
    finally:
        ends.set()
        thread.join()


class Counting:
    def __next__(self) -> int:
        raise AssertionError("nothing is taken")

    def __repr__(self) -> str:
        return "counts in its own words"


def test_an_iterator_that_says_something_of_itself_is_told_by_that() -> None:
    assert text(Counting()) == "counts in its own words"


def test_the_value_of_a_widget_is_told_but_no_password() -> None:
    import ipywidgets as widgets

    assert text(widgets.IntSlider(value=5, description="n")) == (
        "ipywidgets.IntSlider, description 'n', value 5"
    )
    hidden = text(widgets.Password(value="geheim-4711", description="Key"))
    assert hidden == "ipywidgets.Password, description 'Key', value hidden"

    class Login(widgets.Password):  # type: ignore[misc]  # ipywidgets has no types
        pass

    assert text(Login(value="geheim-4711")) == "ipywidgets.Login, value hidden"
    field = widgets.Text(value="geheim-4711", description="API key:")
    assert "geheim-4711" in text(field)
    masked = describe(field, ValueBudget(privacy=HideNames("API key:"))).text
    assert masked == "ipywidgets.Text, description 'API key:', value (hidden)"
    assert text(widgets.VBox([widgets.Button()])) == "ipywidgets.VBox, 1 child"


def test_what_is_displayed_is_told_by_its_data() -> None:
    shown: Any = IPython.display
    assert text(shown.Markdown("**a**")) == "**a**"
    assert text(shown.HTML("<b>x</b>")) == "<b>x</b>"
    assert text(shown.JSON({"a": [1]})) == "{'a': [1]}"
    image = shown.Image(data=PNG, format="png")
    assert [each.content for each in describe(image).images] == [PNG]


def test_a_path_is_told_by_what_is_there(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.txt").write_text("geheim", encoding="utf-8")
    assert text(tmp_path / "a.txt") == f"{tmp_path}/a.txt (a file of 6 bytes, not read)"
    assert text(tmp_path) == f"{tmp_path} (a folder)"


def test_a_map_of_memory_is_not_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(b"geheim")
    with (
        (tmp_path / "a").open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as made,
    ):
        assert "geheim" not in text(made)
        assert made.tell() == 0


# --- code ------------------------------------------------------------------------------------


async def work(a: int, *, key: object = None) -> int:
    """Do it."""
    return a


def test_a_coroutine_function_says_that_it_is_one() -> None:
    assert text(work).startswith(
        "async def tests.values.test_each_kind.work(a: 'int', *, key: 'object' = None) -> 'int', "
    )


def test_a_function_of_a_cell_is_told_by_its_source(tmp_path: pathlib.Path) -> None:
    import linecache

    source = "def half(x):\n    return x / 2  # exactly\n"
    name = str(tmp_path / "ipykernel_12" / "34.py")
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), space)
    try:
        assert text(space["half"]) == f"function half(x), a cell, line 1\n{source.rstrip()}"
        assert len(text(space["half"], 60)) <= 60
    finally:
        del linecache.cache[name]


@pytest.mark.parametrize("kind", [Record, Attributes])
def test_a_generated_docstring_is_not_told_twice(kind: type) -> None:
    assert text(kind).count("password: 'str'") == 1


# --- exceptions ------------------------------------------------------------------------------


def raised(code: str) -> BaseException:
    try:
        exec(compile(code, "<stdin>", "exec"), {})
    except Exception as exc:
        return exc
    raise AssertionError


def test_of_an_exception_the_lines_of_installed_code_are_counted() -> None:
    said = text(raised("import json\njson.loads('{')"))
    assert "a cell, line 2" in said
    assert re.search(r"\n  \(\d lines of installed code left out\)$", said)
    assert "decoder.py" not in said


def test_a_cause_is_told_unless_it_is_suppressed() -> None:
    code = "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise KeyError('x'){}"
    assert "While handling:\nZeroDivisionError: division by zero" in text(raised(code.format("")))
    assert "ZeroDivisionError" not in text(raised(code.format(" from None")))


def test_exceptions_that_cause_each_other_are_told_once() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert text(one) == "ValueError: one\nCaused by:\nValueError: two"


def test_of_many_lines_the_first_and_the_last_are_told() -> None:
    code = "def down(n):\n    if not n:\n        raise ValueError\n    down(n - 1)\ndown(90)"
    said = text(raised(code), 5_000).split("\n")
    assert said[2] == "  a cell, line 5"
    assert said[11] == "  … 73 more lines"
    assert said[-1] == "  a cell, line 3, in down"
    assert len(said) == 22


# --- texts -----------------------------------------------------------------------------------


def test_what_is_cut_of_a_text_is_just_what_the_expression_has() -> None:
    value = "".join(chr(33 + n % 90) for n in range(5_000))
    said = text(value, 400)
    found = re.search(
        r"\n… \(([\d,]+) characters left out; value\[(\d+):(\d+)\] has them\) …\n", said
    )
    assert found is not None
    start, end = int(found[2]), int(found[3])
    assert said == value[:start] + found[0] + value[end:]
    assert int(found[1].replace(",", "")) == end - start
    assert start > len(value) - end > 50


@pytest.mark.parametrize(
    ("said", "cleaned"),
    [
        ("<Thing at 0x7f00AB>", "<Thing>"),
        ("<Thing id=140234567>", "<Thing>"),
        ("<Thing id='140234567', x=1>", "<Thing, x=1>"),
        ("id=12 at noon", "id=12 at noon"),
    ],
)
def test_addresses_are_taken_out(said: str, cleaned: str) -> None:
    assert cutting.without_addresses(said) == cleaned


def test_of_an_endless_text_the_ends_are_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "MAX_CLEANED", 10)
    assert cutting.without_addresses("01234" + "x" * 50 + " at 0xabcde fin") == (
        "01234\n… (60 characters left out) …\n fin"
    )


def test_a_huge_integer_is_told_by_its_size_and_sign() -> None:
    assert re.fullmatch(r"-0x[0-9a-f]{16}… \(an integer of 16,610 bits, about 5,001 digits\)",
                        text(-(10**5000)))  # fmt: skip
