"""A call that waits for permission: its content for the user, and the choices about it.

The user may edit the arguments before the decision. A draft never changes: an edit makes another
one, with the ruling and the rule for the edited arguments. A *ruling* (`call_rulings.py`) is the
decision of the configuration, such as to ask the user, and the rule of arguments that made it.

Source: `docs/turns.md`, `docs/decisions.md` D10, D35.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from jp_nb.agent.approvals.argument_editor import format_visible_json
from jp_nb.agent.approvals.call_rulings import Ruling, judge
from jp_nb.agent.approvals.permission_rules import KeptRule
from jp_nb.agent.approvals.rule_editor import make_rule
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prompting.prompt_ends import Channel
from jp_nb.agent.prompting.prompts import Action, ActionPrompt, PromptDetail, format_label_name
from jp_nb.config.tree.tool_settings import RuleCoverage
from jp_nb.exact_form import escape_invisible, spell_invisible
from jp_nb.json_values import JsonObject
from jp_nb.toolkit.arguments.text_arguments import TextArgument, list_text_arguments
from jp_nb.toolkit.base import CommandLine
from jp_nb.toolkit.outcome import ToolFailure
from jp_nb.toolkit.tool_context import ToolContext

ARGUMENTS_CAPTION = "Arguments"
EDITED_CAPTION = "Arguments as you edited them"
EDITED_TEXT_CAPTION = "{} as you edited it"
FORMATTED_CAPTION = "Arguments, formatted for display (the tool receives those above)"
COMMAND_CAPTION = "Command line"
SHELL_CAPTION = "Command line, run by a shell (sh -c)"
FIRST_RUN_NOTE = "(for the first run; the next run gets the answers to its questions)"
FOLDER_CAPTION = "Folder"
NO_COMMAND_CAPTION = "The tool cannot run: it has no command line"
SERVER_CAPTION = "The server says about this tool (not checked)"
ASKING_RULE_CAPTION = "Your rule that asks about this call"


def list_permission_actions(
    tool: str, covers: RuleCoverage, *, can_keep_rule: bool = False
) -> tuple[Action, ...]:
    """Return the choices about a call of `tool`; their labels name the calls that they cover.

    With `can_keep_rule`, the user can make a rule for calls like this one.
    """
    name = format_label_name(tool)
    allowed = {"tool": name, "arguments": "this exact call"}[covers]
    always = Action("a", "Always allow calls like this …", "always")
    rule_actions = [always] if can_keep_rule else []

    return (
        Action("y", f"Run {name}", "run"),
        Action("Y", f"Allow {allowed} for this turn", "run_turn"),
        *rule_actions,
        Action("n", f"Skip {name}", "skip", is_separated=True),
        Action("N", f"Skip all calls of {name} in this turn", "skip_turn"),
        Action("p", "Print the arguments", "print", on_form=False),  # the dialogue on stdin does it
        Action("r", "Skip and say why …", "reason", is_separated=True),
        Action("e", "Edit the arguments …", "edit"),
    )


@dataclass(frozen=True, slots=True)
class CallDraft:
    """A call that waits for permission.

    Attributes:
        tool: The tool with the settings that the permission depends on.
        original_arguments: The arguments of the model.
        arguments: The arguments as the user may have edited them.
        formatted: The arguments as a formatter wrote them.
        context: The context of the first run, from which the command line of a command is made.
        ruling: The ruling for `arguments`.
        may_keep_rule: True if the user may keep a rule that allows calls like this one.
        proposed_rule: That rule, for `arguments`; None if they are too long for a rule.
        edited_through: The channel through which the user edited the arguments.
    """

    tool: OfferedTool
    original_arguments: JsonObject
    arguments: JsonObject
    formatted: str | None
    context: ToolContext
    ruling: Ruling
    may_keep_rule: bool = False
    proposed_rule: KeptRule | None = None
    edited_through: Channel | None = None

    @property
    def is_command(self) -> bool:
        """True if the tool is a command, whose final command line the user has to see."""
        return self.make_command_line() is not None

    def make_command_line(self) -> CommandLine | ToolFailure | None:
        """Return the command line, or why there is none; None if the tool is not a command."""
        return self.tool.executor.command_line(self.arguments, self.context)

    def edit(self, arguments: JsonObject, channel: Channel | None) -> CallDraft:
        """Return the call with other arguments, edited through `channel`.

        A call with the model's own arguments does not count as edited.
        """
        # Compared as JSON, because 1 and true are equal in Python.
        text = format_visible_json(arguments)
        if text == format_visible_json(self.arguments):
            return self
        if text == format_visible_json(self.original_arguments):
            channel = None  # the user has undone all changes

        ruling = judge(self.tool, arguments, self.context.root)
        changed = replace(
            self, arguments=arguments, formatted=None, edited_through=channel, ruling=ruling
        )
        return changed.propose_rule() if self.may_keep_rule else changed

    def propose_rule(self) -> CallDraft:
        """Return the call with a rule for its arguments, unless they are too long for one."""
        rule = make_rule(self.tool, self.arguments, self.context.root, self.ruling)
        return replace(self, may_keep_rule=True, proposed_rule=rule)

    def list_details(self) -> Iterator[PromptDetail]:
        """Yield the details of the call, each with a caption.

        These are the command line, the arguments, the hints of an MCP server about the tool, and
        the user's rule that asks.
        """
        command = self.make_command_line()
        if isinstance(command, ToolFailure):
            yield PromptDetail(NO_COMMAND_CAPTION, command.message)
        elif command is not None:
            caption = SHELL_CAPTION if command.shell else COMMAND_CAPTION
            if command.varies_by_run:
                caption += f" {FIRST_RUN_NOTE}"
            yield PromptDetail(caption, command.text)
            yield PromptDetail(FOLDER_CAPTION, command.folder)

        texts, others = _split_arguments(self.tool, self.arguments)
        for argument, text in texts.items():
            caption = spell_invisible(argument.caption)
            if self.edited_through and text != self.original_arguments.get(argument.name):
                caption = EDITED_TEXT_CAPTION.format(caption)
            yield PromptDetail(caption, text, language=argument.language)

        if others:
            caption = EDITED_CAPTION if self.edited_through else ARGUMENTS_CAPTION
            yield PromptDetail(caption, others)
        if self.formatted:
            yield PromptDetail(FORMATTED_CAPTION, self.formatted)
        if self.tool.executor.hints:
            yield PromptDetail(SERVER_CAPTION, _format_hints(self.tool.executor.hints))
        if self.ruling.description is not None:
            yield PromptDetail(ASKING_RULE_CAPTION, escape_invisible(self.ruling.description))

    def make_prompt(self) -> ActionPrompt:
        """Return the prompt for the permission."""
        tool = f"the tool `{spell_invisible(self.tool.name)}`"
        if self.tool.owner:  # the name of its MCP server
            tool += f" of the server `{spell_invisible(self.tool.owner)}`"

        can_keep_rule = self.proposed_rule is not None
        return ActionPrompt(
            text=f"Run {tool}?",
            actions=list_permission_actions(
                self.tool.name, self.tool.covers, can_keep_rule=can_keep_rule
            ),
            exhibits=tuple(self.list_details()),
            only_buttons=True,
            origin=self.tool.origin,
        )


def _format_hints(hints: Mapping[str, bool]) -> str:
    words = {True: "yes", False: "no"}
    lines = [f"{name.replace('_', ' ')}: {words[value]}" for name, value in hints.items()]
    return "\n".join(lines)


def _split_arguments(
    tool: OfferedTool, arguments: JsonObject
) -> tuple[dict[TextArgument, str], JsonObject]:
    """Return the text arguments, and the others."""
    shown_as_text = list_text_arguments(tool.definition.parameters, arguments)
    texts = {argument: str(arguments[argument.name]) for argument in shown_as_text}
    names = {argument.name for argument in texts}
    others = {name: value for name, value in arguments.items() if name not in names}
    return texts, others
