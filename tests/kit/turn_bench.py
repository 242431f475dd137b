"""A turn loop with real tools, a real record, and a real configuration.

The test supplies the events of its model. `EventProvider` streams them, so that a stream can break,
wait, or be silent at any event.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import jp_nb as jp
from jp_nb.agent.compacting.compactor import CompactionSettings
from jp_nb.agent.compacting.summarizer import SUMMARY_INSTRUCTIONS, Summarizer
from jp_nb.agent.display import TransientEvent
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.inquiries.llm_inquiry import LlmInquiryBackend
from jp_nb.agent.interrupts import ask_menu, decide_without_menu, make_stream_menu, make_tool_menu
from jp_nb.agent.model_requests.chat_model import ChatModel
from jp_nb.agent.offered_tools.tool_set import offer_tools
from jp_nb.agent.prompting.safe_ask import SafeAsk
from jp_nb.agent.turn import TurnLoop
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.agent.turn_state import TurnContext
from jp_nb.agent.turn_times import TurnTimes
from jp_nb.agent.usage_counter import UsageCounter
from jp_nb.config.aliases import resolve_model
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.config.tree.request_settings import Request as RequestConfig
from jp_nb.config.tree.system_texts import list_system_texts
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.documents.document import Document
from jp_nb.record.reading.turn_reader import read_turn
from jp_nb.record.request_context.context_builder import build_context
from jp_nb.record.stream import ConversationStream
from jp_nb.record.unfinished_calls import list_open_calls
from jp_nb.rendering.transcripts.log import render_log
from jp_nb.rendering.transcripts.transcript import Transcript
from jp_nb.session.questions.answers import SessionAnswers
from jp_nb.storage.configuration.config_files import ConfigFiles
from tests.kit._tool_layers import list_layers
from tests.kit.kinds import is_kind, make, select_kind
from tests.kit.models import EventProvider
from tests.kit.records import new_event
from tests.kit.tools import offer_now
from tests.support.entries import FakeClock, new_stream, open_inquiries
from tests.support.fakes import FakePrompter, InlineCell


@dataclass
class TurnBench:
    """A turn loop with the events of its model.

    Attributes:
        scripts: The events that the model streams, one list a request.
        tools: Python tools by name.
        person: The user.
        config: A partial over the registrations.
        inquiry: Answers tools' questions instead of the user.
        sources: The sources of tools, instead of `tools`, `executors` and builtins.
        request: Settings of `assistant.request`.
        summarizer: The provider of summaries. Without one, the context is not compacted.
        models: Other providers, by `provider/name` of the model that is configured.
        notebook: Access of the tools to a notebook.
        continues_answers: Whether an answer that reaches the token limit is continued.
        projection: The configuration: registrations, `config`, and the record.
        shown: The display events to keep.
        passing: The display events to show for a time.
        slept: The waits before retries.
        progress: The stages of each call that were kept outside of the process, by event id.
    """

    scripts: Sequence[Sequence[Any]]
    tools: Iterable[Any] = ()
    person: Any = field(default_factory=FakePrompter)
    config: dict[str, Any] = field(default_factory=dict)
    executors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sources: Any | None = None
    strict: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)
    stream: Any = field(default_factory=new_stream)
    shown: list[Any] = field(default_factory=list)
    passing: list[Any] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    progress: dict[str, list[Any]] = field(default_factory=dict)
    inquiry: Any | None = None
    models: Mapping[str, EventProvider] = field(default_factory=dict)
    continues_answers: bool = False
    summarizer: EventProvider | None = None
    notebook: Any | None = None

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
            shared=self._share(),
            sleep=self._sleep,
            progress=self._keep_progress,
        )
        self.loop = TurnLoop(context, resolve=self._resolve, strict=self.strict)
        if self.summarizer is not None:
            self.loop.compaction_settings = self._summarize_with(self.summarizer)

    def _summarize_with(self, provider: EventProvider) -> Any:
        model = ChatModel(
            provider,
            "small",
            system=(SUMMARY_INSTRUCTIONS,),
            request=RequestConfig(max_retries=0),
            provider_name="test",
        )
        return CompactionSettings(lambda: ("",), lambda resolved, rule: Summarizer(model))

    def use(self, **ports: Any) -> None:
        """Replace ports of the turn before it runs."""
        self.loop.turn = replace(self.loop.turn, **ports)

    def measure_times(self, clock: Callable[[], float]) -> None:
        """Let the turn measure its times with `clock`, as a turn of a session does."""
        self.use(times=TurnTimes(may_measure=True, clock=clock))

    @property
    def context(self) -> Any:
        return self.loop.turn.record.context

    def show(self, event: Any) -> None:
        (self.passing if isinstance(event, TransientEvent) else self.shown).append(event)

    def decide_interrupt(self, phase: Any, *, is_second: bool = False) -> dict[str, Any] | None:
        """Return the decision about an interrupt now, or None if the menu asks the user."""
        settings = self.app_config().interrupt
        found = decide_without_menu(self.loop.turn, phase, settings, is_second=is_second)
        return None if found is None else asdict(found)

    @staticmethod
    def make_interrupt_menu(*tools: str, request: str | None = None) -> Any:
        """Return the menu of an interrupt of `tools`, or of the answer to `request`."""
        return make_tool_menu(tools) if request is None else make_stream_menu(request)

    async def ask_about_interrupt(self, phase: Any, menu: Any) -> dict[str, Any]:
        """Return the decision of the user in `menu`."""
        settings = self.app_config().interrupt
        return asdict(await ask_menu(SafeAsk(self.person), phase, settings, menu))

    def waits(self) -> list[str]:
        """Return the texts that were shown while the turn waited, in order."""
        return [event.text for event in self.passing if is_kind(event, "waits")]

    def _keep_progress(self, progress: Mapping[str, Any]) -> None:
        for event_id, kept in progress.items():
            self.progress.setdefault(event_id, []).append(kept.stage)

    def _share(self) -> Any:
        shared = {"root": "/home/ada/space", "conversation_id": "jp-c1"}
        if self.notebook is None:
            return shared
        return {**shared, "notebook": self.notebook}

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def _layers(self) -> list[Any]:
        return list_layers(self.config, self.tools)

    def app_config(self) -> Any:
        self.projection.reload_layers()
        return self.projection.config()

    @property
    def _executors(self) -> Mapping[str, Mapping[str, Any]]:
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
            system=list_system_texts(config.assistant),
            tools=(
                await offer_tools(config, self.sources, unavailable_reason=self.person.away)
                if self.sources
                else self.offer()
            ),
            tool_choice=config.assistant.tool_choice,
            parameters=make("parameters"),
            request=RequestConfig.model_validate(self.request),
            inquiry=self.inquiry,
            basis=ConfigSnapshot(now.after, now.defaults, config),
            continues_answers=self.continues_answers,
        )

    async def run(self, text: str = "Go.", images: Sequence[jp.Image] = ()) -> Any:
        return await self.loop.run(new_event("chat_request", content=text), images)

    async def resume(self) -> Any:
        """Continue the last turn of the record, and return its end."""
        return await self.loop.resume(list_open_calls(self.stream, {}), [])

    def use_answers(self, name: str | None, folder: Path) -> Any:
        """Read the answers file `name` in `folder`, and return the prepared answers."""
        answers = self.loop.turn.prepared
        assert isinstance(answers, SessionAnswers)
        answers.load(name, ConfigFiles(folder))
        return answers

    # --- what came of it

    @property
    def turn(self) -> jp.Turn:
        last = self.stream.last_turn()
        assert last is not None
        return read_turn(last.number, last.entries, images=self.stream.images)

    @property
    def entries(self) -> list[Any]:
        return list(self.stream.entries)

    def kinds(self) -> list[str]:
        return [entry.type for entry in self.stream.entries]

    def of(self, kind: str) -> list[Any]:
        return select_kind(self.stream.entries, kind)

    def shown_of(self, kind: str) -> list[Any]:
        return select_kind(self.shown, kind)

    def list_turns(self) -> list[jp.Turn]:
        """Return all turns of the record."""
        return [read_turn(turn.number, turn.entries) for turn in self.stream.turns()]

    def render_cell(self) -> dict[str, str]:
        """Return the texts that the cell shows, by MIME type."""
        transcript = Transcript()
        for event in self.shown:
            transcript.add(event)
        return transcript.parts[-1].render()

    def render_log(self) -> str:
        """Return the text of `%jp log` for the last turn, and its representation."""
        report = render_log(Document(self.stream), [self.turn])
        return f"{report}\n{report!r}"

    def to_json(self) -> dict[str, Any]:
        """Return the record as the notebook stores it."""
        return dict(Document(self.stream).to_json())

    def reload(self) -> Any:
        """Return the conversation as the next kernel reads it."""
        stored = json.loads(json.dumps(self.to_json()))
        return Document.load(stored, clock=FakeClock()).conversation

    def rebuild_context(self, providers: Sequence[str] = ()) -> Any:
        """Return the context of the next request, built from the record alone.

        `providers` are those of the turns, instead of the configured ones.
        """
        return build_context(self.reload(), providers or self.projection.providers())

    @property
    def is_well_formed(self) -> bool:
        """True if every call has a response and every inquiry an end."""
        stream = self.stream
        again = ConversationStream(stream.properties, clock=FakeClock(), raw=list(stream.raw))
        return (
            not again.repair() and not stream.list_open_tool_calls() and not open_inquiries(stream)
        )


def new_question_model(
    provider: Any,
    model: str = "small",
    *,
    settings: Mapping[str, Any] | None = None,
    overrides: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
    **options: Any,
) -> Any:
    """Return the model that answers questions of tools, over `provider`.

    `settings` are its `system` texts, `parameters`, `provider_name`, and `request`: the settings of
    `assistant.request`. `overrides` has `provider`, `model`, and settings of other models, by tool
    and question id.
    """
    own = dict(settings or {})
    if "request" in own:
        own["request"] = RequestConfig.model_validate(own["request"])

    others = {key: ChatModel(**other) for key, other in (overrides or {}).items()}
    return LlmInquiryBackend(ChatModel(provider, model, **own), others, **options)
