"""Images and PDFs in requests: the table of `docs/providers.md`, checked for each dialect."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.providers import new_provider
from tests.providers.helpers import called, list_providers, result, user
from tests.support.images import figure, pdf, png

RESULT_IMAGES_INTRO = "The results of these tool calls came with images:"
RESULT_PDFS_INTRO = "The results of these tool calls came with images or PDFs:"


DOCUMENT = Path(__file__).parents[2] / "docs" / "providers.md"
ROW = re.compile(r"^\| (`.+?`(?:, `.+?`)*)" + r" \| (.+)" * 6 + r" \|$", re.MULTILINE)
ASKED = figure("mine", shade=1)
SHOWN = figure("figure 1", shade=2)
ASKED_PDF = pdf("draft", title="a")
SHOWN_PDF = pdf("report", title="b")
PLAN = make("attachment", "plan.png", "image/png", png(shade=3))
PAPER = make("attachment", "paper.pdf", "application/pdf", b"%PDF-1.7")
RESULTS = {"tool_result", "function_call_output", "function_result", "functionResponse"}


def read_rows() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each provider of the table, with its dialect, and the cells."""
    section = DOCUMENT.read_text(encoding="utf-8").partition("## Images and PDFs\n")[2]
    for names, *cells in ROW.findall(section.partition("\n## ")[0]):
        for name in names.split(", "):
            yield name.strip("`"), tuple(cells)


def encode(content: bytes) -> str:
    return b64encode(content).decode()


def make_request(name: str) -> Any:
    entries: tuple[tuple[Any, tuple[jp.Image, ...]], ...] = (
        (user("Compare."), (ASKED, ASKED_PDF)),
        (called("c1", "plot"), ()),
        (result("c1", "Done."), (SHOWN, SHOWN_PDF)),
    )
    items = [make("context_item", entry, name, shown) for entry, shown in entries]
    context = make("request_context", items)
    return make("model_request", "m", context, attachments=(PLAN, PAPER))


def has_key(value: Any, keys: set[str], data: str) -> bool:
    """Return True if `data` is in a member, or in an object of a type, that `keys` name."""
    if isinstance(value, list):
        return any(has_key(each, keys, data) for each in value)
    if not isinstance(value, dict):
        return False
    inside = data in json.dumps(value)
    return inside and (
        value.get("type") in keys
        or any(key in keys and data in json.dumps(each) for key, each in value.items())
        or any(has_key(each, keys, data) for each in value.values())
    )


def words(image: jp.Image) -> str:
    noun = "image" if image.media_type.startswith("image/") else "PDF"
    return f"[{noun}: {image.words}, not sent: this provider takes no {noun}s]"


def find_place(sent: Any, data: str, *, replacement: str, source: str) -> str:
    """Return where `data` is in a request, or what is sent instead, as the table says it."""
    body = json.loads(sent.body)
    messages = next(body[key] for key in ("messages", "input", "contents") if key in body)
    for message in messages:
        text = json.dumps(message, ensure_ascii=False)
        if data in text:
            if has_key(message, RESULTS, data):
                return "in the result"
            assert message.get("role", message.get("type")) in ("user", "user_input")
            is_result = any(x in text for x in (RESULT_IMAGES_INTRO, RESULT_PDFS_INTRO))
            return "after the results" if is_result else "user message"
        if replacement and replacement in text:
            return "as text"
    assert any(source in line for line in sent.omitted)
    return "not sent"


TABLE = dict(read_rows())


@pytest.mark.req("RESP-8", "GEM-7")
@pytest.mark.parametrize("label", TABLE)
def test_media_are_where_the_table_says(label: str) -> None:
    name, _, dialect = label.partition(" ")
    settings = {"dialect": dialect.strip("()")} if dialect else {}
    sent = new_provider(name, settings).preview(make_request(name))
    expected = (
        (encode(png(shade=3)), "", PLAN.source),
        (encode(b"%PDF-1.7"), "", PAPER.source),
        *((x.text, words(x), "-") for x in (ASKED, SHOWN, ASKED_PDF, SHOWN_PDF)),
    )
    found = tuple(find_place(sent, data, replacement=r, source=s) for data, r, s in expected)
    assert found == TABLE[label]


def test_table_has_each_provider_with_each_dialect() -> None:
    dialects = {"google": ("interactions", "generate"), "anthropic": ("",)}
    for name in ("openai", "openrouter", "xai", "llamacpp"):
        dialects[name] = ("chat", "responses")
    expected = {
        f"{name} ({dialect})" if dialect else name
        for name in list_providers()
        if name != "scripted"
        for dialect in dialects.get(name, ("",))
    }
    assert set(TABLE) == expected


def consume(value: Any) -> Any:
    """Return a copy of `value` after pydantic has validated its lazy parts."""
    if isinstance(value, dict):
        return {key: consume(item) for key, item in value.items()}
    return value if isinstance(value, str | bool | None) else [consume(item) for item in value]


@pytest.mark.req("RESP-8")
@pytest.mark.parametrize("label", ["anthropic", "openai (chat)", "openai (responses)"])
def test_official_types_accept_all_media(label: str) -> None:
    module, kind = {
        "anthropic": ("anthropic.types", "MessageParam"),
        "openai (chat)": ("openai.types.chat", "ChatCompletionMessageParam"),
        "openai (responses)": ("openai.types.responses", "ResponseInputItemParam"),
    }[label]
    types = pytest.importorskip(module, reason="pip install -e '.[tiers]'")
    adapter: TypeAdapter[Any] = TypeAdapter(getattr(types, kind))
    name, _, dialect = label.partition(" ")
    settings = {"dialect": dialect.strip("()")} if dialect else {}
    body = json.loads(new_provider(name, settings).preview(make_request(name)).body)
    messages = body.get("messages") or body["input"]
    assert len(messages) >= 3
    for message in messages:
        assert consume(adapter.validate_python(message)) == message
