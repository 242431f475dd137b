"""Reports on a request: complete, safe and of limited size."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.agent.token_estimates import estimate_image_tokens, estimate_text_tokens
from jp_nb.providers import create_provider
from jp_nb.record.context import build_context
from jp_nb.rendering.request_text import TracedRequest, render_request, render_request_difference
from tests.kit.models import request_value
from tests.kit.records import new_event
from tests.providers.helpers import TODAY, WEATHER, answer, ask, called, result, thought, user
from tests.rendering.markdown_readers import dangers, markdowns
from tests.rendering.reports import HOSTILE
from tests.support.entries import new_stream
from tests.support.record_strategies import json_values, records

SIZE = (640).to_bytes(4, "big") + (480).to_bytes(4, "big")
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + SIZE + b"\x08\2" + b"\0" * 31_000
TALK = (user("Weather?"), answer("Looking."), called("c1", city="Delft"), result("c1", "sun"))


def traced(request: Any) -> TracedRequest:
    provider = create_provider("openai", {"base_url": "http://127.0.0.1:1"})
    return TracedRequest("0.1", "openai", request, provider.preview(request), ("exact request",))


def test_report_has_all_parts_with_their_tokens() -> None:
    request = ask(
        *TALK,
        provider="openai",
        system=("Be brief.",),
        tools=(WEATHER,),
        attachments=(
            request_value("attachment", "notes.md", "text/plain", "a" * 400),
            request_value("attachment", "sky.png", "image/png", PNG),
            request_value("attachment", "old.bmp", "image/bmp", b"BM"),
        ),
        schema={"type": "object"},
    )
    request.context.items.append(
        request_value(
            "context_item",
            new_event("chat_request", content="See:"),
            "openai",
            (jp.Image("image/png", PNG, "figure 1"),),
        )
    )
    shown = traced(request)
    text = render_request(shown).text
    for line in (
        "request 0.1 · openai/test-model · exact request",
        "sent to          POST http://127.0.0.1:1/v1/chat/completions",
        "stream           true",
        "tool choice      auto",
        'response schema  {"type": "object"}',
        "not sent         conversation.attachments['old.bmp'] (image/bmp): this provider accepts",
        "1  Be brief.  3",
        "sky.png   [image: image/png 640×480, 31.0 kB]",
        "old.bmp   [file image/bmp 2 B]",
        "weather  Forecast.    city?: string",
        '3  assistant calls weather  {"city":"Delft"}',
        "4  result of weather        sun",
        "5  user                     See: [image: figure 1, image/png 640×480, 31.0 kB]",
    ):
        assert line in text, text
    assert shown.estimated_tokens["attachments"] == 100 + 2 + 410 + 2
    assert "iVBOR" not in text + render_request(shown, full=True).text
    assert f"about {sum(shown.estimated_tokens.values()):,} tokens" in text


def test_tokens_are_estimated_from_bytes_and_pixels() -> None:
    for text, tokens in [("", 0), ("word", 1), ("words", 2), ("日本語", 3), ("\ud800", 1)]:
        assert estimate_text_tokens(text) == tokens
    sizes: list[tuple[tuple[int, int] | None, int]] = [
        ((640, 480), 410), ((1, 1), 1), ((3_136, 784), 820), ((20_000, 20_000), 1_600),
        (None, 1_600),
    ]  # fmt: skip
    for size, tokens in sizes:
        assert estimate_image_tokens(size) == tokens


def test_tokens_counted_by_the_provider_are_shown_beside_the_estimate() -> None:
    plain = traced(ask(user("Hi")))
    counted = TracedRequest(
        *(plain.name, plain.provider, plain.request, plain.sent, plain.remarks),
        ({}, {"usage": {"input_tokens": 1234, "output_tokens": 5}}),
    )
    assert "the provider counted" not in render_request(plain).text
    assert "tokens (messages 1); the provider counted 1,234" in render_request(counted).text


# --- hostile, secret and huge content ------------------------------------------------------------


@pytest.mark.parametrize("full", [False, True])
def test_hostile_text_is_shown_as_text(full: bool) -> None:
    tool = request_value(
        "tool_definition", "weather", HOSTILE, {"properties": {HOSTILE: {"type": HOSTILE}}}
    )
    request = ask(
        *(user(HOSTILE), answer(HOSTILE), thought(HOSTILE), called("c", HOSTILE, x=HOSTILE)),
        result("c", HOSTILE),
        system=(HOSTILE,),
        tools=(tool,),
        attachments=(request_value("attachment", HOSTILE, "text/plain", HOSTILE),),
        schema={"title": HOSTILE},
    )
    other = ask(user("Hi"), system=(HOSTILE * 9,), tools=(WEATHER,))
    for report in (
        render_request(traced(request), full=full),
        render_request_difference(traced(request), traced(other)),
    ):
        assert dangers(report.markdown) == []
        for shown in (report.markdown, report.text):
            assert not {"\x1b", "\u202e", "\x07"} & set(shown)


@given(st.lists(markdowns, min_size=1, max_size=4), st.booleans())
def test_no_text_of_a_message_becomes_markup(texts: list[str], full: bool) -> None:
    request = ask(*(user(text) for text in texts), system=tuple(texts))
    assert dangers(render_request(traced(request), full=full).markdown) == []


@given(records, st.dictionaries(st.text(max_size=5), json_values, max_size=3), st.booleans())
def test_any_conversation_has_a_report(raw: list[Any], schema: Any, full: bool) -> None:
    thread = build_context(new_stream(*raw), ("openai",), in_turn=True)
    tools = (request_value("tool_definition", "t", "", schema), TODAY)
    request = request_value("model_request", "m", thread, tools=tools, schema=schema)
    sent = request_value("sent_request", "POST", "http://h", {}, json.dumps({"x": schema}).encode())
    shown = TracedRequest("0.1", "openai", request, sent, ("exact request",))
    before = traced(ask(user("Hi")))
    assert render_request(shown, full=full).text
    assert render_request_difference(before, shown).text
    assert "no differences" in render_request_difference(shown, shown).text


def test_huge_conversation_has_a_short_report() -> None:
    entries = [user("x" * 5_000) for _ in range(2_000)]
    request = ask(*entries, system=("y" * 20_000,) * 100, tools=(TODAY,) * 300)
    shown = traced(request)
    report = render_request(shown)
    assert len(report.text) < 60_000
    assert len(report.markdown) < 60_000
    assert "… 1,985 messages not shown" in report.text
    assert "… and 60 more" in report.text
    assert "Show the full texts: `%jp request 0.1 --full`" in report.text
    full = render_request(shown, full=True)
    assert "1999 · user" in full.text
    assert "not shown" not in full.text


def test_key_is_removed_from_every_text(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "k-0123456789abcdef0123"
    monkeypatch.setenv("REPORT_KEY", key)
    provider = create_provider(
        "openai", {"base_url": "http://127.0.0.1:1", "api_key_env": "REPORT_KEY"}
    )
    request = ask(
        *(user(key), answer(key), called("c", key, x=key), result("c", key)),
        system=(key,),
        tools=(
            request_value("tool_definition", key, key, {"properties": {key: {"description": key}}}),
        ),
        attachments=(request_value("attachment", key, "text/plain", key),),
        schema={"title": key},
        tool_choice=f"tool:{key}",
    )
    sent = provider.preview(request)
    shown = TracedRequest("0.1", "openai", request, sent, ("exact request",))
    other = traced(ask(user("Hi")))
    for report in (
        render_request(shown),
        render_request(shown, full=True),
        render_request_difference(shown, other),
        render_request_difference(other, shown),
    ):
        assert key not in report.text + report.markdown


def test_parameter_named_like_a_secret_is_masked() -> None:
    body = {"temperature": 1, "password": "hush", "extra": {"token": "hush"}}
    sent = request_value("sent_request", "POST", "http://h", {}, json.dumps(body).encode())
    shown = TracedRequest("0.1", "x", ask(user("Hi")), sent, ("exact request",))
    assert "hush" not in render_request(shown).text
    assert shown.body["password"] == "(set, not shown)"
    assert shown.body["temperature"] == 1
