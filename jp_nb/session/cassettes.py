"""Record and replay the requests of a session.

Only files, environment variables and `%jp cassette` select a cassette. A record cannot: a notebook
from someone else must not write a file, or select recorded responses.

Source: `docs/cassettes.md`, `docs/decisions.md` D109.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from jp_nb.agent.recording import Exchange, NormalizedRequest, RecordedResult, find_nearest
from jp_nb.config.tree.models import Cassette as CassetteConfig
from jp_nb.config.tree.models import CassetteMode
from jp_nb.errors import ConfigError, StorageError, UnrecordedError
from jp_nb.rendering.request_diff import missed_lines
from jp_nb.storage import environment
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

if TYPE_CHECKING:
    from jp_nb.agent.recording import Hide


@dataclass(frozen=True, slots=True)
class CassetteChoice:
    """A use of a file.

    Attributes:
        mode: What for.
        path: The file; None: the mode is `off`.
        tools: `recorded` if results of tools are of the file, too.
        folder: The notebook's folder, which a file in it may not leave through a link.
    """

    mode: CassetteMode = "off"
    path: Path | None = None
    tools: str = "run"
    folder: Path | None = None


PATH: Final = "providers.cassette"


class Cassettes:
    """The cassette of one session, and the providers that use it.

    Args:
        files: Files and environment.
        notebook: The notebook's file, if it is known.
        before: What was in force in this kernel when the extension was loaded again: a recording
            goes on, a replay begins at its start.
    """

    def __init__(
        self, files: ConfigFiles, notebook: Path | None, before: Cassettes | None = None
    ) -> None:
        self._files = files
        self._notebook = notebook
        self._said: CassetteChoice | None = before._said if before is not None else None
        self._tape: OpenCassette | None = before._tape if before is not None else None
        if self._tape is not None and self._tape.is_offline:
            self._tape = None

    def choose(self, mode: CassetteMode, file: str | None = None) -> CassetteChoice:
        """Use `file`, None: the usual one, for `mode` from now on in this kernel.

        Raises:
            ConfigError: If a configuration file or a variable is wrong, no file is known, or it
                cannot be read.
        """
        chosen = self._choice(self._configured(), mode, file)
        tape = None if mode == "off" else _tape(chosen)
        self._said, self._tape = chosen, tape
        return chosen

    @property
    def choice(self) -> CassetteChoice:
        """What is in force.

        Raises:
            ConfigError: If a configuration file or a variable is wrong, or no file is known.
        """
        if self._said is not None:
            return self._said
        configured = self._configured()
        return self._choice(configured, configured.mode, None)

    @property
    def active(self) -> OpenCassette | None:
        """The tape in force; None: models are asked, and nothing is recorded.

        Raises:
            ConfigError: If a configuration file or a variable is wrong, no file is known, or it
                cannot be read.
        """
        chosen = self.choice
        if chosen.mode == "off":
            return None
        if self._tape is None or self._tape.choice != chosen:
            self._tape = _tape(chosen, self._accepts if self._said is None else _accepts_all)
        return self._tape

    def _accepts(self, content: bytes) -> None:
        """Raise `ConfigError` if a cassette of the folder is not to answer yet.

        The user named it neither in this kernel nor by a whole path.
        """
        chosen, named = self.choice, self._configured().path
        is_named = named is not None and os.path.isabs(os.path.expanduser(named))
        assert chosen.path is not None
        said = f"responses that replace models: {len(content)} bytes"
        if not is_named and not self._files.counts(chosen.path, content, [("cassette", said)]):
            raise ConfigError(
                f"the cassette {self.format_path(chosen.path)} came with this folder and "
                "needs your consent. Agree to its content with `%jp trust "
                f"--workspace`, or name it here with `%jp cassette {chosen.mode}`",
                path=f"{PATH}.path",
            )

    def format_path(self, path: Path) -> str:
        """Return how a person names the file at `path`: from the notebook's folder, if it is in."""
        folder = self._files.folder
        return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)

    def _configured(self) -> CassetteConfig:
        if not self._files.has_configuration():
            return CassetteConfig()
        from jp_nb.config.partial import Partial, get_path, merge
        from jp_nb.config.validation import validate

        found: Partial = {}
        for layer in self._files.layers():  # of each the one table: this is asked at each request
            if (given := get_path(layer.partial, PATH)) is not None:
                found = merge(found, {"providers": {"cassette": given}})
        return validate(found).providers.cassette if found else CassetteConfig()

    def _choice(
        self, configured: CassetteConfig, mode: CassetteMode, file: str | None
    ) -> CassetteChoice:
        if mode == "off":
            return CassetteChoice()
        named = file or configured.path
        if named is not None:
            path = self._files.folder / os.path.expanduser(named)  # a `~` that means nothing stays
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
    """Return what takes the key out of a text that `variable` holds then, and what `hide` does."""
    from jp_nb.providers.http import Redaction

    known, redaction = "", Redaction("")

    def hidden(text: str) -> str:
        nonlocal known, redaction
        key = os.environ.get(variable, "").strip() if variable else ""
        if key != known:
            known, redaction = key, Redaction(key)
        return hide(redaction(text) if redaction.applies_to_responses else text)

    return hidden


