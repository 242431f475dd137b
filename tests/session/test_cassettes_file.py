"""A cassette in use: replayed exchanges, and recordings that replace or extend a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import jp_nb as jp
from tests.kit.cassettes import CassetteFile
from tests.kit.kinds import make
from tests.support.asked_requests import SPEC, asked, exchanges, requests, write_cassette


def test_final_failure_is_not_recorded_before_an_answer(tmp_path: Path) -> None:
    failed, good, *_ = exchanges()
    path = tmp_path / "a.jsonl"
    cassette = CassetteFile(path).open("replay-or-record")
    cassette.keep(failed)
    assert not path.exists()
    again = CassetteFile(path).open("replay-or-record")
    assert again.replay(failed.request) is None
    again.keep(failed)
    again.keep(good)
    last = CassetteFile(path).open("replay-or-record")
    assert [last.replay(failed.request), last.replay(failed.request)] == [failed, good]


def test_failures_of_growing_requests_are_written_and_replayed_in_their_order(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.jsonl"
    cassette = CassetteFile(path).open("replay-or-record")
    failed, good, *_ = exchanges()
    growing = [asked({**SPEC, "message": SPEC["message"][:count]}) for count in (1, 2, 3)]
    attempts = [make("exchange", request, failed.events, failed.end) for request in growing]
    attempts.append(make("exchange", growing[-1], good.events, good.end))
    for attempt in attempts:
        cassette.keep(attempt)

    assert CassetteFile(path).exchanges() == attempts
    again = CassetteFile(path).open("replay-or-record")
    assert [again.replay(attempt.request) for attempt in attempts] == attempts


def test_recording_without_an_answer_leaves_the_cassette_unchanged(tmp_path: Path) -> None:
    failed, good, _, incomplete = exchanges()
    path = write_cassette(tmp_path / "a.jsonl")
    before = path.read_bytes()
    cassette = CassetteFile(path).open("record")
    cassette.keep(failed)
    cassette.keep(incomplete)
    assert path.read_bytes() == before
    assert cassette.awaits_response
    cassette.keep(good)
    cassette.keep(failed)
    assert not cassette.awaits_response
    assert CassetteFile(path).exchanges() == [failed, incomplete, good, failed]


def test_recorded_final_failure_is_requested_again_when_recording(tmp_path: Path) -> None:
    failed = exchanges()[0]
    path = write_cassette(tmp_path / "a.jsonl", failed)
    assert CassetteFile(path).open().replay(failed.request) == failed
    assert CassetteFile(path).open("replay-or-record").replay(failed.request) is None


def test_replayed_error_is_raised_without_delay() -> None:
    error = make("failed_response", "busy", "rate_limit", 429, 20.0).make_error()
    assert (error.kind, error.status, error.retryable, error.retry_after) == (
        "rate_limit", 429, True, 0.0
    )  # fmt: skip
    final = make("failed_response", "no", "quota", 402).make_error()
    assert (final.retryable, final.retry_after) == (False, None)


def test_missing_cassette_is_an_error_in_replay_mode_only(tmp_path: Path) -> None:
    with pytest.raises(jp.StorageError, match="there is no cassette"):
        CassetteFile(tmp_path / "a.jsonl").open()
    for mode in ("record", "replay-or-record"):
        cassette = CassetteFile(tmp_path / "a.jsonl").open(mode)
        assert cassette.replay(requests()[0]) is None


def test_other_files_are_not_overwritten(tmp_path: Path, subtests: pytest.Subtests) -> None:
    rows: list[str] = ['{"cells": []}', "plain", '{"jp_nb":"cas', "\0\xff"]
    for content in rows:
        with subtests.test(content=content):
            path = tmp_path / "talk.ipynb"
            path.write_text(content, "utf-8")
            with pytest.raises(jp.StorageError, match="is not a cassette and is not overwritten"):
                CassetteFile(path).open("record")
            assert path.read_text("utf-8") == content


def test_damaged_cassette_can_be_recorded_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.jsonl"
    for content in ("", '{"jp_nb":"cassette","version":9}\n', '{"jp_nb":"cassette"}\nnonsense'):
        path.write_text(content, "utf-8")
        CassetteFile(path).open("record").keep(exchanges()[1])
        assert len(CassetteFile(path).exchanges()) == 1


def test_pipe_is_refused_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(jp.StorageError, match="a device or a pipe"):
        CassetteFile(path).open("record")
    assert path.is_fifo()
