"""Make each fault in a copy of the project, and see whether its tests notice it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.seeded_faults import ROOT, Fault, read_faults

PATIENCE_S = 300
COPIED = ("jp_nb", "tests", "docs", "notebooks", "pyproject.toml", "README.md", "CHANGELOG.md")


def copy_project(to: Path) -> None:
    """Copy what the tests of a fault need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, to / name)


def run_tests(root: Path, tests: Sequence[str]) -> tuple[int | None, str]:
    """Run `tests` under `root`. Return the exit code, or None after a time-out, and the output.

    Bytecode is not kept: a fault may leave size and second of a file as they were.
    """
    command = [sys.executable, "-m", "pytest", "-n0", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        return process.wait(PATIENCE_S), process.communicate()[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return None, process.communicate()[0]


def try_fault(fault: Fault, root: Path) -> str:
    """Say what became of `fault` in the copy at `root`: "noticed", or what is wrong."""
    try:
        text = fault.change(root)
    except ValueError as exc:
        return str(exc)
    try:
        code, output = run_tests(root, fault.tests)
    finally:
        (root / fault.file).write_text(text, encoding="utf-8")
    match code:
        case 1:
            return "noticed"
        case None:
            return f"its tests hang for {PATIENCE_S} s"
        case 0:
            return "not noticed"
        case _:
            return f"pytest ends with {code}: {output[-500:]}"


def try_all(faults: Sequence[Fault], jobs: int, report: Callable[[Fault, str], None]) -> None:
    """Try `faults` in `jobs` copies at once."""
    with tempfile.TemporaryDirectory(prefix="jp-nb-faults-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copy = Path(folder, str(number))
            copy.mkdir()
            copy_project(copy)
            copies.put(copy)

        def one(fault: Fault) -> None:
            copy = copies.get()
            try:
                report(fault, try_fault(fault, copy))
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(one, faults))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.seeded_faults", description=__doc__)
    parser.add_argument("--room", action="append", help="the faults of this room alone")
    parser.add_argument("--only", default="", help="faults whose description contains this text")
    parser.add_argument("--jobs", type=int, default=2, help="how many copies at once (2)")
    options = parser.parse_args()
    faults = [
        fault
        for fault in read_faults()
        if options.only in fault.breaks and (not options.room or fault.room in options.room)
    ]
    tests = sorted({test for fault in faults for test in fault.tests})
    code, output = run_tests(ROOT, tests)
    if code != 0:
        print(f"without a fault these tests must pass:\n{output}")
        return 2
    ends: Counter[str] = Counter()

    def report(fault: Fault, end: str) -> None:
        ends["noticed" if end == "noticed" else "other"] += 1
        if end != "noticed":
            print(f"{fault.room}: {fault.breaks} ({fault.file}): {end}", flush=True)

    try_all(faults, options.jobs, report)
    print(f"{len(faults)} faults, {ends['noticed']} noticed")
    return 1 if ends["other"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
