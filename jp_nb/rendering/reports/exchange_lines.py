"""Describe recorded exchanges of a cassette: their number, and each one in a line.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import sys

from jp_nb.config.secrets.secret_hiding import hide_secrets
from jp_nb.storage.cassettes.cassette_content import CassetteContent, StoredExchange
from jp_nb.text import one_line, plain, pluralize


def format_exchange_count(count: int) -> str:
    """Return the count as words, such as `1 exchange` or `2 exchanges`."""
    return f"{count:,} {pluralize('exchange', count)}"


def describe_exchange(cassette: CassetteContent, exchange: StoredExchange) -> str:
    """Return line, model, and last message of `exchange`: `line 7, anthropic/opus: Hello`."""
    model = f"{exchange.summary['provider']}/{exchange.summary['model']}"
    last = cassette.parts.get(("message", exchange.last_message))
    text = ""
    if last is not None:
        text = str(last.value.get("text") or last.value.get("name") or "")

    # Before the text is cut, because a part of a key is not recognized as a key.
    hidden = hide_secrets(plain(text, limit=sys.maxsize))
    return f"line {exchange.line}, {one_line(model)}: {one_line(hidden, limit=60)}"
