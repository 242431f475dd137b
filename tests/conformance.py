"""Make the page `docs/conformance.md`: every requirement with the tests that name it.

The requirements are in `tests/conformance.toml`, the tests name them with `pytest.mark.req`:

    python -m tests.conformance
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

TESTS = Path(__file__).parent
TABLE = TESTS / "conformance.toml"
PAGE = TESTS.parent / "docs" / "conformance.md"
INTRODUCTION = """\
<!-- Made by `python -m tests.conformance`: do not edit. -->

# Conformance

Each requirement of jp_nb has an id. A test names the ids that it covers, for example
`@pytest.mark.req("R083-75")`. This page lists all {count} requirements and the tests that name
them; {unnamed}.

- The letters of an id name the source of the requirement, the number counts within it.
- A statement says what jp_nb does, also where it differs from its source on purpose.
- A marker is set by hand: the test is meant to fail if the statement becomes false. Nothing checks
  that it does.

To add or change a requirement, edit `tests/conformance.toml` or the markers of the tests. Then make
the page again; `tests/test_conformance.py` fails if table, markers and page do not agree:

```console
python -m tests.conformance
```
"""


class Topic(BaseModel):
    """Requirements under one heading.

    Attributes:
        rows: Statements by id, in the order of the page.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    rows: dict[str, str]


class Source(BaseModel):
    """The requirements of one origin, whose ids begin with the same letters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    about: str
    topics: tuple[Topic, ...]


class NamedTest(NamedTuple):
    """A test that names a requirement; `path` is relative to the folder of the tests."""

    path: str
    line: int
    name: str


def read_table() -> tuple[Source, ...]:
    """Return the requirements in `tests/conformance.toml`."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return tuple(Source.model_validate(source) for source in table["sources"])


def row_ids(sources: tuple[Source, ...]) -> list[str]:
    """Return the ids of all requirements, in the order of the page."""
    return [key for source in sources for topic in source.topics for key in topic.rows]


def find_tests(folder: Path = TESTS) -> dict[str, list[NamedTest]]:
    """Return the tests in `folder` by the id of each requirement that they name.

    Raises:
        ValueError: A marker is not on a test, or its ids are not literal texts.
    """
    found: dict[str, set[NamedTest]] = {}
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        markers = set(_markers(tree))
        for test in ast.walk(tree):
            if not isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            named = NamedTest(path.relative_to(folder).as_posix(), test.lineno, test.name)
            for marker in [x for decorator in test.decorator_list for x in _markers(decorator)]:
                keys = [arg.value for arg in marker.args if isinstance(arg, ast.Constant)]
                for key in map(str, keys):
                    found.setdefault(key, set()).add(named)
                if len(keys) == len(marker.args):
                    markers.discard(marker)
        if markers:
            lines = sorted(marker.lineno for marker in markers)
            raise ValueError(f"{path}, lines {lines}: put `req` on a test, with its ids as texts")
    return {key: sorted(tests) for key, tests in found.items()}


def _markers(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="req")):
                yield node


def render_page(sources: tuple[Source, ...], tests: Mapping[str, list[NamedTest]]) -> str:
    """Return `docs/conformance.md`."""
    ids = row_ids(sources)
    unnamed = sum(key not in tests for key in ids)
    said = f"{unnamed} are not shown by a test yet" if unnamed else "each has at least one test"
    parts = [INTRODUCTION.format(count=len(ids), unnamed=said), _overview(sources, tests)]
    for source in sources:
        parts.append(f"## {source.title}\n\n{source.about}\n")
        for topic in source.topics:
            rows = [_row(key, text, tests.get(key, [])) for key, text in topic.rows.items()]
            parts += [f"### {topic.title}\n", *rows, ""]
    paths = sorted({test.path for key in ids for test in tests.get(key, [])})
    parts.append("\n".join(f"[{path}]: ../tests/{path}" for path in paths) + "\n")
    return "\n".join(parts)


def _overview(sources: tuple[Source, ...], tests: Mapping[str, list[NamedTest]]) -> str:
    lines = ["| ids | source | requirements | named by a test |", "| --- | --- | ---: | ---: |"]
    for source in sources:
        ids = row_ids((source,))
        letters = ids[0].rpartition("-")[0]
        named = sum(key in tests for key in ids)
        lines.append(f"| {letters} | {source.title} | {len(ids)} | {named} |")
    return "\n".join(lines) + "\n"


def _row(key: str, statement: str, tests: list[NamedTest]) -> str:
    links = ", ".join(f"[`{test.name}`][{test.path}]" for test in tests)
    return f"- **{key}** {statement}\\\n  {links or '*not shown yet*'}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(render_page(read_table(), find_tests()), encoding="utf-8")


if __name__ == "__main__":
    main()
