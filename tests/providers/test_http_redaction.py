"""A key that its server sends back is hidden in every spelling and every place."""

from __future__ import annotations

import html
import json
import logging
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.providers import new_provider
from tests.kit.streams import StreamReader
from tests.providers.helpers import ask, collect_failure, list_details, text_of
from tests.support.loopback import STREAM, LoopbackServer, RawResponse, Reply

PROVIDER_KEY_MARK = "[key]"


KEY = "sk-very/secret+0123456789abcdef"
INNER = "0123456789abcdef"
SHORT = "hunter2!"

SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
    "JSON, all of it": lambda key: "".join(f"\\u{ord(char):04x}" for char in key),
    "JSON twice": lambda key: "".join(f"\\\\u{ord(char):04X}" for char in key),
    "Python": lambda key: "".join(f"\\x{ord(char):02x}" for char in key),
    "URL": lambda key: quote(key, safe=""),
    "URL, all of it": lambda key: "".join(f"%{ord(char):02X}" for char in key),
    "URL twice": lambda key: "".join(f"%25{ord(char):02x}" for char in key),
    "HTML": lambda key: "".join(f"&#{ord(char)};" for char in key),
    "HTML in sixteens": lambda key: "".join(f"&#x{ord(char):X};" for char in key),
    "HTML names": html.escape,
    "Base64": lambda key: b64encode(key.encode()).decode(),
    "Base64 of the header": lambda key: b64encode(f"Bearer {key}".encode()).decode(),
    "Base64 of more": lambda key: urlsafe_b64encode(f"me:{key}:x".encode()).decode(),
}


async def refuse(text: str) -> str:
    """Return what a user reads if the server refuses a request with `text`."""
    with LoopbackServer([Reply(status=400, message=f"you sent {text}, it seems")]) as server:
        provider = new_provider("openai", {"base_url": server.url})
        _, error = await collect_failure(provider, ask())
        await provider.aclose()
    return str(error).partition("you sent ")[2].partition(", it seems")[0]


async def test_every_spelling_of_a_key_is_hidden(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name, spell in SPELLINGS.items():
        with subtests.test(spelling=name):
            shown = await refuse(spell(KEY))
            assert PROVIDER_KEY_MARK in shown
            # A part of the Base64 does not encode the key.
            assert len(shown) < len(PROVIDER_KEY_MARK) + 14


@pytest.mark.parametrize("key", [KEY, "", "of"])
async def test_text_without_the_key_is_unchanged(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    text = "a % of 100%25 &# \\u0073k-very"
    assert await refuse(text) == text


def read_pieces(parts: Iterable[str]) -> str:
    """Return the text of an answer that comes in `parts`, from a server that knows the key."""
    response = StreamReader("chat", key=KEY).read([*map(content, parts), END])
    assert response.error is None
    return text_of(response.events)


def content(text: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}]}


@given(st.lists(st.sampled_from([KEY, KEY[:9], KEY[9:], "sk-", "s", "a b", "é"]), max_size=6),
       st.lists(st.integers(1, 9), min_size=1, max_size=9))  # fmt: skip
def test_key_in_pieces_is_hidden(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(text[at : at + size])
        at += size

    shown = read_pieces(pieces)
    assert KEY not in shown
    assert KEY[3:] not in shown or KEY[9:] in text.replace(KEY, "")
    if KEY not in text:
        assert shown == text


def test_at_most_three_characters_of_a_key_in_pieces_are_shown(subtests: pytest.Subtests) -> None:
    for size in (*range(1, 12), 25, 40):
        with subtests.test(size=size):
            text = f"It is {KEY}, it is {KEY}."
            shown = read_pieces(text[at : at + size] for at in range(0, len(text), size))
            assert re.fullmatch(r"It is (sk?-?)?\[key\], it is (sk?-?)?\[key\]\.", shown)


def test_every_spelling_of_a_key_in_pieces_is_hidden(subtests: pytest.Subtests) -> None:
    for name, spell in SPELLINGS.items():
        for size in (1, 2, 3, 5, 9, 40):
            with subtests.test(spelling=name, size=size):
                text = f"It is {spell(KEY)}, it is {spell(KEY)}."
                shown = read_pieces(text[at : at + size] for at in range(0, len(text), size))
                parts = re.fullmatch(r"It is (.*)\[key\](.*), it is (.*)\[key\](.*)\.", shown)
                assert parts is not None, shown
                # Three characters, and a begun escape; at the end, Base64 of less than a character.
                assert all(len(part) <= 3 * 7 + 6 for part in parts.groups()), shown


# --- every place where a server can put it ----------------------------------------------------


def chat(**delta: object) -> bytes:
    return event({"choices": [{"delta": delta}]})


def event(message: object) -> bytes:
    return f"data: {json.dumps(message)}\n\n".encode()


def pieces(text: str, size: int = 5) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def response(status: str, body: str, *headers: str) -> list[bytes]:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body.encode())}", *headers]
    return ["\r\n".join(lines).encode() + b"\r\n\r\n" + body.encode()]


