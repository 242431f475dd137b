"""Describers that a user registers, and `_ai_repr_`."""

from __future__ import annotations

import asyncio
import base64
from contextvars import ContextVar
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.errors import UsageError
from jp_nb.values import own_words
from jp_nb.values.description import Description, ValueBudget

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


@pytest.fixture(autouse=True)
def no_describers_are_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_words, "_DESCRIBERS", {})


class Base:
    pass


class Derived(Base):
    def _ai_repr_(self) -> str:
        return "its own words"


def test_a_describer_counts_for_its_type_and_those_that_inherit_it_the_nearest_first() -> None:
    assert jp.describe(Derived()).text == "its own words"

    @jp.describer(Base)
    def base(value: Base, budget: ValueBudget) -> str:
        return f"base, {budget.chars}"

    assert jp.describe(Derived(), ValueBudget(chars=50)).text == "base, 50"

    @jp.describer(Derived)
    def derived(value: Derived, budget: ValueBudget) -> tuple[str, list[bytes]]:
        return "derived", [PNG]

    said = jp.describe(Derived())
    assert said.text == "derived"
    assert [image.media_type for image in said.images] == ["image/png"]
    assert "base" in jp.describe(Base()).text
    assert jp.describe([Derived(), 1]).text.startswith("list of 2 items:\n[0]: derived\n[1]: 1")


def test_registered_again_a_describer_takes_the_place_of_the_first() -> None:
    for text in ("first", "second"):
        jp.describer(Base)(lambda value, budget, text=text: text)
    assert jp.describe(Base()).text == "second"


def test_the_budget_is_kept_whatever_a_describer_returns() -> None:
    jp.describer(Base)(lambda value, budget: Description("x" * 10_000))
    assert len(jp.describe(Base(), ValueBudget(chars=300)).text) <= 300


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (3, "TypeError: it returned int: expected a text, a Description, or a text and a list"),
        (("text", [b"no image"]), "TypeError: the bytes are not those of a PNG, JPEG, GIF or WebP"),
        (("text", ["path.png"]), "TypeError: expected an Image or the bytes of one, found str"),
    ],
)
def test_what_goes_wrong_in_a_describer_is_said_and_the_next_way_is_taken(
    returned: Any, why: str
) -> None:
    jp.describer(Base)(lambda value, budget: returned)
    text = jp.describe(Derived()).text
    assert text.startswith(f"its own words\n(Its describer failed: {why}")


def test_a_wrong_registration_says_what_is_right() -> None:
    with pytest.raises(UsageError, match="takes a type, such as @jp"):
        jp.describer("Base")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"def short\(value, budget\)"):

        @jp.describer(Base)  # type: ignore[type-var]
        def short(value: Base) -> str:
            return ""


class Says:
    def __init__(self, said: object) -> None:
        self.said = said

    def _ai_repr_(self, **hints: object) -> object:
        return self.said


@pytest.mark.parametrize(
    ("said", "text", "images"),
    [
        ("words", "words", 0),
        ({"text/plain": "plain", "text/markdown": "*rich*"}, "*rich*", 0),
        (({"text/plain": "plain"}, {"meta": 1}), "plain", 0),
        ({"application/json": {"a": "ü"}}, '{"a": "ü"}', 0),
        ({"text/plain": "x", "image/png": PNG}, "x", 1),
        ({"image/png": base64.b64encode(PNG).decode()}, "", 1),
    ],
)
def test_a_mime_bundle_is_read(said: object, text: str, images: int) -> None:
    found = jp.describe(Says(said))
    assert (found.text, len(found.images)) == (text, images)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (4, "it returned int: expected a MIME bundle"),
        ({"text/x-own": "x"}, "its MIME bundle has no text and no image (kinds: text/x-own)"),
        ({"image/png": "…"}, "its image is not Base64"),
    ],
)
def test_a_bad_bundle_is_said_and_the_next_way_is_taken(said: object, why: str) -> None:
    text = jp.describe(Says(said)).text
    assert "Says object, attributes: said" in text
    assert f"(Its _ai_repr_ failed: TypeError: {why}" in text


async def test_an_async_one_is_awaited_also_where_a_loop_runs() -> None:
    class Slow:
        async def _ai_repr_(self, **hints: object) -> dict[str, str]:
            await asyncio.sleep(0.01)
            return {"text/plain": "slow words"}

    assert jp.describe(Slow()).text == "slow words"


WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def test_an_async_one_has_the_context_of_who_asks() -> None:
    class Knows:
        async def _ai_repr_(self) -> str:
            return WHO.get()

    token = WHO.set("Ada")
    try:
        assert jp.describe(Knows()).text == "Ada"
    finally:
        WHO.reset(token)


def test_one_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_words, "AI_REPR_SECONDS", 0.05)

    class Endless:
        async def _ai_repr_(self) -> str:
            await asyncio.Event().wait()
            return ""

    assert "(Its _ai_repr_ failed: TimeoutError" in jp.describe(Endless()).text


def test_what_a_person_sees_of_it_has_no_terminal_escapes() -> None:
    said = jp.describe("red \x1b[31mtext")
    assert said.text == "red \x1b[31mtext"
    assert repr(said) == "red text"
