"""A kernel for each module that shows prompts in one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kernel_client import FrontEnd, front_end


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    with front_end(tmp_path_factory.mktemp("kernel")) as user:
        yield user


@pytest.fixture
def user(kernel: FrontEnd) -> FrontEnd:
    """The front end, without the messages of the test before."""
    kernel.forget()
    return kernel
