"""What a cassette holds, in words.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import sys

from jp_nb.config.secret_names import without_secrets
from jp_nb.safe_text import one_line, plain
from jp_nb.workspace.cassette_file import CassetteContent, OnFile

MAX_CHARS = 60


def exchanges(count: int) -> str:
    """Return `1 exchange`, `2 exchanges`."""
    return f"{count:,} exchange{'' if count == 1 else 's'}"


def exchange_in_words(cassette: CassetteContent, exchange: OnFile) -> str:
    """Return where `exchange` is and what was asked: `line 7, anthropic/opus: "Hello"`."""
    model = f"{exchange.summary['provider']}/{exchange.summary['model']}"
    last = cassette.parts.get(("message", exchange.last_message))
    said = "" if last is None else str(last.value.get("text") or last.value.get("name") or "")
    hidden = without_secrets(plain(said, limit=sys.maxsize))  # the beginning of a key is none
    return f"line {exchange.line}, {one_line(model)}: {one_line(hidden, limit=MAX_CHARS)}"
