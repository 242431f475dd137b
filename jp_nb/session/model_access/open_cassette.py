"""An open cassette: its recorded exchanges, and those that are added.

A cassette is a file of recorded requests with their responses, as in VCR.py. An *exchange* is one
of them. Replayed exchanges are matched by the ids of their requests, which are digests of their
content, and each exchange is used once. An *inquiry* is a question of a tool that a model answers:
a request of its own, beside those of the turn.

`append_run_event` tells the runner of a headless run which exchanges were used and added. At the
end, the runner reports unused ones.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from jp_nb.agent.calls.recorded_results import RecordedResult
from jp_nb.agent.model_requests.normalized_request import NormalizedRequest
from jp_nb.agent.model_requests.recorded_exchange import Exchange
from jp_nb.config.tree.providers_table import CassetteMode
from jp_nb.errors import StorageError, UnrecordedError
from jp_nb.rendering.reports.cassette_miss import describe_miss
from jp_nb.storage.cassettes.cassette_content import CassetteContent, StoredExchange
from jp_nb.storage.cassettes.cassette_file import (
    read_cassette_bytes,
    refuse_unless_cassette,
    refuse_unsafe_cassette_link,
)
from jp_nb.storage.cassettes.cassette_parser import parse_cassette
from jp_nb.storage.cassettes.cassette_results import CassetteResults
from jp_nb.storage.cassettes.cassette_writer import CassetteWriter
from jp_nb.storage.run_events import append_run_event


@dataclass(frozen=True, slots=True)
class CassetteChoice:
    """A cassette file and its use.

    Attributes:
        mode: `off`, `record`, `replay`, or `replay-or-record`.
        path: The file; None if the mode is `off`.
        tools: `run`, or `recorded` if the cassette also replaces the results of tools.
        folder: The notebook's folder. A path inside of it may not link out of it.
    """

    mode: CassetteMode = "off"
    path: Path | None = None
    tools: str = "run"
    folder: Path | None = None


FOLLOW_UP: Final = 8
"""Limit of the messages that a failed attempt may add before the next one."""


class OpenCassette:
    """An open cassette. Each recorded exchange is replayed once.

    Turns and rows have event loops of their own, which use it at the same time. The lock guards the
    exchanges: `replay` and `keep` take it, and their private methods expect it held. Only turns ask
    for the results of tools (`find_results`), so these need no lock.

    Args:
        check_content: Raises an error if the content must not be used.

    Attributes:
        choice: The file and its use.
        path: The file.
        content: Its content when it was opened.
        is_offline: True in the mode `replay`: no request is sent.
        is_recording: True in the mode `record`: every request is sent and recorded.

    Raises:
        StorageError: The file is needed and cannot be read.
    """

    def __init__(
        self, choice: CassetteChoice, check_content: Callable[[bytes], object] | None = None
    ) -> None:
        assert choice.path is not None
        self.choice = choice
        self.path = choice.path
        self.is_offline = choice.mode == "replay"
        self.is_recording = choice.mode == "record"
        self._lock = threading.RLock()

        # Failures that are not written yet. A recording writes them with its first response. In
        # other modes they are kept by the id of their request, until a later attempt succeeds.
        self._unwritten_recording: list[Exchange] = []
        self._failed_attempts: dict[str, list[Exchange]] = {}

        # The numbers of replayed exchanges.
        self._used: set[int] = set()
        # The error about a missing inquiry, which the error about the next request repeats.
        self._first_miss = ""

        content = _read_content(choice, check_content)
        self.content = content or CassetteContent()

        # The exchanges that were not replayed yet, by the id of their request. If requests may be
        # sent, a recorded failure that was final is not replayed: the request is tried again.
        self._remaining: dict[str, deque[StoredExchange]] = {}
        for exchange in self.content.exchanges:
            if self.is_offline or not _ends_in_failure(exchange, self.content):
                self._remaining.setdefault(exchange.request, deque()).append(exchange)

        self._writer = CassetteWriter(self.path, content, folder=choice.folder)

        # The numbers of exchanges that no replay needs: replaced tools ask no models. The runner
        # counts them as used, so that it does not report them.
        self._unneeded: set[int] = set()
        if choice.tools == "recorded":
            for exchange in self.content.exchanges:
                if self.content.is_inquiry(exchange):
                    self._unneeded.add(exchange.number)
        if content is not None:
            append_run_event(cassette=str(self.path), used=[*self._unneeded])

    @property
    def added_count(self) -> int:
        """Number of exchanges that were written."""
        return self._writer.written

    @property
    def awaits_response(self) -> bool:
        """True if a recording has failed requests and no response yet."""
        return bool(self._unwritten_recording)

    @property
    def used_count(self) -> int:
        """Number of exchanges that were replayed."""
        return len(self._used)

    def list_unused(self) -> list[StoredExchange]:
        """Return the exchanges that were not replayed, except inquiries if tools are replaced."""
        done = self._used | self._unneeded
        return [exchange for exchange in self.content.exchanges if exchange.number not in done]

    def replay(self, request: NormalizedRequest) -> Exchange | None:
        """Return the next recorded exchange of `request`; None: send the request.

        Raises:
            UnrecordedError: Only the cassette may be used, and it does not have the request.
        """
        with self._lock:
            recordings = self._remaining.get(request.id)
            if recordings:
                exchange = recordings.popleft()
                self._used.add(exchange.number)
                append_run_event(cassette=str(self.path), used=[exchange.number])
                return Exchange(request, exchange.events, exchange.end)

            if self.is_offline:
                raise self._make_miss_error(request)
        return None

    def find_results(self, last_message: str) -> Sequence[RecordedResult] | None:
        """Return the recorded results of the tool calls after a message; None: the tools run.

        A message id is a digest of the message and all before it, so the calls are the same. With
        no results for it, tools run, unless only the cassette may be used.
        """
        if self.choice.tools != "recorded" or self.is_recording:
            return None

        results = self._results.take_after(last_message)
        return results if results or self.is_offline else None

    @cached_property
    def _results(self) -> CassetteResults:
        return CassetteResults(self.content)

    def _make_miss_error(self, request: NormalizedRequest) -> UnrecordedError:
        """Return the error about a request that the cassette does not have.

        If an inquiry is missing, the tool continues with an error, and the next request of the turn
        differs from the recorded one. So the error about that request is the one about the inquiry.
        """
        if self._first_miss and not request.is_inquiry:
            # Only once: later requests have errors of their own.
            first_miss = self._first_miss
            self._first_miss = ""
            return UnrecordedError(first_miss)

        description = describe_miss(self.content, self.path.name, request, used=self._used)
        error = UnrecordedError(description)
        if request.is_inquiry:
            self._first_miss = self._first_miss or str(error)
        return error

    def keep(self, exchange: Exchange) -> None:
        """Write `exchange`.

        A recording replaces the file at its first response. In other modes, a failure is written
        only together with the later success: a replay would repeat a final failure each time.

        Raises:
            StorageError: The file cannot be written.
        """
        with self._lock:
            self._keep(exchange)

    def _keep(self, exchange: Exchange) -> None:
        """Write `exchange` with the failed attempts before it, or keep a failure for later."""
        if self.is_recording:
            self._unwritten_recording.append(exchange)
            # The old file stays until the new recording has a response.
            if exchange.has_failed and not self.added_count:
                return
            exchanges = self._unwritten_recording
            self._unwritten_recording = []
        elif exchange.has_failed:
            self._failed_attempts.setdefault(exchange.request.id, []).append(exchange)
            return
        else:
            exchanges = [*self._take_failures(exchange), exchange]

        for complete_exchange in exchanges:
            self._writer.add(complete_exchange)
            append_run_event(cassette=str(self.path), added=1, anew=self.is_recording)

    def _take_failures(self, exchange: Exchange) -> list[Exchange]:
        """Remove and return the failed attempts before `exchange`.

        They have the same request, or the beginning of it: after a failed attempt, the next one may
        have more messages.
        """
        last_failures = self._failed_attempts.pop(exchange.request.id, [])
        failures: list[Exchange] = []  # of shorter requests, oldest first
        recent_ids = {message.id for message in exchange.request.messages[-FOLLOW_UP:]}

        for request_id, attempts in [*self._failed_attempts.items()]:
            messages = attempts[0].request.messages
            if messages and messages[-1].id in recent_ids:
                failures += self._failed_attempts.pop(request_id)

        return failures + last_failures


def _read_content(
    choice: CassetteChoice, check_content: Callable[[bytes], object] | None
) -> CassetteContent | None:
    """Return the content of the file; None if it is not needed or does not exist yet."""
    path = choice.path
    assert path is not None

    if choice.mode != "replay":
        refuse_unsafe_cassette_link(path, choice.folder)
    if choice.mode == "record":
        refuse_unless_cassette(path)
        return None

    if not path.exists():
        if choice.mode != "replay":
            return None
        raise StorageError(
            f"there is no cassette {path}. Record it with `jp-nb run NOTEBOOK "
            "--record`, or with `%jp cassette record` before the first request"
        )

    content = read_cassette_bytes(path)
    if check_content is not None:
        check_content(content)
    return parse_cassette(path, content)


def _ends_in_failure(exchange: StoredExchange, cassette: CassetteContent) -> bool:
    """Return True if `exchange` failed and was not tried again."""
    if not exchange.has_failed:
        return False

    is_last = exchange.number + 1 >= len(cassette.exchanges)
    if is_last:
        return True

    next_exchange = cassette.exchanges[exchange.number + 1]
    if next_exchange.request == exchange.request:
        return False

    # The next attempt may have a few more messages. Each message names the one before it.
    message_id = next_exchange.last_message
    for _ in range(FOLLOW_UP):
        if message_id == exchange.last_message:
            return False
        message = cassette.parts.get(("message", message_id))
        if message is None:
            break
        message_id = message.after

    return True
