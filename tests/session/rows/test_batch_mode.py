"""Rows that the batch API of a provider answers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import jp_nb as jp
from tests.session.rows.batch_server import BatchServer, serve_batches

KINDS = ("anthropic", "responses", "chat")
ROWS = [f"row {number}" for number in range(5)]
CACHE = "answers.jsonl"
BATCH: dict[str, Any] = {"mode": "batch", "cache": CACHE, "poll_seconds": 0.01, "progress": False}


@pytest.fixture(autouse=True)
def keys(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "test-key-of-24-characters")


@pytest.fixture
def server() -> Iterator[BatchServer]:
    """A server that answers with the prompt in capital letters, at once."""
    with serve_batches(str.upper) as running:
        running.is_done.set()
        yield running


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def texts(answers: Any) -> list[str]:
    return [answer.text if answer else answer.reason for answer in answers]


@pytest.mark.req("MAP-12")
def test_batch_answers_all_rows_in_their_order(server: BatchServer, kind: str) -> None:
    answers = jp.complete_all([*ROWS, "row 1", ""], **server.options(kind), **BATCH)
    assert texts(answers) == [*map(str.upper, ROWS), "ROW 1", "prompt"]
    assert not answers.partial
    assert (answers.usage.input_tokens, answers.usage.output_tokens) == (50, 10)
    [batch] = server.batches
    assert len(batch.requests) == len(ROWS)  # equal rows are asked once
    assert not any("stream" in body for body in batch.requests.values())


@pytest.mark.req("MAP-12")
def test_second_call_submits_only_what_is_missing(server: BatchServer, kind: str) -> None:
    jp.complete_all(ROWS[:3], **server.options(kind), **BATCH)
    answers = jp.complete_all(ROWS, **server.options(kind), **BATCH)
    assert texts(answers) == [*map(str.upper, ROWS)]
    assert [answer.cached for answer in answers] == [True] * 3 + [False] * 2  # type: ignore[union-attr]
    assert [len(batch.requests) for batch in server.batches] == [3, 2]


class Mood(BaseModel):
    mood: Literal["good", "bad"]


@pytest.mark.req("MAP-12")
def test_poisoned_rows_are_failures_and_are_submitted_again(kind: str) -> None:
    def answer(prompt: str) -> str | dict[str, Any]:
        if "error" in prompt:
            return {"type": "invalid_request_error", "message": "cannot do this one"}
        mood = "great" if "misfit" in prompt else "good"
        return json.dumps({"mood": mood})

    rows = ["fine", "error", "misfit"]
    with serve_batches(answer) as server:
        server.is_done.set()
        options = {**server.options(kind), **BATCH, "schema": Mood}
        answers = jp.complete_all(rows, **options)
        assert [answer.data for answer in answers if answer] == [Mood(mood="good")]  # type: ignore[union-attr]
        assert [(each.index, each.reason) for each in answers.failures] == [
            (1, "error"),
            (2, "invalid"),
        ]
        assert "cannot do this one" in answers.failures[0].message
        jp.complete_all(rows, **options)
        assert [len(batch.requests) for batch in server.batches] == [3, 2]

        with pytest.raises(jp.ProviderError, match="cannot do this one") as raised:
            jp.complete_all(rows, errors="raise", **options)
        assert raised.value.__notes__ == ["This is row 1, counted from 0."]


PROGRAM = """
import sys
import jp_nb as jp
jp.complete_all(sys.argv[3:], model=sys.argv[1], cfg=sys.argv[2].split(), mode="batch",
                cache="answers.jsonl", poll_seconds=0.01)
