"""The report of a run as JUnit's XML, which CI systems show.

Source: https://github.com/testmoapp/junitxml, `docs/ci.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from jp_nb.headless.report_lines import facts, turn_lines, undecided_lines, went_wrong
from jp_nb.headless.run_report import ReportedCell, RunReport
from jp_nb.headless.shown_text import shown_text
from jp_nb.safe_text import plain

_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def junit_xml(reports: Iterable[RunReport]) -> bytes:
    """Return the reports as one document in UTF-8: a suite for each, a test case for each cell."""
    root = Element("testsuites", name="jp-nb")
    for report in reports:
        _add_suite(root, report)
    for name in ("tests", "failures", "errors"):  # some schemas know no more here
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    indent(root)
    text: str = tostring(root, encoding="unicode")
    return f"<?xml version='1.0' encoding='utf-8'?>\n{text}\n".encode()


def _add_suite(root: Element, report: RunReport) -> None:
    suite = SubElement(root, "testsuite", name=_clean(report.notebook))
    properties = SubElement(suite, "properties")
    for name, value in facts(report):
        SubElement(properties, "property", name=_clean(name), value=_clean(value))
    for cell in report.cells:
        _add_case(suite, report.notebook, cell)
    if lost := _lost(report):
        case = SubElement(suite, "testcase", classname=_clean(report.notebook), name="the run")
        SubElement(case, "error", message=_clean(lost))
    if open_ := undecided_lines(report):
        SubElement(suite, "system-out").text = _clean("\n".join(open_))
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for plural, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(plural, str(sum(case.find(kind) is not None for case in cases)))
    suite.set("time", f"{report.seconds:.3f}")


def _add_case(suite: Element, notebook: str, cell: ReportedCell) -> None:
    case = SubElement(
        suite,
        "testcase",
        classname=_clean(notebook),
        name=_clean(f"cell {cell.number + 1}: {cell.source}"),
        time=f"{cell.seconds:.3f}",
    )
    if cell.status == "failed":
        failure = SubElement(case, "failure", message=_clean(cell.error))
        failure.text = _clean("\n".join([*went_wrong(cell), cell.traceback or cell.error]))
    elif cell.status == "not run":
        SubElement(case, "skipped", message="this cell was not run")
    if cell.turns:
        said = SubElement(case, "system-out")
        said.text = _clean("\n".join(line for turn in cell.turns for line in turn_lines(turn)))


def _lost(report: RunReport) -> str:
    """Return what went wrong besides cells; "" if nothing did."""
    failure = report.failure
    if failure is not None and not any(cell.status == "failed" for cell in report.cells):
        return shown_text(f"{failure.name}: {failure.message}")
    return report.record_error


def _clean(text: str) -> str:
    """Return `text` without what XML has no place for, and what a terminal would obey."""
    return _NOT_XML.sub("\ufffd", plain(text))
