"""The lab extension: its package, and its rules about records, run in a bare page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jp_nb
from tests.kit.notebook_record import NotebookRecord

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

ROOT = Path(jp_nb.__file__).parent / "labextension"
PROJECT = Path(__file__).parents[2] / "js"
PACKAGE = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
BUILD = PACKAGE["jupyterlab"]["_build"]
CASES = json.loads(
    (Path(__file__).parents[1] / "record" / "merge_cases.json").read_text(encoding="utf-8")
)


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


MERGES = """async text => {
    const { merge } = window.extension;
    return JSON.stringify(JSON.parse(text).map(
        ({ stored, carried, seen }) => merge(stored, carried, seen)));
}"""


def test_records_are_merged_in_the_page_as_in_python(script_page: Page) -> None:
    merged = json.loads(script_page.evaluate(MERGES, json.dumps(CASES)))
    assert {case["name"]: found for case, found in zip(CASES, merged, strict=True)} == {
        case["name"]: case["merged"] for case in CASES
    }


HEAD = {"version": 1, "conversation": {"id": "jp-c1"}}
ONE, TWO = ({"type": "turn_start", "event_id": str(i)} for i in range(2))
STATES: list[dict[str, Any]] = [
    {"jp": HEAD, "events.0": [ONE], "events.1": [TWO], "length": 2},
    {"jp": HEAD, "events.0": [ONE]},
    {"jp": HEAD, "events.0": [ONE], "length": 2},
    {"jp": HEAD, "events.0": [ONE], "length": None},
    {"jp": HEAD, "events.1": [TWO]},
]
CARRIERS = """async widgets => {
    const { carriersIn } = window.extension;
    return carriersIn(widgets).map(({ doc }) => doc);
}"""


def test_record_in_a_widget_is_read_in_the_page_as_in_python(script_page: Page) -> None:
    for state in STATES:
        model = {"model_name": "RecordModel", "model_module": "jp-nb", "state": state}
        widgets = {"application/vnd.jupyter.widget-state+json": {"state": {"mine": model}}}
        read = NotebookRecord.read_metadata({"widgets": widgets})
        found = script_page.evaluate(CARRIERS, widgets)
        assert found == ([] if read is None else [read]), state


IN_SEGMENTS = """async text => {
    const { sealed, unsealed } = window.extension;
    const [before, now] = JSON.parse(text);
    const foreign = { "jp.2": "of another program", "jp.9999999": {} };
    const taken = new Set(Object.keys(foreign));
    const first = sealed(before, new Map(), false, taken);
    const metadata = { ...foreign, ...first.added, jp: first.rest };
    const { rest, added } = sealed(now, first.seals, false, taken);
    const after = { ...metadata, ...added, jp: rest };
    return JSON.stringify([metadata, after, unsealed(after), Object.keys(added)]);
}"""


UNSEALED = """async metadata =>
    window.extension.unsealed(metadata)"""


def _record(count: int, **more: Any) -> dict[str, Any]:
    odd: dict[str, Any] = {
        "numbers": [0, -0.0, 3, 3.5, -1e-5, 0.0001, 123456789012345680, 1e16, 1e21, 5e-324, 2**53],
        "texts": ["é", "𝄞", "\ue000", '\x7f\x00\n"\\', "\ud800", "\u2028"],
        "𝄞": 1,
        "\uffff": {"b": True, "a": None, "": []},
    }
    events = [
        {
            "type": "chat_response",
            "timestamp": f"t{i}",
            "event_id": str(i),
            "data": odd,
            "x": "y" * 9000,
        }
        for i in range(count)
    ]
    return {
        "version": 1,
        "conversation": {"id": "jp-c1"},
        "base_config": {},
        "events": events,
        **more,
    }


def test_segments_that_a_page_wrote_are_read_in_python(script_page: Page) -> None:
    shelf = {"conversation": {"id": "jp-c0"}, "base_config": {}, "events": [ONE, TWO]}
    sealed: dict[str, Any] = {"conversation": {"id": "jp-c9"}, "base_config": {}, "events": []}
    sealed |= {"sealed": [None]}
    stored: dict[str, Any] = {**HEAD, "version": 2, "base_config": {}, "events": [], "sealed": []}
    damaged: Any = script_page.evaluate(UNSEALED, {"jp": stored | {"others": [sealed]}})
    assert damaged == NotebookRecord.read_metadata({"jp": stored | {"others": [sealed]}})
    (broken,) = damaged["others"]
    assert broken["segments"] == {"jp": sealed}
    before = _record(20)
    now = _record(30, others=[shelf, broken, {"damaged": True}])
    written = script_page.evaluate(IN_SEGMENTS, json.dumps([before, now]))
    metadata, after, read, added = json.loads(written)
    as_javascript = json.loads(json.dumps(now).replace("-0.0", "0"))
    assert NotebookRecord.read_metadata(after) == read == as_javascript
    assert NotebookRecord.read_metadata(metadata)["events"] == as_javascript["events"][:20]
    assert {"jp.1", "jp.3"} <= metadata.keys()
    assert after["jp.2"] == "of another program"
    assert all(re.fullmatch("jp[.][1-9][0-9]*", key) for key in added)
    assert "jp.1" not in added  # it is written once
    assert after["jp"]["others"][0]["events"] == []
    assert len(json.dumps(after["jp"])) < 64 * 1024 + 10_000
    del after["jp.3"]["events"][0]["data"]["texts"]
    assert "broken" in NotebookRecord.read_metadata(after)
