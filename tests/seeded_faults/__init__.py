"""Faults that the tests must notice: each changes one place, and names the tests that then fail.

`python -m tests.seeded_faults` makes each fault in a copy of the project and runs its tests there.
A fault names a function and the code in it that changes. The code is compared by its tokens: the
layout, comments, and blank lines of the function may change, and so may everything around it.
The faults of a package are in `tests/seeded_faults/ROOM.toml`:

    [[fault]]
    breaks = "A declined call is reported to the model"
    file = "jp_nb/agent/turn.py"
    function = "TurnLoop.run"  # "" for code outside functions and classes
    find = '''the code as it is, found once in the function'''
    replace = '''the code with the fault'''
    tests = ["tests/agent/test_turn.py::test_declined_call_is_reported_to_the_model"]
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.seeded_faults.places import replace_once

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Fault:
    """A fault that one change makes.

    Attributes:
        room: Package of the fault: the name of its file.
        breaks: The behavior that it breaks, in words.
        file: The changed file, from the root of the project.
        find: The code that is changed; it occurs once in its function.
        replace: The faulty text.
        tests: The tests that fail then; one of them is enough.
        function: Name of the function or class with the code, as `Class.method`. The code of a file
            that is no Python is compared as text, and has none.
    """

    room: str
    breaks: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    function: str = ""

    def change(self, root: Path) -> str:
        """Make the fault under `root`; return the text that was there.

        Raises:
            ValueError: If the code to change does not occur exactly once.
        """
        path = root / self.file
        text = path.read_text(encoding="utf-8")

        path.write_text(self.apply(text), encoding="utf-8")
        return text

    def apply(self, text: str) -> str:
        """Return the text of the file with the fault.

        Raises:
            ValueError: If the code to change does not occur exactly once.
        """
        try:
            if self.file.endswith(".py"):
                return replace_once(text, self.function, self.find, self.replace)

            count = text.count(self.find)
            if count != 1:
                raise ValueError(f"it has the code to change {count} times")
            return text.replace(self.find, self.replace)
        except ValueError as exc:
            raise ValueError(f"{self.breaks}: {self.file}: {exc}") from None


def read_faults() -> list[Fault]:
    """Every fault of every room."""
    found = []
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for each in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]:
            tests = tuple(each.pop("tests"))
            found.append(Fault(room=path.stem, tests=tests, **each))
    return found
