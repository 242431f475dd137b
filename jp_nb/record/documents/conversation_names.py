"""The names by which the user selects a conversation of a notebook.

A name is the stored id of a conversation. Stored ids may occur twice, because a notebook may be
merged or damaged: later ones get a number, such as `jp-c17~2`. The first name is always that of the
active conversation.

Source: `docs/guide.md`, `docs/decisions.md` D18.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from jp_nb.errors import UsageError
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_shape import get_conversation_id
from jp_nb.text import MAX_FEW_NAMES

_DAMAGED = "damaged"
"""The name of a conversation without an id."""
_ORDINARY = re.compile(r"[A-Za-z0-9_.~-]{1,64}")


def make_unique_names(document: Document) -> list[str]:
    """Return a name for the active conversation, and for each of `others` in their order."""
    others = (get_conversation_id(entry) or _DAMAGED for entry in document.others)
    stored = [document.conversation.id, *others]
    taken = set(stored)

    numbers: dict[str, int] = {}  # by stored id: the number in the last name that was made of it
    names = []

    for identifier in stored:
        name = identifier
        number = numbers.get(identifier, 0) + 1
        # The first one keeps its id. `jp-c1~2` may also be the id of another conversation.
        while number > 1 and (name := f"{identifier}~{number}") in taken:
            number += 1

        numbers[identifier] = number
        taken.add(name)
        names.append(name)

    return names


def find_name_index(names: Sequence[str], text: str) -> int:
    """Return the index of the name that is `text`, or the only one that begins or ends with it.

    Raises:
        UsageError: No name matches, or several do. The message has the nearest names.
    """
    if text in names:
        return names.index(text)

    fitting = [name for name in names if text and (name.startswith(text) or name.endswith(text))]
    if len(fitting) == 1:
        return names.index(fitting[0])
    if fitting:
        shown = ", ".join(map(quote_name, fitting[:MAX_FEW_NAMES]))
        more = len(fitting) - MAX_FEW_NAMES
        if more > 0:
            shown = f"{shown} and {more} more"

        raise UsageError(
            f"several conversations match {quote_name(text)}: {shown}. Give more of the id"
        )

    raise UsageError(
        f"there is no conversation {quote_name(text)}: {suggest_names(names, text)}`%jp log` lists "
        "the conversations"
    )


def suggest_names(names: Sequence[str], text: str) -> str:
    """Return a question for an error message, with the names similar to `text`; "" if none is."""
    near = difflib.get_close_matches(text[:200], names, n=3)
    return f"did you mean {' or '.join(map(quote_name, near))}? " if near else ""


def quote_name(name: str) -> str:
    """Return an id for a message. An untrusted one may be long or have control characters."""
    if _ORDINARY.fullmatch(name):
        return f"`{name}`"
    if len(name) > 64:
        name = f"{name[:63]}…"
    return ascii(name)
