"""The request that has a model explain an error.

Source: `docs/guide.md`, `docs/decisions.md` D99.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jp_nb.config.secret_names import NOT_SHOWN, looks_secret
from jp_nb.safe_text import one_line, plain
from jp_nb.session.last_error import FailedCall, LastError, Link, NamedValue
from jp_nb.tooling.known_secrets import KnownSecrets
from jp_nb.tooling.notebook_frame import DataSection, framed
from jp_nb.values.describing import describe
from jp_nb.values.description import ValueBudget

MAX_LINE = 400
"""Characters of a line of source."""
MAX_SAID = 2000
"""Characters of what an error says."""
MAX_VALUE = 800
"""Characters of the description of one value."""
SHORTEST_ROOM = 2000
"""Characters of the whole, however small it is configured to be."""

ASKED = "Explain this error and how to fix it."
_CAUSED = "The error above was the direct cause of the following error:"
_HANDLED = "During handling of the error above, another error occurred:"


def error_request(
    error: LastError, question: str = "", *, room: int, namespace: Mapping[str, Any]
) -> str:
    """Return the request: what is asked, the cell, the traceback, and the values of names in it.

    What is of the notebook is at most about `room` characters, is marked as data, and has no
    secrets in it, as far as those can be told by their names, their looks or the variables of
    `namespace` that hold them. Call it on the thread on which the values live.
    """
    return _Writer(error, namespace).request(question.strip() or ASKED, max(room, SHORTEST_ROOM))


class _Writer:
    """Writes what a model is told of `error`, without the secrets in `namespace`."""

    def __init__(self, error: LastError, namespace: Mapping[str, Any]) -> None:
        self._error = error
        known = {named.name: named.value for named in error.names}
        self._hide = KnownSecrets({**namespace, **known})

    def request(self, asked: str, room: int) -> str:
        calls = DataSection("traceback, most recent call last", self._traceback(room * 4 // 10))
        return framed(f"{asked}\n", [*self._cell(room * 3 // 10), calls, *self._names(room // 4)])

    def _cleared(self, text: str, *, code: bool = False) -> str:
        """Return `text` without secrets and escapes; lines stay lines."""
        return self._hide(plain(text, limit=len(text)), code=code)

    # --- the cell ----------------------------------------------------------------------------

    def _cell(self, room: int) -> Iterator[DataSection]:
        error = self._error
        if not error.source.strip():
            return
        at = "" if error.line is None else f", which failed at line {error.line}"
        lines = self._code(dict(enumerate(error.source.rstrip("\n").split("\n"), start=1)))
        failing = range(0) if error.line is None else range(error.line, error.line + 1)
        text = "\n".join(_excerpt(lines, failing, room))
        yield DataSection(f"{error.cell or 'the cell'}{at}", text)

    def _code(self, lines: Mapping[int, str]) -> dict[int, str]:
        """Return numbered `lines` without secrets, also where one takes several lines."""
        seen = (plain(line, limit=len(line)).replace("\n", " ") for line in lines.values())
        cleared = self._hide("\n".join(seen), code=True).split("\n")
        return dict(zip(lines, cleared, strict=True))

    # --- the traceback -----------------------------------------------------------------------

    def _traceback(self, room: int) -> str:
        """Return the calls of all errors; the first ones are left out where there is no room."""
        links = self._error.links
        lines: list[str] = []
        for link in links:
            lines += self._link(link, room // len(links))
            if link is not links[-1]:
                lines += ["", _CAUSED if link.caused else _HANDLED, ""]
        return "\n".join(lines)

    def _link(self, link: Link, room: int) -> Iterator[str]:
        said = self._cleared(link.said[:MAX_SAID]) + ("…" if len(link.said) > MAX_SAID else "")
        said = said[: max(room, MAX_LINE)]
        calls = [list(self._call(call)) for call in link.calls]
        first = _first_with_room(
            [sum(map(len, call)) + len(call) for call in calls], room - len(said)
        )
        beyond = link.left_out if first > link.left_out_at else 0
        yield from _left_out(first + beyond, "call")
        for number, call in enumerate(calls[first:], start=first):
            if link.left_out and not beyond and number == link.left_out_at:
                yield from _left_out(link.left_out, "call")
            yield from call
        yield said

    def _call(self, call: FailedCall) -> Iterator[str]:
        yield one_line(call.where)
        lines = self._code(call.source) if call.source else {}
        yield from (f"  {line}" for line in _excerpt(lines, call.failing, len(lines) * MAX_LINE))

    # --- values ------------------------------------------------------------------------------

    def _names(self, room: int) -> Iterator[DataSection]:
        text = "\n".join(self._values(self._error.names, room))
        if text:
            yield DataSection("values of the names in the failed lines, nearest first", text)

    def _values(self, names: Sequence[NamedValue], room: int) -> Iterator[str]:
        """Yield a text for each of `names`, as many as have `room`."""
        for number, each in enumerate(names):
            said = (
                f"{each.name} ({one_line(each.where)}): {self._value(each, min(MAX_VALUE, room))}"
            )
            room -= len(said) + 1
            if room < 0:
                yield from _left_out(len(names) - number, "name")
                return
            yield said

    def _value(self, named: NamedValue, room: int) -> str:
        value = named.value
        if (hidden := self._hide.name(named.name, value)) is not None:
            return hidden
        if isinstance(value, str | bytes) and len(value) < MAX_VALUE and _is_key(value):
            return NOT_SHOWN
        budget = ValueBudget(chars=max(room, 1), images=0, privacy=self._hide)
        return self._cleared(describe(value, budget).text)


def _is_key(value: str | bytes) -> bool:
    """Return True if `value` is one word that may be a key."""
    text = value if isinstance(value, str) else value.decode(errors="replace")
    return len(text.split()) == 1 and looks_secret(text)


def _first_with_room(sizes: Sequence[int], room: int) -> int:
    """Return from which of texts of such `sizes` on there is `room`; the last one always has it."""
    first = len(sizes)
    while first and room >= sizes[first - 1]:
        first -= 1
        room -= sizes[first]
    return min(first, max(len(sizes) - 1, 0))


def _excerpt(lines: dict[int, str], failing: range, room: int) -> Iterator[str]:
    """Yield numbered `lines`, the failing ones marked: those around them that have `room`."""
    width = len(str(max(lines, default=0)))
    shown = {
        number: f"{'→' if number in failing else ' '} {number:>{width}} {line[:MAX_LINE]}"
        for number, line in lines.items()
    }
    near = sorted(shown, key=lambda number: (abs(number - (failing.start or 1)), number))
    kept: set[int] = set()
    for number in near:
        room -= len(shown[number]) + 1
        if room < 0 and kept:
            break
        kept.add(number)
    above = sum(number < min(kept, default=0) for number in shown)
    below = len(shown) - len(kept) - above
    yield from _left_out(above, "line")
    yield from (shown[number].rstrip() for number in sorted(kept))
    yield from _left_out(below, "line")


def _left_out(count: int, what: str) -> Iterator[str]:
    if count:
        yield f"… ({count} {what}{'' if count == 1 else 's'} omitted)"
