"""Which pages are there, and which of those that share a document puts in outputs."""

from __future__ import annotations

from tests.kit.deliveries import KnownPages


def three() -> KnownPages:
    """Return three pages that share a document. The first one writes it."""
    pages = KnownPages(collaborative=True)
    pages.follow("a")
    pages.join("b")
    pages.join("c")
    pages.take_lacking()
    return pages


def test_page_that_asked_adds_outputs_and_another_one_once_it_is_gone() -> None:
    pages = three()
    asked = "session of b"
    assert not any(pages.writes_outputs(page, asked) for page in "abc")
    assert pages.leave("b")
    assert pages.take_lacking() == []  # until a page answers: others may be gone, too
    pages.join("a")
    assert pages.take_lacking() == [("a", "")]
    assert [pages.writes_outputs(page, asked) for page in "ac"] == [True, False]
    pages.leave("a")
    assert [pages.writes_outputs("c", session) for session in (asked, "session of a")] == [True] * 2
    assert not pages.writes_outputs("c", "a session that no page has named")


def test_page_that_returns_after_its_goodbye_is_known_again() -> None:
    pages = three()
    pages.leave("b")
    pages.join("b")
    assert not pages.writes_outputs("a", "session of b")


def test_writer_that_leaves_or_is_silent_is_replaced_by_the_next_page() -> None:
    pages = three()
    assert pages.is_reader("b")
    pages.leave("a")
    assert not pages.is_reader("b")
    pages.follow("b")
    pages.silence()
    pages.follow("c")
    assert pages.writes_outputs("c", "session of b")


def test_page_that_is_gone_without_goodbye_is_replaced_once_its_outputs_are_missed() -> None:
    pages = three()
    assert pages.is_asked("session of b", now=10.0)
    assert not pages.is_asked("session of b", now=10.5)  # asked already
    assert pages.hear("b")
    assert pages.is_asked("session of b", now=12.0)
    assert not pages.writes_outputs("c", "session of b")

    assert not pages.is_asked("session of b", now=13.0)
    assert pages.writes_outputs("c", "session of b")
    assert pages.is_asked("session of b", now=14.0)  # its successor
    assert not pages.is_asked("a session that no page has named", now=14.0)


def test_successor_that_is_gone_too_is_replaced_once_its_outputs_are_missed() -> None:
    pages = three()
    pages.leave("b")
    assert pages.writes_outputs("a", "session of b")
    assert pages.is_asked("session of b", now=10.0)
    assert not pages.writes_outputs("c", "session of b")

    assert not pages.is_asked("session of b", now=11.0)
    assert pages.writes_outputs("c", "session of b")


def test_goodbye_of_an_unknown_or_the_last_page_asks_no_page() -> None:
    pages = three()
    assert not pages.leave("x")
    assert pages.leave("a")
    assert not pages.leave("a")
    assert pages.leave("b")
    assert not pages.leave("c")
