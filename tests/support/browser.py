"""JupyterLab in Chromium for tests: the fixtures `lab` and `open_notebook`.

Without a browser, the tests are skipped with instructions. With `JP_NB_REQUIRE_BROWSER=1` they
fail.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NoReturn

import nbformat as untyped_nbformat
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, ViewportSize

nbformat: Any = untyped_nbformat

REQUIRE = "JP_NB_REQUIRE_BROWSER"
TOKEN = "only-for-tests"
PATIENCE_MS = 60_000
KERNEL_STATUS = """status => {
    const context = window.jupyterapp?.shell?.currentWidget?.sessionContext;
    return Boolean(context?.isReady) && context.kernelDisplayStatus === status;
}"""
RECORD = "window.jupyterapp.shell.currentWidget.context.model.getMetadata('jp')"
WATCH = """prompt => {
    prompt.showedThatItRuns = false;
    const look = () => { prompt.showedThatItRuns ||= prompt.textContent.includes("*"); };
    new MutationObserver(look).observe(prompt, { childList: true, subtree: true });
}"""
OPEN = (
    """path => window.jupyterapp.commands.execute("docmanager:open", { path }).then(() => null)"""
)
CLOSE = """() => {
    if (!window.jupyterapp || document.querySelector(".jp-Dialog")) return false;
    for (const widget of Array.from(window.jupyterapp.shell.widgets("main"))) widget.dispose();
    return !document.querySelector(".jp-Notebook");
}"""
REPLACE = """cells => {
    const { model } = window.jupyterapp.shell.currentWidget.content;
    const shared = model.sharedModel;
    shared.transact(() => {
        shared.deleteCellRange(1, shared.cells.length);
        shared.insertCells(1, cells.map(source => ({ cell_type: "code", source })));
    });
}"""
VIEWPORT: ViewportSize = {"width": 1000, "height": 900}
PATIENT_CONFIG = "[prompt]\nrendered_timeout_s = 60\n"
PATIENT_KERNEL = """
from jp_nb.notebook.page import page_storage
page_storage.PAGE_TIMEOUT_S = 60.0
del homes
"""
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def unavailable(reason: str) -> NoReturn:
    """Skip the test, or fail it if browser tests are required."""
    if os.environ.get(REQUIRE) == "1":
        pytest.fail(f"{reason} ({REQUIRE}=1)", pytrace=False)
    pytest.skip(f"{reason}; install Chromium and `pip install playwright` to run browser tests")


@dataclass(frozen=True, slots=True)
class Lab:
    """A running JupyterLab with notebooks in `root`."""

    url: str
    root: Path

    def write(
        self, name: str, cells: Sequence[str], kernel: str = "python3", **metadata: Any
    ) -> Path:
        """Write a notebook with code `cells` and return its path."""
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in cells],
            metadata={"kernelspec": {"name": kernel, "display_name": kernel}, **metadata},
        )
        path = self.root / name
        nbformat.write(notebook, path)
        return path

    def shut_down(self, name: str) -> None:
        """Shut down the kernel of a notebook, without waiting for a busy one."""
        for each in self._get("sessions"):
            if each["path"] == name:
                self._delete(f"sessions/{each['id']}")

    def wait_until_idle(self, name: str) -> None:
        """Wait until the kernel of a notebook is idle, also without an open page."""
        until = monotonic() + PATIENCE_MS / 1000
        while monotonic() < until:
            states = [
                each["kernel"]["execution_state"]
                for each in self._get("sessions")
                if each["path"] == name
            ]
            if states == ["idle"]:
                return
            sleep(0.1)
        raise TimeoutError(f"the kernel of {name} is {states}")

    def end_kernels(self) -> None:
        """End all kernels: a server may hang if it stops while a kernel ends."""
        for each in self._get("kernels"):  # of notebooks that got other names, say
            self._delete(f"kernels/{each['id']}")
        until = monotonic() + PATIENCE_MS / 1000
        while self._get("kernels") and monotonic() < until:
            sleep(0.1)

    def _get(self, what: str) -> Any:
        url = f"{self.url}/api/{what}?token={TOKEN}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)

    def _delete(self, what: str) -> None:
        request = urllib.request.Request(f"{self.url}/api/{what}?token={TOKEN}", method="DELETE")
        # The server ends the kernel, whether or not this waits for its answer.
        with suppress(TimeoutError, urllib.error.HTTPError):
            urllib.request.urlopen(request, timeout=0.2).close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_lab(
    home: Path, *, theme: str = "JupyterLab Light", shares: bool = False
) -> tuple[Lab, subprocess.Popen[bytes]]:
    """Start JupyterLab without settings of the user, and wait until it answers.

    Timeouts of kernels and forms are longer than for users, because a page may be slow on a busy
    machine. Automatic saving is off, because tests depend on the time of a save.

    Args:
        home: Folder for all files of the server.
        shares: True if pages of a notebook share one document, through jupyter-collaboration.
        theme: Name of the theme.
    """
    root = home / "notebooks"
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    documents = settings.with_name("docmanager-extension")
    startup = home / "ipythondir" / "profile_default" / "startup"
    for folder in (root / ".jp", settings, documents, startup):
        folder.mkdir(parents=True)
    (root / ".jp" / "config.toml").write_text(PATIENT_CONFIG)
    (startup / "patience.py").write_text(PATIENT_KERNEL)
    quiet = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    (documents / "plugin.jupyterlab-settings").write_text(json.dumps({"autosave": False}))
    (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": theme}))
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    environment = {
        **os.environ,
        **{name: str(home / name.lower()) for name in folders},
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
    }
    with (home / "lab.log").open("wb") as output:
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jupyterlab",
                "--no-browser",
                "--allow-root",
                f"--port={_free_port()}",
                "--ServerApp.ip=127.0.0.1",
                f"--IdentityProvider.token={TOKEN}",
                f"--ServerApp.root_dir={root}",
                "--LabApp.expose_app_in_browser=True",
                "--JupyterNotebookApp.expose_app_in_browser=True",
                f"--YDocExtension.disable_rtc={not shares}",
            ],
            env=environment,
            cwd=root,
            stdout=output,
            stderr=output,
        )
    running = home / "jupyter_runtime_dir" / f"jpserver-{server.pid}.json"
    until = monotonic() + 120
    while monotonic() < until and server.poll() is None:
        try:
            # Another process may have taken the free port meanwhile.
            lab = Lab(f"http://127.0.0.1:{json.loads(running.read_bytes())['port']}", root)
            urllib.request.urlopen(f"{lab.url}/api?token={TOKEN}", timeout=10).close()
        except (OSError, ValueError):
            sleep(0.2)
        else:
            return lab, server
    server.terminate()
    raise RuntimeError(f"JupyterLab did not start: {(home / 'lab.log').read_text()[-2000:]}")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab of this test session."""
    pytest.importorskip("jupyterlab")
    with running_lab(tmp_path_factory.mktemp("lab")) as started:
        yield started


