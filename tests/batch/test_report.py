"""The report of a batch, as JSON, JUnit XML, and one page without network access."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.batch.log_lines import (
    asked_permission,
    asked_question,
    ended_run,
    waiting_run,
    write_log,
)
from tests.kit.batch_folders import BatchFolder

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e&"
FAILED: dict[str, Any] = {
    "failed_cells": [{"cell": "c", "index": 2, "error": "KeyError: 'population'"}]
}
TO = asked_question("publish", "to", "To whom?")


def make_batch(folder: Path) -> Path:
    """Write a log with a run of each outcome."""
    tokens: dict[str, Any] = {
        "tokens": {"input": 1200, "output": 30},
        "requests": 2,
        "seconds": 2.5,
    }
    unfinished = ended_run("cut", notebook="talk.ipynb")[:1]
    return write_log(
        folder,
        [
            ended_run("ok", parameters={"city": "Delft", "n": 3}, **tokens),
            ended_run("bad", "failed", **FAILED),
            waiting_run("asks", TO, asked_permission("pay", {"amount": 5})),
            ended_run("late", "interrupted", notebook="talk.ipynb"),
            unfinished,
        ],
    )


@pytest.mark.req("BATCH-4")
def test_json_report_has_a_row_for_each_run_and_the_sums(tmp_path: Path) -> None:
    BatchFolder(make_batch(tmp_path)).write_reports()
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))

    assert report["totals"] == {
        "runs": 5,
        "outcomes": {"failed": 1, "interrupted": 1, "passed": 1, "unknown": 1, "waiting": 1},
        "seconds": 2.5,
        "requests": 2,
        "tokens": {"input": 1200, "output": 30},
    }
    rows = {row["run"]: row for row in report["runs"]}
    assert rows["ok"]["parameters"] == {"city": "Delft", "n": 3}
    assert rows["bad"]["failed_cells"][0]["error"] == "KeyError: 'population'"
    assert rows["asks"]["open_decisions"] == [
        "to of publish: To whom?",
        'permission to run pay with {"amount":5}',
    ]


@pytest.mark.req("BATCH-4", "INBOX-7")
@pytest.mark.parametrize(("strict", "ends"), [(False, "skipped"), (True, "failure")])
def test_junit_has_a_suite_for_each_notebook_and_a_case_for_each_run(
    tmp_path: Path, strict: bool, ends: str
) -> None:
    root = ElementTree.fromstring(BatchFolder(make_batch(tmp_path)).junit(strict=strict))
    suites = {suite.get("name"): suite for suite in root}
    assert {name: suite.get("tests") for name, suite in suites.items()} == {
        "walk.ipynb": "3",
        "talk.ipynb": "2",
    }
    cases = {case.get("name"): case for case in root.iter("testcase")}
    failure = cases["bad"].find("failure")
    assert failure is not None
    assert failure.get("message") == "cell 3: KeyError: 'population'"
    assert cases["asks"].find(ends) is not None
    assert cases["cut"].find("error") is not None
    assert len(cases["ok"].findall("failure")) == 0
    assert (root.get("failures"), root.get("errors")) == ("2" if strict else "1", "2")


@pytest.mark.req("INBOX-7")
def test_failed_cell_of_a_run_that_waits_is_in_each_report(tmp_path: Path) -> None:
    write_log(tmp_path, [waiting_run("asks", TO, **FAILED)])
    BatchFolder(tmp_path).write_reports()
    [run] = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["runs"]
    assert (run["outcome"], run["failed_cells"]) == (
        "waiting",
        [{"cell": "c", "index": 2, "error": "KeyError: 'population'"}],
    )

    root = ElementTree.fromstring(BatchFolder(tmp_path).junit())
    [skipped] = root.iter("skipped")
    assert skipped.get("message") == (
        "a decision needs the user; cell 3: KeyError: 'population'; "
        "open decision: to of publish: To whom?"
    )


def hostile_batch(folder: Path) -> Path:
    """Write a log whose every text tries to leave its place."""
    error: dict[str, Any] = {"failed_cells": [{"cell": HOSTILE, "index": 0, "error": HOSTILE}]}
    question = asked_question(HOSTILE, HOSTILE, HOSTILE)
    parameters = {"__class__": HOSTILE, HOSTILE: "=cmd()"}
    return write_log(
        folder,
        [
            ended_run(HOSTILE, "failed", notebook=HOSTILE, parameters=parameters, **error),
            waiting_run(f"{HOSTILE}2", question, notebook="javascript:alert(1)//x.ipynb"),
        ],
    )


@pytest.mark.req("BATCH-33")
def test_hostile_texts_are_data_in_each_report(tmp_path: Path) -> None:
    page = BatchFolder(hostile_batch(tmp_path)).write_reports()
    xml = BatchFolder(tmp_path).junit()
    report = (tmp_path / "report.json").read_text(encoding="utf-8")

    assert "onerror" not in page  # the rows are compressed, and no text is outside of them
    root = ElementTree.fromstring(xml)
    assert len(list(root.iter("testcase"))) == 2
    for text in (xml, report):
        assert "\x1b" not in text
        assert "\u202e" not in text


@pytest.mark.req("BATCH-13")
def test_page_allows_only_its_own_script(tmp_path: Path) -> None:
    page = BatchFolder(make_batch(tmp_path)).write_reports()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"
    )
    assert not re.search(r"""(src|href)=["']""", page)


