"""Runs turns from the cell's thread: everything that `%load_ext` can do without.

Source: `docs/architecture.md` sections 2 and 3, `docs/guide.md`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from concurrent.futures import CancelledError, Future
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from pydantic import JsonValue

from jp_nb.agent.display_events import InterruptHeard, Notice
from jp_nb.agent.prompts import Answered, NotAnswered, QuestionPrompt, Unavailable
from jp_nb.agent.resolved import Resolved
from jp_nb.agent.secret_answers import Secrets
from jp_nb.agent.turn import TurnEnd, TurnLoop
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.errors import ConfigError, PromptCancelled, PromptUnavailable, UsageError
from jp_nb.notebook.document import homes
from jp_nb.notebook.printed_turn import PrintedTurn, Printer
from jp_nb.notebook.prompt.engine import NotebookPrompter, PromptSettings, static_record
from jp_nb.notebook.prompt.presence import Presence
from jp_nb.notebook.tool_output import ToolOutput
from jp_nb.notebook.turn_display import DisplayPublisher, TurnDisplay
from jp_nb.record.events import ChatRequest
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread, thread_of
from jp_nb.record.turn_view import Turn, TurnUsage, read_turn
from jp_nb.rendering.transcript import Transcript
from jp_nb.session.agent_thread import AgentThread
from jp_nb.session.cell_loop import CellLoop
from jp_nb.session.interpolate import interpolate
from jp_nb.session.resolving import Resolver
from jp_nb.tooling.base import RUN
from jp_nb.tooling.question import Question
from jp_nb.workspace import variables
from jp_nb.workspace.config_files import workspace_root

if TYPE_CHECKING:
    from jp_nb.session.session import Session

UNHEARD_BEFORE_GIVING_UP = 3
"""Interrupts that the agent's loop takes no notice of: a tool blocks it."""


