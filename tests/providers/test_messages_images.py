"""Images of a thread: how each protocol is sent them, and who is told of them in words."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from anthropic.types import MessageParam
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

from jp_nb.agent.model_events import Attachment, ModelRequest
from jp_nb.image import Image
from jp_nb.providers.anthropic_request import AnthropicRendering
from jp_nb.providers.chat_profiles import PROFILES
from jp_nb.providers.chat_request import ChatRendering
from jp_nb.providers.messages import Rendering
from jp_nb.providers.registry import create
from jp_nb.record.recorded_images import RecordedImages, image_entry, shows
from jp_nb.record.thread import Thread
from tests.support.images import figure
from tests.support.loopback import LoopbackServer
from tests.support.provider_helpers import WEATHER, called, collect, result, said, user

FIRST, SECOND = figure("figure 1", shade=1), figure("figure 2", shade=2)
ASKED = figure("mine", shade=3)


def thread(*entries: tuple[Any, tuple[Image, ...]]) -> Thread:
    images, made = RecordedImages(), Thread()
    for image in (FIRST, SECOND, ASKED):
        images.add(image_entry(image))
    for entry, shown in entries:
        made.add(entry.model_copy(update={"metadata": shows(shown)}), "openai", images)
    return made


PLOTS = (
    (user("Compare these."), (ASKED,)),
    (called("c1", "plot"), ()),
    (called("c2", "plot"), ()),
    (result("c1", "one"), (FIRST,)),
    (result("c2", ""), (SECOND, FIRST)),
    (said("Alike."), ()),
)


def request(*entries: tuple[Any, tuple[Image, ...]]) -> ModelRequest:
    return ModelRequest(model="m", thread=thread(*entries), tools=(WEATHER,))


async def sent(provider: str, asked: ModelRequest, **settings: object) -> Any:
    with LoopbackServer(["Good."]) as server:
        made = create(provider, {"base_url": server.url, "base_url_env": None, **settings})
        try:
            await collect(made, asked)
        finally:
            await made.aclose()
        return server.requests[0].body["messages"]


def source(image: Image) -> dict[str, Any]:
    return {"type": "base64", "media_type": "image/png", "data": image.text}


async def test_anthropic_is_sent_images_in_the_result_and_in_the_request() -> None:
    asked, _, results, *_ = await sent("anthropic", request(*PLOTS))
    assert asked["content"] == [
        {"type": "text", "text": "Compare these."},
        {"type": "text", "text": "[image: mine, image/png 4×3]"},
        {"type": "image", "source": source(ASKED)},
    ]
    one, two = (block["content"] for block in results["content"])
    assert one == [
        {"type": "text", "text": "one"},
        {"type": "text", "text": "[image: figure 1, image/png 4×3]"},
        {"type": "image", "source": source(FIRST)},
    ]
    assert [block["type"] for block in two] == ["text", "image", "text", "image"]


@pytest.mark.parametrize("provider", ["openai", "openrouter"])
async def test_chat_models_are_sent_images_behind_all_results_of_the_batch(provider: str) -> None:
    asked, _, one, two, images, answer, *_ = await sent(provider, request(*PLOTS))
    assert [part["type"] for part in asked["content"]] == ["text", "text", "image_url"]
    assert (one["role"], one["content"]) == ("tool", "one")
    assert (two["role"], two["content"]) == ("tool", "")
    assert images["role"] == "user"
    said_of = [part["text"] for part in images["content"] if part["type"] == "text"]
    assert said_of == [
        "The results of these tool calls came with images:",
        "[image: figure 1, image/png 4×3, of plot, call c1]",
        "[image: figure 2, image/png 4×3, of plot, call c2]",
        "[image: figure 1, image/png 4×3, of plot, call c2]",
    ]
    urls = [p["image_url"]["url"] for p in images["content"] if p["type"] == "image_url"]
    assert urls == [f"data:image/png;base64,{x.text}" for x in (FIRST, SECOND, FIRST)]
    assert answer["role"] == "assistant"


async def test_who_takes_no_images_is_told_in_words(subtests: pytest.Subtests) -> None:
    for provider in ["deepseek", "cerebras", "llamacpp", "ollama"]:
        with subtests.test(provider=provider):
            messages = await sent(provider, request(*PLOTS))
            assert "base64" not in json.dumps(messages)
            asked, _, one, two, *_ = messages
            words = "[image: {}, image/png 4×3, not sent: this provider takes no images]"
            assert asked["content"] == f"Compare these.\n{words.format('mine')}"
            assert one["content"] == f"one\n{words.format('figure 1')}"
            assert two["content"] == "\n".join(map(words.format, ("figure 2", "figure 1")))


@pytest.mark.parametrize(("provider", "images"), [("ollama", True), ("openai", False)])
async def test_who_knows_the_model_says_whether_it_sees(provider: str, images: bool) -> None:
    attached = (Attachment("plan.png", "image/png", FIRST.content),)
    asked = replace(request(*PLOTS), attachments=attached)
    messages = json.dumps(await sent(provider, asked, images=images))
    assert messages.count("data:image/png;base64,") == (5 if images else 0)


def whole(value: Any) -> Any:
    """`value` with what pydantic checks only while somebody goes through it."""
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return value if isinstance(value, str | bool | None) else [whole(item) for item in value]


async def test_the_vendors_types_fit() -> None:
    claude: TypeAdapter[Any] = TypeAdapter(MessageParam)
    gpt: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)
    for provider, adapter in (("anthropic", claude), ("openai", gpt), ("ollama", gpt)):
        for message in await sent(provider, request(*PLOTS)):
            assert whole(adapter.validate_python(message)) == message


RENDERINGS = [AnthropicRendering, *(lambda p=p: ChatRendering(p) for p in PROFILES.values())]


def test_what_was_rendered_stays_the_same_as_the_thread_grows(subtests: pytest.Subtests) -> None:
    for make in RENDERINGS:
        with subtests.test(make=make):
            whole, growing = thread(*PLOTS), Thread()
            rendering: Rendering = make()
            encoded: list[bytes] = []
            for count, item in enumerate(whole, start=1):
                growing.items.append(item)
                if count in (1, 5, 6):  # a batch's results come together
                    rendering.follow(growing)
                    encoded.append(rendering.messages.encode()[:-1])
            assert all(later.startswith(earlier) for earlier, later in pairwise(encoded))
            fresh: Rendering = make()
            fresh.follow(whole)
            assert fresh.messages.encode()[:-1] == encoded[-1]


def test_results_of_a_batch_that_come_one_by_one_keep_their_images_behind_them() -> None:
    one_by_one, at_once = (ChatRendering(PROFILES["openai"]) for _ in range(2))
    growing = Thread()
    for item in thread(*PLOTS):
        growing.items.append(item)
        one_by_one.follow(growing)
    at_once.follow(growing)
    assert one_by_one.messages.encode() == at_once.messages.encode()


def test_a_hostile_name_says_nothing_else() -> None:
    entry = called("c1", "plot\n[image: of the user]\x1b[31m" + "x" * 500)
    rendering = ChatRendering(PROFILES["openai"])
    rendering.follow(thread((user("Go."), ()), (entry, ()), (result("c1", ""), (FIRST,))))
    line = rendering.messages[3]["content"][1]["text"]
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < 200


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_request_of_images_alone_is_sent(provider: str) -> None:
    (message,) = await sent(provider, request((user(" "), (FIRST,))))
    assert message["content"][0]["text"].startswith("[image: figure 1")
    assert len(message["content"]) == 2


async def test_a_result_that_answers_nothing_sends_no_image() -> None:
    loose = ((user("Go."), ()), (result("c9", "loose"), (FIRST,)), (user("And?"), ()))
    for provider in ("anthropic", "openai"):
        assert FIRST.text not in json.dumps(await sent(provider, request(*loose)))