@contextmanager
def running_lab(home: Path, *, shares: bool = False) -> Iterator[Lab]:
    """Run JupyterLab until the end of the block: see `start_lab`."""
    started, server = start_lab(home, shares=shares)
    try:
        yield started
    finally:
        started.end_kernels()
        server.terminate()
        try:
            server.wait(timeout=60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless Chromium with a fresh profile."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        unavailable("playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=executable, headless=True, args=CHROMIUM_FLAGS
            )
        except Error as exc:
            unavailable(f"Chromium does not start: {exc.message.splitlines()[0]}")
        yield browser
        browser.close()


def _normalize_spaces(text: str) -> str:
    return " ".join(text.split()).casefold()


def wait_for_kernel_status(page: Page, status: str) -> None:
    """Wait until a page of JupyterLab or Notebook shows this kernel status."""
    page.wait_for_function(KERNEL_STATUS, arg=status, timeout=PATIENCE_MS)


def read_whole(path: Path) -> Any:
    """Read a notebook while a server may write it: the server truncates and rewrites the file."""
    until = monotonic() + PATIENCE_MS / 1000
    before = None
    while True:
        text = path.read_bytes()
        try:
            notebook = nbformat.reads(text.decode(), as_version=4)
        except ValueError:  # not JSON, no notebook or cut within a character
            if monotonic() > until:
                raise
        else:
            if text == before or monotonic() > until:
                return notebook
        before = text
        sleep(0.05)


def run_cell(cell: Locator, keys: str = "Control+Enter") -> None:
    """Run `cell` when its last run has ended; do not wait for its end."""
    page = cell.page
    prompt = cell.locator(".jp-InputPrompt")
    until = monotonic() + PATIENCE_MS / 1000
    while "*" in (before := prompt.inner_text()) and monotonic() < until:
        page.wait_for_timeout(20)
    prompt.evaluate(WATCH)  # a cell may end with the same number before the first check
    for _ in range(10):  # a page that is still loading loses keys
        prompt.click()
        page.keyboard.press(keys)
        for _ in range(40):
            if prompt.evaluate("prompt => prompt.showedThatItRuns"):
                return
            if prompt.inner_text() != before:
                return
            page.wait_for_timeout(50)
    raise RuntimeError("the cell does not run")


