"""The lab extension: its package, and values that pass through a bare page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jp_nb
from tests.kit.notebook_record import NotebookRecord
from tests.kit.renderings import render

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

ROOT = Path(jp_nb.__file__).parent / "labextension"
PROJECT = Path(__file__).parents[2] / "js"
PACKAGE = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
BUILD = PACKAGE["jupyterlab"]["_build"]


def test_package_has_the_version_of_the_program_and_files_are_named_by_their_content() -> None:
    assert PACKAGE["version"] == jp_nb.__version__
    assert BUILD["extension"] == "./extension"
    names = [path.name for path in (ROOT / "static").iterdir()]
    assert not [name for name in names if jp_nb.__version__ in name]
    hashed = {name for name in names if re.fullmatch(r"\w+[.][0-9a-f]{16}[.]js([.]map)?", name)}
    assert set(names) - hashed == {"style.js", "third-party-licenses.json"}
    assert {name for name in hashed if name.endswith(".js")} == {
        name.removesuffix(".map") for name in hashed if name.endswith(".map")
    }


def test_built_files_are_made_of_the_present_sources() -> None:
    found: dict[str, str] = {}
    for path in (ROOT / "static").glob("*.map"):
        source_map = json.loads(path.read_text(encoding="utf-8"))
        found |= dict(zip(source_map["sources"], source_map["sourcesContent"], strict=True))

    built = {name.rpartition("/")[2]: text for name, text in found.items() if "/./src/" in name}
    assert "bridge.ts" in built
    for name, text in built.items():
        (source,) = (PROJECT / "src").rglob(name)
        assert text == source.read_text(encoding="utf-8"), f"run `npm run build` in js/: {name}"

    package = json.loads((PROJECT / "package.json").read_text(encoding="utf-8"))
    package["jupyterlab"]["_build"] = BUILD
    assert package == PACKAGE, "run `npm run build` in js/"


def test_page_and_kernel_warn_of_the_same_characters() -> None:
    cases = json.loads((PROJECT / "tests" / "hidden_characters.json").read_text(encoding="utf-8"))
    assert len(cases) > 20
    for case in cases:  # `page.test.ts` tries them in the page's language
        assert render("suspect_lines", case["code"]) == case["lines"], case


def test_committed_lock_file_names_no_registry() -> None:
    lock = (PROJECT / "package-lock.json").read_text(encoding="utf-8")
    assert '"integrity"' in lock
    assert '"resolved"' not in lock
    assert "http://" not in lock
    assert "npmjs.org" not in lock


def test_python_package_names_the_folder_that_jupyter_labextension_develop_links() -> None:
    (paths,) = jp_nb._jupyter_labextension_paths()
    assert (Path(jp_nb.__file__).parent / paths["src"] / BUILD["load"]).is_file()
    assert paths["dest"] == PACKAGE["name"]


def test_it_is_declared_to_be_installed_with_pip() -> None:
    assert json.loads((PROJECT / "install.json").read_text(encoding="utf-8")) == {
        "packageManager": "python",
        "packageName": "jp-nb",
        "uninstallInstructions": "pip uninstall jp-nb",
    }


HOST = "http://lab.invalid"
# As JupyterLab does it, with a package of its own.
START = """async packages => {
    // Classes and tokens of JupyterLab, which the modules name when they are loaded.
    const made = {};
    const shared = new Proxy(made, {
        get: (_, name) => name === "__esModule" || (made[name] ??= class {}),
    });
    const share = { get: async () => () => shared, from: "lab", eager: true, loaded: 1 };
    const scope = Object.fromEntries(packages.map(name => [name, { "99.0.0": share }]));
    const container = window._JUPYTERLAB["jp-nb"];
    await container.init(scope);
    window.extension = (await container.get("./extension"))();
    window.isNotebookTracker = token => token === made.INotebookTracker;
}"""


def _answer_request(route: Route) -> None:
    file = ROOT / route.request.url.removeprefix(f"{HOST}/").partition("?")[0]
    if file.is_file():
        route.fulfill(path=file)
    else:
        route.fulfill(body="<!doctype html><meta charset=utf-8>", content_type="text/html")


@pytest.fixture(scope="module")
def script_page(chromium: Browser) -> Iterator[Page]:
    """A bare page with the built extension."""
    page = chromium.new_page()
    page.route(f"{HOST}/**", _answer_request)
    page.goto(HOST)
    page.add_script_tag(url=f"{HOST}/{BUILD['load']}")
    page.evaluate(START, list(PACKAGE["dependencies"]))
    yield page
    page.close()


def test_plugin_asks_for_the_notebooks_of_the_page(script_page: Page) -> None:
    plugin = """window.extension.default.map(({ id, autoStart, requires }) =>
        ({ id, autoStart, needsNotebooks: requires?.some(window.isNotebookTracker) ?? false }))"""
    document, *aids = script_page.evaluate(plugin)
    assert document == {"id": "jp-nb:document", "autoStart": True, "needsNotebooks": True}
    assert {aid["id"] for aid in aids} == {
        "jp-nb:page",
        "jp-nb:answers",
        "jp-nb:prose",
        "jp-nb:errors",
        "jp-nb:conversations",
    }


# What a page does with a message: it reads the values, and writes them again.
THROUGH_THE_PAGE = "text => JSON.stringify(JSON.parse(text))"
ODD: dict[str, Any] = {
    "numbers": [0, -0.0, 3, 3.5, -1e-5, 0.0001, 123456789012345680, 1e16, 1e21, 5e-324, 2**60 + 1],
    "nan": float("nan"),
    "texts": ["é", "𝄞", "\ue000", '\x7f\x00\n"\\', "\ud800", "\u2028"],
    "𝄞": 1,
    "\uffff": {"b": True, "a": None, "": []},
}


def make_record(count: int, **more: Any) -> dict[str, Any]:
    """Return a record with `count` entries that have odd values."""
    entry = {"type": "chat_response", "timestamp": "t", "data": ODD, "x": "y" * 9000}
    events = [{**entry, "event_id": str(number)} for number in range(count)]
    return {"version": 1, "conversation": {"id": "jp-c1"}, "events": events, **more}


def test_segments_that_passed_through_a_page_fit_their_checksums(script_page: Page) -> None:
    def through(metadata: dict[str, Any]) -> Any:
        return json.loads(script_page.evaluate(THROUGH_THE_PAGE, json.dumps(metadata)))

    first = through(NotebookRecord.write_segments({"jp.2": "foreign"}, make_record(20)))
    shelf = {"conversation": {"id": "jp-c0"}, "base_config": {}, "events": [{"type": "turn_start"}]}
    after = through(NotebookRecord.write_segments(first, make_record(30, others=[shelf])))

    read: Any = NotebookRecord.read_metadata(after)
    assert [event["event_id"] for event in read["events"]] == [str(n) for n in range(30)]
    assert read["events"][-1]["data"]["texts"] == [*ODD["texts"][:4], "\ufffd", "\u2028"]
    assert read["others"] == [shelf]
    assert {"jp.1", "jp.3"} <= first.keys()
    assert {key: after[key] for key in first if key != "jp"} == {
        key: value for key, value in first.items() if key != "jp"
    }
    del after["jp.3"]["events"][0]["data"]["texts"]
    assert "broken" in NotebookRecord.read_metadata(after)
