"""`%%jp -u` and `-U`, and `assistant.tool_choice`: the tool choice of a turn's first request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb
from jp_nb import session as session_module
from jp_nb.config.directives import Directive, parse_tool_choice
from jp_nb.notebook import commands
from jp_nb.notebook.commands import parse_ask_options
from jp_nb.rendering import log as log_module
from jp_nb.session.session import Session
from jp_nb.storage import config_files
from jp_nb.toolkit.python import REGISTRY
from tests.kit.kinds import is_kind
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall
from tests.support.sessions import make_session, shell_of

LOOK = Reply(tool_calls=(ToolCall("look", {"place": "Delft"}),))


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    for name in [name for name in os.environ if name.startswith(("JP_CFG_", "JP_NB_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(config_files, "get_config_folder", lambda: tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    before = REGISTRY.all()

    @jp_nb.tool
    def look(place: str) -> str:
        return f"{place} is fine"

    @jp_nb.tool
    def listen() -> str:
        return "quiet"

    session = make_session()
    yield session
    session.close()
    for name in REGISTRY.all().keys() - before.keys():
        jp_nb.remove_tool(name)


def ask(session: Session, server: LoopbackServer, line: str, provider: str = "openai") -> None:
    """`%%jp LINE` in `session`, whose model is the server."""
    url = f"-c providers.llm.{provider}.base_url={server.url}"
    commands.send_request(shell_of(session), session, f"-m {provider}/m {url} {line}", "Go.")


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
        ("openai", "-T -t look -u look", OPENAI_LOOK),
        ("anthropic", "-u look", {"type": "tool", "name": "look"}),
        ("anthropic", "-U", {"type": "none"}),
    ],
)
def test_demanded_tool_applies_to_the_first_request_of_the_turn(
    session: Session, provider: str, line: str, first: object
) -> None:
    with LoopbackServer([LOOK, "Fine.", "Still."]) as server:
        ask(session, server, line, provider)
        entries = session.document.conversation.entries
        deltas = [entry.delta for entry in entries if is_kind(entry, "config_delta")]
        ask(session, server, "", provider)
    auto = "auto" if provider == "openai" else {"type": "auto"}
    assert choices(server) == [first, auto, auto]
    assert not any("tool_choice" in str(delta) for delta in deltas)
    assert session.config.assistant.tool_choice == "auto"


def test_demanded_tool_overrides_the_configured_choice_for_one_turn(session: Session) -> None:
    with LoopbackServer([LOOK, "Fine.", "No.", "Well."]) as server:
        ask(session, server, "-c assistant.tool_choice=none -u look")
        ask(session, server, "")
        ask(session, server, "-c assistant.tool_choice=auto")
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
    session: Session, subtests: pytest.Subtests
) -> None:
    for line, message in IMPOSSIBLE:
        with subtests.test(line=line):
            with LoopbackServer([]) as server, pytest.raises(jp_nb.UsageError, match=message):
                ask(session, server, line)
            assert not server.requests
            assert len(session.document.conversation) == 0


def test_demanding_any_tool_needs_an_enabled_one(session: Session) -> None:
    off = "-c conversation.tools.describe_tools.enable=off -T -T ask_user"
    with LoopbackServer(["Fine."]) as server:
        with pytest.raises(
            jp_nb.UsageError, match=r"no tool is enabled\. Enable one with `-t NAME`"
        ):
            ask(session, server, f"{off} -u")
        assert not server.requests
        ask(session, server, f"{off} -U")  # none of none is in order
    assert "tools" not in server.requests[0].body


def test_text_from_python_is_not_interpolated_by_default(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hold data, and data could name what it should not see."""
    monkeypatch.setattr(session_module, "_current", session)
    monkeypatch.setitem(session.host.namespace, "name", "Delft")
    with LoopbackServer(["Fine.", "Fine.", "Fine."]) as server:
        cfg = f"providers.llm.openai.base_url={server.url}"
        jp_nb.query("{{os.environ}} {{name}} \\{{", model="openai/m", cfg=cfg)
        jp_nb.query("{{name}}", interpolate=True)
        session.turns.run("{{name}}")
    said = [request.body["messages"][-1]["content"] for request in server.requests]
    assert said == ["{{os.environ}} {{name}} \\{{", "Delft", "Delft"]


