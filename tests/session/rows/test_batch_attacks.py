"""Batches of rows at a server that lies, is slow, or sends too much."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.session.rows.batch_server import BatchServer, Sent, serve_batches

ROWS = [f"row {number}" for number in range(4)]
ANSWERS = [row.upper() for row in ROWS]
CACHE = "answers.jsonl"
BATCH: dict[str, Any] = {"mode": "batch", "cache": CACHE, "poll_seconds": 0.01, "progress": False}
Change = Callable[[str, bytes], bytes | Sent]


@pytest.fixture(autouse=True)
def keys(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "test-key-of-24-characters")


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with serve_batches(str.upper) as running:
        running.is_done.set()
        yield running


@pytest.fixture(params=["anthropic", "responses", "chat"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def is_list(path: str) -> bool:
    """Return True for the address of a list of answers."""
    return path.endswith(("/results", "/content"))


def change_lines(change: Callable[[list[bytes]], list[bytes]]) -> Change:
    """Return a change of the lines of each list of answers."""

    def apply(path: str, content: bytes) -> bytes:
        return b"\n".join(change(content.split(b"\n"))) if is_list(path) else content

    return apply


def change_state(**fields: Any) -> Change:
    """Return a change of the fields in each state of a batch."""

    def apply(path: str, content: bytes) -> bytes:
        is_state = "/batches" in path and not is_list(path)
        return json.dumps({**json.loads(content), **fields}).encode() if is_state else content

    return apply


def ask(server: BatchServer, kind: str, rows: list[str] = ROWS) -> Any:
    return jp.complete_all(rows, **server.options(kind), **BATCH)


def texts(answers: Any) -> list[str]:
    return [answer.text if answer else answer.reason for answer in answers]


@pytest.mark.req("MAP-12")
def test_answers_to_unknown_rows_and_second_answers_do_not_count(
    server: BatchServer, kind: str
) -> None:
    def repeat(lines: list[bytes]) -> list[bytes]:
        foreign = [lines[0].replace(b'"custom_id": "', b'"custom_id": "x')]
        others = [line.replace(b"ROW", b"LIE") for line in lines]
        odd = [b"[]", b"7", b"{}", b'{"custom_id": ["row"]}']
        return [*foreign, *odd, lines[0], others[0], *lines[1:], *others]

    server.change = change_lines(repeat)
    answers = ask(server, kind)
    assert texts(answers) == ANSWERS
    assert answers.usage.input_tokens == 10 * len(ROWS)
    stored = [json.loads(line) for line in Path(CACHE).read_text().splitlines()]
    assert len([line for line in stored if "prompt" in line]) == len(ROWS)


@pytest.mark.req("MAP-12")
def test_damaged_line_costs_its_row_and_a_later_call_gets_the_answer(
    server: BatchServer, kind: str
) -> None:
    server.change = change_lines(lambda lines: [lines[0][:-9], b"[" * 9_000, *lines[1:]])
    answers = ask(server, kind)
    assert texts(answers) == [*ANSWERS[:3], "error"]  # the server answers in the opposite order
    assert "instead of JSON" in answers.failures[0].message

    server.change = change_lines(list)
    assert texts(ask(server, kind)) == ANSWERS
    assert len(server.batches) == 1


@pytest.mark.req("MAP-12")
def test_list_of_a_gigabyte_takes_little_memory(server: BatchServer, kind: str) -> None:
    """A tenth of it here: memory must not depend on the length of the list."""
    foreign = json.dumps({"custom_id": "other", "result": "x" * 1_000_000}).encode() + b"\n"

    def send_much(path: str, content: bytes) -> bytes | Sent:
        return Sent([foreign] * 100 + [content]) if is_list(path) else content

    server.change = send_much
    tracemalloc.start()
    try:
        assert texts(ask(server, kind)) == ANSWERS
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30_000_000


@pytest.mark.req("MAP-12")
def test_line_without_an_end_is_not_read(server: BatchServer) -> None:
    def send_long(path: str, content: bytes) -> bytes | Sent:
        return Sent([b"x" * 1_000_000] * 100) if is_list(path) else content

    server.change = send_long
    answers = ask(server, "chat")
    assert texts(answers) == ["error"] * len(ROWS)
    assert "a line of more than 16 MiB" in answers.failures[0].message
    server.change = change_lines(list)
    assert texts(ask(server, "chat")) == ANSWERS


@pytest.mark.req("MAP-12")
def test_endless_list_is_left(server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "jp_nb.providers.anthropic.anthropic_batches.AnthropicBatches.max_requests"
    monkeypatch.setattr(name, 100)
    server.change = change_lines(lambda lines: [b'{"custom_id": "x"}'] * 101 + lines)
    answers = ask(server, "anthropic")
    assert "sent more than 100 answers of one batch" in answers.failures[0].message


@pytest.mark.req("MAP-12")
@pytest.mark.parametrize("is_of_list", [False, True])
def test_key_and_rows_follow_no_redirect(
    server: BatchServer, kind: str, *, is_of_list: bool
) -> None:
    with serve_batches(str.upper) as other:

        def redirect(path: str, content: bytes) -> bytes | Sent:
            is_state = "/batches/" in path and not is_list(path)
            if is_list(path) if is_of_list else is_state:
                return Sent((), 302, {"location": f"{other.url}{path}", "content-length": "0"})
            return content

        server.change = redirect
        with pytest.raises(jp.ProviderError, match="302"):
            ask(server, kind)
        assert not other.paths

    server.change = change_lines(list)
    assert texts(ask(server, kind)) == ANSWERS
    assert len(server.batches) == 1


@pytest.mark.parametrize(
    "given", ["../files", "http://127.0.0.1/x", "a/b", "..", "a b", "", 7, None]
)
@pytest.mark.req("MAP-12")
def test_id_from_the_server_is_no_part_of_another_address(
    server: BatchServer, kind: str, given: Any
) -> None:
    server.change = change_state(id=given)
    with pytest.raises(jp.ProviderError, match="without the id of the batch"):
        ask(server, kind)
    assert len(server.paths) == (1 if kind == "anthropic" else 2)


@pytest.mark.req("MAP-12")
@pytest.mark.parametrize("given", ["../batches", "http://127.0.0.1/x", "a/b", "..", None])
def test_list_without_an_address_leaves_the_batch_open(server: BatchServer, given: Any) -> None:
    server.change = change_state(output_file_id=given)
    answers = ask(server, "chat")
    assert "names no list of answers that can be read" in answers.failures[0].message
    assert not any("/content" in path for path in server.paths)

    server.change = change_lines(list)
    assert texts(ask(server, "chat")) == ANSWERS
    assert len(server.batches) == 1


@pytest.mark.req("MAP-12")
def test_id_with_dots_and_colons_is_one(server: BatchServer) -> None:
    state = {"id": "batch:eu.1-a"}
    server.change = change_state(**state)
    answers = ask(server, "anthropic")
    assert server.paths[-1] == "/v1/messages/batches/batch:eu.1-a"
    assert "does not know the batch" in answers.failures[0].message


@pytest.mark.req("MAP-12")
def test_expired_requests_are_failures_and_are_submitted_again(server: BatchServer) -> None:
    def expire(lines: list[bytes]) -> list[bytes]:
        name = json.loads(lines[0])["custom_id"]
        expired = {"custom_id": name, "result": {"type": "expired"}}
        return [json.dumps(expired).encode(), *lines[1:]]

    server.change = change_lines(expire)
    answers = ask(server, "anthropic")
    assert texts(answers) == [*ANSWERS[:3], "error"]
    assert "did not answer within 24 hours" in answers.failures[0].message
    server.change = change_lines(list)
    assert texts(ask(server, "anthropic")) == ANSWERS
    assert [len(batch.requests) for batch in server.batches] == [4, 1]


@pytest.mark.req("MAP-12")
def test_expired_batch_keeps_the_answers_that_it_has(server: BatchServer) -> None:
    drop = change_lines(lambda lines: lines[1:])

    def expire(path: str, content: bytes) -> bytes | Sent:
        return (
            drop(path, content) if is_list(path) else change_state(status="expired")(path, content)
        )

    server.change = expire
    answers = ask(server, "chat")
    assert texts(answers) == [*ANSWERS[:3], "error"]
    assert "has no answer for it" in answers.failures[0].message


@pytest.mark.req("MAP-12")
def test_server_that_hangs_within_a_list_is_asked_again(
    server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jp_nb.providers.batch_api.BATCH_SECONDS", 1.0)
    lists = 0

    def hang(path: str, content: bytes) -> bytes | Sent:
        nonlocal lists
        lists += is_list(path)
        return Sent(send_slowly(content)) if is_list(path) and lists == 1 else content

    def send_slowly(content: bytes) -> Iterator[bytes]:
        first, _, rest = content.partition(b"\n")
        yield first + b"\n"
        time.sleep(5)
        yield rest

    server.change = hang
    assert texts(ask(server, "chat")) == ANSWERS
    assert lists == 2


@pytest.mark.req("MAP-12")
def test_row_that_is_too_large_for_a_batch_fails_alone(
    server: BatchServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jp_nb.providers.batch_api.HttpBatches.max_bytes", 8_000)
    answers = ask(server, kind, ["short", "é" * 1_000, "ü" * 4_500, "last"])
    assert texts(answers) == ["SHORT", "É" * 1_000, "too_long", "LAST"]


@pytest.mark.req("MAP-12")
def test_unknown_batch_does_not_keep_others_from_being_cancelled(
    server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    server.is_done.clear()
    with monkeypatch.context() as patched:
        patched.setattr("time.sleep", interrupt)
        ask(server, "chat", ["first"])
        ask(server, "chat", ["second"])
    server.batches[0].id = "forgotten"
    options = server.options("chat")
    assert jp.cancel_batch(CACHE, model=options["model"], cfg=options["cfg"]) == 1
    assert server.batches[1].is_cancelled


@pytest.mark.req("MAP-12")
def test_batch_whose_id_cannot_be_kept_is_named(
    server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(cache: Any, batch: Any) -> None:
        raise jp.StorageError("the disk is full")

    name = "jp_nb.session.rows.completion_cache.CompletionCache.add_batch"
    monkeypatch.setattr(name, fail)
    with pytest.raises(jp.StorageError) as raised:
        ask(server, "chat")
    assert "batch_0 was submitted" in raised.value.__notes__[0]
