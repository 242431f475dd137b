"""JP's directories: what was read is written again byte for byte, and what was added as JP does."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.config.tree.app_config import AppConfig
from jp_nb.errors import StorageError
from jp_nb.interop.jp_files import Directory, read_directory, write_directory
from jp_nb.interop.jp_json import number_text, read_value, render_json, same_json
from jp_nb.record.document import Document
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.projection import Projection
from jp_nb.record.thread import thread_of
from jp_nb.record.timestamps import format_timestamp
from tests.support.jp_directories import (
    ASKED,
    BASE,
    CALL,
    G1,
    G2,
    G3,
    G4,
    G5,
    METADATA,
    NAME,
    RESULT,
    TALK,
    at,
    b64,
    clock,
    directory,
    imported,
    jp_text,
    kept,
    question,
)
from tests.support.record_strategies import QUICK, json_values, records


@pytest.mark.parametrize("files", [G1, G2, G3, G4, G5], ids=["G1", "G2", "G3", "G4", "G5"])
def test_every_generation_comes_back_byte_for_byte(files: dict[str, bytes]) -> None:
    jp = imported(files)
    assert write_directory(jp) == Directory(files, [])
    assert jp["conversation"]["id"] == "jp-c17700000001"
    assert (jp["conversation"]["title"], jp["conversation"]["made"]) == ("On tides", "imported")
    assert "signature" not in jp
    Document.load(jp, clock=clock)


def entry_of(raw: dict[str, Any]) -> Any:
    files = directory([raw])
    jp = imported(files)
    assert write_directory(jp).files == files
    return jp["events"][0]


def test_one_level_of_base64_goes_and_what_is_none_stays_as_found(
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


def test_pointers_name_the_values_that_are_kept_as_found() -> None:
    arguments = {"a/b~": [b64("yes"), "no!"], "n": 3, "": {"x": "no?"}}
    entry = entry_of({**CALL, "arguments": arguments, "metadata": {"k": "no.", "ok": b64("yes")}})
    assert entry["arguments"] == {"a/b~": ["yes", "no!"], "n": 3, "": {"x": "no?"}}
    assert entry["metadata"] == {"k": "no.", "ok": "yes"}
    assert sorted(entry["verbatim"]) == ["/arguments//x", "/arguments/a~1b~0/1", "/metadata/k"]


def test_only_what_jp_encodes_is_decoded() -> None:
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


def test_keys_that_are_called_like_ours_survive() -> None:
    entry = entry_of(
        {**CALL, "verbatim": 5, "spelling": {"z": 1, "a": 1.0}, "arguments": {"a": "no!"}}
    )
    assert entry["verbatim"] == ["/arguments/a"]
    assert entry["spelling"]["fields"] == {"verbatim": 5, "spelling": {"z": 1, "a": 1}}


# --- layouts -----------------------------------------------------------------------------------


def test_the_configuration_is_in_force_whatever_the_layout(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, bytes], str]] = [
        (G1, "Tess"),
        (G2, "Tess"),
        (G4, "Tess"),
        (G5, "Ines"),
    ]
    for files, name in rows:
        with subtests.test(files=files, name=name):
            jp = imported(files)
            if files is G5:
                jp["events"] = jp["events"][:1]  # there is a reset later
            stream = Document.load(jp, clock=clock).conversation
            projection = Projection(stream, lambda: [])
            assert isinstance(projection.config(), AppConfig)
            assert projection.config().assistant.name == name


def test_a_delta_whose_configuration_stands_on_itself_has_it_in_delta_here() -> None:
    entry = entry_of(at(3, "config_delta", style={}, assistant={"name": "Ines"}, metadata={}))
    assert entry["delta"] == {"style": {}, "assistant": {"name": "Ines"}}
    assert entry["metadata"] == {}
    assert "assistant" not in entry


def test_whatever_the_leading_entry_says_it_comes_back(subtests: pytest.Subtests) -> None:
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
            assert write_directory(imported(files)).files == files


def test_every_shape_of_the_base_configuration_comes_back(subtests: pytest.Subtests) -> None:
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
            assert write_directory(imported(files)).files == files


def test_what_cannot_be_read_is_said_with_its_place(subtests: pytest.Subtests) -> None:
    for files, message in [
        ({"metadata.json": b"{}"}, "events.json is missing"),
        ({"messages.json": b"[]"}, "no longer reads messages.json"),
        (directory(TALK, None), "base_config.json is missing"),
        (directory([], None), "base_config.json is missing"),
        (directory({}), "events.json: no JSON: expected a list"),
        (directory([]) | {"events.json": b'[\n  {"a": 1,}\n]'}, r"\(line 2, column"),
        (directory([]) | {"events.json": b"[1 2]"}, "expected `,`"),
        (directory([]) | {"events.json": b"[1] 2"}, "expected the end"),
        (directory([]) | {"events.json": b"[NaN]"}, "NaN is not JSON"),
        (directory([]) | {"events.json": b"[1e999]"}, "too large"),
        (directory([]) | {"events.json": b"[" + b"9" * 5000 + b"]"}, "cannot be kept"),
        (directory([]) | {"events.json": b"[" * 5000}, "events.json"),
        (directory([]) | {"events.json": b'["\xff"]'}, "not UTF-8"),
        (directory([]) | {"metadata.json": b"[]"}, "metadata.json: expected an object"),
        (directory([], []), "base_config.json: expected an object"),
        (directory([], {"base": []}), "base_config.json base"),
        (directory([], {"base": {}, "init": {}}), "base_config.json init"),
        (directory([], {"base": {}, "init": [1]}), r"init\[0\]"),
        (directory([], {"base": {}, "init": [TALK[0]]}), "expected a config_delta"),
    ]:
        with subtests.test(files=files), pytest.raises(StorageError, match=message):
            read_directory(NAME, files, clock=clock)


def test_entries_that_are_nested_too_deeply_are_refused() -> None:
    text = b"[" + b'{"a":' * 900 + b"1" + b"}" * 900 + b"]"
    with pytest.raises(StorageError):
        read_directory(NAME, directory([]) | {"events.json": text}, clock=clock)


def test_a_directory_without_metadata_gets_none_until_something_changes() -> None:
    files = directory(TALK)
    del files["metadata.json"]
    jp = imported(files)
    assert "title" not in jp["conversation"]
    assert write_directory(jp).files == files
    jp["conversation"]["title"] = "Moon"
    wanted = {"title": "Moon", "last_activated_at": "2026-02-02 03:00:05.25"}
    assert write_directory(jp).files["metadata.json"] == jp_text(wanted)


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("17700000001", "jp-c17700000001"),
        ("17700000001-a-b", "jp-c17700000001"),
        ("my copy", "jp-c17700012012"),
    ],
)
def test_the_id_comes_from_the_name_else_from_the_first_entry(name: str, identifier: str) -> None:
    jp = imported(directory(TALK), name)
    assert jp["conversation"]["id"] == identifier
    assert jp["conversation"]["origin"]["directory"] == name


def test_the_id_of_an_empty_nameless_conversation_is_of_now() -> None:
    assert imported(directory([]), "x")["conversation"]["id"] == "jp-c17829072002"


def test_other_files_come_along_if_they_are_text_and_harmless() -> None:
    files = directory(TALK) | {"notes.md": "ä\r\n".encode(), "QUERY.md": b""}
    more = {
        ".hidden": b"x",
        "photo.png": b"\xff",
        "big.txt": b"a" * 70_000,
        "events.json.tmp": b"[",
    }
    jp = imported(files | more)
    assert write_directory(jp).files == files
    assert jp["conversation"]["origin"]["left_out"] == [".hidden", "big.txt", "photo.png"]


def test_a_notebook_cannot_name_files_elsewhere(subtests: pytest.Subtests) -> None:
    for name in [
        *("../x", "a/b", "a\\b", "..", ".bashrc", "EVENTS.json", "events.json", "x.tmp", "", "c:x"),
        *("x.TMP", "event\u017f.json", "x.\u1d40mp.tMp", "\u00e4" * 101, "a" * 201),
    ]:
        with subtests.test(name=name):
            jp = imported(directory(TALK))
            jp["conversation"]["origin"]["files"] = {name: "x"}
            assert write_directory(jp).files == directory(TALK)


# --- bytes that no plain JSON writer gives -----------------------------------------------------

ODD_ENTRIES = [
    '{"type": "x", "n": [1e-7, 1E5, 1.0, -0, -0.0, 1e16, 0.00001, 100000000000000000000000, 1.10]}',
    '{"type": "x", "n": 9007199254740993, "f": 3.0e0, "a/b": {"~": 1e-07}}',
    '{"type": "x", "text": "\\u00e9\\/\\ud83c\\udf15 \\ud800 \\u001F\\u007f"}',
    '{"type": "x", "a": 1, "a": 2}',
    '{"type":"x"  ,\t"a" : [ ] , "o":{ }}',
    '{"b": 1, "10": {"z": 0, "9": 1}, "a": {"only": {"y": 1, "x": 2}}}',
    "3",
    "1.0",
    '"text"',
    "null",
    '[{"b": 1.0, "a": 2}]',
    "{}",
    '{"type": ["list"], "timestamp": 3}',
    '{"type": "tool_call_request", "arguments": "aGk=", "metadata": ["aGk=", "-"], "id": 1}',
    '{"type": "tool_call_response", "content": "aGk\\u003d", "id": "\\u0061"}',
    '{"type": "inquiry_request", "question": {"answer_type": {"options": 3}}, "source": []}',
]


def test_odd_text_comes_back(subtests: pytest.Subtests) -> None:
    for form in ["[\n  %s\n]\n", "[%s]", "\ufeff [\r\n\t%s , %s\r\n]\r\n\r\n"]:
        for entry in ODD_ENTRIES:
            with subtests.test(entry=entry, form=form):
                text = form % ((entry,) * form.count("%s"))
                files = directory([]) | {"events.json": text.encode()}
                jp = imported(files)
                assert write_directory(jp).files == files


def test_odd_emptiness_comes_back(subtests: pytest.Subtests) -> None:
    for text in ["[]", "[]\n", " [ \n]\n\n", "\ufeff[]"]:
        with subtests.test(text=text):
            files = directory([]) | {"events.json": text.encode()}
            assert write_directory(imported(files)).files == files


def test_every_file_comes_back_however_it_was_written(subtests: pytest.Subtests) -> None:
    for file in ["metadata.json", "base_config.json", "events.json"]:
        for change in [
            lambda text: text[:-1],
            lambda text: text + "\n\n",
            lambda text: "\ufeff" + text,
            lambda text: text.replace("\n", "\r\n"),
            lambda text: json.dumps(json.loads(text)),
            lambda text: text.replace("Tess", "\\u0054ess"),
            lambda text: text.replace('"Tess"', "1.50"),
        ]:
            with subtests.test(change=change, file=file):
                for files in (G1, G3, G4, G5):
                    if file in files:
                        odd = files | {file: change(files[file].decode()).encode()}
                        assert write_directory(imported(odd)).files == odd


def test_a_text_is_not_used_for_an_entry_that_says_something_else() -> None:
    files = directory([]) | {"events.json": b'[{"type": "x", "a": 1, "a": 2}]'}
    jp = imported(files)
    assert "text" in jp["events"][0]["spelling"]
    jp["events"][0]["a"] = 3
    assert json.loads(write_directory(jp).files["events.json"]) == [{"a": 3, "type": "x"}]


def test_a_text_of_the_base_configuration_is_not_used_for_another_one() -> None:
    files = directory(TALK) | {"base_config.json": b'{"a":1}'}
    jp = imported(files)
    jp["base_config"]["a"] = 2
    assert json.loads(write_directory(jp).files["base_config.json"]) == {"a": 2}


def test_a_spelling_that_does_not_fit_is_passed_over(subtests: pytest.Subtests) -> None:
    for spelling in [
        {"order": [[1, 1]]},
        {"order": [[5, 6], "x", None, [True, False]]},
        {"numbers": {"/n": "2", "/t": "5", "x": "1", "/n/0": "1", "": "1"}},
        {"numbers": {"/n": '1, "evil": 2'}},
        {"numbers": {"/n": "1e9999"}},
        {"text": "nonsense"},
        {"text": '{"n": 1}'},
        {"text": ' {"n": 1, "t": "a", "type": "x"}'},
        {"gap": "evil"},
        {"gap": "["},
        {"flat": 1, "fields": [], "order": 3, "numbers": 3},
        {"element": True, "text": "3"},
        [],
    ]:
        with subtests.test(spelling=spelling):
            jp = imported(directory([{"type": "x"}, {"n": 1, "t": "a", "type": "x"}]))
            jp["events"][1]["spelling"] = spelling
            jp["conversation"]["origin"]["after"] = "] evil"
            jp["conversation"]["origin"]["base_config"] = {"after": "x", "order": "x", "text": "["}
            written = write_directory(jp)
            assert json.loads(written.files["events.json"])[1] == {"n": 1, "t": "a", "type": "x"}
            assert json.loads(written.files["base_config.json"]) == BASE


def test_numbers_are_written_as_jp_does() -> None:
    written = [number_text(n) for n in (1e-7, 1.5e-5, -1e-5, 1e16, 1e15, 1.5e300, 0.0001, 5, 2.0)]
    assert written[:4] == ["1e-7", "0.000015", "-0.00001", "1e16"]
    assert written[4:] == ["1000000000000000.0", "1.5e300", "0.0001", "5", "2.0"]


@QUICK
@given(json_values)
def test_what_is_rendered_reads_as_the_same(value: Any) -> None:
    assert same_json(read_value(render_json(value), "x").value, value)


forms = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 1, 2, 2, 2, "\t"]),
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (", ", ": "), (" ,", " : ")]),
    }
)


def text_of(value: Any, form: dict[str, Any], end: str) -> bytes:
    """Half a character has no bytes: it is escaped, as every JSON writer must."""
    return (json.dumps(value, **form) + end).encode("utf-8", "backslashreplace")


@QUICK
@given(
    records.flatmap(lambda r: st.just(r) | st.lists(json_values, max_size=3).map(lambda j: r + j)),
    st.dictionaries(st.text(max_size=4), json_values, max_size=3),
    forms,
    st.sampled_from(["\n", "", "\r\n"]),
)
def test_any_events_come_back(events: Any, base: Any, form: dict[str, Any], end: str) -> None:
    base.pop("base", None)
    files = directory([]) | {
        "events.json": text_of(events, form, end),
        "base_config.json": text_of(base, form, end),
    }
    jp = read_directory(NAME, files, clock=clock)
    assert write_directory(jp).files == files
    assert write_directory(kept(jp)).files == files


@QUICK
@given(records, forms)
def test_appending_leaves_the_bytes_of_any_events_alone(events: Any, form: dict[str, Any]) -> None:
    files = directory([]) | {"events.json": text_of([*events, {"type": "x"}], form, "\n")}
    jp = read_directory(NAME, files, clock=clock)
    jp["events"].append(at(9, "chat_request", content="And?"))  # type: ignore[union-attr]
    written = write_directory(kept(jp)).files["events.json"]
    assert written.startswith(files["events.json"].rstrip()[:-1].rstrip())
    assert json.loads(written)[-1]["content"] == "And?"


# --- going on ----------------------------------------------------------------------------------


def continued(files: Mapping[str, bytes]) -> Any:
    document = Document.load(imported(files), clock=clock)
    stream = document.conversation
    stream.start_turn(ChatRequest(content="And?", metadata={"cell_id": "c", "n": 1}))
    stream.append(
        ToolCallRequest(id="n1", name="look", arguments={"path": "ä", "list": ["", "x"]}),
        InquiryRequest.model_validate(ASKED | {"id": "n1.q.1"}),
        InquiryResponse(outcome="answered", id="n1.q.1", answer=True),
        ToolCallResponse(id="n1", content="done", is_error=False),
        ConfigDelta(delta={"assistant": {"name": "Z"}}, claims={"assistant.name": None}),
        ChatResponse(message="Because."),
    )  # fmt: skip
    return kept(document.to_json())


NOW = format_timestamp(clock())
ADDED = [
    {"timestamp": NOW, "type": "turn_start"},
    {
        "timestamp": NOW,
        "type": "chat_request",
        "content": "And?",
        "metadata": {"cell_id": b64("c"), "n": 1},
    },
    {
        "timestamp": NOW,
        "type": "tool_call_request",
        "id": "n1",
        "name": "look",
        "arguments": {"list": ["", b64("x")], "path": b64("ä")},
    },
    ASKED | {"id": "n1.q.1"},
    {
        "timestamp": NOW,
        "type": "inquiry_response",
        "outcome": "answered",
        "id": "n1.q.1",
        "answer": True,
    },
    {
        "timestamp": NOW,
        "type": "tool_call_response",
        "id": "n1",
        "content": b64("done"),
        "is_error": False,
    },
    {
        "type": "config_delta",
        "timestamp": NOW,
        "delta": {"assistant": {"name": "Z"}},
        "claims": {"assistant.name": None},
    },
    {"timestamp": NOW, "type": "chat_response", "message": "Because."},
]  # fmt: skip


@pytest.mark.parametrize("files", [G1, G2, G3, G4], ids=["G1", "G2", "G3", "G4"])
def test_what_is_appended_stands_behind_the_old_bytes_as_jp_writes_it(
    files: dict[str, bytes],
) -> None:
    jp = continued(files)
    added = [e for e in jp["events"] if "event_id" in e]
    for entry in added:  # ids are random; they come first where there are any
        del entry["event_id"]
        entry.pop("request_id", None)
    written = write_directory(jp)
    assert written.files.keys() == files.keys()
    tail = jp_text(ADDED).decode().removeprefix("[\n")
    assert written.files["events.json"].decode() == (
        files["events.json"].decode().removesuffix("\n]\n") + ",\n" + tail
    )
    assert written.files.get("base_config.json") == files.get("base_config.json")
    activated = METADATA | {"last_activated_at": NOW}
    assert written.files["metadata.json"] == jp_text(activated)


def test_ids_and_links_come_first() -> None:
    jp = imported(directory([]))
    jp["events"] = [kept({**TALK[1], "event_id": "e2", "request_id": "e1"})]
    (entry,) = json.loads(write_directory(jp).files["events.json"])
    assert list(entry) == ["event_id", "request_id", "timestamp", "type", "message"]


def test_what_is_kept_beside_an_entry_is_sent_to_nobody() -> None:
    jp = imported(directory([TALK[0], {**CALL, "arguments": {"b": "no!", "a": "-"}}]))
    assert {"verbatim", "spelling"} <= jp["events"][1].keys()
    stream = Document.load(jp, clock=clock).conversation
    call = [item.entry for item in thread_of(stream)][1]
    assert isinstance(call, ToolCallRequest)
    assert call.arguments == {"b": "no!", "a": "-"}


def test_a_fork_is_a_conversation_of_its_own() -> None:
    jp = imported(G5)
    jp["conversation"] |= {"id": "jp-c17800000000", "parent": {"id": "jp-c17700000001"}}
    written = write_directory(jp)
    assert json.loads(written.files["base_config.json"]) == BASE
    assert json.loads(written.files["events.json"])[0]["type"] == "config_delta"


def test_a_conversation_made_in_a_notebook_is_stored_as_jp_would() -> None:
    document = Document.new(clock=clock, made="live", base_config=BASE)
    written = write_directory(document.to_json())
    assert written.files == {
        "metadata.json": jp_text({"last_activated_at": "2026-07-01 12:00:00.2"}),
        "base_config.json": jp_text(kept(BASE)),
        "events.json": b"[]\n",
    }
    document.conversation.head["title"] = "Who's there?"
    document.conversation.start_turn(ChatRequest(content="half \ud83c"))
    written = write_directory(document.to_json())
    assert json.loads(written.files["metadata.json"]) == {
        "title": "Who's there?",
        "last_activated_at": NOW,
    }
    assert json.loads(written.files["events.json"])[1]["content"] == "half \ufffd"


def test_little_is_kept_beside_what_jp_itself_wrote() -> None:
    files = directory([at(1, "turn_start"), *[TALK[0], CALL, RESULT, TALK[1]] * 400])
    jp = imported(files)
    assert len(json.dumps(jp, ensure_ascii=False).encode()) < len(files["events.json"])


def test_what_is_no_conversation_is_not_written(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [
        {},
        {"conversation": 1},
        {"conversation": {}, "events": {}},
        {"conversation": {}, "events": [3]},
        {"conversation": {}, "base_config": []},
    ]
    for jp in rows:
        with subtests.test(jp=jp):
            with pytest.raises(StorageError):
                write_directory(jp)


def test_a_name_of_200_bytes_is_written() -> None:
    jp = imported(directory(TALK))
    name = "\u00e4" * 100
    jp["conversation"]["origin"]["files"] = {name: "x"}
    assert write_directory(jp).files == directory(TALK) | {name: b"x"}


# --- times -------------------------------------------------------------------------------------

FAR = [
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "0001-01-01 00:00:00.0",
    "20260202",
]


def test_a_time_that_no_clock_can_show_is_passed_over(subtests: pytest.Subtests) -> None:
    for planted in FAR:
        with subtests.test(planted=planted):
            jp = imported(directory(TALK))
            jp["events"].append({**TALK[0], "timestamp": planted})
            written = json.loads(write_directory(jp).files["metadata.json"])
            assert written["last_activated_at"] == "2026-02-02 03:00:05.25"
            jp["conversation"]["origin"]["metadata"] = json.dumps({"last_activated_at": planted})
            written = json.loads(write_directory(jp).files["metadata.json"])
            assert written["last_activated_at"] == "2026-02-02 03:00:05.25"


def test_the_id_is_not_of_a_time_that_no_clock_can_show() -> None:
    jp = imported(directory([{**TALK[0], "timestamp": planted} for planted in FAR]), "x")
    assert jp["conversation"]["id"] == "jp-c17829072002"


def test_the_last_activity_is_never_put_back() -> None:
    metadata = {"last_activated_at": "2026-05-01 00:00:00.0"}
    jp = imported(directory(TALK) | {"metadata.json": jp_text(metadata)})
    jp["events"].append({**TALK[0]})
    written = json.loads(write_directory(jp).files["metadata.json"])
    assert written["last_activated_at"] == "2026-05-01 00:00:00.0"


# --- metadata that is there --------------------------------------------------------------------


def test_of_metadata_that_is_there_title_and_time_alone_change() -> None:
    jp = imported(directory(TALK))
    there = {
        "pinned_at": "2026-03-01 00:00:00.0",
        "title": "Renamed by JP",
        "labels": {"b": "1", "a": "2"},
        "last_activated_at": "2026-02-02 03:00:04.0",
        "new": [1.0],
    }
    text = jp_text(there)
    assert write_directory(jp, metadata=text).files["metadata.json"] == text
    jp["events"].append(at(30, "chat_request", content="And?"))
    later = there | {"last_activated_at": "2026-02-02 03:00:30.25"}
    written = write_directory(jp, metadata=text).files["metadata.json"]
    assert written == jp_text(later)
    jp["conversation"]["title"] = "Renamed here"
    written = write_directory(jp, metadata=text).files["metadata.json"]
    assert written == jp_text(later | {"title": "Renamed here"})
    newer = later | {"last_activated_at": "2026-06-01 00:00:00.0"}
    written = write_directory(jp, metadata=jp_text(newer)).files["metadata.json"]
    assert written == jp_text(newer | {"title": "Renamed here"})


# --- hints of a stranger -----------------------------------------------------------------------


def stranger(entry: Any, **head: Any) -> Any:
    """What JP reads of one entry that somebody wrote into a notebook."""
    jp = imported(directory([TALK[0]]))
    jp["events"] = [TALK[0], entry]
    jp["conversation"]["origin"] |= head
    return json.loads(write_directory(jp).files["events.json"])[1]


CHANGE = at(1, "config_delta", delta={"style": {}})


def test_only_configuration_is_taken_out_of_a_delta(subtests: pytest.Subtests) -> None:
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
            assert stranger({**entry, "spelling": {"flat": True}}) == entry


def test_a_delta_that_is_configuration_is_written_flat_again() -> None:
    flat = at(1, "config_delta", style={}, claims={"a": []}, op=None)
    assert stranger(kept(entry_of(flat))) == flat


def test_no_hint_makes_an_entry_say_something_else(subtests: pytest.Subtests) -> None:
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
            text = write_directory(jp).files["events.json"]
            said = json.loads(text)[0]
            assert {k: v for k, v in said.items() if k not in ("verbatim", "spelling")} == TALK[0]
            assert text.decode().splitlines()[:2] == ["[", "  {"]
            assert b"EVIL" not in text


def test_what_is_kept_as_found_would_not_be_decoded() -> None:
    entry = {**RESULT, "content": b64("EVIL"), "verbatim": ["/content"]}
    assert stranger(entry)["content"] == b64(b64("EVIL"))


def test_a_number_is_written_as_one(subtests: pytest.Subtests) -> None:
    rows: list[tuple[int, str]] = [
        (10, "1_0"),
        (10, "10\n"),
        (10, "10 "),
        (1, "01"),
        (1, "+1"),
        (1, "\u0661"),
        (1, '1, "a": 2'),
    ]
    for number, token in rows:
        with subtests.test(number=number, token=token):
            jp = imported(directory([]))
            jp["events"] = [{"n": number, "type": "x", "spelling": {"numbers": {"/n": token}}}]
            assert write_directory(jp).files["events.json"] == jp_text([{"n": number, "type": "x"}])


def test_integers_that_a_page_cannot_hold_are_kept_as_text() -> None:
    big = [2**53 - 1, 2**53 + 1, -(2**53) - 1, 2**63 - 1]
    files = directory([{"n": big, "type": "x"}], {"b": big})
    assert write_directory(imported(files)).files == files


def test_only_a_change_of_the_configuration_leads(subtests: pytest.Subtests) -> None:
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
                files = write_directory(jp).files
                again = imported(files)
                assert again["base_config"] == config
                assert again["events"] == jp["events"]
                assert all(b"EVIL" not in content for name, content in files.items() if not config)


def test_a_leading_entry_without_configuration_takes_one_up() -> None:
    jp = imported(directory([at(0, "config_delta"), *TALK], None))
    jp["base_config"] = {"assistant": {"name": "Tess"}}
    files = write_directory(jp).files
    assert "base_config.json" not in files
    assert json.loads(files["events.json"])[0]["delta"] == {"assistant": {"name": "Tess"}}


def test_events_do_not_stand_in_the_base_configuration() -> None:
    jp = imported(G5)
    jp["conversation"]["origin"]["base_config"]["init"] = 4
    jp["events"][1] = TALK[0]
    files = write_directory(jp).files
    assert len(json.loads(files["base_config.json"])["init"]) == 1
    assert json.loads(files["events.json"])[0] == TALK[0]


def test_beside_the_base_configuration_stands_no_other() -> None:
    jp = imported(directory([], {"base": BASE, "x": 1}))
    jp["conversation"]["origin"]["base_config"]["extra"] = {"base": {"EVIL": 1}, "init": [], "x": 1}
    del jp["conversation"]["origin"]["base_config"]["order"]
    assert json.loads(write_directory(jp).files["base_config.json"]) == {"base": BASE, "x": 1}
    jp = imported(directory([]))
    jp["base_config"] = {"base": {"EVIL": 1}}
    assert imported(write_directory(jp).files)["base_config"] == jp["base_config"]


# --- half a character --------------------------------------------------------------------------


def mended(value: Any) -> Any:
    """What is left after a carrier: half a character is U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {mended(key): mended(item) for key, item in value.items()}
    return [mended(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("file", ["metadata.json", "base_config.json", "events.json"])
def test_half_a_character_comes_back_after_a_page(file: str) -> None:
    value: Any = {"title": "\ud83d x", "k\ud83d": ["\udc00", "\U0001f315"]}
    if file == "events.json":
        value = [TALK[0] | value, {**CALL, "arguments": {"\ud83d": "\ud83d", "a": "-\udc00"}}]
    files = directory(TALK) | {file: json.dumps(value, indent=2).encode()}
    jp = mended(imported(files))
    assert "\\ud83d" in files[file].decode()
    assert write_directory(kept(jp)).files == files


def test_another_text_is_not_half_a_character() -> None:
    text = json.dumps([TALK[0] | {"content": "\ud83d x"}]).encode()
    files = directory([]) | {"events.json": text}
    jp = imported(files)
    jp["events"][0]["content"] = "\ufffd y"
    assert json.loads(write_directory(jp).files["events.json"])[0]["content"] == "\ufffd y"
