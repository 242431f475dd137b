r"""The curl command line that sends a request to a model again: `%jp request --curl`.

The command reads the API key from its variable, and the body from a here-document, such as:

    curl -gsSN -X POST https://api.example/v1/chat \
      -H "authorization: Bearer $EXAMPLE_KEY" \
      --data-binary @- <<'END_OF_BODY'

Source: `docs/guide.md`, https://curl.se/docs/manpage.html.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from jp_nb.agent.provider import SentRequest
from jp_nb.errors import UsageError
from jp_nb.exact_form import escape_invisible
from jp_nb.json_writing import compact_json
from jp_nb.rendering.reports.traced_request import TracedRequest
from jp_nb.text import one_line

END_OF_BODY: Final = "END_OF_BODY"
NOT_EXACT: Final = "# Secrets were replaced by placeholders: insert them before you send it."
_VARIABLE: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_HEADER_CHARS: Final = 2_000


def format_body(traced: TracedRequest) -> str:
    """Return the body as JSON in one line, with secrets masked and invisible characters escaped."""
    return escape_invisible(compact_json(traced.body))


def format_curl_command(traced: TracedRequest) -> str:
    """Return the command line that sends `traced` again.

    Raises:
        UsageError: The request is not sent over HTTP.
    """
    sent = traced.sent
    if not sent.method:
        raise UsageError(
            f"request {traced.name} is sent to {one_line(sent.url)}, not over HTTP: "
            "`%jp request --json` shows its content"
        )

    # `traced.body` has secret parameters masked, and then differs from the sent body.
    is_masked = compact_json(traced.body).encode("utf-8", "replace") != sent.body
    is_exact = sent.is_exact and not is_masked
    lines = [] if is_exact else [NOT_EXACT]
    lines.append(" \\\n  ".join(_list_curl_arguments(sent)))

    # JSON escapes line breaks, so the body cannot contain the end marker.
    return "\n".join([*lines, format_body(traced), END_OF_BODY])


def _list_curl_arguments(sent: SentRequest) -> Iterator[str]:
    """Yield the parts of the command line, each for its own line."""
    # -g: curl must not expand brackets in the address. -sSN: only errors, and the response at once.
    yield f"curl -gsSN -X {sent.method} {shlex.quote(one_line(sent.url, limit=_HEADER_CHARS))}"
    for name, value in sent.headers.items():
        header = one_line(f"{name}: {value}", limit=_HEADER_CHARS)
        yield f"-H {shlex.quote(header)}"

    if (key := sent.key) is not None:
        if not _VARIABLE.fullmatch(key.variable):
            raise UsageError(
                f"a shell cannot read the variable {one_line(key.variable, limit=60)!r}, which "
                "holds the API key: choose another name and set it in `api_key_env`"
            )
        # In double quotes, the shell replaces the variable with the key.
        yield f'-H "{key.header}: {key.before}${key.variable}"'

    yield f"--data-binary @- <<'{END_OF_BODY}'"
