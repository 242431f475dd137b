"""One kernel's assistant: wires the rooms together and runs turns from the cell's thread.

Source: `design/architecture.md` sections 2 and 3, `design/interface.md` sections 2 and 4.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from jp_nb.agent.offer import Offer, offer
from jp_nb.agent.ports import Answered, ModelParameters, NobodyThere, Provider, QuestionPrompt
from jp_nb.agent.turn import Resolved, TurnEnd, TurnLoop
from jp_nb.config.app_config import AppConfig, Llm
from jp_nb.config.assign import parse_assignment
from jp_nb.config.layers import Layer, fold
from jp_nb.config.models import parse, resolve
from jp_nb.config.partial import Partial, at, build, merge, validate
from jp_nb.errors import ConfigError, PromptCancelled, PromptUnavailable, UsageError
from jp_nb.notebook.agent_thread import AgentThread
from jp_nb.notebook.cell_loop import CellLoop
from jp_nb.notebook.config_files import ConfigFiles, workspace_root
from jp_nb.notebook.document import homes, variables
from jp_nb.notebook.interpolate import interpolate
from jp_nb.notebook.prompt.engine import NotebookPrompter, PromptSettings
from jp_nb.notebook.transcript import Transcript
from jp_nb.notebook.turn_display import TurnDisplay, display_publisher
from jp_nb.providers import registry
from jp_nb.record.events import ChatRequest, ConfigDelta
from jp_nb.record.projection import Projection
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread, thread_of
from jp_nb.record.timestamps import Clock, utc_now
from jp_nb.record.turn_view import Turn, TurnUsage, read_turn
from jp_nb.tools.base import Tool
from jp_nb.tools.builtin import BUILTINS
from jp_nb.tools.python import REGISTRY
from jp_nb.tools.question import Question

MODEL = "assistant.model.id"
INTERRUPTS_BEFORE_GIVING_UP = 3


class Session:
    """The assistant of one shell. Everything but tools and turns runs on the cell's thread.

    Attributes:
        notices: What the person should be told once, since the last look.
        last: The last turn, if there was one.
    """

    def __init__(self, shell: Any, *, clock: Clock = utc_now) -> None:
        self.shell = shell
        self.notices: list[str] = []
        self.last: Turn | None = None
        self._clock = clock
        self._cell = CellLoop()
        self._prompter = NotebookPrompter(self._cell)
        self._agent = AgentThread()
        self._providers: dict[str, Provider] = {}
        self._usage: dict[tuple[str, int], TurnUsage] = {}
        self._running: Future[TurnEnd] | None = None
        place = homes.find(shell)
        self.files = ConfigFiles((place.path.parent if place.path else Path.cwd()).resolve())
        files = fold(self.files.layers())
        go_on = validate(files).record.headless == "continue"
        base = self._base_config(files)
        self._opened = place.open(clock=clock, base_config=base, go_on=go_on)
        self.document, self.store = self._opened.document, self._opened.store
        self.restored = self._opened.restored
        self.notices += self._opened.notices
        if not self.restored:
            self._apply_overrides_to_base()
        self._adopt(trusted=not self.restored)
        if self.restored:
            self._apply_overrides_as_deltas()

    # --- configuration -----------------------------------------------------------------------

    def _base_config(self, files: Partial) -> Partial:
        """What a new conversation starts from: all that somebody set, and the model (D8)."""
        config = validate(files)
        model = resolve(config.assistant.model.id, config.providers.llm.aliases)
        return merge(files, build(MODEL, {"provider": model.provider, "name": model.name}))

    @staticmethod
    def _overrides() -> list[str]:
        """`-c` arguments of the run, if a runner gave some."""
        value = json.loads(os.environ.get(variables.OVERRIDES) or "[]")
        return [str(item) for item in value]

    def _apply_overrides_to_base(self) -> None:
        stream = self.document.conversation
        for text in self._overrides():
            stream.base_config = merge(stream.base_config, self._parse(text, stream.base_config))
            self.store.replaced()

    def _apply_overrides_as_deltas(self) -> None:
        for text in self._overrides():
            self.configure(text)

    def _adopt(self, *, trusted: bool) -> None:
        """Make the document's active conversation the one that turns run on."""
        stream = self.document.conversation
        stream.on_change = self.store.changed
        self.projection = Projection(stream, self._layers_below, trusted=trusted)
        self._thread: Thread = thread_of(stream)
        self._warn_of_ignored()

    def _layers_below(self) -> list[Layer]:
        tools: Partial = {name: dict(tool.registration) for name, tool in BUILTINS.items()}
        tools |= {name: dict(tool.registration) for name, tool in REGISTRY.all().items()}
        registrations = Layer("registrations", {"conversation": {"tools": tools}})
        return [registrations, *self.files.layers()]

    def _warn_of_ignored(self) -> None:
        below = fold(self._layers_below())
        self.projection.config()
        foreign = [p for p, value in self.projection.ignored.items() if at(below, p) != value]
        if foreign:
            self.notices.append(
                "this notebook's record also sets what only you may decide; ignored: "
                + ", ".join(sorted(foreign))
            )
        if self.projection.not_understood:
            unknown = ", ".join(sorted(set(self.projection.not_understood)))
            self.notices.append(f"this notebook's record sets what jp_nb does not know: {unknown}")

    @property
    def config(self) -> AppConfig:
        """The configuration in force."""
        self.projection.below_changed()  # files, environment and tools may be other ones now
        return self.projection.config()

    def configure(self, *assignments: str, model: str | None = None) -> None:
        """Record changes of the configuration: all of them or none.

        Raises:
            ConfigError: If one is malformed or the result is no valid configuration.
        """
        self.record_changes(self.changes(assignments, model=model))

    def changes(self, assignments: Sequence[str], *, model: str | None = None) -> list[Partial]:
        """The partials that assignments and `-m` ask for, checked against what is in force."""
        current = self.projection.partial()
        aliases = validate(current).providers.llm.aliases
        found: list[Partial] = []
        if model is not None:
            resolved = resolve(parse(model), aliases)
            found.append(build(MODEL, {"provider": resolved.provider, "name": resolved.name}))
        for text in assignments:
            found.append(self._parse(text, fold([Layer("", current), *_layers(found)])))
        config = validate(fold([Layer("", current), *_layers(found)]))
        resolve(config.assistant.model.id, config.providers.llm.aliases)
        return found

    def _parse(self, text: str, current: Partial) -> Partial:
        partial = parse_assignment(text, current)
        reference = at(partial, MODEL)
        if isinstance(reference, str):  # stored resolved: aliases may mean another model later
            aliases = validate(merge(current, partial)).providers.llm.aliases
            model = resolve(parse(reference), aliases)
            partial = merge(partial, build(MODEL, {"provider": model.provider, "name": model.name}))
        return partial

    def record_changes(self, changes: Sequence[Partial]) -> None:
        """Append a config delta for each partial that is not empty."""
        for partial in changes:
            if partial:
                self.document.conversation.append(ConfigDelta(delta=partial))

    # --- conversations -----------------------------------------------------------------------

    def new_conversation(self, *, with_parent: bool = True) -> None:
        """Make an empty conversation the active one; the old one stays in the notebook."""
        self._refuse_while_running()
        old = self.document.conversation
        parent = {"id": old.id} if with_parent and len(old) else None
        self.document.shelve()
        self.document.conversation = ConversationStream.new(
            clock=self._clock,
            made="headless" if self._opened.headless else "live",
            base_config=self._base_config(fold(self.files.layers())),
            parent=parent,
            not_ids=self.document.ids(),
        )
        self.restored = False
        self._apply_overrides_to_base()
        self._adopt(trusted=True)
        self.store.replaced()

    def _is_beginning_again(self, text: str, cell_id: str | None) -> bool:
        """Whether the running cell is the one that began the restored conversation (D18)."""
        if not self.restored:
            return False
        entries = self.document.conversation.entries
        first = next((e for e in entries if isinstance(e, ChatRequest)), None)
        if first is None:
            return False
        began = first.metadata.get("cell_id")
        return began == cell_id if began and cell_id else first.content == text

    def turns(self) -> list[Turn]:
        """The turns of the active conversation."""
        stream = self.document.conversation
        return [
            read_turn(turn.number, turn.entries, usage=self._usage.get((stream.id, turn.number)))
            for turn in stream.turns()
        ]

    # --- a turn ------------------------------------------------------------------------------

    def ask(
        self,
        text: str,
        *,
        model: str | None = None,
        assignments: Sequence[str] = (),
        new: bool = False,
        strict: bool = False,
    ) -> Turn:
        """Run one turn and show it in the cell.

        Raises:
            UsageError: If `text` is empty or names something unknown, or a turn runs already.
            ConfigError: If an option or the configuration is wrong; nothing was recorded.
            ProviderError: If the model could not be reached. What arrived is in the record.
            PromptUnavailable: If `strict` and nobody could decide something.
            KeyboardInterrupt: If the turn was interrupted. What arrived is in the record.
        """
        self._refuse_while_running()
        if not text.strip():
            raise UsageError("there is nothing to ask: write the request below %%jp")
        config = self.config
        self.changes(assignments, model=model)  # wrong options change nothing
        content = interpolate(
            text, self.shell.user_ns, max_chars=config.interpolation.max_chars
        ).strip("\n")
        cell_id = self._cell_id()
        begins_again = not new and self._is_beginning_again(content, cell_id)
        if new or begins_again:
            self.new_conversation(with_parent=not begins_again)
        if begins_again:
            self.notices.append(
                "this cell began the restored conversation, so a new one starts here; the earlier "
                "one stays in this notebook"
            )
        self.record_changes(self.changes(assignments, model=model))
        metadata: dict[str, JsonValue] = {"cell_id": cell_id} if cell_id else {}
        request = ChatRequest(content=content, author=config.user.name, metadata=metadata)
        return self._run(request, strict=strict or os.environ.get(variables.STRICT) == "1")

    def _refuse_while_running(self) -> None:
        if self._running is not None and not self._running.done():
            raise UsageError(
                "a turn is still running in this kernel: wait for it, or interrupt it; if an "
                "`async def` tool blocks, restart the kernel"
            )

    def _cell_id(self) -> str | None:
        kernel: Any = getattr(self.shell, "kernel", None)
        parent = kernel.get_parent("shell") if hasattr(kernel, "get_parent") else {}
        found = (parent or {}).get("metadata", {}).get("cellId")
        return found if isinstance(found, str) else None

    def _run(self, request: ChatRequest, *, strict: bool) -> Turn:
        stream = self.document.conversation
        if stream.repair():
            self._thread = thread_of(stream)
            self.store.replaced()
        config = self.config
        display = self._display(config)
        self._prompter.cell_begins(
            PromptSettings(
                channel=config.prompt.channel,
                rendered_timeout=config.prompt.rendered_timeout_s,
                timeout=config.prompt.timeout_s,
                notify=config.prompt.notify == "on",
            )
        )
        turn = TurnLoop(
            stream=stream,
            thread=self._thread,
            resolve=self.resolve,
            prompter=self._prompter,
            cell=self._cell,
            display=display,
            strict=strict,
            context={"root": str(self.root), "conversation_id": stream.id},
        )
        number = stream.turn_count
        status = "failed"
        try:
            end = self._serve(turn, request)
            status = end.status
        finally:
            self._prompter.cell_ends()
            display.finish()
            self._keep_turn(number, turn, status)
        if status == "interrupted":
            raise KeyboardInterrupt
        assert self.last is not None
        return self.last

    def _serve(self, turn: TurnLoop, request: ChatRequest) -> TurnEnd:
        """Start `turn` and do what the cell's thread has to do until it is done."""
        self._running = future = self._agent.run(turn.run(request))
        future.add_done_callback(lambda _: self._cell.wake())
        interrupts = 0
        while True:
            try:
                self._cell.serve(future.done)
                return future.result()
            except CancelledError:
                return TurnEnd("interrupted", turn.usage)
            except KeyboardInterrupt:
                interrupts += 1
                if interrupts >= INTERRUPTS_BEFORE_GIVING_UP:
                    raise
                self._prompter.interrupt()
                self._agent.call(turn.interrupt)

    def _keep_turn(self, number: int, turn: TurnLoop, status: str) -> None:
        stream = turn.stream
        if stream.turn_count <= number:
            return  # it never began
        usage = self._usage[stream.id, number] = TurnUsage(**asdict(turn.usage))
        made = stream.last_turn()
        entries = made.entries if made else ()
        self.last = read_turn(number, entries, usage=usage, status=status)

    def _display(self, config: AppConfig) -> TurnDisplay:
        kernel = getattr(self.shell, "kernel", None)
        transcript = Transcript(
            show_reasoning=config.style.reasoning.display == "full",
            show_tools=config.style.tool_call.show,
        )
        return TurnDisplay(
            transcript,
            self._cell,
            display_publisher(self.shell.display_pub.publish),
            interval=config.style.update_interval_ms / 1000,
            live=kernel is not None and not homes.is_headless(kernel),
        )

    @property
    def root(self) -> Path:
        """The workspace's folder (D23)."""
        return workspace_root(self.files.folder)

    # --- what the configuration comes to -----------------------------------------------------

    def resolve(self) -> Resolved:
        """Provider, model and tools of the configuration in force.

        Raises:
            ConfigError: If one of them cannot be had; the message names the path.
        """
        config = self.projection.config()
        model = resolve(config.assistant.model.id, config.providers.llm.aliases)
        tools = self.offer(config)
        parameters = config.assistant.model.parameters
        return Resolved(
            provider=self._provider(model.provider, config.providers.llm),
            provider_name=model.provider,
            model=model.name,
            system=config.assistant.system(),
            offer=tools,
            tool_choice=_tool_choice(config.assistant.tool_choice, tools),
            parameters=ModelParameters(
                max_tokens=parameters.max_tokens,
                reasoning=_json(parameters.reasoning),
                temperature=parameters.temperature,
                top_p=parameters.top_p,
                top_k=parameters.top_k,
                stop_words=tuple(parameters.stop_words),
                other=parameters.model_extra or {},
            ),
            request=config.assistant.request,
        )

    @staticmethod
    def offer(config: AppConfig) -> Offer:
        """The tools that `config` enables."""
        executors: Mapping[str, Mapping[str, Tool]] = {
            "builtin": BUILTINS,
            "python": REGISTRY.all(),
        }
        return offer(config, executors)

    def _provider(self, name: str, llm: Llm) -> Provider:
        """A provider with its settings: the same one as long as they are the same."""
        settings: dict[str, Any]
        if name == "scripted":
            settings = {"folders": [str(self.files.folder)]}
        else:
            settings = getattr(llm, name).model_dump(exclude={"dialect"})
        key = json.dumps([name, settings], sort_keys=True)
        if key not in self._providers:
            self._providers[key] = registry.create(name, settings)
        return self._providers[key]

    # --- a question from ordinary code -------------------------------------------------------

    def ask_person(self, question: Question, *, label: str | None, tool: str | None) -> JsonValue:
        """The answer to `question`: configured, or from the person.

        Raises:
            ConfigError: If the configured answer does not fit.
            PromptUnavailable: If nobody can be asked.
            PromptCancelled: If somebody was asked and gave no answer.
        """
        config = self.config
        settings = config.conversation.tools.get(tool or "*")
        configured = settings.questions.get(question.id) if settings else None
        if configured is not None and configured.answer is not None:
            if question.misfit(configured.answer):
                path = f"conversation.tools.{tool or '*'}.questions.{question.id}.answer"
                raise ConfigError("does not answer the question", path=path)
            return configured.answer
        prompt = QuestionPrompt(question, label=label, tool=tool)
        match self._prompter.ask_here(prompt):
            case Answered(value=value):
                return value
            case NobodyThere(reason=reason):
                raise PromptUnavailable(
                    f"{question.text!r} needs a person and nobody can be asked: {reason}",
                    reason=reason,
                )
            case end:
                raise PromptCancelled(f"{question.text!r} was not answered", end=end.end)

    # --- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Close providers, the agent's thread and the store."""
        self._prompter.cell_ends()
        self._agent.close(*(provider.aclose() for provider in self._providers.values()))
        self._providers.clear()
        self.store.close()


def _layers(partials: Sequence[Partial]) -> list[Layer]:
    return [Layer("", partial) for partial in partials]


def _tool_choice(choice: str, tools: Offer) -> str:
    if choice in ("auto", "none", "required"):
        return choice
    if choice not in tools.tools:
        raise ConfigError(
            f"tool choice '{choice}' does not match any enabled tools", path="assistant.tool_choice"
        )
    return f"tool:{choice}"


def _json(value: object) -> JsonValue:
    dump = getattr(value, "model_dump", None)
    return dump() if dump is not None else value  # type: ignore[return-value]
