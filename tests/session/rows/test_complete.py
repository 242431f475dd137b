"""One prompt outside of the conversation."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, field_validator
from typing_extensions import TypedDict

import jp_nb as jp
from tests.session.rows.row_server import MODEL, RowServer, serve_rows
from tests.support.images import pdf_bytes, png
from tests.support.loopback import Reply
from tests.support.sessions import Notebook

PNG = png()


@pytest.fixture(autouse=True)
def key(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")


class City(BaseModel):
    name: str
    people: int

    @field_validator("people")
    @classmethod
    def check_people(cls, people: int) -> int:
        if people < 0:
            raise ValueError("people are counted from 0")
        return people


class Town(TypedDict):
    name: str


def answer_json(*answers: Any) -> Any:
    """Return a function that answers with one JSON value after the other."""
    return lambda prompt, earlier: Reply(text=json.dumps(answers[min(earlier, len(answers) - 1)]))


@pytest.mark.req("MAP-1")
def test_answer_has_text_tokens_and_model(server: RowServer) -> None:
    answer = jp.complete("hello", **server.options)
    assert (answer.text, answer.data, answer.cached) == ("HELLO", None, False)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 7)
    assert answer.model == MODEL


@pytest.mark.req("MAP-1")
def test_request_has_no_tools_and_only_the_given_instructions(server: RowServer) -> None:
    jp.complete("hello", system="Answer in capitals.", **server.options)
    jp.complete("hello", system="", **server.options)
    first, second = (request.body for request in server.received)
    assert "Answer in capitals." in json.dumps(first["system"])
    assert "system" not in second
    assert "tools" not in first


@pytest.mark.req("MAP-1")
def test_threads_ask_at_once(server: RowServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        prompts = [f"prompt {number}" for number in range(24)]
        answers = pool.map(lambda prompt: jp.complete(prompt, **server.options).text, prompts)
        assert list(answers) == [prompt.upper() for prompt in prompts]


@pytest.mark.req("MAP-1", "MAP-13")
def test_tool_asks_and_the_conversation_has_only_the_turn(
    server: RowServer, loaded: Notebook
) -> None:
    @jp.tool
    def shout(text: str) -> str:
        return jp.complete(text, **server.options).text

    before = len(loaded.session.document.conversation)
    outcome = jp.call("shout", text="hello")
    assert outcome.content == "HELLO"
    assert len(loaded.session.document.conversation) == before


@pytest.mark.req("MAP-1", "MAP-2")
@pytest.mark.parametrize("name", ["complete", "complete_all"])
def test_async_tool_awaits_and_is_told_so(server: RowServer, loaded: Notebook, name: str) -> None:
    @jp.tool
    async def shout(text: str) -> str:
        answer = await jp.acomplete(text, **server.options)
        prompt: Any = {"complete": "a", "complete_all": ["a"]}[name]
        with pytest.raises(jp.UsageError, match="await"):
            getattr(jp, name)(prompt, **server.options)
        return answer.text

    assert jp.call("shout", text="hello").content == "HELLO"


@pytest.mark.req("MAP-2")
async def test_canceled_task_ends_its_request() -> None:
    def slow(prompt: str, earlier: int) -> Reply:
        return Reply(text="late", delay=60)

    with serve_rows(slow) as server:
        task = asyncio.create_task(jp.acomplete("hello", **server.options))
        await asyncio.to_thread(server.wait_for_request)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.req("MAP-2")
async def test_coroutines_ask_at_once(server: RowServer) -> None:
    asked = (jp.acomplete(f"prompt {number}", **server.options) for number in range(8))
    answers = await asyncio.gather(*asked)
    assert [answer.text for answer in answers] == [f"PROMPT {number}" for number in range(8)]


@pytest.mark.req("MAP-8")
@pytest.mark.parametrize(
    ("schema", "answered", "expected"),
    [
        (City, {"name": "Delft", "people": 5}, City(name="Delft", people=5)),
        (Literal["good", "bad"], "good", "good"),
        (list[int], [1, 2], [1, 2]),
        (Town, {"name": "Delft"}, {"name": "Delft"}),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}, {"a": 1}),
    ],
)
def test_structured_answer_has_the_type_of_its_schema(
    schema: Any, answered: Any, expected: Any
) -> None:
    with serve_rows(answer_json(answered)) as server:
        answer = jp.complete("Which city?", schema=schema, **server.options)
    assert answer.data == expected
    assert answer.json == answered


@pytest.mark.req("MAP-8")
def test_answer_that_does_not_fit_goes_back_to_the_model_once() -> None:
    wrong = {"name": "Delft", "people": -1}
    right = {"name": "Delft", "people": 1}
    with serve_rows(answer_json(wrong, right)) as server:
        answer = jp.complete("Which city?", schema=City, **server.options)
    assert answer.data == City(name="Delft", people=1)
    assert answer.usage.input_tokens == 22
    assert "people are counted from 0" in json.dumps(server.received[1].body["messages"][-1])


@pytest.mark.req("MAP-8")
def test_answer_that_never_fits_is_an_error_with_the_answer() -> None:
    wrong = {"name": "Delft", "people": -1}
    with serve_rows(answer_json(wrong)) as server, pytest.raises(jp.AnswerError) as caught:
        jp.complete("Which city?", schema=City, **server.options)
    assert caught.value.data == wrong
    assert "people are counted from 0" in str(caught.value)


@pytest.mark.req("MAP-10")
def test_pdf_is_sent_as_a_document(server: RowServer) -> None:
    jp.complete("What is it?", images=pdf_bytes(), **server.options)
    parts = server.received[0].body["messages"][0]["content"]
    assert [part["type"] for part in parts].count("document") == 1


@pytest.mark.req("MAP-10")
def test_image_of_pillow_is_sent(server: RowServer) -> None:
    pillow = pytest.importorskip("PIL.Image")
    jp.complete("What is it?", images=pillow.new("RGB", (4, 3), "red"), **server.options)
    parts = server.received[0].body["messages"][0]["content"]
    assert [part["type"] for part in parts].count("image") == 1


@pytest.mark.req("MAP-10")
@pytest.mark.parametrize("kind", ["bytes", "path", "text"])
def test_image_is_sent_with_the_prompt(server: RowServer, bare_folder: Path, kind: str) -> None:
    (bare_folder / "a.png").write_bytes(PNG)
    image = {"bytes": PNG, "path": Path("a.png"), "text": "a.png"}[kind]
    jp.complete("What is it?", images=image, **server.options)
    parts = server.received[0].body["messages"][0]["content"]
    assert [part["type"] for part in parts].count("image") == 1


@pytest.mark.req("MAP-10")
@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("../outside.png", "outside of the workspace"),
        ("/etc/hostname", "outside of the workspace"),
        ("missing.png", "cannot be read"),
        (b"no image", "models accept"),
        (7, "is no image"),
    ],
)
def test_image_that_cannot_be_sent_is_named(server: RowServer, image: Any, said: str) -> None:
    with pytest.raises(jp.UsageError, match=said):
        jp.complete("What is it?", images=image, **server.options)
    assert not server.arrivals


@pytest.mark.req("MAP-14")
def test_without_a_model_the_error_says_how_to_choose_one(
    loaded: Notebook,
) -> None:
    with pytest.raises(jp.ConfigError, match="model") as of_turn:
        jp.query("hello")
    with pytest.raises(jp.ConfigError) as of_request:
        jp.complete("hello")
    assert str(of_request.value) == str(of_turn.value)


@pytest.mark.parametrize("prompt", ["", "  \n", ["a"], None, 7])
def test_prompt_that_is_no_text_is_refused(server: RowServer, prompt: Any) -> None:
    with pytest.raises(jp.UsageError, match="prompt"):
        jp.complete(prompt, **server.options)


@pytest.mark.req("MAP-7")
def test_failed_request_is_tried_again() -> None:
    def fail_once(prompt: str, earlier: int) -> Reply:
        return Reply(text="yes") if earlier else Reply(status=529)

    with serve_rows(fail_once) as server:
        assert jp.complete("hello", **server.options).text == "yes"
    assert len(server.arrivals) == 2