"""


@pytest.mark.req("MAP-12", "MAP-18")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_another_process_finds_the_answers_of_a_batch(
    end: signal.Signals, bare_folder: Path
) -> None:
    with serve_batches(str.upper) as server:
        options = server.options("anthropic")
        command = [sys.executable, "-c", PROGRAM, options["model"], " ".join(options["cfg"]), *ROWS]
        process = subprocess.Popen(command, cwd=bare_folder)
        try:
            assert server.was_asked.wait(60)
            process.send_signal(end)
            assert process.wait(60) == (-signal.SIGKILL if end is signal.SIGKILL else 0)
        finally:
            process.kill()
            process.wait()

        server.is_done.set()
        answers = jp.complete_all([*ROWS, "new"], **options, **BATCH)
        assert texts(answers) == [*map(str.upper, ROWS), "NEW"]
        assert [len(batch.requests) for batch in server.batches] == [5, 1]


def ask_and_interrupt(
    server: BatchServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> jp.Completions:
    """Submit the rows as a batch, and interrupt the wait for its answers."""

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("time.sleep", interrupt)
        return jp.complete_all(ROWS, **server.options(kind), **BATCH)


@pytest.mark.req("MAP-12")
def test_interrupt_ends_the_wait_and_names_the_way_to_the_answers(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_batches(str.upper) as server:
        answers = ask_and_interrupt(server, kind, monkeypatch)
        assert answers.partial
        assert {failure.reason for failure in answers.failures} == {"interrupted"}
        assert "Call again with the same cache file" in answers.failures[0].message
        assert not server.batches[0].is_cancelled

        cancel = {key: server.options(kind)[key] for key in ("model", "cfg")}
        assert jp.cancel_batch(CACHE, **cancel) == 1
        assert server.batches[0].is_cancelled


@pytest.mark.req("MAP-12")
def test_batch_that_this_key_does_not_find_is_kept_until_it_is_cancelled(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_batches(str.upper) as server:
        ask_and_interrupt(server, kind, monkeypatch)

        server.unknown = True
        answers = jp.complete_all(ROWS, **server.options(kind), **BATCH)
        assert {failure.reason for failure in answers.failures} == {"error"}
        assert "does not know the batch" in answers.failures[0].message
        assert "use that of the project" in answers.failures[0].message

        server.unknown = False
        server.is_done.set()
        assert texts(jp.complete_all(ROWS, **server.options(kind), **BATCH)) == [
            *map(str.upper, ROWS)
        ]
        assert len(server.batches) == 1


@pytest.mark.req("MAP-12")
def test_deleted_batch_is_submitted_again_after_it_was_cancelled(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_batches(str.upper) as server:
        ask_and_interrupt(server, kind, monkeypatch)

        server.unknown = True
        cancel = {key: server.options(kind)[key] for key in ("model", "cfg")}
        assert jp.cancel_batch(CACHE, **cancel) == 0

        server.unknown = False
        server.is_done.set()
        assert texts(jp.complete_all(ROWS, **server.options(kind), **BATCH)) == [
            *map(str.upper, ROWS)
        ]
        assert len(server.batches) == 2


@pytest.mark.req("MAP-12")
def test_rejected_batch_gives_its_reason_to_each_row() -> None:
    with serve_batches(str.upper) as server:
        server.problem = "the file has a request for another model"
        answers = jp.complete_all(ROWS, **server.options("responses"), **BATCH)
    assert len(answers.failures) == len(ROWS)
    assert "another model" in answers.failures[0].message


@pytest.mark.req("MAP-12")
@pytest.mark.parametrize("batch_id", ["../models", "a/../../files", "a?b", "x" * 300, ""])
def test_id_of_a_batch_from_a_file_is_no_part_of_another_address(
    server: BatchServer, kind: str, batch_id: str
) -> None:
    jp.complete_all(["other"], **server.options(kind), **BATCH)
    lines = [json.loads(line) for line in Path(CACHE).read_text().splitlines()]
    [batch] = [line for line in lines if "rows" in line]
    batch["key"] = f"batch:{batch_id}"
    Path(CACHE).write_text(json.dumps(batch) + "\n", encoding="utf-8")

    asked = len(server.sent_headers)
    answers = jp.complete_all(["other"], **server.options(kind), **BATCH)
    assert "is no id of a batch" in answers.failures[0].message
    assert len(server.sent_headers) == asked


@pytest.mark.req("MAP-12")
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cache": None}, 'needs `cache="answers.jsonl"`'),
        ({"max_total_tokens": 10}, "limit single requests"),
        ({"max_concurrent": 2}, "limit single requests"),
        ({"poll_seconds": 0}, "`poll_seconds` is a number of seconds"),
        ({"poll_seconds": True}, "`poll_seconds` is a number of seconds"),
        ({"mode": "night"}, '`mode` is "live" or "batch"'),
    ],
)
def test_options_that_do_not_fit_are_refused(
    server: BatchServer, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(jp.UsageError, match=message):
        jp.complete_all(ROWS, **{**server.options("chat"), **BATCH, **changed})
    assert not server.batches


@pytest.mark.req("MAP-12")
def test_server_without_a_batch_api_is_named(bare_folder: Path) -> None:
    (bare_folder / "rows.toml").write_text('[[replies]]\ntext = "a"\n', encoding="utf-8")
    with pytest.raises(jp.UsageError, match="scripted has no batch API"):
        jp.complete_all(ROWS, model="scripted/rows", **BATCH)
    with pytest.raises(jp.UsageError, match="there is no file other"):
        jp.cancel_batch("other.jsonl")


@pytest.mark.req("MAP-12")
def test_key_is_in_the_header_alone(server: BatchServer, kind: str) -> None:
    jp.complete_all(ROWS, **server.options(kind), **BATCH)
    assert all("test-key-of-24-characters" in str(headers) for headers in server.sent_headers)
    assert "test-key" not in Path(CACHE).read_text(encoding="utf-8")


def test_official_clients_understand_the_server(server: BatchServer) -> None:
    anthropic = pytest.importorskip("anthropic")
    openai = pytest.importorskip("openai")
    message = {"role": "user", "content": "row"}
    body: Any = {"model": "test-model", "max_tokens": 9, "messages": [message]}

    claude = anthropic.Anthropic(base_url=server.url, api_key="key")
    batches = claude.messages.batches
    created = batches.create(requests=[{"custom_id": "a", "params": body}])
    assert batches.retrieve(created.id).processing_status == "ended"
    server_url = f"{server.url}/v1/messages/batches/{created.id}/results"
    assert claude.get(server_url, cast_to=bytes).endswith(b"}")
    assert batches.cancel(created.id).id == created.id

    chat = openai.OpenAI(base_url=f"{server.url}/v1", api_key="key")
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    file = chat.files.create(file=("a.jsonl", json.dumps(line).encode()), purpose="batch")
    submitted = chat.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    ended = chat.batches.retrieve(submitted.id)
    assert ended.status == "completed"
    assert ended.output_file_id is not None
    assert "ROW" in chat.files.content(ended.output_file_id).text
