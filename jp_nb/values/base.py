"""Limits and results of descriptions, truncation, and the rules that hide secrets.

`describe` sets the rules in a context variable, and every describer uses them.

Source: `docs/values.md`, `docs/notebook-tools.md`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from jp_nb.images import Image
from jp_nb.text import plain


class Privacy:
    """Rules for the hidden parts of values. This one hides nothing."""

    def name(self, name: str, value: object) -> str | None:
        """Return the replacement for a part with this name; None if it is shown."""
        return None

    def value(self, value: object) -> str | None:
        """Return the replacement for a value that is a secret as a whole; None if it is shown."""
        return None

    def text(self, text: str) -> str:
        """Return `text` without the secrets in it."""
        return text


_CURRENT: ContextVar[Privacy] = ContextVar("jp_nb_privacy", default=Privacy())  # noqa: B039


@contextmanager
def apply_privacy(privacy: Privacy | None) -> Iterator[None]:
    """Apply `privacy` to descriptions and paths inside the block; None keeps the current rules."""
    if privacy is None:
        yield
        return

    token = _CURRENT.set(privacy)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def hide_part(key: object, value: object = None) -> str | None:
    """Return the replacement for the part `value` under `key`; None if it is shown.

    The key may be a tuple, such as a column of several levels: each of its texts is a name.
    """
    if type(key) is tuple:
        found = (hide_part(each, value) for each in key)
        return next((hidden for hidden in found if hidden is not None), None)
    if issubclass(type(key), bytes):
        key = key.decode(errors="replace")  # type: ignore[attr-defined]
    return _CURRENT.get().name(key, value) if issubclass(type(key), str) else None  # type: ignore[arg-type]


def hide_value(value: object) -> str | None:
    """Return the replacement for `value` if it is a secret as a whole; None if it is shown."""
    return _CURRENT.get().value(value)


def without_hidden(text: str) -> str:
    """Return `text` without the secrets in it."""
    return _CURRENT.get().text(text)


def read_bytes_without_hidden(value: bytes | bytearray) -> bytes:
    """Return `value` without the secrets in it."""
    return without_hidden(value.decode("latin-1")).encode("latin-1", "replace")


DEFAULT_CHARS = 20_000
DEFAULT_SIDE = 768


@dataclass(frozen=True, slots=True)
class ValueBudget:
    """Limits of a description: characters, pixels of the longest side of an image, and images."""

    chars: int = DEFAULT_CHARS
    side: int = DEFAULT_SIDE
    images: int = 4
    privacy: Privacy | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Description:
    """Description of a value for the model. A notebook displays its text, then its images.

    Attributes:
        text: The text, within the budget. It names omitted parts.
        images: Images and PDFs of the value, in the order of the text.
    """

    text: str
    images: tuple[Image, ...] = ()

    def __repr__(self) -> str:
        shown = [f"[{image.noun}: {image.words_with_size}]" for image in self.images]
        return "\n".join([plain(self.text, limit=sys.maxsize), *map(plain, shown)])

    def _ipython_display_(self) -> None:
        display = sys.modules["IPython.display"].display
        display({"text/plain": repr(self)}, raw=True)
        for image in self.images:
            if data := image.display_data:
                display({**data, "text/plain": plain(image.name)}, raw=True)


MAX_CLEANED: Final = 1_000_000
"""Limit for a text from which addresses are removed. The middle of a longer text is omitted."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+| id='?\d{5,}'?(?=[>), ])")
_HEX_AT_START = re.compile(r"[0-9a-fA-Fx]*")


def cut_middle(text: str, limit: int, expression: str = "") -> str:
    """Return `text` with a note in place of its middle, in at most `limit` characters.

    With `expression`, which evaluates to `text`, the note shows the slice for the omitted part.
    """
    if len(text) <= limit or len(text := without_hidden(text)) <= limit:
        return text

    longest = len(_format_omission(len(text), len(text), len(text), expression))
    room = limit - longest

    if room < 20:
        return cut_end(text, limit) if not expression else cut_middle(text, limit)

    head = room * 2 // 3
    tail = len(text) - (room - head)
    return f"{text[:head]}{_format_omission(tail - head, head, tail, expression)}{text[tail:]}"


def _format_omission(number: int, start: int, end: int, expression: str) -> str:
    where = f"; {expression}[{start}:{end}] has them" if expression else ""
    return f"\n… ({number:,} characters omitted{where}) …\n"


def cut_end(text: str, limit: int) -> str:
    """Return `text` with a note in place of its end, in at most `limit` characters."""
    if len(text) <= limit or len(text := without_hidden(text)) <= limit:
        return text
    note = f"… (+{len(text) - limit:,})"
    room = limit - len(note) - 4
    if room < 8:
        return f"{text[: limit - 1]}…" if limit > 0 else ""
    return f"{text[:room]}… (+{len(text) - room:,})"


def to_one_line(text: str, limit: int) -> str:
    """Return `text` with single spaces in place of white space, in at most `limit` characters."""
    if len(text) > limit:
        text = without_hidden(text)
    return cut_end(" ".join(text[: limit * 4 + 100].split()), limit)


def without_addresses(text: str) -> str:
    """Return the `repr` of an object without memory addresses. A very long text is truncated."""
    if len(text) > MAX_CLEANED:
        text = without_hidden(text)
        half = MAX_CLEANED // 2
        end = _HEX_AT_START.sub("", text[-half:], count=1)
        text = f"{text[:half]}\n… ({len(text) - MAX_CLEANED:,} characters omitted) …\n{end}"
    return _ADDRESS.sub("", text)


def count(number: int, word: str, many: str = "") -> str:
    """Return number and noun, such as `1,000 rows`."""
    if number != 1:
        word = many or f"{word}s"
    return f"{number:,} {word}"


BRIEF_CHARS = 160


@dataclass(frozen=True, slots=True)
class DescriptionLimits:
    """Limits for the description of one value or part.

    Attributes:
        name: Expression for the value; "" without one.
        inner: Function that describes a part of the value.
        brief: True for a description in one line.
    """

    chars: int
    side: int
    images: int
    name: str
    inner: Callable[[object, DescriptionLimits], Description]
    brief: bool = False

    def part(
        self, chars: int, *, name: str = "", images: int = 0, brief: bool = False
    ) -> DescriptionLimits:
        """Return the limits for a part of the value."""
        return replace(self, chars=chars, name=name, images=images, brief=brief)

    def expression(self, end: str) -> str:
        """Return the value's name followed by `end`, such as `rows[20:40]`."""
        return f"{self.name}{end}" if self.name else end

    def more(self, number: int, word: str, end: str, many: str = "") -> str:
        """Return a note about omitted items, with the expression for them."""
        return f"… {count(number, f'more {word}', many and f'more {many}')}; {self.expression(end)}"


Describer = Callable[[Any, DescriptionLimits], "str | Description"]


class ValueKind(NamedTuple):
    """Describer for values, and True if such values in a container are described separately."""

    describe: Describer
    is_rich: bool = False


ValueKinds = tuple[tuple[str, str, ValueKind], ...]
"""Kinds of values, each with the module and the name of its class."""
