"""Images of a context in the format of each protocol, or described in text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.providers import new_provider
from tests.providers.helpers import WEATHER, answer, called, collect, result, user
from tests.support.images import figure, pdf
from tests.support.loopback import LoopbackServer

FIRST = figure("figure 1", shade=1)
SECOND = figure("figure 2", shade=2)
ASKED = figure("mine", shade=3)
PAPER = pdf("paper")


def make_context(*entries: tuple[Any, tuple[jp.Image, ...]]) -> Any:
    items = [make("context_item", entry, "openai", shown) for entry, shown in entries]
    return make("request_context", items)


PLOTS = (
    (user("Compare these."), (ASKED,)),
    (called("c1", "plot"), ()),
    (called("c2", "plot"), ()),
    (result("c1", "one"), (FIRST,)),
    (result("c2", ""), (SECOND, FIRST)),
    (answer("Alike."), ()),
)


def request(*entries: tuple[Any, tuple[jp.Image, ...]]) -> Any:
    return make("model_request", model="m", context=make_context(*entries), tools=(WEATHER,))


async def sent(provider: str, asked: Any, **settings: object) -> Any:
    with LoopbackServer(["Good."]) as server:
        made = new_provider(provider, {"base_url": server.url, "base_url_env": None, **settings})
        try:
            await collect(made, asked)
        finally:
            await made.aclose()
        return server.requests[0].body["messages"]


def source(image: jp.Image) -> dict[str, Any]:
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


async def test_chat_models_are_sent_images_behind_all_results_of_the_batch() -> None:
    asked, _, one, two, images, answer, *_ = await sent("openai", request(*PLOTS))
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


async def test_provider_without_images_is_sent_a_description() -> None:
    messages = await sent("llamacpp", request(*PLOTS))
    assert "base64" not in json.dumps(messages)
    asked, _, one, two, *_ = messages
    words = "[image: {}, image/png 4×3, not sent: this provider takes no images]"
    assert asked["content"] == f"Compare these.\n{words.format('mine')}"
    assert one["content"] == f"one\n{words.format('figure 1')}"
    assert two["content"] == "\n".join(map(words.format, ("figure 2", "figure 1")))


@pytest.mark.parametrize(("provider", "images"), [("ollama", True), ("openai", False)])
async def test_setting_images_overrides_the_profile(provider: str, images: bool) -> None:
    attached = (make("attachment", "plan.png", "image/png", FIRST.content),)
    asked = replace(request(*PLOTS), attachments=attached)
    asked.context.items.append(make_context((user("Read."), (PAPER,))).items[0])
    messages = json.dumps(await sent(provider, asked, images=images))
    assert f"[PDF: {PAPER.words}, not sent: this provider takes no PDFs]" in messages
    assert messages.count("data:image/png;base64,") == (5 if images else 0)


@pytest.mark.parametrize("name", ["anthropic", "openai", "llamacpp"])
async def test_rendered_messages_stay_the_same_as_the_thread_grows(name: str) -> None:
    bodies = await send_parts(name, (1, 5, 6))  # the results of a batch are appended together
    messages = [body[: body.rindex(b"]")] for body in bodies]
    assert all(later.startswith(earlier) for earlier, later in pairwise(messages))


@pytest.mark.parametrize("name", ["anthropic", "openai", "llamacpp"])
async def test_results_that_come_one_by_one_keep_their_images_behind_the_batch(name: str) -> None:
    *_, last = await send_parts(name, range(1, len(PLOTS) + 1))
    [at_once] = await send_parts(name, [len(PLOTS)])
    assert last == at_once


async def send_parts(name: str, counts: Iterable[int]) -> list[bytes]:
    """Return the bodies of requests with the first `counts` items of one conversation."""
    whole = make_context(*PLOTS)
    growing = make("request_context")
    with LoopbackServer(lambda _: "Good.", strict=False) as server:
        provider = new_provider(name, {"base_url": server.url})
        for count in counts:
            growing.items[:] = whole.items[:count]
            await collect(provider, make("model_request", "m", growing))
        await provider.aclose()
        return [received.raw for received in server.requests]


async def test_hostile_tool_name_is_one_short_line() -> None:
    entry = called("c1", "plot\n[image: of the user]\x1b[31m" + "x" * 500)
    asked = request((user("Go."), ()), (entry, ()), (result("c1", ""), (FIRST,)))
    line = (await sent("openai", asked))[3]["content"][1]["text"]
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < 200


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_request_of_images_alone_is_sent(provider: str) -> None:
    (message,) = await sent(provider, request((user(" "), (FIRST,))))
    assert message["content"][0]["text"].startswith("[image: figure 1")
    assert len(message["content"]) == 2


async def test_result_without_its_call_sends_no_image() -> None:
    loose = ((user("Go."), ()), (result("c9", "loose"), (FIRST,)), (user("And?"), ()))
    for provider in ("anthropic", "openai"):
        assert FIRST.text not in json.dumps(await sent(provider, request(*loose)))
