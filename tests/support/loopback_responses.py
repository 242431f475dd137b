"""OpenAI Responses for the loopback server: events of a reply, and rules for requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.loopback import Reply

Json = dict[str, Any]


def iter_events(reply: Reply, model: str, number: int) -> Iterator[Json]:
    """Yield the events of `reply`, the response to request `number`."""
    response: Json = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "model": model,
        "status": "in_progress",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    end = "incomplete" if reply.finish else "completed"
    done: Json = {**response, "status": end, "output": [], "usage": _usage(reply)}
    if reply.finish:
        done["incomplete_details"] = {"reason": reply.finish}
    events: list[Json] = [
        {"type": "response.created", "response": response},
        {"type": "response.in_progress", "response": response},
    ]
    for item, parts in _items(reply, number):
        place: Json = {"output_index": len(done["output"])}
        start = {**item, "status": "in_progress"}
        start |= {key: [] for key in ("summary", "content") if key in item}
        start |= {key: "" for key in ("arguments", "encrypted_content") if key in item}
        events.append({"type": "response.output_item.added", **place, "item": start})
        events += [{**place, "item_id": item["id"], **part} for part in parts]
        events.append({"type": "response.output_item.done", **place, "item": item})
        done["output"].append(item)
    events.append({"type": f"response.{end}", "response": done})
    for sequence_number, event in enumerate(events):
        yield {"type": event["type"], "sequence_number": sequence_number, **event}


def _split(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _items(reply: Reply, number: int) -> Iterator[tuple[Json, list[Json]]]:
    if reply.reasoning:
        part: Json = {"type": "summary_text", "text": reply.reasoning}
        item: Json = {"type": "reasoning", "id": f"rs_{number}", "summary": [part]}
        item |= {"encrypted_content": reply.signature, "status": "completed"}
        where = {"summary_index": 0}
        yield item, _part_events("reasoning_summary", "reasoning_summary_text", part, where, reply)
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
        item |= {"content": [part], "status": "completed", "phase": "final_answer"}
        yield item, _part_events("content", "output_text", part, {"content_index": 0}, reply)
    for place, call in enumerate(reply.tool_calls):
        item = {"type": "function_call", "id": f"fc_{number}_{place}", "name": call.name}
        item |= {"call_id": call.id or f"call_{number}_{place}", "status": "completed"}
        item["arguments"] = call.arguments_text
        name = "response.function_call_arguments"
        events: list[Json] = [
            {"type": f"{name}.delta", "delta": text}
            for text in _split(call.arguments_text, reply.delta_chars)
        ]
        done = {"type": f"{name}.done", "name": call.name, "arguments": call.arguments_text}
        yield item, [*events, done]


def _part_events(family: str, text: str, part: Json, place: Json, reply: Reply) -> list[Json]:
    more: Json = {"logprobs": []} if text == "output_text" else {}
    return [
        {"type": f"response.{family}_part.added", **place, "part": {**part, "text": ""}},
        *(
            {"type": f"response.{text}.delta", **place, "delta": piece, **more}
            for piece in _split(part["text"], reply.delta_chars)
        ),
        {"type": f"response.{text}.done", **place, "text": part["text"], **more},
        {"type": f"response.{family}_part.done", **place, "part": part},
    ]


def _usage(reply: Reply) -> Json:
    return {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": reply.cached_tokens, "cache_write_tokens": 2},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


_BODY = {
    "model", "input", "store", "stream", "stream_options", "include", "truncation",
    "prompt_cache_key", "tools", "tool_choice", "text", "reasoning", "max_output_tokens",
    "temperature", "top_p", "parallel_tool_calls", "service_tier", "prompt_cache_options",
    "response_format",  # of llama.cpp
}  # fmt: skip
_ITEMS: Mapping[str, set[str]] = {
    "message": {"role", "content"},
    "reasoning": {"id", "summary", "encrypted_content"},
    "function_call": {"call_id", "name", "arguments"},
    "function_call_output": {"call_id", "output"},
    "additional_tools": {"role", "tools"},
    "configuration_update": set(),
}
_PARTS: Mapping[str, set[str]] = {
    "input_text": {"text"},
    "output_text": {"text", "annotations"},
    "input_image": {"image_url"},
    "input_file": {"filename", "file_data"},
}
_MEDIA_TYPE = re.compile(
    "data:(image/(?:png|jpeg|gif|webp)|application/pdf);base64,[A-Za-z0-9+/=]+"
)


def find_fault(body: Json) -> str:
    """Return the reason why the API refuses a request, or ""."""
    if unknown := body.keys() - _BODY:
        return f"unknown parameter: {sorted(unknown)}"
    if body.get("store") is not False or not body["input"]:
        return "store: there is no state here; input: must not be empty"
    if any(not {"type", "name", "parameters", "strict"} <= tool.keys() for tool in _tools(body)):
        return "tools: a member is missing"
    if "tool_choice" in body and not _tools(body):
        return "tool_choice: without tools"
    waiting: set[str] = set()
    for number, item in enumerate(body["input"]):
        required = _ITEMS.get(item.get("type"))
        if required is None or not required <= item.keys():
            return f"input[{number}]: unknown type, or a member is missing"
        following = body["input"][number + 1 : number + 2]
        if fault := _find_item_fault(item, following, waiting):
            return f"input[{number}]: {fault}"
    return f"calls without results: {sorted(waiting)}" if waiting else ""


def _tools(body: Json) -> list[Json]:
    return body.get("tools") or []


def _find_item_fault(item: Json, following: list[Json], waiting: set[str]) -> str:
    match item["type"]:
        case "function_call":
            waiting.add(item["call_id"])
            is_object = isinstance(json.loads(item["arguments"]), dict)
            is_named = re.fullmatch("[a-zA-Z0-9_-]{1,64}", item["name"]) is not None
            has_id = re.fullmatch("[a-zA-Z0-9_-]{1,64}", item["call_id"]) is not None
            return "" if is_object and is_named and has_id else "not a valid call"
        case "function_call_output":
            is_waiting = item["call_id"] in waiting
            waiting.discard(item["call_id"])
            return _find_part_fault(item["output"]) if is_waiting else "no such call is waiting"
        case "reasoning":
            kinds = {(one["type"], one.get("role", "assistant")) for one in following}
            accepted = {("message", "assistant"), ("function_call", "assistant")}
            accepted.add(("reasoning", "assistant"))
            return "" if kinds & accepted else "reasoning without its required following item"
        case "additional_tools":
            return "" if item["role"] == "developer" and item["tools"] else "not a list of tools"
        case "configuration_update":
            return "" if {"reasoning", "text"} & item.keys() else "no configuration"
        case _ if waiting and item.get("role") != "assistant":
            return f"calls without results: {sorted(waiting)}"
    return _find_part_fault(item["content"]) if item["content"] else "content: empty"


def _find_part_fault(content: str | list[Json]) -> str:
    for part in content if isinstance(content, list) else ():
        required = _PARTS.get(part.get("type", ""))
        if required is None or not required <= part.keys():
            return f"part {part.get('type')!r}: unknown type, or a member is missing"
        url = part.get("image_url") or part.get("file_data")
        if url is not None and not _MEDIA_TYPE.fullmatch(url):
            return f"not the data of an image or a PDF: {url[:30]!r}"
        if "text" in part and not part["text"].strip():
            return "text must contain non-whitespace"
    return ""
