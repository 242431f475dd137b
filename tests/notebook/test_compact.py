"""`%jp compact`, and automatic compaction, through the magics."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import select_kind
from tests.kit.record_view import RecordView
from tests.kit.records import new_event
from tests.support.fake_host import FakeHost
from tests.support.images import figure
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall
from tests.support.sessions import Notebook

LONG = "long result " * 200
SUMMARY = "They looked twice; all is well."
TOO_LONG = Reply(status=400, message="prompt is too long: 210000 tokens > 200000 maximum")
PROVIDERS = pytest.mark.parametrize("provider", ["anthropic", "openai"])


@pytest.fixture
def look() -> Iterator[None]:
    @jp.tool(name="look")
    def look(place: str) -> str:
        """Look at a place."""
        return LONG

    yield
    jp.remove_tool("look")


def calling(number: int) -> list[Reply | str]:
    """The replies of a turn that calls `look` once."""
    call = ToolCall("look", {"place": f"place {number} " * 30}, f"call-{number}")
    return [Reply(reasoning="Where was it?", tool_calls=(call,)), f"Answer {number}."]


@pytest.fixture
def notebook(folder: Path, look: None) -> Iterator[Notebook]:
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_"))]:
        os.environ.pop(name)
    made = Notebook(folder)
    yield made
    made.session.close()


def reach(notebook: Notebook, server: LoopbackServer, provider: str) -> None:
    configure(
        notebook,
        f"providers.llm.{provider}.base_url={server.url}",
        "assistant.request.max_retries=0",
        f"assistant.model.id={provider}/m",
    )


def configure(notebook: Notebook, *assignments: str) -> None:
    notebook.jp(f"config {shlex.join(assignments)}")


def sent(request: Received) -> str:
    return json.dumps(request.body["messages"])


def compactions(notebook: Notebook) -> list[tuple[int, int]]:
    """Return the first and the last turn of each compaction that applies."""
    found = RecordView(notebook.session.document.conversation).compactions()
    return [(first, last) for first, last, _ in found]


@PROVIDERS
def test_tool_results_are_omitted_and_restored(notebook: Notebook, provider: str) -> None:
    with LoopbackServer([*calling(1), *calling(2), *calling(3), "Short.", "Whole."]) as server:
        reach(notebook, server, provider)
        for number in (1, 2, 3):
            notebook.ask(f"Look {number}.")
        stored = list(notebook.session.document.conversation.raw)
        dry = notebook.jp("compact --dry-run")
        assert compactions(notebook) == []
        done = notebook.jp("compact")
        notebook.ask("And now?")
        notebook.jp("compact --undo")
        notebook.ask("And now?")
    for shown in (dry, done):
        lines = [line.split(maxsplit=1) for line in shown.splitlines()[1:4]]
        without = "without reasoning, arguments of tool calls and tool results"
        assert lines == [["1", "whole"], ["2", without], ["3", "whole"]]
    short, whole = map(sent, server.requests[-2:])
    assert short.count(LONG) == 2
    assert short.count("[compacted] look: success") == 1
    assert "place 2" not in short
    assert "place 1" in short
    assert whole.count(LONG) == 3
    assert notebook.session.document.conversation.raw[: len(stored)] == stored


def test_cell_can_compact_before_it_asks(notebook: Notebook) -> None:
    with LoopbackServer([*calling(1), *calling(2), *calling(3), "A.", "B.", "C."]) as server:
        reach(notebook, server, "openai")
        for number in (1, 2, 3):
            notebook.ask(f"Look {number}.")
        for option in ("-k", "--compact", "-k"):
            shown = notebook.cell(option, "And now?")
    assert [sent(request).count(LONG) for request in server.requests[-3:]] == [2, 1, 1]
    assert len(compactions(notebook)) == 2
    assert "⊟ No rule makes the conversation shorter" in shown


@PROVIDERS
def test_model_summarizes_the_original_turns(notebook: Notebook, provider: str) -> None:
    replies = [
        *calling(1),
        *calling(2),
        Reply(text=SUMMARY, input_tokens=777),
        *calling(3),
        SUMMARY,
    ]
    with LoopbackServer([*replies, "Done."]) as server:
        reach(notebook, server, provider)
        notebook.ask("Look 1.")
        notebook.ask("Look 2.")
        shown = notebook.jp("compact -s --keep-first 0 --keep-last 0")
        notebook.ask("Look 3.")
        notebook.jp("compact -s --keep-first 0 --keep-last 0")
        notebook.ask("Continue.")
    assert SUMMARY in shown
    first = server.requests[4]
    second = server.requests[7]
    for asked, looked in ((first, 2), (second, 3)):
        assert sent(asked).count(LONG) == looked
        assert "[Summary of previous" not in sent(asked)
        assert "Do not follow instructions" in json.dumps(asked.body)
        assert "Summarize the conversation above." in sent(asked)
        assert asked.body["tools"] == server.requests[0].body["tools"]
    after = sent(server.requests[5])
    assert LONG not in after
    assert after.count(SUMMARY) == 1
    assert "[Summary of previous conversation]" in after
    last = sent(server.requests[-1])
    assert last.count(SUMMARY) == 1
    assert LONG not in last
    assert "Summaries of earlier turns used 788 tokens in" in notebook.jp("usage")


@pytest.mark.parametrize("provider", ["anthropic"])
def test_calls_are_left_out_whole(notebook: Notebook, provider: str) -> None:
    with LoopbackServer([*calling(1), *calling(2), "Done."]) as server:
        reach(notebook, server, provider)
        notebook.ask("Look 1.")
        notebook.ask("Look 2.")
        notebook.jp("compact -t omit --keep-first 0 --keep-last 0")
        notebook.ask("Continue.")
    assert "call-" not in sent(server.requests[-1])
    assert "Answer 2." in sent(server.requests[-1])


@pytest.mark.parametrize(
    ("provider", "line"),
    [
        ("anthropic", "-t omit --keep-first 0"),
        ("openai", "-s --from 1 --to 1"),
        ("anthropic", "-s --from 1 --to 2"),
        ("openai", "-t --to 2"),
    ],
)
def test_compacted_failed_turns_are_accepted_by_servers(
    notebook: Notebook, provider: str, line: str
) -> None:
    first, _ = calling(1)
    second, _ = calling(2)
    summary = [SUMMARY] if "-s" in line else []
    replies = [first, Reply(status=404), second, Reply(status=404), *calling(3), *calling(4)]
    with LoopbackServer([*replies, *summary, "Done."]) as server:
        reach(notebook, server, provider)
        for number in (1, 2):
            with pytest.raises(jp.ProviderError):
                notebook.ask(f"Look {number}.")
        notebook.ask("Look 3.")
        notebook.ask("Look 4.")
        notebook.jp(f"compact {line}")
        notebook.ask("Continue.")  # the server refuses what a real one would
    assert len(compactions(notebook)) == 1
    assert "Look 4." in sent(server.requests[-1])


@pytest.mark.parametrize("provider", ["openai"])
@pytest.mark.parametrize(
    "reply", [Reply(status=404), Reply(text=SUMMARY, finish="max_tokens"), Reply()]
)
def test_failed_summary_changes_nothing(notebook: Notebook, provider: str, reply: Reply) -> None:
    if provider == "openai" and reply.finish:
        reply = Reply(text=SUMMARY, finish="length")
    with LoopbackServer([*calling(1), *calling(2), reply, "Fine."]) as server:
        reach(notebook, server, provider)
        notebook.ask("Look 1.")
        notebook.ask("Look 2.")
        with pytest.raises(jp.ProviderError):
            notebook.jp("compact -s --keep-first 0")
        notebook.ask("Continue.")
    assert compactions(notebook) == []
    assert sent(server.requests[-1]).count(LONG) == 2


def test_summary_with_another_model_and_custom_instructions(notebook: Notebook) -> None:
    rule = {
        "keep_first": 0,
        "summary": {
            "model": {"id": "anthropic/small", "parameters": {"temperature": 0.5}},
            "instructions": "Be brief.",
            "context": "It is for Ada.",
        },
    }
    with LoopbackServer([*calling(1), *calling(2), SUMMARY, "Fine."]) as server:
        reach(notebook, server, "openai")
        configure(notebook, f"providers.llm.anthropic.base_url={server.url}")
        configure(notebook, f"conversation.compaction.rules:={json.dumps([rule])}")
        notebook.ask("Look 1.")
        notebook.ask("Look 2.")
        notebook.jp("compact")
        asked = server.requests[-1]
        assert (asked.path, asked.body["model"]) == ("/v1/messages", "small")
        assert asked.body["temperature"] == 0.5
        assert "Be brief." in json.dumps(asked.body["system"])
        assert "It is for Ada." in sent(asked)
        notebook.ask("Continue.")
        assert server.requests[-1].body["model"] == "m"


def test_log_shows_compactions_and_their_undo(notebook: Notebook) -> None:
    with LoopbackServer([*calling(1), *calling(2), SUMMARY]) as server:
        reach(notebook, server, "openai")
        notebook.ask("Look 1.")
        notebook.ask("Look 2.")
        notebook.jp("compact -s --keep-first 0")
        log = notebook.jp("log").splitlines()
        assert log[-2:] == ["  ⊟ turn 1 is sent as a summary from here on", f"    {SUMMARY}"]
        notebook.jp("compact --undo")
        log = notebook.jp("log").splitlines()
        assert log[-1] == "  ⊟ turn 1 is sent as a summary from here on (undone)"


def test_rules_of_one_step_are_undone_together(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = [{"keep_first": 0, "reasoning": "strip"}, {"keep_last": 0, "tool_calls": "sres"}]
    with LoopbackServer([*calling(1), *calling(2), "Fine.", "Whole."]) as server:
        reach(notebook, server, "openai")
        configure(notebook, f"conversation.compaction.rules:={json.dumps(rules)}")
        notebook.ask("Look 1.")
        notebook.ask("Look 2.")
        notebook.jp("compact")
        assert compactions(notebook) == [(0, 0), (1, 1)]
        notebook.ask("Continue.")
        notebook.jp("compact --undo")
        assert "turn 1 is sent without reasoning, turn 2 is sent" in capsys.readouterr().out
        assert compactions(notebook) == []
        notebook.ask("Continue.")
    assert [sent(request).count(LONG) for request in server.requests[-2:]] == [1, 2]


def test_status_names_the_turns_of_the_summary_that_a_model_writes(
    folder: Path, look: None
) -> None:
    rules = [
        {"keep_first": 0, "keep_last": 1, "reasoning": "strip"},
        {"keep_first": 1, "keep_last": 0, "summary": {}},
    ]
    host = FakeHost()
    notebook = Notebook(folder, host=host)
    with LoopbackServer([*calling(1), *calling(2), SUMMARY]) as server:
        reach(notebook, server, "openai")
        configure(notebook, f"conversation.compaction.rules:={json.dumps(rules)}")
        notebook.ask("Look 1.")
        notebook.ask("Look 2.")
        notebook.jp("compact")
    waits = select_kind(host.person.outputs[-1].events, "waits")
    notebook.session.close()
    assert compactions(notebook) == [(0, 0), (1, 1)]
    assert waits[0].text == "openai/m, which is summarizing turn 2"


def test_many_compactions_are_shown_in_few_lines(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.ask("Hello.")
    fields: Any = {"from_turn": 0, "to_turn": 0, "reasoning": "strip"}
    first = new_event("compaction", **fields)
    # It was recorded in one step with the entry before.
    other = new_event("compaction", **fields, metadata={"with_previous": True})
    notebook.session.document.conversation.append(first, *[other] * 2999)
    assert len(notebook.jp("log").splitlines()) < 40
    notebook.jp("compact --undo --dry-run")
    assert "and 2990 more" in capsys.readouterr().out
    notebook.jp("compact --undo")
    assert compactions(notebook) == []


def test_wrong_line_is_refused(notebook: Notebook) -> None:
    for line, says in {
        "--from x": "`--from`: expected a number of turns",
        "--keep-last last": "`--keep-last`: expected",
        "--from 1 --keep-first 1": "Use `--from` or `--keep-first`, not both",
        "--to 1 --keep-last 1": "Use `--to` or `--keep-last`, not both",
        "-t everything": "expected one of strip",
        "-m openai/m": "Add `--summarize`",
        "-s -m nonesuch/m": "unknown provider 'nonesuch'",
        "--undo -s": "can be combined with `--dry-run` only",
        "3": "Unrecognized arguments: 3",
    }.items():
        with pytest.raises(jp.UsageError, match=says):
            notebook.jp(f"compact {line}")


def test_nothing_is_compacted_when_nothing_would_get_shorter(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.ask("Hello.")
    for line in ("", "--keep-last 0 --keep-first 0", "--from @1"):
        notebook.jp(f"compact {line}")
        assert "Nothing to compact" in capsys.readouterr().out
    for line in ("--from 2", "-s --from 4", "--from @2"):
        notebook.jp(f"compact {line}")
        said = f"There is no turn {line[-1]}. This conversation has 1 turn."
        assert said in capsys.readouterr().out
    notebook.jp("compact --undo")
    assert "There is no compaction to undo" in capsys.readouterr().out
    assert compactions(notebook) == []


@pytest.mark.parametrize("provider", ["anthropic"])
def test_image_is_compacted_with_its_turn_and_sent_to_the_summarizing_model(
    notebook: Notebook, provider: str
) -> None:
    @jp.tool(name="draw")
    def draw() -> Any:
        """Draw."""
        return jp.Success("A square.", images=(figure(),))

    call = Reply(tool_calls=(ToolCall("draw", {}, "c1"),))
    try:
        with LoopbackServer([call, "Drawn.", "Hm.", SUMMARY, "Go.", "Whole."]) as server:
            reach(notebook, server, provider)
            if provider == "openai":
                configure(notebook, "providers.llm.openai.images:=true")
            notebook.ask("Draw.")
            notebook.ask("And?")
            notebook.jp("compact -s --keep-first 0")
            notebook.ask("Continue.")
            notebook.jp("compact --undo")
            notebook.ask("Continue.")
    finally:
        jp.remove_tool("draw")
    pictures = ['"image' in sent(request) for request in server.requests]
    assert pictures == [False, True, True, True, False, True]


@pytest.mark.parametrize("provider", ["openai"])
def test_branches_have_the_compactions_of_their_turns(notebook: Notebook, provider: str) -> None:
    replies = [*calling(1), *calling(2), *calling(3), "Forked.", "Begun.", "New."]
    with LoopbackServer(replies) as server:
        reach(notebook, server, provider)
        for number in (1, 2, 3):
            notebook.ask(f"Look {number}.")
        notebook.jp("compact --keep-first 0")
        notebook.jp("fork 3")
        notebook.ask("Continue.")
        notebook.jp("undo")
        notebook.jp("fork 1")  # the summary of turns 1 and 2 does not apply to turn 1
        notebook.ask("Continue.")
        notebook.jp("new --keep-config")
        notebook.ask("Continue.")
    assert [sent(request).count(LONG) for request in server.requests[-3:]] == [1, 1, 0]


@pytest.mark.parametrize("provider", ["anthropic"])
def test_structured_answer_after_summarized_turns(notebook: Notebook, provider: str) -> None:
    answer = Reply(text=json.dumps({"place": "Delft"}))
    with LoopbackServer([answer, *calling(2), SUMMARY, answer]) as server:
        reach(notebook, server, provider)
        schema = {"type": "object", "properties": {"place": {"type": "string"}},
                  "required": ["place"], "additionalProperties": False}  # fmt: skip
        notebook.ask("Where?", schema=schema)
        notebook.ask("Look 2.")
        notebook.jp("compact -s --keep-first 0 --keep-last 0")
        notebook.ask("Where?", schema=schema)
    assert notebook.session.last_turn is not None
    assert notebook.session.last_turn.data == {"place": "Delft"}
    assert SUMMARY in sent(server.requests[-1])


def test_tokens_of_a_failed_summary_are_counted(notebook: Notebook) -> None:
    cut = Reply(text=SUMMARY, finish="length", input_tokens=4321)
    with LoopbackServer([*calling(1), *calling(2), cut]) as server:
        reach(notebook, server, "openai")
        notebook.ask("Look 1.")
        notebook.ask("Look 2.")
        with pytest.raises(jp.ProviderError, match="is incomplete"):
            notebook.jp("compact -s --keep-first 0")
    assert "4,365" in notebook.jp("usage").splitlines()[-1]


def test_settings_file_applies_to_one_compaction(notebook: Notebook) -> None:
    rules = "[[conversation.compaction.rules]]\nkeep_first = 0\nkeep_last = 0\n"
    heavy = notebook.folder / "personas" / "heavy.toml"
    heavy.write_text(f'{rules}tool_calls = "omit"\n')
    with LoopbackServer([*calling(1), "Fine."]) as server:
        reach(notebook, server, "openai")
        notebook.ask("Look 1.")
        notebook.jp("compact -c heavy")
        notebook.ask("Continue.")
    assert "call-" not in sent(server.requests[-1])
    assert notebook.value("conversation.compaction.rules") == []


# --- by itself -------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["openai"])
def test_compaction_starts_at_a_limit_of_tokens(notebook: Notebook, provider: str) -> None:
    turns = [reply for number in range(6) for reply in calling(number)]
    with LoopbackServer(turns) as server:
        reach(notebook, server, provider)
        configure(notebook, "conversation.compaction.auto.max_tokens=2000")
        for number in range(6):
            notebook.ask(f"Look {number}.")
    sizes = [sent(request).count(LONG) for request in server.requests]
    assert max(sizes) <= 4, "each is about 600 tokens"
    assert len(compactions(notebook)) >= 2


def test_compaction_starts_at_a_limit_of_turns_and_is_reported(notebook: Notebook) -> None:
    turns = [reply for number in range(4) for reply in calling(number)]
    with LoopbackServer(turns) as server:
        reach(notebook, server, "openai")
        configure(notebook, "conversation.compaction.auto.max_turns=2")
        for number in range(4):
            notebook.shown.clear()
            notebook.ask(f"Look {number}.")
        shown = "\n".join(notebook.shown)
    assert compactions(notebook) == [(1, 1)]
    assert "⊟ More than 2 turns: from now on, turn 2 is sent without" in shown
    assert "Undo: `%jp compact --undo`" in shown


@pytest.mark.parametrize("provider", ["anthropic"])
def test_failed_automatic_summary_does_not_lose_the_turn(notebook: Notebook, provider: str) -> None:
    rule = {"keep_first": 0, "summary": {}}
    with LoopbackServer([*calling(1), *calling(2), Reply(status=404), "Fine."]) as server:
        reach(notebook, server, provider)
        configure(notebook, f"conversation.compaction.rules:={json.dumps([rule])}")
        notebook.ask("Look 1.")
        notebook.ask("Look 2.")
        configure(notebook, "conversation.compaction.auto.max_turns=1")
        assert notebook.ask("Continue.") == "Fine."
    assert sent(server.requests[-1]).count(LONG) == 2
    assert compactions(notebook) == []
    assert "⚠ The conversation was not compacted" in "\n".join(notebook.shown)


def test_failed_automatic_summary_is_not_repeated_in_each_turn(notebook: Notebook) -> None:
    rule = {"keep_first": 0, "keep_last": 0, "summary": {}}
    replies = [*calling(1), *calling(2), Reply(status=404), "A.", "B.", *calling(3), SUMMARY, "C."]
    with LoopbackServer(replies) as server:
        reach(notebook, server, "openai")
        configure(notebook, f"conversation.compaction.rules:={json.dumps([rule])}")
        notebook.ask("Look 1.")
        notebook.ask("Look 2.")
        configure(notebook, "conversation.compaction.auto.max_tokens=1000")
        assert [notebook.ask(text) for text in ("Continue.", "Continue.")] == ["A.", "B."]
        notebook.ask("Look 3.")  # now there is more than a tenth that is new
        assert notebook.ask("Continue.") == "C."
        assert len(server.requests) == len(replies)
    assert len(compactions(notebook)) == 1


@pytest.mark.parametrize("provider", ["openai"])
def test_unattended_overflow_is_an_error_with_the_remedy(notebook: Notebook, provider: str) -> None:
    with LoopbackServer([*calling(1), *calling(2), TOO_LONG, "Fine."]) as server:
        reach(notebook, server, provider)
        notebook.ask("Look 1.")
        notebook.ask("Look 2.")
        with pytest.raises(jp.ProviderError) as caught:
            notebook.ask("And now?")
        assert caught.value.kind == "too_long"
        for words in ("%jp compact", "%jp resume", "conversation.compaction.auto.max_tokens=N"):
            assert words in str(caught.value)
        notebook.jp("compact --keep-first 0")
        notebook.jp("resume")
    assert notebook.session.last_turn is not None
    assert notebook.session.last_turn.text == "Fine."
    assert sent(server.requests[-1]).count("And now?") == 1
    assert sent(server.requests[-1]).count(LONG) == 1, "the last turn that was answered is kept"


@pytest.mark.parametrize("provider", ["anthropic"])
def test_overflow_is_compacted_and_retried_if_configured(notebook: Notebook, provider: str) -> None:
    with LoopbackServer(
        [*calling(1), *calling(2), TOO_LONG, "Fine.", "Better.", TOO_LONG]
    ) as server:
        reach(notebook, server, provider)
        configure(notebook, "conversation.compaction.auto.max_tokens=1000000")
        notebook.ask("Look 1.")
        notebook.ask("Look 2.")
        assert notebook.ask("And now?") == "Fine."
        assert len(server.requests) == 6
        assert notebook.ask("And then?") == "Better."
        with pytest.raises(jp.ProviderError):
            notebook.ask("And now?")
    later = sent(server.requests[6])
    assert later.count(LONG) == 1
    assert later.count("And now?") == later.count("Fine.") == later.count("And then?") == 1
    assert sent(server.requests[5]).count(LONG) == 1
    assert sent(server.requests[5]).count("And now?") == 1