def stream(*events: bytes) -> list[bytes]:
    return [STREAM, *events]


END = event({"choices": [{"delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n"


def call(text: str) -> dict[str, object]:
    return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}


def start_call(name: str, id_: str = "1") -> bytes:
    return chat(tool_calls=[{"index": 0, "id": id_, "function": {"name": name, "arguments": ""}}])


OPENAI: dict[str, Callable[[str], list[bytes]]] = {
    "reason phrase": lambda k: response(f"401 No {k}", "{}"),
    "error": lambda k: response("401 No", json.dumps({"error": {"message": f"bad {k}"}})),
    "error code": lambda k: response("400 No", json.dumps({"error": {"message": "x", "code": k}})),
    "page": lambda k: response("500 No", f"<b>{k}</b>", "content-type: text/html"),
    "text": lambda k: response("500 No", f"no {k}"),
    "cut text": lambda k: response("500 No", "x" * (64 * 1024 - 9) + k),
    "content type": lambda k: response("200 OK", "x", f"content-type: {'x' * 80}{k}"),
    "success page": lambda k: response("200 OK", "x" * 190 + k, "content-type: text/html"),
    "wait": lambda k: response("429 No", "{}", f"retry-after: {k}"),
    "limits": lambda k: response("429 No", "{}", f"x-ratelimit-remaining-{k}: 0"),
    "redirect": lambda k: response("302 No", "", f"location: https://x/{k}"),
    "header": lambda k: response("401 No", "{}", f"x-{k}: {k}"),
    "illegal header": lambda k: [f"HTTP/1.1 200 OK\r\n{k} {k}\r\n\r\n".encode()],
    "illegal status": lambda k: [f"HTTP/1.1 {k}\r\n\r\n".encode()],
    "illegal chunk": lambda k: [STREAM[:-2] + b"transfer-encoding: chunked\r\n\r\n" + k.encode()],
    "illegal encoding": lambda k: [
        STREAM[:-2] + f"content-encoding: gzip\r\n\r\n{k}".encode()
    ],
    "message": lambda k: stream(f"data: you sent {k}\n\n".encode()),
    "long message": lambda k: stream(f"data: {'x' * 190}{k}\n\n".encode()),
    "no UTF-8": lambda k: stream(f"data: {k}".encode() + b"\xff\n\n"),
    "event": lambda k: stream(f"event: {k}\ndata: {k}\n\n".encode()),
    "error in stream": lambda k: stream(event({"error": {"message": f"bad {k}", "code": k}})),
    "error text in stream": lambda k: stream(event({"error": k})),
    "error at the end": lambda k: stream(
        event({"choices": [{"finish_reason": "error", "error": {"message": k}}]})
    ),
    "answer": lambda k: stream(chat(content=f"It is {k}."), END),
    "answer in pieces": lambda k: stream(*(chat(content=x) for x in pieces(f"It is {k}.")), END),
    "broken answer": lambda k: stream(*(chat(content=x) for x in pieces(f"It is {k}"))),
    "reasoning": lambda k: stream(*(chat(reasoning_content=x) for x in pieces(k)), END),
    "thoughts": lambda k: stream(*(chat(content=x) for x in pieces(f"<think>{k}</think>x")), END),
    "refusal": lambda k: stream(*(chat(refusal=x) for x in pieces(k)), END),
    "details": lambda k: stream(
        *(chat(reasoning_details=[{"type": "t", "index": 0, "data": x}]) for x in pieces(k)),
        chat(content="x"), END,
    ),
    "finish reason": lambda k: stream(event({"choices": [{"delta": {}, "finish_reason": k}]}),
                                      b"data: [DONE]\n\n"),
    "tool": lambda k: stream(start_call(k, k), END),
    "arguments": lambda k: stream(
        start_call("t"), *(chat(**call(x)) for x in pieces(json.dumps({"a": k}))), END
    ),
}  # fmt: skip


def claude(kind: str, **fields: object) -> bytes:
    return event({"type": kind, **fields})


def block(kind: str, *deltas: dict[str, str], **fields: object) -> list[bytes]:
    return [
        claude("content_block_start", index=0, content_block={"type": kind, **fields}),
        *(claude("content_block_delta", index=0, delta=delta) for delta in deltas),
        claude("content_block_stop", index=0),
        claude("message_delta", delta={"stop_reason": "end_turn"}, usage={}),
        claude("message_stop"),
    ]


ANTHROPIC: dict[str, Callable[[str], list[bytes]]] = {
    "error": lambda k: response("401 No", json.dumps({"error": {"message": f"bad {k}"}})),
    "error in stream": lambda k: stream(claude("error", error={"type": k, "message": f"bad {k}"})),
    "message": lambda k: stream(f"data: you sent {k}\n\n".encode()),
    "signature": lambda k: stream(
        *block("thinking", *({"type": "signature_delta", "signature": x} for x in pieces(k)))
    ),
    "redacted": lambda k: stream(*block("redacted_thinking", data=k)),
    "answer in pieces": lambda k: stream(
        *block("text", *({"type": "text_delta", "text": x} for x in pieces(f"It is {k}.")))
    ),
    "arguments": lambda k: stream(
        *block("tool_use", *({"type": "input_json_delta", "partial_json": x}
                             for x in pieces(json.dumps({"a": k}))), id="1", name="t")
    ),
    "tool": lambda k: stream(*block("tool_use", id=k, name=k)),
    "reason": lambda k: stream(
        claude("message_delta", delta={"stop_reason": "refusal", "stop_details": {"category": k}}),
        claude("message_stop"),
    ),
}  # fmt: skip


async def collect_visible_text(name: str, response: RawResponse) -> str:
    """Return the text of a response, and of its error with local variables."""
    with LoopbackServer(lambda _: response) as server:
        provider = new_provider(name, {"base_url": server.url})
        answer = ""
        try:
            async for each in provider.stream(ask(model="m", idle_timeout=20)):
                # Pieces of one text are one text in the record.
                answer += getattr(each, "text", None) or repr(each)
        except jp.ProviderError as exc:
            answer += "".join(list_details(exc))
        await provider.aclose()
    return answer


@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_key_that_a_server_sends_back_is_hidden_everywhere(
    name: str,
    subtests: pytest.Subtests,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(f"{name.upper()}_API_KEY", KEY)
    others = ("URL", "Base64 of the header")
    places = OPENAI if name == "openai" else ANTHROPIC
    for number, (place, answer) in enumerate(places.items()):
        for spelling in ("as it is", others[number % 2]):
            with subtests.test(place=place, spelling=spelling):
                caplog.clear()
                seen = await collect_visible_text(
                    name, RawResponse(answer(SPELLINGS[spelling](KEY)))
                )
                shown = seen + caplog.text + "".join(capfd.readouterr())
                hidden = [SPELLINGS[each](KEY)[4:] for each in ("as it is", *others)]
                for trace in (KEY, INNER, quote(INNER), *hidden):
                    assert trace not in shown
                assert b64encode(INNER.encode()).decode()[4:16] not in shown


async def test_short_key_is_hidden_in_errors(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", SHORT)
    for place in [p for p in OPENAI if "error" in p or p in ("text", "message")]:
        with subtests.test(place=place):
            shown = await collect_visible_text("openai", RawResponse(OPENAI[place](SHORT)))
            assert SHORT not in shown + caplog.text


async def test_short_key_is_not_hidden_in_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "lm-studio")
    response = RawResponse(OPENAI["answer in pieces"]("lm-studio"))
    answer = await collect_visible_text("openai", response)
    assert "It is lm-studio." in answer


async def test_key_in_the_query_of_the_address_is_hidden_in_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = b"<html>"
    head = f"HTTP/1.1 200 X\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n\r\n"
    messages = []
    with LoopbackServer(lambda _: RawResponse([head.encode(), body]), strict=False) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}?api_key={INNER}")
        provider = new_provider("openai", {})
        _, error = await collect_failure(provider, ask())
        messages.append(str(error))

    # The server does not run any more.
    _, error = await collect_failure(provider, ask())
    messages.append(str(error))
    await provider.aclose()

    assert "instead of an event stream" in messages[0]
    assert "no server of openai runs" in messages[1]
    assert not [message for message in messages if INNER in message]
