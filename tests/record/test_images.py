"""Images and PDFs in a record: stored once, checked when read, dropped by forks that show none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from jp_nb.interop.files import read_directory, write_directory
from jp_nb.record import context
from jp_nb.record.clock import utc_now
from jp_nb.record.context import build_context
from jp_nb.record.conversation_fork import fork_conversation
from jp_nb.record.document import Document
from jp_nb.record.events import ToolCallPolicy
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turn_view import read_turn
from tests.kit.kinds import is_kind
from tests.kit.records import new_event
from tests.support.entries import ASKED, SAID, START, FakeClock, called, new_stream, raw, result
from tests.support.images import figure, pdf

MAX_IMAGE_BYTES = 3_750_000
MAX_IMAGE_SIDE = 2000
MAX_ENTRY_IMAGES = 100


ONE = figure("one", shade=1)
TWO = pdf("two")


def kept(image: jp.Image, **other: Any) -> dict[str, Any]:
    fields = {"digest": image.digest, "media_type": image.media_type, "name": image.name}
    return raw("image", **{**fields, "data": image.text, **other})


def showing(entry: dict[str, Any], *images: Any) -> dict[str, Any]:
    named = [image.digest if isinstance(image, jp.Image) else image for image in images]
    return {**entry, "metadata": {"images": named}}


def turn(*images: Any, before: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    return [START, ASKED, called(), *before, showing(result(), *images), SAID]


def branch_of(stream: ConversationStream, keep_turns: int | None = None) -> ConversationStream:
    return fork_conversation(
        stream, keep_turns=keep_turns, clock=FakeClock(), made="live", taken_ids=set()
    )


def ask(stream: ConversationStream, *images: jp.Image) -> None:
    stream.start_turn(new_event("chat_request", content="Look."), images)
    stream.append(new_event("chat_response", message="I see."))


def shown(thread: Any) -> list[jp.Image]:
    return [image for item in thread for image in item.images]


def text(thread: Any) -> str:
    found = [item.entry.content for item in thread if hasattr(item.entry, "content")]
    return "\n".join(found)


# --- what is not to be sent --------------------------------------------------------------------


def test_damaged_image_is_replaced_by_a_reason(subtests: pytest.Subtests) -> None:
    planted = jp.Image("image/png", b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\x7f" * 20)
    rows = [
        (ONE, kept(ONE, data=TWO.text), "the bytes do not match the digest"),
        (ONE, kept(ONE, data="🖼"), "it is not Base64"),
        (ONE, kept(ONE, data=ONE.text[:-3]), "it is not Base64"),
        (ONE, kept(ONE, data=f"@@@@{ONE.text}"), "it is not Base64"),
        (ONE, kept(ONE, media_type="image/jpeg"), "its bytes are not image/jpeg"),
        (ONE, kept(ONE, media_type="text/html"), "models accept image/png"),
        (ONE, kept(ONE, data="A" * (2 * MAX_IMAGE_BYTES)), f"longer than {MAX_IMAGE_BYTES} bytes"),
        (TWO, kept(TWO, media_type="image/png"), "its bytes are not image/png"),
        (planted, kept(planted), f"models accept at most {MAX_IMAGE_SIDE} pixels per side"),
    ]
    for image, entry, why in rows:
        with subtests.test(why=why):
            stream = new_stream(*turn(image, before=[entry]))
            thread = build_context(stream)
            assert not shown(thread)
            assert why in text(thread)
            assert "[1 image omitted, because its record" in text(thread)
            (call,) = read_turn(0, stream.entries, images=stream.images).tool_calls
            assert call.images == ()
            assert why in str(call.content)


def test_missing_image_is_replaced_by_a_note() -> None:
    thread = build_context(new_stream(*turn(ONE, "sha256:0", "", before=[kept(ONE)])))
    assert shown(thread) == [ONE]
    assert "[2 images omitted, because the record does not contain it]" in text(thread)


def test_metadata_without_a_list_of_digests_shows_no_image() -> None:
    rows: list[Any] = ["sha256:0", {"a": 1}, [None, 1, ["x"]], 7, None]
    for images in rows:
        entry = {**result(), "metadata": {"images": images}}
        thread = build_context(new_stream(START, ASKED, called(), entry))
        assert not shown(thread)
        assert "omitted" not in text(thread)


def test_damaged_image_does_not_hide_a_valid_copy() -> None:
    bad = kept(ONE, data=TWO.text)
    assert shown(build_context(new_stream(bad, *turn(ONE, before=[kept(ONE)])))) == [ONE]
    stream = new_stream(bad, *turn(ONE))
    assert not shown(build_context(stream))
    ask(stream, ONE)
    assert shown(build_context(stream)) == [ONE, ONE]


def test_number_and_size_of_images_in_a_request_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = turn(*[ONE] * MAX_ENTRY_IMAGES * 2, before=[kept(ONE)])
    thread = build_context(new_stream(*many, *turn(ONE)))
    assert len(shown(thread)) == MAX_ENTRY_IMAGES
    assert f"[{MAX_ENTRY_IMAGES} images omitted, because one entry shows at most" in text(thread)
    assert "`%jp new`" in text(thread)
    assert text(thread).count("omitted") == 2  # of the first turn, and of the second
    monkeypatch.setattr(context, "MAX_CONTEXT_IMAGE_BYTES", 3 * len(ONE.content))
    assert len(shown(build_context(new_stream(*many)))) == 3
    both = turn(*[ONE] * 4, TWO, before=[kept(ONE), kept(TWO)])
    assert "[1 image and 1 PDF omitted, because" in text(build_context(new_stream(*both)))


# --- one entry each ------------------------------------------------------------------------------


def test_image_is_stored_once_when_it_is_first_shown() -> None:
    stream = new_stream()
    ask(stream, ONE, TWO, ONE)
    ask(stream, ONE)
    first = ["turn_start", "image", "image", "chat_request", "chat_response"]
    again = ["turn_start", "chat_request", "chat_response"]
    assert [entry.type for entry in stream.entries] == [*first, *again]
    read = ConversationStream(stream.head, clock=FakeClock(), raw=list(stream.raw))
    assert shown(build_context(read)) == [ONE, TWO, ONE, ONE]
    assert not read.repair()


def test_images_belong_to_no_turn() -> None:
    stream = new_stream(kept(ONE), *turn(ONE), kept(TWO), *turn(TWO))
    assert stream.turn_count == 2
    assert not any(is_kind(entry, "image") for each in stream.turns() for entry in each.entries)
    last = stream.last_turn()
    assert last is not None
    assert read_turn(1, last.entries, images=stream.images).tool_calls[0].images == (TWO,)


def test_fork_keeps_the_images_that_its_turns_show() -> None:
    stream = new_stream(*turn(ONE, before=[kept(ONE)]), *turn(TWO, ONE, before=[kept(TWO)]))
    branch = branch_of(stream, 1)
    assert [entry.digest for entry in branch.entries if is_kind(entry, "image")] == [ONE.digest]
    assert branch_of(stream).raw == stream.raw
    ask(branch, ONE, TWO)  # the second one anew
    assert shown(build_context(branch)) == [ONE, ONE, TWO]
    assert sum(entry.type == "image" for entry in branch.entries) == 2


def test_compacted_response_shows_no_images() -> None:
    stream = new_stream(*turn(ONE, TWO, before=[kept(ONE), kept(TWO)]))
    policy = ToolCallPolicy(policy="strip", request=False, response=True)
    stream.append(new_event("compaction", from_turn=0, to_turn=0, tool_calls=policy))
    assert not shown(build_context(stream))
    assert "[compacted]" in text(build_context(stream))


def stored(events: list[Any]) -> dict[str, JsonValue]:
    return {"conversation": {"id": "jp-c17700000001", "made": "live"}, "events": events}


# --- other readers -------------------------------------------------------------------------------


def test_export_to_jp_drops_images_and_reports_them() -> None:
    other = {**showing(result(), ONE), "metadata": {"images": [ONE.digest], "more": 1}}
    events = [START, ASKED, called(), kept(ONE), other, showing(ASKED, ONE)]
    model: JsonValue = {"provider": "anthropic", "name": "m-1"}
    base: JsonValue = {
        "assistant": {"model": {"id": model}},
        "conversation": {"tools": {"*": {"run": "ask"}}},
    }
    written = write_directory(stored(events) | {"base_config": base}, dialect="jp-head")
    assert written.dropped == [
        "events[3]: JP has no images: omitted",
        "events[4-5].metadata.images: JP has no images: omitted",
    ]
    told = json.loads(written.files["events.json"])
    assert ONE.digest not in json.dumps(told)
    assert "image" not in [entry["type"] for entry in told]
    assert [entry.get("metadata") for entry in told][-2:] == [{"more": 1}, None]


def test_native_export_keeps_images() -> None:
    written = write_directory(stored(turn(ONE, TWO, before=[kept(ONE), kept(TWO)])))
    read = read_directory("17700000001", written.files, clock=utc_now)
    again = write_directory(read)
    assert again.files == written.files
    stream = Document.load(read, clock=utc_now).conversation
    assert shown(build_context(stream)) == [ONE, TWO]
