"""The Interactions API of Google Gemini for the loopback server: events and rules.

The official SDK checks it (`test_google_sdk.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.loopback import Reply

Json = dict[str, Any]
GENERATE = ":streamGenerateContent"
"""The end of the path of a request with the dialect `generate`."""


def split(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def interaction_events(reply: Reply, model: str, number: int) -> Iterator[Json]:
    """Yield the events of one response."""
    interaction = {"id": f"v1_{number}", "object": "interaction", "model": model}
    yield {
        "event_type": "interaction.created",
        "interaction": {**interaction, "status": "in_progress"},
    }
    yield {
        "event_type": "interaction.status_update",
        "interaction_id": f"v1_{number}",
        "status": "in_progress",
    }
    steps: list[tuple[Json, list[Json]]] = []
    if reply.reasoning:
        summaries = [
            {"type": "thought_summary", "content": {"type": "text", "text": text}}
            for text in split(reply.reasoning, reply.delta_chars)
        ]
        signature = {"type": "thought_signature", "signature": reply.signature}
        steps.append(({"type": "thought"}, [*summaries, signature]))
    if reply.text:
        texts = [{"type": "text", "text": text} for text in split(reply.text, reply.delta_chars)]
        steps.append(({"type": "model_output"}, texts))
    for place, call in enumerate(reply.tool_calls):
        start = {
            "type": "function_call",
            "id": call.id or f"fc_{number}_{place}",
            "name": call.name,
            "arguments": {},
        }
        pieces = split(call.arguments_text, reply.delta_chars)
        steps.append((start, [{"type": "arguments_delta", "arguments": text} for text in pieces]))
    for index, (start, deltas) in enumerate(steps):
        yield {"event_type": "step.start", "index": index, "step": start}
        for delta in deltas:
            yield {"event_type": "step.delta", "index": index, "delta": delta}
        yield {"event_type": "step.stop", "index": index}
    usage = {
        "total_input_tokens": reply.input_tokens,
        "total_output_tokens": reply.output_tokens,
        "total_thought_tokens": 2 if reply.reasoning else 0,
        "total_cached_tokens": reply.cached_tokens,
    }
    status = reply.finish or ("requires_action" if reply.tool_calls else "completed")
    yield {
        "event_type": "interaction.completed",
        "interaction": {**interaction, "status": status, "usage": usage},
    }


def generate_chunks(reply: Reply, number: int) -> Iterator[Json]:
    """Yield the chunks of one response of `streamGenerateContent`."""
    parts: list[Json] = [
        {"text": text, "thought": True} for text in split(reply.reasoning, reply.delta_chars)
    ]
    parts += [{"text": text} for text in split(reply.text, reply.delta_chars)]
    for place, call in enumerate(reply.tool_calls):
        function = {"name": call.name, "args": json.loads(call.arguments_text)}
        id_ = call.id or f"fc_{number}_{place}"
        part: Json = {"functionCall": {**function, "id": id_} if id_ != "none" else function}
        if reply.reasoning and place == 0:
            part["thoughtSignature"] = reply.signature
        parts.append(part)
    for part in parts:
        yield {"candidates": [{"content": {"role": "model", "parts": [part]}}]}
    usage = {
        "promptTokenCount": reply.input_tokens,
        "candidatesTokenCount": reply.output_tokens,
        "thoughtsTokenCount": 2 if reply.reasoning else 0,
        "cachedContentTokenCount": reply.cached_tokens,
    }
    end = {
        "content": {"role": "model", "parts": [{"text": ""}]},
        "finishReason": reply.finish or "STOP",
    }
    yield {"candidates": [end], "usageMetadata": usage}


def error_body(status: int, message: str) -> Json:
    """Return the body of an error."""
    words = {401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
    words |= {500: "INTERNAL", 503: "UNAVAILABLE"}
    word = words.get(status, "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": word}}


_FIELDS = {
    "model",
    "store",
    "stream",
    "input",
    "system_instruction",
    "tools",
    "generation_config",
    "response_format",
    "safety_settings",
    "service_tier",
    "continuation_token",
}
_CONFIG = {
    "max_output_tokens",
    "seed",
    "stop_sequences",
    "thinking_level",
    "thinking_summaries",
    "tool_choice",
    "temperature",
    "top_p",
}
_STEPS: Mapping[str, tuple[set[str], set[str]]] = {
    "user_input": ({"content"}, set()),
    "model_output": ({"content"}, {"error"}),
    "thought": (set(), {"signature", "summary"}),
    "function_call": ({"id", "name", "arguments"}, {"signature"}),
    "function_result": ({"call_id", "result"}, {"name", "is_error"}),
}


def find_fault(path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Json) -> str:
    """Return the first rule that a request breaks; "" if there is none."""
    if "key" in query or "authorization" in headers:
        return "the key belongs into x-goog-api-key"
    if path.endswith(GENERATE):
        return "alt=sse" if query.get("alt") != "sse" else _find_fault_in_contents(body)
    if body.get("store") is not False or body.get("stream") is not True:
        return "store: false, and stream: true"
    if unknown := body.keys() - _FIELDS:
        return f"unknown fields {unknown}"
    if unknown := body.get("generation_config", {}).keys() - _CONFIG:
        return f"generation_config: unknown fields {unknown}"
    return _find_fault_in_steps(body["input"])


def _find_fault_in_steps(steps: Sequence[Json]) -> str:
    waiting: set[str] = set()
    seen: set[str] = set()
    if not steps:
        return "input: empty"
    for number, step in enumerate(steps):
        place = f"input[{number}]"
        kind = step.get("type")
        if not isinstance(kind, str) or kind not in _STEPS:
            continue  # a tool of the vendor, or a later kind
        required, optional = _STEPS[kind]
        if missing := required - step.keys():
            return f"{place}: missing {missing}"
        if kind in ("user_input", "function_result") and (
            unknown := step.keys() - required - optional - {"type"}
        ):
            return f"{place}: unknown {unknown}"
        if fault := _find_fault_in_calls(step, waiting, seen):
            return f"{place}: {fault}"
    return f"calls without results: {sorted(waiting)}" if waiting else ""


def _find_fault_in_calls(step: Json, waiting: set[str], seen: set[str]) -> str:
    match step["type"]:
        case "function_call" if step["id"] in seen:
            return f"the id {step['id']} is not unique"
        case "function_call" if not _NAME.fullmatch(step["name"]):
            return f"invalid function name: {step['name'][:200]!r}"
        case "function_call" if not _ID.fullmatch(step["id"]):
            return f"invalid id: {step['id'][:200]!r}"
        case "function_call":
            waiting.add(step["id"])
            seen.add(step["id"])
        case "function_result" if step["call_id"] not in waiting:
            return f"no call {step['call_id']} waits"
        case "function_result":
            waiting.discard(step["call_id"])
        case "user_input" if waiting:
            return f"calls without results: {sorted(waiting)}"
        case "user_input":
            return _find_fault_in_content(step["content"])
    return ""


_NAME = re.compile("[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_ID = re.compile("[!-~]{1,128}")
_PARTS = {"text", "inlineData", "functionCall", "functionResponse"}


def _find_fault_in_contents(body: Json) -> str:
    waiting: list[str] = []
    # The official client sends each piece of a stream as a message of its own.
    for role, contents in groupby(body["contents"], key=itemgetter("role")):
        parts = [part for content in contents for part in content["parts"]]
        place = f"contents of the {role}"
        if role not in ("user", "model") or not parts:
            return f"{place}: the role {role}, or no parts"
        if any(len(part.keys() & _PARTS) != 1 for part in parts):
            return f"{place}: a part without data"
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if [each["name"] for each in results] != waiting:
            return f"{place}: calls of {waiting}, results of {results}"
        calls = [part for part in parts if "functionCall" in part]
        if calls and "thoughtSignature" not in calls[0]:
            return f"{place}: a call is missing a thought_signature"
        waiting = [part["functionCall"]["name"] for part in calls]
        if any(not _NAME.fullmatch(name) for name in waiting):
            return f"{place}: invalid function name: {waiting}"
        if any(not _ID.fullmatch(part["functionCall"].get("id", "-")) for part in calls):
            return f"{place}: invalid id of a call"
    return f"calls of {waiting} without results" if waiting else ""


def _find_fault_in_content(content: Sequence[Json]) -> str:
    if not content:
        return "no content"
    for part in content:
        if part["type"] == "text" and not part["text"].strip():
            return "blank text"
        if part["type"] in ("image", "document") and not part["data"]:
            return "no data"
    return ""


def named(value: Json) -> bytes:
    """Encode an event whose name is its type."""
    data = json.dumps(value, ensure_ascii=False)
    return f"event: {value['event_type']}\ndata: {data}\n\n".encode()
