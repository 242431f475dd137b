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


KEY = "sk-ant-api03-" + "aB3dE5fG7h" * 9


@pytest.mark.req("BATCH-16")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", '{"x": {"key": "KEY"}}'),
        ("p.json", '{"x": [[1, "KEY"]]}'),
        ("p.json", '{"x": {"KEY": 1}}'),
        ("p.yaml", "x:\n  - key: KEY\n"),
        ("p.toml", 'x = [{key = "KEY"}]'),
        ("e.jsonl", '{"x": 1}\n{"x": {"key": "KEY"}}\n'),
        ("p.json", '{"x": {"address": "https://ada:s3cretpw@host/"}}'),
    ],
)
def test_api_key_inside_of_a_value_is_refused(tmp_path: Path, name: str, text: str) -> None:
    path = write(tmp_path, name, text.replace("KEY", KEY))
    with pytest.raises(jp.UsageError, match="looks like an API key") as caught:
        parameters(tmp_path, "--params", path)
    assert KEY[:20] not in str(caught.value)
    assert "s3cretpw" not in str(caught.value)


@pytest.mark.req("BATCH-16")
@pytest.mark.parametrize(
    "argument",
    [
        "providers.llm.openai.base_url=https://ada:s3cretpw@host/v1",
        "providers.llm.openai.base_url=https://s3cretpw@host/v1",
        "providers.llm.openai.base_url=https://host/v1?api_key=s3cretpw",
        '{"providers": {"llm": {"openai": {"base_url": "https://ada:s3cretpw@host/v1"}}}}',
        "conversation.tools.deploy.options.password=s3cretpw",
        'conversation.tools.deploy.options.password:="s3cretpw"',
    ],
)
def test_password_in_a_setting_is_refused(tmp_path: Path, argument: str) -> None:
    with pytest.raises(jp.UsageError, match="environment variable") as caught:
        parameters(tmp_path, "-c", argument)
    assert "s3cretpw" not in str(caught.value)


@pytest.mark.req("BATCH-16")
@pytest.mark.parametrize(
    ("option", "argument", "named"),
    [
        ("-c", "providers.llm.openai.api_key=s3cretpw", "-c providers.llm.openai.api_key contains"),
        ("-c", f'{{"a": "x={KEY}"}}', "-c contains"),
        ("-c", f"{KEY}=1", "-c contains"),
        ("-c", "https://s3cretpw@host/v1?x=1", "-c contains"),
        ("--models", f"openai/{KEY}", "--models contains"),
        ("--models", "https://ada:s3cretpw@host/v1?x=1", "--models contains"),
    ],
)
def test_refused_secret_is_named_by_its_option_and_setting(
    tmp_path: Path, option: str, argument: str, named: str
) -> None:
    with pytest.raises(jp.UsageError) as caught:
        parameters(tmp_path, option, argument)
    assert str(caught.value).startswith(named)
    assert KEY[:20] not in str(caught.value)
    assert "s3cretpw" not in str(caught.value)


@pytest.mark.parametrize(
    "argument",
    ["providers.llm.openai.api_key_env=MY_KEY", "providers.llm.openai.base_url=http://[::1]:80/v1"],
)
def test_setting_without_a_secret_is_accepted(tmp_path: Path, argument: str) -> None:
    assert parameters(tmp_path, "-c", argument) == [{}]


@pytest.mark.req("BATCH-2", "BATCH-3")
@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("p.yaml", "x: [1, .nan]", r"x\[1\] is nan"),
        ("p.yaml", "x: {a: [.inf]}", r"x.a\[0\] is inf"),
        ("p.toml", "x = [1.0, nan]", r"x\[1\] is nan"),
        ("p.toml", "x = {a = -inf}", "x.a is -inf"),
        ("p.json", '{"x": [NaN]}', "NaN is not a JSON number"),
        ("e.jsonl", '{"x": [1e999]}\n', "too large"),
        ("p.yaml", f"x: [{'9' * 400}]", r"x\[0\] is a larger number"),
        ("p.json", '{"x": ' + "[" * 60 + "]" * 60 + "}", "x is nested more than 50 levels deep"),
    ],
)
def test_number_that_no_log_can_store_is_refused_at_any_depth(
    tmp_path: Path, name: str, text: str, place: str
) -> None:
    with pytest.raises(jp.UsageError, match=place):
        parameters(tmp_path, "--params", write(tmp_path, name, text))


@pytest.mark.req("BATCH-2", "BATCH-33")
@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("e.jsonl", r'{"x": 1}' + "\n" + r'{"x": "\ud800"}' + "\n", "line 2: x has half a"),
        ("p.json", r'{"x": [{"a": "\udfff"}]}', r"x\[0\].a has half a"),
        ("p.json", r'{"x": {"\ud800": 1}}', "a name in x has half a"),
        ("p.json", r'{"x\ud800": 1}', "not a name of Python"),
    ],
)
def test_half_a_surrogate_pair_is_refused(tmp_path: Path, name: str, text: str, place: str) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(jp.UsageError, match=place) as caught:
        parameters(tmp_path, "--params", path)
    str(caught.value).encode()


@pytest.mark.req("BATCH-33")
@pytest.mark.parametrize(
    "arguments",
    [
        ["-p", "x", "caf\udce9"],
        ["-c", "assistant.name=caf\udce9"],
        ["--models", "openai/caf\udce9"],
        ["--answers", "caf\udce9.toml"],
        ["--replay", "caf\udce9.jsonl"],
        ["--each", "caf\udce9.csv"],
    ],
)
def test_argument_that_is_not_utf8_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    with pytest.raises(jp.UsageError, match="not UTF-8") as caught:
        parameters(tmp_path, *arguments)
    str(caught.value).encode()


def test_line_that_is_too_long_is_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, "each.jsonl", b"1" * 10_000_001 + b"\n[1]\n")
    message = r"line 1: .* is longer than [^\n]*\n +line 2: [^\n]*object$"
    with pytest.raises(jp.UsageError, match=message):
        parameters(tmp_path, "--each", path)


@pytest.mark.req("BATCH-32")
def test_large_file_is_streamed(tmp_path: Path) -> None:
    path = write(tmp_path, "each.csv", "n\n" + "1\n" * 50_000)
    sets = iter(BatchBench.read_sets(path))
    assert next(sets) == {"n": 1}
    assert sum(1 for _ in sets) == 49_999
