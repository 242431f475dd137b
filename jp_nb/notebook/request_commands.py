"""`%jp request`: what was sent to a model, or would be.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.notebook.commands import NOT_A_NAME, Invocation
from jp_nb.notebook.options import refusal
from jp_nb.rendering.curl_command import body_text, curl_command
from jp_nb.rendering.request_difference import request_difference
from jp_nb.rendering.request_report import key_in_words, request_report
from jp_nb.rendering.traced_request import TracedRequest
from jp_nb.session.past_requests import PastRequests

MAX_PRINTED = 200_000
"""Characters of a body that a cell shows unless it is to show everything."""


def request(call: Invocation) -> None:
    """Show a request, compare two, or print one for another program."""
    options = call.options
    _check(call)
    requests = PastRequests(call.session.active, call.session.turns)
    if options.diff:
        call.show(request_difference(*requests.two(tuple(options.words))))
        return
    found = requests.named(call.word)
    if options.out is not None:
        call.shell.user_ns[options.out] = as_dict(found)
        print(f"jp_nb: The variable `{options.out}` holds request {found.name}")
    elif options.json:
        print(_printable(found, body_text(found), full=options.full))
    elif options.curl:
        print(_printable(found, curl_command(found), full=options.full))
    else:
        call.show(request_report(found, full=options.full))


def _check(call: Invocation) -> None:
    """Refuse a line that means two things.

    Raises:
        UsageError: If it does.
    """
    options = call.options
    ways = [
        flag
        for flag, given in (
            ("--diff", options.diff),
            ("--curl", options.curl),
            ("--json", options.json),
            ("-o", options.out is not None),
        )
        if given
    ]
    if len(ways) > 1:
        raise UsageError(f"Use only one of {' and '.join(ways)}. Usage: `{call.subcommand.usage}`")
    if len(options.words) > (2 if options.diff else 1):
        raise refusal(call.subcommand, call.text)
    if options.out is not None and not options.out.isidentifier():
        raise UsageError(NOT_A_NAME.format(options.out))


def _printable(found: TracedRequest, text: str, *, full: bool) -> str:
    """Return `text` if a cell may hold it.

    Raises:
        UsageError: If it is long.
    """
    if full or len(text) <= MAX_PRINTED:
        return text
    raise UsageError(
        f"The request is too long to print here ({len(text):,} characters). "
        f"`%jp request {found.name} -o NAME` binds it to a variable; `--full` prints it."
    )


def as_dict(found: TracedRequest) -> dict[str, Any]:
    """Return `found` for a program.

    Shape:
        {"name": "3.1", "model": "anthropic/…", "how": "as it was sent", "method": "POST",
         "url": "https://…", "headers": {…}, "key": "x-api-key: (the variable …)", "body": {…},
         "estimated_tokens": {"tools": 0, "system": 12, "messages": 40, …}}
    """
    body: dict[str, JsonValue] = found.body
    return {
        "name": found.name,
        "model": found.model,
        "how": found.remarks[0],
        "method": found.sent.method,
        "url": found.sent.url,
        "headers": dict(found.sent.headers),
        "key": key_in_words(found.sent),
        "body": body,
        "estimated_tokens": dict(found.estimated),
    }
