"""Example conversation directories of JP."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.kit.jp_directories import JpDirectory

NAME = "17700000001-on-tides"

MODEL = {"provider": "anthropic", "name": "m-1"}

BASE: dict[str, Any] = {"assistant": {"name": "Tess", "model": {"id": MODEL}}}

METADATA = {"title": "On tides", "last_activated_at": "2026-02-02 03:00:00.5"}


def clock() -> datetime:
    """The time at which the kit imports a directory."""
    return datetime(2026, 7, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def jp_text(value: Any) -> bytes:
    """Return the bytes of a file as JP writes it."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def b64(text: str) -> str:
    """`text` in Base64, as JP stores it."""
    return base64.b64encode(text.encode()).decode()


def directory(events: Any, base: Any = BASE, **others: bytes) -> dict[str, bytes]:
    """The files of a JP conversation."""
    files = {"metadata.json": jp_text(METADATA), "events.json": jp_text(events)}
    if base is not None:
        files["base_config.json"] = jp_text(base)
    return files | others


def kept(value: Any) -> Any:
    """Return `value` as a notebook and a page store it: keys sorted, whole floats as integers."""
    if isinstance(value, dict):
        return {key: kept(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [kept(item) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(float(value)) if float(value).is_integer() else float(value)
    return value


def imported(files: Mapping[str, bytes], name: str = NAME) -> Any:
    """Return the `jp` object of `files`."""
    return kept(JpDirectory.read(files, name))


def at(second: int, kind: str, **fields: Any) -> dict[str, Any]:
    """A JP entry with its time."""
    moment = f"2026-02-02 03:00:{second:02d}.25"
    if kind in ("config_delta", "compaction"):
        return {"type": kind, "timestamp": moment, **fields}
    return {"timestamp": moment, "type": kind, **fields}


def question(**more: Any) -> dict[str, Any]:
    """A question as JP stores it."""
    return {"text": "Really?", "answer_type": {"type": "boolean"}, "default": False, **more}


CALL = at(
    3,
    "tool_call_request",
    id="c1",
    name="look",
    arguments={"path": b64("ä"), "deep": [b64("x"), 4]},
)

RESULT = at(4, "tool_call_response", id="c1", content=b64("line\nline"), is_error=False)

TALK = [at(1, "chat_request", content="Why tides?"), at(5, "chat_response", message="The moon: 🌕")]

ASKED = at(3, "inquiry_request", id="c1.ok", source={"source": "tool", "name": "look"},
           question=question())  # fmt: skip

SIGNED = at(
    2, "chat_response", reasoning="hm", metadata={"anthropic_thinking_signature": b64("sig")}
)

G1 = directory(
    [at(9, "config_delta", assistant={"name": "Tess", "model": {"id": "flash"}}, style={}), *TALK],
    None,
)

G2 = directory(
    [
        at(0, "config_delta", delta={**BASE, "inherit": False}),
        TALK[0],
        SIGNED,
        {**CALL, "tool_answers": {"apply": b64("true")}},
        RESULT,
        at(6, "inquiry_request", id="c1.pick", source={"source": "tool", "name": "look"},
           question={"text": "Which?", "answer_type": {"type": "select", "options": ["a", "b"]}}),
        at(6, "config_delta", delta={"assistant": {"model": {"id": "flash"}}}),
        TALK[1],
    ],
    None,
)  # fmt: skip

G3 = directory(
    [
        at(0, "config_delta", delta=BASE),
        at(1, "turn_start"),
        TALK[0],
        CALL,
        ASKED,
        at(3, "inquiry_response", id="c1.ok", answer=True),
        RESULT,
        at(4, "inquiry_request", id="c2.ok", source={"source": "assistant"}, question=question()),
        at(5, "chat_response", data={"z": 1, "a": [None, 2.5]}),
    ],
    None,
)  # fmt: skip

G4 = directory(
    [
        at(1, "turn_start"),
        {**TALK[0], "author": "Ada"},
        SIGNED,
        CALL,
        {**RESULT, "metadata": {"note": b64("n"), "deep": {"z": b64("1"), "a": b64("2")}}},
        at(5, "compaction", from_turn=0, to_turn=0, summary={"summary": "tides"},
           tool_calls={"policy": "strip", "request": True, "response": False}),
        {"type": "hologram", "zeta": b64("untouched"), "alpha": {"c": 1, "b": 2}},
        {"no": "type"},
        {**TALK[1], "mood": {"z": 1, "a": 2}},
    ]
)  # fmt: skip

G5 = directory(
    [
        at(1, "turn_start") | {"event_id": "e0"},
        {"event_id": "e1", **TALK[0]},
        {"event_id": "e2", "request_id": "e1", **CALL},
        at(3, "inquiry_request", id="c1.q.1", source={"source": "assistant"},
           question=question(context="why", exclusive=True, persistence="none")),
        at(3, "inquiry_response", outcome="cancelled", id="c1.q.1", reason="moon_phase"),
        at(3, "inquiry_response", outcome="redacted", id="c1.q.2"),
        RESULT,
        at(6, "config_delta", delta={}, unsets=["assistant.name"], claims={"assistant.name": None}),
        {"type": "config_delta", "op": "reset", "timestamp": "2026-02-02 03:00:06.0"},
        {"type": "config_delta", "op": "rewind", "timestamp": "2026-02-02 03:00:06.0", "to": 3},
        TALK[1],
    ],
    {"base": BASE, "init": [at(0, "config_delta", delta={"assistant": {"name": "Ines"}})]},
)  # fmt: skip


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a directory into `folder`."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def merge_as_jp(old: Any, new: Any) -> Any:
    """Return the setting `old` after the change `new`, as JP merges them."""
    if isinstance(new, dict) and "strategy" in new:
        value = new["value"]
        if old is None or new["strategy"] == "replace":
            return value
        return old + value if new["strategy"] == "append" else value + old

    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: merge_as_jp(old.get(key), item) for key, item in new.items()}
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *new]
    return new
