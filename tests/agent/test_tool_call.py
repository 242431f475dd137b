"""Images of requests and results: limits, record, delivery."""

from __future__ import annotations

import json
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.kinds import is_kind
from tests.kit.models import EventProvider, model_event
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench, new_question_model
from tests.support.fakes import FakePrompter, for_tool, model_inquiry, yes
from tests.support.images import figure, pdf


def make_plot_tool(*images: jp.Image, content: str = "a plot") -> Any:
    return new_tool(lambda: jp.Success(content, images=images), name="plot")


def bench(tool: Any, *calls: list[Any], **how: Any) -> TurnBench:
    return TurnBench([*(calls or [reply(call("plot"))]), DONE], tools=[tool], **how)


def record_config(**record: int) -> dict[str, Any]:
    return {"record": record}


def list_results(thread: Any) -> list[tuple[str, tuple[jp.Image, ...]]]:
    return [
        (item.entry.content, item.images)
        for item in thread
        if is_kind(item.entry, "tool_call_response")
    ]


async def test_image_is_recorded_before_its_result_and_sent_with_it() -> None:
    made = bench(make_plot_tool(figure()))
    await made.run()
    assert made.kinds()[2:] == ["tool_call_request", "image", "tool_call_response", "chat_response"]
    kept = made.stream.raw[3]
    assert list(kept) == ["event_id", "timestamp", "type", "digest", "media_type", "name", "data"]
    assert kept["digest"] == figure().digest
    assert made.stream.raw[4]["metadata"] == {"images": [figure().digest]}
    assert list_results(made.context) == [("a plot", (figure(),))]
    assert made.turn.tool_calls[0].images == (figure(),)
    assert "1 image" in repr(made.turn)
    (ends,) = made.shown_of("tool_ends")
    assert ends.images == (figure(),)


async def test_reloaded_record_sends_the_same_images() -> None:
    shared = figure("shared", shade=1)
    made = bench(
        make_plot_tool(
            shared, figure("large", padding=500), figure("third", shade=2), figure(shade=3)
        ),
        reply(call("plot", "c1"), call("plot", "c2", index=1)),
        reply(call("plot", "c3")),
        config=record_config(image_max_bytes=400, images_per_turn=4),
    )
    await made.run("Look.", [figure("asked", shade=9)])
    assert [item.images for item in made.rebuild_context()] == [
        item.images for item in made.context
    ]
    assert list_results(made.rebuild_context()) == list_results(made.context)
    assert [len(images) for _, images in list_results(made.context)] == [3, 0, 0]


async def test_image_of_two_results_is_recorded_once() -> None:
    made = bench(make_plot_tool(figure()), reply(call("plot")), reply(call("plot")))
    await made.run()
    assert len(made.of("image")) == 1
    assert [images for _, images in list_results(made.context)] == [(figure(),)] * 2


async def test_large_image_is_described_in_words() -> None:
    large = figure("figure 1", padding=1_200_000)
    made = bench(make_plot_tool(large), config=record_config(image_max_bytes=262144))
    await made.run()
    words = (
        "[image: figure 1, image/png 4×3, 1.2 MB: omitted, because record.image_max_bytes is "
        "262144]"
    )
    assert list_results(made.context) == [(f"a plot\n{words}", ())]
    assert not made.of("image")
    (ends,) = made.shown_of("tool_ends")
    assert (ends.images, ends.omitted_images) == ((), (words,))


async def test_images_are_counted_per_turn() -> None:
    tool = make_plot_tool(*(figure(shade=shade) for shade in range(3)))
    made = bench(
        tool, reply(call("plot")), reply(call("plot")), config=record_config(images_per_turn=5)
    )
    await made.run("Go.", [figure("asked", shade=200)])
    assert [len(images) for _, images in list_results(made.context)] == [3, 1]
    assert list_results(made.context)[1][0].count("record.images_per_turn is 5") == 2


async def test_hundreds_of_omitted_images_take_few_lines() -> None:
    made = bench(make_plot_tool(*(figure(width=1 + n) for n in range(300))))
    await made.run()
    ((content, images),) = list_results(made.context)
    assert len(images) == 20
    assert len(content.splitlines()) == 22
    assert content.endswith("[260 more omitted]")


