"""A turn loop with real tools and a real record. The test supplies the events of its model.

A real `ScriptedProvider` streams whole replies; `EventProvider` streams events, so that a stream
can break, wait or be silent at any event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jp_nb as jp
from jp_nb.agent.display import TransientEvent
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.inquiry import InquiryError, ModelInquiry
from jp_nb.agent.provider import ProviderEvent
from jp_nb.agent.tool_set import offer_tools
from jp_nb.agent.tool_sources import ToolSources
from jp_nb.agent.turn import TurnLoop
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.agent.turn_state import TurnContext, UsageCounter
from jp_nb.config.aliases import resolve_model
from jp_nb.config.layers import Layer
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.model_settings import Request as RequestConfig
from jp_nb.record.config_history import Projection
from jp_nb.record.context import build_context
from jp_nb.record.events import Entry
from jp_nb.record.interrupted_turn import CallProgress
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turn_view import read_turn
from jp_nb.session.answers import SessionAnswers
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.python import PythonTool
from tests.kit.kinds import is_kind, select_kind
from tests.kit.models import model_event, request_value
from tests.kit.records import new_event
from tests.kit.tools import layers_of, offer_now
from tests.support.entries import FakeClock, new_stream, open_inquiries
from tests.support.fakes import FakePrompter, InlineCell


def say(text: str, *, index: int = 0) -> list[ProviderEvent]:
    """Return the events of one message."""
    return [model_event("text", index, "message", text), model_event("flush", index)]


def call(name: str, call_id: str = "call_1", *, index: int = 1, text: str = "{}") -> list[Any]:
    """Return the events of one tool call whose arguments are the JSON `text`."""
    return [
        model_event("call_start", index, call_id, name),
        model_event("call_arguments", index, text),
        model_event("flush", index),
    ]


def reply(*parts: list[ProviderEvent]) -> list[ProviderEvent]:
    """Return the events of a whole response."""
    return [*(event for part in parts for event in part), model_event("finished")]


DONE = reply(say("Done."))
BROKEN = jp.ProviderError("reset", kind="transient")
Step = ProviderEvent | Exception | Callable[[], Awaitable[None]]


class EventProvider:
    """Streams one list of events per request. It raises exceptions and awaits functions in it.

    Attributes:
        requests: The requests, with the entries of the context at that time.
        closed: How many streams were closed.
    """

    def __init__(self, *scripts: Sequence[Step]) -> None:
        self._scripts = list(scripts)
        self.requests: list[tuple[Any, list[Any]]] = []
        self.closed = 0

    async def stream(self, request: Any) -> AsyncGenerator[ProviderEvent, None]:
        self.requests.append((request, [item.entry for item in request.context]))
        if not self._scripts:
            raise AssertionError("the test expects no further request")
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

    def preview(self, request: Any) -> Any:
        return request_value("sent_request", "", "nowhere", {}, b"{}")

    @property
    def address(self) -> str:
        return ""

    def check_ready(self, model: str, text: str) -> None:
        return None

    def check_schema(self, schema: Mapping[str, Any]) -> None:
        return None

    async def count_tokens(self, request: Any, *, seconds: float) -> int:
        return 0

    async def models(self, *, seconds: float) -> Any:
        return request_value("model_list")

    async def aclose(self) -> None:
        return None


class MockInquiryBackend:
    """A model that answers tools' questions with `answers`: by inquiry id, else by `schema_id`.

    An answer may also be an exception to raise, or a function to await for it. An id without an
    answer is an error.

    Attributes:
        asked: The inquiries, each with the entries of the context at that time.
        running: Number of inquiries that are not answered yet.
        most_at_once: The largest number of them at the same time.
        cancelled: Ids of the inquiries that were cancelled.
    """

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self._answers = dict(answers or {})
        self.asked: list[tuple[ModelInquiry, list[Any]]] = []
        self.running = 0
        self.most_at_once = 0
        self.cancelled: list[str] = []

    async def inquire(self, context: Any, inquiry: ModelInquiry) -> Any:
        self.asked.append((inquiry, [item.entry for item in context]))
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


@dataclass
class Bench:
    """A turn loop with real tools, a real record, and a real configuration.

    Attributes:
        scripts: The events that the model streams, one list a request.
        tools: Python tools by name.
        person: The user.
        config: A partial over the registrations.
        inquiry: Answers tools' questions instead of the user.
        sources: The sources of tools, instead of `tools`, `executors` and builtins.
        models: Other providers, by `provider/name` of the model that is configured.
        continues_answers: Whether an answer that reaches the token limit is continued.
        projection: The configuration: registrations, `config`, and the record.
        shown: The display events to keep.
        passing: The display events to show for a time.
        slept: The waits before retries.
        progress: The stages of each call that were kept outside of the process, by event id.
    """

    scripts: Sequence[Sequence[Step]]
    tools: Iterable[PythonTool] = ()
    person: FakePrompter = field(default_factory=FakePrompter)
    config: dict[str, Any] = field(default_factory=dict)
    executors: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict)
    sources: ToolSources | None = None
    strict: bool = False
    request: RequestConfig = field(default_factory=RequestConfig)
    stream: ConversationStream = field(default_factory=new_stream)
    shown: list[Any] = field(default_factory=list)
    passing: list[Any] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    progress: dict[str, list[Any]] = field(default_factory=dict)
    inquiry: Any | None = None
    models: Mapping[str, EventProvider] = field(default_factory=dict)
    continues_answers: bool = False

    def __post_init__(self) -> None:
        self.provider = EventProvider(*self.scripts)
        self.projection = Projection(self.stream, self._layers, is_local=True)
        self.cell = InlineCell()
        context = TurnContext(
            record=TurnRecord(self.stream, build_context(self.stream)),
            prompter=self.person,
            cell=self.cell,
            display=self.show,
            prepared=SessionAnswers(),
            tokens=UsageCounter(self.show),
            shared={"root": "/home/ada/space", "conversation_id": "jp-c1"},
            sleep=self._sleep,
            progress=self._keep_progress,
        )
        self.loop = TurnLoop(context, resolve=self._resolve, strict=self.strict)

    def use(self, **ports: Any) -> None:
        """Replace ports of the turn before it runs."""
        self.loop.turn = replace(self.loop.turn, **ports)

    @property
    def context(self) -> Any:
        return self.loop.turn.record.context

    def show(self, event: Any) -> None:
        (self.passing if isinstance(event, TransientEvent) else self.shown).append(event)

    def waits(self) -> list[str]:
        """Return the texts that were shown while the turn waited, in order."""
        return [event.text for event in self.passing if is_kind(event, "waits")]

    def _keep_progress(self, progress: Mapping[str, CallProgress]) -> None:
        for event_id, kept in progress.items():
            self.progress.setdefault(event_id, []).append(kept.stage)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def _layers(self) -> list[Layer]:
        return layers_of(self.config, self.tools)

    def app_config(self) -> AppConfig:
        self.projection.reload_layers()
        return self.projection.config()

    @property
    def _executors(self) -> Mapping[str, Mapping[str, Tool]]:
        return {"python": {tool.name: tool for tool in self.tools}, **self.executors}

    def offer(self) -> Any:
        return offer_now(self.app_config(), self._executors, unavailable_reason=self.person.away)

    async def _resolve(self) -> Resolved:
        config = self.app_config()
        now = self.projection.now()
        model = resolve_model(config.assistant.model.id, config.providers.llm.aliases)
        other = self.models.get(str(model))
        return Resolved(
            provider=other or self.provider,
            provider_name=model.provider if other else "test",
            model=model.name if other else "test-model",
            system=config.assistant.system_texts(),
            tools=(
                await offer_tools(config, self.sources, unavailable_reason=self.person.away)
                if self.sources
                else self.offer()
            ),
            tool_choice=config.assistant.tool_choice,
            parameters=request_value("parameters"),
            request=self.request,
            inquiry=self.inquiry,
            basis=ConfigSnapshot(now.after, now.defaults, config),
            continues_answers=self.continues_answers,
        )

    async def run(self, text: str = "Go.", images: Sequence[jp.Image] = ()) -> Any:
        return await self.loop.run(new_event("chat_request", content=text), images)

    # --- what came of it

    @property
    def turn(self) -> jp.Turn:
        last = self.stream.last_turn()
        assert last is not None
        return read_turn(last.number, last.entries, images=self.stream.images)

    @property
    def entries(self) -> list[Entry]:
        return self.stream.entries

    def kinds(self) -> list[str]:
        return [entry.type for entry in self.stream.entries]

    def of(self, kind: str) -> list[Any]:
        return select_kind(self.stream.entries, kind)

    def shown_of(self, kind: str) -> list[Any]:
        return select_kind(self.shown, kind)


def make_result_tool(content: str, *, name: str = "t") -> PythonTool:
    return PythonTool(lambda: content, name=name)


def is_well_formed(stream: ConversationStream) -> bool:
    """Return True if every call has a response and every inquiry an end."""
    again = ConversationStream(stream.head, clock=FakeClock(), raw=list(stream.raw))
    return not again.repair() and not stream.open_tool_calls() and not open_inquiries(stream)
