"""The table of the options of `%%jp`.

Parsing, errors, help, completion, and the reference read it. `magic_options.py` explains its
fields.

Source: `docs/guide.md`, `docs/extending.md`.
"""

from __future__ import annotations

from typing import Final

from jp_nb.notebook.magic_options import MagicOption, make_directive_option

# `%jp config` has this option too.
NO_CFG_OPTION: Final = make_directive_option(
    "no_cfg",
    ("-C", "--no-cfg"),
    "revert the assignment X, or the settings of the configuration file X",
    takes="X",
    offers="change",
)

ASK_OPTIONS: Final = (
    MagicOption(
        ("-m", "--model"),
        "use this model, `PROVIDER/NAME` or an alias, for this and later turns",
        takes="MODEL",
        offers="model",
    ),
    make_directive_option(
        "cfg",
        ("-c", "--cfg"),
        "change the configuration: `path=value`, `path:=json`, `path+=value`, a JSON object, "
        "or the name of a configuration file",
        takes="X",
        offers="change",
    ),
    NO_CFG_OPTION,
    make_directive_option(
        "tool",
        ("-t", "--tool"),
        "enable a tool or toolset for this and later turns; without a name, all tools",
        takes="[NAME]",
        offers="tool or toolset",
    ),
    make_directive_option(
        "no_tool",
        ("-T", "--no-tool"),
        "disable a tool or toolset for this and later turns; without a name, all tools",
        takes="[NAME]",
        offers="tool or toolset",
    ),
    make_directive_option(
        "attach",
        ("-a", "--attachment"),
        "attach a file, a file pattern, or a variable, for this and later turns",
        takes="FILE",
        offers="attachment",
    ),
    # Both add to `tool_uses`, which then has the name of a tool, True for any tool, or False for
    # none. `parse` gets the flag, and the text after it or None.
    MagicOption(
        ("-u", "--tool-use"),
        "require a tool call in the first request of this turn; without a name, of any tool",
        takes="[NAME]",
        offers="tool",
        into="tool_uses",
        parse=lambda _, name: True if name is None else name,
    ),
    MagicOption(
        ("-U", "--no-tool-use"),
        "forbid tool calls in the first request of this turn",
        into="tool_uses",
        parse=lambda *_: False,
    ),
    MagicOption(("-n", "--new"), "start a new conversation in this notebook"),
    MagicOption(("-k", "--compact"), "compact the conversation first, as `%jp compact` does"),
    MagicOption(
        ("--plan",),
        "change nothing in this turn before you have approved the model's "
        "plan; only tools that change nothing run before",
    ),
    MagicOption(
        ("-s", "--schema"),
        "require an answer that matches NAME, a type or JSON schema in the notebook",
        takes="NAME",
        offers="schema",
    ),
    MagicOption(
        ("-o", "--out"), "bind the result to the variable NAME, in addition to `_jp`", takes="NAME"
    ),
    MagicOption(("--strict",), "fail the cell if no user can answer a question"),
    MagicOption(
        ("--each",),
        "ask outside of the conversation, for each row of ROWS, a frame, series, or list in the "
        "notebook. The text is a template with the names of columns in braces",
        takes="ROWS",
        offers="rows",
    ),
    MagicOption(
        ("--cache",),
        "keep the answers of `--each` in FILE, and ask only for missing ones",
        takes="FILE",
        offers="file",
    ),
)

ASK_USAGE: Final = f"%%jp {' '.join(x.usage for x in ASK_OPTIONS)}   and the request below"
