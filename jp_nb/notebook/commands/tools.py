"""Subcommand `%jp tools`: list the tools, describe one, or forget a rule about it.

Source: `docs/guide.md`, `docs/tools.md`.
"""

from __future__ import annotations

from jp_nb.notebook.commands import Invocation
from jp_nb.notebook.commands.rules import forget_rule, iter_rule_rows
from jp_nb.rendering.reports import tool_table, tool_text


def show_tools(call: Invocation) -> None:
    """Run `%jp tools`: list all tools, or describe one, or forget a rule about it."""
    resolver = call.session.turns.cell_resolver  # it finds the tools of a configuration
    name = call.word
    number = call.options.forget
    if number is not None:
        forget_rule(call, name, number)
        return
    if name is None:
        call.show(tool_table.render_tools(call.session.config, resolver.resolve_tools))
        return

    resolver.discover_tools(name)  # starts an MCP server that may have the tool
    rules = list(iter_rule_rows(call.session, name))
    call.show(tool_text.render_tool(name, call.session.config, resolver.resolve_tools, rules))
