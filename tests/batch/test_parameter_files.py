"""Files of parameters: types are kept, and bad lines are named before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.batches import BatchBench
from tests.support.notebook_runs import write_cells


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def parameters(folder: Path, *arguments: str | Path) -> list[dict[str, Any]]:
    """Return the parameters of each run of a notebook without a tagged cell."""
    notebook = write_cells(folder / "walk.ipynb", "1")
    return [spec["parameters"] for spec in BatchBench(folder).plan(notebook, *arguments)]


@pytest.mark.req("BATCH-2")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("2.5", 2.5),
        ("1e3", 1000.0),
        ("true", True),
        ("false", False),
        ("03", "03"),
        ("+31", "+31"),
        ("0", 0),
        ("0.10", 0.1),
        ("True", "True"),
        ("null", "null"),
        ("", ""),
        (" 3", " 3"),
        ("nan", "nan"),
        ("1e999", "1e999"),
        ("1_000", "1_000"),
        ("=1+1", "=1+1"),
        ("٣", "٣"),
    ],
)
def test_value_of_csv(tmp_path: Path, text: str, value: Any) -> None:
    path = write(tmp_path, "each.csv", f"x,y\n{text},a\n")
    [found] = BatchBench.read_sets(path)
    assert found == {"x": value, "y": "a"}
    assert type(found["x"]) is type(value)


@pytest.mark.req("BATCH-2")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("03", 3),
        ("2.5", 2.5),
        ("True", True),
        ("False", False),
        ("None", None),
        ("true", "true"),
        ("Delft", "Delft"),
        ("", ""),
    ],
)
def test_value_of_an_option_has_the_type_of_papermill(
    tmp_path: Path, text: str, value: Any
) -> None:
    [found] = parameters(tmp_path, "-p", "x", text)
    assert found == {"x": value}
    assert type(found["x"]) is type(value)


@pytest.mark.req("BATCH-2")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", '{"a": 1, "b": [1.5, null], "day": "2026-01-31"}'),
        ("p.toml", 'a = 1\nb = [1.5, "x"]\nday = 2026-01-31\n'),
        ("p.yaml", "a: 1\nb: [1.5, null]\nday: 2026-01-31\n"),
    ],
)
def test_file_with_one_set(tmp_path: Path, name: str, text: str) -> None:
    [found] = parameters(tmp_path, "--params", write(tmp_path, name, text))
    assert (found["a"], found["b"][0], found["day"]) == (1, 1.5, "2026-01-31")


@pytest.mark.req("BATCH-2")
def test_each_set_runs_and_options_have_priority(tmp_path: Path) -> None:
    common = write(tmp_path, "p.json", '{"a": 0, "b": 0, "c": 0}')
    each = write(tmp_path, "each.jsonl", '{"a": 1, "b": 1}\n\n{"a": 2}\n')
    found = parameters(tmp_path, "--params", common, "--each", each, "-p", "b", "9")
    assert found == [{"a": 1, "b": 9, "c": 0}, {"a": 2, "b": 9, "c": 0}]
    assert parameters(tmp_path, "--params", each) == [{"a": 1, "b": 1}, {"a": 2}]


@pytest.mark.req("BATCH-32")
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("e.jsonl", '{"a": 1}\n[1]\n{"a": \n', r"line 2: .*object\n.*line 3: it is not JSON"),
        ("e.json", b'[{"a": "\xff"}]', "e.json is not JSON"),
        ("e.jsonl", b'{"a": "\xff"}\n', "line 1: it is not UTF-8"),
        ("e.jsonl", '{"a": NaN}\n', "line 1: it is not JSON"),
        ("e.jsonl", '{"a b": 1}\n', "line 1: 'a b' is not a name of Python"),
        ("e.jsonl", '{"class": 1}\n', "line 1: 'class' is not a name"),
        ("e.csv", "a,b\n1,2\n1\n1,2,3\n", "line 3: it has 1 values, and .* 2 names"),
        ("e.csv", "a,a\n1,2\n", "line 1 of .* the name a twice"),
        ("e.csv", "a,\x1b[2J\n1,2\n", r"line 1 of .*x1b\[2J"),
        ("e.csv", b"a\n\xff\n", "not UTF-8"),
        ("e.csv", "a\n", "no set of parameters"),
        ("e.csv", "", "no set of parameters"),
        ("e.jsonl", "\n", "no set of parameters"),
        ("e.json", "{", "is not JSON"),
        ("e.txt", "a", "files of parameters end in"),
    ],
)
def test_bad_file_is_an_error_before_anything_runs(
    tmp_path: Path, name: str, text: str | bytes, message: str
) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(jp.UsageError, match=f"(?s){message}"):
        parameters(tmp_path, "--each", path)


@pytest.mark.req("BATCH-33")
def test_dunder_name_is_assigned(tmp_path: Path) -> None:
    assert parameters(tmp_path, "-p", "__class__", "1") == [{"__class__": 1}]


@pytest.mark.req("BATCH-16")
@pytest.mark.parametrize("option", ["-p", "each", "-c"])
def test_api_key_is_refused_and_not_repeated(tmp_path: Path, option: str) -> None:
    key = "sk-ant-api03-" + "aB3dE5fG7h" * 9
    arguments: list[str | Path] = ["-p", "token", key]
    if option == "each":
        arguments = ["--each", write(tmp_path, "e.csv", f"token\n{key}\n")]
    elif option == "-c":
        arguments = ["-c", f"assistant.model.id={key}"]
    with pytest.raises(jp.UsageError) as caught:
        parameters(tmp_path, *arguments)
    assert key not in str(caught.value)
    assert "environment" in str(caught.value)


@pytest.mark.req("BATCH-32")
def test_large_file_is_streamed(tmp_path: Path) -> None:
    path = write(tmp_path, "each.csv", "n\n" + "1\n" * 50_000)
    sets = iter(BatchBench.read_sets(path))
    assert next(sets) == {"n": 1}
    assert sum(1 for _ in sets) == 49_999
