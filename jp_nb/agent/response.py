"""Assemble the deltas of a response, and compute the delays of retries.

Source: `docs/providers.md`, `docs/turns.md`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from time import monotonic
from typing import Final, Literal, Protocol, TypeVar

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Flush,
    ProviderEvent,
    Retry,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.config.tree.models import Request as RequestConfig
from jp_nb.errors import ProviderError, ProviderErrorKind
from jp_nb.json_values import read_json
from jp_nb.record.events import ChatResponse, Entry, ToolCallRequest

TextKind = Literal["message", "reasoning", "structured"]


@dataclass(slots=True)
class _Buffer:
    kind: TextKind | Literal["tool"]
    parts: list[str] = field(default_factory=list)
    id: str = ""
    name: str = ""


class ResponseBuilder:
    """Builds one model response, item by item.

    Attributes:
        usage: Tokens as reported so far.
        bad_arguments: Parse errors of arguments that were no JSON object, by the number of the
            tool call among those of the response (from 0): ids may come twice.
        without_arguments: The numbers of the tool calls for which not a character came.
        ignored: How many parts did not belong where they came.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self.bad_arguments: dict[int, str] = {}
        self.without_arguments: set[int] = set()
        self._calls = 0
        self.ignored = 0
        self._open: dict[int, _Buffer] = {}

    def feed(self, event: ProviderEvent) -> Entry | None:
        """Take one event; return the finished entry, if it completes one."""
        if isinstance(event, TextPart):
            buffer = self._buffer(event.index, event.kind)
            if buffer is not None:
                buffer.parts.append(event.text)
        elif isinstance(event, ToolCallArguments):
            buffer = self._buffer(event.index, "tool")
            if buffer is not None:
                buffer.parts.append(event.text)
        elif isinstance(event, ToolCallStart):
            buffer = self._buffer(event.index, "tool")
            if buffer is not None:
                buffer.id, buffer.name = buffer.id or event.id, buffer.name or event.name
        elif isinstance(event, Flush):
            buffer = self._open.pop(event.index, None)
            return None if buffer is None else self._entry(buffer, event.metadata)
        elif isinstance(event, Usage):
            given = {f.name: v for f in fields(event) if (v := getattr(event, f.name)) is not None}
            self.usage = replace(self.usage, **given)
        return None

    def _buffer(self, index: int, kind: TextKind | Literal["tool"]) -> _Buffer | None:
        buffer = self._open.get(index)
        if buffer is None:
            buffer = self._open[index] = _Buffer(kind)
        if buffer.kind != kind:
            self.ignored += 1
            return None
        return buffer

    def finish(self) -> tuple[list[Entry], list[str]]:
        """Return what was not flushed: texts as entries, and the names of unfinished tool calls."""
        unfinished = [b.name for b in self._open.values() if b.kind == "tool"]
        return self._as_they_stand("message", "reasoning", "structured"), unfinished

    def peek(self) -> list[Entry]:
        """Return the texts as they stand, for an answer that broke off.

        Never a tool call and never structured data: half of one is none.
        """
        return self._as_they_stand("message", "reasoning")

    def _as_they_stand(self, *kinds: TextKind) -> list[Entry]:
        texts = [buffer for _, buffer in sorted(self._open.items()) if buffer.kind in kinds]
        entries = [self._entry(buffer, {}) for buffer in texts]
        return [entry for entry in entries if entry is not None]

    def _entry(self, buffer: _Buffer, metadata: Mapping[str, JsonValue]) -> Entry | None:
        text, stored = "".join(buffer.parts), dict(metadata)
        if buffer.kind == "message":
            return ChatResponse(message=text, metadata=stored) if text.strip() else None
        if buffer.kind == "reasoning":
            return ChatResponse(reasoning=text, metadata=stored) if text or stored else None
        if buffer.kind == "structured":
            return ChatResponse(data=_json_or_text(text), metadata=stored)
        self._calls += 1
        return ToolCallRequest(
            id=buffer.id,
            name=buffer.name,
            arguments=self._arguments(self._calls - 1, text),
            metadata=stored,
        )

    def _arguments(self, number: int, text: str) -> dict[str, JsonValue]:
        if not text.strip():
            self.without_arguments.add(number)
            return {}
        try:
            value = read_json(text)
        except ValueError as exc:
            self.bad_arguments[number] = f"The arguments are not JSON: {exc}"
            return {}
        if not isinstance(value, dict):
            self.bad_arguments[number] = "The arguments are not a JSON object."
            return {}
        return value


