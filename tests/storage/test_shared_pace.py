"""The pace of requests that several kernels share through a folder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jp_nb.storage.shared_pace import RequestLimits, SharedPace, make_pace_folder


@pytest.fixture
def limits() -> RequestLimits:
    return RequestLimits()


@pytest.fixture
def paces(limits: RequestLimits) -> Iterator[tuple[SharedPace, SharedPace]]:
    """The pace of two kernels of one batch."""
    with make_pace_folder(limits) as folder:
        yield SharedPace(Path(folder)), SharedPace(Path(folder))


@pytest.mark.req("BATCH-14")
@pytest.mark.parametrize("limits", [RequestLimits(concurrent={"a/b": 2})])
async def test_requests_of_all_kernels_count_against_the_number_at_once(
    paces: tuple[SharedPace, SharedPace],
) -> None:
    running: list[int] = []
    most = 0

    async def request(number: int) -> None:
        nonlocal most
        async with paces[number % 2].running("a/b"):
            running.append(number)
            most = max(most, len(running))
            await asyncio.sleep(0.02)
            running.remove(number)

    async with asyncio.TaskGroup() as tasks:
        for number in range(8):
            tasks.create_task(request(number))
    assert most == 2


@pytest.mark.req("BATCH-14")
async def test_a_429_holds_the_requests_of_all_kernels_to_this_provider(
    paces: tuple[SharedPace, SharedPace],
) -> None:
    one, two = paces
    one.hold("slow", 0.4)
    one.hold("slow", 0.1)
    start = time.monotonic()
    async with two.running("other"):
        assert time.monotonic() - start < 0.3
    async with two.running("slow"):
        assert time.monotonic() - start >= 0.39


@pytest.mark.req("BATCH-14")
@pytest.mark.parametrize("limits", [RequestLimits(per_minute={"p": 3})])
async def test_requests_beyond_the_number_of_a_minute_wait(
    paces: tuple[SharedPace, SharedPace],
) -> None:
    one, two = paces
    for pace in (one, two, one):
        async with asyncio.timeout(5), pace.running("p"):
            pass
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3), two.running("p"):
            pytest.fail("a fourth request began")
    async with asyncio.timeout(5), two.running("q"):
        pass


@pytest.mark.parametrize("limits", [RequestLimits(concurrent={"p": 1}, per_minute={"p": 9})])
async def test_request_that_is_cancelled_frees_its_place(
    paces: tuple[SharedPace, SharedPace],
) -> None:
    one, two = paces

    async def wait() -> None:
        async with one.running("p"):
            await asyncio.sleep(60)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0.05)
    task.cancel()
    async with asyncio.timeout(5), two.running("p"):
        pass


async def test_cut_file_of_a_killed_kernel_counts_as_empty(
    paces: tuple[SharedPace, SharedPace], tmp_path: Path
) -> None:
    with make_pace_folder(RequestLimits(per_minute={"p": 1})) as folder:
        (Path(folder) / "p.json").write_text('{"starts": [1')
        async with asyncio.timeout(5), SharedPace(Path(folder)).running("p"):
            pass
