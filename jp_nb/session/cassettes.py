"""Record and replay the requests of a session.

Only files, environment variables, and `%jp cassette` select a cassette. A record cannot: a notebook
from someone else must not write a file, or select recorded responses.

Source: `docs/cassettes.md`, `docs/decisions.md` D109.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jp_nb.agent.recording import Exchange, NormalizedRequest, RecordedResult
from jp_nb.config.tree.models import Cassette as CassetteConfig
from jp_nb.config.tree.models import CassetteMode
from jp_nb.errors import ConfigError, StorageError, UnrecordedError
from jp_nb.rendering.difference import format_mismatch
from jp_nb.storage.cassette import (
    CassetteContent,
    CassetteWriter,
    RecordedResults,
    StoredExchange,
    parse_cassette,
    read_bytes,
    refuse_unless_cassette,
    refuse_unsafe_link,
)
from jp_nb.storage.config_files import ConfigFiles
from jp_nb.storage.run_events import append_run_event

if TYPE_CHECKING:
    from jp_nb.agent.recording import Hide


@dataclass(frozen=True, slots=True)
class CassetteChoice:
    """A cassette file and its use.

    Attributes:
        path: The file; None if the mode is `off`.
        tools: `recorded` if the cassette also replaces tools, else `run`.
        folder: The notebook's folder. A path in it may not leave it through a link.
    """

    mode: CassetteMode = "off"
    path: Path | None = None
    tools: str = "run"
    folder: Path | None = None


PATH: Final = "providers.cassette"


class Cassettes:
    """The cassette of one session.

    Args:
        previous: The cassette before the extension was loaded again. A recording continues, and a
            replay starts again.
    """

    def __init__(
        self, files: ConfigFiles, notebook: Path | None, previous: Cassettes | None = None
    ) -> None:
        self._files = files
        self._notebook = notebook
        self._chosen: CassetteChoice | None = previous._chosen if previous else None
        self._open: OpenCassette | None = previous._open if previous else None
        if self._open is not None and self._open.is_offline:
            self._open = None

    def choose(self, mode: CassetteMode, file: str | None = None) -> CassetteChoice:
        """Use `file`, or the default one, in this `mode` from now on in this kernel.

        Raises:
            ConfigError: The configuration is not valid, or the file is unknown or cannot be read.
        """
        choice = self._choose(self._configured(), mode, file)
        self._open = None if mode == "off" else _open_cassette(choice)
        self._chosen = choice
        return choice

    @property
    def choice(self) -> CassetteChoice:
        """The current cassette and its use.

        Raises:
            ConfigError: The configuration is not valid, or the file is unknown.
        """
        if self._chosen is not None:
            return self._chosen
        configured = self._configured()
        return self._choose(configured, configured.mode, None)

    @property
    def active(self) -> OpenCassette | None:
        """The open cassette; None: requests are sent, and nothing is recorded.

        Raises:
            ConfigError: The configuration is not valid, or the file is unknown or cannot be read.
        """
        choice = self.choice
        if choice.mode == "off":
            return None
        if self._open is None or self._open.choice != choice:
            self._open = _open_cassette(
                choice, self._check_consent if self._chosen is None else None
            )
        return self._open

    def _check_consent(self, content: bytes) -> None:
        """Raise `ConfigError` for a relative path, unless the user consented to the content."""
        chosen, path = self.choice, self._configured().path
        is_absolute = path is not None and os.path.isabs(os.path.expanduser(path))
        assert chosen.path is not None
        leaf = ("cassette", f"responses that replace models: {len(content)} bytes")
        if not is_absolute and not self._files.is_applied(chosen.path, content, [leaf]):
            raise ConfigError(
                f"the cassette {self.format_path(chosen.path)} came with this folder and "
                "needs your consent. Agree to its content with `%jp trust "
                f"--workspace`, or name it here with `%jp cassette {chosen.mode}`",
                path=f"{PATH}.path",
            )

    def format_path(self, path: Path) -> str:
        """Return `path`, relative to the notebook's folder if it is in it."""
        folder = self._files.folder
        return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)

    def _configured(self) -> CassetteConfig:
        if not self._files.has_configuration():
            return CassetteConfig()
        from jp_nb.config.partial import Partial, get_path, merge
        from jp_nb.config.validation import validate

        partial: Partial = {}
        for layer in self._files.layers():  # only this table, as each request needs it
            if (table := get_path(layer.partial, PATH)) is not None:
                partial = merge(partial, {"providers": {"cassette": table}})
        return validate(partial).providers.cassette if partial else CassetteConfig()

    def _choose(
        self, configured: CassetteConfig, mode: CassetteMode, file: str | None
    ) -> CassetteChoice:
        if mode == "off":
            return CassetteChoice()
        name = file or configured.path
        if name is not None:
            path = self._files.folder / os.path.expanduser(name)  # an unknown `~user` stays
            path = Path(os.path.abspath(path))
            return CassetteChoice(mode, path, configured.tools, self._files.folder)
        if self._notebook is None:
            raise ConfigError(
                "the name of this notebook is unknown, so its cassette has no "
                f"default name. Set this path, or give the file: `%jp cassette {mode} "
                "FILE`",
                path=f"{PATH}.path",
            )
        from jp_nb.storage.cassette import default_cassette_path

        return CassetteChoice(
            mode, default_cassette_path(self._notebook), configured.tools, self._files.folder
        )


