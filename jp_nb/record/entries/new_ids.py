"""Make the ids of new conversations, entries, and widgets.

The id of a conversation is made of the time. Those of entries are random, or they are reproducible:
they then depend only on the epoch of a `ReproducibleClock`, the conversation, and the number of the
entry. So a run that is repeated makes the same record. Ids of widgets are always reproducible.

Source: `docs/record.md`, `docs/decisions.md` D119.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Final

from jp_nb.record.entries.clock import Clock, ReproducibleClock

IdFactory = Callable[[], str]
"""Returns a new id of an entry."""

_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_LENGTH: Final = 7


def make_conversation_id(moment: datetime, taken_ids: Iterable[str] = ()) -> str:
    """Return an id in JP's form, `jp-c` and the tenths of a second from 1970 to `moment`.

    If it is one of `taken_ids`, return the next one that is not.
    """
    taken = set(taken_ids)
    tenths = int(moment.timestamp() * 10)
    candidates = (f"jp-c{number}" for number in count(tenths))
    return next(candidate for candidate in candidates if candidate not in taken)


def make_id_factory(clock: Clock, conversation: str) -> IdFactory:
    """Return the factory for ids of entries in one conversation.

    The ids are reproducible if `clock` is. `conversation` is the id of the conversation: the
    entries of two conversations get different ids.
    """
    if not isinstance(clock, ReproducibleClock):
        return make_random_id
    return partial(_derive_next_id, clock, conversation, numbers=count())


def make_random_id() -> str:
    """Return seven random lowercase letters and digits."""
    return _encode_id(secrets.randbits(64))


def derive_widget_id(clock: ReproducibleClock, number: int) -> str:
    """Return the id of carrier `number`, in the form of ipywidgets. The ids sort by number.

    A *carrier* is a widget whose state stores the record of a headless run (`carrier.py`).
    """
    same_for_run = _derive_number(clock, "carrier") % 16**28
    return f"{same_for_run:028x}{number:04x}"


def _derive_next_id(clock: ReproducibleClock, conversation: str, numbers: count[int]) -> str:
    return _encode_id(_derive_number(clock, f"{conversation} {next(numbers)}"))


def _derive_number(clock: ReproducibleClock, of: str) -> int:
    text = f"{clock.epoch:%Y-%m-%d %H:%M:%S} {of}"
    return int.from_bytes(sha256(text.encode("ascii", "backslashreplace")).digest())


def _encode_id(number: int) -> str:
    """Return the last seven digits of `number` in base 36, in reverse order."""
    digits = ""
    for _ in range(_LENGTH):
        number, digit = divmod(number, 36)
        digits += _ALPHABET[digit]
    return digits