@pytest.mark.req("BATCH-13")
def test_report_of_many_runs_is_small(tmp_path: Path) -> None:
    number = 20_000
    runs = [
        ended_run(f"walk-seed={n}-1f3a9c", parameters={"seed": n}, seconds=n % 97 / 7, requests=3)
        for n in range(number)
    ]
    page = BatchFolder(write_log(tmp_path, runs)).write_reports()
    assert len(page) < 20_000_000 * number / 100_000


@pytest.mark.browser
@pytest.mark.req("BATCH-13", "BATCH-33")
def test_page_shows_filters_and_sorts_the_runs(chromium: Any, tmp_path: Path) -> None:
    make_batch(tmp_path)
    BatchFolder(tmp_path).write_reports()
    page = chromium.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    names = page.locator("#rows td.name")
    names.first.wait_for()
    assert names.all_inner_texts() == ["bad", "asks", "cut", "late", "ok"]
    assert page.locator("tr.more:visible").all_inner_texts() == ["Cell 3: KeyError: 'population'"]

    page.get_by_role("button", name="Tokens", exact=True).click()
    assert names.all_inner_texts()[0] == "ok"

    page.get_by_label("Filter Tokens").fill(">1000")
    assert names.all_inner_texts() == ["ok"]
    assert page.locator("#shown").inner_text() == "1 of 5 runs"
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_label("Search in all columns").fill("population")
    assert names.all_inner_texts() == ["bad"]
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_role("button", name="waiting").click()
    assert names.all_inner_texts() == ["asks"]
    assert page.locator("td.name a").get_attribute("href") == "./asks.ipynb"
    page.close()


@pytest.mark.browser
@pytest.mark.req("BATCH-13")
def test_page_has_columns_for_what_differs_and_names_equal_values_once(
    chromium: Any, tmp_path: Path
) -> None:
    long = "a sentence without much sense, and longer than a cell"
    runs = [
        ended_run(f"r{number}", parameters={"city": city, "hours": 2, "text": long}, seconds=119.7)
        for number, city in enumerate(("Delft", "Gent"))
    ]
    write_log(tmp_path, runs)
    BatchFolder(tmp_path).write_reports()
    page = chromium.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    page.locator("#rows td.name").first.wait_for()
    heads = page.locator("#head th button").all_inner_texts()
    assert heads[:4] == ["Run", "Outcome", "city", "Duration"]
    assert page.locator("#shared").inner_text() == f"In all runs: hours = 2 · text = {long}"
    assert page.locator("#rows td.value").all_inner_texts() == ["Delft", "Gent"]
    assert page.locator("#rows td.number").first.inner_text() == "2 min 0 s"
    page.close()


