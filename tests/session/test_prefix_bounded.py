"""Changes that a conversation appends take a bounded part of its requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import jp_nb as jp
from tests.kit.sessions import directive, find_request
from tests.support.loopback import Received, Reply, ToolCall
from tests.support.prefixes import keeps_all, list_parts, notices_in
from tests.support.sessions import Notebook
from tests.support.talks import Talk, open_talks
from tests.support.tiers import mostly_deep

CONTEXT_PARTS = 4
DEFAULT_CONTEXT_TOKENS = 32_768


PROMPT = "assistant.system_prompt"
NOTICE = "take more than a quarter of the model's context"
REPLACED = "These instructions replace all earlier ones"
SIZE = 2_000
TIMES = 60
APPENDS = mostly_deep(
    ("chat", "responses", "anthropic", "interactions", "generate"), quick=["anthropic"]
)


@pytest.fixture(autouse=True)
def tool() -> Iterator[None]:
    @jp.tool(access=[jp.ConfigRule(PROMPT, write=True, apply="unattended")])
    def adapt(number: int) -> jp.Success:
        """Replace the instructions."""
        return jp.Success("Done.", config={"assistant": {"system_prompt": instructions(number)}})

    yield
    jp.remove_tool("adapt")


@pytest.fixture
def begin(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Talk]]:
    """Return a function that starts a server with these replies."""
    monkeypatch.setenv("PREFIX_KEY", "k-0123456789abcdef0123")
    with open_talks(request.param, folder) as start:
        yield start


def instructions(number: int) -> str:
    return f"Rule {number}. ".ljust(SIZE, "x")


def appended_chars(request: Received) -> int:
    # Appended instructions, without those in front.
    return json.dumps(request.body).count(REPLACED) * SIZE


def calls(times: int) -> list[Reply | str]:
    made = [Reply(tool_calls=(ToolCall("adapt", {"number": n}),)) for n in range(times)]
    return [*made, "Done."]


def check(requests: list[Received], notices: str) -> int:
    """Check the sizes and beginnings of the requests; return the number of new heads."""
    limit = DEFAULT_CONTEXT_TOKENS // CONTEXT_PARTS * 4
    assert all(appended_chars(request) <= limit for request in requests)
    breaks = [not keeps_all(*pair) for pair in pairwise(requests)]
    assert notices.count(NOTICE) == sum(breaks)
    return sum(breaks)


@pytest.mark.parametrize("begin", APPENDS, indirect=True)
def test_instructions_of_a_tool_are_bounded_within_a_turn(
    begin: Callable[..., Talk],
) -> None:
    talk = begin(*calls(TIMES), "Later.", "Last.")
    notebook = talk.open()
    notebook.ask("Adapt.")
    assert len(talk.server.requests) == TIMES + 1
    heads = check(talk.server.requests, notices_in(notebook))
    assert 2 <= heads <= 6
    assert f"Rule {TIMES - 1}." in "".join(list_parts(talk.server.requests[-1]))

    notebook.ask("Next.")
    again = talk.reopen(notebook)  # another kernel sends the same bytes
    again.ask("Last.")
    assert all(keeps_all(*pair) for pair in pairwise(talk.server.requests[-3:]))
    assert NOTICE not in notices_in(again)


@pytest.mark.parametrize("begin", APPENDS, indirect=True)
def test_instructions_of_the_user_are_bounded(
    begin: Callable[..., Talk],
) -> None:
    talk = begin(*["Yes."] * 40)
    notebook = talk.open()
    for number in range(40):
        change = directive("cfg", f"{PROMPT}={instructions(number)}")
        notebook.ask(f"Request {number}.", change)
        if number == 20:
            notebook = talk.reopen(notebook)
    requests = talk.server.requests
    limit = DEFAULT_CONTEXT_TOKENS // CONTEXT_PARTS * 4
    assert all(appended_chars(request) <= limit for request in requests)
    assert 1 <= sum(not keeps_all(*pair) for pair in pairwise(requests)) <= 4
    assert "Rule 39." in "".join(list_parts(requests[-1]))


LIMIT = DEFAULT_CONTEXT_TOKENS // CONTEXT_PARTS * 4
"""Characters of the changes that a request appends."""


def sizes(requests: list[Received], word: str) -> list[int]:
    """Return the number of times that each request contains `word`."""
    return [json.dumps(request.body).count(word) for request in requests]


def check_growth(talk: Talk, notebook: Notebook, word: str, part: str) -> None:
    """Check that requests contain `word` a bounded number of times, and that a notice says why."""
    counts = sizes(talk.server.requests, word)
    assert max(counts) * SIZE <= LIMIT + 2 * SIZE, "outdated values, and the current ones"
    assert counts[-1] >= 1
    notices = notices_in(notebook)
    assert 2 <= notices.count(NOTICE) <= 6
    assert f"Changes of {part} take" in notices


@pytest.mark.parametrize("begin", APPENDS, indirect=True)
def test_changed_attachments_are_bounded(begin: Callable[..., Talk], folder: Path) -> None:
    talk = begin(*["Yes."] * TIMES)
    notebook = talk.open()
    for number in range(TIMES):
        content = f"Version {number}. ".ljust(SIZE, "y")
        (folder / "notes.md").write_text(content)
        notebook.ask("Look.", *[directive("attach", "notes.md")] * (number == 0))
    check_growth(talk, notebook, "Version ", "attachments")
    assert f"Version {TIMES - 1}." in json.dumps(talk.server.requests[-1].body)


@pytest.mark.parametrize("begin", APPENDS, indirect=True)
def test_changed_definitions_of_tools_are_bounded(begin: Callable[..., Talk]) -> None:
    talk = begin(*["Yes."] * TIMES)
    notebook = talk.open()
    for number in range(TIMES):

        def tool(word: str) -> str:
            return word

        tool.__doc__ = f"Definition {number}. ".ljust(SIZE, "z")
        jp.tool(name=f"made_{number}")(tool)
        notebook.ask("Look.")
        jp.remove_tool(f"made_{number}")
    counts = sizes(talk.server.requests, "Definition ")
    assert max(counts) * SIZE <= LIMIT + 2 * SIZE
    assert f"Definition {TIMES - 1}." in json.dumps(talk.server.requests[-1].body)


@pytest.mark.parametrize("begin", APPENDS, indirect=True)
def test_additional_attachments_that_still_apply_begin_no_head(
    begin: Callable[..., Talk], folder: Path
) -> None:
    talk = begin(*["Yes."] * 20)
    notebook = talk.open()
    for number in range(20):
        (folder / f"{number}.md").write_text(f"Page {number}. ".ljust(2 * SIZE, "y"))
        notebook.ask("Look.", directive("attach", f"{number}.md"))
    assert all(keeps_all(*pair) for pair in pairwise(talk.server.requests))
    assert NOTICE not in notices_in(notebook)


@pytest.mark.parametrize("begin", ["chat"], indirect=True)
def test_one_large_change_begins_one_head(begin: Callable[..., Talk]) -> None:
    talk = begin(*["Yes."] * 5)
    notebook = talk.open()
    notebook.ask("First.")
    notebook.ask("Second.", directive("cfg", f"{PROMPT}={'Be Bo. ' * 10_000}"))
    notebook.ask("Third.")
    notebook.ask("Fourth.")
    first, *later = talk.server.requests
    assert not keeps_all(first, later[0])
    assert all(keeps_all(*pair) for pair in pairwise(later))
    assert notices_in(notebook).count(NOTICE) == 1


@pytest.mark.parametrize("begin", ["chat"], indirect=True)
def test_preview_is_the_request_with_the_new_head(
    begin: Callable[..., Talk],
) -> None:
    talk = begin(*["Yes."] * 3)
    notebook = talk.open()
    notebook.ask("First.")
    notebook.jp(f"config {PROMPT}={'Bo.' * 20_000}")
    assert not find_request(notebook.session, "next")["changes"]
    notebook.ask("Second.")
    assert REPLACED not in json.dumps(talk.server.requests[-1].body)


@pytest.mark.parametrize("begin", ["chat"], indirect=True)
def test_known_context_of_the_model_decides(
    begin: Callable[..., Talk],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = begin(*calls(TIMES))
    notebook = talk.open()
    resolver = notebook.session.turns.resolver
    monkeypatch.setattr(resolver, "find_context_tokens", lambda model: 1_000_000)
    notebook.ask("Adapt.")
    assert all(keeps_all(*pair) for pair in pairwise(talk.server.requests))
    assert NOTICE not in notices_in(notebook)


@pytest.mark.parametrize("begin", ["generate"], indirect=True)
def test_instructions_that_are_not_appended_need_no_new_head(
    begin: Callable[..., Talk],
) -> None:
    talk = begin(*calls(TIMES))
    talk.settings = ("append_instructions = false",)
    notebook = talk.open()
    notebook.ask("Adapt.")
    assert NOTICE not in notices_in(notebook)
    events = notebook.session.document.to_json()["events"]
    assert json.dumps(events).count('"head":') == 1


@pytest.mark.parametrize("begin", ["anthropic"], indirect=True)
def test_change_that_is_too_long_for_the_record_begins_a_head(begin: Callable[..., Talk]) -> None:
    talk = begin(*["Yes."] * 5)
    notebook = talk.open()
    notebook.ask("First.")

    def tool(word: str) -> str:
        return word

    tool.__doc__ = "x" * 1_000_000
    jp.tool(name="made_0")(tool)
    try:
        notebook.ask("Second.")
        notebook.ask("Third.")
        again = talk.reopen(notebook)
        again.ask("Fourth.")
    finally:
        jp.remove_tool("made_0")

    first, second, third, fourth = talk.server.requests
    assert not keeps_all(first, second)
    assert keeps_all(second, third)
    assert keeps_all(third, fourth)
    assert "changed by more than 1,000,000 characters" in notices_in(notebook)
