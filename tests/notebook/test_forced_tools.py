"""`%%jp -u` and `-U`, and `assistant.tool_choice`: the tool choice of a turn's first request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb
from tests.kit.ipython_shell import IPythonShell
from tests.kit.kinds import select_kind
from tests.support.ipython import ipython
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall
from tests.support.sessions import Notebook, bare_folder, folder

__all__ = ["bare_folder", "folder", "ipython"]

LOOK = Reply(tool_calls=(ToolCall("look", {"place": "Delft"}),))


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)

    @jp_nb.tool
    def look(place: str) -> str:
        return f"{place} is fine"

    @jp_nb.tool
    def listen() -> str:
        return "quiet"

    yield
    for name in ("look", "listen"):
        jp_nb.remove_tool(name)


@pytest.fixture
def notebook(bare_folder: Path) -> Iterator[Notebook]:
    made = Notebook(bare_folder)
    yield made
    made.session.close()


def ask(notebook: Notebook, server: LoopbackServer, line: str, provider: str = "openai") -> None:
    """Run `%%jp LINE` with a model on the server."""
    url = f"-c providers.llm.{provider}.base_url={server.url}"
    notebook.cell(f"-m {provider}/m {url} {line}", "Go.")


def choices(server: LoopbackServer) -> list[Any]:
    return [request.body.get("tool_choice") for request in server.requests]


def offered(request: Received) -> set[str]:
    tools = request.body.get("tools", [])
    return {tool["name"] if "name" in tool else tool["function"]["name"] for tool in tools}


OPENAI_LOOK = {"type": "function", "function": {"name": "look"}}


@pytest.mark.parametrize(
    ("provider", "line", "first"),
    [
        ("openai", "-u look", OPENAI_LOOK),
        ("openai", "-u", "required"),
        ("openai", "-U", "none"),
        ("openai", "", "auto"),
        ("openai", "-n", "auto"),
        ("openai", "-T -t look -u look", OPENAI_LOOK),
        ("anthropic", "-u look", {"type": "tool", "name": "look"}),
        ("anthropic", "-U", {"type": "none"}),
    ],
)
def test_demanded_tool_applies_to_the_first_request_of_the_turn(
    notebook: Notebook, provider: str, line: str, first: object
) -> None:
    with LoopbackServer([LOOK, "Fine.", "Still."]) as server:
        ask(notebook, server, line, provider)
        entries = notebook.session.document.conversation.entries
        deltas = [entry.delta for entry in select_kind(entries, "config_delta")]
        ask(notebook, server, "", provider)
    auto = "auto" if provider == "openai" else {"type": "auto"}
    assert choices(server) == [first, auto, auto]
    assert not any("tool_choice" in str(delta) for delta in deltas)
    assert notebook.session.config.assistant.tool_choice == "auto"


def test_demanded_tool_overrides_the_configured_choice_for_one_turn(notebook: Notebook) -> None:
    with LoopbackServer([LOOK, "Fine.", "No.", "Well."]) as server:
        ask(notebook, server, "-c assistant.tool_choice=none -u look")
        ask(notebook, server, "")
        ask(notebook, server, "-c assistant.tool_choice=auto")
    assert choices(server) == [OPENAI_LOOK, "auto", "none", "auto"]


IMPOSSIBLE: list[tuple[str, str]] = [
    ("-u lok", "Tool not found: lok; did you mean 'look'?"),
    ("-u zzz", "Tool not found: zzz"),
    ("-u '*'", "Tool not found: [*]"),
    ("-u look -T look", "tool choice 'look' does not match any enabled tools: it is off; turn "
     "it on with `-t look`"),
    ("-T -u look", "tool choice 'look' does not match any enabled tools"),
    ("-c conversation.tools.look.enable=off -u look", "does not match any enabled tools"),
    ("-c conversation.tools.gone.source=python -u gone",
     "tool choice 'gone' does not match any enabled tools: the source 'python' has no tool"),
    ("-u look -U", "-u, -u NAME, and -U exclude each other"),
    ("-U -u", "-u, -u NAME, and -U exclude each other"),
    ("-u look -u listen", "-u, -u NAME, and -U exclude each other"),
    ("-u ''", "-u takes the name of a tool"),
    ("--tool-use=", "-u takes the name of a tool"),
]  # fmt: skip


def test_impossible_demand_is_an_error_before_anything_is_recorded_or_sent(
    notebook: Notebook, subtests: pytest.Subtests
) -> None:
    for line, message in IMPOSSIBLE:
        with subtests.test(line=line):
            with LoopbackServer([]) as server, pytest.raises(jp_nb.UsageError, match=message):
                ask(notebook, server, line)
            assert not server.requests
            assert len(notebook.session.document.conversation) == 0


def test_demanding_any_tool_needs_an_enabled_one(notebook: Notebook) -> None:
    off = "-c conversation.tools.describe_tools.enable=off -T -T ask_user"
    with LoopbackServer(["Fine."]) as server:
        with pytest.raises(
            jp_nb.UsageError, match=r"no tool is enabled\. Enable one with `-t NAME`"
        ):
            ask(notebook, server, f"{off} -u")
        assert not server.requests
        ask(notebook, server, f"{off} -U")  # none of none is in order
    assert "tools" not in server.requests[0].body


def test_text_from_python_is_not_interpolated_by_default(ipython: IPythonShell) -> None:
    """It may hold data, and data could name what it should not see."""
    ipython.shell.user_ns["name"] = "Delft"
    with LoopbackServer(["Fine.", "Fine.", "Fine."]) as server:
        cfg = f"providers.llm.openai.base_url={server.url}"
        jp_nb.query("{{os.environ}} {{name}} \\{{", model="openai/m", cfg=cfg)
        jp_nb.query("{{name}}", interpolate=True)
        ipython.run("%%jp\n{{name}}")
    said = [request.body["messages"][-1]["content"] for request in server.requests]
    assert said == ["{{os.environ}} {{name}} \\{{", "Delft", "Delft"]


def test_query_takes_a_demanded_tool(ipython: IPythonShell) -> None:
    with LoopbackServer([LOOK, "Fine.", LOOK, "Fine.", "No.", "Well."]) as server:
        cfg = f"providers.llm.openai.base_url={server.url}"
        turn = jp_nb.query("Go.", model="openai/m", cfg=cfg, tool_use="look")
        jp_nb.query("Go.", tool_use=True)
        jp_nb.query("Go.", tool_use=False)
        jp_nb.query("Go.")
        with pytest.raises(jp_nb.UsageError, match="Tool not found: lok"):
            jp_nb.query("Go.", tool_use="lok")
    assert [call.name for call in turn.tool_calls] == ["look"]
    assert choices(server) == [OPENAI_LOOK, "auto", "required", "auto", "none", "auto"]


# --- the configured choice -------------------------------------------------------------------

OFF = "conversation.tools.look.enable"


def test_configured_choice_offers_a_tool_that_is_off(notebook: Notebook) -> None:
    with LoopbackServer([LOOK, "Fine."]) as server:
        ask(notebook, server, f"-c {OFF}=off -c assistant.tool_choice=look")
    assert choices(server) == [OPENAI_LOOK, "auto"]
    assert "look" in offered(server.requests[0])


@pytest.mark.parametrize(
    "line",
    [
        "-c '{LOCKED}' -c assistant.tool_choice=look",
        "-c assistant.tool_choice=look -c '{STAR}'",
    ],
)
def test_locked_tool_cannot_be_chosen(notebook: Notebook, line: str) -> None:
    enable = '{"enable": {"state": false, "allow_toggle": "never"}}'
    written = line.replace("{LOCKED}", f'{{"conversation": {{"tools": {{"look": {enable}}}}}}}')
    written = written.replace("{STAR}", f'{{"conversation": {{"tools": {{"*": {enable}}}}}}}')
    with LoopbackServer([]) as server, pytest.raises(jp_nb.ConfigError) as caught:
        ask(notebook, server, written)
    assert "assistant.tool_choice" in str(caught.value)
    assert "conversation.tools.look.enable" in str(caught.value)
    assert len(notebook.session.document.conversation) == 0


def test_configured_choice_of_an_unknown_tool_is_an_error_with_its_path(notebook: Notebook) -> None:
    with LoopbackServer([]) as server, pytest.raises(jp_nb.ConfigError) as caught:
        ask(notebook, server, "-c assistant.tool_choice=lok")
    assert caught.value.path == "assistant.tool_choice"
    assert str(caught.value) == (
        "assistant.tool_choice: tool choice 'lok' does not match any enabled tools"
    )
    with pytest.raises(jp_nb.ConfigError):
        notebook.cell("-c assistant.tool_choice=lok", "Go.")
    assert len(notebook.session.document.conversation) == 0


def test_later_requests_of_the_turn_use_the_configured_choice(notebook: Notebook) -> None:
    notebook.jp("config assistant.tool_choice=listen")
    turns = notebook.session.turns
    settings = notebook.session.settings
    first = turns.cell_resolver.resolve(settings.snapshot(), "jp-c1", tool_choice="tool:look")
    resolve = turns.resolver.for_turn(first)

    async def choices() -> list[str]:
        return [(await resolve()).tool_choice for _ in range(3)]

    assert asyncio.run(choices()) == ["tool:look", *["tool:listen"] * 2]
    assert turns.cell_resolver.resolve(settings.snapshot(), "jp-c1").tool_choice == "tool:listen"


# --- a tool that had to be called and was not --------------------------------------------------


@pytest.mark.parametrize(
    ("line", "replies", "missing"),
    [
        ("-u look", ["Fine."], "look"),
        ("-u look", [Reply(tool_calls=(ToolCall("listen", {}),)), LOOK, "Fine."], "look"),
        ("-u", ["Fine."], "any tool"),
        ("-c assistant.tool_choice=required", ["Fine."], "any tool"),
        ("-u look", [LOOK, "Fine."], None),
        ("", ["Fine."], None),
    ],
)
def test_demanded_tool_that_was_not_called_is_reported(
    notebook: Notebook, line: str, replies: list[Reply | str], missing: str | None
) -> None:
    shown = notebook.shown
    with LoopbackServer(replies) as server:
        ask(notebook, server, line)
    last = shown[-1]
    said = "⚠ The model did not call {}, although this turn requires it".format
    assert last.count("⚠ The model did not call") == (missing is not None)
    assert missing is None or said(missing) in last
    [turn] = notebook.session.conversations.log()
    assert turn.uncalled == missing
    log = notebook.jp("log")
    assert (f"⚠ a call of {missing} was required, but the model made none" in log) is (
        missing is not None
    )
    assert all("tool_choice" not in str(request.body["messages"]) for request in server.requests)


def test_continuation_of_cut_answers_is_configured(notebook: Notebook) -> None:
    def chains(*lines: str) -> bool:
        for line in lines:
            notebook.jp(f"config {line}")
        basis = notebook.session.settings.snapshot()
        return bool(notebook.session.turns.cell_resolver.resolve(basis, "jp-c1").continues_answers)

    chained = "providers.llm.anthropic.chain_on_max_tokens"
    assert chains("assistant.model.id=anthropic/m")
    assert not chains(f"{chained}=false")
    assert chains(f"--unset {chained}")
    assert not chains("assistant.model.parameters.max_tokens=9")
    unset = "--unset assistant.model.parameters.max_tokens"
    assert not chains(unset, "assistant.model.id=openai/m")
