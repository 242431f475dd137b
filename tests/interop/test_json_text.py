"""JSON text of JP is written back byte for byte, whatever its spelling."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from tests.interop.jp_directories import (
    BASE,
    CALL,
    G1,
    G3,
    G4,
    G5,
    TALK,
    directory,
    imported,
    jp_text,
    kept,
)
from tests.kit.jp_directories import JpDirectory
from tests.support.record_strategies import json_values

ODD_ENTRIES = [
    '{"type": "x", "n": [1e-7, 1E5, 1.0, -0, -0.0, 1e16, 0.00001, 100000000000000000000000, 1.10]}',
    '{"type": "x", "n": 9007199254740993, "f": 3.0e0, "a/b": {"~": 1e-07}}',
    '{"type": "x", "text": "\\u00e9\\/\\ud83c\\udf15 \\ud800 \\u001F\\u007f"}',
    '{"type": "x", "a": 1, "a": 2}',
    '{"type":"x"  ,\t"a" : [ ] , "o":{ }}',
    '{"b": 1, "10": {"z": 0, "9": 1}, "a": {"only": {"y": 1, "x": 2}}}',
    "3",
    "1.0",
    '"text"',
    "null",
    '[{"b": 1.0, "a": 2}]',
    "{}",
    '{"type": ["list"], "timestamp": 3}',
    '{"type": "tool_call_request", "arguments": "aGk=", "metadata": ["aGk=", "-"], "id": 1}',
    '{"type": "tool_call_response", "content": "aGk\\u003d", "id": "\\u0061"}',
    '{"type": "inquiry_request", "question": {"answer_type": {"options": 3}}, "source": []}',
]


def test_unusual_json_is_preserved(subtests: pytest.Subtests) -> None:
    for form in ["[\n  %s\n]\n", "[%s]", "\ufeff [\r\n\t%s , %s\r\n]\r\n\r\n"]:
        for entry in ODD_ENTRIES:
            with subtests.test(entry=entry, form=form):
                text = form % ((entry,) * form.count("%s"))
                files = directory([]) | {"events.json": text.encode()}
                jp = imported(files)
                assert JpDirectory.write(jp).files == files


def test_unusual_empty_list_is_preserved(subtests: pytest.Subtests) -> None:
    for text in ["[]", "[]\n", " [ \n]\n\n", "\ufeff[]"]:
        with subtests.test(text=text):
            files = directory([]) | {"events.json": text.encode()}
            assert JpDirectory.write(imported(files)).files == files


def test_every_file_is_preserved_in_any_spelling(subtests: pytest.Subtests) -> None:
    for file in ["metadata.json", "base_config.json", "events.json"]:
        changes: list[Callable[[str], str]] = [
            lambda text: text[:-1],
            lambda text: text + "\n\n",
            lambda text: "\ufeff" + text,
            lambda text: text.replace("\n", "\r\n"),
            lambda text: json.dumps(json.loads(text)),
            lambda text: text.replace("Tess", "\\u0054ess"),
            lambda text: text.replace('"Tess"', "1.50"),
        ]
        for number, change in enumerate(changes):
            with subtests.test(change=number, file=file):
                for files in (G1, G3, G4, G5):
                    if file in files:
                        odd = files | {file: change(files[file].decode()).encode()}
                        assert JpDirectory.write(imported(odd)).files == odd


def test_spelling_that_does_not_fit_is_ignored(subtests: pytest.Subtests) -> None:
    for spelling in [
        {"order": [[1, 1]]},
        {"order": [[5, 6], "x", None, [True, False]]},
        {"numbers": {"/n": "2", "/t": "5", "x": "1", "/n/0": "1", "": "1"}},
        {"numbers": {"/n": '1, "evil": 2'}},
        {"numbers": {"/n": "1e9999"}},
        {"text": "nonsense"},
        {"text": '{"n": 1}'},
        {"text": ' {"n": 1, "t": "a", "type": "x"}'},
        {"gap": "evil"},
        {"gap": "["},
        {"flat": 1, "fields": [], "order": 3, "numbers": 3},
        {"element": True, "text": "3"},
        [],
    ]:
        with subtests.test(spelling=spelling):
            jp = imported(directory([{"type": "x"}, {"n": 1, "t": "a", "type": "x"}]))
            jp["events"][1]["spelling"] = spelling
            jp["conversation"]["origin"]["after"] = "] evil"
            jp["conversation"]["origin"]["base_config"] = {"after": "x", "order": "x", "text": "["}
            written = JpDirectory.write(jp)
            assert json.loads(written.files["events.json"])[1] == {"n": 1, "t": "a", "type": "x"}
            assert json.loads(written.files["base_config.json"]) == BASE


def test_numbers_are_written_as_jp_does() -> None:
    numbers = [1e-7, 1.5e-5, -1e-5, 1e16, 1e15, 1.5e300, 0.0001, 5, 2.0]
    jp = imported(directory([])) | {"events": [{"n": numbers}]}
    text = JpDirectory.write(jp).files["events.json"].decode()
    assert re.findall(r"^      (.*?),?$", text, re.M) == [
        "1e-7",
        "0.000015",
        "-0.00001",
        "1e16",
        "1000000000000000.0",
        "1.5e300",
        "0.0001",
        "5",
        "2.0",
    ]


@given(json_values)
def test_written_value_is_read_again(value: Any) -> None:
    jp = imported(directory([])) | {"events": [{"type": "x", "value": value}]}
    [again] = imported(JpDirectory.write(jp).files)["events"]
    assert again["value"] == kept(store_in_page(value))


def test_spelling_of_a_number_must_be_a_json_number(subtests: pytest.Subtests) -> None:
    rows: list[tuple[int, str]] = [
        (10, "1_0"),
        (10, "10\n"),
        (10, "10 "),
        (1, "01"),
        (1, "+1"),
        (1, "\u0661"),
        (1, '1, "a": 2'),
    ]
    for number, token in rows:
        with subtests.test(number=number, token=token):
            jp = imported(directory([]))
            jp["events"] = [{"n": number, "type": "x", "spelling": {"numbers": {"/n": token}}}]
            assert JpDirectory.write(jp).files["events.json"] == jp_text(
                [{"n": number, "type": "x"}]
            )


def test_integers_beyond_a_float_are_preserved() -> None:
    big = [2**53 - 1, 2**53 + 1, -(2**53) - 1, 2**63 - 1]
    files = directory([{"n": big, "type": "x"}], {"b": big})
    assert JpDirectory.write(imported(files)).files == files


def store_in_page(value: Any) -> Any:
    """Return `value` as a page stores it: an unpaired surrogate is U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {store_in_page(key): store_in_page(item) for key, item in value.items()}
    return [store_in_page(item) for item in value] if isinstance(value, list) else value


def test_half_a_character_is_preserved_through_a_page(subtests: pytest.Subtests) -> None:
    for file in ["metadata.json", "base_config.json", "events.json"]:
        with subtests.test(file=file):
            value: Any = {"title": "\ud83d x", "k\ud83d": ["\udc00", "\U0001f315"]}
            if file == "events.json":
                value = [
                    TALK[0] | value,
                    {**CALL, "arguments": {"\ud83d": "\ud83d", "a": "-\udc00"}},
                ]
            files = directory(TALK) | {file: json.dumps(value, indent=2).encode()}
            jp = store_in_page(imported(files))
            assert "\\ud83d" in files[file].decode()
            assert JpDirectory.write(kept(jp)).files == files


def test_changed_text_is_not_restored_to_half_a_character() -> None:
    text = json.dumps([TALK[0] | {"content": "\ud83d x"}]).encode()
    files = directory([]) | {"events.json": text}
    jp = imported(files)
    jp["events"][0]["content"] = "\ufffd y"
    assert json.loads(JpDirectory.write(jp).files["events.json"])[0]["content"] == "\ufffd y"
