"""Check the beginnings of requests that a loopback server received."""

from __future__ import annotations

import base64
import json

from tests.kit.kinds import is_kind
from tests.support.fake_host import FakeHost
from tests.support.loopback import Received, Reply, ToolCall
from tests.support.sessions import Notebook

LISTS = {"anthropic": "messages", "responses": "input", "interactions": "input"}
LISTS |= {"generate": "contents", "chat": "messages"}


def list_parts(received: Received) -> list[str]:
    """Return the parts of a request in the order in which a server caches them."""
    body = received.body
    instructions = body.get("system_instruction", body.get("systemInstruction"))
    parts = [*body.get("tools", ()), *body.get("system", ()), instructions]
    for message in body[LISTS[received.protocol]]:
        content = message.get("content", message.get("parts"))
        blocks = content if isinstance(content, list) else [message]
        parts += [[message.get("role", message.get("type")), block] for block in blocks]
    return [
        json.dumps(part).replace(', "cache_control": {"type": "ephemeral"}', "") for part in parts
    ]


def keeps_all(before: Received, after: Received) -> bool:
    """Return True if `after` begins with all parts of `before`."""
    first = list_parts(before)
    return list_parts(after)[: len(first)] == first


def notices_in(notebook: Notebook) -> str:
    """Return the notices of all turns."""
    host = notebook.session.host
    assert isinstance(host, FakeHost)
    events = [event for output in host.person.outputs for event in output.events]
    return "\n".join(event.text for event in events if is_kind(event, "notice"))


class SigningModel:
    """Answers requests of a loopback server. A signature is valid only after its own request.

    Attributes:
        calls: The tools that the next answer calls.
        signed: The request that each signature is valid for.
        faults: Signatures that arrived after another beginning, and the number of the request.
    """

    def __init__(self) -> None:
        self.calls: tuple[str, ...] = ()
        self.signed: dict[str, Received] = {}
        self.faults: list[str] = []

    def __call__(self, request: Received) -> Reply:
        parts = list_parts(request)
        for signature, signed in self.signed.items():
            found = [place for place, part in enumerate(parts) if signature in part]
            if found and not (found == [len(list_parts(signed))] and keeps_all(signed, request)):
                self.faults.append(f"{signature} in request {len(self.signed)}")
        number = len(self.signed)
        signature = base64.b64encode(f"signature {number:05}".encode()).decode()
        self.signed[signature] = request
        calls = tuple(map(ToolCall, self.calls))
        self.calls = ()
        return Reply("" if calls else f"Answer {number}.", "Hm.", signature, calls)
