"""The steps of Gemini's Interactions API: how they are made, and how one arrives.

A *step* is a thought, an output of the model, or a call:

    {"type": "thought", "signature": "…", "summary": [{"type": "text", "text": "…"}]}
    {"type": "model_output", "content": [{"type": "text", "text": "Hello."}]}
    {"type": "function_call", "id": "c1", "name": "get", "arguments": {}}

Source: `docs/providers.md`, https://ai.google.dev/api/interactions-api.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from pydantic import JsonValue

from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.providers.response_parts.stream_decoder import WireObject
from jp_nb.providers.response_parts.streamed_arguments import StreamedArguments

STEPS_KEY: Final = "google_step"
"""Metadata key of an entry for its steps, if they cannot be made of the entry."""
CONTENTS_FIELD: Final = {"thought": "summary", "model_output": "content"}
"""The field of a step that has its contents, by the type of the step."""


def make_text_content(text: str) -> WireMessage:
    """Return a content of a step."""
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
    """Return the texts of `steps`, whose contents are under `key`. Omit invalid ones."""
    groups = (step.get(key) for step in steps)
    contents = chain.from_iterable(group for group in groups if isinstance(group, list))
    known = (each for each in contents if isinstance(each, dict) and each.get("type") == "text")
    texts = (each.get("text") for each in known)
    return "".join(text for text in texts if isinstance(text, str))


class OpenStep:
    """A step that arrives.

    Attributes:
        index: The index of its output item.
        wire: The step as it is sent back. It grows with the deltas.
        signature: Pieces of the signature of a thought.
        arguments: The arguments of a call.
        inner: A step for contents of the other kind, for example the texts of an output that the
            server sends within a thought. It is an output item of its own.
    """

    def __init__(self, index: int, wire: WireMessage) -> None:
        self.index = index
        self.wire = wire
        self.type: str = wire["type"]
        self.signature: list[str] = []
        self.arguments = StreamedArguments()
        self.inner: OpenStep | None = None
        self._text: WireMessage | None = None  # the last content, a text whose pieces arrive
        self._pieces: list[str] = []

    def add_content(self, content: WireMessage) -> None:
        """Add a content. A text continues the text before it."""
        contents = self.wire.setdefault(CONTENTS_FIELD[self.type], [])
        if content.keys() != {"type", "text"} or content["type"] != "text":
            self._end_text()
            contents.append(content)
            return

        if self._text is None:
            if not contents or contents[-1].get("type") != "text":
                contents.append(make_text_content(""))
            self._text = contents[-1]
            self._pieces = [self._text["text"]]

        self._pieces.append(content["text"])

    def add_annotations(self, annotations: list[JsonValue]) -> None:
        """Add annotations of the last text, which may follow them."""
        contents = self.wire.setdefault("content", [])
        if not contents:
            contents.append(make_text_content(""))
        contents[-1].setdefault("annotations", []).extend(annotations)

    def merge(self, delta: WireObject) -> None:
        """Add the fields of a delta that this module does not know."""
        for key, value in delta.items():
            if isinstance(value, list) and isinstance(self.wire.get(key), list):
                self.wire[key] += value
            elif key != "type":
                self.wire[key] = value

    def end(self) -> None:
        """Complete `wire`, except the arguments of a call."""
        self._end_text()
        if self.signature:
            self.wire["signature"] = "".join(self.signature)

    def _end_text(self) -> None:
        if self._text is not None:
            self._text["text"] = "".join(self._pieces)
            self._text = None