def open_report(chromium: Any, folder: Path, **options: Any) -> Any:
    """Open the report of `folder` in a page with these options, and wait for its rows."""
    page = chromium.new_page(**options)
    page.goto((folder / "report.html").as_uri())
    page.locator("#rows td.name").first.wait_for()
    return page


BRIGHTNESS = """
(property) => {
  const color = getComputedStyle(document.body)[property];
  const [red, green, blue] = color.match(/[0-9.]+/g).map(Number);
  return (red + green + blue) / 3;
}
"""


@pytest.mark.browser
@pytest.mark.req("BATCH-13")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_readable_with_charts_in_light_and_dark(
    chromium: Any, tmp_path: Path, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    BatchFolder(make_batch(tmp_path)).write_reports()
    page = open_report(chromium, tmp_path, color_scheme=scheme)
    page_brightness = page.evaluate(BRIGHTNESS, "backgroundColor")
    text_brightness = page.evaluate(BRIGHTNESS, "color")
    assert (page_brightness < 60) is (scheme == "dark")
    assert (text_brightness > 200) is (scheme == "dark")

    labels = page.locator("figure svg").evaluate_all(
        "charts => charts.map(chart => chart.getAttribute('aria-label'))"
    )
    assert labels == [
        "Duration of runs: 2.5 s to 2.5 s, median 2.5 s",
        "Tokens of runs: 1,230 to 1,230, median 1,230",
    ]

    found = Axe().run(page).response
    assert "color-contrast" in {each["id"] for each in found["passes"]}
    assert [each["id"] for each in found["violations"]] == []
    page.close()


@pytest.mark.browser
@pytest.mark.req("BATCH-13")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_printed_page_has_all_rows_in_dark_text_and_no_buttons(
    chromium: Any, tmp_path: Path, scheme: str
) -> None:
    write_log(tmp_path, [ended_run(f"r{number}") for number in range(150)])
    BatchFolder(tmp_path).write_reports()
    page = open_report(chromium, tmp_path, color_scheme=scheme)
    names = page.locator("#rows td.name")
    assert names.count() == 100, "the first page"

    page.evaluate(
        "addEventListener('beforeprint', () => {"
        " window.printed = document.querySelectorAll('#rows td.name').length })"
    )
    page.pdf()
    assert page.evaluate("window.printed") == 150
    assert names.count() == 100

    page.emulate_media(media="print", color_scheme=scheme)
    assert page.evaluate(BRIGHTNESS, "color") < 60
    assert page.evaluate(BRIGHTNESS, "backgroundColor") > 200
    for selector in (".bar", "thead input"):
        assert not page.locator(selector).first.is_visible()
    assert names.first.is_visible()
    assert page.locator(".scroll").evaluate("each => getComputedStyle(each).overflowX") == "visible"
    page.close()


@pytest.mark.browser
@pytest.mark.req("INBOX-7")
def test_page_shows_the_failed_cell_of_a_run_that_waits(chromium: Any, tmp_path: Path) -> None:
    write_log(tmp_path, [ended_run("ok"), waiting_run("asks", TO, **FAILED)])
    BatchFolder(tmp_path).write_reports()
    page = open_report(chromium, tmp_path)
    outcomes = page.locator("#rows td.outcome").all_inner_texts()
    assert [text.replace("▾", "").strip() for text in outcomes] == [
        "waiting, a cell failed",
        "passed",
    ]
    [details] = page.locator("tr.more:visible").all_inner_texts()
    assert details.splitlines() == [
        "Cell 3: KeyError: 'population'",
        "Open decision: to of publish: To whom?",
    ]
    page.close()


@pytest.mark.browser
@pytest.mark.req("BATCH-33")
def test_hostile_texts_run_no_code_in_the_page(chromium: Any, tmp_path: Path) -> None:
    BatchFolder(hostile_batch(tmp_path)).write_reports()
    page = chromium.new_page()
    dialogs: list[Any] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog))
    page.goto((tmp_path / "report.html").as_uri())
    page.locator("#rows td.name").first.wait_for()
    assert page.locator("img").count() == 0
    links = page.locator("td.name a").evaluate_all("each => each.map(one => one.protocol)")
    assert links == ["file:", "file:"]
    assert dialogs == []
    page.close()
