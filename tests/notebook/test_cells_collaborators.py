"""Names of collaborators: pages report them, and messages are attributed to them."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.agent.prompting.prompt_ends import add_sender
from tests.kit.kinds import make
from tests.kit.pages import PagesInProcess
from tests.kit.questions import answered, not_answered

MAX_SESSIONS = 64


def sent(session: Any) -> dict[str, Any]:
    return {"header": {"session": session}}


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> PagesInProcess:
    return PagesInProcess(monkeypatch)


def test_message_has_the_last_name_of_its_page(pages: PagesInProcess) -> None:
    for session, user in (("a", "Ada"), ("b", "Bo"), ("", "nobody's"), ("a", "Ada L.")):
        pages.add_user(session, user)
    names = [pages.sender_of(sent(session)) for session in ("a", "b", "", "c")]
    assert names == ["Ada L.", "Bo", None, None]

    pages.add_user("a", None)
    assert pages.sender_of(sent("a")) is None
    assert pages.sender_of(sent([])) is pages.sender_of({}) is None


def test_number_of_known_pages_is_bounded(pages: PagesInProcess) -> None:
    for number in range(MAX_SESSIONS + 1):
        pages.add_user(f"page {number}", "Ada")
    assert pages.sender_of(sent("page 0")) is None
    assert pages.sender_of(sent(f"page {MAX_SESSIONS}")) == "Ada"


def test_name_is_one_short_line_without_hidden_characters(
    pages: PagesInProcess, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[Any, str | None]] = [
        (" Ada Lovelace ", "Ada Lovelace"),
        ("بندر", "بندر"),
        ("a\nb\x1b[2J\u202ec\u200b", "a⟨U+000A⟩b⟨U+001B⟩[2J⟨U+202E⟩c⟨U+200B⟩"),
        ("x" * 10_000, "x" * 60),
        ("\u202e" * 10_000, ("⟨U+202E⟩" * 60)[:120]),
        ("", None),
        (" \n", None),
        (None, None),
        ({"name": "Ada"}, None),
    ]
    for said, name in rows:
        with subtests.test(said=said):
            pages.add_user("a", said)
            assert pages.sender_of(sent("a")) == name


ADA = answered("x", "form", by="Ada")
LATE = answered("x", "form", marks=frozenset({"timed_out"}))
AUTO = answered("x", "form", marks=frozenset({"auto"}))
LEFT = not_answered("declined", "form", "Ada")
OVER = not_answered("timed_out", "form")


@pytest.mark.parametrize(
    ("end", "named"),
    [
        (answered("x", "form"), ADA),
        (LATE, LATE),
        (not_answered("cancelled", "form"), not_answered("cancelled", "form", "Ada")),
        (not_answered("interrupted"), not_answered("interrupted")),
        (OVER, OVER),
        (
            make("form_end", (answered("x", "form"), not_answered("declined", "form"), AUTO, OVER)),
            make("form_end", (ADA, LEFT, AUTO, OVER)),
        ),
        (make("unavailable", "headless"), make("unavailable", "headless")),
    ],
)
def test_sender_of_a_form_is_named_for_chosen_answers(end: Any, named: Any) -> None:
    assert add_sender(end, "Ada") == named
    assert add_sender(end, None) == end
