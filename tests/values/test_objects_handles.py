"""Tests that descriptions of files, iterators, tasks, threads, and widgets consume nothing."""

from __future__ import annotations

import asyncio
import mmap
import pathlib
import threading
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import IPython.display
import ipywidgets as widgets

import jp_nb as jp
from tests.kit.values import describe_value
from tests.values.helpers import PNG, text


async def streams() -> AsyncGenerator[int, None]:
    yield 1
    yield 2


async def test_task_is_described_without_retrieving_its_exception() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def five() -> int:
        return 5

    unseen: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unseen.append(context))
    failed = asyncio.create_task(fails())
    done = asyncio.create_task(five())
    waits, cancelled = (asyncio.create_task(asyncio.Event().wait()) for _ in range(2))
    cancelled.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    ends = [text(task).rpartition(", ")[2] for task in (failed, done, waits, cancelled)]
    assert ends == ["failed: ValueError: no", "done: 5", "not done", "cancelled"]
    waits.cancel()
    del failed
    assert [str(context["exception"]) for context in unseen] == ["no"]  # it was not retrieved


async def test_async_generator_has_its_state() -> None:
    made = streams()
    await anext(made)
    assert text(made).startswith("async generator streams, open")
    await made.aclose()
    assert text(made).startswith("async generator streams, closed")


def test_running_thread_is_alive() -> None:
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


def test_custom_repr_of_an_iterator_is_used() -> None:
    assert text(Counting()) == "counts in its own words"


def test_widget_has_its_value_but_no_password() -> None:
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
    masked = describe_value(field, hide=["API key:"]).text
    assert masked == "ipywidgets.Text, description 'API key:', value (hidden)"
    assert text(widgets.VBox([widgets.Button()])) == "ipywidgets.VBox, 1 child"


def test_display_object_has_its_data() -> None:
    shown: Any = IPython.display
    assert text(shown.Markdown("**a**")) == "**a**"
    assert text(shown.HTML("<b>x</b>")) == "<b>x</b>"
    assert text(shown.JSON({"a": [1]})) == "{'a': [1]}"
    image = shown.Image(data=PNG, format="png")
    assert [each.content for each in jp.describe(image).images] == [PNG]


def test_path_has_its_file_type_and_size(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.txt").write_text("geheim", encoding="utf-8")
    assert text(tmp_path / "a.txt") == f"{tmp_path}/a.txt (a file of 6 bytes, not read)"
    assert text(tmp_path) == f"{tmp_path} (a folder)"


def test_memory_map_is_not_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(b"geheim")
    with (
        (tmp_path / "a").open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as made,
    ):
        assert "geheim" not in text(made)
        assert made.tell() == 0


def test_iterator_is_not_consumed() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        taken.append(1)
        yield 1

    values = [numbers(), iter([1]), map(int, "12"), zip([1], [2], strict=True)]
    jp.describe(values)
    for value in values:
        jp.describe(value)
    assert not taken
    assert list(values[0]) == [1]


def test_file_is_neither_read_nor_flushed(tmp_path: Any) -> None:
    with (tmp_path / "a.txt").open("w", encoding="utf-8") as file:
        file.write("not yet on the disk")
        assert "mode 'w', open, not read" in jp.describe(file).text
        assert (tmp_path / "a.txt").read_text(encoding="utf-8") == ""
