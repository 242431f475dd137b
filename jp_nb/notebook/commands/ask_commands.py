"""Run `%%jp`, and the subcommands of `%jp` that ask the model.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from typing import Any

from jp_nb.config.directives import parse_tool_choice
from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation, read_variable_name, report_cancellation
from jp_nb.notebook.commands.line_parser import parse_ask_options
from jp_nb.record.reading.turn_view import Turn
from jp_nb.session.session import Session
from jp_nb.text import plain


def send_request(shell: Any, session: Session, line: str, cell: str) -> None:
    """Run `%%jp`: send the request `cell` to the model, with the options in `line`."""
    options = parse_ask_options(line)
    options.out = read_variable_name(options.out)

    if options.each is not None:
        from jp_nb.notebook.commands.each_row import ask_each_row  # few cells need it

        ask_each_row(shell, session, options, cell)
        return
    if options.cache is not None:
        raise UsageError("`--cache` keeps the answers of `--each`. A turn is in the record.")

    def bind_turn(turn: Turn) -> None:
        """Bind the turn to the name of `-o`. It is called when the turn ends, also if it fails."""
        if options.out is not None:
            shell.user_ns[options.out] = turn

    with report_cancellation():
        session.turns.run(
            cell,
            model=options.model,
            directives=options.directives,
            new=options.new,
            schema=options.schema,
            tool_choice=parse_tool_choice(*options.tool_uses),
            strict=options.strict,
            compact=options.compact,
            plan=options.plan,
            keep=bind_turn,
        )


def ask_in_one_line(call: Invocation) -> None:
    """Run `%jp q`: send the rest of the line to the model."""
    if not call.text:
        raise UsageError(f"The request is empty. Usage: `{call.subcommand.usage}`")
    with report_cancellation():
        call.session.turns.run(call.text)


def explain_error(call: Invocation) -> None:
    """Run `%jp why`: ask the model to explain the last error."""
    from jp_nb.session.turns.error_explanation import ErrorExplanation

    with report_cancellation():
        ErrorExplanation(call.session).run(call.text)


def fix_error(call: Invocation) -> None:
    """Run `%jp fix`: ask the model to explain the last error, and to propose an edit."""
    from jp_nb.session.turns.error_explanation import ErrorExplanation

    with report_cancellation():
        ErrorExplanation(call.session).fix(call.text)


def retry_turn(call: Invocation) -> None:
    """Run `%jp retry`: ask the last request again, in a branch without the last turn."""
    from jp_nb.session.past_turns.turn_retry import TurnRetry

    TurnRetry(call.session).run(model=call.options.model)


def resume_turn(call: Invocation) -> None:
    """Run `%jp resume`: continue the last turn, or recover a conversation from a journal."""
    from jp_nb.session.past_turns.resume import TurnResumption

    with report_cancellation():
        resumed = TurnResumption(call.session).run(call.word or "")
        if resumed is None:  # no turn was continued, but a conversation of the journal is active
            print(f"jp_nb: {plain(call.session.format_status())}")
