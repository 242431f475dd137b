"""List the rules about the calls of a tool, and forget those that the user kept.

A rule decides calls without asking, by their arguments. The configuration has rules. The user
*keeps* further ones in the form of a call, for the session or in this notebook.

Source: `docs/tools.md`, `docs/decisions.md` D230.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from jp_nb.agent.approvals.permission_rules import SCOPE_WORDS
from jp_nb.agent.approvals.rule_texts import format_rule
from jp_nb.config.setting_paths import format_path
from jp_nb.config.tool_rules import join_rules
from jp_nb.config.tree.tool_settings import STAR, ArgumentRule, ToolConfig
from jp_nb.errors import UsageError
from jp_nb.exact_form import escape_invisible
from jp_nb.json_values import as_object
from jp_nb.notebook.commands import Invocation
from jp_nb.record.changes.provenance import Provenance
from jp_nb.rendering.reports.tool_text import RuleRow
from jp_nb.session.configuration.kept_rules import PermissionRules
from jp_nb.session.session import Session
from jp_nb.text import MAX_DIGITS, plain


def forget_rule(call: Invocation, tool: str | None, number: str) -> None:
    """Run `%jp tools NAME --forget N`."""
    if tool is None or not number.isdecimal() or len(number) > MAX_DIGITS:
        raise UsageError("`--forget` takes the number of a kept rule: `%jp tools NAME --forget 1`")
    kept = PermissionRules(call.session.active).remove(tool, int(number))
    print(f"jp_nb: Forgotten: {tool}: {plain(format_rule(kept.rule))}")


def iter_rule_rows(session: Session, name: str) -> Iterator[RuleRow]:
    """Yield the rules about the tool in the order in which they apply, with their sources."""
    tools = session.config.conversation.tools
    tool = tools.get(name, ToolConfig())
    star = tools.get(STAR, ToolConfig())
    own_count = len(tool.rules or ())

    # `join_rules` puts the rules of the tool first, and then those of all tools.
    for index, rule in enumerate(join_rules(tool, star)):
        owner = name if index < own_count else STAR
        path = format_path(("conversation", "tools", owner, "rules"))
        sources = session.settings.explain([path])[path]
        yield escape_invisible(format_rule(rule)), f"{path}, {_find_rule_place(sources, rule)}"

    for number, kept in enumerate(PermissionRules(session.active).list_for_tool(name), 1):
        shown = escape_invisible(format_rule(kept.rule))
        remove = f"%jp tools {name} --forget {number}"
        yield shown, f"you, {SCOPE_WORDS[kept.scope]}: remove it with {remove}"


def _find_rule_place(sources: Sequence[Provenance], rule: ArgumentRule) -> str:
    """Return the place of the last source that has `rule` in its value, or of the last one."""
    for source in reversed(sources):
        value = source.value
        # A list, or `{"value": […], "strategy": …}`, which tells how it is merged.
        items = as_object(value).get("value") if isinstance(value, dict) else value
        if isinstance(items, list) and any(_is_rule(item, rule) for item in items):
            return source.place

    return sources[-1].place if sources else "default"


def _is_rule(item: JsonValue, rule: ArgumentRule) -> bool:
    try:
        return ArgumentRule.model_validate(item) == rule
    except ValueError:
        return False
