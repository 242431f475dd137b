"""Small doubles with the behaviour of the real thing, for tests that need no kernel and no network.

A real `ScriptedProvider` says whole replies; `EventProvider` says events, so that a stream can
break, wait or be silent at any place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from jp_nb.agent.display_events import DisplayEvent, Passing, Waits
from jp_nb.agent.model_events import (
    Finished,
    Flush,
    ModelParameters,
    ModelRequest,
    ProviderEvent,
    SentRequest,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
)
from jp_nb.agent.model_info import ModelList
from jp_nb.agent.model_inquiry import InquiryBackend, InquiryError, ModelInquiry
from jp_nb.agent.prompts import (
    Answered,
    FormEnd,
    FormPrompt,
    FormPromptEnd,
    NotAnswered,
    Prompt,
    PromptEnd,
    Unavailable,
)
from jp_nb.agent.resolved import Resolved
from jp_nb.agent.tool_set import ToolSet, offer_tools
from jp_nb.agent.tool_sources import ToolSources
from jp_nb.agent.turn import TurnEnd, TurnLoop
from jp_nb.config.layers import REGISTRATIONS, Layer, fold
from jp_nb.config.model_aliases import resolve_model
from jp_nb.config.partial import Partial
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.model_config import Request as RequestConfig
from jp_nb.config.tree.tool_config import RunMode, ToolConfig
from jp_nb.config.validation import validate
from jp_nb.image import Image
from jp_nb.record.call_progress import CallStage
from jp_nb.record.events import ChatRequest, Entry
from jp_nb.record.projection import Projection
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread, ThreadEntry, thread_of
from jp_nb.record.turn_view import Turn, read_turn
from jp_nb.tooling.base import Tool
from jp_nb.tooling.builtin import BuiltinTools, registered
from jp_nb.tooling.command import CommandTools
from jp_nb.tooling.python import PythonTool
from jp_nb.tooling.sources import SourceDefaults, ToolSource

T = TypeVar("T")


class FakeClock:
    """A clock that goes on by a second each time it is read."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 18, 13, 19, 6, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


class NumberedIds:
    """Draws ids one after the other: `id-1`, `id-2`."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self) -> str:
        self.drawn += 1
        return f"id-{self.drawn}"


def new_stream(
    *raw: Mapping[str, Any], base_config: Partial | None = None, tolerant: bool = False
) -> ConversationStream:
    """A conversation that holds `raw`."""
    return ConversationStream(
        {"id": "jp-c1", "made": "live"},
        clock=FakeClock(),
        base_config=base_config,
        raw=[dict(entry) for entry in raw],
        draw=NumberedIds(),
        tolerant=tolerant,
    )


def without_ids(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A stored entry without what the stream adds to it."""
    return {key: value for key, value in raw.items() if key not in ("event_id", "request_id")}


# --- a model ---------------------------------------------------------------------------------


def say(text: str, *, index: int = 0) -> list[ProviderEvent]:
    """Events of one message."""
    return [TextPart(index, "message", text), Flush(index)]


def call(name: str, call_id: str = "call_1", *, index: int = 1, text: str = "{}") -> list[Any]:
    """Events of one tool call whose arguments are the JSON `text`."""
    return [ToolCallStart(index, call_id, name), ToolCallArguments(index, text), Flush(index)]


def reply(*parts: list[ProviderEvent]) -> list[ProviderEvent]:
    """Events of a whole response, ending as it should."""
    return [*(event for part in parts for event in part), Finished()]


Step = ProviderEvent | Exception | Callable[[], Awaitable[None]]