def hide_key(variable: str | None, hide: Hide) -> Hide:
    """Return a function that hides the current key in `variable`, and the secrets of `hide`."""
    from jp_nb.providers.http import KeyVariable

    key = KeyVariable(variable)
    return lambda text: hide(key.redaction().hide_in_response(text))


def _open_cassette(
    choice: CassetteChoice, check_content: Callable[[bytes], object] | None = None
) -> OpenCassette:
    try:
        return OpenCassette(choice, check_content)
    except StorageError as exc:
        raise ConfigError(str(exc), path=f"{PATH}.path") from exc


AGAIN = (
    "Record everything again: `jp-nb run NOTEBOOK --record`, or `%jp cassette "
    "record` in a notebook. Record only the missing requests: `--replay-or-record`, "
    "or `%jp cassette replay-or-record`"
)


def unrecorded_error(
    asked: NormalizedRequest, cassette: CassetteContent, used: Collection[int], path: Path
) -> UnrecordedError:
    """Return the error for a request that the cassette does not have, with its differences.

    `used` are the numbers of the exchanges that were replayed.
    """
    same = [exchange for exchange in cassette.exchanges if exchange.request == asked.id]
    if same:
        times = "once" if len(same) == 1 else f"{len(same)} times"
        return UnrecordedError(
            f"this request is on the cassette {path.name} {times} (line "
            f"{', '.join(str(exchange.line) for exchange in same[:10])}), but was sent more "
            "often. Each recording is used once. Start again with `%jp cassette "
            f"replay`. {AGAIN}"
        )
    unused = [each for each in cassette.exchanges if each.number not in used]
    found = cassette.find_nearest(asked, unused or cassette.exchanges)
    if found is None:
        return UnrecordedError(f"the cassette {path.name} is empty. {AGAIN}")
    which = "closest unused recording" if unused else "closest recording (all were used)"
    differing = format_mismatch(cassette.asked(found), asked)
    by_line = any(line.startswith(("    - ", "    + ")) for line in differing)
    legend = "- on the cassette, + now" if by_line else "on the cassette → now"
    first = (
        f"this request is not on the cassette {path.name}. The {which} is on line "
        f"{found.line}. Differences ({legend}):"
    )
    return UnrecordedError("\n".join([first, *differing, AGAIN]))


FOLLOW_UP: Final = 8
"""Limit of the messages that a failed attempt may add before the next one."""


