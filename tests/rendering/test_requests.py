"""Reports on a request: complete, safe and of limited size."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.record_view import RecordView
from tests.kit.records import new_event
from tests.kit.renderings import render
from tests.providers.helpers import TODAY, WEATHER, answer, ask, called, result, thought, user
from tests.rendering.markdown_readers import dangers, markdowns
from tests.rendering.reports import HOSTILE
from tests.rendering.traced_requests import trace_request
from tests.support.entries import new_stream
from tests.support.record_strategies import json_values, records


def png(width: int, height: int) -> bytes:
    """Return the beginning of an image of this size."""
    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size + b"\x08\2"


PNG = png(640, 480) + b"\0" * 31_000
NOT_SENT = make("sent_request", "POST", "http://h", {}, b"{}")
TALK = (user("Weather?"), answer("Looking."), called("c1", city="Delft"), result("c1", "sun"))


def test_report_has_all_parts_with_their_tokens() -> None:
    request = ask(
        *TALK,
        provider="openai",
        system=("Be brief.",),
        tools=(WEATHER,),
        attachments=(
            make("attachment", "notes.md", "text/plain", "a" * 400),
            make("attachment", "sky.png", "image/png", PNG),
            make("attachment", "old.bmp", "image/bmp", b"BM"),
        ),
        schema={"type": "object"},
    )
    request.context.items.append(
        make(
            "context_item",
            new_event("chat_request", content="See:"),
            "openai",
            (jp.Image("image/png", PNG, "figure 1"),),
        )
    )
    shown = trace_request(request)
    text = render("request", shown).text
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
    assert "iVBOR" not in text + render("request", shown, full=True).text
    assert f"about {sum(shown.estimated_tokens.values()):,} tokens" in text


def test_tokens_are_estimated_from_bytes_and_pixels() -> None:
    for text, tokens in [("", 0), ("word", 1), ("words", 2), ("日本語", 3), ("\ud800", 1)]:
        shown = trace_request(ask(user("Hi"), system=(text,)), sent=NOT_SENT)
        assert shown.estimated_tokens["system"] == tokens

    name_tokens = 2
    for image, tokens in [
        (png(640, 480), 410),
        (png(1, 1), 1),
        (png(3_136, 784), 820),
        (png(20_000, 20_000), 1_600),
        (b"of unknown size", 1_600),
    ]:
        attached = make("attachment", "sky.png", "image/png", image)
        shown = trace_request(ask(user("Hi"), attachments=(attached,)), sent=NOT_SENT)
        assert shown.estimated_tokens["attachments"] == name_tokens + tokens


def test_tokens_counted_by_the_provider_are_shown_beside_the_estimate() -> None:
    plain = trace_request(ask(user("Hi")))
    usage = {"usage": {"input_tokens": 1234, "output_tokens": 5}}
    counted = trace_request(plain.request, answer=({}, usage))
    assert "the provider counted" not in render("request", plain).text
    assert "tokens (messages 1); the provider counted 1,234" in render("request", counted).text


# --- hostile, secret and huge content ------------------------------------------------------------


@pytest.mark.parametrize("full", [False, True])
def test_hostile_text_is_shown_as_text(full: bool) -> None:
    tool = make("tool_definition", "weather", HOSTILE, {"properties": {HOSTILE: {"type": HOSTILE}}})
    request = ask(
        user(HOSTILE),
        answer(HOSTILE),
        thought(HOSTILE),
        called("c", HOSTILE, x=HOSTILE),
        result("c", HOSTILE),
        system=(HOSTILE,),
        tools=(tool,),
        attachments=(make("attachment", HOSTILE, "text/plain", HOSTILE),),
        schema={"title": HOSTILE},
    )
    other = ask(user("Hi"), system=(HOSTILE * 9,), tools=(WEATHER,))
    for report in (
        render("request", trace_request(request), full=full),
        render("request_difference", trace_request(request), trace_request(other)),
    ):
        assert dangers(report.markdown) == []
        for shown in (report.markdown, report.text):
            assert not {"\x1b", "\u202e", "\x07"} & set(shown)


@given(st.lists(markdowns, min_size=1, max_size=4), st.booleans())
def test_no_text_of_a_message_becomes_markup(texts: list[str], full: bool) -> None:
    request = ask(*(user(text) for text in texts), system=tuple(texts))
    assert dangers(render("request", trace_request(request), full=full).markdown) == []


@given(records, st.dictionaries(st.text(max_size=5), json_values, max_size=3), st.booleans())
def test_any_conversation_has_a_report(raw: list[Any], schema: Any, full: bool) -> None:
    context = RecordView(new_stream(*raw)).context(("openai",), in_turn=True)
    tools = (make("tool_definition", "t", "", schema), TODAY)
    request = make("model_request", "m", context, tools=tools, schema=schema)
    sent = make("sent_request", "POST", "http://h", {}, json.dumps({"x": schema}).encode())
    shown = trace_request(request, sent=sent)
    before = trace_request(ask(user("Hi")))
    assert render("request", shown, full=full).text
    assert render("request_difference", before, shown).text
    assert "no differences" in render("request_difference", shown, shown).text


def test_huge_conversation_has_a_short_report() -> None:
    entries = [user("x" * 5_000) for _ in range(2_000)]
    request = ask(*entries, system=("y" * 20_000,) * 100, tools=(TODAY,) * 300)
    shown = trace_request(request)
    report = render("request", shown)
    assert len(report.text) < 60_000
    assert len(report.markdown) < 60_000
    assert "… 1,985 messages not shown" in report.text
    assert "… and 60 more" in report.text
    assert "Show the full texts: `%jp request 0.1 --full`" in report.text
    full = render("request", shown, full=True)
    assert "1999 · user" in full.text
    assert "not shown" not in full.text


def test_short_report_that_omits_only_rows_names_the_full_one() -> None:
    hint = "Show the full texts: `%jp request 0.1 --full`"
    for system, has_hint in ((("Be brief.",) * 40, False), (("Be brief.",) * 41, True)):
        report = render("request", trace_request(ask(user("Hi"), system=system)))
        assert (hint in report.text) is has_hint
        assert ("… and 1 more" in report.text) is has_hint


def test_key_is_removed_from_every_text(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "k-0123456789abcdef0123"
    monkeypatch.setenv("REPORT_KEY", key)
    request = ask(
        user(key),
        answer(key),
        called("c", key, x=key),
        result("c", key),
        system=(key,),
        tools=(make("tool_definition", key, key, {"properties": {key: {"description": key}}}),),
        attachments=(make("attachment", key, "text/plain", key),),
        schema={"title": key},
        tool_choice=f"tool:{key}",
    )
    shown = trace_request(request, api_key_env="REPORT_KEY")
    other = trace_request(ask(user("Hi")))
    for report in (
        render("request", shown),
        render("request", shown, full=True),
        render("request_difference", shown, other),
        render("request_difference", other, shown),
    ):
        assert key not in report.text + report.markdown


def test_parameter_named_like_a_secret_is_masked() -> None:
    body = {"temperature": 1, "password": "hush", "extra": {"token": "hush"}}
    sent = make("sent_request", "POST", "http://h", {}, json.dumps(body).encode())
    shown = trace_request(ask(user("Hi")), "x", sent=sent)
    assert "hush" not in render("request", shown).text
    assert shown.body["password"] == "(set, not shown)"
    assert shown.body["temperature"] == 1
