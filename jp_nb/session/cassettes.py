"""Record and replay the requests of a session.

Only files, environment variables, and `%jp cassette` select a cassette. A record cannot: a notebook
from someone else must not write a file, or select recorded responses.

Source: `docs/cassettes.md`, `docs/decisions.md` D109.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.exchange_recorder import (
    Exchange,
    ExchangeRecorder,
    FailedResponse,
    IncompleteResponse,
    RecordedResult,
)
from jp_nb.agent.provider import (
    ModelList,
    ModelRequest,
    PrefixLoss,
    PromptCut,
    Provider,
    ProviderEvent,
    SentRequest,
)
from jp_nb.agent.request_normalizer import HideSecrets, NormalizedRequest, RequestNormalizer
from jp_nb.config.tree.model_settings import Cassette as CassetteConfig
from jp_nb.config.tree.model_settings import CassetteMode
from jp_nb.errors import ConfigError, ProviderError, StorageError, UnrecordedError
from jp_nb.record.context import RequestContext
from jp_nb.rendering.cassette_miss import format_mismatch
from jp_nb.storage.cassette_file import (
    CassetteContent,
    CassetteResults,
    CassetteWriter,
    StoredExchange,
    default_cassette_path,
    parse_cassette,
    read_cassette_bytes,
    refuse_unless_cassette,
    refuse_unsafe_cassette_link,
)
from jp_nb.storage.config_files import ConfigFiles
from jp_nb.storage.run_events import append_run_event


@dataclass(frozen=True, slots=True)
class CassetteChoice:
    """A cassette file and its use. A path in the notebook's `folder` may not link out of it."""

    mode: CassetteMode = "off"
    path: Path | None = None  # None if the mode is `off`
    tools: str = "run"  # `recorded`: the cassette also replaces tools
    folder: Path | None = None


_CASSETTE_TABLE: Final = "providers.cassette"


class Cassettes:
    """The cassette of one session.

    If the extension is loaded again, `previous` is the earlier object: a recording continues, and a
    replay starts from the beginning.
    """

    def __init__(
        self, files: ConfigFiles, notebook: Path | None, previous: Cassettes | None = None
    ) -> None:
        self._files = files
        self._notebook = notebook
        self._chosen: CassetteChoice | None = None
        self._open: OpenCassette | None = None
        self._opening = threading.RLock()  # a cassette is opened once, whichever thread needs it
        if previous is not None:
            self._chosen = previous._chosen
            if previous._open is not None and not previous._open.is_offline:
                self._open = previous._open

    def choose(
        self, mode: CassetteMode, file: str | None = None, *, tools: str | None = None
    ) -> CassetteChoice:
        """Use `file` in this `mode` from now on in this kernel.

        Args:
            mode: What happens with requests.
            file: The cassette; None: the configured file, or the default one.
            tools: `run` or `recorded`; None: as configured.

        Raises:
            ConfigError: The configuration is not valid, or the file is unknown or cannot be read.
        """
        choice = self._choose(self._configured(), mode, file)
        if tools is not None:
            choice = replace(choice, tools=tools)

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

        with self._opening:
            if self._open is None or self._open.choice != choice:
                check_content = self._check_consent if self._chosen is None else None
                self._open = _open_cassette(choice, check_content)
            return self._open

    def _check_consent(self, content: bytes) -> None:
        """Raise `ConfigError` for a relative path, unless the user consented to the content."""
        chosen = self.choice
        path = self._configured().path
        is_absolute = path is not None and os.path.isabs(os.path.expanduser(path))
        assert chosen.path is not None
        leaf = ("cassette", f"responses that replace models: {len(content)} bytes")

        if not is_absolute and not self._files.is_applied(chosen.path, content, [leaf]):
            raise ConfigError(
                f"the cassette {self.format_path(chosen.path)} came with this folder and "
                "needs your consent. Agree to its content with `%jp trust "
                f"--workspace`, or name it here with `%jp cassette {chosen.mode}`",
                path=f"{_CASSETTE_TABLE}.path",
            )

    def format_path(self, path: Path) -> str:
        """Return `path`, relative to the notebook's folder if it is in it."""
        folder = self._files.folder
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
        return str(path)

    def _configured(self) -> CassetteConfig:
        if not self._files.has_configuration():
            return CassetteConfig()

        from jp_nb.config.partial import Partial, get_path, merge_partials
        from jp_nb.config.validation import validate_config

        partial: Partial = {}
        for layer in self._files.layers():  # only this table, as each request needs it
            if (table := get_path(layer.partial, _CASSETTE_TABLE)) is not None:
                partial = merge_partials(partial, {"providers": {"cassette": table}})

        if not partial:
            return CassetteConfig()
        return validate_config(partial).providers.cassette

    def _choose(
        self, configured: CassetteConfig, mode: CassetteMode, file: str | None
    ) -> CassetteChoice:
        if mode == "off":
            return CassetteChoice()

        if (name := file or configured.path) is not None:
            path = self._files.folder / os.path.expanduser(name)  # an unknown `~user` stays
            path = Path(os.path.abspath(path))
        elif self._notebook is not None:
            path = default_cassette_path(self._notebook)
        else:
            raise ConfigError(
                "the name of this notebook is unknown, so its cassette has no "
                f"default name. Set this path, or give the file: `%jp cassette {mode} "
                "FILE`",
                path=f"{_CASSETTE_TABLE}.path",
            )

        return CassetteChoice(mode, path, configured.tools, self._files.folder)


