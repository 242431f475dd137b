"""The lab extension as it is installed, and its merging rules in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jp_nb
from jp_nb.record import carrier, segments

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


IN_SEGMENTS = """async text => {
    const { sealed, unsealed } = (await window._JUPYTERLAB["jp-nb"].get("./extension"))();
    const [before, now] = JSON.parse(text);
    const foreign = { "jp.2": "of a stranger", "jp.9999999": {} };
    const taken = new Set(Object.keys(foreign));
    const first = sealed(before, new Map(), false, taken);
    const metadata = { ...foreign, ...first.added, jp: first.rest };
    const { rest, added } = sealed(now, first.seals, false, taken);
    const after = { ...metadata, ...added, jp: rest };
    return JSON.stringify([metadata, after, unsealed(after), Object.keys(added)]);
}"""


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


@pytest.mark.browser
def test_segments_that_a_page_wrote_are_read_the_same_everywhere(chromium: Browser) -> None:
    shelf = {"conversation": {"id": "jp-c0"}, "base_config": {}, "events": [ONE, TWO]}
    before, now = _record(20), _record(30, others=[shelf, {"damaged": True}])
    page = chromium.new_page()
    page.add_script_tag(path=SCRIPT)
    metadata, after, read, added = json.loads(page.evaluate(IN_SEGMENTS, json.dumps([before, now])))
    page.close()
    as_javascript = json.loads(json.dumps(now).replace("-0.0", "0"))
    assert segments.read(after) == read == as_javascript
    assert segments.read(metadata)["events"] == as_javascript["events"][:20]  # type: ignore[call-overload, index]
    assert {"jp.1", "jp.3"} <= metadata.keys()
    assert after["jp.2"] == "of a stranger"
    assert all(segments.is_segment(key) for key in added)
    assert "jp.1" not in added  # it is written once
    assert after["jp"]["others"][0]["events"] == []
    assert len(json.dumps(after["jp"])) < 64 * 1024 + 10_000
    del after["jp.3"]["events"][0]["data"]["texts"]
    assert "broken" in segments.read(after)  # type: ignore[operator]
