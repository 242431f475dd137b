"""The lab extension as it is installed, and its merging rules in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jp_nb
from jp_nb.record import carrier

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(jp_nb.__file__).parent / "labextension"
PACKAGE = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
SCRIPT = ROOT / PACKAGE["jupyterlab"]["_build"]["load"]
CASES = json.loads(
    (Path(__file__).parents[1] / "record" / "merge_cases.json").read_text(encoding="utf-8")
)


def test_the_version_is_in_the_name_of_the_script() -> None:
    assert PACKAGE["version"] == jp_nb.__version__
    assert SCRIPT.name == f"jp-nb-{jp_nb.__version__}.js"
    assert [path.name for path in SCRIPT.parent.iterdir()] == [SCRIPT.name]


def test_it_is_declared_to_be_installed_with_pip() -> None:
    assert json.loads((ROOT / "install.json").read_text(encoding="utf-8")) == {
        "packageManager": "python",
        "packageName": "jp-nb",
        "uninstallInstructions": "pip uninstall jp-nb",
    }


@pytest.mark.browser
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_merging_is_the_same_in_the_page(chromium: Browser, case: dict[str, Any]) -> None:
    page = chromium.new_page()
    page.add_script_tag(path=SCRIPT)
    merged = page.evaluate(
        """async text => {
            const { merge } = (await window._JUPYTERLAB["jp-nb"].get("./extension"))();
            const { stored, carried, seen } = JSON.parse(text);
            return JSON.stringify(merge(stored, carried, seen));
        }""",
        json.dumps({k: v for k, v in case.items() if k not in ("name", "merged")}),
    )
    page.close()
    assert json.loads(merged) == case["merged"]


HEAD = {"version": 1, "conversation": {"id": "jp-c1"}}
ONE, TWO = ({"type": "turn_start", "event_id": str(i)} for i in range(2))


@pytest.mark.browser
@pytest.mark.parametrize(
    "state",
    [
        {"jp": HEAD, "events.0": [ONE], "events.1": [TWO], "length": 2},
        {"jp": HEAD, "events.0": [ONE]},
        {"jp": HEAD, "events.0": [ONE], "length": 2},
        {"jp": HEAD, "events.0": [ONE], "length": None},
        {"jp": HEAD, "events.1": [TWO]},
    ],
)
def test_carriers_are_read_the_same_in_the_page(chromium: Browser, state: dict[str, Any]) -> None:
    model = {"model_name": "RecordModel", "model_module": carrier.MODULE, "state": state}
    widgets = {carrier.WIDGET_STATE: {"state": {"mine": model}}}
    page = chromium.new_page()
    page.add_script_tag(path=SCRIPT)
    found = page.evaluate(
        """async widgets => {
            const { carriersIn } = (await window._JUPYTERLAB["jp-nb"].get("./extension"))();
            return carriersIn(widgets).map(({ doc }) => doc);
        }""",
        widgets,
    )
    page.close()
    read = carrier.read({carrier.WIDGETS: widgets})
    assert found == ([] if read is None else [read])
