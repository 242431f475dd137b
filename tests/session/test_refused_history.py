"""A model's made-up calls do not end a conversation, and a refusal names the turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import jp_nb as jp
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall
from tests.support.sessions import Notebook

MODELS = {  # and the dialect of the provider
    "anthropic": ("anthropic/claude-opus-5-5", ""),
    "chat": ("openai/gpt-4.1", "chat"),
    "responses": ("openai/gpt-6.2", "responses"),
    "llamacpp": ("llamacpp/m", ""),
    "interactions": ("google/gemini-3.8-flash", "interactions"),
    "generate": ("google/gemini-3.8-flash", "generate"),
}
NAMES = ("forecast<|channel|>commentary", "psql -c 'SELECT 1'", "x" * 230, "", "größe\0")
Open = Callable[..., Notebook]


@pytest.fixture(params=MODELS)
def open_notebook(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Open]:
    """Return a function that opens a notebook whose model has these replies."""
    monkeypatch.setenv("REFUSED_KEY", "k-0123456789abcdef0123")
    model, dialect = MODELS[request.param]
    with ExitStack() as stack:

        def start(replies: list[Reply | str] | Callable[[Received], Reply | str]) -> Notebook:
            server = stack.enter_context(LoopbackServer(replies))
            lines = [
                f'[assistant.model]\nid = "{model}"',
                f"[providers.llm.{model.partition('/')[0]}]",
                f'base_url = "{server.url}"\napi_key_env = "REFUSED_KEY"',
                *([f'dialect = "{dialect}"'] if dialect else []),
            ]
            (folder / ".jp" / "config.toml").write_text("\n".join(lines))
            notebook = Notebook(folder)
            stack.callback(notebook.session.close)
            return notebook

        yield start


def test_made_up_name_is_told_to_the_model_once(open_notebook: Open) -> None:
    calls = tuple(ToolCall(name, {"a": "\0"}, id="i" * 500) for name in NAMES)
    bodies: list[str] = []

    def reply(request: Received) -> Reply | str:  # the server refuses what a real one would
        bodies.append(json.dumps(request.body))
        return Reply(tool_calls=calls) if len(bodies) == 1 else "All done."

    notebook = open_notebook(reply)
    assert notebook.ask("Go.") == "All done."
    assert notebook.ask("And now?") == "All done."
    assert len(bodies) == 3
    assert bodies[2].count("There is no tool with the name") == 4
    assert bodies[2].count("There is no tool without a name") == 1
    assert "<|" not in bodies[2]


PLACES = ("messages", "messages", "input", "messages", "input", "contents")


def test_refusal_names_the_turn_and_the_way_back(
    open_notebook: Open, request: pytest.FixtureRequest
) -> None:
    name = dict(zip(MODELS, PLACES, strict=True))[request.node.callspec.params["open_notebook"]]

    def reply(sent: Received) -> Reply | str:
        for index, message in enumerate(sent.body[name]):
            if "poison" in json.dumps(message):
                text = f"Invalid '{name}[{index}].content': it is not accepted."
                return Reply(status=400, message=text)
        return f"poi{'son' if 'Second' in json.dumps(sent.body) else 'nt'}"

    notebook = open_notebook(reply)
    assert [notebook.ask("First."), notebook.ask("Second.")] == ["point", "poison"]
    for times in ("`%jp undo` 2 times", "`%jp undo` 3 times"):
        with pytest.raises(jp.ProviderError) as caught:
            notebook.ask("Third.")
        assert "The server refuses a part of the turn “Second.”." in str(caught.value)
        assert times in str(caught.value)
    for _ in range(3):
        notebook.jp("undo")
    assert notebook.ask("Other.") == "point"


def test_refusal_without_a_place_names_the_last_answered_turn(open_notebook: Open) -> None:
    refusal = Reply(status=400, message="this cannot be read")
    notebook = open_notebook([refusal, "Hi.", refusal, refusal])
    with pytest.raises(jp.ProviderError) as caught:
        notebook.ask("First.")
    assert "undo" not in str(caught.value)
    notebook.ask("Second.")
    with pytest.raises(jp.ProviderError, match=r"probably in the turn “Second\.”") as caught:
        notebook.ask("Third.")
    assert "run `%jp undo` 2 times" in str(caught.value)