class EventProvider:
    """Streams the given events, one list a request; raises an exception or awaits where one stands.

    Attributes:
        requests: What it was asked, with the thread as it was then.
        closed: How many streams were closed.
    """

    def __init__(self, *scripts: Sequence[Step]) -> None:
        self._scripts = list(scripts)
        self.requests: list[tuple[ModelRequest, list[ThreadEntry]]] = []
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        self.requests.append((request, [item.entry for item in request.thread]))
        if not self._scripts:
            raise AssertionError("the provider was asked once too often")
        try:
            for step in self._scripts.pop(0):
                if isinstance(step, Exception):
                    raise step
                if callable(step):
                    await step()
                else:
                    yield step
        finally:
            self.closed += 1

    def preview(self, request: ModelRequest) -> SentRequest:
        return SentRequest("", "nowhere", {}, b"{}")

    @property
    def address(self) -> str:
        return ""

    def check_ready(self, model: str, text: str) -> None:
        return None

    def check_schema(self, schema: Mapping[str, Any]) -> None:
        return None

    async def models(self, *, seconds: float) -> ModelList:
        return ModelList()

    async def aclose(self) -> None:
        return None


class MockInquiryBackend:
    """A model that answers tools' questions with `answers`: by inquiry id, else by `schema_id`.

    An answer may also be an exception to raise, or a function to await for it. An id without an
    answer is an error.

    Attributes:
        asked: The inquiries, each with the thread as it was when it came.
        running: How many inquiries are under way.
        most_at_once: The largest number of them at the same time.
        cancelled: Ids of the inquiries that were cancelled.
    """

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self._answers = dict(answers or {})
        self.asked: list[tuple[ModelInquiry, list[ThreadEntry]]] = []
        self.running = 0
        self.most_at_once = 0
        self.cancelled: list[str] = []

    async def inquire(self, thread: Thread, inquiry: ModelInquiry) -> Any:
        self.asked.append((inquiry, [item.entry for item in thread]))
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            return await self._answer(inquiry)
        except asyncio.CancelledError:
            self.cancelled.append(inquiry.id)
            raise
        finally:
            self.running -= 1

    async def _answer(self, inquiry: ModelInquiry) -> Any:
        for key in (inquiry.id, inquiry.schema_id):
            if key in self._answers:
                answer = self._answers[key]
                if isinstance(answer, Exception):
                    raise answer
                return await answer() if callable(answer) else answer
        raise InquiryError(f"nothing was prepared for {inquiry.id!r} or {inquiry.schema_id!r}")


# --- a person --------------------------------------------------------------------------------


class FakePrompter:
    """A person who gives the `ends` in order, or is away if `away` says why.

    Each end may also be an exception to raise, or a function to await for it.

    Attributes:
        asked: The prompts that were shown.
        most_at_once: The largest number of prompts that were shown at the same time.
    """

    def __init__(
        self,
        *ends: PromptEnd | FormEnd | Exception | Callable[[], Awaitable[PromptEnd | FormEnd]],
        away: str | None = None,
    ) -> None:
        self._ends = list(ends)
        self.away = away
        self.asked: list[Any] = []
        self.most_at_once = 0
        self._shown = 0
        self._open: set[asyncio.Future[PromptEnd | FormEnd]] = set()

    def nobody(self) -> Unavailable | None:
        return None if self.away is None else Unavailable(self.away)

    async def ask(self, prompt: Prompt) -> PromptEnd:
        end = await self._put(prompt)
        assert not isinstance(end, FormEnd)
        return end

    async def ask_form(self, prompt: FormPrompt) -> FormPromptEnd:
        """Answer all pages as one prompt, or each of them as it would be answered alone."""
        ends: list[Answered | NotAnswered] = []
        if self._ends and (isinstance(self._ends[0], FormEnd) or callable(self._ends[0])):
            end = await self._put(prompt)
            if not isinstance(end, Answered):
                return end
            ends.append(end)
        for page in prompt.pages[len(ends) :]:
            end = await self._put(page)
            if not isinstance(end, Answered):
                return end
            ends.append(end)
        return FormEnd(tuple(ends))

    async def _put(self, prompt: Prompt | FormPrompt) -> PromptEnd | FormEnd:
        self.asked.append(prompt)
        if not self._ends:
            raise AssertionError(f"nobody expected to be asked {prompt}")
        end = self._ends.pop(0)
        self._shown += 1
        self.most_at_once = max(self.most_at_once, self._shown)
        try:
            if callable(end):
                return await self._unless_interrupted(end)
            await asyncio.sleep(0)
            if isinstance(end, Exception):
                raise end
            return end
        finally:
            self._shown -= 1

    async def _unless_interrupted(
        self, end: Callable[[], Awaitable[PromptEnd | FormEnd]]
    ) -> PromptEnd | FormEnd:
        answer = asyncio.ensure_future(end())
        self._open.add(answer)  # at once: an interrupt ends whatever is in `asked`
        try:
            return await answer
        except asyncio.CancelledError:
            if answer in self._open:
                raise
            return NotAnswered("interrupted", "form")
        finally:
            self._open.discard(answer)
            answer.cancel()

    def interrupt(self) -> None:
        while self._open:
            self._open.pop().cancel()


