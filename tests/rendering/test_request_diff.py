"""The difference of two requests, and their shared beginning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.providers import new_provider
from tests.kit.records import new_event
from tests.kit.renderings import render
from tests.providers.helpers import (
    TODAY,
    WEATHER,
    answer,
    ask,
    called,
    collect,
    result,
    user,
)
from tests.rendering.traced_requests import trace_request
from tests.support.loopback import LoopbackServer, Reply

TALK = (user("Weather?"), answer("Looking."), called("c1", city="Delft"), result("c1", "sun"))


DIALECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": ("anthropic", {}),
    "chat": ("openai", {}),
    "responses": ("openai", {"dialect": "responses"}),
    "interactions": ("google", {}),
    "generate": ("google", {"dialect": "generate"}),
}


def traced(request: Any, name: str = "0.1", dialect: str = "chat") -> Any:
    provider, settings = DIALECTS[dialect]
    return trace_request(request, provider, name=name, **settings)


def test_difference_of_two_requests_is_listed_part_by_part() -> None:
    long = "\n".join(f"Rule {number}." for number in range(40))
    before = ask(*TALK, system=(long,), tools=(WEATHER, TODAY), attachments=())
    after = ask(
        *TALK[:3],
        result("c1", "rain"),
        answer("Rain."),
        model="other",
        system=(long.replace("Rule 7.", "Rule seven."),),
        tools=(WEATHER, make("tool_definition", "later", "Later.", {})),
        attachments=(make("attachment", "a.md", "text/plain", "A"),),
        tool_choice="none",
    )
    text = render("request_difference", traced(before), traced(after, "1.1")).text
    for part in (
        "request 0.1 → request 1.1",
        'model: "openai/test-model" → "openai/other"',
        'tool choice: "auto" → "none"',
        "system: text, 40 lines → text, 40 lines",
        "    - Rule 7.",
        "    + Rule seven.",
        "attachments added: a.md",
        "tools removed: today",
        "tools added: later",
        "messages: 3 identical, then 1 in 0.1 and 2 in 1.1",
        'message 4: "sun" → "rain"',
        "shared prefix for a prompt cache: none, because each model has its own cache",
    ):
        assert part in text, text
    assert "Rule 30." not in text


def test_shared_beginning_of_two_requests_is_described() -> None:
    tools = {"tools": (WEATHER,)}
    system = {"system": ("s",)}
    rows: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({}, {}, "cache: all of request 0.1"),
        (tools, {}, "cache: none; `tools` differs"),
        (tools, {**tools, **system}, "% of request 0.1; then message 1 differs"),
        (tools, {"tools": (WEATHER, TODAY)}, "% of request 0.1; then `tools` differs"),
        ({"tools": (WEATHER, TODAY)}, tools, "% of request 0.1; then `tools` differs"),
        (system, system, "cache: all of request 0.1"),
    ]
    for before, after, shared in rows:
        one = traced(ask(user("Hello world."), **before))
        other = traced(ask(user("Hello world."), answer("Hi."), **after))
        assert render("shared_prefix", one, other).endswith(shared)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_appended_changes_are_messages(dialect: str) -> None:
    notes = make("attachment", "notes.md", "text/plain", "Notes.")
    talk = (user("Hello."), answer("Hi."), user("More."), answer("Yes."), user("Again."))
    first = ask(*talk, system=("Be short.",), tools=(WEATHER, TODAY))
    second = replace(first, system=("Be long.",), tools=(WEATHER,), attachments=(notes,))
    third = replace(second, system=("Be long.", "Be kind."))
    context = first.context
    context.note_contents([notes])
    context.heads.append(make("head_position", 1, first.head))
    before = traced(replace(second, context=context.until(3)), dialect=dialect)
    context.heads.append(make("head_position", 3, second.head))
    after = traced(third, "1.1", dialect)
    assert [message.role for message in after.messages] == [
        "user",
        "assistant",
        "user",
        "attachment notes.md (appended)",
        "instructions (appended)",
        "tools (appended)",
        "assistant",
        "user",
        "instructions (appended)",
    ]
    assert after.shown.system == ("Be short.",)
    assert not after.shown.attachments
    text = render("request_difference", before, after).text
    assert "messages: 6 identical, then 0 in 0.1 and 3 in 1.1" in text
    assert "shared prefix for a prompt cache: all of request 0.1" in text
    report = render("request", after).text
    for row in (
        "4  attachment notes.md (appended)  Notes.",
        "5  instructions (appended)         These instructions replace all earlier ones: Be long.",
        "6  tools (appended)                These tools are no longer available: `today`.",
        "9  instructions (appended)         Be kind.",
    ):
        assert row in report, report
    assert len(report.split("Notes.")) == 2, "the body is not among the parameters"


def test_content_of_requests_in_different_forms_is_compared() -> None:
    requests = [ask(*TALK[: 1 + 2 * n], system=("s",), tools=(WEATHER,)) for n in range(2)]
    for dialect in DIALECTS:
        text = render(
            "request_difference", traced(requests[0]), traced(requests[1], "1.1", dialect)
        ).text
        assert "messages: 1 identical, then 0 in 0.1 and 2 in 1.1" in text
        assert "removed" not in text
        hint = "different forms" in text and "`%jp request 1.1 --json`" in text
        assert hint == (dialect != "chat"), text


def test_tool_in_front_of_one_form_and_appended_in_another_is_the_same() -> None:
    request = ask(user("Hello."), answer("Hi."), user("More."), tools=(WEATHER, TODAY))
    request.context.heads.append(make("head_position", 1, replace(request.head, tools=(WEATHER,))))
    one = traced(request)
    other = traced(request, "1.1", "anthropic")
    assert "today" in str(one.shown.tools)
    assert "today" not in str(other.shown.tools)
    assert "today" not in render("request_difference", one, other).text
    assert render("request_difference", one, one).text.splitlines()[2] == "no differences"


async def test_line_about_the_shared_beginning_agrees_with_the_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-of-a-test")
    rules = tuple(f"Rule {number}. " * 100 for number in range(9))
    one, other = (
        ask(user("Hello."), system=(*rules, last), conversation_id="c", is_turn=True)
        for last in ("Old end. " * 600, "New end. " * 600)
    )
    with LoopbackServer([Reply(text="Hi.")] * 2) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        await collect(provider, one)
        loss = (await collect(provider, other))[0]
        sent = [
            trace_request(each, "anthropic", name=name, sent=provider.preview(each))
            for name, each in (("0.1", one), ("1.1", other))
        ]
        await provider.aclose()
    assert is_kind(loss, "prefix_loss")
    assert render("shared_prefix", *sent).endswith(
        f"{loss.kept} % of request 0.1; then {loss.part} differs"
    )


def test_messages_with_different_images_differ() -> None:
    def with_image(content: bytes) -> Any:
        item = make(
            "context_item",
            new_event("tool_call_response", id="c", content="", is_error=False),
            "openai",
            (jp.Image("image/png", content),),
        )
        return traced(make("model_request", "m", make("request_context", [item])))

    same = render("request_difference", with_image(b"1"), with_image(b"1")).text
    other = render("request_difference", with_image(b"1"), with_image(b"2")).text
    assert "no differences" in same
    assert "messages: 0 identical" in other


def test_long_difference_has_at_most_the_given_number_of_lines() -> None:
    old = "\n".join(f"old {n}" for n in range(30))
    new = "\n".join(f"new {n}" for n in range(30))
    whole = render("value_difference", old, new, limit=1000)
    assert render("value_difference", old, new, limit=len(whole)) == whole
    shown = render("value_difference", old, new, limit=10)
    assert shown == [*whole[:9], f"⟨… {len(whole) - 9} more lines⟩"]
