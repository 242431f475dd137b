"""Subcommand `%jp request`: show a request to the model, compare two, or export one.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation, read_variable_name
from jp_nb.notebook.commands.line_parser import make_usage_error
from jp_nb.rendering.reports.curl_command import format_body, format_curl_command
from jp_nb.rendering.reports.request_difference import render_request_difference
from jp_nb.rendering.reports.request_text import describe_key, render_request
from jp_nb.session.past_turns.traced_requests import TracedRequests

MAX_PRINTED_CHARS = 200_000
"""Limit of characters of a request that a cell shows without `--full`."""


def show_request(call: Invocation) -> None:
    """Run `%jp request`: show a request, compare two, or export one."""
    options = call.options
    _validate_request_options(call)
    variable = read_variable_name(options.out)
    requests = TracedRequests(call.session.active, call.session.turns)
    if options.diff:
        call.show(render_request_difference(*requests.find_pair(tuple(options.words))))
        return

    request = requests.find(call.word)  # the last one without a word
    if variable is not None:
        call.shell.user_ns[variable] = {
            "name": request.name,
            "model": request.model,
            "how": request.remarks[0],
            "method": request.sent.method,
            "url": request.sent.url,
            "headers": dict(request.sent.headers),
            "key": describe_key(request.sent),
            "body": request.body,
            "estimated_tokens": dict(request.estimated_tokens),
        }
        print(f"jp_nb: The variable `{variable}` holds request {request.name}")
    elif options.json or options.curl:
        printed = format_body(request) if options.json else format_curl_command(request)
        if len(printed) > MAX_PRINTED_CHARS and not options.full:
            raise UsageError(
                f"The request is too long to print here ({len(printed):,} characters). "
                f"`%jp request {request.name} -o NAME` binds it to a variable; `--full` prints it."
            )

        print(printed)
    else:
        call.show(render_request(request, full=options.full))


def _validate_request_options(call: Invocation) -> None:
    """Raise `UsageError` if two options exclude each other, or there are too many words."""
    options = call.options
    flags = {"--diff": options.diff, "--curl": options.curl, "--json": options.json}
    flags["-o"] = options.out is not None
    used = [flag for flag, is_set in flags.items() if is_set]
    if len(used) > 1:
        raise UsageError(f"Use only one of {' and '.join(used)}. Usage: `{call.subcommand.usage}`")

    most_words = 2 if options.diff else 1
    if len(options.words) > most_words:
        raise make_usage_error(call.subcommand, call.text)