def yes(value: Any = True, *, remember: bool = False) -> Answered:
    """Somebody answers `value` in the form."""
    return Answered(value, "form", remember=remember)


CANCELLED = NotAnswered("cancelled", "form")


# --- the cell --------------------------------------------------------------------------------


class InlineCell:
    """Runs functions at once, on the thread of the loop.

    Attributes:
        released: How often it was told to go on after an interrupt.
    """

    released = 0

    async def call(self, function: Callable[[], T]) -> T:
        return function()

    def release(self) -> None:
        self.released += 1


# --- a turn ----------------------------------------------------------------------------------


@dataclass
class Bench:
    """Everything around one turn loop, over real tools, a real record and a real configuration.

    Attributes:
        scripts: What the model streams, one list a request.
        tools: Python tools by name.
        person: Who is asked.
        config: A partial over the registrations.
        inquiry: Answers tools' questions in place of a person.
        sources: Where tools come from, if not from `tools`, `executors` and builtins.
        models: Other providers, by `provider/name` of the model that is configured.
        chains: Whether an answer that reaches the token limit is gone on with.
        projection: The configuration: registrations, `config`, and what the record says.
        shown: What the display was given, to keep.
        passing: What the display was given, to show while it lasts.
        slept: The waits before retries.
        progress: The stages of calls that were kept outside of the process.
    """

    scripts: Sequence[Sequence[Step]]
    tools: Iterable[PythonTool] = ()
    person: FakePrompter = field(default_factory=FakePrompter)
    config: Partial = field(default_factory=dict)
    executors: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict)
    sources: ToolSources | None = None
    strict: bool = False
    request: RequestConfig = field(default_factory=RequestConfig)
    stream: ConversationStream = field(default_factory=new_stream)
    shown: list[DisplayEvent] = field(default_factory=list)
    passing: list[DisplayEvent] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    progress: list[CallStage] = field(default_factory=list)
    inquiry: InquiryBackend | None = None
    models: Mapping[str, EventProvider] = field(default_factory=dict)
    chains: bool = False

    def __post_init__(self) -> None:
        self.provider = EventProvider(*self.scripts)
        self.projection = Projection(self.stream, self._layers, made_here=True)
        self.cell = InlineCell()
        self.loop = TurnLoop(
            stream=self.stream,
            thread=thread_of(self.stream),
            resolve=self._resolve,
            prompter=self.person,
            cell=self.cell,
            display=self.show,
            strict=self.strict,
            context={"root": "/home/ada/space", "conversation_id": "jp-c1"},
            sleep=self._sleep,
            progress=lambda _, kept: self.progress.append(kept.stage),
        )

    def show(self, event: DisplayEvent) -> None:
        (self.passing if isinstance(event, Passing) else self.shown).append(event)

    def waits(self) -> list[str]:
        """What was waited for, in order."""
        return [event.text for event in self.passing if isinstance(event, Waits)]

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def _layers(self) -> list[Layer]:
        return layers_of(self.config, self.tools)

    def app_config(self) -> AppConfig:
        self.projection.below_changed()
        return self.projection.config()

    @property
    def _executors(self) -> Mapping[str, Mapping[str, Tool]]:
        return {"python": {tool.name: tool for tool in self.tools}, **self.executors}

    def offer(self) -> ToolSet:
        return offer_now(self.app_config(), self._executors, nobody=self.person.away)

    async def _resolve(self) -> Resolved:
        config = self.app_config()
        now = self.projection.now()
        model = resolve_model(config.assistant.model.id, config.providers.llm.aliases)
        other = self.models.get(str(model))
        return Resolved(
            provider=other or self.provider,
            provider_name=model.provider if other else "test",
            model=model.name if other else "test-model",
            system=config.assistant.system(),
            tools=(
                await offer_tools(config, self.sources, nobody=self.person.away)
                if self.sources
                else self.offer()
            ),
            tool_choice=config.assistant.tool_choice,
            parameters=ModelParameters(),
            request=self.request,
            interrupts=config.interrupt,
            inquiry=self.inquiry,
            basis=ConfigSnapshot(now.after, now.defaults, config),
            chains=self.chains,
        )

    async def run(self, text: str = "Go.", images: Sequence[Image] = ()) -> TurnEnd:
        return await self.loop.run(ChatRequest(content=text), images)

    # --- what came of it

    @property
    def turn(self) -> Turn:
        last = self.stream.last_turn()
        assert last is not None
        return read_turn(last.number, last.entries, images=self.stream.images)

    @property
    def entries(self) -> list[Entry]:
        return self.stream.entries

    def kinds(self) -> list[str]:
        return [entry.type for entry in self.stream.entries]

    def of(self, kind: type[T]) -> list[T]:
        return [entry for entry in self.stream.entries if isinstance(entry, kind)]

    def shown_of(self, kind: type[T]) -> list[T]:
        return [event for event in self.shown if isinstance(event, kind)]


