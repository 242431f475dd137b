"""Steps of an answer of Gemini in the metadata of a record, rebuilt from known fields.

They are sent back to the Interactions API. A *step* is a thought, an output, or a call of the model
(`google_interactions_steps.py`). A record can be damaged or edited, so nothing of it is sent as it
is (`own_metadata.py`): only thoughts, texts, and calls, each with the fields that are known here.

Source: `docs/providers.md` (metadata that is sent back), `docs/security.md`.
"""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from jp_nb.providers.request_parts.own_metadata import read_own_text, rebuild_annotations
from jp_nb.providers.request_parts.request_body import WireMessage


def rebuild_steps(value: JsonValue) -> list[WireMessage] | None:
    """Return steps of an answer of Gemini with their known fields.

    The metadata has one step, or a list of steps. The result is None if there is none, or if one is
    unknown.
    """
    steps = value if isinstance(value, list) else [value]
    rebuilt: list[WireMessage] = []
    for step in steps:
        known = _rebuild_step(step)
        if known is None:
            return None
        rebuilt.append(known)
    return rebuilt or None


def _rebuild_step(step: Any) -> WireMessage | None:
    """Return a step with its known fields; None if it is unknown, or an output without a text."""
    match step:
        case {"type": "thought"}:
            rebuilt: WireMessage = {"type": "thought"}
            contents = _rebuild_texts(step.get("summary"))
            if contents:
                rebuilt["summary"] = contents
        case {"type": "model_output"}:
            rebuilt = {"type": "model_output", "content": _rebuild_texts(step.get("content"))}
            if not rebuilt["content"]:
                return None
        case {"type": "function_call", "id": str(), "name": str(), "arguments": dict()}:
            rebuilt = {key: step[key] for key in ("type", "id", "name", "arguments")}
        case _:
            return None

    if signature := read_own_text(step, "signature"):
        rebuilt["signature"] = signature
    return rebuilt


def _rebuild_texts(contents: Any) -> list[WireMessage]:
    """Return the texts in the contents of a step. Other contents, such as images, are omitted."""
    texts = []
    listed = contents if isinstance(contents, list) else []
    for content in listed:
        match content:
            case {"type": "text", "text": str(text)} if text:
                part: WireMessage = {"type": "text", "text": text}
                if annotations := rebuild_annotations(content.get("annotations")):
                    part["annotations"] = annotations
                texts.append(part)

    return texts
