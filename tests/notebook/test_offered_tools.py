"""`%jp tools` shows the tools that the model is offered; locks and shared names."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jp_nb
from tests.kit.notebook_record import open_document
from tests.kit.sessions import directive
from tests.support.fakes import for_tool
from tests.support.loopback import LoopbackServer, Received, Reply
from tests.support.record_strategies import STAMP
from tests.support.sessions import Notebook, bare_folder

__all__ = ["bare_folder"]

NAMES = ("look", "ask_user", "shell", "nothing")
"""A function, a builtin, a command, and one that is declared without a source."""
LOCKED = {"state": False, "allow_toggle": "never"}


@pytest.fixture
def look() -> Iterator[None]:
    @jp_nb.tool
    def look() -> str:
        return "fine"

    yield
    if "look" in [tool.name for tool in jp_nb.tools()]:
        jp_nb.remove_tool("look")


class Talk:
    """A conversation with a server: configuration `mine`, and an untrusted record."""

    def __init__(self, mine: Any, theirs: Any = None) -> None:
        home = platformdirs.user_config_path("jp")
        (home / "config.toml").write_text('extends = ["mine.json"]')
        (home / "mine.json").write_text(json.dumps(mine))
        self.notebook = Notebook(Path.cwd())
        self.session = self.notebook.session
        if theirs is not None:
            events = [{"type": "config_delta", "timestamp": STAMP, **delta} for delta in theirs]
            said = {"type": "chat_request", "timestamp": STAMP, "content": "q"}
            stored: Any = {"conversation": {"id": "jp-c1"}, "events": [said, *events]}
            self.session.conversations.adopt_imported(open_document(stored))

    def table(self) -> dict[str, str]:
        """Return the rows of `%jp tools` by tool."""
        shown = self.notebook.jp("tools")
        rows = [re.split(r"\s{2,}", line.strip()) for line in shown.splitlines()]
        return {row[0]: row[1] for row in rows[1:] if len(row) > 1}

    def sent(self) -> set[str]:
        """Return the tools in the request of a turn."""
        requests: list[Received] = []

        def reply(request: Received) -> Reply:
            requests.append(request)
            return Reply(text="Fine.")

        with LoopbackServer(reply) as server:
            url = f"providers.llm.openai.base_url={server.url}"
            self.notebook.cell(f"-m openai/m -c {url}", "Go.")
        return {tool["function"]["name"] for tool in requests[0].body.get("tools", ())}


@pytest.fixture
def user(bare_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("JP_NB_KEY_FILE", str(tmp_path / "key"))


SHELL = for_tool("shell", source="local", command="sh -c true", run="unattended", enable=LOCKED)


THEIRS: list[list[dict[str, Any]]] = [
    [{"delta": {"assistant": {"tool_choice": "shell"}}}],
    [{"delta": for_tool("shell", enable={"allow_toggle": "any"})}],
    [{"delta": for_tool("shell", enable="explicit")}],
    [{"unsets": ["conversation.tools.shell.enable"]}],
    [{"unsets": ["conversation.tools.shell.enable.state"]}],
    [{"unsets": ["conversation.tools.shell"]}, {"unsets": ["conversation.tools"]}],
    [{"unsets": ["conversation"]}, {"op": "reset"}],
]


@pytest.mark.parametrize("star", [False, True])
def test_untrusted_record_does_not_reach_a_tool_that_is_locked_off(
    user: None, look: None, star: bool
) -> None:
    mine: Any = for_tool("*", enable=LOCKED) if star else SHELL
    if star:
        mine["conversation"]["tools"]["shell"] = {"source": "local", "command": "sh -c true"}
    chosen: Any = {"delta": {"assistant": {"tool_choice": "shell"}}}
    for theirs in THEIRS[::2] if star else THEIRS:
        planted = json.loads(json.dumps(theirs).replace("shell", "*" if star else "shell"))
        talk = Talk(mine, [*planted, chosen])
        assert talk.table()["shell"] == "off", theirs
        with pytest.raises(jp_nb.ConfigError, match="locked-off"):
            talk.notebook.cell("-t shell", "Go.")
        assert "shell" not in talk.sent(), theirs
        talk.session.close()


def test_untrusted_record_does_not_choose_a_tool_that_is_off(user: None, look: None) -> None:
    chosen: Any = {"assistant": {"tool_choice": "look"}}
    off = for_tool("look", enable=False)
    theirs = Talk(off, [{"delta": chosen}])
    assert theirs.table()["look"] == "off"
    assert "look" not in theirs.sent()
    theirs.session.close()
    mine = Talk(off | chosen)
    assert mine.table()["look"] == "on: assistant.tool_choice names it"
    assert "look" in mine.sent()
    mine.session.close()


enables = st.one_of(
    st.sampled_from([True, False, "explicit", "always"]),
    st.fixed_dictionaries(
        {},
        optional={
            "state": st.booleans(),
            "allow_toggle": st.sampled_from(["any", "never", "if_named"]),
        },
    ),
)
of_a_tool = st.fixed_dictionaries({}, optional={"enable": enables})
partials = st.fixed_dictionaries(
    {},
    optional={
        "assistant": st.fixed_dictionaries(
            {}, optional={"tool_choice": st.sampled_from(["auto", "none", "required", *NAMES])}
        ),
        "conversation": st.fixed_dictionaries(
            {"tools": st.dictionaries(st.sampled_from(["*", *NAMES]), of_a_tool, max_size=4)}
        ),
    },
)
changes = st.one_of(
    partials.map(lambda delta: {"delta": delta}),
    st.sampled_from([{"op": "reset"}, {"unsets": ["assistant.tool_choice"]}]),
    st.sampled_from(["*", *NAMES]).map(
        lambda name: {"unsets": [f"conversation.tools.{name}.enable"]}
    ),
)
toggles = st.lists(
    st.tuples(st.sampled_from(["tool", "no_tool"]), st.sampled_from(["", *NAMES])), max_size=3
)


def declared(mine: Any) -> Any:
    """`mine` with the command and the tool that has no source declared."""
    tools = mine.setdefault("conversation", {}).setdefault("tools", {})
    tools["shell"] = {**tools.get("shell", {}), "source": "local", "command": "sh -c true"}
    tools["nothing"] = {**tools.get("nothing", {}), "summary": "It has no function."}
    return json.loads(json.dumps(mine))


def check_offer(mine: Any, theirs: Any, switched: Any) -> None:
    """Compare the tools that `%jp tools` shows as on with those in the request."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        talk = Talk(declared(mine), theirs)
        try:
            for kind, name in switched:
                with suppress(jp_nb.ConfigError):  # locked
                    talk.session.configure(directive(kind, name))
            table = talk.table()
            try:
                sent = talk.sent()
            except (
                jp_nb.ConfigError,
                jp_nb.UsageError,
            ):  # the demanded tool cannot be called: nothing is sent
                choice = talk.session.config.assistant.tool_choice
                assert choice == "required" or not table[choice].startswith("on")
                return
            assert sent == {name for name, state in table.items() if state.startswith("on")}
            assert table == talk.table()
        finally:
            talk.session.close()
            os.chdir("/")


