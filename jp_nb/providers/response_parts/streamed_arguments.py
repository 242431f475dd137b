"""Collect the JSON arguments of one tool call, in whatever form a server streams them.

Servers send the arguments `{"a": 1}` in five forms, and do not tell which one it is:

    pieces        {"a":    1}
    snapshots     {"a":    {"a": 1}            each piece repeats the text so far
    whole again   {"a":    1}    {"a": 1}      the last piece repeats all
    after {}      {}    {"a":    1}
    an object     a JSON object instead of a text

Only all pieces together show the form, so `StreamedArguments.resolve` decides at the end of the
call. Each decoder has one `StreamedArguments` for each open call, and counts the characters in it
as held (`EventBuffer.hold`).

Source: `docs/providers.md`, "What servers really send".
"""

from __future__ import annotations

import json
import re
from itertools import dropwhile
from typing import Any, Final

from jp_nb.json_reading import is_json_object, read_json, split_json_objects

_STRUCTURE: Final = re.compile(r'\\.?|["{}]', re.DOTALL)
"""Characters that open or close objects and strings, and escapes. The last escape may be cut."""


class StreamedArguments:
    """The JSON arguments of one call, which arrive in any form.

    The pieces are kept in one of two ways. As long as each piece repeats the text so far, they may
    be snapshots: then only the last one is kept, and the lengths of all. With the first piece that
    does not, they can be no snapshots: from then on, all pieces are kept.
    """

    def __init__(self) -> None:
        self._first = ""  # arguments that the start of the call has; see `set_first`
        # While the pieces may be snapshots:
        self._snapshot = ""  # the last one
        self._sizes: list[int] = []  # lengths of all snapshots; each is a prefix of `_snapshot`
        self._snapshot_is_object: bool | None = None  # None: not known yet
        # From the first piece on that is no snapshot:
        self._pieces: list[str] | None = None  # all pieces; None: all may be snapshots
        self._piece_chars = 0
        self._scan = _ObjectScan()

    @property
    def held_chars(self) -> int:
        """Number of characters that are kept here."""
        pieces = len(self._snapshot) if self._pieces is None else self._piece_chars
        return len(self._first) + pieces

    def is_empty(self) -> bool:
        """Return True if no text has arrived."""
        return self._pieces is None and not self._snapshot.strip()

    def set_first(self, value: Any) -> None:
        """Set the arguments that the start of the call has. Pieces may repeat them.

        `{}` is not kept: many servers start each call with it, and send the arguments in pieces.
        """
        text = format_arguments_text(value)
        if not is_empty_object(text):
            self._first = text

    def add(self, value: Any) -> int:
        """Add a piece of text, or arguments that are an object instead of a text.

        Returns the number of characters by which `held_chars` grows. It is not the length of the
        piece: a snapshot replaces the one before it.

        Raises:
            TypeError: It is neither, nor None.
        """
        earlier_chars = self.held_chars
        piece = format_arguments_text(value)
        if piece:
            self._add_piece(piece)
        return self.held_chars - earlier_chars

    def _add_piece(self, piece: str) -> None:
        """Keep a piece as a snapshot, as long as all pieces may be snapshots."""
        self._snapshot_is_object = None
        if self._pieces is not None:
            self._pieces.append(piece)
            self._piece_chars += len(piece)
        elif piece.startswith(self._snapshot):
            self._sizes.append(len(piece))
            self._snapshot = piece
        elif is_empty_object(self._snapshot):
            # Some servers send `{}` before the arguments.
            self._sizes = [len(piece)]
            self._snapshot = piece
        else:
            self._pieces = [*self._list_snapshots(), piece]
            self._piece_chars = sum(map(len, self._pieces))

    def is_whole(self) -> bool:
        """Return True if the text so far can be all of the arguments."""
        if self._pieces is not None:
            return self._scan.is_closed_after(self._pieces)
        if self._snapshot_is_object is None:
            self._snapshot_is_object = is_json_object(self._snapshot)
        return self._snapshot_is_object

    def resolve(self) -> str:
        """Return the text of the arguments, which is a JSON object if the pieces mean one.

        If they mean several objects, or none, it is all that was sent, and the call will not run.
        """
        received = self._resolve_pieces()
        if not self._first:
            return received
        if not received.strip() or is_empty_object(received):
            return self._first
        return _merge_repetitions(self._first + received)

    def _resolve_pieces(self) -> str:
        """Return the text of the pieces, without the arguments of the start."""
        if self._pieces is not None:
            return _merge_repetitions("".join(self._pieces))
        if len(self._sizes) < 2 or is_json_object(self._snapshot):
            return _merge_repetitions(self._snapshot)

        # The last snapshot is no object, so they were pieces that only looked like snapshots.
        return _merge_repetitions("".join(self._list_snapshots()))

    def _list_snapshots(self) -> list[str]:
        """Return the pieces that may be snapshots, as they came."""
        return [self._snapshot[:size] for size in self._sizes]


class _ObjectScan:
    """Finds the end of a JSON object in growing text. It reads each piece once."""

    def __init__(self) -> None:
        self._read_count = 0  # of the pieces
        self._depth = 0
        self._in_string = False
        self._escape = ""  # a backslash at the end of the last piece

    def is_closed_after(self, pieces: list[str]) -> bool:
        """Return True if all objects of the text in `pieces` are closed."""
        for piece in pieces[self._read_count :]:
            self._read(self._escape + piece)

        self._read_count = len(pieces)
        return self._depth == 0 and not self._in_string

    def _read(self, text: str) -> None:
        """Count the braces in `text` that are not in a string."""
        self._escape = ""

        for match in _STRUCTURE.finditer(text):
            token = match[0]
            if token == "\\":
                self._escape = token
            elif token == '"':
                self._in_string = not self._in_string
            elif token == "{" and not self._in_string:
                self._depth += 1
            elif token == "}" and not self._in_string:
                self._depth -= 1


def format_arguments_text(value: Any) -> str:
    """Return arguments on the wire as text: a text, an object, or None.

    Raises:
        TypeError: It is another value.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    raise TypeError  # `StreamDecoder` reports it


def is_empty_object(text: str) -> bool:
    """Return True if `text` is `{}`."""
    return "".join(text.split()) == "{}"


def _merge_repetitions(text: str) -> str:
    """Return one object if `text` repeats it, also after `{}`. Other text is returned unchanged."""
    if is_json_object(text):
        return text

    # Objects `{}` at the beginning do not count, unless there is no other one.
    objects = split_json_objects(text)
    contents = [*dropwhile(is_empty_object, objects)] or objects[:1]

    try:
        meanings = {json.dumps(read_json(content), sort_keys=True) for content in contents}
    except ValueError:
        return text

    return contents[-1] if len(meanings) == 1 else text
