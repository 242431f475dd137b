"""Fixtures that many tests share."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TRUST_FOLDERS_VARIABLE = "JP_NB_TRUST_FOLDERS"


# On a busy machine any example may take long, and so may making it up. The examples are the same in
# each run, so that no change is blamed for an example of chance. For many random examples of each
# property: `pytest --hypothesis-profile=deep`.
for profile, examples in (("quick", 20), ("deep", 1500)):
    settings.register_profile(
        profile,
        max_examples=examples,
        derandomize=profile == "quick",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("quick")

QUICK_PYTHON = Path(__file__).parent / "support" / "quick_python"
TIERS = ("kernel", "browser", "runners", "deep")

# A background job of a script ignores interrupts, and so would all kernels that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = [
    "tests.support.browser",
    "tests.notebook.prompt.choices_page",
    "tests.support.sessions",
    "tests.support.notebook_runs",
    "tests.support.prompt_pages",
    "tests.labextension.shared_document",
]


@pytest.fixture(scope="session", autouse=True)
def isolated_user() -> Iterator[None]:
    """Ignore the configuration and keys of this computer's user, also in kernels."""
    with tempfile.TemporaryDirectory(prefix="jp-nb-tests-") as folder:
        patch = pytest.MonkeyPatch()
        for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            patch.setenv(variable, os.path.join(folder, variable.lower()))
        # Folders of tests are trusted, except in tests of trust.
        patch.setenv(TRUST_FOLDERS_VARIABLE, tempfile.gettempdir())
        patch.setenv("PYTHONPATH", str(QUICK_PYTHON), prepend=os.pathsep)
        yield
        patch.undo()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _named_tests(config: pytest.Config) -> bool:
    return any("::" in argument for argument in config.args)


def pytest_report_header(config: pytest.Config) -> list[str]:
    if config.option.markexpr or _named_tests(config):
        return []
    return [
        f"deselected tiers: {', '.join(TIERS)} (`pytest -m TIER` runs one; see CONTRIBUTING.md)"
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tiers unless requested, and put modules with a page last.

    After the first test with a page, an event loop runs in the thread.

    Source: https://playwright.dev/python/docs/library (the synchronous API)
    """
    if not config.option.markexpr and not _named_tests(config):
        deselected = [item for item in items if any(map(item.get_closest_marker, TIERS))]
        config.hook.pytest_deselected(items=deselected)
        if deselected and len(deselected) == len(items):
            _say_which_tier(config, deselected)
        items[:] = [item for item in items if item not in set(deselected)]
    with_page = {item.path for item in items if _has_page(item)}
    items.sort(key=lambda item: (item.path in with_page, _has_page(item)))


def _say_which_tier(config: pytest.Config, deselected: Sequence[pytest.Item]) -> None:
    """Print how to run the tests, all of which are deselected."""
    tiers = [name for name in TIERS if any(each.get_closest_marker(name) for each in deselected)]
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        named = " ".join(config.args)
        reporter.write_line(
            f"All {len(deselected)} tests are in the tier {' or '.join(tiers)}. Run them with: "
            f"pytest -m '{' or '.join(tiers)}' {named}"
        )


def _has_page(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and "chromium" in item.fixturenames


def pytest_collection_finish() -> None:
    """Exclude objects of the modules from garbage collection: some tests run it."""
    gc.collect()
    gc.freeze()
