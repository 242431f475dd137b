"""Cassettes as files: written, read back, and checked for later edits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.storage.cassettes import cassette_writer
from tests.kit.cassettes import CassetteFile
from tests.kit.kinds import make
from tests.kit.models import model_event
from tests.support.asked_requests import (
    ANSWER,
    SPEC,
    asked,
    changed,
    exchanges,
    requests,
    write_cassette,
)


def replayed(path: Path) -> list[Any]:
    tape = CassetteFile(path).open()
    found = [tape.replay(each) for each in requests()]
    return [each for each in found if each is not None]


def test_written_cassette_is_read_back(tmp_path: Path) -> None:
    path = write_cassette(tmp_path / "a.jsonl")
    assert replayed(path) == exchanges()
    assert CassetteFile(path).exchanges() == exchanges()


def test_each_message_and_tool_is_stored_once(tmp_path: Path) -> None:
    text = write_cassette(tmp_path / "a.jsonl").read_text("utf-8")
    assert text.count("How will it be in Bern?") == 1
    assert text.count("Tell the weather.") == 1


def edited(content: bytes, chance: random.Random) -> bytes:
    """`content` with one change of a kind that people, editors and merges make."""
    lines = content.splitlines(keepends=True)
    one = chance.randrange(len(lines))
    other = chance.randrange(len(lines))
    place = chance.randrange(len(content))
    size = chance.randrange(1, 40)
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
    content = write_cassette(tmp_path / "a.jsonl").read_bytes()
    chance = random.Random(20261123)
    said = list[str]()
    for _ in range(200):
        path = tmp_path / "edited.jsonl"
        path.write_bytes(edited(content, chance))
        try:
            assert replayed(path) == exchanges()
        except jp.JpNbError as exc:
            said.append(str(exc))
    assert len(said) > 100
    assert all("edited.jsonl" in text for text in said)
    assert all(text.startswith(("edited.jsonl:", "this request")) for text in said)


def test_cassette_with_windows_line_ends_is_read(tmp_path: Path) -> None:
    path = write_cassette(tmp_path / "a.jsonl")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert replayed(path) == exchanges()


# Its id is that of a message after the text `['x']`.
AFTER_A_LIST = (
    '{"jp_nb":"cassette","version":1}\n'
    '{"message":"a3613a612bb71a9dd566","role":"user","text":"Continue.","after":["x"]}\n'
)


def test_errors_of_a_malformed_cassette_name_the_line(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[str, str]] = [
        ("", ":1: the file is empty"),
        ("\n\n", ":1: the file is empty"),
        ('\n{"request":"0"}', ":2: this is not a cassette"),
        ("{}", ":1: this is not a cassette"),
        ("[1]", ":1: expected a JSON object"),
        ('{"jp_nb":"cassette","version":2}', ":1: this cassette has version 2, and this jp_nb"),
        ('{"jp_nb":"cassette","version":1}\n{"x":1}', ":2: the line is not a part"),
        (
            '{"jp_nb":"cassette","version":1}\n' + "[" * 5000 + "]" * 5000,
            ":2: not JSON: nested too deeply",
        ),
        ('{"jp_nb":"cassette","version":1}\n{"tool":"0","name":"x"}', ":2: this tool was changed"),
        ('{"jp_nb":"cassette","version":1}\n{"request":"0"}', ":2: this request was changed"),
        ('{"jp_nb":"cassette","version":1}\n\xff', ":2: not JSON"),
        (AFTER_A_LIST, ":2: `after` of the message is not a text"),
    ]
    for text, said in rows:
        with subtests.test(text=text):
            path = tmp_path / "a.jsonl"
            path.write_text(text, "utf-8")
            with pytest.raises(jp.StorageError) as raised:
                CassetteFile(path).exchanges()
            assert str(raised.value).startswith(f"a.jsonl{said}")


# --- while it is recorded ----------------------------------------------------------------------


def inquiries() -> list[Any]:
    specs = [
        changed(SPEC, ("message", 8), {"user": f"Question {number}?", "inquiry": "ask.q"})
        for number in range(4)
    ]
    end = model_event("finished")
    return [make("exchange", asked(spec), ANSWER, end) for spec in specs]


def test_inquiries_that_end_in_any_order_give_the_same_file(tmp_path: Path) -> None:
    first = exchanges()[1]
    last = exchanges()[2]
    one = write_cassette(tmp_path / "1.jsonl", first, *inquiries(), last)
    other = write_cassette(tmp_path / "2.jsonl", first, *reversed(inquiries()), last)
    assert one.read_bytes() == other.read_bytes()
    kinds = [each.request.is_inquiry for each in CassetteFile(one).exchanges()]
    assert kinds == [False, True, True, True, True, False]


def test_recording_appends_to_an_existing_cassette(tmp_path: Path) -> None:
    first, second, *_ = exchanges()
    path = write_cassette(tmp_path / "a.jsonl", first)
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    CassetteFile(path).writer(continued=True).add(second)
    assert CassetteFile(path).exchanges() == [first, second]


def test_inquiries_after_a_line_without_an_end_are_sorted(tmp_path: Path) -> None:
    first = exchanges()[1]
    last = exchanges()[2]
    path = write_cassette(tmp_path / "a.jsonl", first)
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    writer = CassetteFile(path).writer(continued=True)
    for each in (*sorted(inquiries(), key=lambda one: one.request.id, reverse=True), last):
        writer.add(each)
    assert (
        path.read_bytes()
        == write_cassette(tmp_path / "b.jsonl", first, *inquiries(), last).read_bytes()
    )


def test_inquiry_is_written_at_once_and_at_most_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = changed(SPEC, ("message", 8), {"user": "Question?", "inquiry": "ask.q"})
    many = []
    for number in range(40):
        request = asked(changed(spec, ("model",), f"m{number}"))
        many.append(make("exchange", request, ANSWER, model_event("finished")))
    lines: list[Any] = []

    block = cassette_writer._format_exchanges

    def counted(
        exchanges: Sequence[Any], *known: set[tuple[str, str]]
    ) -> tuple[bytes, set[tuple[str, str]]]:
        lines.extend(exchanges)
        return block(exchanges, *known)

    monkeypatch.setattr(cassette_writer, "_format_exchanges", counted)
    path = tmp_path / "a.jsonl"
    writer = CassetteFile(path).writer()
    for number, each in enumerate(many, 1):
        writer.add(each)
        assert len(CassetteFile(path).exchanges()) == number
    writer.add(exchanges()[2])
    assert len(lines) <= 2 * len(many) + 1


def test_two_writers_of_one_cassette_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    one = CassetteFile(path).writer()
    other = CassetteFile(path).writer()
    one.add(exchanges()[0])
    other.add(exchanges()[0])  # it is as long as before
    with pytest.raises(jp.StorageError, match="another program wrote"):
        one.add(exchanges()[1])
    CassetteFile(path).exchanges()


def test_link_to_a_cassette_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "link.jsonl"
    (tmp_path / "a.jsonl").write_bytes(b"")
    path.symlink_to(tmp_path / "a.jsonl")
    CassetteFile(path).writer().add(exchanges()[0])
    assert path.is_symlink()
    assert len(CassetteFile(tmp_path / "a.jsonl").exchanges()) == 1


def test_error_of_an_unwritable_folder_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(jp.StorageError, match=r"file/a.jsonl cannot be written"):
        CassetteFile(tmp_path / "file" / "a.jsonl").writer().add(exchanges()[0])


def test_text_deltas_are_joined_and_keep_alives_are_omitted() -> None:
    listening = make("exchange_recorder", requests()[0])
    for event in (
        model_event("text", 0, "message", "a"),
        model_event("keep_alive"),
        model_event("text", 0, "message", "b"),
        model_event("text", 1, "message", "c"),
        model_event("usage", output_tokens=1),
        model_event("text", 1, "message", "d"),
    ):
        assert listening.on_event(event) is None
    exchange = listening.on_event(model_event("finished", "max_tokens"))
    assert exchange is not None
    assert exchange.events == (
        model_event("text", 0, "message", "ab"),
        model_event("text", 1, "message", "c"),
        model_event("usage", output_tokens=1),
        model_event("text", 1, "message", "d"),
    )
    assert exchange.end == model_event("finished", "max_tokens")


def test_recorded_error_hides_the_address_of_the_server() -> None:
    error = jp.ProviderError(
        "cannot connect to llamacpp at http://intern.example:8080/v1/chat: the certificate is not "
        "that of Intern.example. See https://docs.intern.example/",
        kind="connect",
    )
    error.address = "http://intern.example:8080/v1/chat"
    end = make("exchange_recorder", requests()[0]).end_failed(error).end
    assert end == make(
        "failed_response",
        "cannot connect to llamacpp at [address]: the certificate is not that of [address]. "
        "See https://docs.intern.example/",
        "connect",
    )