def _accepts_all(_: bytes) -> None:
    """Accept any content: the user has just named the file."""


def _tape(
    choice: CassetteChoice, accepts: Callable[[bytes], object] = _accepts_all
) -> OpenCassette:

    try:
        return OpenCassette(choice, accepts)
    except StorageError as exc:
        raise ConfigError(str(exc), path=f"{PATH}.path") from exc


AGAIN = (
    "Record everything again: `jp-nb run NOTEBOOK --record`, or `%jp cassette "
    "record` in a notebook. Record only the missing requests: `--replay-or-record`, "
    "or `%jp cassette replay-or-record`"
)


def unrecorded(
    asked: NormalizedRequest, cassette: CassetteContent, used: Collection[int], path: Path
) -> UnrecordedError:
    """Return the error that says how `asked` differs from what `cassette` has.

    Args:
        asked: The request.
        cassette: What there is.
        used: The numbers of the exchanges that have answered already.
        path: Where that is.
    """
    same = [each for each in cassette.exchanges if each.request == asked.id]
    if same:
        times = "once" if len(same) == 1 else f"{len(same)} times"
        return UnrecordedError(
            f"this request is on the cassette {path.name} {times} (line "
            f"{', '.join(str(each.line) for each in same[:10])}), but was sent more "
            "often. Each recording is used once. Start again with `%jp cassette "
            f"replay`. {AGAIN}"
        )
    unused = [each for each in cassette.exchanges if each.number not in used]
    found = find_nearest(asked, unused or cassette.exchanges, cassette.parts)
    if found is None:
        return UnrecordedError(f"the cassette {path.name} is empty. {AGAIN}")
    which = "closest unused recording" if unused else "closest recording (all were used)"
    differing = missed_lines(cassette.asked(found), asked)
    by_line = any(line.startswith(("    - ", "    + ")) for line in differing)
    legend = "- on the cassette, + now" if by_line else "on the cassette → now"
    first = (
        f"this request is not on the cassette {path.name}. The {which} is on line "
        f"{found.line}. Differences ({legend}):"
    )
    return UnrecordedError("\n".join([first, *differing, AGAIN]))


FOLLOW_UP: Final = 8
"""So many messages an attempt that broke off may leave before the next one."""


class OpenCassette:
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
        self._waiting: dict[str, deque[StoredExchange]] = {}
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
    def awaits_response(self) -> bool:
        """True if models were asked for a recording, and none has answered yet."""
        return bool(self._unanswered)

    @property
    def used(self) -> int:
        """So many exchanges of the file have answered."""
        return len(self._used)

    def unused(self) -> list[StoredExchange]:
        """Return what has answered nothing yet; tools that do not run ask no model."""
        done = self._used | self._needless
        return [each for each in self.cassette.exchanges if each.number not in done]

    def replay(self, asked: NormalizedRequest) -> Exchange | None:
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
    def _results(self) -> RecordedResults:
        return RecordedResults(self.cassette)

    def _miss(self, asked: NormalizedRequest) -> UnrecordedError:
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
            self._failed.setdefault(exchange.request.id, []).append(exchange)
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
        found = self._failed.pop(exchange.request.id, [])
        last = {part.id for part in exchange.request.messages[-FOLLOW_UP:]}
        for request, failed in [*self._failed.items()]:
            if failed[0].request.messages and failed[0].request.messages[-1].id in last:
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


def _ends_in_failure(exchange: StoredExchange, cassette: CassetteContent) -> bool:
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
    if place := os.environ.get(environment.CASSETTE_USE):
        note = json.dumps({"cassette": str(path), **what})  # ASCII, whatever the path is
        with open(place, "a", encoding="ascii") as file:
            file.write(note + "\n")
