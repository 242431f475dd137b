"""Streams of each dialect that carry the same tool calls in other groupings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from hypothesis import strategies as st

from tests.kit.kinds import select_kind
from tests.kit.streams import StreamReader

Wire = dict[str, Any]
Call = tuple[str, dict[str, Any]]
"""Name and arguments."""
TOOLS = ("forecast", "get", "get_weather", "ping")
"""Names of the offered tools. One of them begins like another."""

_TEXTS = st.text(st.sampled_from('a0{}[]":, \\é'), max_size=6)
_VALUES: st.SearchStrategy[Any] = (
    _TEXTS | st.integers(0, 1000) | st.just({}) | st.lists(_TEXTS, max_size=2)
)
ARGUMENTS = st.dictionaries(_TEXTS, _VALUES, max_size=3)
CALLS = st.lists(st.tuples(st.sampled_from(TOOLS), ARGUMENTS), min_size=1, max_size=4)

Form = Literal["whole", "pieces", "snapshots", "again", "after {}", "object"]
FORMS: tuple[Form, ...] = ("whole", "pieces", "snapshots", "again", "after {}", "object")
"""Forms of arguments. `again`: pieces, then all of them. `after {}`: pieces after `{}`."""


@dataclass(frozen=True)
class Outcome:
    """The calls of a response, and the lines about those that are not valid."""

    calls: list[Call]
    lines: list[str]
    ids: list[str]


def run(api: str, messages: Iterable[Wire], *, end: bytes = b"", **options: Any) -> Outcome:
    """Return the calls in `messages` and the `end` of the body, of a server with this `api`."""
    response = StreamReader(api, **options).read([*messages, end])
    if response.error is not None:
        raise response.error

    return Outcome(
        [(each.name, dict(each.arguments)) for each in response.valid_calls],
        response.problems,
        [each.id for each in select_kind(response.entries, "tool_call_request")],
    )


@st.composite
def forms_of(draw: st.DrawFn, arguments: dict[str, Any], form: Form) -> list[Any]:
    """Return the arguments as a stream in `form` sends them."""
    text = json.dumps(arguments, ensure_ascii=draw(st.booleans()))
    ends = [*sorted(draw(st.sets(st.integers(1, len(text) - 1), max_size=4))), len(text)]
    pieces = [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    match form:
        case "whole":
            return [text]
        case "object":
            return [arguments]
        case "pieces":
            return pieces
        case "snapshots":
            return [text[:end] for end in ends]
        case "again":
            return [*pieces, json.dumps(arguments, indent=draw(st.sampled_from([None, 1])))]
        case "after {}":
            return ["{}", *pieces]


@dataclass(frozen=True)
class ChatGrouping:
    """How a server groups the calls of Chat Completions."""

    ids: Literal["unique", "empty", "none"]
    indexes: Literal["own", "zero", "none"]
    form: Form
    names: Literal["first", "each", "pieces"]
    order: Literal["one message", "one by one", "interleaved"]

    def is_certain(self) -> bool:
        """Return True if the pieces can have only one meaning."""
        if self.order == "one message":
            return self.form in ("whole", "object") and self.names == "first"
        if self.order == "interleaved" and self.indexes != "own":
            return False
        # A second call with the same name and whole arguments looks like a repetition.
        repeats = self.form in ("again", "after {}") and self.names == "each"
        return self.ids == "unique" or not repeats


CHAT_GROUPINGS = st.builds(
    ChatGrouping,
    ids=st.sampled_from(["unique", "empty", "none"]),
    indexes=st.sampled_from(["own", "zero", "none"]),
    form=st.sampled_from(FORMS),
    names=st.sampled_from(["first", "each", "pieces"]),
    order=st.sampled_from(["one message", "one by one", "interleaved"]),
).filter(ChatGrouping.is_certain)


@st.composite
def chat_messages(draw: st.DrawFn, calls: list[Call], grouping: ChatGrouping) -> list[Wire]:
    """Return the chunks of Chat Completions that carry `calls`."""
    streams = [draw(_chat_pieces(number, call, grouping)) for number, call in enumerate(calls)]
    match grouping.order:
        case "one message":
            deltas = [[piece for stream in streams for piece in stream]]
        case "one by one":
            deltas = [[piece] for stream in streams for piece in stream]
        case "interleaved":
            deltas = [[*filter(None, pieces)] for pieces in zip_longest(*streams)]
    return [{"choices": [{"index": 0, "delta": {"tool_calls": each}}]} for each in deltas]


@st.composite
def _chat_pieces(draw: st.DrawFn, number: int, call: Call, grouping: ChatGrouping) -> list[Wire]:
    name, arguments = call
    texts = draw(forms_of(arguments, grouping.form))
    names: list[str] = [name] if grouping.names == "first" else [name] * len(texts)
    if grouping.names == "pieces":
        cut = draw(st.integers(1, len(name) - 1))
        names = [name[:cut], name[cut:]]
        texts = ["", "", *texts]

    pieces: list[Wire] = []
    for text, part in zip_longest(texts, names):
        piece: Wire = {"type": "function", "function": {"name": part, "arguments": text}}
        if grouping.indexes != "none":
            piece["index"] = number if grouping.indexes == "own" else 0
        if grouping.ids == "unique" and (not pieces or draw(st.booleans())):
            piece["id"] = f"call_{number}"
        if grouping.ids == "empty":
            piece["id"] = ""
        pieces.append(piece)
    return pieces


@st.composite
def anthropic_messages(draw: st.DrawFn, calls: list[Call]) -> list[Wire]:
    """Return the blocks of Anthropic Messages that carry `calls`, in a grouping of their own."""
    index_of = draw(st.sampled_from(["own", "zero", "none"]))
    has_ids = draw(st.booleans())
    has_stops = draw(st.booleans())
    messages: list[Wire] = []
    for number, (name, arguments) in enumerate(calls):
        place = {} if index_of == "none" else {"index": number * (index_of == "own")}
        texts = draw(forms_of(arguments, draw(st.sampled_from(FORMS))))
        given = draw(st.sampled_from([{}, arguments, None]))
        block = {"type": "tool_use", "id": f"t{number}" if has_ids else "", "name": name}
        messages.append({"type": "content_block_start", "content_block": {**block, "input": given}})
        for text in texts:
            delta = {"type": "input_json_delta", "partial_json": text}
            messages.append({"type": "content_block_delta", "delta": delta, **place})
        messages[-1 - len(texts)] |= place
        if has_stops:
            messages.append({"type": "content_block_stop", **place})
    return messages


@st.composite
def responses_messages(draw: st.DrawFn, calls: list[Call]) -> list[Wire]:
    """Return the items of the Responses API that carry `calls`, in a grouping of their own."""
    place_of = draw(st.sampled_from(["own", "zero", "none"]))
    id_of = draw(st.sampled_from(["own", "one", "none"]))
    is_announced = draw(st.booleans())
    messages: list[Wire] = []
    for number, (name, arguments) in enumerate(calls):
        place = {} if place_of == "none" else {"output_index": number * (place_of == "own")}
        ids = {"own": f"fc_{number}", "one": "fc_", "none": None}
        item = {"type": "function_call", "id": ids[id_of], "call_id": f"c{number}", "name": name}
        texts = draw(forms_of(arguments, draw(st.sampled_from(FORMS))))
        whole = json.dumps(arguments)
        first = draw(st.sampled_from(["", whole]))
        last = draw(st.sampled_from(["", whole]))

        if is_announced:
            added = {**item, "arguments": first}
            messages.append({"type": "response.output_item.added", "item": added, **place})
            kind = "response.function_call_arguments.delta"
            deltas = [{"type": kind, "delta": text, "item_id": ids[id_of]} for text in texts]
            messages += [{**each, **place} for each in deltas]
        done = {**item, "arguments": last if is_announced else whole}
        messages.append({"type": "response.output_item.done", "item": done, **place})
    return messages


@st.composite
def generate_messages(draw: st.DrawFn, calls: list[Call]) -> list[Wire]:
    """Return the chunks of `generateContent` that carry `calls`, in a grouping of their own."""
    id_of = draw(st.sampled_from(["own", "empty", "none"]))
    ids: dict[str, Any]
    parts: list[Wire] = []
    for number, (name, arguments) in enumerate(calls):
        ids = {"own": {"id": f"c{number}"}, "empty": {"id": ""}, "none": {}}
        args = draw(st.sampled_from([arguments, json.dumps(arguments)]))
        parts.append({"functionCall": {**ids[id_of], "name": name, "args": args}})
    if id_of == "own" and draw(st.booleans()):
        parts += parts  # all calls again
    groups = [parts] if draw(st.booleans()) else [[part] for part in parts]
    return [{"candidates": [{"content": {"parts": group}}]} for group in groups]


@st.composite
def interactions_messages(draw: st.DrawFn, calls: list[Call]) -> list[Wire]:
    """Return the steps of the Interactions API that carry `calls`, in a grouping of their own."""
    index_of = draw(st.sampled_from(["own", "zero", "none"]))
    has_ids = draw(st.booleans())
    messages: list[Wire] = []
    for number, (name, arguments) in enumerate(calls):
        place = {} if index_of == "none" else {"index": number * (index_of == "own")}
        given = draw(st.sampled_from([{}, arguments]))
        step = {"type": "function_call", "id": f"c{number}" if has_ids else "", "name": name}
        messages.append({"event_type": "step.start", "step": {**step, "arguments": given}, **place})
        for text in draw(forms_of(arguments, draw(st.sampled_from(FORMS)))):
            delta = {"type": "arguments_delta", "arguments": text}
            messages.append({"event_type": "step.delta", "delta": delta, **place})
        messages.append({"event_type": "step.stop", **place})
    return messages
