"""A request as a command line for `curl`, which reads the key from its variable.

Source: `docs/guide.md`; https://curl.se/docs/manpage.html
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from jp_nb.agent.model_events import KeyReference, SentRequest
from jp_nb.errors import UsageError
from jp_nb.json_values import compact_json
from jp_nb.rendering.traced_request import TracedRequest
from jp_nb.safe_text import escape_unseen, one_line

END_OF_BODY: Final = "END_OF_BODY"
NOT_EXACT: Final = "# Secrets were replaced by placeholders: insert them before you send it."
_VARIABLE: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_HEADER_CHARS: Final = 2_000


def body_text(traced: TracedRequest) -> str:
    """Return the body as JSON in one line, in which every character is seen; the value is exact."""
    return escape_unseen(compact_json(traced.body))


def curl_command(traced: TracedRequest) -> str:
    """Return the command line that sends `traced` again.

    Raises:
        UsageError: If it does not go over HTTP.
    """
    sent = traced.sent
    if not sent.method:
        raise UsageError(
            f"request {traced.name} is sent to {one_line(sent.url)}, not over HTTP: "
            "`%jp request --json` shows its content"
        )
    lines = [NOT_EXACT] if not sent.is_exact or _hides(traced) else []
    lines.append(" \\\n  ".join(_words(sent)))
    # A line break in JSON is escaped: no line of the body can end it.
    return "\n".join([*lines, body_text(traced), END_OF_BODY])


def _hides(traced: TracedRequest) -> bool:
    return compact_json(traced.body).encode("utf-8", "replace") != traced.sent.body


def _words(sent: SentRequest) -> Iterator[str]:
    # -g: brackets in the address mean themselves.
    yield f"curl -gsSN -X {sent.method} {shlex.quote(one_line(sent.url, limit=_HEADER_CHARS))}"
    for name, value in sent.headers.items():
        header = one_line(f"{name}: {value}", limit=_HEADER_CHARS)
        yield f"-H {shlex.quote(header)}"
    if sent.key is not None:
        yield f"-H {_key_header(sent.key)}"
    yield f"--data-binary @- <<'{END_OF_BODY}'"


def _key_header(key: KeyReference) -> str:
    """Return the header with the name of the variable; a shell puts the key there."""
    if not _VARIABLE.fullmatch(key.variable):
        raise UsageError(
            f"a shell cannot read the variable {one_line(key.variable, limit=60)!r}, which holds "
            "the API key: choose another name and set it in `api_key_env`"
        )
    return f'"{key.header}: {key.before}${key.variable}"'
