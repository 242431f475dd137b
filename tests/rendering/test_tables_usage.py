"""`%jp usage`: the tokens of turns and models, also from hostile records."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.kit.notebook_record import open_document
from tests.kit.renderings import render
from tests.rendering.markdown_readers import dangers, without_pictures
from tests.support.entries import ASKED, SAID, START, raw

ALL_USED = "No provider reported reasoning that a model did not get in these turns."
COUNTED_ONCE = "turns that a branch shares with its parent are counted once"
MAX_TABLE_ROWS = 50
NO_TOKENS_REPORTED = "No provider has reported any tokens in this conversation yet."


def took(model: str = "p/m", **counts: Any) -> dict[str, Any]:
    return raw("chat_response", message="a", metadata={"usage": {"model": model, **counts}})


def document(*events: dict[str, Any], others: Any = (), **head: Any) -> Any:
    conversation = {"id": "jp-c2", "made": "live", **head}
    value: dict[str, Any] = {
        "conversation": conversation,
        "base_config": {},
        "events": list(events),
    }
    return open_document({"version": 1, **value, "others": list(others)})


def rows(text: str) -> list[list[str]]:
    return [[cell for cell in line.split("  ") if cell] for line in text.splitlines()]


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in row] for row in rows(text)]


def test_requests_and_models_are_listed_with_the_cache_share() -> None:
    first = took(input_tokens=400, cache_write_tokens=400, output_tokens=8)
    one = took(input_tokens=600, cache_read_tokens=350, cache_write_tokens=250, output_tokens=12)
    two = took("p/small", input_tokens=500, output_tokens=5)
    shown = render("usage", document(START, ASKED, first, one, START, ASKED, SAID, two), 10)
    assert [row for row in cells(shown.text) if row] == [
        ["turn", "request", "model", "in", "from cache", "into cache", "out", "reasoning"],
        ["1", "q", "p/m", "400", "-", "400", "8", "-"],
        ["p/m", "600", "350", "250", "12", "-"],
        ["2", "q", "p/small", "500", "-", "-", "5", "-"],
        ["model", "responses", "in", "from cache", "share", "into cache", "out", "reasoning"],
        ["p/m", "2", "1,000", "350", "35%", "650", "20", "-"],
        ["p/small", "1", "500", "-", "-", "-", "5", "-"],
        ["all", "3", "1,500", "350", "23%", "650", "25", "-"],
    ]


def test_only_the_last_turns_are_listed_but_all_are_counted() -> None:
    turn = (START, ASKED, took(input_tokens=10))
    shown = render("usage", document(*turn * 5), 2).text
    assert [row[0] for row in cells(shown)[1:3]] == ["4", "5"]
    assert ["p/m", "5", "50", "-", "-", "-", "-", "-"] in cells(shown)
    assert "Only the last 2 of 5 turns are listed; the totals include all turns." in shown


def test_conversation_without_usage_has_a_notice() -> None:
    assert render("usage", document(START, ASKED, SAID), 10).text == NO_TOKENS_REPORTED
    assert render("usage", document(), 10).text == NO_TOKENS_REPORTED


def test_turns_shared_by_branches_are_counted_once() -> None:
    common = [START, ASKED, {**took(input_tokens=100), "event_id": "aaaaaaa"}]
    own = [START, ASKED, {**took(input_tokens=7), "event_id": "bbbbbbb"}]
    left = [START, ASKED, {**took(input_tokens=30), "event_id": "ccccccc"}]
    parent = {"conversation": {"id": "jp-c1"}, "base_config": {}, "events": [*common, *left]}
    made = document(*common, *own, others=[parent], parent={"id": "jp-c1", "turn": 0})
    shown = render("usage", made, 10).text
    assert f"All conversations of this notebook: 137 tokens in; {COUNTED_ONCE}." in shown
    assert "Turn 1 was copied from jp-c1: used once, and listed in both conversations." in shown
    alone = render("usage", document(*common, others=[{**parent, "events": common}]), 10).text
    assert "All conversations" not in alone


STRANGE: tuple[Any, ...] = (
    7, "x", [], [7], {}, {"input_tokens": "9"}, {"input_tokens": -1}, {"input_tokens": True},
    {"input_tokens": 2**70}, {"input_tokens": 1.5}, {"model": 7}, {"model": "m" * 10_000},
    [{"input_tokens": 3}, None], {"model": None, "output_tokens": []},
)  # fmt: skip


def test_malformed_usage_is_ignored(subtests: pytest.Subtests) -> None:
    for usage in STRANGE:
        with subtests.test(usage=usage):
            entry = raw("chat_response", message="a", metadata={"usage": usage})
            other = {"conversation": 3, "events": [entry, 7, None]}
            shown = render("usage", document(START, ASKED, entry, others=[other, 5]), 10).text
            counted = re.findall(r"\d[\d,]*", shown)
            assert set(counted) <= {"1", "3"}, "turn 1, and the only count that is valid"
            assert ("3" in counted) is (usage == [{"input_tokens": 3}, None])


def test_hostile_name_of_a_model_is_shown_as_text() -> None:
    evil = took("<img src=x onerror=alert(1)>\u202e|`[a](javascript:x)\x1b[31m", input_tokens=1)
    shown = render("usage", document(START, ASKED, evil), 10)
    assert not dangers(without_pictures(shown.markdown))
    assert "\x1b" not in shown.text + shown.markdown
    assert "\u202e" not in shown.text + shown.markdown


def test_number_of_listed_models_is_limited() -> None:
    many = [took(f"p/{n}", input_tokens=n) for n in range(3000)]
    shown = render("usage", document(START, ASKED, *many), 10).text
    assert len(shown.splitlines()) < 2 * MAX_TABLE_ROWS + 10
    assert f"{3000 - MAX_TABLE_ROWS} more" in shown
    assert "4,498,500" in shown


def test_tokens_line_has_the_known_counts() -> None:
    assert render("token_counts", 12_300, 480) == "12,300 tokens in, 480 out"
    assert render("token_counts", 12_300, None) == "12,300 tokens in"
    assert render("token_counts", None, 480) == "480 tokens out"
    assert render("token_counts", None, None) == ""


def test_reasons_of_unused_reasoning_are_in_words_and_hostile_ones_are_ignored() -> None:
    stored = {
        "dropped": {"model": 2, "turn_boundary": 1, "<b>new</b>": 3, "x": True, "y": -1},
        "kept": {"prefix": 1},
        "more": {"prefix": 9},
    }
    entry = raw("chat_response", message="a", metadata={"input_changes": stored})
    hostile: list[Any] = [5, [], {"dropped": 1}, {"kept": {"x": "y"}}]
    strange = [
        raw("chat_response", message="a", metadata={"input_changes": each}) for each in hostile
    ]
    shown = render("input_changes", document(START, ASKED, entry, *strange, START, ASKED, SAID), 10)
    assert cells(shown.text)[1:5] == [
        ["1", "q", "3", "no", "<b>new</b>"],
        ["2", "no", "the model cannot read those of another model"],
        ["1", "no", "they belong to an earlier turn"],
        ["1", "yes", "something before them changed"],
    ]
    assert not dangers(without_pictures(shown.markdown))
    assert ALL_USED in render("input_changes", document(START, ASKED, SAID), 10).text
