"""The table of the subcommands of `%jp`.

Parsing, errors, help, completion, and the reference read it. `magic_options.py` explains its
fields. The module of a subcommand's action is imported when the subcommand first runs.

Source: `docs/guide.md`, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jp_nb.notebook.ask_options import NO_CFG_OPTION
from jp_nb.notebook.magic_options import MagicOption, Subcommand, make_directive_option


def _keep_text(_flag: str, text: str | None) -> str | None:
    """Return the value of an option that may be repeated: the values then form a list."""
    return text


_TABLE: Final = (
    Subcommand(
        "q", "ask in one line", "commands.ask_commands:ask_in_one_line", takes="TEXT", is_text=True
    ),
    Subcommand(
        "config",
        "show or change the configuration",
        "commands.config_command:configure",
        takes="[PATH… | PATH=VALUE…]",
        offers="setting",
        assigns=True,
        options=(
            MagicOption(
                ("--explain",),
                "show which layer and file set PATH",
                takes="PATH",
                offers="path",
                parse=_keep_text,
            ),
            make_directive_option(
                "unset",
                ("--unset",),
                "remove the value that this conversation set at PATH",
                takes="PATH",
                offers="path",
            ),
            make_directive_option(
                "cfg", ("-c", "--cfg"), "apply a configuration file", takes="X", offers="change"
            ),
            NO_CFG_OPTION,
            MagicOption(
                ("--user",),
                "save the change in your user configuration, for all notebooks",
                beside="PATH=VALUE",
            ),
            MagicOption(
                ("--workspace",),
                "save the change in the configuration of this workspace",
                beside="PATH=VALUE",
            ),
        ),
    ),
    Subcommand(
        "tools",
        "list the tools that the model can call, or describe one",
        "commands.tools:show_tools",
        takes="[NAME]",
        takes_description="the name of one tool or toolset",
        offers="tool or toolset",
        options=(
            MagicOption(
                ("--forget",),
                "forget the rule N that you kept about the tool",
                takes="N",
                beside="NAME",
            ),
        ),
    ),
    Subcommand(
        "log",
        "show the last turns, and list the other conversations of this notebook",
        "commands.reports:show_turns",
        takes="[N]",
        takes_description="a number of turns",
    ),
    Subcommand(
        "qna",
        "show or search the answered questions of this notebook and its workspace",
        "commands.answered_questions:run_qna",
        takes="[list | get ID | search TEXT… | import FILE]",
        verbs={"list": None, "get": "answer", "search": None, "import": "file"},
        options=(MagicOption(("--limit",), "show the newest N questions", takes="N"),),
    ),
    Subcommand(
        "models",
        "list the models of a provider or local server, by default the current one",
        "commands.models_command:list_models",
        takes="[PROVIDER [WORD…]]",
        takes_description="a provider and words to search for",
        offers="provider",
        options=(MagicOption(("--refresh",), "request the list again"),),
    ),
    Subcommand(
        "mcp",
        "show the MCP servers and their state, show the stderr of one, end one so that it starts "
        "again, show a resource, add those of other applications, or sign in to one",
        "commands.mcp:run_mcp",
        takes="[list | log NAME | restart NAME | read [NAME] URI | import [FILE] | sign-in NAME | "
        "sign-out NAME]",
        takes_description="a verb and its words",
        verbs={
            "list": None,
            "log": "server",
            "restart": "server",
            "read": "server",
            "import": "file",
            "sign-in": "server",
            "sign-out": "server",
        },
    ),
    Subcommand(
        "cassette",
        "record model responses to a file or replay them; without arguments, show the status",
        "commands.cassette_command:run_cassette_command",
        takes="[record | replay | replay-or-record [FILE] | off]",
        takes_description="a mode and a file",
        verbs={"record": "file", "replay": "file", "replay-or-record": "file", "off": None},
        options=(
            MagicOption(
                ("--tools",),
                "run the tools in a replay, or use their recorded results",
                takes="run|recorded",
                choices=("run", "recorded"),
            ),
        ),
    ),
    Subcommand(
        "usage",
        "show the tokens used, by request and by model",
        "commands.reports:show_usage",
        takes="[N]",
        takes_description="a number of turns",
        options=(
            MagicOption(("--count",), "ask the server how many tokens the next request has"),
            MagicOption(("--why",), "show the reasoning that models did not get"),
        ),
    ),
    Subcommand(
        "timeline",
        "show the requests and tools of a turn along the time, by default of the last one",
        "commands.reports:show_timeline",
        takes="[TURN]",
        takes_description="the number of a turn",
        offers="turn",
    ),
    Subcommand(
        "call",
        "run a tool as in a turn, but outside of the conversation",
        "commands.bench_commands:try_tool",
        takes="NAME [ARGUMENT=VALUE… | JSON]",
        offers="tool",
        is_text=True,
        options=(
            MagicOption(("--last",), "use the arguments of the model's last call"),
            MagicOption(("--id",), "use the arguments of the call with this id", takes="CALL_ID"),
        ),
    ),
    Subcommand(
        "request",
        "show a request to the model: the last one, that of turn N, or the next one",
        "commands.request_command:show_request",
        takes="[N…]",
        takes_description="the number of a turn (3), of one of its requests (3.1), or `next`",
        offers="turn",
        options=(
            MagicOption(
                ("--diff",),
                "compare two requests: their common beginning and the differences",
                beside="N M",
            ),
            MagicOption(("--full",), "show all messages in full"),
            MagicOption(("--json",), "print the body as JSON"),
            MagicOption(
                ("--curl",), "print a `curl` command that sends the request again, without the key"
            ),
            MagicOption(
                ("-o", "--out"), "bind the request to the variable NAME, as a dict", takes="NAME"
            ),
        ),
    ),
    Subcommand(
        "why",
        "ask the model to explain the last error; TEXT is an additional question",
        "commands.ask_commands:explain_error",
        takes="[TEXT]",
        is_text=True,
    ),
    Subcommand(
        "fix",
        "ask the model to explain the last error, and to propose an edit of the "
        "cell; TEXT is a hint",
        "commands.ask_commands:fix_error",
        takes="[TEXT]",
        is_text=True,
    ),
    Subcommand(
        "retry",
        "ask the last request again, in a branch without the last turn",
        "commands.ask_commands:retry_turn",
        takes_description="only `-m MODEL`",
        options=(
            MagicOption(
                ("-m", "--model"),
                "use this model, also for later turns",
                takes="MODEL",
                offers="model",
            ),
        ),
    ),
    Subcommand(
        "resume",
        "continue an interrupted turn, or recover a conversation from the journal "
        "of an earlier kernel",
        "commands.ask_commands:resume_turn",
        takes="[ID]",
        takes_description="the id of a conversation in a journal",
    ),
    Subcommand(
        "code",
        "insert a code block of the last answer as a new cell, without running it",
        "commands.code_cells:insert_code",
        takes="[N]",
        takes_description="the number of a code block",
        options=(
            MagicOption(
                ("--call",),
                "insert a tool call as Python code; without an id, the last call",
                takes="[CALL_ID]",
                parse=_keep_text,
            ),
        ),
    ),
    Subcommand(
        "replay",
        "run the tool calls of a turn again, and compare the results",
        "commands.bench_commands:replay_calls",
        takes="[N]",
        takes_description="the number of a turn",
        offers="turn",
        options=(
            MagicOption(("--ask",), "ask the questions of the tools again"),
            MagicOption(("--strict",), "fail the cell if a result differs"),
        ),
    ),
    Subcommand(
        "new",
        "start a new conversation in this notebook",
        "commands.conversation_commands:start_conversation",
        options=(
            MagicOption(("--keep-config",), "start it with the settings of this conversation"),
        ),
    ),
    Subcommand(
        "fork",
        "copy the conversation up to a turn, and continue in the copy",
        "commands.conversation_commands:fork_at_turn",
        takes="[TURN]",
        takes_description="the number of the last turn to keep",
        offers="turn",
    ),
    Subcommand(
        "compact",
        "make the context smaller; the record keeps every entry",
        "commands.compact_command:compact_context",
        takes_description="only options",
        options=(
            MagicOption(("--undo",), "undo the last compaction"),
            MagicOption(("--dry-run",), "show the resulting context, and change nothing"),
            MagicOption(("-s", "--summarize"), "have a model summarize the turns"),
            MagicOption(("-r", "--reasoning"), "omit reasoning"),
            MagicOption(
                ("-t", "--tools"),
                "omit the arguments and results of tool calls; with `omit` the calls as well",
                takes="[strip|strip-requests|strip-responses|omit]",
                parse=lambda _, mode: mode or "strip",
            ),
            MagicOption(
                ("-m", "--model"),
                "write the summary with this model",
                takes="MODEL",
                offers="model",
            ),
            MagicOption(
                ("--from",),
                "the first turn to compact: its number in `%jp log`, `-N` "
                "from the end, `5h` ago, or `last` (after the last compaction)",
                takes="TURN",
                offers="turn",
                into="first",
            ),
            MagicOption(
                ("--to",), "the last turn to compact", takes="TURN", offers="turn", into="last"
            ),
            MagicOption(("--keep-first",), "keep the first N turns unchanged", takes="N"),
            MagicOption(("--keep-last",), "keep the last N turns unchanged", takes="N"),
            make_directive_option(
                "cfg",
                ("-c", "--cfg"),
                "apply a setting or a configuration file to this compaction only",
                takes="X",
                offers="change",
            ),
        ),
    ),
    Subcommand(
        "undo", "continue without the last turn", "commands.conversation_commands:undo_turn"
    ),
    Subcommand(
        "revert",
        "take back the edits of cells that a turn has applied, after a review",
        "commands.revert_command:revert_edits",
        takes="[TURN]",
        takes_description="the number of a turn",
        offers="turn",
    ),
    Subcommand(
        "switch",
        "switch to another conversation; without an id, list all",
        "commands.conversation_commands:switch_to_conversation",
        takes="[ID]",
        takes_description="the id of a conversation",
        offers="conversation",
    ),
    Subcommand(
        "drop",
        "delete a conversation from this notebook permanently",
        "commands.conversation_commands:drop_stored_conversation",
        takes="ID",
        takes_description="the full id of a conversation",
        offers="stored conversation",
    ),
    Subcommand(
        "save",
        "save the record now",
        "commands.conversation_files:save_record",
        takes_description="no arguments (`%jp export DIR` writes a conversation to a directory)",
    ),
    Subcommand(
        "export",
        "write the conversation to a directory in JP's format",
        "commands.conversation_files:export_to_directory",
        takes="DIR",
        takes_description="the name of a directory",
        offers="folder",
        options=(
            MagicOption(
                ("--dialect",),
                "write `native`, the format of jp_nb, or `jp-head`, which JP reads",
                takes="native|jp-head",
                choices=("native", "jp-head"),
            ),
        ),
    ),
    Subcommand(
        "import",
        "continue with a conversation from a JP directory",
        "commands.conversation_files:import_from_directory",
        takes="DIR",
        takes_description="a JP conversation directory",
        offers="folder",
    ),
    Subcommand(
        "trust",
        "trust the settings in this notebook's record",
        "commands.trust_command:run_trust_command",
        options=(
            MagicOption(
                ("--workspace",),
                "trust the configuration files of this folder, and a moved project",
            ),
            MagicOption(("--yes",), "skip the confirmation"),
            MagicOption(("--revoke",), "withdraw your trust"),
        ),
    ),
    Subcommand(
        "doctor",
        "check the setup: what works here, and why something does not",
        "commands.setup_checks:show_checks",
    ),
)

SUBCOMMANDS: Final[Mapping[str, Subcommand]] = {each.name: each for each in _TABLE}
"""Subcommands by name, in the order of the help."""
