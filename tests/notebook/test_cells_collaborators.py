"""Names of collaborators: pages report them, and messages are attributed to them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jp_nb.agent.prompts import with_sender
from jp_nb.notebook.collaborators import Collaborators, read_user_name
from jp_nb.notebook.page.protocol import Hello
from tests.kit.questions import answered, form_end, not_answered, unavailable

MAX_SESSIONS = 64


def sent(session: Any) -> dict[str, Any]:
    return {"header": {"session": session}}


def test_message_has_the_last_name_of_its_page() -> None:
    people = Collaborators.of(SimpleNamespace())
    people.add_page("a", "Ada")
    people.add_page("b", "Bo")
    people.add_page("", "nobody's")
    people.add_page("a", "Ada L.")
    assert [people.sender_of(sent(x)) for x in ("a", "b", "", "c")] == ["Ada L.", "Bo", None, None]
    people.add_page("a", None)
    assert people.sender_of(sent("a")) is None
    assert people.sender_of(sent([])) is people.sender_of({}) is None


def test_number_of_known_pages_is_bounded() -> None:
    kernel = SimpleNamespace()
    for number in range(MAX_SESSIONS + 1):
        Collaborators.of(kernel).add_page(f"page {number}", "Ada")
    assert Collaborators.of(kernel).sender_of(sent("page 0")) is None
    assert Collaborators.of(kernel).sender_of(sent(f"page {MAX_SESSIONS}")) == "Ada"


def test_name_is_one_short_line_without_hidden_characters(subtests: pytest.Subtests) -> None:
    for said, name in [
        (" Ada Lovelace ", "Ada Lovelace"),
        ("بندر", "بندر"),
        ("a\nb\x1b[2J\u202ec\u200b", "a⟨U+000A⟩b⟨U+001B⟩[2J⟨U+202E⟩c⟨U+200B⟩"),
        ("x" * 10_000, "x" * 60),
        ("\u202e" * 10_000, ("⟨U+202E⟩" * 60)[:120]),
        ("", None),
        (" \n", None),
        (None, None),
        ({"name": "Ada"}, None),
    ]:
        with subtests.test(said=said):
            assert read_user_name(said) == name
            assert Hello.read({"user": said}).user == name


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
            form_end((answered("x", "form"), not_answered("declined", "form"), AUTO, OVER)),
            form_end((ADA, LEFT, AUTO, OVER)),
        ),
        (unavailable("headless"), unavailable("headless")),
    ],
)
def test_sender_of_a_form_is_named_for_chosen_answers(end: Any, named: Any) -> None:
    assert with_sender(end, "Ada") == named
    assert with_sender(end, None) == end
