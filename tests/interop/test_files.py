"""JP's directories: preserved byte for byte, and continued in JP's own form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb
from tests.interop.jp_directories import (
    ASKED,
    BASE,
    CALL,
    G1,
    G2,
    G3,
    G4,
    G5,
    METADATA,
    RESULT,
    TALK,
    at,
    b64,
    clock,
    directory,
    imported,
    jp_text,
    kept,
    write_files,
)
from tests.kit.jp_directories import JpDirectory
from tests.kit.notebook_record import open_document
from tests.kit.records import new_event
from tests.support.record_strategies import json_values, records
from tests.support.sessions import Notebook, bare_folder

__all__ = ["bare_folder"]


def test_every_generation_of_directories_is_read_and_preserved(subtests: pytest.Subtests) -> None:
    for number, files in enumerate([G1, G2, G3, G4, G5], start=1):
        with subtests.test(generation=number):
            jp = imported(files)
            assert JpDirectory.write(jp) == JpDirectory(files, [])
            head = jp["conversation"]
            assert (head["id"], head["title"]) == ("jp-c17700000001", "On tides")
            assert head["made"] == "imported"
            assert "signature" not in jp


def test_imported_settings_are_used(bare_folder: Path, subtests: pytest.Subtests) -> None:
    start = imported(G5)
    start["events"] = start["events"][:1]  # a reset follows
    rows = [(G1, "Tess"), (G2, "Tess"), (G3, "Tess"), (G4, "Tess")]
    rows.append((JpDirectory.write(start).files, "Ines"))
    for number, (files, name) in enumerate(rows):
        with subtests.test(number=number):
            write_files(bare_folder / f"there-{number}", files)
            notebook = Notebook(bare_folder)
            notebook.jp(f"import there-{number}")
            assert notebook.value("assistant.name") == name
            notebook.session.close()


# --- layouts -----------------------------------------------------------------------------------


def test_leading_entry_is_preserved(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [
        at(0, "config_delta"),
        at(0, "config_delta", op="reset"),
        at(0, "config_delta", delta=None),
        at(0, "config_delta", delta={}, claims={"a": []}, event_id="x"),
        at(0, "config_delta", delta={"z": 1, "a": 1.0}, extra="e"),
    ]
    for leading in rows:
        with subtests.test(leading=leading):
            files = directory([leading, *TALK], None)
            assert JpDirectory.write(imported(files)).files == files


def test_every_shape_of_the_base_configuration_is_preserved(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [
        {},
        {"base": {}},
        {"init": [], "base": {"z": 1, "a": 1.0}},
        {"base": {}, "init": [at(1, "config_delta", z=1, a=2), at(2, "config_delta")], "x": 1.0},
        {"base": {}, "init": [at(1, "config_delta", delta={}, spelling=3)]},
        {"b": {"z": [{"d": 1, "c": 2}], "a": 1e-7}, "a": 5e300, "c": [[1.0, 2**60]]},
    ]
    for base in rows:
        with subtests.test(base=base):
            files = directory(TALK, base)
            assert JpDirectory.write(imported(files)).files == files


def test_unreadable_directory_is_refused_with_the_place(subtests: pytest.Subtests) -> None:
    for files, message in [
        ({"metadata.json": b"{}"}, "events.json is missing"),
        ({"messages.json": b"[]"}, "no longer reads messages.json"),
        (directory(TALK, None), "base_config.json is missing"),
        (directory([], None), "base_config.json is missing"),
        (directory({}), "events.json: not valid JSON: expected a list"),
        (directory([]) | {"events.json": b'[\n  {"a": 1,}\n]'}, r"\(line 2, column"),
        (directory([]) | {"events.json": b"[1 2]"}, "expected `,`"),
        (directory([]) | {"events.json": b"[1] 2"}, "expected the end"),
        (directory([]) | {"events.json": b"[NaN]"}, "NaN is not JSON"),
        (directory([]) | {"events.json": b"[1e999]"}, "too large"),
        (directory([]) | {"events.json": b"[" + b"9" * 5000 + b"]"}, "cannot be stored"),
        (directory([]) | {"events.json": b"[" * 5000}, "events.json"),
        (directory([]) | {"events.json": b'["\xff"]'}, "not UTF-8"),
        (directory([]) | {"metadata.json": b"[]"}, "metadata.json: expected an object"),
        (directory([], []), "base_config.json: expected an object"),
        (directory([], {"base": []}), "base_config.json base"),
        (directory([], {"base": {}, "init": {}}), "base_config.json init"),
        (directory([], {"base": {}, "init": [1]}), r"init\[0\]"),
        (directory([], {"base": {}, "init": [TALK[0]]}), "expected a config_delta"),
    ]:
        with subtests.test(files=files), pytest.raises(jp_nb.StorageError, match=message):
            JpDirectory.read(files)


def test_entries_nested_too_deeply_are_refused() -> None:
    text = b"[" + b'{"a":' * 900 + b"1" + b"}" * 900 + b"]"
    with pytest.raises(jp_nb.StorageError, match="nested too deeply: more than 100 levels"):
        JpDirectory.read(directory([]) | {"events.json": text})


def test_metadata_is_written_after_a_change_only() -> None:
    files = directory(TALK)
    del files["metadata.json"]
    jp = imported(files)
    assert "title" not in jp["conversation"]
    assert JpDirectory.write(jp).files == files
    jp["conversation"]["title"] = "Moon"
    wanted = {"title": "Moon", "last_activated_at": "2026-02-02 03:00:05.25"}
    assert JpDirectory.write(jp).files["metadata.json"] == jp_text(wanted)


FAR = [
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "0001-01-01 00:00:00.0",
    "20260202",
]
"""Times that no clock shows."""


def test_id_comes_from_the_name_the_first_entry_or_the_clock(subtests: pytest.Subtests) -> None:
    far = [{**TALK[0], "timestamp": planted} for planted in FAR]
    rows: list[tuple[str, Any, str]] = [
        ("17700000001", TALK, "jp-c17700000001"),
        ("17700000001-a-b", TALK, "jp-c17700000001"),
        ("my copy", TALK, "jp-c17700012012"),
        ("x", [], "jp-c17829072002"),
        ("x", far, "jp-c17829072002"),
    ]
    for name, events, identifier in rows:
        with subtests.test(name=name, identifier=identifier):
            jp = imported(directory(events), name)
            assert jp["conversation"]["id"] == identifier
            assert jp["conversation"]["origin"]["directory"] == name


def test_other_files_are_kept_if_they_are_text_and_harmless(bare_folder: Path) -> None:
    files = directory(TALK) | {"notes.md": "ä\r\n".encode(), "QUERY.md": b""}
    more = {
        ".hidden": b"x",
        "photo.png": b"\xff",
        "big.txt": b"a" * 70_000,
        "events.json.tmp": b"[",
    }
    write_files(bare_folder / "there", files | more)
    notebook = Notebook(bare_folder)
    notebook.jp("import there")
    jp: Any = notebook.session.document.to_json()
    assert JpDirectory.write(jp).files == files
    assert jp["conversation"]["origin"]["left_out"] == [".hidden", "big.txt", "photo.png"]
    notebook.session.close()


def test_notebook_cannot_write_files_with_unsafe_names(subtests: pytest.Subtests) -> None:
    for name in [
        "../x",
        "a/b",
        "a\\b",
        "..",
        ".bashrc",
        "EVENTS.json",
        "events.json",
        "x.tmp",
        "",
        "c:x",
        "x.TMP",
        "event\u017f.json",
        "x.\u1d40mp.tMp",
        "\u00e4" * 101,
        "a" * 201,
    ]:
        with subtests.test(name=name):
            jp = imported(directory(TALK))
            jp["conversation"]["origin"]["files"] = {name: "x"}
            assert JpDirectory.write(jp).files == directory(TALK)
    longest = "\u00e4" * 100
    jp["conversation"]["origin"]["files"] = {longest: "x"}
    assert JpDirectory.write(jp).files == directory(TALK) | {longest: b"x"}


def test_kept_text_of_the_base_configuration_is_ignored_after_a_change() -> None:
    files = directory(TALK) | {"base_config.json": b'{"a":1}'}
    jp = imported(files)
    jp["base_config"]["a"] = 2
    assert json.loads(JpDirectory.write(jp).files["base_config.json"]) == {"a": 2}


forms = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 1, 2, 2, 2, "\t"]),
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (", ", ": "), (" ,", " : ")]),
    }
)


def text_of(value: Any, form: dict[str, Any], end: str) -> bytes:
    """Encode text with unpaired surrogates as escapes, as every JSON writer must."""
    return (json.dumps(value, **form) + end).encode("utf-8", "backslashreplace")


@given(
    records.flatmap(lambda r: st.just(r) | st.lists(json_values, max_size=3).map(lambda j: r + j)),
    st.dictionaries(st.text(max_size=4), json_values, max_size=3),
    forms,
    st.sampled_from(["\n", "", "\r\n"]),
)
def test_any_directory_is_preserved_byte_for_byte(
    events: Any, base: Any, form: dict[str, Any], end: str
) -> None:
    base.pop("base", None)
    files = directory([]) | {
        "events.json": text_of(events, form, end),
        "base_config.json": text_of(base, form, end),
    }
    jp = JpDirectory.read(files)
    assert JpDirectory.write(jp).files == files
    assert JpDirectory.write(kept(jp)).files == files


@given(records, forms)
def test_appending_preserves_the_bytes_before(events: Any, form: dict[str, Any]) -> None:
    files = directory([]) | {"events.json": text_of([*events, {"type": "x"}], form, "\n")}
    jp = JpDirectory.read(files)
    jp["events"].append(at(9, "chat_request", content="And?"))
    written = JpDirectory.write(kept(jp)).files["events.json"]
    assert written.startswith(files["events.json"].rstrip()[:-1].rstrip())
    assert json.loads(written)[-1]["content"] == "And?"


# --- appending ----------------------------------------------------------------------------------


def continued(files: Mapping[str, bytes]) -> Any:
    document = open_document(imported(files), clock=clock)
    stream = document.conversation
    stream.start_turn(new_event("chat_request", content="And?", metadata={"cell_id": "c", "n": 1}))
    stream.append(
        new_event(
            "tool_call_request", id="n1", name="look", arguments={"path": "ä", "list": ["", "x"]}
        ),
        new_event("inquiry_request", **(ASKED | {"id": "n1.q.1"})),
        new_event("inquiry_response", outcome="answered", id="n1.q.1", answer=True),
        new_event("tool_call_response", id="n1", content="done", is_error=False),
        new_event(
            "config_delta", delta={"assistant": {"name": "Z"}}, claims={"assistant.name": None}
        ),
        new_event("chat_response", message="Because."),
    )
    return kept(document.to_json())


NOW = "2026-07-01 12:00:00.25"


def now(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": NOW, "type": kind, **fields}


ADDED = [
    now("turn_start"),
    now("chat_request", content="And?", metadata={"cell_id": b64("c"), "n": 1}),
    now(
        "tool_call_request",
        id="n1",
        name="look",
        arguments={"list": ["", b64("x")], "path": b64("ä")},
    ),
    ASKED | {"id": "n1.q.1"},
    now("inquiry_response", outcome="answered", id="n1.q.1", answer=True),
    now("tool_call_response", id="n1", content=b64("done"), is_error=False),
    {
        "type": "config_delta",
        "timestamp": NOW,
        "delta": {"assistant": {"name": "Z"}},
        "claims": {"assistant.name": None},
    },
    now("chat_response", message="Because."),
]


def test_appended_entries_are_written_as_jp_writes_them(subtests: pytest.Subtests) -> None:
    for files in [G1, G2, G3, G4]:
        with subtests.test(files=files):
            jp = continued(files)
            added = [e for e in jp["events"] if "event_id" in e]
            for entry in added:  # ids are random, and come first
                del entry["event_id"]
                entry.pop("request_id", None)
            written = JpDirectory.write(jp)
            assert written.files.keys() == files.keys()
            tail = jp_text(ADDED).decode().removeprefix("[\n")
            assert written.files["events.json"].decode() == (
                files["events.json"].decode().removesuffix("\n]\n") + ",\n" + tail
            )
            assert written.files.get("base_config.json") == files.get("base_config.json")
            activated = METADATA | {"last_activated_at": NOW}
            assert written.files["metadata.json"] == jp_text(activated)


def test_fork_does_not_keep_the_layout_of_its_parent() -> None:
    jp = imported(G5)
    jp["conversation"] |= {"id": "jp-c17800000000", "parent": {"id": "jp-c17700000001"}}
    written = JpDirectory.write(jp)
    assert json.loads(written.files["base_config.json"]) == BASE
    assert json.loads(written.files["events.json"])[0]["type"] == "config_delta"


def test_conversation_of_a_notebook_is_stored_as_jp_stores_it() -> None:
    document = open_document(clock=clock, base_config=BASE)
    written = JpDirectory.write(document.to_json())
    assert written.files == {
        "metadata.json": jp_text({"last_activated_at": "2026-07-01 12:00:00.2"}),
        "base_config.json": jp_text(kept(BASE)),
        "events.json": b"[]\n",
    }
    document.conversation.properties["title"] = "Who's there?"
    document.conversation.start_turn(new_event("chat_request", content="half \ud83c"))
    written = JpDirectory.write(document.to_json())
    assert json.loads(written.files["metadata.json"]) == {
        "title": "Who's there?",
        "last_activated_at": NOW,
    }
    assert json.loads(written.files["events.json"])[1]["content"] == "half \ufffd"


def test_hints_are_small_for_files_that_jp_wrote() -> None:
    files = directory([at(1, "turn_start"), *[TALK[0], CALL, RESULT, TALK[1]] * 400])
    jp = imported(files)
    assert len(json.dumps(jp, ensure_ascii=False).encode()) < len(files["events.json"])


def test_malformed_conversation_is_not_written(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [
        {},
        {"conversation": 1},
        {"conversation": {}, "events": {}},
        {"conversation": {}, "events": [3]},
        {"conversation": {}, "base_config": []},
    ]
    for jp in rows:
        with subtests.test(jp=jp), pytest.raises(jp_nb.StorageError):
            JpDirectory.write(jp)


# --- times -------------------------------------------------------------------------------------


def test_impossible_time_is_ignored(subtests: pytest.Subtests) -> None:
    for planted in FAR:
        with subtests.test(planted=planted):
            jp = imported(directory(TALK))
            jp["events"].append({**TALK[0], "timestamp": planted})
            written = json.loads(JpDirectory.write(jp).files["metadata.json"])
            assert written["last_activated_at"] == "2026-02-02 03:00:05.25"
            jp["conversation"]["origin"]["metadata"] = json.dumps({"last_activated_at": planted})
            written = json.loads(JpDirectory.write(jp).files["metadata.json"])
            assert written["last_activated_at"] == "2026-02-02 03:00:05.25"


def test_time_of_the_last_activity_is_never_set_back() -> None:
    metadata = {"last_activated_at": "2026-05-01 00:00:00.0"}
    jp = imported(directory(TALK) | {"metadata.json": jp_text(metadata)})
    jp["events"].append({**TALK[0]})
    written = json.loads(JpDirectory.write(jp).files["metadata.json"])
    assert written["last_activated_at"] == "2026-05-01 00:00:00.0"


# --- existing metadata -----------------------------------------------------------------------


def test_only_title_and_time_of_existing_metadata_change() -> None:
    jp = imported(directory(TALK))
    there = {
        "pinned_at": "2026-03-01 00:00:00.0",
        "title": "Renamed by JP",
        "labels": {"b": "1", "a": "2"},
        "last_activated_at": "2026-02-02 03:00:04.0",
        "new": [1.0],
    }
    text = jp_text(there)
    assert JpDirectory.write(jp, metadata=text).files["metadata.json"] == text
    jp["events"].append(at(30, "chat_request", content="And?"))
    later = there | {"last_activated_at": "2026-02-02 03:00:30.25"}
    written = JpDirectory.write(jp, metadata=text).files["metadata.json"]
    assert written == jp_text(later)
    jp["conversation"]["title"] = "Renamed here"
    written = JpDirectory.write(jp, metadata=text).files["metadata.json"]
    assert written == jp_text(later | {"title": "Renamed here"})
    newer = later | {"last_activated_at": "2026-06-01 00:00:00.0"}
    written = JpDirectory.write(jp, metadata=jp_text(newer)).files["metadata.json"]
    assert written == jp_text(newer | {"title": "Renamed here"})


def test_leading_entry_must_be_a_configuration_delta(subtests: pytest.Subtests) -> None:
    for config in [{}, BASE]:
        for leading in [
            {"entry": {**TALK[0], "content": "EVIL"}},
            {"entry": {**TALK[0], "content": "EVIL"}, "delta": True},
            {"entry": {"EVIL": 1}},
            {"entry": at(0, "config_delta", delta={"EVIL": 1})},
            {"entry": at(0, "config_delta", EVIL={"a": 1})},
            {"entry": {}},
            {"entry": 3},
            {},
            [3],
        ]:
            with subtests.test(leading=leading, config=config):
                jp = imported(directory(TALK))
                jp["conversation"]["origin"] = {"leading": leading}
                jp["base_config"] = config
                files = JpDirectory.write(jp).files
                again = imported(files)
                assert again["base_config"] == config
                assert again["events"] == jp["events"]
                assert all(b"EVIL" not in content for name, content in files.items() if not config)


def test_leading_entry_takes_the_configuration() -> None:
    jp = imported(directory([at(0, "config_delta"), *TALK], None))
    jp["base_config"] = {"assistant": {"name": "Tess"}}
    files = JpDirectory.write(jp).files
    assert "base_config.json" not in files
    assert json.loads(files["events.json"])[0]["delta"] == {"assistant": {"name": "Tess"}}


def test_only_deltas_are_written_into_the_base_configuration() -> None:
    jp = imported(G5)
    jp["conversation"]["origin"]["base_config"]["init"] = 4
    jp["events"][1] = TALK[0]
    files = JpDirectory.write(jp).files
    assert len(json.loads(files["base_config.json"])["init"]) == 1
    assert json.loads(files["events.json"])[0] == TALK[0]


def test_extra_keys_cannot_replace_the_base_configuration() -> None:
    jp = imported(directory([], {"base": BASE, "x": 1}))
    jp["conversation"]["origin"]["base_config"]["extra"] = {"base": {"EVIL": 1}, "init": [], "x": 1}
    del jp["conversation"]["origin"]["base_config"]["order"]
    assert json.loads(JpDirectory.write(jp).files["base_config.json"]) == {"base": BASE, "x": 1}
    jp = imported(directory([]))
    jp["base_config"] = {"base": {"EVIL": 1}}
    assert imported(JpDirectory.write(jp).files)["base_config"] == jp["base_config"]
