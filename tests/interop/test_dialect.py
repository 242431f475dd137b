"""The dialect `jp-head`: JP can load an export, and the export lists omitted values."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import jp_nb
from tests.interop.jp_directories import (
    ASKED,
    CALL,
    G4,
    RESULT,
    TALK,
    at,
    imported,
    merge_as_jp,
    question,
)
from tests.kit.jp_directories import JpDirectory

JP: dict[str, Any] = json.loads(Path(__file__).with_name("jp_settings.json").read_text())
"""The providers and settings of JP, with the shape of each value."""

MODEL = {"provider": "anthropic", "name": "m-1"}
TOOLS = {"*": {"run": "ask"}}
BASE: dict[str, Any] = {"assistant": {"model": {"id": MODEL}}, "conversation": {"tools": TOOLS}}
START = at(1, "turn_start")


def convert_to_jp_dialect(events: list[Any], base: Any = BASE) -> JpDirectory:
    head = {"id": "jp-c17700000001", "made": "live"}
    jp = {"conversation": head, "base_config": base, "events": events}
    written = JpDirectory.write(jp, dialect="jp-head")
    load_as_jp(written)
    return written


def entries(written: JpDirectory) -> Any:
    return json.loads(written.files["events.json"])


def base(written: JpDirectory) -> Any:
    return json.loads(written.files["base_config.json"])


def load_as_jp(written: JpDirectory) -> dict[str, Any]:
    """Load entries as JP does: one invalid entry is an error."""
    config: dict[str, Any] = merge_as_jp({}, base(written))
    assert isinstance(value_at(config, "assistant.model.id"), (dict, str))
    assert value_at(config, "conversation.tools").get("*", {}).get("run")
    for partial in (base(written), *(e["delta"] for e in entries(written) if "delta" in e)):
        check_known(partial, JP["settings"])
    for entry in entries(written):
        match entry.get("type"):
            case "inquiry_response":
                assert "answer" in entry
                assert "outcome" not in entry
            case "inquiry_request":
                kind = entry["question"]["answer_type"]["type"]
                assert kind in ("boolean", "select", "text")
            case "config_delta":
                assert entry.keys() <= {"type", "timestamp", "delta", "metadata"}
                config = merge_as_jp(config, entry["delta"])
    for name, tool in value_at(config, "conversation.tools").items():
        assert name == "*" or tool["source"].split(".")[0] in ("builtin", "local", "mcp")
    return config


def value_at(config: Any, path: str) -> Any:
    for key in path.split("."):
        config = config[key]
    is_wrapper = isinstance(config, dict) and "strategy" in config
    return config["value"] if is_wrapper else config


def check_known(value: Any, shape: Any) -> None:
    if shape == "parameter":  # a parameter of a tool, which may have parameters
        shape = JP["parameter"]
    if isinstance(shape, dict):
        for key, item in value.items():
            assert key in shape or "*" in shape, key
            check_known(item, shape.get(key) or shape["*"])
    elif shape == "plain":
        assert not isinstance(value, dict) or "strategy" not in value
    elif shape == "model" and isinstance(value, dict):
        assert value["provider"] in JP["providers"]


def pair(number: int, /, *, question: Any = None, **response: Any) -> list[Any]:
    key = f"c{number}.q.1"
    asked = ASKED | {"id": key}
    if question is not None:
        asked |= {"question": question}
    return [asked, at(3, "inquiry_response", id=key, **response)]


def test_conversation_that_jp_reads_is_unchanged() -> None:
    jp = imported(G4 | {"base_config.json": (json.dumps(BASE, indent=2) + "\n").encode()})
    written = JpDirectory.write(jp, dialect="jp-head")
    assert written.dropped == []
    assert written.files == JpDirectory.write(jp).files


def test_unanswered_inquiries_are_omitted_in_pairs() -> None:
    secret = question(answer_type={"type": "secret"}, text="Key?")
    events = [
        START,
        TALK[0],
        CALL,
        *pair(1, outcome="answered", answer=True),
        *pair(2, outcome="cancelled", reason="user"),
        *pair(3, outcome="redacted", question=secret),
        *pair(4, outcome="answered", answer="hunter2", question=secret),
        *pair(5, outcome="postponed"),
        *pair(6, answer=False),
        *pair(7, outcome="answered"),
        ASKED | {"id": "open.1"},
        ASKED | {"id": "open.2", "question": secret},
        RESULT,
    ]
    written = convert_to_jp_dialect(events)
    ids = [e["id"] for e in entries(written) if e["type"].startswith("inquiry")]
    assert ids == ["c1.q.1", "c1.q.1", "c6.q.1", "c6.q.1", "open.1"]
    assert not any(
        word in written.files["events.json"] for word in (b"secret", b"cancel", b"redact")
    )
    assert [line.partition(":")[0] for line in written.dropped] == [
        "events[4].outcome", "events[5-6]", "events[7-8]", "events[9-10]",
        "events[11-12]", "events[15-16]", "events[18]",
    ]  # fmt: skip
    assert "c2.q.1" in written.dropped[1]


def test_pairs_with_one_id_are_distinguished_by_turn_and_order() -> None:
    first = pair(1, outcome="answered", answer=True)
    second = pair(1, outcome="cancelled", reason="user")
    events = [START, TALK[0], *first, *second, START, TALK[0], *second, *first]
    written = convert_to_jp_dialect(events)
    assert [e["type"] for e in entries(written) if e["type"].startswith("inquiry")] == [
        *["inquiry_request", "inquiry_response"] * 2
    ]


def test_fields_unknown_to_jp_are_listed_with_their_entries() -> None:
    wide = question(context="c", exclusive=True, persistence="none")
    events = [
        {**START, "event_id": "a"},
        {**TALK[0], "event_id": "b"},
        {**CALL, "event_id": "c", "request_id": "b"},
        *pair(1, outcome="answered", answer=True, question=wide),
        {**RESULT, "event_id": "d", "request_id": "b"},
        {"type": "hologram", "event_id": "kept"},
    ]
    written = convert_to_jp_dialect(events)
    assert written.dropped == [
        "events[0-2, 5].event_id: JP has no such field",
        "events[2, 5].request_id: JP has no such field",
        "events[3].question.context: JP has no such field",
        "events[3].question.exclusive: JP has no such field",
        "events[3].question.persistence: JP has no such field",
        "events[4].outcome: JP has no such field",
    ]
    assert entries(written)[3]["question"] == question()
    assert entries(written)[-1] == {"type": "hologram", "event_id": "kept"}


def test_long_lists_of_entries_are_cut_into_lines() -> None:
    ids = [{**TALK[0], **({"event_id": f"e{n}"} if n % 2 else {})} for n in range(100)]
    written = convert_to_jp_dialect(ids)
    assert [line.count(", ") for line in written.dropped] == [19, 19, 9]
    assert written.dropped[0].startswith("events[1, 3, 5, ")


def test_payloads_are_encoded() -> None:
    jp = imported(G4)
    arguments = {"path": "ä", "x": "-!"}
    added = {**CALL, "arguments": arguments, "verbatim": ["/arguments/x"], "event_id": "e"}
    jp["events"].append(added)
    written = JpDirectory.write(jp, dialect="jp-head")
    encoded = base64.b64encode("ä".encode()).decode()
    assert entries(written)[-1]["arguments"] == {"path": encoded, "x": "-!"}


def test_damaged_entry_is_omitted() -> None:
    written = convert_to_jp_dialect(
        [{"type": "chat_request", "timestamp": "2026-02-02 03:00:00.0"}, *TALK]
    )
    assert len(entries(written)) == 2
    assert "content" in written.dropped[0]


def test_bare_options_become_tables() -> None:
    asked = question(answer_type={"type": "select", "options": ["a", {"value": "b"}]})
    written = convert_to_jp_dialect(pair(1, answer="a", question=asked))
    options = entries(written)[0]["question"]["answer_type"]["options"]
    assert options == [{"value": "a"}, {"value": "b"}]


LABELLED = [{"value": "pg", "label": "Postgres", "description": "Solid."}, "SQLite"]


def select(**more: Any) -> dict[str, Any]:
    kind = {"type": "select", "options": LABELLED, **more}
    return question(answer_type=kind, header="Store", required=False)


FORMS: list[Any] = [
    START,
    TALK[0],
    *pair(1, answer="pg", question=select(other=True, recommended=0)),
    *pair(2, answer=["SQLite", "pg"], question=select(multi=True)),
    *pair(3, answer={"selected": [], "custom": "mine"}, question=select(other=True)),
    *pair(4, answer=3, question=question(answer_type={"type": "integer", "minimum": 1})),
    *pair(5, answer=2.5, question=question(answer_type={"type": "number"})),
    *pair(
        6,
        answer={"a": "x"},
        question=question(
            answer_type={
                "type": "form",
                "fields": [{"id": "a", "text": "A", "answer_type": {"type": "text"}}],
            }
        ),
    ),
    *pair(
        7,
        answer="2026-02-02",
        question=question(answer_type={"type": "text", "format": "date", "lines": False}),
        metadata={"end": "answered", "auto": True},
    ),
]


def test_questions_unknown_to_jp_are_converted_or_omitted() -> None:
    written = convert_to_jp_dialect(FORMS)
    kept = [e for e in entries(written) if e["type"].startswith("inquiry")]
    assert [e["id"] for e in kept] == ["c1.q.1", "c1.q.1", "c7.q.1", "c7.q.1"]
    assert kept[0]["question"] == question(
        answer_type={
            "type": "select",
            "options": [{"value": "pg", "description": "Postgres\nSolid."}, {"value": "SQLite"}],
        }
    )
    assert kept[2]["question"]["answer_type"] == {"type": "text"}
    assert written.dropped == [
        "events[2].question.header: JP has no such field",
        "events[2].question.required: JP has no such field",
        "events[2].question.answer_type.other: JP has no such field",
        "events[2].question.answer_type.recommended: JP has no such field",
        "events[2].question.answer_type.options.label: JP has no labels: moved to the description",
        *(
            f"events[{n}-{n + 1}]: JP reads one option or one text as an answer; this answer "
            f"has several options, or a custom text (c{n // 2}.q.1)"
            for n in (4, 6)
        ),
        "events[8-9]: JP does not support integer questions (c4.q.1)",
        "events[10-11]: JP does not support number questions (c5.q.1)",
        "events[12-13]: JP does not support form questions (c6.q.1)",
        "events[14].question.answer_type.format: JP has no such field",
        "events[14].question.answer_type.lines: JP has no such field",
    ]


def test_native_dialect_preserves_every_question() -> None:
    head = {"id": "jp-c17700000001", "made": "live"}
    jp: dict[str, Any] = {"conversation": head, "base_config": BASE, "events": FORMS}
    first = JpDirectory.write(jp)
    assert first.dropped == []
    again = imported(dict(first.files))
    assert JpDirectory.write(again).files == first.files
    stored = [{k: v for k, v in e.items() if k != "spelling"} for e in again["events"]]
    assert stored == FORMS


# --- configuration -----------------------------------------------------------------------------


def delta(value: Any = None, **more: Any) -> dict[str, Any]:
    return at(6, "config_delta", **({"delta": value} if value is not None else {}), **more)


def test_base_and_init_become_a_flat_base_and_deltas() -> None:
    init = delta({"assistant": {"name": "Ines"}})
    files = G4 | {"base_config.json": json.dumps({"base": BASE, "init": [init]}).encode()}
    written = JpDirectory.write(imported(files), dialect="jp-head")
    assert base(written) == BASE
    assert entries(written)[0] == init
    assert value_at(load_as_jp(written), "assistant.name") == "Ines"


def test_older_layouts_get_a_base_configuration() -> None:
    flat = at(0, "config_delta", **BASE)
    later = at(4, "config_delta", assistant={"name": "Ines"})
    files = {"events.json": json.dumps([flat, *TALK, later]).encode()}
    written = JpDirectory.write(imported(files), dialect="jp-head")
    assert base(written) == BASE
    assert entries(written)[-1]["delta"] == {"assistant": {"name": "Ines"}}
    assert load_as_jp(written)


OURS: dict[str, Any] = {
    "prompt": {"channel": "stdin"},
    "record": {"headless": "continue"},
    "interpolation": {"max_chars": 5},
    "style": {"update_interval_ms": 50, "reasoning": {"display": "full"}},
    "providers": {"llm": {"scripted": {"x": 1}, "openai": {"dialect": "chat", "base_url": "http://h"}}},
    "conversation": {
        "tools": {
            "here": {"source": "python.here", "run": "unattended"},
            "bare": {"run": "ask"},
            "disk": {
                "source": "local.disk",
                "questions": {"q": {"answer": 1, "prompt_label": "Tool"}},
                "access": {"fs": [{"path": "."}], "config": [{"path": "*"}]},
                "parameters": {"p": {"type": "array", "minimum": 1, "items": {"type": "", "x": 1}}},
            },
        }
    },
}  # fmt: skip
OURS_LISTED = {
    "prompt", "record", "interpolation", "style.update_interval_ms", "providers.llm.scripted",
    "providers.llm.openai.dialect", "conversation.tools.here", "conversation.tools.bare",
    "conversation.tools.disk.questions.q.prompt_label", "conversation.tools.disk.access.config",
    "conversation.tools.disk.parameters.p.minimum", "conversation.tools.disk.parameters.p.items.x",
}  # fmt: skip


def test_settings_unknown_to_jp_are_omitted_from_the_base() -> None:
    written = convert_to_jp_dialect([], merge_as_jp(BASE, OURS))
    places = {line.partition(": ")[0] for line in written.dropped}
    assert places == {f"base_config.{path}" for path in OURS_LISTED}
    tools = base(written)["conversation"]["tools"]
    assert tools.keys() == {"*", "disk"}
    assert base(written)["providers"] == {"llm": {"openai": {"base_url": "http://h"}}}


def test_settings_unknown_to_jp_are_omitted_from_a_delta() -> None:
    written = convert_to_jp_dialect([delta(OURS)])
    places = {line.partition(": ")[0] for line in written.dropped}
    assert places == {f"events[0].delta.{path}" for path in OURS_LISTED}
    assert load_as_jp(written)


def test_tool_with_a_later_source_is_written_whole() -> None:
    tools = "conversation.tools.here"
    there = {"conversation": {"tools": {"here": {"source": "local.here"}}}}
    events = [
        delta({"conversation": {"tools": {"here": {"source": "python.f", "summary": "S"}}}}),
        delta(there),
        delta({"conversation": {"tools": {"here": {"run": "ask"}}}}),
    ]
    written = convert_to_jp_dialect(events)
    assert len(entries(written)) == 2
    assert value_at(load_as_jp(written), tools) == {
        "source": "local.here",
        "summary": "S",
        "run": "ask",
    }


def test_last_model_known_to_jp_replaces_a_scripted_one() -> None:
    scripted = {"assistant": {"model": {"id": {"provider": "scripted", "name": "x"}}}}
    other = {"provider": "openai", "name": "m-2"}
    models = [scripted, {"assistant": BASE["assistant"]}, scripted,
              {"assistant": {"model": {"id": other}}}, scripted]  # fmt: skip
    written = convert_to_jp_dialect([delta(m) for m in models[1:]], models[0])
    assert base(written)["assistant"]["model"]["id"] == other
    assert [e["delta"]["assistant"]["model"]["id"] for e in entries(written)] == [MODEL, other]
    assert written.dropped == [
        "base_config.assistant.model.id: JP has no provider 'scripted'",
        "events[1, 3].delta.assistant.model.id: JP has no provider 'scripted'",
        "base_config.assistant.model.id: JP needs a model here: set to openai/m-2, the "
        "last supported one",
        "base_config.conversation.tools.*.run: JP needs a value here: set to ask",
    ]


def test_conversation_without_a_model_known_to_jp_is_refused(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [
        {},
        {"assistant": {"model": {"id": "scripted/welcome"}}},
        {
            "assistant": {"model": {"id": "w"}},
            "providers": {"llm": {"aliases": {"w": "scripted/w"}}},
        },
        {"assistant": {"model": {"id": {"name": "m-1"}}}},
    ]
    for start in rows:
        refused = pytest.raises(jp_nb.StorageError, match=r"assistant\.model\.id.*%jp config")
        with subtests.test(start=start), refused:
            convert_to_jp_dialect([], start)


def test_partial_models_are_merged() -> None:
    events = [
        delta({"assistant": {"model": {"id": {"provider": "scripted"}}}}),
        delta({"assistant": {"model": {"id": {"name": "m-9"}}}}),
        delta({"assistant": {"model": {"id": {"provider": "openai"}}}}),
    ]
    written = convert_to_jp_dialect(events)
    (only,) = entries(written)
    assert only["delta"]["assistant"]["model"]["id"] == {"provider": "openai", "name": "m-9"}


def test_unset_is_written_as_values() -> None:
    start = merge_as_jp(
        BASE,
        {
            "assistant": {
                "system_prompt": "Be odd.",
                "name": "Tess",
                "model": {"parameters": {"temperature": 0.5, "top_p": 1}},
            },
            "conversation": {"attachments": ["a.md", "b.md"], "labels": {"k": "v"}},
        },
    )
    change = delta(
        {"conversation": {"attachments": ["c.md"]}},
        unsets=[
            "conversation.attachments[\"a.md\"]", "assistant.system_prompt", "assistant.name",
            "assistant.model.parameters.temperature", "conversation.labels", "no path[",
        ],
        claims={"assistant.name": None},
    )  # fmt: skip
    written = convert_to_jp_dialect([change], start)
    assert entries(written)[0]["delta"] == {
        "assistant": {"system_prompt": "You are a helpful assistant."},
        "conversation": {
            "attachments": {"value": ["b.md", "c.md"], "strategy": "replace"},
            "labels": {"value": {}, "strategy": "replace"},
        },
    }
    assert [line.partition(": ")[0] for line in written.dropped] == [
        "events[0].unsets",
        "events[0].unsets",
        "events[0].claims",
        "events[0].delta.assistant.name",
        "events[0].delta.assistant.model.parameters.temperature",
    ]


def test_reset_is_written_as_values() -> None:
    start = merge_as_jp(BASE, {"assistant": {"system_prompt": "Odd.", "name": "Tess"},
                         "conversation": {"attachments": ["a.md"]}})  # fmt: skip
    later = delta({"conversation": {"attachments": ["z.md"]}})
    written = convert_to_jp_dialect([delta(op="reset"), later], start)
    first, second = entries(written)
    assert first["delta"] == {
        "assistant": {"system_prompt": "You are a helpful assistant."},
        "conversation": {"attachments": {"value": [], "strategy": "replace"}},
    }
    assert second == later
    assert value_at(load_as_jp(written), "conversation.attachments") == ["z.md"]
    stays = "JP cannot unset this: the earlier value remains"
    assert {line for line in written.dropped if line.endswith(stays)} == {
        f"events[0].delta.{path}: {stays}"
        for path in ("assistant.name", "assistant.model.id", "conversation.tools.*.run")
    }


def test_object_without_one_of_its_members_is_unchanged_in_jp() -> None:
    stop = {"stop": {"first": 1, "second": 2}}
    start = merge_as_jp(BASE, {"assistant": {"model": {"parameters": stop}}})
    path = "assistant.model.parameters.stop.second"

    written = convert_to_jp_dialect([delta({}, unsets=[path])], start)

    assert value_at(load_as_jp(written), "assistant.model.parameters") == stop
    assert f"events[0].delta.{path}: JP cannot unset this: the earlier value remains" in (
        written.dropped
    )


def test_unset_without_effect_is_omitted() -> None:
    written = convert_to_jp_dialect([delta({}, unsets=["assistant.name"]), delta({})])
    assert len(entries(written)) == 1


def test_unknown_op_is_omitted() -> None:
    written = convert_to_jp_dialect([delta(op="rewind")])
    assert entries(written) == []
    assert written.dropped == ["events[0].op: JP does not support 'rewind'"]


def test_strategy_is_kept_only_where_jp_reads_one() -> None:
    change = {
        "assistant": {
            "system_prompt": {"value": " More.", "strategy": "append"},
            "name": {"value": "Ines", "strategy": "replace"},
            "instructions": {"value": [{"title": "T", "items": ["i"]}], "strategy": "replace"},
            "system_prompt_sections": {"value": ["S"], "strategy": "prepend"},
        },
        "providers": {
            "llm": {"anthropic": {"beta_headers": {"value": ["b"], "strategy": "replace"}}}
        },
    }
    start = merge_as_jp(BASE, {"providers": {"llm": {"anthropic": {"beta_headers": ["a"]}}}})
    written = convert_to_jp_dialect([delta(change)], start)
    found = entries(written)[0]["delta"]
    assert found["providers"]["llm"]["anthropic"]["beta_headers"] == ["b"]
    assert found["assistant"]["name"] == "Ines"
    config = load_as_jp(written)
    assert value_at(config, "assistant.system_prompt_sections") == [{"content": "S"}]
    listed = [line for line in written.dropped if "beta_headers" in line]
    assert len(listed) == 2
    assert "only append" in listed[1]


def test_reasoning_shorthands_are_expanded(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, Any]] = [
        ("off", "off"),
        ("auto", "auto"),
        ("high", {"effort": "high"}),
        (4096, {"effort": {"absolute": 4096}}),
        ({"effort": 10, "exclude": True}, {"effort": {"absolute": 10}, "exclude": True}),
        ({"effort": "low"}, {"effort": "low"}),
    ]
    for reasoning, expected in rows:
        with subtests.test(reasoning=reasoning, expected=expected):
            parameters = {"assistant": {"model": {"parameters": {"reasoning": reasoning}}}}
            written = convert_to_jp_dialect([delta(parameters)])
            assert entries(written)[0]["delta"]["assistant"]["model"]["parameters"] == {
                "reasoning": expected
            }


def test_value_in_place_of_a_table_is_omitted() -> None:
    written = convert_to_jp_dialect([delta({"assistant": {"request": 5}, "style": "none"})])
    assert entries(written) == []
    assert len(written.dropped) == 2


def test_table_of_tools_has_no_settings_of_our_own() -> None:
    tool = JP["settings"]["conversation"]["tools"]["*"]
    assert "prompt_label" not in tool
    assert "config" not in tool["access"]


# --- edge cases --------------------------------------------------------------------------------


def test_response_answers_no_question_of_an_earlier_turn() -> None:
    asked, closed = pair(1, outcome="cancelled", reason="user")
    written = convert_to_jp_dialect([START, TALK[0], asked, START, TALK[0], closed])
    kinds = [e["type"] for e in entries(written)]
    assert kinds == [*["turn_start", "chat_request", "inquiry_request"], *kinds[:2]]


def test_circular_aliases_name_no_provider() -> None:
    aliases: Any = {"providers": {"llm": {"aliases": {"a": "b", "b": "a"}}}}
    model = {"assistant": {"model": {"id": "a"}}}
    written = convert_to_jp_dialect([delta(model)], merge_as_jp(BASE, aliases))
    assert entries(written)[0]["delta"] == model


def test_new_tool_does_not_change_the_rest_of_a_delta() -> None:
    change = {
        "conversation": {"tools": {"new": {"source": "local.new"}}, "attachments": ["b"]},
        "assistant": BASE["assistant"],
    }
    start = merge_as_jp(BASE, {"conversation": {"attachments": ["a"]}})
    written = convert_to_jp_dialect([delta(change)], start)
    assert entries(written)[0] == delta(change)
    assert written.dropped == []


def test_partial_model_is_merged_with_the_current_one(subtests: pytest.Subtests) -> None:
    for half in [{"name": "m-2"}, {"provider": "openai"}]:
        with subtests.test(half=half):
            written = convert_to_jp_dialect([delta({"assistant": {"model": {"id": half}}})])
            assert entries(written)[0]["delta"] == {"assistant": {"model": {"id": MODEL | half}}}


def test_usage_of_a_response_is_preserved() -> None:
    usage = {"model": "anthropic/m-1", "input_tokens": 1200, "output_tokens": 48}
    response = at(3, "chat_response", message="Rain.", metadata={"usage": usage})
    mark = at(4, "config_delta", delta={}, metadata={"usage": usage})
    written = convert_to_jp_dialect([START, ASKED, response, mark])
    [_, _, kept, changed] = entries(written)
    assert list(kept["metadata"]) == ["usage"]
    assert "usage" not in changed.get("metadata", {})  # JP has no metadata in this entry
    back = imported(written.files)
    assert back["events"][2]["metadata"] == {"usage": usage}


@pytest.mark.req("R-MCP-77")
@pytest.mark.parametrize("dialect", ["native", "jp-head"])
def test_call_of_a_server_survives_an_export_and_the_import(dialect: Any) -> None:
    base = merge_as_jp({}, BASE)
    tools = value_at(base, "conversation.tools")
    tools["shelf"] = {"source": "mcp.books.read", "run": "unattended"}
    call = {**CALL, "name": "books__read_file", "arguments": {"path": "a/b", "at": [1, None]}}
    result = {**RESULT, "content": "Emma, 1815", "is_error": True}
    marks = {"server": "books", "server_tool": "read.file"}
    head = {"id": "jp-c17700000001", "made": "live"}
    events = [START, call, {**result, "metadata": marks}]
    jp: dict[str, Any] = {"conversation": head, "base_config": base, "events": events}

    again = imported(JpDirectory.write(jp, dialect=dialect).files)
    assert value_at(again["base_config"], "conversation.tools.shelf.source") == "mcp.books.read"
    found = {entry["type"]: entry for entry in again["events"]}
    for kept in (call, result):
        for key in ("id", "name", "arguments", "content", "is_error"):
            assert found[kept["type"]].get(key) == kept.get(key)
    assert found["tool_call_response"]["metadata"] == marks