class GivenTools(SourceDefaults):
    """Tools by name as a source; what is not among them is in the source `beyond`, if any."""

    def __init__(
        self, name: str, tools: Mapping[str, Tool], beyond: ToolSource | None = None
    ) -> None:
        self.name, self._tools, self._beyond = name, tools, beyond
        self.run: RunMode = beyond.run if beyond else "unattended" if name == "python" else "ask"

    @property
    def title(self) -> str:
        return self._beyond.title if self._beyond else self.name.replace("python", "Python")

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        own = {name: (tool.source or "").partition(".")[2] or name for name, tool in wanted.items()}
        more = await self._beyond.list(wanted) if self._beyond else {}
        return {**more, **{name: self._tools[x] for name, x in own.items() if x in self._tools}}


def tool_sources(executors: Mapping[str, Mapping[str, Tool]]) -> ToolSources:
    """Sources of the tools in `executors`, by kind and name, of builtins and of commands."""
    kinds: dict[str, ToolSource] = {"builtin": BuiltinTools(), "local": CommandTools()}
    sources = [
        GivenTools(kind, executors.get(kind, {}), kinds.get(kind))
        for kind in {**kinds, **executors}
    ]
    return ToolSources(lambda _: sources)


def offer_now(
    config: AppConfig,
    executors: Mapping[str, Mapping[str, Tool]] | None = None,
    *,
    nobody: str | None = None,
) -> ToolSet:
    """What a model is offered under `config`, whether a loop runs here or not."""
    offered = offer_tools(config, tool_sources(executors or {}), nobody=nobody)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, offered).result()


def configured(partial: Partial, tools: Iterable[PythonTool] = ()) -> AppConfig:
    """The configuration of `partial` over the registrations of builtins and `tools`."""
    return validate(fold(layers_of(partial, tools)))


def layers_of(partial: Partial, tools: Iterable[PythonTool] = ()) -> list[Layer]:
    """The registrations of builtins and `tools`, and `partial` as a file over them."""
    functions = {tool.name: dict(tool.registration) for tool in tools}
    registrations = Layer(REGISTRATIONS, registered(functions))
    return [registrations, Layer("workspace file", partial)]


def for_tool(name: str, **settings: Any) -> Partial:
    """A partial that sets fields of one tool."""
    return {"conversation": {"tools": {name: settings}}}


async def until(condition: Callable[[], object]) -> None:
    """Wait until `condition` holds; what else is the case by then is open.

    A loop on a busy machine may look after each of its steps, or after many of them.
    """
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - any condition, not one event
            await asyncio.sleep(0.001)


async def forever() -> Any:
    """Wait for good: only a cancellation ends it."""
    await asyncio.Event().wait()
