"""The messages between kernel and page, as a table: their senders and fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Fits = Callable[[Any], bool]


def _is(*kinds: type) -> Fits:
    return lambda value: isinstance(value, kinds) and (bool in kinds or value is not True)


NUMBER = _is(int)
TEXT = _is(str)
FLAG = _is(bool)
LIST = _is(list)
OBJECT = _is(dict)
ANY: Fits = lambda value: True  # noqa: E731

OF_ALL: Mapping[str, Mapping[str, Fits]] = {
    "kernel": {"type": TEXT, "v": NUMBER, "seq": NUMBER, "ctl": FLAG, "path": TEXT},
    "page": {"type": TEXT, "v": NUMBER, "page": TEXT},
}
FIELDS: Mapping[str, Mapping[str, Mapping[str, Fits]]] = {
    "kernel": {
        "open": {"stream": TEXT, "n": NUMBER},
        "append": {"to?": TEXT, "stream": TEXT, "base": NUMBER, "events": LIST, "head?": OBJECT},
        "switch": {"to?": TEXT, "doc": OBJECT},
        "exchange": {"to?": TEXT, "doc": OBJECT, "kept": LIST},
        "chunk": {"to?": TEXT, "id": NUMBER, "i": NUMBER, "of": NUMBER, "text": TEXT},
        "pull": {},
        "save": {"to": TEXT},
        "cells": {"to": TEXT, "whole": ANY},
        "document": {"to": TEXT},
        "edit": {"to": TEXT, "operation": TEXT, "steps": LIST, "expected": LIST},
        "show": {
            "to": TEXT,
            "puts?": FLAG,
            "over?": FLAG,
            "request": TEXT,
            "cell": TEXT,
            "code": TEXT,
            "outputs": LIST,
        },
        "input": {"request": TEXT},
        "ended": {
            "request": TEXT,
            "cell": TEXT,
            "seconds": NUMBER,
            "sent": ANY,
            "received": ANY,
        },
    },
    "page": {
        "hello": {
            "path": TEXT,
            "readOnly": FLAG,
            "collaborative": FLAG,
            "stream": TEXT,
            "n": NUMBER,
            "doc?": ANY,
            "chunks?": NUMBER,
            "tells": LIST,
            "client": TEXT,
            "session?": TEXT,
            "user?": TEXT,
        },
        "bye": {},
        "chunk": {"i": NUMBER, "of": NUMBER, "text": TEXT},
        "ack": {"seq": NUMBER, "stream": TEXT, "n": NUMBER, "dirty": FLAG},
        "nack": {"seq": NUMBER, "stream": TEXT, "n": NUMBER, "why?": TEXT},
        "saved": {"seq?": NUMBER, "stream?": TEXT, "n?": NUMBER},
        "cells": {"seq": NUMBER, "i": NUMBER, "of": NUMBER, "text": TEXT},
        "want": {"request": TEXT},
        "seen": {"request": TEXT},
        "input": {"seq": NUMBER, "can": FLAG},
        "save_failed": {"seq": NUMBER, "why": TEXT},
    },
}


def misfits(sender: str, message: Mapping[str, Any]) -> list[str]:
    """Return the differences between `message` and the table."""
    fields = FIELDS[sender].get(message.get("type", ""))
    if fields is None:
        return [f"{sender} sends {message.get('type')!r}"]
    wanted = {**OF_ALL[sender], **fields}
    names = {name.removesuffix("?") for name in wanted}
    found = [f"{message['type']}: {name} is not in the table" for name in message.keys() - names]
    for name, fits in wanted.items():
        plain = name.removesuffix("?")
        if plain not in message:
            found += [] if name != plain else [f"{message['type']}: {name} is missing"]
        elif not fits(message[plain]):
            found.append(f"{message['type']}: {plain} is {message[plain]!r}")
    return found
