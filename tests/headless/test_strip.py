"""`jp-nb strip` removes record and outputs, and keeps every other byte."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.cli import main
from jp_nb.headless.commands import stripped_text

CARRIER = {"model_module": "jp-nb", "model_name": "RecordModel", "state": {"jp": {}}}
SLIDER = {"model_module": "@jupyter-widgets/controls", "model_name": "IntSliderModel", "state": {}}
STATES = "application/vnd.jupyter.widget-state+json"
PRINTED = {"output_type": "stream", "name": "stdout", "text": ["1\n"]}


def strip_bytes(data: bytes, **parts: bool) -> bytes:
    """Return the notebook file `data` as `jp-nb strip` writes it: `record=False` keeps it."""
    return stripped_text.strip_notebook(data, stripped_text.Parts(**parts))


def widgets(**states: Any) -> dict[str, Any]:
    return {STATES: {"state": states, "version_major": 2, "version_minor": 0}}


def cell(**fields: Any) -> dict[str, Any]:
    code = {"cell_type": "code", "id": "a1", "metadata": {"tags": ["x"]}, "source": ["1"]}
    return code | {"execution_count": None, "outputs": []} | fields


def notebook(*cells: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


FULL = notebook(
    {"cell_type": "markdown", "id": "m", "metadata": {}, "source": "outputs: [] 'execution_count'"},
    cell(execution_count=3, outputs=[PRINTED]),
    cell(id="a2", execution_count=4),
    jp={"version": 1, "events": [{"outputs": [1]}]},
    kernelspec={"name": "python3", "outputs": [7], "jp": 1},
    widgets=widgets(c=CARRIER, s=SLIDER),
)
KERNEL = {"name": "python3", "outputs": [7], "jp": 1}
CELLS = (FULL["cells"][0], cell(), cell(id="a2"))


def test_chosen_parts_are_removed_and_the_layout_is_kept(subtests: pytest.Subtests) -> None:
    layouts: list[dict[str, Any]] = [{"indent": 1}, {"indent": "\t"}, {"separators": (",", ":")}]
    for layout in layouts:
        for parts, left in [
            ({}, notebook(*CELLS, kernelspec=KERNEL)),
            (
                {"outputs": False},
                notebook(*FULL["cells"], kernelspec=KERNEL, widgets=widgets(s=SLIDER)),
            ),
            (
                {"record": False},
                notebook(
                    *CELLS,
                    jp=FULL["metadata"]["jp"],
                    kernelspec=KERNEL,
                    widgets=widgets(c=CARRIER),
                ),
            ),
            ({"record": False, "outputs": False}, FULL),
        ]:
            with subtests.test(parts=parts, layout=layout):

                def spelled(value: Any) -> bytes:
                    return (json.dumps(value, ensure_ascii=False, **layout) + "\n").encode()

                assert strip_bytes(spelled(FULL), **parts) == spelled(left)


NOTHING_TO_STRIP = [
    '{"cells": [],\r\n "metadata": {}, "nbformat": 4, "x": 1e400, "y": 1.50, "é": "\\u00e9"}',
    '\ufeff{"nbformat":4,"cells":[{"outputs":[ ],"execution_count":null}],"n":%s}' % ("7" * 9999),
    '{"nbformat": 4, "cells": [1, null, [], {"outputs": []}], "metadata": []}  \n\n',
    '{"nbformat": 4, "cells": [], "metadata": {"widgets": {"' + STATES + '": {"state": []}}}}',
    '{"nbformat": 4, "cells": [], "metadata": {"widgets": {}, "jpx": 1, "jp.a": {}}}',
]


def test_notebook_with_nothing_to_strip_keeps_every_byte() -> None:
    for text in NOTHING_TO_STRIP:
        assert strip_bytes(text.encode()) == text.encode()


def test_invalid_utf_8_and_repeated_keys_are_kept() -> None:
    data = b'{"nbformat": 4, "cells": [{"outputs": ["\xff"], "outputs": [1]}], "x": "\xfe"}'
    assert strip_bytes(data) == (
        b'{"nbformat": 4, "cells": [{"outputs": [], "outputs": []}], "x": "\xfe"}'
    )
    twice = b'{"metadata": {"jp": 1, "a": 2, "jp.1": [], "jp": 3}, "nbformat": 4, "cells": []}'
    assert strip_bytes(twice) == (b'{"metadata": {"a": 2}, "nbformat": 4, "cells": []}')


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)
NAMES = st.sampled_from(["jp", "jp.1", "jp_edit", "widgets", "kernelspec", "a", ""])
ANY_CELL = JSON_VALUES | st.dictionaries(
    st.sampled_from(["outputs", "execution_count", "source", "metadata", "id"]), JSON_VALUES
)
ANY_METADATA = JSON_VALUES | st.dictionaries(NAMES, JSON_VALUES)


@given(
    cells=st.lists(ANY_CELL, max_size=4),
    metadata=ANY_METADATA,
    indent=st.none() | st.integers(0, 3),
    record=st.booleans(),
    outputs=st.booleans(),
)
@example(cells=[], metadata={"jp": 1}, indent=1, record=True, outputs=True)
def test_stripping_removes_the_parts_of_any_notebook_and_is_idempotent(
    cells: list[Any], metadata: Any, indent: int | None, record: bool, outputs: bool
) -> None:
    made = {"cells": cells, "metadata": metadata, "nbformat": 4, "unknown": metadata}
    data = json.dumps(made, indent=indent).encode()
    stripped = strip_bytes(data, record=record, outputs=outputs)
    assert strip_bytes(stripped, record=record, outputs=outputs) == stripped
    expected = json.loads(data)
    if outputs:
        for each in (each for each in expected["cells"] if isinstance(each, dict)):
            each |= {"outputs": []} if "outputs" in each else {}
            each |= {"execution_count": None} if "execution_count" in each else {}
    if record and isinstance(metadata, dict):
        kept = {k: v for k, v in expected["metadata"].items() if k not in ("jp", "jp.1", "jp_edit")}
        expected["metadata"] = kept
    found = json.loads(stripped)
    assert _cells(found) == _cells(expected)
    assert (found["metadata"], found["unknown"]) == (expected["metadata"], expected["unknown"])


def _cells(made: dict[str, Any]) -> list[Any]:
    """Return the cells without fields that are null or empty."""
    emptied = []
    for each in made["cells"]:
        if isinstance(each, dict):
            each = {k: v for k, v in each.items() if v not in (None, [])}
        emptied.append(each)
    return emptied


BAD = {
    "no JSON": b'{"cells": [',
    "a list": b"[]",
    "no cells": b'{"nbformat": 4}',
    "an older format": b'{"nbformat": 3, "cells": []}',
    "text after it": b'{"nbformat": 4, "cells": []} {}',
    "nested too deeply": b'{"nbformat": 4, "cells": [' + b"[" * 100_000,
    "nothing": b"",
    "UTF-16": '{"nbformat": 4, "cells": []}'.encode("utf-16"),
}


def test_file_that_is_not_a_notebook_is_reported_and_kept(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:  # fmt: skip
    path = tmp_path / "a.ipynb"
    sound = tmp_path / "b.ipynb"
    for name, data in BAD.items():
        with subtests.test(name):
            with pytest.raises(jp.StorageError, match=r"^not a notebook"):
                strip_bytes(data)
            path.write_bytes(data)
            sound.write_text(json.dumps(FULL), encoding="utf-8")
            assert main(["strip", str(path), str(sound)]) == 1
            assert path.read_bytes() == data
            assert b"a.ipynb: not a notebook" in capsysbinary.readouterr().err
            assert "jp" not in json.loads(sound.read_bytes())["metadata"], "the next is stripped"
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            assert main(["strip", "-"]) == 1
            assert capsysbinary.readouterr().out == data, "git may commit it"


def test_stripped_file_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(FULL), encoding="utf-8")
    path.chmod(0o640)
    assert main(["strip", str(path), "--outputs"]) == 0
    assert main(["strip", str(path), "--record"]) == 0
    assert json.loads(path.read_bytes()) == notebook(*CELLS, kernelspec=KERNEL)
    assert path.stat().st_mode & 0o777 == 0o640
    before = path.stat()
    assert main(["strip", str(path)]) == 0
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_missing_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["strip", str(tmp_path / "none.ipynb")]) == 1
    assert "none.ipynb: No such file or directory" in capsys.readouterr().err


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository in which notebooks are stripped when they are added."""
    (tmp_path / ".gitattributes").write_text("*.ipynb filter=jp\n", encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "filter.jp.clean", f'"{sys.executable}" -m jp_nb.cli strip -')
    git(tmp_path, "config", "filter.jp.smudge", "cat")
    git(tmp_path, "config", "filter.jp.required", "true")
    return tmp_path


def git(folder: Path, *arguments: str, ok: bool = True) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *arguments],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert (done.returncode == 0) is ok, done.stderr
    return (done.stdout + done.stderr).decode()


def test_filter_of_git_commits_a_stripped_notebook(repository: Path) -> None:
    path = repository / "a.ipynb"
    made = nbformat.from_dict(FULL)
    nbformat.write(made, path)
    before = path.read_bytes()
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "one")
    committed = json.loads(git(repository, "show", "HEAD:a.ipynb"))
    assert committed["metadata"] == {"kernelspec": KERNEL}
    assert [each.get("outputs", []) for each in committed["cells"]] == [[], [], []]
    assert path.read_bytes() == before, "the file in the folder keeps all of it"
    made["cells"][1]["outputs"] = []
    nbformat.write(made, path)
    assert git(repository, "diff", "--stat") == "", "another run is no change"
    path.write_text("<<<<<<< a merge", encoding="utf-8")
    assert "not a notebook" in git(repository, "add", ".", ok=False)
