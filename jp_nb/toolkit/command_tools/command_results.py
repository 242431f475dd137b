"""Make the outcome of a command that exited: what it printed as JSON, or its text and exit status.

A printed outcome says itself if it is a failure (`outcome_reading.py`). The exit status decides
only about text.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import signal
from typing import Final

from jp_nb.json_writing import compact_json
from jp_nb.toolkit.command_tools.outcome_reading import read_outcome
from jp_nb.toolkit.command_tools.processes import ProcessRun
from jp_nb.toolkit.outcome import Outcome, Success, ToolFailure
from jp_nb.toolkit.truncation import keep_end

SHELL_SIGNALS: Final = 128  # a shell adds this number to the signal that ended its command
_SHELL_CODES: Final = {126: "it is not executable", 127: "the command was not found"}


def read_command_result(process_run: ProcessRun, subject: str, *, shell: bool) -> Outcome:
    """Return the outcome that the command printed, or one for its text and its exit status.

    Messages about a failure begin with `subject`. `shell` is True if a shell ran the command.
    """
    outcome = read_outcome(process_run.stdout)  # None for any other text
    if isinstance(outcome, ToolFailure):
        return _make_reported_failure(outcome, process_run.stdout)
    if outcome is not None:
        return outcome

    if process_run.exit_code == 0:
        return Success(process_run.stdout)
    return _make_exit_failure(process_run, subject, shell=shell)


def _make_reported_failure(outcome: ToolFailure, stdout: str) -> ToolFailure:
    """Return the failure that a command printed as JSON. The model reads JSON, as in JP."""
    if not outcome.transient:
        return ToolFailure(stdout)

    # `"transient": true` is removed: advice to try again belongs into the message (RFD 083).
    details = {"message": outcome.message, "trace": list(outcome.trace)}
    return ToolFailure(compact_json(details))


def _make_exit_failure(process_run: ProcessRun, subject: str, *, shell: bool) -> ToolFailure:
    """Return the failure of a command that exited with an error, with its output."""
    stderr = process_run.stderr.strip()
    stdout = process_run.stdout.strip()

    last_line = stderr.rpartition("\n")[2].strip()
    summary = f": {last_line}" if 0 < len(last_line) <= 200 else "."  # a longer one is no summary
    parts = [f"{subject} {_format_exit(process_run.exit_code, shell=shell)}{summary}"]

    if stderr and summary != f": {stderr}":
        parts.append(_format_printed("stderr", stderr))
    if stdout:
        parts.append(_format_printed("stdout", stdout))

    return ToolFailure("\n\n".join(parts))


def _format_exit(code: int, *, shell: bool) -> str:
    """Return the end of a process in words. asyncio has a signal as a negative `code`."""
    if code < 0:
        return f"was ended by {_format_signal(-code)}"

    meaning = ""
    if shell and code in _SHELL_CODES:
        meaning = f" ({_SHELL_CODES[code]})"
    elif shell and code - SHELL_SIGNALS in set(signal.Signals):
        meaning = f" (as if by {_format_signal(code - SHELL_SIGNALS)})"
    return f"failed with exit status {code}{meaning}"


def _format_signal(number: int) -> str:
    name = f", {signal.Signals(number).name}" if number in set(signal.Signals) else ""
    return f"signal {number}{name}"


def _format_printed(name: str, text: str) -> str:
    """Return the end of `stdout` or `stderr`, below its name."""
    end = keep_end(text, 10_000)  # the end usually has the error
    omitted_count = len(text) - len(end)
    note = f" (without its first {omitted_count} characters)" if omitted_count else ""
    return f"{name}{note}:\n{end}"
