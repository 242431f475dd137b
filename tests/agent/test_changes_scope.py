"""Which tools may propose configuration changes at all, and what their authors are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jp_nb.config.partial import Partial
from jp_nb.config.validation import validate
from jp_nb.errors import ConfigError
from jp_nb.tooling.builtin import BUILTINS
from jp_nb.tooling.command import CommandTool
from jp_nb.tooling.python import PythonTool

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide.md"
RULE: dict[str, Any] = {"path": "assistant.model", "read": True, "write": True}


def configured(source: str) -> Partial:
    tool: Partial = {"source": source, "access": {"config": [RULE]}}
    return {"conversation": {"tools": {"t": tool}}}


@pytest.mark.req("R078-35", "R078-137")
@pytest.mark.parametrize("source", ["mcp.s", "mcp.s.t"])
def test_a_tool_of_an_mcp_server_cannot_be_granted_any_configuration(source: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(configured(source))
    assert str(caught.value) == (
        "conversation.tools.t.access: conversation.tools.t: `access` is only supported on local "
        "tools, but 't' is a mcp tool"
    )


@pytest.mark.req("R078-137")
def test_no_builtin_tool_may_propose_changes(subtests: pytest.Subtests) -> None:
    for name in BUILTINS:
        with subtests.test(name=name):
            assert BUILTINS[name].may_propose is False
            assert "access" not in BUILTINS[name].registration


@pytest.mark.req("R078-137")
def test_the_tools_that_may_propose_are_functions_and_commands() -> None:
    validate(configured("local"))
    assert PythonTool.may_propose
    assert CommandTool.may_propose


@pytest.mark.req("R078-97")
def test_the_guide_says_that_a_tool_that_changes_the_configuration_may_be_run_again() -> None:
    text = " ".join(GUIDE.read_text(encoding="utf-8").split())
    _, _, section = text.partition("## Tools that change the configuration")
    section, _, _ = section.partition(" ## ")
    assert (
        "a tool that proposes changes may be run several times in one call and must tolerate it"
        in section
    )
    assert "three more times at most" in section
    assert "its other effects must be harmless when repeated" in section
