"""The seeded faults fit the code and its tests; `python -m tests.seeded_faults` tries them."""

from __future__ import annotations

import re

import pytest

from tests.seeded_faults import ROOT, read_faults
from tests.seeded_faults.places import replace_once


def test_each_fault_has_its_place_and_its_tests() -> None:
    wrong = []
    for fault in read_faults():
        try:
            faulty = fault.apply((ROOT / fault.file).read_text(encoding="utf-8"))
            if fault.file.endswith(".py"):
                compile(faulty, fault.file, "exec")
        except (ValueError, SyntaxError) as exc:
            wrong.append(f"{fault.breaks}: {exc}")
        if fault.find == fault.replace or not fault.tests:
            wrong.append(f"{fault.breaks}: it changes nothing, or no test is named")
        for test in fault.tests:
            path, _, name = test.partition("::")
            function = re.escape(name.partition("[")[0].rpartition("::")[2])
            text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
            if not re.search(rf"^ *(async )?def {function}\(", text, re.M):
                wrong.append(f"{fault.breaks}: there is no test {test}")
    assert not wrong, "\n".join(wrong)


FOLDED = """
@cache
def f(x):
    if x: return g(x, 1)
"""
IN_PARAGRAPHS = """
def h(x):
    return g(x, 1)


def f(x):

    if x:  # the usual case

        return g(
            x,
            1,
        )
"""


@pytest.mark.parametrize("code", [FOLDED, IN_PARAGRAPHS])
def test_layout_comments_and_other_functions_do_not_matter(code: str) -> None:
    faulty = replace_once(code, "f", "return g(x, 1)", "return g(x, 2)")

    assert faulty.endswith("return g(x, 2)\n")
    assert faulty.count("g(x, 1)") == code.count("def h")


@pytest.mark.parametrize(
    ("function", "find", "problem"),
    [
        ("f", "return 1", "has the code to change 2 times"),
        ("f", "return 3", "has the code to change 0 times"),
        ("g", "return 1", "there are 0 functions or classes named g"),
    ],
)
def test_code_that_is_not_there_once_is_an_error(function: str, find: str, problem: str) -> None:
    code = "def f(x):\n    if x:\n        return 1\n    return 1\n"
    with pytest.raises(ValueError, match=problem):
        replace_once(code, function, find, "pass")
