"""A cassette in use: what it answers, what it does not have, what is added to it.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.asked_request import AskedRequest
from jp_nb.agent.exchange import Exchange
from jp_nb.agent.recorded_results import RecordedResult
from jp_nb.errors import StorageError, UnrecordedError
from jp_nb.session.cassette_choice import CassetteChoice
from jp_nb.session.unrecorded import unrecorded
from jp_nb.workspace import variables
from jp_nb.workspace.cassette_file import (
    CassetteContent,
    OnFile,
    parse_cassette,
    read_bytes,
    refuse_unless_cassette,
    refuse_unsafe_link,
)
from jp_nb.workspace.cassette_results import ResultsOnFile
from jp_nb.workspace.cassette_writer import CassetteWriter

FOLLOW_UP: Final = 8
"""So many messages an attempt that broke off may leave before the next one."""


class CassetteTape:
    """One use of one file; each exchange in it answers once.

    Args:
        choice: The file, and what for.
        accepts: Says whether the content of the file may answer; it raises an error if not.

    Attributes:
        choice: The file, and what for.

    Raises:
        StorageError: If it cannot be read, and has to be.
    """

    def __init__(
        self, choice: CassetteChoice, accepts: Callable[[bytes], object] = lambda _: None
    ) -> None:
        assert choice.path is not None
        self.choice = choice
        self.path: Path = choice.path
        self._failed: dict[str, list[Exchange]] = {}
        self._unanswered: list[Exchange] = []
        self._used: set[int] = set()
        self._missed = ""
        known = _known(choice, accepts)
        self.cassette = known or CassetteContent()
        self._waiting: dict[str, deque[OnFile]] = {}
        for exchange in self.cassette.exchanges:
            if self.is_offline or not _ends_in_failure(exchange, self.cassette):
                self._waiting.setdefault(exchange.request, deque()).append(exchange)
        self._writer = CassetteWriter(self.path, known, folder=choice.folder)
        self._needless = {
            each.number
            for each in self.cassette.exchanges
            if choice.tools == "recorded" and self.cassette.is_inquiry(each)
        }
        if known is not None:
            _note(self.path, used=[*self._needless])

    @property
    def is_offline(self) -> bool:
        """True if nobody but the tape answers."""
        return self.choice.mode == "replay"

    @property
    def is_recording(self) -> bool:
        """True if the model answers every request."""
        return self.choice.mode == "record"

    @property
    def added(self) -> int:
        """So many exchanges were written."""
        return self._writer.written

    @property
    def is_unanswered(self) -> bool:
        """True if models were asked for a recording, and none has answered yet."""
        return bool(self._unanswered)

    @property
    def used(self) -> int:
        """So many exchanges of the file have answered."""
        return len(self._used)

    def unused(self) -> list[OnFile]:
        """Return what has answered nothing yet; tools that do not run ask no model."""
        done = self._used | self._needless
        return [each for each in self.cassette.exchanges if each.number not in done]

    def replay(self, asked: AskedRequest) -> Exchange | None:
        """Return what `asked` was answered the next time; None: the model is to be asked.

        Raises:
            UnrecordedError: If only the file may answer, and does not have it.
        """
        waiting = self._waiting.get(asked.id)
        if waiting:
            found = waiting.popleft()
            self._used.add(found.number)
            _note(self.path, used=[found.number])
            return Exchange(asked, found.events, found.end)
        if self.is_offline:
            raise self._miss(asked)
        return None

    def results(self, last_message: str) -> Sequence[RecordedResult] | None:
        """Return the results behind the message with that id; None: tools run."""
        if self.choice.tools != "recorded" or self.choice.mode == "record":
            return None
        found = self._results.of(last_message)
        return found if found or self.is_offline else None

    @cached_property
    def _results(self) -> ResultsOnFile:
        return ResultsOnFile(self.cassette)

    def _miss(self, asked: AskedRequest) -> UnrecordedError:
        """Return the error for `asked`.

        A tool whose question could not be answered goes on with an error, and the model would be
        asked something else because of it: what was missed first is what is to be mended.
        """
        if self._missed and not asked.is_inquiry:
            first, self._missed = self._missed, ""
            return UnrecordedError(first)
        error = unrecorded(asked, self.cassette, self._used, self.path)
        if asked.is_inquiry:
            self._missed = self._missed or str(error)
        return error

    def keep(self, exchange: Exchange) -> None:
        """Write `exchange`.

        A recording begins with the first answer, and until then what it replaces stays. Where a
        later run may ask again what failed, a failure is written with what came after it: one that
        is the end would be replayed for ever.

        Raises:
            StorageError: If that is not possible.
        """
        if self.choice.mode == "record":
            self._record(exchange)
        elif exchange.has_failed:
            self._failed.setdefault(exchange.asked.id, []).append(exchange)
        else:
            for each in (*self._went_before(exchange), exchange):
                self._add(each)

    def _record(self, exchange: Exchange) -> None:
        waiting = [*self._unanswered, exchange]
        if exchange.has_failed and not self.added:
            self._unanswered = waiting
            return
        self._unanswered = []
        for each in waiting:
            self._add(each)

    def _add(self, exchange: Exchange) -> None:
        self._writer.add(exchange)
        _note(self.path, added=1, anew=self.choice.mode == "record")

    def _went_before(self, exchange: Exchange) -> list[Exchange]:
        """Return the failures that `exchange` made good, and forget them."""
        found = self._failed.pop(exchange.asked.id, [])
        last = {part.id for part in exchange.asked.messages[-FOLLOW_UP:]}
        for request, failed in [*self._failed.items()]:
            if failed[0].asked.messages and failed[0].asked.messages[-1].id in last:
                found = self._failed.pop(request) + found
        return found


def _known(choice: CassetteChoice, accepts: Callable[[bytes], object]) -> CassetteContent | None:
    """Return what the file holds; None: it does not matter, or there is none yet."""
    assert choice.path is not None
    if choice.mode != "replay":
        refuse_unsafe_link(choice.path, choice.folder)
    if choice.mode == "record":
        refuse_unless_cassette(choice.path)
    if choice.mode == "record" or (choice.mode != "replay" and not choice.path.exists()):
        return None
    if not choice.path.exists():
        raise StorageError(
            f"there is no cassette {choice.path}. Record it with `jp-nb run NOTEBOOK "
            "--record`, or with `%jp cassette record` before the first request"
        )
    accepts(content := read_bytes(choice.path))
    return parse_cassette(choice.path, content)


def _ends_in_failure(exchange: OnFile, cassette: CassetteContent) -> bool:
    """Return True if `exchange` failed and nothing was tried after it."""
    if not exchange.has_failed:
        return False
    after = cassette.exchanges[exchange.number + 1 : exchange.number + 2]
    if not after or after[0].request == exchange.request:
        return not after
    last = after[0].last_message
    for _ in range(FOLLOW_UP):
        if last == exchange.last_message:
            return False
        part = cassette.parts.get(("message", last))
        if part is None:
            break
        last = part.after
    return True


def _note(path: Path, **what: JsonValue) -> None:
    """Tell the runner `what` became of the file at `path`, if it wants to know.

    `used` are the exchanges that have answered, `added` so many that were written, `anew` if that
    is all there is.
    """
    if place := os.environ.get(variables.CASSETTE_USE):
        note = json.dumps({"cassette": str(path), **what})  # ASCII, whatever the path is
        with open(place, "a", encoding="ascii") as file:
            file.write(note + "\n")
