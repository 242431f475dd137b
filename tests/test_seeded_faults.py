"""The seeded faults fit the code and its tests; `python -m tests.seeded_faults` tries them."""

from __future__ import annotations

import re

from tests.seeded_faults import ROOT, read_faults


def test_each_fault_has_its_place_and_its_tests() -> None:
    wrong = []
    for fault in read_faults():
        if (ROOT / fault.file).read_text(encoding="utf-8").count(fault.find) != 1:
            wrong.append(f"{fault.breaks}: {fault.file} must have its code exactly once")
        if fault.find == fault.replace or not fault.tests:
            wrong.append(f"{fault.breaks}: it changes nothing, or no test is named")
        for test in fault.tests:
            path, _, name = test.partition("::")
            function = re.escape(name.partition("[")[0].rpartition("::")[2])
            text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
            if not re.search(rf"^ *(async )?def {function}\(", text, re.M):
                wrong.append(f"{fault.breaks}: there is no test {test}")
    assert not wrong, "\n".join(wrong)