def hide_key(variable: str | None, hide: HideSecrets) -> HideSecrets:
    """Return a function that hides the current key in `variable`, and the secrets of `hide`."""
    from jp_nb.providers.http import get_current_redactor

    return lambda text: hide(get_current_redactor(variable).hide_in_response(text))


def _open_cassette(
    choice: CassetteChoice, check_content: Callable[[bytes], object] | None = None
) -> OpenCassette:
    try:
        return OpenCassette(choice, check_content)
    except StorageError as exc:
        raise ConfigError(str(exc), path=f"{_CASSETTE_TABLE}.path") from exc


MISS_ADVICE = (
    "Record everything again: `jp-nb run NOTEBOOK --record`, or `%jp cassette "
    "record` in a notebook. Record only the missing requests: `--replay-or-record`, "
    "or `%jp cassette replay-or-record`"
)


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
        self.path = choice.path
        self.is_offline = choice.mode == "replay"  # no request is sent
        self.is_recording = choice.mode == "record"  # every request is sent and recorded

        self._failed: dict[str, list[Exchange]] = {}
        self._held_failures: list[Exchange] = []
        self._used: set[int] = set()
        self._first_miss = ""
        self._lock = threading.RLock()  # turns and rows have event loops of their own

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
        """Return the exchanges that were not replayed, except inquiries if tools are replaced."""
        done = self._used | self._unneeded
        return [exchange for exchange in self.content.exchanges if exchange.number not in done]

    def replay(self, asked: NormalizedRequest) -> Exchange | None:
        """Return the next recorded exchange of `asked`; None: send the request.

        Raises:
            UnrecordedError: Only the cassette may be used, and it does not have the request.
        """
        with self._lock:
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
        if self.choice.tools != "recorded" or self.is_recording:
            return None

        found = self._results.of(last_message)
        return found if found or self.is_offline else None

    @cached_property
    def _results(self) -> CassetteResults:
        return CassetteResults(self.content)

    def _miss(self, asked: NormalizedRequest) -> UnrecordedError:
        # A tool continues with an error if its question to a model is missing. The next request is
        # then missing too, so the first miss is reported.
        if self._first_miss and not asked.is_inquiry:
            first = self._first_miss
            self._first_miss = ""
            return UnrecordedError(first)

        error = UnrecordedError(self._describe_miss(asked))
        if asked.is_inquiry:
            self._first_miss = self._first_miss or str(error)
        return error

    def _describe_miss(self, asked: NormalizedRequest) -> str:
        exchanges = self.content.exchanges
        name = self.path.name
        if lines := [str(each.line) for each in exchanges if each.request == asked.id]:
            times = "once" if len(lines) == 1 else f"{len(lines)} times"
            return (
                f"this request is on the cassette {name} {times} (line "
                f"{', '.join(lines[:10])}), but was sent more "
                "often. Each recording is used once. Start again with `%jp cassette "
                f"replay`. {MISS_ADVICE}"
            )

        unused = [each for each in exchanges if each.number not in self._used]
        found = self.content.find_nearest(asked, unused or exchanges)
        if found is None:
            return f"the cassette {name} is empty. {MISS_ADVICE}"

        which = "closest unused recording" if unused else "closest recording (all were used)"
        differing = format_mismatch(self.content.asked(found), asked)
        by_line = any(line.startswith(("    - ", "    + ")) for line in differing)
        legend = "- on the cassette, + now" if by_line else "on the cassette → now"

        first = (
            f"this request is not on the cassette {name}. The {which} is on line "
            f"{found.line}. Differences ({legend}):"
        )
        return "\n".join([first, *differing, MISS_ADVICE])

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
        if self.is_recording:
            self._held_failures.append(exchange)
            if exchange.has_failed and not self.added:
                return
            exchanges = self._held_failures
            self._held_failures = []
        elif exchange.has_failed:
            self._failed.setdefault(exchange.request.id, []).append(exchange)
            return
        else:
            exchanges = [*self._take_failures(exchange), exchange]

        for each in exchanges:
            self._writer.add(each)
            append_run_event(cassette=str(self.path), added=1, anew=self.is_recording)

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


