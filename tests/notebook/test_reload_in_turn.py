"""A tool neither loads the extension again, nor changes the conversation of its own turn."""

from __future__ import annotations

from typing import Final

import pytest

import jp_nb as jp
from tests.kit.ipython_shell import IPythonShell
from tests.support.ipython import ipython
from tests.support.sessions import bare_folder, folder, write

__all__ = ["bare_folder", "folder", "ipython"]

CODES: Final = (
    "%reload_ext jp_nb",
    "%load_ext jp_nb",
    "import importlib, jp_nb; importlib.reload(jp_nb)",
    "import jp_nb; jp_nb.unload_ipython_extension(get_ipython())",
    "import jp_nb; jp_nb.load_ipython_extension(get_ipython())",
    "%jp new",
    "%jp switch 1",
    "%jp fork",
    "%jp undo",
    "%jp drop 1",
    "%jp retry",
    "%jp resume",
    "%jp compact --keep-first 0 --keep-last 0",
    "%jp call act",
    "%jp replay",
    "%jp trust --revoke",
    "%jp trust --yes",
    "%jp trust --workspace --yes",
    "%%jp\nAgain.",
    "%%jp -n\nAgain.",
    "import jp_nb; jp_nb.query('Again.')",
)
SCRIPT: Final = """
[[replies]]
text = "Before."
[[replies]]
tool_calls = [{ name = "act" }, { name = "act" }]
[[replies]]
text = "After."
[[replies]]
text = "Later."
"""


@pytest.mark.parametrize("code", CODES)
def test_tool_cannot_change_the_conversation_of_its_turn(ipython: IPythonShell, code: str) -> None:
    write(ipython.session.files.folder / "act.toml", SCRIPT)
    ipython.shell.user_ns["CODE"] = code
    defined = ipython.run(
        "import jp_nb as jp\n"
        "ERRORS = []\n"
        "@jp.tool\n"
        "def act() -> str:\n"
        "    'Act.'\n"
        "    result = get_ipython().run_cell(CODE)\n"
        "    ERRORS.append(result.error_in_exec or result.error_before_exec)\n"
        "    return 'acted'\n"
    )
    assert defined.error is None, defined
    try:
        assert ipython.run("%%jp -m scripted/act\nBefore.").error is None
        session = ipython.session
        before = session.document.conversation.id

        cell = ipython.run("%%jp\nGo.")
        assert cell.error is None, cell
        assert ipython.session is session
        assert session.document.conversation.id == before
        types = [entry.type for entry in session.document.conversation.entries]
        assert types.count("tool_call_request") == types.count("tool_call_response") == 2
        assert session.last_turn is not None
        assert session.last_turn.text == "After."
        later = ipython.run("%%jp\nLater.")
        assert later.error is None, later
        errors = ipython.shell.user_ns["ERRORS"]
        if "importlib" not in code:
            assert all("turn" in str(error) for error in errors), errors
    finally:
        jp.remove_tool("act")
