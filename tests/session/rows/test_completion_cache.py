"""The file of answers: what was paid for is not asked again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import jp_nb as jp
from tests.session.rows.row_server import RowServer, serve_rows
from tests.support.loopback import Reply

ROWS = [f"row {number}" for number in range(20)]
CACHE = "answers.jsonl"


@pytest.fixture(autouse=True)
def key(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")


@pytest.mark.req("MAP-5")
def test_second_call_sends_only_what_is_missing(server: RowServer) -> None:
    first = jp.complete_all(ROWS[:15], cache=CACHE, **server.options)
    second = jp.complete_all(ROWS, cache=CACHE, **server.options)
    assert sorted(server.prompts) == sorted(ROWS)
    assert [answer.text for answer in second] == [row.upper() for row in ROWS]  # type: ignore[union-attr]
    assert [answer.cached for answer in second] == [True] * 15 + [False] * 5  # type: ignore[union-attr]
    assert second[0].usage == first[0].usage  # type: ignore[union-attr]
    assert second.usage.output_tokens == 5 * 7  # of this call alone


@pytest.mark.req("MAP-5")
def test_file_is_readable_and_only_grows(server: RowServer) -> None:
    jp.complete_all(ROWS[:2], cache=CACHE, **server.options)
    before = Path(CACHE).read_bytes()
    jp.complete_all(ROWS[:3], cache=CACHE, **server.options)
    after = Path(CACHE).read_bytes()
    assert after.startswith(before)
    lines = [json.loads(line) for line in after.splitlines()]
    assert {line["prompt"]: line["text"] for line in lines} == {
        row: row.upper() for row in ROWS[:3]
    }


class Answer(BaseModel):
    words: int


@pytest.mark.req("MAP-5", "MAP-8")
def test_cached_answer_has_the_type_of_its_schema() -> None:
    def count(prompt: str, earlier: int) -> Reply:
        return Reply(text=json.dumps({"words": 2}))

    with serve_rows(count) as server:
        for _ in range(2):
            [answer] = jp.complete_all(["a b"], schema=Answer, cache=CACHE, **server.options)
            assert answer.data == Answer(words=2)  # type: ignore[union-attr]
    assert len(server.prompts) == 1


@pytest.mark.req("MAP-5")
@pytest.mark.parametrize(
    "changed",
    [
        {"system": "Other instructions."},
        {"schema": {"type": "string"}},
        {"model": "anthropic/other"},
        {"temperature": 0.5},
    ],
)
def test_answer_depends_on_everything_that_is_sent(server: RowServer, changed: Any) -> None:
    options = dict(server.options)
    jp.complete_all(["a"], cache=CACHE, **options)
    temperature = changed.pop("temperature", None)
    if temperature is not None:
        setting = f"assistant.model.parameters.temperature={temperature}"
        options["cfg"] = [*options["cfg"], setting]
    jp.complete_all(["a"], cache=CACHE, **(options | changed))
    assert len(server.prompts) > 1


@pytest.mark.req("MAP-5")
def test_failures_are_asked_again() -> None:
    def fail_once(prompt: str, earlier: int) -> Reply:
        return Reply(text="yes") if earlier else Reply(text="", finish="refusal")

    with serve_rows(fail_once) as server:
        [first] = jp.complete_all(["a"], cache=CACHE, **server.options)
        [second] = jp.complete_all(["a"], cache=CACHE, **server.options)
    assert not first
    assert second


@pytest.mark.req("MAP-5", "MAP-18")
@pytest.mark.parametrize("cut", [1, 20, 100])
def test_cut_line_is_skipped_and_later_lines_are_whole(server: RowServer, cut: int) -> None:
    jp.complete_all(ROWS[:3], cache=CACHE, workers=1, **server.options)
    whole = Path(CACHE).read_bytes()
    Path(CACHE).write_bytes(whole[:-cut])
    jp.complete_all(ROWS[:5], cache=CACHE, workers=1, **server.options)
    again = jp.complete_all(ROWS[:5], cache=CACHE, workers=1, **server.options)
    assert all(answer.cached for answer in again)  # type: ignore[union-attr]
    was_whole = cut == 1  # only the end of the line is missing
    assert len(server.prompts) == (5 if was_whole else 6)


@pytest.mark.req("MAP-5")
@pytest.mark.parametrize(
    "content",
    [
        b"name,age\n",
        b"{}\n",
        b"\xff\xfe\n",
        b"[1]\n",
        b'{"a": 1}',
        b'{"cells": [',
        b"text",
        b"key",
        b'"',
        b'{"keys": 1}\n{"keys": 2}',
        b'{\n "cells": []\n}',
    ],
)
def test_other_file_is_refused_and_stays(server: RowServer, content: bytes) -> None:
    Path(CACHE).write_bytes(content)
    with pytest.raises(jp.StorageError, match="no cached answer"):
        jp.complete_all(ROWS, cache=CACHE, **server.options)
    assert Path(CACHE).read_bytes() == content
    assert not server.prompts


@pytest.mark.req("MAP-5")
@pytest.mark.parametrize("content", [b"{", b'{"ke', b'{"key":"', b'{"key":"0a1b'])
def test_file_with_the_beginning_of_its_first_line_is_continued(
    server: RowServer, content: bytes
) -> None:
    Path(CACHE).write_bytes(content)
    jp.complete_all(["a"], cache=CACHE, **server.options)
    assert Path(CACHE).read_bytes().startswith(content + b"\n{")
    [answer] = jp.complete_all(["a"], cache=CACHE, **server.options)
    assert answer.cached  # type: ignore[union-attr]  # it is found behind the broken line


@pytest.mark.req("MAP-5")
@pytest.mark.parametrize(
    "content",
    [b'{"key":"0a1b\n{"key":"2c', b'{"key":"0a1b","text":"' + b"x" * 8_000_000 + b'"}\n'],
    ids=["cut twice", "longer than the lines that are read"],
)
def test_file_whose_first_line_cannot_be_read_is_continued(
    server: RowServer, content: bytes
) -> None:
    Path(CACHE).write_bytes(content)
    for _ in range(2):
        [answer] = jp.complete_all(["a"], cache=CACHE, **server.options)
    assert answer.cached  # type: ignore[union-attr]
    assert Path(CACHE).read_bytes().startswith(content)


@pytest.mark.req("MAP-5")
def test_answer_of_the_file_that_does_not_fit_is_asked_again(server: RowServer) -> None:
    jp.complete_all(["a"], cache=CACHE, **server.options)
    stored = json.loads(Path(CACHE).read_text())
    Path(CACHE).write_text(json.dumps({**stored, "text": ["no text"]}) + "\n")
    [answer] = jp.complete_all(["a"], cache=CACHE, **server.options)
    assert answer.text == "A"  # type: ignore[union-attr]
    assert not answer.cached  # type: ignore[union-attr]


@pytest.mark.req("MAP-5")
def test_file_that_cannot_be_opened_is_an_error_before_anything_is_asked(
    server: RowServer,
) -> None:
    with pytest.raises(jp.StorageError, match="cannot be opened"):
        jp.complete_all(ROWS, cache="missing/answers.jsonl", **server.options)
    assert not server.prompts


@pytest.mark.req("MAP-5")
def test_full_disk_costs_no_answer(server: RowServer) -> None:
    code = f"""
