"""Images and PDFs in a record: stored once, checked when read, dropped by forks that show none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind
from tests.kit.record_view import RecordView
from tests.kit.records import new_event
from tests.support.entries import ASKED, SAID, START, called, new_stream, raw, result
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


def ask(stream: Any, *images: jp.Image) -> None:
    stream.start_turn(new_event("chat_request", content="Look."), images)
    stream.append(new_event("chat_response", message="I see."))


def shown(stream: Any) -> list[jp.Image]:
    """Return the images that the next request sends."""
    return [image for entry in RecordView(stream).sent() for image in entry["images"]]


def text(stream: Any) -> str:
    """Return the text of the next request."""
    return "\n".join(RecordView(stream).sent_texts())


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
            assert not shown(stream)
            assert why in text(stream)
            assert "[1 image omitted, because its record" in text(stream)

            [read] = RecordView(stream).turns()
            (call,) = read.tool_calls
            assert call.images == ()
            assert why in str(call.content)


def test_missing_image_is_replaced_by_a_note() -> None:
    stream = new_stream(*turn(ONE, "sha256:0", "", before=[kept(ONE)]))
    assert shown(stream) == [ONE]
    assert "[2 images omitted, because the record does not contain it]" in text(stream)


def test_metadata_without_a_list_of_digests_shows_no_image() -> None:
    rows: list[Any] = ["sha256:0", {"a": 1}, [None, 1, ["x"]], 7, None]
    for images in rows:
        entry = {**result(), "metadata": {"images": images}}
        stream = new_stream(START, ASKED, called(), entry)
        assert not shown(stream)
        assert "omitted" not in text(stream)


def test_damaged_image_does_not_hide_a_valid_copy() -> None:
    bad = kept(ONE, data=TWO.text)
    assert shown(new_stream(bad, *turn(ONE, before=[kept(ONE)]))) == [ONE]
    stream = new_stream(bad, *turn(ONE))
    assert not shown(stream)
    ask(stream, ONE)
    assert shown(stream) == [ONE, ONE]


def test_number_and_size_of_images_in_a_request_are_bounded() -> None:
    many = turn(*[ONE] * MAX_ENTRY_IMAGES * 2, before=[kept(ONE)])
    stream = new_stream(*many, *turn(ONE, TWO, before=[kept(TWO)]))
    assert len(shown(stream)) == MAX_ENTRY_IMAGES
    assert f"[{MAX_ENTRY_IMAGES} images omitted, because one entry shows at most" in text(stream)
    assert "[1 image and 1 PDF omitted, because a conversation can show 100 images" in text(stream)
    assert "`%jp new`" in text(stream)
    assert text(stream).count("omitted") == 2  # of the first turn, and of the second

    large = figure(padding=3_500_000)  # five of them have less than 20 MB
    stream = new_stream(*turn(*[large] * 7, TWO, before=[kept(large), kept(TWO)]))
    assert shown(stream) == [*[large] * 5, TWO]
    assert "[2 images omitted, because a conversation can show 100 images, 20 MB" in text(stream)


def test_images_before_a_new_head_of_the_requests_still_count() -> None:
    stream = new_stream(*turn(*[ONE] * MAX_ENTRY_IMAGES, before=[kept(ONE)]))
    context = RecordView(stream).context().without_heads()

    [result_with_images] = [entry for entry in stream.entries if "images" in entry.metadata]
    context.add(result_with_images, "", stream.images)

    assert context.items[-1].images == ()
    assert "a conversation can show 100 images" in context.items[-1].entry.content


# --- one entry each ------------------------------------------------------------------------------


def test_image_is_stored_once_when_it_is_first_shown() -> None:
    stream = new_stream()
    ask(stream, ONE, TWO, ONE)
    ask(stream, ONE)
    first = ["turn_start", "image", "image", "chat_request", "chat_response"]
    again = ["turn_start", "chat_request", "chat_response"]
    assert [entry.type for entry in stream.entries] == [*first, *again]
    read = new_stream(*stream.raw)
    assert shown(read) == [ONE, TWO, ONE, ONE]
    assert not read.repair()


def test_images_belong_to_no_turn() -> None:
    stream = new_stream(kept(ONE), *turn(ONE), kept(TWO), *turn(TWO))
    assert stream.turn_count == 2
    assert not any(is_kind(entry, "image") for each in stream.turns() for entry in each.entries)
    assert RecordView(stream).turns()[1].tool_calls[0].images == (TWO,)


def test_fork_keeps_the_images_that_its_turns_show() -> None:
    stream = new_stream(*turn(ONE, before=[kept(ONE)]), *turn(TWO, ONE, before=[kept(TWO)]))
    branch = RecordView(stream).fork(1)
    assert [entry.digest for entry in branch.entries if is_kind(entry, "image")] == [ONE.digest]
    assert RecordView(stream).fork().raw == stream.raw
    ask(branch, ONE, TWO)  # the second one anew
    assert shown(branch) == [ONE, ONE, TWO]
    assert sum(entry.type == "image" for entry in branch.entries) == 2


def test_compacted_response_shows_no_images() -> None:
    stream = new_stream(*turn(ONE, TWO, before=[kept(ONE), kept(TWO)]))
    policy = {"policy": "strip", "request": False, "response": True}
    stream.append(new_event("compaction", from_turn=0, to_turn=0, tool_calls=policy))
    assert not shown(stream)
    assert "[compacted]" in text(stream)


# --- other readers -------------------------------------------------------------------------------


def test_export_to_jp_drops_images_and_reports_them() -> None:
    other = {**showing(result(), ONE), "metadata": {"images": [ONE.digest], "more": 1}}
    model = {"assistant": {"model": {"id": {"provider": "anthropic", "name": "m-1"}}}}
    asking = {"conversation": {"tools": {"*": {"run": "ask"}}}}
    stream = new_stream(
        START,
        ASKED,
        called(),
        kept(ONE),
        other,
        showing(ASKED, ONE),
        base_config={**model, **asking},
    )
    files, dropped = RecordView(stream).export("jp-head")
    assert dropped == [
        "events[3]: JP has no images: omitted",
        "events[4-5].metadata.images: JP has no images: omitted",
    ]
    told = json.loads(files["events.json"])
    assert ONE.digest not in json.dumps(told)
    assert "image" not in [entry["type"] for entry in told]
    assert [entry.get("metadata") for entry in told][-2:] == [{"more": 1}, None]


def test_native_export_keeps_images() -> None:
    stream = new_stream(*turn(ONE, TWO, before=[kept(ONE), kept(TWO)]))
    files, _ = RecordView(stream).export()
    imported = new_stream(*RecordView(stream).exported_again()["events"])
    assert RecordView(imported).export()[0]["events.json"] == files["events.json"]
    assert shown(imported) == [ONE, TWO]
