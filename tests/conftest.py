"""Fixtures that many tests share."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from jp_nb.workspace.variables import TRUST_FOLDERS

# On a busy machine any example may take long, and so may making it up.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

pytest_plugins = [
    "tests.support.browser",
    "tests.support.choices_page",
    "tests.support.magic_shell",
    "tests.support.folder_trust",
    "tests.support.notebook_runs",
    "tests.support.prompt_pages",
    "tests.support.shared_document",
]


@pytest.fixture(scope="session", autouse=True)
def a_user_of_its_own() -> Iterator[None]:
    """Nothing that this machine's user configured or signed plays a part, in kernels neither."""
    with tempfile.TemporaryDirectory(prefix="jp-nb-tests-") as folder:
        patch = pytest.MonkeyPatch()
        for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            patch.setenv(variable, os.path.join(folder, variable.lower()))
        # What tests write into folders counts, but where that is what they are about.
        patch.setenv(TRUST_FOLDERS, tempfile.gettempdir())
        yield
        patch.undo()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: from the first of them on an event loop runs in this thread.

    Source: https://playwright.dev/python/docs/library (the synchronous API)
    """
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


def pytest_collection_finish() -> None:
    """Let no collection of garbage look again at what the modules hold: some tests collect it."""
    gc.collect()
    gc.freeze()
