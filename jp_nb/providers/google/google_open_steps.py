"""A step of a response of Gemini's Interactions API that arrives in pieces.

The decoder (`google_interactions_decoder.py`) adds the pieces. `google_interactions_steps.py`
describes the forms of a step.

Source: `docs/providers.md`, https://ai.google.dev/api/interactions-api.
"""

from __future__ import annotations

from pydantic import JsonValue

from jp_nb.providers.google.google_interactions_steps import CONTENTS_FIELD, make_text_content
from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.providers.response_parts.stream_decoder import WireObject
from jp_nb.providers.response_parts.streamed_arguments import StreamedArguments


class OpenStep:
    """A step that arrives.

    Attributes:
        index: The index of its output item.
        wire: The step as it is sent back. It grows with the deltas.
        signature: Pieces of the signature of a thought.
        arguments: The arguments of a call.
        inner: A step for contents of the other kind, for example the texts of an output that the
            server sends within a thought. It is its own output item.
    """

    def __init__(self, index: int, wire: WireMessage) -> None:
        self.index = index
        self.wire = wire
        self.type: str = wire["type"]
        self.signature: list[str] = []
        self.arguments = StreamedArguments()
        self.inner: OpenStep | None = None
        # The last content, if it is a text that may grow, and the pieces of this text:
        self._text: WireMessage | None = None
        self._pieces: list[str] = []

    def add_content(self, content: WireMessage) -> None:
        """Add an element to the list of contents. A plain text continues a text before it."""
        contents = self.wire.setdefault(CONTENTS_FIELD[self.type], [])
        is_plain_text = content.keys() == {"type", "text"} and content["type"] == "text"
        if not is_plain_text:
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
        """Add annotations to the last text of an output.

        They may arrive before the text: then it is empty so far.
        """
        contents = self.wire.setdefault("content", [])
        if not contents:
            contents.append(make_text_content(""))
        contents[-1].setdefault("annotations", []).extend(annotations)

    def merge(self, delta: WireObject) -> None:
        """Add the fields of an unknown delta to the step: a list is extended, others replaced."""
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
        """Write the pieces of the text that grows into its content."""
        if self._text is not None:
            self._text["text"] = "".join(self._pieces)
            self._text = None
