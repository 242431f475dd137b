"""Each `%jp` command inside of a running tool works, or is refused with a reason."""

from __future__ import annotations

from typing import Any, Final

import pytest

import jp_nb as jp
from tests.kit.ipython_shell import IPythonShell
from tests.support.ipython import ipython
from tests.support.sessions import bare_folder, folder, write

__all__ = ["bare_folder", "folder", "ipython"]

READS: Final = (
    "config",
    "config --explain assistant.name",
    "tools",
    "tools act",
    "log",
    "log 1",
    "qna",
    "models scripted",
    "cassette",
    "usage",
    "timeline",
    "switch",
    "doctor",
    "export ./here",
    "mcp",
)
"""Commands that change nothing of the turn. An `async def` tool cannot run some of them."""
REFUSED: Final = (
    "q Again.",
    "why",
    "retry",
    "resume",
    "call act",
    "replay",
    "request",
    "usage --count",
    "new",
    "fork",
    "fork 1",
    "undo",
    "switch 1",
    "drop 1",
    "import ./here",
    "fix",
    "revert",
    "mcp import",
    "mcp import ./here",
    "compact",
    "compact --undo",
    "trust",
    "trust --yes",
    "trust --revoke",
    "trust --workspace --yes",
    "cassette record",
    "cassette replay tape",
    "cassette off",
    "config assistant.name=Bo",
    "config -c assistant.model.id=scripted/other",
    "config --user assistant.name=Bo",
    "config --workspace assistant.name=Bo",
    "config --unset assistant.model.id",
    "config conversation.tools.act.run=ask",
)
NEITHER: Final = ("code", "save")
"""They fail here for another reason: no code, no notebook."""
LINES: Final = [f"%jp {line}" for line in (*READS, *REFUSED, *NEITHER)]
CODES: Final = [
    "%%jp\nAgain.",
    "%%jp -n -c assistant.name=Bo\nAgain.",
    "import jp_nb; jp_nb.query('Again.')",
    "import jp_nb; jp_nb.call('act')",
    "%reload_ext jp_nb",
    "import jp_nb; jp_nb.unload_ipython_extension(get_ipython())",
]
TOOLS: Final = {
    "def": "@jp.tool\ndef act(number: int) -> str:",
    "async def": "@jp.tool\nasync def act(number: int) -> str:",
    "thread": "@jp.tool(thread=True)\ndef act(number: int) -> str:",
}
BODY: Final = """
    'Act.'
    result = get_ipython().run_cell(CODES[number])
    ERRORS[CODES[number]] = result.error_in_exec or result.error_before_exec
    return 'acted'
"""


def test_table_has_each_subcommand(ipython: IPythonShell) -> None:
    named = {line.split()[0] for line in (*READS, *REFUSED, *NEITHER)}
    offered = {line.removeprefix("%jp ") for line in ipython.tab("%jp |")}
    assert offered == named


def make_script(calls: int) -> str:
    numbers = ", ".join(f'{{ name = "act", arguments = {{ number = {n} }} }}' for n in range(calls))
    replies = [
        'text = "Before."',
        f"tool_calls = [{numbers}]",
        'text = "After."',
        'text = "Later."',
    ]
    return "".join(f"[[replies]]\n{reply}\n" for reply in replies)


@pytest.mark.parametrize("kind", TOOLS)
def test_commands_in_a_tool_work_or_are_refused(ipython: IPythonShell, kind: str) -> None:
    codes = [*LINES, *CODES]
    write(ipython.session.files.folder / "act.toml", make_script(len(codes)))
    ipython.shell.user_ns |= {"CODES": codes, "ERRORS": {}}
    assert ipython.run(f"import jp_nb as jp\n{TOOLS[kind]}{BODY}").error is None
    try:
        assert ipython.run("%%jp -m scripted/act\nBefore.").error is None
        session = ipython.session
        before = session.document.conversation.id
        settings = session.settings.config
        assert ipython.run("%%jp\nGo.").error is None

        errors: dict[str, Any] = ipython.shell.user_ns["ERRORS"]
        assert errors.keys() == {*codes}
        for line in READS:
            error = errors[f"%jp {line}"]
            assert error is None or (kind == "async def" and "Use a `def` tool" in str(error)), line
        for code in (*(f"%jp {line}" for line in REFUSED), *CODES):
            assert "turn" in str(errors[code]), code
            assert "Wait for it" not in str(errors[code]), code

        assert ipython.session is session
        conversation = session.document.conversation
        assert conversation.id == before
        assert session.settings.config == settings
        types = [entry.type for entry in conversation.entries]
        assert types.count("tool_call_request") == types.count("tool_call_response") == len(codes)
        assert not conversation.repair()
        assert ipython.run("%%jp\nLater.").error is None
        assert session.last_turn is not None
        assert session.last_turn.text == "Later."
    finally:
        jp.remove_tool("act")