class OverlapTrimmer:
    """Takes away what a continued answer repeats of the text before it.

    Args:
        before: The answer so far.
    """

    LOOKED_AT = 500
    SHORTEST = 5

    def __init__(self, before: str) -> None:
        self._before = before[-self.LOOKED_AT :]
        self._held = ""
        self._open = True

    def feed(self, text: str) -> str:
        """Return what is new of the text so far; "" while that cannot be told."""
        if not self._open:
            return text
        self._held += text
        place = self._before.find(self._held)
        may_repeat_more = 0 <= place < len(self._before) - len(self._held)
        return "" if may_repeat_more else self.rest()

    def rest(self) -> str:
        """Return what is new of the text that was held back; none is held back any more."""
        self._open, held, self._held = False, self._held, ""
        for size in range(min(len(held), len(self._before)), self.SHORTEST - 1, -1):
            if self._before.endswith(held[:size]) and not held[:size].isspace():
                return held[size:]
        return held


def _json_or_text(text: str) -> JsonValue:
    try:
        return read_json(text)
    except ValueError:
        return text


T = TypeVar("T")

MAX_PATCHES: Final = 10
"""How often in a row a provider may mend its rendering and ask to be called again."""
MAX_BREAKS: Final = 4
"""An answer that goes on a little at each attempt gets so many times `max_retries` attempts."""
_KINDS: Final[Mapping[ProviderErrorKind, str]] = {
    "connect": "no connection",
    "timeout": "no answer in time",
    "rate_limit": "rate limit",
    "transient": "server error",
}


class WaitCallback(Protocol):
    """Is told which model is waited for, and until when if that is known."""

    def __call__(self, model: str, *, again: str = "", until: float | None = None) -> None:
        """Note that `model` is asked, or that it will be at `until`; `again` says why."""
        ...


async def with_retries(
    attempt: Callable[[], Awaitable[T | Retry]],
    *,
    model: str,
    limits: RequestConfig,
    waits: WaitCallback,
    sleep: Callable[[float], Awaitable[None]],
    made_progress: Callable[[], bool] = lambda: False,
) -> T:
    """Return the result of `attempt`, which is called until it succeeds or the limits are reached.

    Args:
        attempt: Sends the request once. `Retry` has it called again at once.
        model: Name of the model, for the person.
        limits: How often, and how long the pauses are.
        waits: Is told before each attempt and each pause.
        sleep: Waits that many seconds.
        made_progress: True if the failed attempt brought a part of the answer: the count restarts.

    Raises:
        ProviderError: The last one; it says how often the request was tried.
    """
    failures = tries = patches = 0
    most = limits.max_retries
    while True:
        waits(model)
        try:
            result = await attempt()
        except ProviderError as exc:
            tries += 1
            failures = 1 if made_progress() else failures + 1
            if not exc.retryable or failures > most or tries > MAX_BREAKS * max(most, 1):
                _say_tries(exc, tries)
                raise
            seconds = backoff(limits, failures, exc.retry_after)
            waits(model, again=_reason(exc, failures, most), until=monotonic() + seconds)
            await sleep(seconds)
            continue
        if not isinstance(result, Retry):
            return result
        patches += 1
        if patches > MAX_PATCHES:
            raise ProviderError(f"the provider keeps rejecting the conversation: {result.reason}")


def backoff(limits: RequestConfig, attempt: int, retry_after: float | None) -> float:
    """Return the seconds between attempt number `attempt` (from 1) and the next.

    The server's wish counts, capped; without one the pause doubles, with up to half a second of
    jitter so that many kernels do not come back at one time.
    """
    ceiling = float(limits.max_backoff_secs)
    if retry_after is not None:
        return min(retry_after, ceiling)
    base = limits.base_backoff_ms / 1000
    jitter = random.uniform(0, min(0.5, base))
    return float(min(base * 2 ** (attempt - 1) + jitter, ceiling))


def _reason(error: ProviderError, attempt: int, retries: int) -> str:
    """Say why attempt number `attempt` failed, and which one is next: `429 rate limit, …`."""
    status = f"{error.status} " if error.status is not None else ""
    kind = _KINDS.get(error.kind, "temporarily refused")
    return f"{status}{kind}, attempt {attempt + 1} of {retries + 1}"


def _say_tries(error: ProviderError, tries: int) -> None:
    """Have `error`, the last one, say how often the request was tried, if that is worth a word."""
    if error.retryable or tries > 1:
        times = "once" if tries == 1 else f"{tries} times"
        error.args = (f"{str(error).rstrip('. ')}. It was tried {times}.",)
