"""Write reports of headless runs as JUnit XML.

Source: `docs/ci.md`, https://github.com/testmoapp/junitxml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from jp_nb.headless.run_reports.report_lines import (
    format_cell_errors,
    format_open_decisions,
    format_turn,
    list_counts,
)
from jp_nb.headless.run_reports.run_report import ReportedCell, RunReport
from jp_nb.headless.terminal_text import format_text
from jp_nb.text import plain

# XML 1.0 has no such characters, not even escaped.
_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def format_junit(reports: Iterable[RunReport]) -> bytes:
    """Return JUnit XML in UTF-8: a suite for each report, and a test case for each cell."""
    root = Element("testsuites", name="jp-nb")
    for report in reports:
        _add_suite(root, report)

    return encode_junit(root)


def encode_junit(root: Element) -> bytes:
    """Return the document in UTF-8, with the counts of its suites, and without invalid characters.

    Each suite is a `testsuite` with its cases.
    """
    for suite in root:
        cases = suite.findall("testcase")
        suite.set("tests", str(len(cases)))
        for plural, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(plural, str(sum(case.find(kind) is not None for case in cases)))

    for name in ("tests", "failures", "errors"):  # the only attributes that all schemas allow
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))

    for element in root.iter():
        for name, value in list(element.attrib.items()):
            element.set(name, _clean_xml(value))
        if element.text:
            element.text = _clean_xml(element.text)

    indent(root)
    text: str = tostring(root, encoding="unicode")
    return f"<?xml version='1.0' encoding='utf-8'?>\n{text}\n".encode()


def _add_suite(root: Element, report: RunReport) -> None:
    """Add the suite of a report, with a case for each code cell."""
    suite = SubElement(root, "testsuite", name=report.notebook)
    properties = SubElement(suite, "properties")

    for name, value in list_counts(report):
        SubElement(properties, "property", name=name, value=value)
    for cell in report.cells:
        _add_case(suite, report.notebook, cell)

    # An error that no cell has gets its own case.
    run_error = report.record_error
    failure = report.failure
    if failure is not None and not any(cell.status == "failed" for cell in report.cells):
        run_error = format_text(f"{failure.name}: {failure.message}")

    if run_error:
        case = SubElement(suite, "testcase", classname=report.notebook, name="the run")
        SubElement(case, "error", message=run_error)

    open_decisions = format_open_decisions(report)
    if open_decisions:
        SubElement(suite, "system-out").text = "\n".join(open_decisions)

    suite.set("time", f"{report.seconds:.3f}")


def _add_case(suite: Element, notebook: str, cell: ReportedCell) -> None:
    """Add the case of a cell: a failure, a skipped case, or one that passed."""
    name = f"cell {cell.number + 1}: {cell.source}"
    time = f"{cell.seconds:.3f}"
    case = SubElement(suite, "testcase", classname=notebook, name=name, time=time)

    if cell.status == "failed":
        lines = [*format_cell_errors(cell), cell.traceback or cell.error]
        SubElement(case, "failure", message=cell.error).text = "\n".join(lines)
    elif cell.status == "not run":
        SubElement(case, "skipped", message="this cell was not run")

    if cell.turns:
        lines = list(chain.from_iterable(map(format_turn, cell.turns)))
        SubElement(case, "system-out").text = "\n".join(lines)


def _clean_xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", plain(text))