import resource, signal
import jp_nb as jp
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
answers = jp.complete_all({ROWS!r}, cache={CACHE!r}, **{server.options!r})
assert all(answers), answers
"""
    command = [sys.executable, "-W", "default", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "<string>:6: UserWarning: later answers are not in the cache" in run.stderr


@pytest.mark.req("MAP-18")
def test_killed_program_loses_no_answer_that_was_paid_for() -> None:
    def slower(prompt: str, earlier: int) -> Reply:
        return Reply(text=prompt.upper(), delay=60 if prompt == "row 10" and not earlier else 0)

    with serve_rows(slower) as server:
        code = (
            "import jp_nb as jp\n"
            f"jp.complete_all({ROWS!r}, cache={CACHE!r}, workers=1, **{server.options!r})"
        )
        program = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        while "row 10" not in server.prompts:
            assert program.poll() is None
        program.send_signal(signal.SIGKILL)
        program.wait()
        answers = jp.complete_all(ROWS, cache=CACHE, workers=1, **server.options)
    assert [answer.text for answer in answers] == [row.upper() for row in ROWS]  # type: ignore[union-attr]
    assert sorted(server.prompts) == sorted([*ROWS, "row 10"])


@pytest.mark.req("MAP-5")
def test_two_programs_share_a_file(server: RowServer) -> None:
    options = {**server.options, "cache": CACHE}
    codes = [
        f"import jp_nb as jp; jp.complete_all({rows!r}, **{options!r})"
        for rows in (ROWS[:10], ROWS[10:])
    ]
    started = [subprocess.Popen([sys.executable, "-c", code]) for code in codes]
    assert [program.wait(60) for program in started] == [0, 0]
    again = jp.complete_all(ROWS, **options)
    assert all(answer.cached for answer in again)  # type: ignore[union-attr]