FEW = settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@FEW
@given(partials, st.none() | st.lists(changes, max_size=4), toggles)
def test_table_of_tools_shows_what_the_model_is_offered(
    user: None, look: None, mine: Any, theirs: Any, switched: Any
) -> None:
    check_offer(mine, theirs, switched)


# --- two tools of one name ---------------------------------------------------------------------


def notices(talk: Talk, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    talk.session.print_notices(*talk.session.store.take_notices())
    return [line for line in capsys.readouterr().out.splitlines() if "the same name" in line]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "local",
            "the configured tool (\"local\") is used as 'look' instead of your Python function",
        ),
        ("builtin", "the built-in tool is used as 'look' instead of your Python function"),
        ("python.other", 'the configured tool ("python.other") is used as'),
    ],
)
def test_function_named_like_a_configured_tool_is_reported_once_and_shown(
    user: None, look: None, source: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = Talk(for_tool("look", source=source, command="sh -c true"))
    (said,) = notices(talk, capsys)
    assert says in said
    assert notices(talk, capsys) == []
    assert says in talk.notebook.jp("tools")
    assert says in talk.notebook.jp("tools look")
    jp_nb.remove_tool("look")
    assert notices(talk, capsys) == []
    talk.session.close()


def test_function_named_like_a_builtin_replaces_it_and_is_reported(
    user: None, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = Talk({})
    assert notices(talk, capsys) == []

    @jp_nb.tool(name="ask_user")
    def mine() -> str:
        return ""

    try:
        (said,) = notices(talk, capsys)
        assert "your Python function 'ask_user' is used instead of the built-in" in said
        assert talk.table()["ask_user"] == "on"
    finally:
        jp_nb.remove_tool("ask_user")
        talk.session.close()


def test_settings_of_a_function_are_not_a_second_tool(
    user: None, look: None, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = Talk(for_tool("look", run="ask", summary="Looks."))
    assert notices(talk, capsys) == []
    talk.session.close()