class NotebookPage:
    """An open notebook in JupyterLab or Notebook."""

    def __init__(self, page: Page, path: Path, url: str, status: str = "idle") -> None:
        self.page = page
        self.path = path
        self._url = url
        self.dialogs: list[str] = []
        page.on("dialog", self._dismiss)
        self._open(status)

    def _open(self, status: str) -> None:
        if self.page.url == "about:blank":
            self.page.goto(self._url)
        else:  # JupyterLab is there already
            self.page.evaluate(OPEN, self.path.name)
        if status:
            self.wait_for_kernel_status(status)

    def is_quiet(self) -> bool:
        """Return True if the kernel is idle and no prompt is open."""
        return bool(self.page.evaluate(KERNEL_STATUS, "idle")) and not (
            self.page.locator(".jp-nb-form:visible, .jp-Dialog, .jp-Stdin-input").count()
        )

    def replace_cells(self, *cells: str) -> None:
        """Put `cells` below the first one, which stays with its kernel."""
        self.page.evaluate(REPLACE, list(cells))
        wait = "count => document.querySelectorAll('.jp-Notebook .jp-Cell').length === count"
        self.page.wait_for_function(wait, arg=1 + len(cells))

    def leave(self) -> bool:
        """Close the notebook without saving; return False if the page cannot be used again."""
        self.page.remove_listener("dialog", self._dismiss)
        self.page.set_viewport_size(VIEWPORT)
        return bool(self.page.evaluate(CLOSE))

    def _dismiss(self, dialog: Any) -> None:
        if dialog.type == "beforeunload":  # leaving a notebook that is not saved
            dialog.accept()
            return
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def cell(self, index: int) -> Locator:
        """Return cell `index`."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def outputs(self, index: int) -> Locator:
        """Return the outputs of cell `index`."""
        return self.cell(index).locator(".jp-OutputArea-output")

    def run_cell(self, index: int, keys: str = "Control+Enter") -> None:
        """Run cell `index` when its last run has ended; do not wait for its end."""
        run_cell(self.cell(index), keys)

    def output_text(self, index: int, *, contains: str = "") -> str:
        """Return the text below cell `index`, once it contains `contains`."""
        area = self.cell(index).locator(".jp-OutputArea").first
        text = area.inner_text()
        until = monotonic() + PATIENCE_MS / 1000
        while _normalize_spaces(contains) not in _normalize_spaces(text) and monotonic() < until:
            area.get_by_text(contains).first.wait_for(timeout=PATIENCE_MS)
            self.page.wait_for_timeout(20)
            text = area.inner_text()  # a page that draws its outputs anew shows none for a moment
        assert _normalize_spaces(contains) in _normalize_spaces(text), "the text is not in view"
        return text

    def form(self) -> Locator:
        """Return the form on the page, once it is visible and handles clicks and keys."""
        form = self.page.locator(".jp-nb-form[role='group']:visible").last
        form.locator(".jp-nb-actions button").first.wait_for(timeout=PATIENCE_MS)
        return form

    def command(self, name: str, *, wait: bool = True) -> None:
        """Execute a command of JupyterLab."""
        self.page.evaluate(
            "([name, wait]) => { const done = window.jupyterapp.commands.execute(name);"
            " return wait ? done.then(() => null) : null; }",
            [name, wait],
        )

    def save(self) -> None:
        """Save the notebook."""
        self.command("docmanager:save")

    def interrupt(self) -> None:
        """Interrupt the kernel."""
        self.command("notebook:interrupt-kernel")

    def restart_kernel(self) -> None:
        """Restart the kernel and wait until it is idle."""
        self.page.evaluate(
            "() => { window.restarted = false;"
            " window.jupyterapp.commands.execute('notebook:restart-kernel')"
            ".then(() => { window.restarted = true; }); }"
        )
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self.page.wait_for_function("window.restarted")
        self.wait_for_kernel_status("idle")

    def reopen(self, *, status: str = "idle") -> None:
        """Close the notebook without saving it, and open it again from its file.

        The document and its connection to the kernel are new, as after `reload`. JupyterLab
        itself stays loaded, so this takes a fraction of the time.
        """
        assert self.page.evaluate(CLOSE), "the notebook does not close"
        self._open("")
        self.cell(0).wait_for(timeout=PATIENCE_MS)
        if status:
            self.wait_for_kernel_status(status)

    def reload(self, *, status: str = "idle") -> None:
        """Load JupyterLab and the notebook again; a busy kernel stays busy."""
        self.page.goto("about:blank")
        self.page.goto(self._url)
        self.cell(0).wait_for(timeout=PATIENCE_MS)
        if status:
            self.wait_for_kernel_status(status)

    def wait_for_kernel_status(self, status: str) -> None:
        """Wait until JupyterLab shows that the kernel is `idle` or `busy`."""
        wait_for_kernel_status(self.page, status)

    def wait_for_record(self, condition: str) -> None:
        """Wait until the page's notebook has a `record` that fulfills `condition`.

        The record arrives shortly after the output of a cell, even after the end of the cell.
        """
        self.page.wait_for_function(
            f"() => {{ const record = {RECORD}; return Boolean(record && ({condition})); }}"
        )

    def saved(self) -> Any:
        """Return the notebook on the disk, once the server has written it completely."""
        return read_whole(self.path)

    def screenshot(self, path: Path, of: Locator | None = None) -> None:
        """Take a screenshot of the page, or of a part of it."""
        (of or self.page).screenshot(path=path)


OpenNotebook = Callable[..., NotebookPage]
_NUMBERS = count(1)


class Pages:
    """Pages of one browser context, which share its cache of JupyterLab's files.

    A page with JupyterLab is used again, because loading takes seconds.
    """

    def __init__(self, browser: Browser) -> None:
        self._context = browser.new_context(viewport=VIEWPORT)
        self._context.set_default_timeout(PATIENCE_MS)
        self._loaded: Page | None = None
        self._taken: set[Page] = set()

    def take(self, *, fresh: bool) -> Page:
        """Return the page with JupyterLab, or a new one."""
        if not fresh and self._loaded is not None:
            page = self._loaded
            self._loaded = None
        else:
            page = self._context.new_page()
        self._taken.add(page)
        return page

    def give_back(self, opened: NotebookPage, *, again: bool) -> None:
        """Keep the page of `opened` if it can be used `again`; otherwise close it.

        Tabs that a test opened are closed too.
        """
        page = opened.page
        self._taken.discard(page)
        if again and self._loaded is None and not page.is_closed() and opened.leave():
            self._loaded = page
        else:
            page.close()
        for tab in set(self._context.pages) - self._taken - {self._loaded}:
            tab.close()


@pytest.fixture(scope="session")
def pages(chromium: Browser) -> Pages:
    """The pages of this test session."""
    return Pages(chromium)


class Notebooks:
    """Notebooks of one or several tests, open until `close`."""

    def __init__(self, lab: Lab, pages: Pages, name: str) -> None:
        self._lab = lab
        self._pages = pages
        self._name = name
        self._opened: list[tuple[NotebookPage, bool]] = []

    def open(
        self,
        *cells: str,
        kernel: str = "python3",
        classic: bool = False,
        fresh: bool = False,
        **metadata: Any,
    ) -> NotebookPage:
        """Open a notebook with the given cells and `metadata`.

        With `classic`, it opens in Notebook instead of JupyterLab. With `fresh`, it opens in a new
        page that is not used again, for tests of pages.
        """
        path = self._lab.write(f"{self._name}-{next(_NUMBERS)}.ipynb", cells, kernel, **metadata)
        return self.open_file(path, classic=classic, fresh=fresh)

    def open_file(self, path: Path, *, classic: bool = False, fresh: bool = False) -> NotebookPage:
        """Open a notebook that exists in the lab's folder: see `open`."""
        place = "notebooks" if classic else f"lab/workspaces/{path.stem}/tree"
        url = f"{self._lab.url}/{place}/{path.name}?token={TOKEN}{'' if classic else '&reset'}"
        alone = classic or fresh
        page = NotebookPage(self._pages.take(fresh=alone), path, url)
        self._opened.append((page, not alone))
        return page

    def close(self) -> None:
        """Close the notebooks and shut down their kernels."""
        for each, again in self._opened:
            self._pages.give_back(each, again=again)
            self._lab.shut_down(each.path.name)
        self._opened.clear()


@pytest.fixture
def open_notebook(lab: Lab, pages: Pages, request: pytest.FixtureRequest) -> Iterator[OpenNotebook]:
    """Return a function that opens a notebook until the end of the test: see `Notebooks.open`."""
    notebooks = Notebooks(lab, pages, request.node.name.partition("[")[0])
    yield notebooks.open
    notebooks.close()
