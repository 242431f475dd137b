"""The table of requirements, the markers of the tests and the page that lists both."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.conformance import PAGE, NamedTest, find_tests, read_table, render_page, row_ids


def test_table_markers_and_page_agree() -> None:
    sources = read_table()
    tests = find_tests()
    counted = Counter(row_ids(sources))
    assert [key for key, times in counted.items() if times > 1] == [], "ids given twice"
    unknown = {key: named for key, named in tests.items() if key not in counted}
    assert unknown == {}, "add these ids to tests/conformance.toml"
    current = PAGE.read_text(encoding="utf-8") == render_page(sources, tests)
    assert current, "docs/conformance.md is out of date: run `python -m tests.conformance`"


def test_markers_of_tests_and_of_their_parameters_are_found(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "@pytest.mark.req('A-1', 'A-2')\n"
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.req('A-1', 'A-3'))])\n"
        "async def test_one(x): ...\n"
    )
    one = [NamedTest("test_it.py", 3, "test_one")]
    assert find_tests(tmp_path) == {"A-1": one, "A-2": one, "A-3": one}


@pytest.mark.parametrize(
    "code", ["pytestmark = pytest.mark.req('A-1')", "@pytest.mark.req(*ROWS)\ndef test_one(): ..."]
)
def test_marker_that_cannot_be_listed_is_an_error(tmp_path: Path, code: str) -> None:
    (tmp_path / "test_it.py").write_text(f"{code}\n")
    with pytest.raises(ValueError, match=r"test_it\.py, lines \[1\]: put `req` on a test"):
        find_tests(tmp_path)


def test_row_without_a_test_is_listed_as_not_shown() -> None:
    page = render_page(read_table(), {})
    assert page.count("*not shown yet*") == len(row_ids(read_table()))
    assert "\n- **R083-1** `ask_user` is registered" in page
