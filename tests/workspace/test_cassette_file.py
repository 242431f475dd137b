"""Cassettes as files: what is written is read, and what was changed since is found."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from jp_nb.agent.asked_request import AskedRequest, part_of
from jp_nb.agent.exchange import BrokeOff, End, Exchange, Failed, Listening
from jp_nb.agent.model_events import (
    Finished,
    Flush,
    KeepAlive,
    ProviderEvent,
    Retry,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.config.tree.provider_config import CassetteMode
from jp_nb.errors import ProviderError, StorageError, UnrecordedError
from jp_nb.json_values import JsonObject, compact_json
from jp_nb.session.cassette_choice import CassetteChoice
from jp_nb.session.cassette_tape import CassetteTape
from jp_nb.workspace import cassette_writer
from jp_nb.workspace.cassette_file import HEADER, exchange_lines, part_line, read_cassette
from jp_nb.workspace.cassette_writer import CassetteWriter
from tests.support.asked_requests import SPEC, asked, changed

ANSWER: tuple[ProviderEvent, ...] = (
    Usage(input_tokens=10),
    TextPart(0, "message", 'Sunny — \u2028 "and" 24 °C\n'),
    Flush(0, {"signature": "c2ln", "deep": [{"a": None}]}),
    ToolCallStart(1, "call_1", "weather"),
    ToolCallArguments(1, '{"city": "Bern"}'),
    Flush(1),
)


def requests() -> list[AskedRequest]:
    """A conversation: its first request, the same again, one that goes on, another model."""
    first = {**SPEC, "message": SPEC["message"][:1]}
    return [asked(first), asked(first), asked(SPEC), asked(changed(SPEC, ("model",), "haiku"))]


def exchanges() -> list[Exchange]:
    ends: tuple[End, ...] = (
        Failed("busy", "rate_limit", 429, 20.0),
        Finished(),
        Retry("stale", drop_metadata="signature"),
        BrokeOff(),
    )
    return [Exchange(each, ANSWER, end) for each, end in zip(requests(), ends, strict=True)]


def written(path: Path, *given: Exchange) -> Path:
    writer = CassetteWriter(path)
    for each in given or exchanges():
        writer.add(each)
    return path


def replayed(path: Path) -> list[Exchange]:
    tape = CassetteTape(CassetteChoice("replay", path))
    found = [tape.replay(each) for each in requests()]
    return [each for each in found if each is not None]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl")
    assert replayed(path) == exchanges()
    content = read_cassette(path)
    assert [content.exchange(each) for each in content.exchanges] == exchanges()


def test_a_message_and_a_tool_stand_once_however_often_they_are_sent(tmp_path: Path) -> None:
    text = written(tmp_path / "a.jsonl").read_text("utf-8")
    assert text.count("How will it be in Bern?") == 1
    assert text.count("Tell the weather.") == 1


def edited(content: bytes, chance: random.Random) -> bytes:
    """`content` with one change of a kind that people, editors and merges make."""
    lines = content.splitlines(keepends=True)
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    place, size = chance.randrange(len(content)), chance.randrange(1, 40)
    match chance.randrange(7):
        case 0:
            flipped = bytes([content[place] ^ (1 << chance.randrange(8))])
            return content[:place] + flipped + content[place + 1 :]
        case 1:
            return content[:place] + content[place + size :]
        case 2:
            return content[:place] + chance.randbytes(size) + content[place:]
        case 3:
            return b"".join([*lines[:one], lines[other], *lines[one:]])
        case 4:
            del lines[one]
            return b"".join(lines)
        case 5:
            lines[one], lines[other] = lines[other], lines[one]
            return b"".join(lines)
    return content[:place]


def test_200_edits_give_a_clear_error_or_the_same_conversation(tmp_path: Path) -> None:
    content = written(tmp_path / "a.jsonl").read_bytes()
    chance, said = random.Random(20261123), list[str]()
    for _ in range(200):
        path = tmp_path / "edited.jsonl"
        path.write_bytes(edited(content, chance))
        try:
            assert replayed(path) == exchanges()
        except (StorageError, UnrecordedError) as exc:
            said.append(str(exc))
    assert len(said) > 100
    assert all("edited.jsonl" in text for text in said)
    assert all(text.startswith(("edited.jsonl:", "this request")) for text in said)


def test_line_ends_of_another_system_change_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert replayed(path) == exchanges()


def message_after(after: JsonValue) -> str:
    """A cassette whose message has the id that it would have if `after` were a text."""
    part = part_of("message", {"role": "user", "text": "Go on."}, str(after))
    line = compact_json({**part_line(part), "after": after})
    return f"{compact_json(HEADER)}\n{line}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: the file is empty"),
        ("{}", ":1: this is no cassette"),
        ("[1]", ":1: expected a JSON object"),
        ('{"jp_nb":"cassette","version":2}', ":1: this cassette is of version 2, and this jp_nb"),
        ('{"jp_nb":"cassette","version":1}\n{"x":1}', ":2: the line is neither a part"),
        ('{"jp_nb":"cassette","version":1}\n' + "[" * 5000, ":2: not JSON: nested too deeply"),
        ('{"jp_nb":"cassette","version":1}\n{"tool":"0","name":"x"}', ":2: this tool is not as"),
        ('{"jp_nb":"cassette","version":1}\n{"request":"0"}', ":2: this request is not as"),
        ('{"jp_nb":"cassette","version":1}\n\xff', ":2: not JSON"),
        (message_after(["x"]), ":2: the message says in no text what was said before it"),
    ],
)
def test_what_is_no_cassette_says_so_with_the_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(StorageError) as raised:
        read_cassette(path)
    assert str(raised.value).startswith(f"a.jsonl{said}")


# --- while it is recorded ----------------------------------------------------------------------


def inquiries() -> list[Exchange]:
    specs = [
        changed(SPEC, ("message", 8), {"user": f"Question {number}?", "inquiry": "ask.q"})
        for number in range(4)
    ]
    return [Exchange(asked(spec), ANSWER, Finished()) for spec in specs]


def test_inquiries_that_end_in_any_order_give_the_same_file(tmp_path: Path) -> None:
    first, last = exchanges()[1], exchanges()[2]
    one = written(tmp_path / "1.jsonl", first, *inquiries(), last)
    other = written(tmp_path / "2.jsonl", first, *reversed(inquiries()), last)
    assert one.read_bytes() == other.read_bytes()
    content = read_cassette(one)
    kinds = [content.asked(each).is_inquiry for each in content.exchanges]
    assert kinds == [False, True, True, True, True, False]


def test_a_recording_goes_on_behind_what_is_there(tmp_path: Path) -> None:
    first, second, *_ = exchanges()
    path = written(tmp_path / "a.jsonl", first)
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    CassetteWriter(path, read_cassette(path)).add(second)
    content = read_cassette(path)
    assert [content.exchange(each) for each in content.exchanges] == [first, second]


def test_inquiries_behind_a_line_that_did_not_end_are_brought_into_order(tmp_path: Path) -> None:
    first, last = exchanges()[1], exchanges()[2]
    path = written(tmp_path / "a.jsonl", first)
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    writer = CassetteWriter(path, read_cassette(path))
    for each in (*sorted(inquiries(), key=lambda one: one.asked.id, reverse=True), last):
        writer.add(each)
    assert (
        path.read_bytes() == written(tmp_path / "b.jsonl", first, *inquiries(), last).read_bytes()
    )


def test_an_inquiry_is_in_the_file_when_it_has_ended_and_is_written_twice_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = changed(SPEC, ("message", 8), {"user": "Question?", "inquiry": "ask.q"})
    many = [
        Exchange(asked(changed(spec, ("model",), f"m{number}")), ANSWER, Finished())
        for number in range(40)
    ]
    lines = list[Exchange]()

    def counted(exchange: Exchange) -> Iterator[JsonObject]:
        lines.append(exchange)
        return exchange_lines(exchange)

    monkeypatch.setattr(cassette_writer, "exchange_lines", counted)
    path = tmp_path / "a.jsonl"
    writer = CassetteWriter(path)
    for number, each in enumerate(many, 1):
        writer.add(each)
        assert len(read_cassette(path).exchanges) == number
    writer.add(exchanges()[2])
    assert len(lines) <= 2 * len(many) + 1


def test_two_that_record_on_one_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    one, other = CassetteWriter(path), CassetteWriter(path)
    one.add(exchanges()[0])
    other.add(exchanges()[0])  # it is as long as before
    with pytest.raises(StorageError, match="another program has written"):
        one.add(exchanges()[1])
    read_cassette(path)


def test_a_link_to_a_cassette_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "link.jsonl"
    (tmp_path / "a.jsonl").write_bytes(b"")
    path.symlink_to(tmp_path / "a.jsonl")
    CassetteWriter(path).add(exchanges()[0])
    assert path.is_symlink()
    assert len(read_cassette(tmp_path / "a.jsonl").exchanges) == 1


def test_a_pipe_is_no_cassette_and_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(StorageError, match="a device or a pipe"):
        CassetteTape(CassetteChoice("record", path))
    assert path.is_fifo()


def test_a_folder_that_cannot_be_written_to_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"file/a.jsonl cannot be written"):
        CassetteWriter(tmp_path / "file" / "a.jsonl").add(exchanges()[0])


def test_pieces_of_a_text_are_one_and_signs_of_life_are_none() -> None:
    listening = Listening(requests()[0])
    for event in (
        TextPart(0, "message", "a"),
        KeepAlive(),
        TextPart(0, "message", "b"),
        TextPart(1, "message", "c"),
        Usage(output_tokens=1),
        TextPart(1, "message", "d"),
    ):
        assert listening.hear(event) is None
    exchange = listening.hear(Finished("max_tokens"))
    assert exchange is not None
    assert exchange.events == (
        TextPart(0, "message", "ab"),
        TextPart(1, "message", "c"),
        Usage(output_tokens=1),
        TextPart(1, "message", "d"),
    )
    assert exchange.end == Finished("max_tokens")


def test_the_error_on_a_cassette_does_not_say_where_the_server_is() -> None:
    error = ProviderError(
        "cannot connect to llamacpp at http://intern.example:8080/v1/chat: the certificate is not "
        "that of Intern.example. See https://docs.intern.example/",
        kind="connect",
    )
    error.address = "http://intern.example:8080/v1/chat"
    end = Listening(requests()[0]).failed(error).end
    assert end == Failed(
        "cannot connect to llamacpp at [address]: the certificate is not that of [address]. "
        "See https://docs.intern.example/",
        "connect",
    )


# --- one that answers and is recorded ----------------------------------------------------------


def test_a_failure_that_is_the_end_is_not_replayed_for_ever(tmp_path: Path) -> None:
    failed, good, *_ = exchanges()
    choice = CassetteChoice("replay-or-record", tmp_path / "a.jsonl")
    tape = CassetteTape(choice)
    tape.keep(failed)
    assert not choice.path or not choice.path.exists()
    again = CassetteTape(choice)
    assert again.replay(failed.asked) is None
    again.keep(failed)
    again.keep(good)
    last = CassetteTape(choice)
    assert [last.replay(failed.asked), last.replay(failed.asked)] == [failed, good]


def test_a_recording_without_an_answer_leaves_the_cassette_as_it_was(tmp_path: Path) -> None:
    failed, good, _, broke_off = exchanges()
    path = written(tmp_path / "a.jsonl")
    before = path.read_bytes()
    tape = CassetteTape(CassetteChoice("record", path))
    tape.keep(failed)
    tape.keep(broke_off)
    assert path.read_bytes() == before
    assert tape.is_unanswered
    tape.keep(good)
    tape.keep(failed)
    assert not tape.is_unanswered
    content = read_cassette(path)
    kept = [content.exchange(each) for each in content.exchanges]
    assert kept == [failed, broke_off, good, failed]


def test_a_recorded_failure_that_is_the_end_is_asked_again(tmp_path: Path) -> None:
    failed = exchanges()[0]
    path = written(tmp_path / "a.jsonl", failed)
    assert CassetteTape(CassetteChoice("replay", path)).replay(failed.asked) == failed
    assert CassetteTape(CassetteChoice("replay-or-record", path)).replay(failed.asked) is None


def test_a_recorded_error_is_raised_again_at_once() -> None:
    error = Failed("busy", "rate_limit", 429, 20.0).error()
    assert (error.kind, error.status, error.retryable, error.retry_after) == (
        "rate_limit", 429, True, 0.0
    )  # fmt: skip
    final = Failed("no", "quota", 402).error()
    assert (final.retryable, final.retry_after) == (False, None)


def test_a_missing_cassette_is_an_error_in_a_replay_alone(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no cassette"):
        CassetteTape(CassetteChoice("replay", tmp_path / "a.jsonl"))
    modes: tuple[CassetteMode, ...] = ("record", "replay-or-record")
    for mode in modes:
        tape = CassetteTape(CassetteChoice(mode, tmp_path / "a.jsonl"))
        assert tape.replay(requests()[0]) is None


@pytest.mark.parametrize("content", ['{"cells": []}', "plain", '{"jp_nb":"cas', "\0\xff"])
def test_what_is_no_cassette_is_not_written_over(tmp_path: Path, content: str) -> None:
    path = tmp_path / "talk.ipynb"
    path.write_text(content, "utf-8")
    with pytest.raises(StorageError, match="is no cassette, and is not written over"):
        CassetteTape(CassetteChoice("record", path))
    assert path.read_text("utf-8") == content


def test_a_cassette_is_recorded_anew_also_if_it_is_damaged_or_of_another_version(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.jsonl"
    for content in ("", '{"jp_nb":"cassette","version":9}\n', '{"jp_nb":"cassette"}\nnonsense'):
        path.write_text(content, "utf-8")
        CassetteTape(CassetteChoice("record", path)).keep(exchanges()[1])
        assert len(read_cassette(path).exchanges) == 1
