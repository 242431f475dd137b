"""Images in a turn: which of them the model is shown, what is recorded, what the person reads."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.agent.display_events import Notice, ToolEnds
from jp_nb.agent.model_inquiry import ModelInquiry, paused
from jp_nb.agent.prompts import ActionPrompt
from jp_nb.image import Image
from jp_nb.record.events import ImageEntry, ToolCallResponse
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread, thread_of
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import NeedsInput, Outcome, Success
from jp_nb.tooling.python import PythonTool
from jp_nb.tooling.question import Question
from tests.support.fakes import Bench, FakeClock, FakePrompter, call, for_tool, reply, say, yes
from tests.support.images import figure

DONE = reply(say("Done."))


def plot(*images: Image, content: str = "a plot") -> PythonTool:
    return PythonTool(lambda: Success(content, images=images), name="plot")


def bench(tool: PythonTool, *calls: list[Any], **how: Any) -> Bench:
    return Bench([*(calls or [reply(call("plot"))]), DONE], tools=[tool], **how)


def limits(**record: int) -> dict[str, Any]:
    return {"record": record}


def seen(thread: Thread) -> list[tuple[str, tuple[Image, ...]]]:
    return [
        (item.entry.content, item.images)
        for item in thread
        if isinstance(item.entry, ToolCallResponse)
    ]


def restored(made: Bench) -> ConversationStream:
    return ConversationStream(made.stream.head, clock=FakeClock(), raw=list(made.stream.raw))


async def test_an_image_is_recorded_before_its_result_and_shown_with_it() -> None:
    made = bench(plot(figure()))
    await made.run()
    assert made.kinds()[2:] == ["tool_call_request", "image", "tool_call_response", "chat_response"]
    kept = made.stream.raw[3]
    assert list(kept) == ["event_id", "timestamp", "type", "digest", "media_type", "name", "data"]
    assert kept["digest"] == figure().digest
    assert made.stream.raw[4]["metadata"] == {"images": [figure().digest]}
    assert seen(made.loop.thread) == [("a plot", (figure(),))]
    assert made.turn.tool_calls[0].images == (figure(),)
    assert "1 image" in repr(made.turn)
    (ends,) = made.shown_of(ToolEnds)
    assert ends.images == (figure(),)


async def test_what_is_sent_after_a_restart_is_what_was_sent_before() -> None:
    shared = figure("shared", shade=1)
    made = bench(
        plot(shared, figure("large", padding=500), figure("third", shade=2), figure(shade=3)),
        reply(call("plot", "c1"), call("plot", "c2", index=1)),
        reply(call("plot", "c3")),
        config=limits(image_max_bytes=400, images_per_turn=4),
    )
    await made.run("Look.", [figure("asked", shade=9)])
    assert [item.images for item in thread_of(restored(made))] == [
        item.images for item in made.loop.thread
    ]
    assert seen(thread_of(restored(made))) == seen(made.loop.thread)
    assert [len(images) for _, images in seen(made.loop.thread)] == [3, 0, 0]


async def test_the_same_image_in_two_results_is_kept_once() -> None:
    made = bench(plot(figure()), reply(call("plot")), reply(call("plot")))
    await made.run()
    assert len(made.of(ImageEntry)) == 1
    assert [images for _, images in seen(made.loop.thread)] == [(figure(),)] * 2


async def test_an_image_that_is_too_large_is_told_in_words_to_the_model_and_to_the_person() -> None:
    large = figure("figure 1", padding=1_200_000)
    made = bench(plot(large), config=limits(image_max_bytes=262144))
    await made.run()
    words = (
        "[image: figure 1, image/png 4×3, 1.2 MB: left out, because record.image_max_bytes is "
        "262144]"
    )
    assert seen(made.loop.thread) == [(f"a plot\n{words}", ())]
    assert not made.of(ImageEntry)
    (ends,) = made.shown_of(ToolEnds)
    assert (ends.images, ends.left_out) == ((), (words,))


async def test_images_are_counted_through_the_turn_and_anew_in_the_next() -> None:
    tool = plot(*(figure(shade=shade) for shade in range(3)))
    made = bench(tool, reply(call("plot")), reply(call("plot")), config=limits(images_per_turn=5))
    await made.run("Go.", [figure("asked", shade=200)])
    assert [len(images) for _, images in seen(made.loop.thread)] == [3, 1]
    assert seen(made.loop.thread)[1][0].count("record.images_per_turn is 5") == 2


async def test_none_is_kept_where_none_is_wanted() -> None:
    made = bench(plot(figure()), config=limits(images_per_turn=0))
    await made.run()
    assert not made.of(ImageEntry)
    assert "record.images_per_turn is 0" in seen(made.loop.thread)[0][0]


async def test_hundreds_of_images_are_told_in_a_few_lines() -> None:
    made = bench(plot(*(figure(width=1 + n) for n in range(300))))
    await made.run()
    ((content, images),) = seen(made.loop.thread)
    assert len(images) == 20
    assert len(content.splitlines()) == 22
    assert content.endswith("[260 more left out]")


async def test_bytes_that_are_no_image_are_never_sent() -> None:
    made = bench(plot(Image("image/png", b"<svg onload=alert(1)>", "x")))
    await made.run()
    assert "its bytes are not image/png" in seen(made.loop.thread)[0][0]


@pytest.mark.parametrize(
    ("result", "ends", "images"),
    [
        ("ask", [yes("deliver")], 1),
        ("ask", [yes("skip")], 0),
        ("ask", [yes("edit"), yes("other")], 0),
        ("ask", [yes("edit"), yes("a plot")], 1),
        ("skip", [], 0),
    ],
)
async def test_images_go_where_the_text_of_the_result_goes(
    result: str, ends: list[Any], images: int
) -> None:
    person = FakePrompter(*ends)
    made = bench(plot(figure()), person=person, config=for_tool("plot", result=result))
    await made.run()
    assert [len(found) for _, found in seen(made.loop.thread)] == [images]
    assert len(made.of(ImageEntry)) == images
    if ends:
        prompt = person.asked[0]
        assert isinstance(prompt, ActionPrompt)
        assert repr(figure()) in [exhibit.value for exhibit in prompt.exhibits]


async def test_images_that_are_not_delivered_take_no_place() -> None:
    made = bench(
        plot(figure()),
        reply(call("plot")),
        reply(call("plot")),
        person=FakePrompter(yes("skip"), yes("deliver")),
        config={**for_tool("plot", result="ask"), **limits(images_per_turn=1)},
    )
    await made.run()
    assert [len(images) for _, images in seen(made.loop.thread)] == [0, 1]


async def test_the_same_image_twice_in_a_result_is_shown_once() -> None:
    made = bench(plot(figure(), figure(shade=1), figure()), config=limits(images_per_turn=2))
    await made.run()
    assert seen(made.loop.thread) == [("a plot", (figure(), figure(shade=1)))]


async def test_only_the_last_run_of_a_tool_shows_images() -> None:
    def proposes(ctx: ToolContext) -> Outcome:
        if not ctx.answers:
            return NeedsInput(Question.boolean("sure", "Sure?"))
        if ctx.delta_rejection is None:  # it may not: it is run again
            return Success("", config={"user": {"name": "Ada"}}, images=(figure(shade=1),))
        return Success("refused", images=(figure(shade=2),))

    made = bench(PythonTool(proposes, name="plot"), person=FakePrompter(yes(True)))
    await made.run()
    assert seen(made.loop.thread) == [("refused", (figure(shade=2),))]


async def test_a_change_that_is_decided_first_does_not_lose_the_images() -> None:
    def changes() -> Outcome:
        return Success("changed", config={"assistant": {"name": "Ada"}}, images=(figure(),))

    access = {"config": [{"path": "assistant.name", "write": True}]}
    made = bench(
        PythonTool(changes, name="plot"),
        person=FakePrompter(yes("apply")),
        config=for_tool("plot", access=access),
    )
    await made.run()
    assert seen(made.loop.thread) == [("changed", (figure(),))]


async def test_a_request_shows_its_images() -> None:
    made = Bench([DONE])
    large = figure("large", padding=3_000)
    made.config = limits(image_max_bytes=2_000)
    await made.run("What is that?", [figure(), large])
    assert made.kinds() == ["turn_start", "image", "chat_request", "chat_response"]
    request = made.loop.thread.items[0]
    assert request.images == (figure(),)
    (line,) = (notice.text for notice in made.shown_of(Notice))
    assert line.removeprefix("⚠ ") in made.turn.request
    assert made.turn.images == (figure(),)


async def test_a_model_that_answers_a_tools_question_sees_the_images_too() -> None:
    made = bench(plot(figure()))
    await made.run("Look.", [figure("asked", shade=9)])
    inquiry = ModelInquiry("c.q.1", "c", "t", Question.boolean("q", "Sure?"))
    seen_then = [item.images for item in paused(made.loop.thread, inquiry)]
    assert seen_then == [*(item.images for item in made.loop.thread), ()]
    assert sum(map(len, seen_then)) == 2


async def test_a_secret_is_hidden_in_the_name_of_an_image() -> None:
    made = bench(plot(figure("of hunter2-hunter2")))
    made.loop.secrets.add("hunter2-hunter2")
    await made.run()
    assert made.of(ImageEntry)[0].name == "of (secret)"


async def test_a_result_without_text_has_its_images() -> None:
    made = bench(plot(figure(), content=""))
    await made.run()
    assert seen(made.loop.thread) == [("", (figure(),))]
