"""Make the steps of Gemini's Interactions API, and read their texts.

A *step* is a thought, an output of the model, or a call. Thoughts and outputs have a list of
contents, each of which is a text or, for example, an image:

    {"type": "thought", "signature": "…", "summary": [{"type": "text", "text": "…"}]}
    {"type": "model_output", "content": [{"type": "text", "text": "Hello."}]}
    {"type": "function_call", "id": "c1", "name": "get", "arguments": {}}

Source: `docs/providers.md`, https://ai.google.dev/api/interactions-api.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.providers.request_parts.request_body import WireMessage

STEPS_KEY: Final = "google_step"
"""Metadata key of an entry for its steps, if they cannot be made of the entry."""
CONTENTS_FIELD: Final = {"thought": "summary", "model_output": "content"}
"""The field with the list of contents, by the type of the step."""


def make_text_content(text: str) -> WireMessage:
    """Return an element of a list of contents: a text."""
    return {"type": "text", "text": text}


def make_output_step(text: str) -> WireMessage:
    """Return a step that says `text`."""
    return {"type": "model_output", "content": [make_text_content(text)]}


def make_thought_step(text: str, signature: JsonValue) -> WireMessage:
    """Return the step of a thought. The summary and the signature are optional."""
    step: WireMessage = {"type": "thought"}
    if signature:
        step["signature"] = signature
    if text:
        step["summary"] = [make_text_content(text)]
    return step


def make_call_step(id_: str, name: str, arguments: JsonValue) -> WireMessage:
    """Return the step of a tool call."""
    return {"type": "function_call", "id": id_, "name": name, "arguments": arguments}


def join_texts(steps: Sequence[WireMessage], key: str) -> str:
    """Return the joined texts of `steps`, whose contents are in the field `key`.

    Invalid contents are omitted, because a step may come from a record.
    """
    texts: list[str] = []
    for step in steps:
        contents = step.get(key)
        if not isinstance(contents, list):
            continue

        for content in contents:
            match content:
                case {"type": "text", "text": str(text)}:
                    texts.append(text)

    return "".join(texts)