class TurnRunner:
    """The turns of one session. Tools and turns run elsewhere; all else on the cell's thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shell = session.shell
        self._cell = CellLoop()
        self._prompter = NotebookPrompter(self._cell)
        self._agent = AgentThread()
        self.resolver = Resolver(session)
        self._secrets = Secrets()
        self._known: dict[tuple[str, int], tuple[TurnUsage, str]] = {}
        self._running: Future[TurnEnd] | None = None
        self._threads: tuple[ConversationStream, Thread] | None = None
        self._display: TurnDisplay | PrintedTurn | None = None

    def refuse_while_running(self) -> None:
        """Raise `UsageError` if a turn is under way."""
        if self._running is not None and not self._running.done():
            raise UsageError(
                "a turn is still running in this kernel: wait for it, or interrupt it; if an "
                "`async def` tool blocks, restart the kernel"
            )

    def known(self, conversation_id: str, turn: int) -> tuple[TurnUsage, str]:
        """Tokens and status of a turn; "" is the status of one that another kernel ran."""
        return self._known.get((conversation_id, turn), (TurnUsage(), ""))

    def content(self, text: str, *, interpolated: bool) -> str:
        """`text` as it is asked: if `interpolated`, with the notebook's values in it.

        Raises:
            UsageError: If it is empty or names something unknown.
        """
        if not text.strip():
            raise UsageError("there is nothing to ask: write the request below %%jp")
        if not interpolated:
            return text.strip("\n")
        limit = self._session.config.interpolation.max_chars
        return interpolate(text, self._shell.user_ns, max_chars=limit).strip("\n")

    # --- one turn ----------------------------------------------------------------------------

    def run(
        self,
        request: ChatRequest,
        *,
        resolved: Resolved,
        strict: bool,
        changes: int = 0,
    ) -> Turn:
        """Run `request` as a turn of the active conversation and show it in the cell.

        `resolved` counts until tools change the configuration. Its last `changes` were made for
        this turn.
        """
        session = self._session
        stream = session.document.conversation
        if stream.repair():
            self._threads = None
            session.trust.sign()
            session.store.replaced()
        config = resolved.basis.config
        display = self._make_display(config)
        self._prompter.cell_begins(_prompt_settings(config), place=display)
        self._display = display
        turn = TurnLoop(
            stream=stream,
            thread=self._thread(stream),
            resolve=self.resolver.for_turn(resolved),
            prompter=self._prompter,
            cell=self._cell,
            display=display,
            strict=strict or os.environ.get(variables.STRICT) == "1",
            context={"root": str(self.root), "conversation_id": stream.id},
            secrets=self._secrets,
            changes=changes,
        )
        number = stream.turn_count
        status = "failed"
        with self._cell.sheltered():
            try:
                self._cell.hear_interrupts(lambda: display(InterruptHeard()))
                display.begin()
                status = self._serve(turn, request).status
            finally:
                self._cell.hear_interrupts(None)
                self._prompter.cell_ends()
                display.finish()
                if turn.left_out:
                    self._threads = None
                made = self._view(number, turn, status)
                if made is not None:
                    session.last = self._shell.user_ns["_jp"] = made
        if status == "interrupted":
            raise KeyboardInterrupt
        assert made is not None  # a turn that completed has begun
        return made

    def _thread(self, stream: ConversationStream) -> Thread:
        """The provider's view of `stream`, kept from turn to turn."""
        if self._threads is None or self._threads[0] is not stream:
            providers = self._session.settings.projection.providers()
            self._threads = stream, thread_of(stream, providers)
        return self._threads[1]

    def _serve(self, turn: TurnLoop, request: ChatRequest) -> TurnEnd:
        """Start `turn` and do what the cell's thread has to do until it is done."""
        self._running = future = self._agent.run(turn.run(request))
        future.add_done_callback(lambda _: self._cell.wake())
        self._cell.release()
        interrupts = 0
        while True:
            try:
                self._cell.serve(future.done)
                end = future.result()
                # An interrupt that came as the turn ended still stops what would run next.
                late = interrupts > turn.interrupts_heard
                return TurnEnd("interrupted", end.usage) if late else end
            except (CancelledError, asyncio.CancelledError):
                return TurnEnd("interrupted", turn.usage)
            except KeyboardInterrupt:
                interrupts += 1
                if interrupts - turn.interrupts_heard >= UNHEARD_BEFORE_GIVING_UP:
                    raise
                self._cell.hold()  # no tool starts before it is decided what goes on
                self._agent.call(turn.interrupt)

    def _view(self, number: int, turn: TurnLoop, status: str) -> Turn | None:
        """The turn as code reads it; None if it never began."""
        made = turn.stream.last_turn()
        if made is None or made.number < number:
            return None
        usage = TurnUsage(**asdict(turn.usage))
        self._known[turn.stream.id, number] = usage, status
        return read_turn(number, made.entries, usage=usage, status=status)

    def _make_display(self, config: AppConfig) -> TurnDisplay | PrintedTurn:
        kernel = getattr(self._shell, "kernel", None)
        live = kernel is not None and not homes.is_headless(kernel)
        style = config.style
        interval = style.update_interval_ms / 1000
        here = Presence.here()
        if here.is_console if live else kernel is None and sys.stdout.isatty():
            printer = Printer(show_tools=style.tool_call.show)
            return PrintedTurn(printer, self._cell, interval=interval)
        tools = ToolOutput(kernel, hold=not live) if kernel is not None else None
        transcript = Transcript(
            show_reasoning=style.reasoning.display not in ("hidden", "static"),
            show_tools=style.tool_call.show,
            image_hosts=style.remote_images,
        )
        return TurnDisplay(
            transcript,
            self._cell,
            DisplayPublisher(self._shell.display_pub.publish, tools, kernel),
            elsewhere=self._agent.call,
            tools=tools,
            interval=interval,
            live=live,
        )

    @property
    def root(self) -> Path:
        """The workspace's folder (D23)."""
        return workspace_root(self._session.files.folder)

    # --- a question from ordinary code -------------------------------------------------------

    def ask_person(self, question: Question, *, label: str | None, tool: str | None) -> JsonValue:
        """The answer to `question`: configured, or from the person.

        Raises:
            ConfigError: If the configured answer does not fit.
            PromptUnavailable: If nobody can be asked.
            PromptCancelled: If somebody was asked and gave no answer.
        """
        run = RUN.get()
        if run is not None and run.over:
            raise PromptUnavailable(
                f"{question.text!r} comes too late: the tool call that asks was ended",
                reason="the tool call was ended",
            )
        tools = self._session.config.conversation.tools
        settings = tools.get(tool or "*")
        configured = settings.questions.get(question.id) if settings else None
        if configured is not None and configured.answer is not None:
            if question.misfit(configured.answer):
                path = f"conversation.tools.{tool or '*'}.questions.{question.id}.answer"
                raise ConfigError("does not answer the question", path=path)
            self._secrets.answered(question, configured.answer)
            return configured.answer
        in_turn = self._running is not None and not self._running.done()
        if not in_turn:
            self._prompter.cell_begins(_prompt_settings(self._session.config))
        shown = self._secrets.hide_in_question(question)
        prompt = QuestionPrompt(shown, label=label, tool=tool)
        end = self._prompter.ask_here(prompt, keeps_record=not in_turn)
        if in_turn and self._display is not None and not isinstance(end, Unavailable):
            self._display(Notice(static_record(prompt, end).plain))
        match end:
            case Answered(value=value):
                self._secrets.answered(question, value)
                return value
            case Unavailable(reason=reason):
                raise PromptUnavailable(
                    f"{question.text!r} needs a person and nobody can be asked: {reason}",
                    reason=reason,
                )
            case NotAnswered(end=how):
                raise PromptCancelled(f"{question.text!r} was not answered", end=how)
            case _:
                assert_never(end)

    def close(self) -> None:
        """Close prompts, providers and the agent's thread."""
        self._prompter.cell_ends()
        self._agent.close(*self.resolver.take_providers())


def _prompt_settings(config: AppConfig) -> PromptSettings:
    return PromptSettings(
        channel=config.prompt.channel,
        rendered_timeout=config.prompt.rendered_timeout_s,
        timeout=config.prompt.timeout_s,
        notify=config.prompt.notify == "on",
    )
