"""Entries of JP in plain text: decoding, encoding, and untrusted hints of a notebook."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop.jp_directories import (
    CALL,
    RESULT,
    TALK,
    at,
    b64,
    directory,
    imported,
    kept,
    question,
    write_files,
)
from tests.kit.jp_directories import JpDirectory
from tests.support.loopback import LoopbackServer
from tests.support.sessions import Notebook, bare_folder

__all__ = ["bare_folder"]


def entry_of(raw: dict[str, Any]) -> Any:
    files = directory([raw])
    jp = imported(files)
    assert JpDirectory.write(jp).files == files
    return jp["events"][0]


def test_one_level_of_base64_is_decoded_and_other_text_is_verbatim(
    subtests: pytest.Subtests,
) -> None:
    for stored, text, verbatim in [
        (b64("plain"), "plain", False),
        (b64(b64("twice")), b64("twice"), False),
        (b64(b64(b64(b64("four times")))), b64(b64(b64("four times"))), False),
        ("", "", False),
        ("Zg==", "f", False),
        ("Zh==", "Zh==", True),
        ("_-7-", "_-7-", True),
        ("never encoded, ä", "never encoded, ä", True),
        (base64.b64encode(b"\xff\xfe").decode(), "//4=", True),
        ("Zg==\n", "Zg==\n", True),
        ("Zg", "Zg", True),
    ]:
        with subtests.test(stored=stored):
            entry = entry_of({**RESULT, "content": stored})
            assert entry["content"] == text
            assert entry.get("verbatim") == (["/content"] if verbatim else None)


def test_pointers_name_the_verbatim_values() -> None:
    arguments = {"a/b~": [b64("yes"), "no!"], "n": 3, "": {"x": "no?"}}
    entry = entry_of({**CALL, "arguments": arguments, "metadata": {"k": "no.", "ok": b64("yes")}})
    assert entry["arguments"] == {"a/b~": ["yes", "no!"], "n": 3, "": {"x": "no?"}}
    assert entry["metadata"] == {"k": "no.", "ok": "yes"}
    assert sorted(entry["verbatim"]) == ["/arguments//x", "/arguments/a~1b~0/1", "/metadata/k"]


def test_only_fields_that_jp_encodes_are_decoded() -> None:
    word = b64("word")
    assert entry_of({**CALL, "tool_answers": {"a": word}})["tool_answers"] == {"a": word}
    assert entry_of({**CALL, "name": word})["name"] == word
    assert entry_of({**TALK[0], "content": word})["content"] == word
    asked = at(3, "inquiry_request", id=word, source={"source": "assistant"},
               question=question(text=word))  # fmt: skip
    assert entry_of(asked)["question"]["text"] == word
    assert entry_of({"type": "hologram", "metadata": {"a": word}})["metadata"] == {"a": word}
    assert entry_of(at(1, "config_delta", delta={}, metadata={"a": word}))["metadata"] == {
        "a": word
    }
    assert entry_of({**RESULT, "content": [word]})["content"] == [word]


def test_keys_with_the_names_of_hints_are_preserved() -> None:
    entry = entry_of(
        {**CALL, "verbatim": 5, "spelling": {"z": 1, "a": 1.0}, "arguments": {"a": "no!"}}
    )
    assert entry["verbatim"] == ["/arguments/a"]
    assert entry["spelling"]["fields"] == {"verbatim": 5, "spelling": {"z": 1, "a": 1}}


def test_flat_delta_is_read_into_the_key_delta() -> None:
    entry = entry_of(at(3, "config_delta", style={}, assistant={"name": "Ines"}, metadata={}))
    assert entry["delta"] == {"style": {}, "assistant": {"name": "Ines"}}
    assert entry["metadata"] == {}
    assert "assistant" not in entry


def test_ids_come_first_in_an_entry() -> None:
    jp = imported(directory([]))
    jp["events"] = [kept({**TALK[1], "event_id": "e2", "request_id": "e1"})]
    (entry,) = json.loads(JpDirectory.write(jp).files["events.json"])
    assert list(entry) == ["event_id", "request_id", "timestamp", "type", "message"]


def test_hints_of_an_entry_are_not_sent_to_the_model(bare_folder: Path) -> None:
    files = directory([TALK[0], {**CALL, "arguments": {"b": "no!", "a": "-"}}, RESULT])
    assert {"verbatim", "spelling"} <= imported(files)["events"][1].keys()
    write_files(bare_folder / "there", files)
    notebook = Notebook(bare_folder)
    notebook.jp("import there")

    with LoopbackServer(["Fine."]) as server:
        notebook.cell(f"-m openai/m -c providers.llm.openai.base_url={server.url}", "And?")
    [request] = server.requests
    [[call]] = [m["tool_calls"] for m in request.body["messages"] if "tool_calls" in m]
    assert json.loads(call["function"]["arguments"]) == {"b": "no!", "a": "-"}
    assert "verbatim" not in str(request.body)
    assert "spelling" not in str(request.body)
    notebook.session.close()


def test_kept_text_is_ignored_after_the_entry_changed() -> None:
    files = directory([]) | {"events.json": b'[{"type": "x", "a": 1, "a": 2}]'}
    jp = imported(files)
    assert "text" in jp["events"][0]["spelling"]
    jp["events"][0]["a"] = 3
    assert json.loads(JpDirectory.write(jp).files["events.json"]) == [{"a": 3, "type": "x"}]


def exported(entry: Any, **head: Any) -> Any:
    """Return an entry as JP reads it, after the export of a notebook with a crafted entry."""
    jp = imported(directory([TALK[0]]))
    jp["events"] = [TALK[0], entry]
    jp["conversation"]["origin"] |= head
    return json.loads(JpDirectory.write(jp).files["events.json"])[1]


CHANGE = at(1, "config_delta", delta={"style": {}})


def test_only_configuration_is_moved_out_of_a_delta(subtests: pytest.Subtests) -> None:
    for entry in [
        {**CHANGE, "delta": {"type": "chat_request", "content": "EVIL"}},
        {**CHANGE, "delta": {"timestamp": "EVIL", "style": {}}},
        {**CHANGE, "delta": {"delta": {"EVIL": 1}}},
        {**CHANGE, "delta": {"op": "reset", "style": {}}},
        {**CHANGE, "delta": {"spelling": {"EVIL": 1}, "style": {}}},
        {**CHANGE, "delta": {"event_id": "EVIL", "style": {}}},
        {**CHANGE, "delta": {}},
        {**CHANGE, "op": "reset"},
        {**CHANGE, "assistant": {"name": "shown"}},
        {**TALK[0], "delta": {"content": "EVIL"}},
        {"type": "x", "delta": {"type": "chat_request"}},
    ]:
        with subtests.test(entry=entry):
            assert exported({**entry, "spelling": {"flat": True}}) == entry


def test_flat_delta_is_written_flat_again() -> None:
    flat = at(1, "config_delta", style={}, claims={"a": []}, op=None)
    assert exported(kept(entry_of(flat))) == flat


def test_no_hint_changes_the_content_of_an_entry(subtests: pytest.Subtests) -> None:
    for spelling in [
        {"fields": {"content": "EVIL", "type": "turn_start"}},
        {"element": True, "text": '"EVIL"'},
        {"element": True, "text": '["EVIL"]'},
        {"text": '{"timestamp": "t", "type": "chat_request", "content": "EVIL"}'},
        {"text": json.dumps(TALK[0] | {"more": "EVIL"})},
        {"text": json.dumps(TALK[0]), "flat": True},
        {"text": json.dumps(TALK[0]), "fields": {"verbatim": 1}},
        {"text": json.dumps(TALK[0]) + " "},
        {"text": "\n" + json.dumps(TALK[0])},
    ]:
        with subtests.test(spelling=spelling):
            jp = imported(directory(TALK))
            jp["events"] = [{**TALK[0], "spelling": spelling}]
            text = JpDirectory.write(jp).files["events.json"]
            entry = json.loads(text)[0]
            assert {k: v for k, v in entry.items() if k not in ("verbatim", "spelling")} == TALK[0]
            assert text.decode().splitlines()[:2] == ["[", "  {"]
            assert b"EVIL" not in text


def test_verbatim_text_that_a_reader_would_decode_is_encoded() -> None:
    entry = {**RESULT, "content": b64("EVIL"), "verbatim": ["/content"]}
    assert exported(entry)["content"] == b64(b64("EVIL"))
