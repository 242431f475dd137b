"""Edits of cells in a page: who may answer about them, and what the kernel makes of the answers."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.pages import PagesInProcess
from tests.notebook.page.page_in_process import pages
from tests.support.scripted_page import View

__all__ = ["pages"]


@pytest.mark.req("CELL-21")
@pytest.mark.parametrize(
    ("tells", "client", "read_only", "reason"),
    [
        (["cells"], "s1", False, "older jp-nb extension. Ask the user to reload"),
        (["edits"], "s1", True, "this notebook is read-only"),
        (["edits"], "s2", False, "another window of the same notebook"),
        (["edits"], "s1", False, None),
    ],
)
def test_page_that_cannot_edit_is_refused_with_a_remedy(
    pages: PagesInProcess, tells: list[str], client: str, read_only: bool, reason: str | None
) -> None:
    pages.view.tells = tells
    pages.view.client = client
    pages.view.read_only = read_only
    pages.begin()
    refusal = pages.store.requests.check_edits("s1")
    assert (refusal is None) == (reason is None)
    assert reason is None or reason in refusal


def test_page_that_was_reloaded_in_the_review_may_edit(pages: PagesInProcess) -> None:
    pages.view.tells = ["edits"]
    pages.view.client = "s1"
    pages.begin()
    assert pages.store.requests.check_edits("s1") is None
    pages.view.client = "s2"
    pages.post(pages.view.hello() | {"page": pages.view.page})
    assert pages.store.requests.check_edits("s1") is None
    assert pages.store.requests.check_edits("s3") is not None


@pytest.mark.req("CELL-41", "CELL-19")
def test_only_the_answer_of_the_asked_page_about_the_operation_counts(
    pages: PagesInProcess,
) -> None:
    pages.begin()
    answer: Future[str] = pages.store.requests.ask_edit("o1", [], [])
    message = pages.view.of_type("edit")[-1]
    assert (message["to"], message["operation"]) == (pages.view.page, "o1")
    text = json.dumps({"operation": "o1", "outcome": "applied", "ids": {}})
    piece = {"type": "cells", "page": pages.view.page, "seq": message["seq"], "i": 0, "of": 1}
    second = View(page="page-2")
    pages.send(second, second.hello())
    for forged in (
        piece | {"page": "page-2"},
        piece | {"page": "unknown"},
        piece | {"seq": message["seq"] + 1},
        piece | {"seq": message["seq"] - 1},
    ):
        pages.post(forged | {"text": text})
        assert not answer.done(), forged
    pages.post(piece | {"text": text})
    assert json.loads(answer.result(0))["outcome"] == "applied"
    pages.post(piece | {"text": text})  # again: no request waits for it


@pytest.mark.req("CELL-20")
def test_page_of_the_click_edits_a_shared_document(pages: PagesInProcess) -> None:
    shared = {"tells": ["edits", "runs"], "collaborative": True}
    pages.begin()
    pages.post(pages.view.hello() | shared | {"page": pages.view.page, "session": "one"})
    second = View(page="page-2")
    pages.send(second, second.hello() | shared | {"session": "two"})
    older = View(page="page-3")
    pages.send(older, older.hello() | {"collaborative": True, "session": "three"})
    asked = []
    for session in ("one", "two", "three", "unknown"):
        pages.answer_form(session)
        pages.store.requests.ask_edit("o1", [], [])
        asked.append(pages.view.of_type("edit")[-1]["to"])
    assert asked == [pages.view.page, "page-2", pages.view.page, pages.view.page]


@pytest.mark.req("CELL-19")
@pytest.mark.parametrize(
    ("state", "outcome", "note"),
    [
        (None, "unknown", "The page did not answer within"),
        ({"operation": "o0", "ids": {}}, "unknown", "the page did not have this change"),
        ({"operation": "o1", "ids": {"new:1": "made"}}, "applied", ""),
    ],
    ids=["silent", "without-the-edits", "answer-lost"],
)
async def test_page_that_does_not_answer_is_asked_once_more(
    pages: PagesInProcess,
    monkeypatch: pytest.MonkeyPatch,
    state: dict[str, Any] | None,
    outcome: str,
    note: str,
) -> None:
    module = "jp_nb.notebook.page_document"
    monkeypatch.setattr(f"{module}.CHANGE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(f"{module}.READ_TIMEOUT_S", 0.1 if state is None else 10.0)
    pages.view.tells = ["edits"]
    pages.begin()

    def answer_document(message: dict[str, Any]) -> None:
        if message["type"] == "document" and state is not None:
            piece = {"type": "cells", "page": pages.view.page, "i": 0, "of": 1}
            text = json.dumps({"cells": [], **state})
            pages.post(piece | {"seq": message["seq"], "text": text})

    pages.listen(answer_document)
    result = await make("page_document", pages.store, "a").change(make("cell_change", (), (), "o1"))
    assert len(pages.view.of_type("edit")) == 1
    assert result.outcome == outcome
    assert note in result.note


@pytest.mark.req("CELL-41")
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"operation": "o2", "outcome": "applied", "ids": {}}, "unknown"),
        ({"outcome": "applied", "ids": {}}, "unknown"),
        ({"operation": "o1", "outcome": "Applied"}, "unknown"),
        ({"operation": "o1", "outcome": "different", "ids": {}}, "unknown"),
        (["applied"], "unknown"),
        ({"operation": "o1", "outcome": "applied", "ids": {}}, "applied"),
    ],
)
async def test_answer_about_another_operation_is_not_told_as_applied(
    pages: PagesInProcess, answer: Any, outcome: str
) -> None:
    pages.view.tells = ["edits"]
    pages.begin()

    def answer_edit(message: dict[str, Any]) -> None:
        if message["type"] == "edit":
            piece = {"type": "cells", "page": pages.view.page, "i": 0, "of": 1}
            pages.post(piece | {"seq": message["seq"], "text": json.dumps(answer)})

    pages.listen(answer_edit)
    result = await make("page_document", pages.store, "a").change(make("cell_change", (), (), "o1"))
    assert result.outcome == outcome


@pytest.mark.req("CELL-20")
async def test_page_that_is_silent_after_an_edit_is_named_as_the_reason(
    pages: PagesInProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "jp_nb.notebook.page_document"
    monkeypatch.setattr(f"{module}.MERGE_S", 0.0)
    monkeypatch.setattr(f"{module}.READ_TIMEOUT_S", 0.1)
    shared = {"tells": ["edits"], "collaborative": True, "session": "one"}
    pages.begin()
    pages.post(pages.view.hello() | shared | {"page": pages.view.page})

    def answer_edit(message: dict[str, Any]) -> None:
        if message["type"] == "edit":
            piece = {"type": "cells", "page": pages.view.page, "i": 0, "of": 1}
            text = json.dumps({"operation": "o1", "outcome": "applied", "ids": {}})
            pages.post(piece | {"seq": message["seq"], "text": text})

    pages.listen(answer_edit)
    result = await make("page_document", pages.store, "a").change(make("cell_change", (), (), "o1"))
    assert result.outcome == "applied"
    assert "meanwhile: the page did not answer within 0.1 s." in result.note


@pytest.mark.req("CELL-20")
async def test_page_that_is_silent_before_an_edit_is_named_as_the_reason(
    pages: PagesInProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jp_nb.notebook.page_document.READ_TIMEOUT_S", 0.1)
    pages.view.tells = ["edits"]
    pages.view.client = "s1"
    pages.begin()
    with pytest.raises(jp.ToolError) as caught:
        await make("page_document", pages.store, "a").read("s1")
    assert str(caught.value) == (
        "The cells of the notebook cannot be read: the page did not answer within 0.1 s. "
        "No edit was applied, and the user was not asked."
    )
    assert pages.view.of_type("edit") == []
