"""A notebook for tool calls outside of the conversation, and the state that they must keep."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jp_nb.session.session import Session
from tests.kit.sessions import current_session
from tests.support.sessions import Notebook

SCRIPT = """
[[replies]]
text = "Let me look."
tool_calls = [{ name = "weather", arguments = { city = "Delft", days = 3 } }]
[[replies]]
text = "Sunny."
"""


@pytest.fixture
def notebook(folder: Path) -> Iterator[Notebook]:
    (folder / "talk.toml").write_text(SCRIPT)
    instance = Notebook(folder)
    with current_session(instance.session):
        yield instance
    instance.session.close()


def protected_state(session: Session) -> str:
    """Return the state that a call outside of the conversation must not change."""
    document = session.document
    return json.dumps(
        [
            document.conversation.properties,
            document.conversation.base_config,
            document.conversation.raw,
            document.others,
            session.config.model_dump(mode="json"),
            repr(session.last_turn),
            repr(session.host.namespace.get("_jp")),
        ]
    )