def test_query_takes_a_demanded_tool(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "_current", session)
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


def test_empty_line_demands_nothing() -> None:
    assert parse_tool_choice(*parse_ask_options("-n").tool_uses) is None
    assert parse_tool_choice(None) is None


# --- the configured choice -------------------------------------------------------------------

OFF = "conversation.tools.look.enable"


def test_configured_choice_offers_a_tool_that_is_off(session: Session) -> None:
    with LoopbackServer([LOOK, "Fine."]) as server:
        ask(session, server, f"-c {OFF}=off -c assistant.tool_choice=look")
    assert choices(server) == [OPENAI_LOOK, "auto"]
    assert "look" in offered(server.requests[0])


@pytest.mark.parametrize(
    "line",
    [
        "-c '{LOCKED}' -c assistant.tool_choice=look",
        "-c assistant.tool_choice=look -c '{STAR}'",
    ],
)
def test_locked_tool_cannot_be_chosen(session: Session, line: str) -> None:
    enable = '{"enable": {"state": false, "allow_toggle": "never"}}'
    written = line.replace("{LOCKED}", f'{{"conversation": {{"tools": {{"look": {enable}}}}}}}')
    written = written.replace("{STAR}", f'{{"conversation": {{"tools": {{"*": {enable}}}}}}}')
    with LoopbackServer([]) as server, pytest.raises(jp_nb.ConfigError) as caught:
        ask(session, server, written)
    assert "assistant.tool_choice" in str(caught.value)
    assert "conversation.tools.look.enable" in str(caught.value)
    assert len(session.document.conversation) == 0


def test_configured_choice_of_an_unknown_tool_is_an_error_with_its_path(session: Session) -> None:
    with LoopbackServer([]) as server, pytest.raises(jp_nb.ConfigError) as caught:
        ask(session, server, "-c assistant.tool_choice=lok")
    assert caught.value.path == "assistant.tool_choice"
    assert str(caught.value) == (
        "assistant.tool_choice: tool choice 'lok' does not match any enabled tools"
    )
    with pytest.raises(jp_nb.ConfigError):
        session.turns.run("Go.", directives=[Directive("cfg", "assistant.tool_choice=lok")])
    assert len(session.document.conversation) == 0


def test_later_requests_of_the_turn_use_the_configured_choice(session: Session) -> None:
    session.configure(Directive("cfg", "assistant.tool_choice=listen"))
    turns = session.turns
    settings = session.settings
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
    session: Session, line: str, replies: list[Reply | str], missing: str | None
) -> None:
    shown = shell_of(session).shown
    with LoopbackServer(replies) as server:
        ask(session, server, line)
    said = "⚠ The model did not call {}, although this turn requires it".format
    assert shown[-1].count("⚠ The model did not call") == (missing is not None)
    assert missing is None or said(missing) in shown[-1]
    [turn] = session.conversations.log()
    assert turn.uncalled == missing
    log = log_module.render_log(session.document, [turn]).text
    assert (f"⚠ a call of {missing} was required, but the model made none" in log) is (
        missing is not None
    )
    assert all("tool_choice" not in str(request.body["messages"]) for request in server.requests)


def test_continuation_of_cut_answers_is_configured(session: Session) -> None:
    def chains(line: str) -> bool:
        draft = session.settings.draft([Directive("cfg", text) for text in line.split()])
        basis = session.settings.snapshot(draft)
        return session.turns.cell_resolver.resolve(basis, "jp-c1").continues_answers

    anthropic = "assistant.model.id=anthropic/m"
    assert chains(anthropic)
    assert not chains(f"{anthropic} providers.llm.anthropic.chain_on_max_tokens=false")
    assert not chains(f"{anthropic} assistant.model.parameters.max_tokens=9")
    assert not chains("assistant.model.id=openai/m")
