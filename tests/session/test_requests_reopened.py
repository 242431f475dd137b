"""A conversation that was saved and opened again continues its requests byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

import jp_nb as jp
from jp_nb.cli import main
from tests.kit.sessions import find_request
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall, reply_events
from tests.support.sessions import Notebook, configure

KEY = "k-0123456789abcdef0123"
ARGUMENTS = {"town": "Delft", "at": {"y": 52.0, "x": [4.5, {"2": "b", "10": "a"}]}, "big": 2**60}
DATA = '{"n": 1.0, "a": [{"z": "", "b": 2.5}]}'
_ITEM = {"type": "object", "properties": {"z": {"type": "string"}, "b": {"type": "number"}}}
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "number"}, "a": {"type": "array", "items": _ITEM}},
}
LATER = '"later": {"z": 1.0, "a": ["text", {"c": true, "b": false}]}'
"""A field that no release knows. It is kept in the record, and not sent back."""
EDITS = {
    "responses": ('"type": "function_call", ', f'"type": "function_call", {LATER}, '),
    "interactions": ('"type": "function_call", ', f'"type": "function_call", {LATER}, '),
    "chat": (
        '"reasoning_content": "Hm."',
        '"reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "index": 2.0}]',
    ),
}
DIALECTS = [
    ("anthropic", "anthropic", "messages"),
    ("chat", "openrouter", "messages"),
    ("responses", "openai", "input"),
    ("interactions", "google", "input"),
    ("generate", "google", "contents"),
]
NAMES = ["1.1", "1.2", "2.1"]


@pytest.fixture
def tools() -> Iterator[None]:
    @jp.tool
    def look(town: str, at: dict[str, Any], big: int) -> str:
        """Look."""
        return "Sun."

    yield
    jp.remove_tool("look")


def answer(request: Received) -> Reply:
    text = request.raw.decode()
    if "Sun." not in text:
        call = ToolCall("look", ARGUMENTS)
        reply = Reply(reasoning="Hm.", text="Let me look.", tool_calls=(call,), delta_chars=500)
    elif "Data." in text and "More." not in text:
        reply = Reply(text=DATA)
    else:
        reply = Reply(text="Yes.")
    old, new = EDITS.get(request.protocol, ("", ""))
    events = reply_events(reply, request.protocol, request.body, len(text))
    return Reply(raw=tuple(event.decode().replace(old, new).encode() for event in events))


def save_and_load(stored: Any, path: Path) -> Any:
    """Return a record after a page has saved it, and a kernel has read it."""

    def as_page(text: str) -> float:
        return int(float(text)) if float(text).is_integer() else float(text)

    sent = json.loads(json.dumps(stored), parse_float=as_page)
    nbformat.write(nbformat.v4.new_notebook(metadata={"jp": sent}), path)
    read = nbformat.read(path, as_version=4).metadata["jp"]
    return json.loads(json.dumps(read))


def open_again(folder: Path, stored: Any) -> Notebook:
    return Notebook(folder, host=FakeHost(home=FakeHome(folder / "walk.ipynb", stored=stored)))


def without_cache_key(body: bytes) -> bytes:
    return re.sub(rb'"prompt_cache_key":"\w+"', b"", body)  # each conversation has its own


def without_cache_marks(messages: list[Any]) -> list[str]:
    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(each) for key, each in value.items() if key != "cache_control"}
        return [clean(each) for each in value] if isinstance(value, list) else value

    return [json.dumps(clean(message)) for message in messages]


@pytest.mark.req("RESP-4", "GEM-4", "PRE-1")
@pytest.mark.parametrize(("dialect", "provider", "key"), DIALECTS, ids=[x[0] for x in DIALECTS])
def test_saved_conversation_sends_the_same_bytes(
    dialect: str,
    provider: str,
    key: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tools: None,
    subtests: pytest.Subtests,
) -> None:
    monkeypatch.setenv("PAST_KEY", KEY)
    path = folder / "walk.ipynb"
    with LoopbackServer(answer) as server:
        chosen = f'dialect = "{dialect}"\n' if provider != "anthropic" else ""
        configure(
            folder,
            f'[assistant.model]\nid = "{provider}/model-a"\n[providers.llm.{provider}]\n{chosen}'
            f'base_url = "{server.url}"\napi_key_env = "PAST_KEY"\n',
        )
        notebook = Notebook(folder)
        notebook.ask("Where?")
        notebook.ask("Data.", schema=SCHEMA)
        arrived = list(server.requests)
        bodies = [without_cache_key(received.raw) for received in arrived]
        if dialect in EDITS:
            assert b'"later"' not in bodies[1]
            assert (b'"index":2.0' in bodies[1]) == (dialect == "chat")
        stored = save_and_load(notebook.session.document.to_json(), path)
        forked = open_again(folder, stored)
        forked.session.conversations.fork()
        notebook.jp("export there")
        assert main(["import", str(folder / "there"), str(folder / "copy.ipynb")]) == 0
        copy = nbformat.read(folder / "copy.ipynb", as_version=4).metadata["jp"]
        ways = {
            "reopened": stored,
            "forked": save_and_load(forked.session.document.to_json(), path),
            "exported and imported": save_and_load(copy, path),
        }
        for way, record in ways.items():
            with subtests.test(way):
                opened = open_again(folder, record)
                if way == "exported and imported":  # it has no signature
                    opened.session.active.accept()
                found = [find_request(opened.session, name)["body"] for name in NAMES]
                assert [without_cache_key(body) for body in found] == bodies
                opened.ask("More.")
                before = without_cache_marks(arrived[-1].body[key])
                after = without_cache_marks(server.requests[-1].body[key])
                assert after[: len(before)] == before
                opened.session.close()
        forked.session.close()
        notebook.session.close()