async def test_invalid_image_is_not_sent() -> None:
    made = bench(make_plot_tool(jp.Image("image/png", b"<svg onload=alert(1)>", "x")))
    await made.run()
    assert "its bytes are not image/png" in list_results(made.context)[0][0]


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
async def test_images_are_delivered_with_the_unedited_result(
    result: str, ends: list[Any], images: int
) -> None:
    person = FakePrompter(*ends)
    made = bench(make_plot_tool(figure()), person=person, config=for_tool("plot", result=result))
    await made.run()
    assert [len(found) for _, found in list_results(made.context)] == [images]
    assert len(made.of("image")) == images
    if ends:
        prompt = person.asked[0]
        assert is_kind(prompt, "decision_prompt")
        assert repr(figure()) in [exhibit.value for exhibit in prompt.exhibits]


async def test_user_sees_the_names_of_pdfs_before_their_delivery() -> None:
    person = FakePrompter(yes("deliver"))
    made = bench(
        make_plot_tool(figure(), pdf()), person=person, config=for_tool("plot", result="ask")
    )
    await made.run()
    prompt = person.asked[0]
    assert is_kind(prompt, "decision_prompt")
    detail = prompt.exhibits[-1]
    assert detail.caption == "Images and PDFs (delivered unless you edit the text)"
    assert detail.value == f"{figure()!r}\n{pdf()!r}"


async def test_undelivered_images_are_not_counted() -> None:
    made = bench(
        make_plot_tool(figure()),
        reply(call("plot")),
        reply(call("plot")),
        person=FakePrompter(yes("skip"), yes("deliver")),
        config={**for_tool("plot", result="ask"), **record_config(images_per_turn=1)},
    )
    await made.run()
    assert [len(images) for _, images in list_results(made.context)] == [0, 1]


async def test_duplicate_image_of_a_result_is_sent_once() -> None:
    made = bench(
        make_plot_tool(figure(), figure(shade=1), figure()), config=record_config(images_per_turn=2)
    )
    await made.run()
    assert list_results(made.context) == [("a plot", (figure(), figure(shade=1)))]


async def test_only_the_last_run_of_a_tool_sends_images() -> None:
    def proposes(ctx: jp.ToolContext) -> jp.Outcome:
        if not ctx.answers:
            return jp.NeedsInput(jp.Question.boolean("sure", "Sure?"))
        if ctx.delta_rejection is None:  # it may not: it is run again
            return jp.Success("", config={"user": {"name": "Ada"}}, images=(figure(shade=1),))
        return jp.Success("refused", images=(figure(shade=2),))

    made = bench(new_tool(proposes, name="plot"), person=FakePrompter(yes(True)))
    await made.run()
    assert list_results(made.context) == [("refused", (figure(shade=2),))]


async def test_images_are_kept_while_a_change_is_decided() -> None:
    def changes() -> jp.Outcome:
        return jp.Success("changed", config={"assistant": {"name": "Ada"}}, images=(figure(),))

    access = {"config": [{"path": "assistant.name", "write": True}]}
    made = bench(
        new_tool(changes, name="plot"),
        person=FakePrompter(yes("apply")),
        config=for_tool("plot", access=access),
    )
    await made.run()
    assert list_results(made.context) == [("changed", (figure(),))]


async def test_request_is_recorded_with_its_images() -> None:
    made = TurnBench([DONE])
    large = figure("large", padding=3_000)
    made.config = record_config(image_max_bytes=2_000)
    await made.run("What is that?", [figure(), large])
    assert made.kinds() == ["turn_start", "image", "chat_request", "chat_response"]
    request = made.context.items[0]
    assert request.images == (figure(),)
    (line,) = (notice.text for notice in made.shown_of("notice"))
    assert line.removeprefix("⚠ ") in made.turn.request
    assert made.turn.images == (figure(),)


async def test_inquiry_includes_the_images() -> None:
    made = bench(make_plot_tool(figure()))
    await made.run("Look.", [figure("asked", shade=9)])
    inquiry = model_inquiry("c.q.1", "c", "t", jp.Question.boolean("q", "Sure?"))
    answer = json.dumps({"answer": True})
    provider = EventProvider(
        reply([model_event("text", 0, "structured", answer), model_event("flush", 0)])
    )
    assert await new_question_model(provider).inquire(made.context, inquiry) is True

    [(request, _)] = provider.requests
    seen_then = [item.images for item in request.context]
    assert seen_then == [*(item.images for item in made.context), ()]
    assert sum(map(len, seen_then)) == 2


async def test_secret_in_an_image_name_is_hidden() -> None:
    made = bench(make_plot_tool(figure("of hunter2-hunter2")))
    made.loop.turn.secrets.add("hunter2-hunter2")
    await made.run()
    assert made.of("image")[0].name == "of (secret)"
