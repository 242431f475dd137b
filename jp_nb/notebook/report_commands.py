"""`%jp tools`, `%jp log`, `%jp usage` and `%jp doctor`: what is shown and changes nothing.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from jp_nb.errors import ConfigError
from jp_nb.notebook.commands import Invocation
from jp_nb.notebook.doctor import examine
from jp_nb.rendering import conversation_log, report, tool_report, usage_table
from jp_nb.session.session import Session

DEFAULT_TURNS = 10
"""So many `%jp log` and `%jp usage` show."""


def tools(call: Invocation) -> None:
    """Show all tools, or one."""
    config, offer = call.session.config, call.session.turns.tools
    if call.word is None:
        call.show(tool_report.tools(config, offer))
    else:
        call.show(tool_report.tool(call.word, config, offer))


def log(call: Invocation) -> None:
    """Show the last turns, and the other conversations."""
    document = call.session.document
    turns = call.session.conversations.log(call.number(at_least=1) or DEFAULT_TURNS)
    total = document.conversation.turn_count
    hosts = _image_hosts(call.session)
    call.show(conversation_log.log(document, turns, total=total, image_hosts=hosts))


def usage(call: Invocation) -> None:
    """Show the tokens that the last turns and each model took."""
    last = call.number(at_least=1) or DEFAULT_TURNS
    call.show(usage_table.usage_report(call.session.document, last))


def _image_hosts(session: Session) -> tuple[str, ...]:
    """Return the hosts whose images are shown; none while the configuration is broken."""
    try:
        return tuple(session.config.style.remote_images)
    except ConfigError:
        return ()


def doctor(call: Invocation) -> None:
    """Show what works here, and why not."""
    call.show(report.table(("check", "result"), examine(call.session)))
