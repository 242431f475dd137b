"""The values of the names in failed lines, for the model.

An error has a chain: the exceptions that led to it, the newest last. Each has its calls, which have
the frame with the variables, and the place of the failed line (`ErrorCall`).

Secrets are hidden in three ways: a whole value by its name or form (`NotebookSecrets.name`), parts
of a value while it is described (`privacy`), and secrets in the finished text (`hide_in_text`).

Source: `docs/guide.md`, `docs/decisions.md` D85, D99.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jp_nb.config.secrets.api_keys import looks_like_secret
from jp_nb.config.secrets.replacements import NOT_SHOWN
from jp_nb.session.turns.code_places import CodePlaces
from jp_nb.session.turns.error_chain import ChainedError
from jp_nb.session.turns.error_secrets import hide_in_text
from jp_nb.session.turns.error_traceback import ErrorCall, list_error_calls
from jp_nb.session.turns.failed_code import format_omitted
from jp_nb.session.turns.failed_names import iter_named_values
from jp_nb.text import one_line
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets
from jp_nb.values.base import ValueBudget
from jp_nb.values.describe import describe

MAX_NAMES = 24  # limit of the names with values, nearest to the exception first
FRAMES_WITH_NAMES = 3  # number of the last calls in user code whose names have values
MAX_VALUE = 800  # limit of the characters of a value


class NamedValue(NamedTuple):
    """A name in a failed line, the location of the line, and its value."""

    name: str
    location: str
    value: object


def list_named_values(chain: Sequence[ChainedError], places: CodePlaces) -> list[NamedValue]:
    """Return the values of names in failed lines of own code, the nearest to the error first.

    A name with the same value is listed once, and `MAX_NAMES` names at most.
    """
    seen: set[tuple[str, int]] = set()
    values: list[NamedValue] = []

    for frame, summary in _iter_nearest_calls(chain, places):
        for name, value in iter_named_values(frame, summary):
            if (name, id(value)) in seen:
                continue
            if len(values) == MAX_NAMES:
                return values

            seen.add((name, id(value)))
            values.append(NamedValue(name, places.format_location(summary), value))

    return values


def _iter_nearest_calls(chain: Sequence[ChainedError], places: CodePlaces) -> Iterator[ErrorCall]:
    """Yield the last calls of own code, of each exception from the newest one on.

    A call has one failed line. The line of the last call raised the exception.
    """
    for error, _ in reversed(chain):
        calls = list_error_calls(error, places)
        own_calls = [call for call in calls if places.is_own(call.summary.filename)]
        yield from reversed(own_calls[-FRAMES_WITH_NAMES:])


def format_named_values(
    values: Sequence[NamedValue], hide: NotebookSecrets, room: int
) -> list[str]:
    """Return a line for each of `values` in about `room` characters; the last ones are counted."""
    lines: list[str] = []
    for index, (name, location, value) in enumerate(values):
        shown = _format_value(name, value, hide, min(MAX_VALUE, room))
        text = f"{name} ({one_line(location)}): {shown}"
        room -= len(text) + 1
        if room < 0:
            lines += format_omitted(len(values) - index, "name")
            break
        lines.append(text)
    return lines


def _format_value(name: str, value: object, hide: NotebookSecrets, room: int) -> str:
    """Return the description of a value, or a placeholder if it may be a secret."""
    hidden = hide.name(name, value)  # of a whole value that is secret; None for others
    if hidden is not None:
        return hidden

    # Values in a failed line are more often secrets than other values. So a short text in one
    # word is also hidden if it only looks like a key.
    if isinstance(value, str | bytes) and len(value) < MAX_VALUE:
        text = value if isinstance(value, str) else value.decode(errors="replace")
        is_word = len(text.split()) == 1
        if is_word and looks_like_secret(text):
            return NOT_SHOWN

    budget = ValueBudget(chars=max(room, 1), images=0, privacy=hide)
    return hide_in_text(describe(value, budget).text, hide)