class CassetteProvider:
    """Wrapper of a provider that records its responses, or replays recorded ones.

    `make` creates the wrapped provider when it is first needed. `hide` removes secrets from a text
    before it is recorded. `answered_request` is the last request that the cassette answered.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Provider],
        cassette: OpenCassette,
        hide: HideSecrets = str,
    ) -> None:
        self._name = name
        self._make = make
        self._cassette = cassette
        self._hide = hide
        self._normalizer = RequestNormalizer(name, hide)
        self.answered_request: ModelRequest | None = None

    @cached_property
    def _provider(self) -> Provider:
        return self._make()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response of the cassette or of the wrapped provider; see `Provider`."""
        asked = self._normalizer.normalize(request)
        await asyncio.sleep(0)  # let other tasks run, as the wait for a model does
        exchange = self._cassette.replay(asked)

        if exchange is None:
            async with aclosing(self._stream_recorded(request, asked)) as events:
                async for event in events:
                    yield event
            return
        self.answered_request = request
        for event in exchange.events:
            yield event

        if isinstance(exchange.end, FailedResponse):
            raise exchange.end.error()
        if not isinstance(exchange.end, IncompleteResponse):
            yield exchange.end

    async def _stream_recorded(
        self, request: ModelRequest, asked: NormalizedRequest
    ) -> AsyncGenerator[ProviderEvent, None]:
        recorder = ExchangeRecorder(asked, self._hide)
        ended = False
        try:
            async with aclosing(self._provider.stream(request)) as events:
                async for event in events:
                    # A replay does not know the bytes of the request.
                    if isinstance(event, PrefixLoss | PromptCut):
                        continue
                    if not ended and (exchange := recorder.on_event(event)) is not None:
                        self._cassette.keep(exchange)  # before the turn continues
                        ended = True
                    yield event
        except ProviderError as exc:
            if not ended:
                self._cassette.keep(recorder.failed(exc))
            raise

        if not ended:
            self._cassette.keep(recorder.incomplete())

    def results(self, context: RequestContext) -> Sequence[RecordedResult] | None:
        """Return the recorded results of the last calls in `context`; None if tools must run."""
        return self._cassette.results(self._normalizer.last_message(context))

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return the request that the wrapped provider would send; see `Provider`."""
        return self._provider.preview(request)

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the wrapped provider; see `Provider`.

        Raises:
            ProviderError: The cassette is offline, or the wrapped provider fails.
        """
        if self._cassette.is_offline:
            raise ProviderError(
                f"a cassette replaces {self._name}, so its models cannot be listed "
                "(turn the cassette off: `%jp cassette off`)"
            )
        return await self._provider.models(seconds=seconds)

    async def count_tokens(self, request: ModelRequest, *, seconds: float) -> int:
        """Ask the server of the wrapped provider, and record nothing; see `Provider`.

        Raises:
            ProviderError: The cassette is offline, or the wrapped provider fails.
        """
        if self._cassette.is_offline:
            raise ProviderError(
                f"a cassette replaces {self._name}, so it cannot count tokens "
                "(turn the cassette off: `%jp cassette off`)"
            )
        return await self._provider.count_tokens(request, seconds=seconds)

    @property
    def address(self) -> str:
        """Address of the wrapped provider; "" if the cassette is offline. See `Provider`."""
        return "" if self._cassette.is_offline else self._provider.address

    def check_ready(self, model: str, text: str) -> None:
        """Check the wrapped provider if every request goes to it; see `Provider`."""
        if self._cassette.is_recording:
            self._provider.check_ready(model, text)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Check that the wrapped provider accepts `schema`; see `Provider`."""
        self._provider.check_schema(schema)

    async def aclose(self) -> None:
        """Close the connections of the wrapped provider."""
        if "_provider" in vars(self):
            await self._provider.aclose()