class OpenCassette:
    """An open cassette. Each recorded exchange is replayed once.

    Args:
        check_content: Raises an error if the content must not be used.

    Raises:
        StorageError: The file is needed and cannot be read.
    """

    def __init__(
        self, choice: CassetteChoice, check_content: Callable[[bytes], object] | None = None
    ) -> None:
        assert choice.path is not None
        self.choice = choice
        self.path: Path = choice.path
        self._failed: dict[str, list[Exchange]] = {}
        self._held_failures: list[Exchange] = []
        self._used: set[int] = set()
        self._first_miss = ""
        content = _read_content(choice, check_content)
        self.content = content or CassetteContent()
        self._remaining: dict[str, deque[StoredExchange]] = {}
        for exchange in self.content.exchanges:
            if self.is_offline or not _ends_in_failure(exchange, self.content):
                self._remaining.setdefault(exchange.request, deque()).append(exchange)
        self._writer = CassetteWriter(self.path, content, folder=choice.folder)
        self._unneeded = {
            each.number
            for each in self.content.exchanges
            if choice.tools == "recorded" and self.content.is_inquiry(each)
        }
        if content is not None:
            append_run_event(cassette=str(self.path), used=[*self._unneeded])

    @property
    def is_offline(self) -> bool:
        """True if no request is sent."""
        return self.choice.mode == "replay"

    @property
    def is_recording(self) -> bool:
        """True if every request is sent and recorded."""
        return self.choice.mode == "record"

    @property
    def added(self) -> int:
        """Number of exchanges that were written."""
        return self._writer.written

    @property
    def awaits_response(self) -> bool:
        """True if a recording has failed requests and no response yet."""
        return bool(self._held_failures)

    @property
    def used(self) -> int:
        """Number of exchanges that were replayed."""
        return len(self._used)

    def unused(self) -> list[StoredExchange]:
        """Return the exchanges that were not replayed, without questions of replaced tools."""
        done = self._used | self._unneeded
        return [exchange for exchange in self.content.exchanges if exchange.number not in done]

    def replay(self, asked: NormalizedRequest) -> Exchange | None:
        """Return the next recorded exchange of `asked`; None: send the request.

        Raises:
            UnrecordedError: Only the cassette may be used, and it does not have the request.
        """
        if recordings := self._remaining.get(asked.id):
            exchange = recordings.popleft()
            self._used.add(exchange.number)
            append_run_event(cassette=str(self.path), used=[exchange.number])
            return Exchange(asked, exchange.events, exchange.end)
        if self.is_offline:
            raise self._miss(asked)
        return None

    def results(self, last_message: str) -> Sequence[RecordedResult] | None:
        """Return the tool results after the message with this id; None: tools run."""
        if self.choice.tools != "recorded" or self.choice.mode == "record":
            return None
        found = self._results.of(last_message)
        return found if found or self.is_offline else None

    @cached_property
    def _results(self) -> RecordedResults:
        return RecordedResults(self.content)

    def _miss(self, asked: NormalizedRequest) -> UnrecordedError:
        # A tool continues with an error if its question to a model is missing. The next request is
        # then missing too, so the first miss is reported.
        if self._first_miss and not asked.is_inquiry:
            first, self._first_miss = self._first_miss, ""
            return UnrecordedError(first)
        error = unrecorded_error(asked, self.content, self._used, self.path)
        if asked.is_inquiry:
            self._first_miss = self._first_miss or str(error)
        return error

    def keep(self, exchange: Exchange) -> None:
        """Write `exchange`.

        A recording replaces the file at its first response. In other modes, a failure is written
        only together with the later success: a replay would repeat a final failure each time.

        Raises:
            StorageError: The file cannot be written.
        """
        if self.choice.mode == "record":
            self._record(exchange)
        elif exchange.has_failed:
            self._failed.setdefault(exchange.request.id, []).append(exchange)
        else:
            for each in (*self._take_failures(exchange), exchange):
                self._add(each)

    def _record(self, exchange: Exchange) -> None:
        self._held_failures.append(exchange)
        if exchange.has_failed and not self.added:
            return
        exchanges, self._held_failures = self._held_failures, []
        for each in exchanges:
            self._add(each)

    def _add(self, exchange: Exchange) -> None:
        self._writer.add(exchange)
        append_run_event(cassette=str(self.path), added=1, anew=self.choice.mode == "record")

    def _take_failures(self, exchange: Exchange) -> list[Exchange]:
        """Remove and return the failed attempts before `exchange`."""
        failures = self._failed.pop(exchange.request.id, [])
        last = {part.id for part in exchange.request.messages[-FOLLOW_UP:]}
        for request, failed in [*self._failed.items()]:
            if failed[0].request.messages and failed[0].request.messages[-1].id in last:
                failures = self._failed.pop(request) + failures
        return failures


def _read_content(
    choice: CassetteChoice, check_content: Callable[[bytes], object] | None
) -> CassetteContent | None:
    """Return the content of the file; None if it is not needed or does not exist yet."""
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
    content = read_bytes(choice.path)
    if check_content is not None:
        check_content(content)
    return parse_cassette(choice.path, content)


def _ends_in_failure(exchange: StoredExchange, cassette: CassetteContent) -> bool:
    """Return True if `exchange` failed and was not tried again."""
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
