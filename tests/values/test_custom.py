"""Tests of registered describers and of `_ai_repr_`."""

from __future__ import annotations

import asyncio
import base64
from contextvars import ContextVar
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.providers import substitute
from tests.kit.values import describe_value
from tests.support.images import pdf_bytes

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


@pytest.fixture(autouse=True)
def no_registered_describers(monkeypatch: pytest.MonkeyPatch) -> None:
    substitute(monkeypatch, "describers of the user", {})


class Base:
    pass


class Derived(Base):
    def _ai_repr_(self) -> str:
        return "its own words"


def test_describer_of_the_nearest_base_class_is_used() -> None:
    assert jp.describe(Derived()).text == "its own words"

    @jp.describer(Base)
    def base(value: Base, budget: Any) -> str:
        return f"base, {budget.chars}"

    assert describe_value(Derived(), chars=50).text == "base, 50"

    @jp.describer(Derived)
    def derived(value: Derived, budget: Any) -> tuple[str, list[bytes]]:
        return "derived", [PNG]

    said = jp.describe(Derived())
    assert said.text == "derived"
    assert [image.media_type for image in said.images] == ["image/png"]
    assert "base" in jp.describe(Base()).text
    assert jp.describe([Derived(), 1]).text.startswith("list of 2 items:\n[0]: derived\n[1]: 1")


def test_later_describer_of_a_type_replaces_the_first() -> None:
    for text in ("first", "second"):
        jp.describer(Base)(lambda value, budget, text=text: text)
    assert jp.describe(Base()).text == "second"


def test_text_of_a_describer_is_truncated_to_the_budget() -> None:
    long = describe_value("x" * 10_000)
    assert len(long.text) == 10_000
    jp.describer(Base)(lambda value, budget: long)
    assert len(describe_value(Base(), chars=300).text) <= 300


def test_failing_describer_is_reported_and_skipped(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str]] = [
        (3, "TypeError: it returned int: expected a text, a Description, or a text and a list"),
        (("text", [b"no image"]), "TypeError: expected the bytes of a PNG, JPEG, GIF, WebP"),
        (("text", ["path.png"]), "TypeError: expected an Image or its bytes, found str"),
    ]
    for returned, why in rows:
        with subtests.test(returned=returned):
            jp.describer(Base)(lambda value, budget, returned=returned: returned)
            text = jp.describe(Derived()).text
            assert text.startswith(f"its own words\n(Its describer failed: {why}")


def test_invalid_registration_is_an_error() -> None:
    with pytest.raises(jp.UsageError, match="needs a type, such as `@jp"):
        jp.describer("Base")  # type: ignore[arg-type]
    with pytest.raises(jp.UsageError, match=r"def short\(value, budget\)"):

        @jp.describer(Base)  # type: ignore[type-var]
        def short(value: Base) -> str:
            return ""


class ReturnsBundle:
    def __init__(self, result: object) -> None:
        self.result = result

    def _ai_repr_(self, **hints: object) -> object:
        return self.result


def test_mime_bundle_is_read(subtests: pytest.Subtests) -> None:
    rows: list[tuple[object, str, int]] = [
        ("words", "words", 0),
        ({"text/plain": "plain", "text/markdown": "*rich*"}, "*rich*", 0),
        (({"text/plain": "plain"}, {"meta": 1}), "plain", 0),
        ({"application/json": {"a": "ü"}}, '{"a": "ü"}', 0),
        ({"text/plain": "x", "image/png": PNG}, "x", 1),
        ({"image/png": base64.b64encode(PNG).decode()}, "", 1),
        ({"text/plain": "x", "application/pdf": pdf_bytes()}, "x", 1),
        ({"application/pdf": base64.b64encode(pdf_bytes()).decode()}, "", 1),
        ({"image/png": PNG, "application/pdf": pdf_bytes()}, "", 1),
    ]
    for bundle, text, images in rows:
        with subtests.test(bundle=bundle):
            found = jp.describe(ReturnsBundle(bundle))
            assert (found.text, len(found.images)) == (text, images)


def test_invalid_bundle_is_reported_and_skipped(subtests: pytest.Subtests) -> None:
    rows: list[tuple[object, str]] = [
        (4, "it returned int: expected a MIME bundle"),
        ({"text/x-own": "x"}, "its MIME bundle has no text, image, or PDF (kinds: text/x-own)"),
        ({"image/png": "…"}, "its image is not Base64"),
    ]
    for bundle, why in rows:
        with subtests.test(bundle=bundle):
            text = jp.describe(ReturnsBundle(bundle)).text
            assert "ReturnsBundle object, attributes: result" in text
            assert f"(Its _ai_repr_ failed: TypeError: {why}" in text


async def test_async_ai_repr_is_awaited_while_a_loop_runs() -> None:
    class Slow:
        async def _ai_repr_(self, **hints: object) -> dict[str, str]:
            await asyncio.sleep(0.01)
            return {"text/plain": "slow words"}

    assert jp.describe(Slow()).text == "slow words"


WHO: ContextVar[str] = ContextVar("WHO", default="unknown")


def test_async_ai_repr_has_the_context_of_the_caller() -> None:
    class Knows:
        async def _ai_repr_(self) -> str:
            return WHO.get()

    token = WHO.set("Ada")
    try:
        assert jp.describe(Knows()).text == "Ada"
    finally:
        WHO.reset(token)


def test_async_ai_repr_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    substitute(monkeypatch, "seconds for an async description", 0.05)

    class Endless:
        async def _ai_repr_(self) -> str:
            await asyncio.Event().wait()
            return ""

    assert "(Its _ai_repr_ failed: TimeoutError" in jp.describe(Endless()).text


def test_repr_of_a_description_has_no_terminal_escapes() -> None:
    said = jp.describe("red \x1b[31mtext")
    assert said.text == "red \x1b[31mtext"
    assert repr(said) == "red text"
