"""The page about many notebooks: its commands are understood, its table of clusters is whole."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

from tests.kit.batches import BatchBench

PAGE = Path(__file__).resolve().parents[2] / "docs" / "many-notebooks.md"
COMMAND = re.compile(r"^(jp-nb [^#\n]+)|`(jp-nb (?:run|inbox) [^`]+)`", re.M)


def read_clusters() -> list[list[str]]:
    """Return the cells of the table of clusters, without its head."""
    text = PAGE.read_text(encoding="utf-8")
    begin = text.index("| from small to large |")
    lines = text[begin : text.index("\n\n", begin)].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.req("BATCH-26")
def test_clusters_are_listed_from_small_to_large_with_costs_and_readers() -> None:
    clusters = read_clusters()
    names = " ".join(name for name, *_ in clusters)
    order = ["one machine", "dashboard", "Slurm", "Kubernetes"]
    assert [names.index(word) for word in order] == sorted(names.index(word) for word in order)
    assert all(len(cells) == 4 and all(cells) for cells in clusters)

    text = PAGE.read_text(encoding="utf-8")
    for word in ("`tls://…`", "dask-jobqueue", "Dask operator", "scheduler file"):
        assert word in text


@pytest.mark.req("BATCH-26")
def test_commands_of_the_page_are_understood() -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = [shell or inline for shell, inline in COMMAND.findall(text)]
    complete = [each for each in found if "…" not in each]
    assert len(complete) >= 10
    for command in complete:
        BatchBench.check_command(shlex.split(command)[1:])

    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        ast.parse(block)
