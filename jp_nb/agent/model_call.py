"""Send one model request: stream the response, retry, and handle interrupts.

Source: `docs/turns.md`, `docs/providers.md`, `docs/decisions.md` D24.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from jp_nb.agent.display import (
    MODEL_WAITS,
    DiscardText,
    Display,
    EndOfText,
    InterruptReceived,
    Notice,
    ShowText,
    Waits,
)
from jp_nb.agent.interrupts import ESCALATED, STOP, Interrupts, Verdict, ask_menu, stream_menu
from jp_nb.agent.prompts import Ask, Prompter, safe_ask
from jp_nb.agent.provider import (
    Finished,
    Flush,
    KeepAlive,
    ModelRequest,
    Provider,
    ProviderEvent,
    Retry,
    TextPart,
    ToolCallStart,
    Usage,
)
from jp_nb.agent.response import OverlapTrimmer, ResponseBuilder, with_retries
from jp_nb.agent.tokens import UsageCounter
from jp_nb.agent.tool_call import Call
from jp_nb.agent.tool_set import ToolSet
from jp_nb.agent.turn_state import LastRequest, Resolved, TurnRecord
from jp_nb.config.tree.app import Interrupt as InterruptConfig
from jp_nb.errors import ProviderError
from jp_nb.record.events import ChatResponse, Entry, ToolCallRequest
from jp_nb.record.marks import LastHost, as_continuing, continues
from jp_nb.tools.base import CellThread

MAX_TOOL_CALLS = "assistant.request.max_tool_calls"
MAX_CONTINUATIONS = 5
"""How often an answer that reaches the token limit is continued."""
CUT_CALL = (
    "The answer reached its token limit within this call. The arguments are "
    "incomplete, so the call did not run. Call again with shorter arguments, or "
    "split the work into several calls."
)


@dataclass(slots=True)
class ContinuedAnswer:
    """One answer in several responses: each of them but the last reached the token limit.

    Attributes:
        may: True if an answer is continued at all.
        parts: How often it was.
        kept: The texts that were stored of it, also by attempts that broke off; of an answer that
            is gone on with as one.
    """

    may: bool
    parts: int = 0
    kept: list[TextPart] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text that was stored of the answer itself."""
        return "".join(part.text for part in self.kept if part.kind == "message")

    def keep(self, entries: Sequence[Entry]) -> None:
        """Note that these `entries` of it were stored."""
        for entry in entries:
            if not isinstance(entry, ChatResponse) or entry.kind == "structured":
                continue
            part = TextPart(0, entry.kind, entry.message or entry.reasoning or "")
            if self.kept and continues(entry):
                part = replace(part, text=self.kept.pop().text + part.text)
            self.kept.append(part)

    def seam(self) -> OverlapTrimmer | None:
        """Return the seam at which the next response goes on; None if it is the first."""
        return OverlapTrimmer(self.text) if self.parts else None

    def goes_on(self, finished: Finished, entries: Sequence[Entry], *, may: bool) -> bool:
        """Return True if the answer goes on after these `entries`, provided that it `may`."""
        texts = [e.message for e in entries if isinstance(e, ChatResponse) and e.message]
        self.keep(entries)
        if not (self.may and may and texts and finished.reason == "max_tokens"):
            return False
        if self.parts == MAX_CONTINUATIONS:
            return False
        self.parts += 1
        return True


@dataclass(slots=True)
class Attempt:
    """One request to `model`, and what came of it so far.

    Attributes:
        seam: Where an answer is gone on with: what it repeats is left out; so is its reasoning.
        most_calls: So many tool calls of it run; 0: all.
        text_ended: True if the last text is complete, and that was not shown yet.
        finished: How the response ended; None if it broke off.
        calls: How many there were.
    """

    model: str
    most_calls: int = 0
    seam: OverlapTrimmer | None = None
    builder: ResponseBuilder = field(default_factory=ResponseBuilder)
    entries: list[Entry] = field(default_factory=list)
    retry: Retry | None = None
    has_content: bool = False
    text_ended: bool = False
    finished: Finished | None = None
    calls: int = 0
    held_index: int | None = None

    def trimmed(self, part: TextPart) -> TextPart | None:
        """Return what is new of a part of a continued answer; None if nothing is, so far."""
        if part.kind != "message" or self.seam is None:
            return None
        text = self.seam.feed(part.text)
        self.held_index = part.index
        return replace(part, text=text) if text else None

    def held(self) -> TextPart | None:
        """Return the text that was held back; none is held back any more."""
        if self.seam is None or self.held_index is None:
            return None
        index, self.held_index = self.held_index, None
        text = self.seam.rest()
        return TextPart(index, "message", text) if text else None

    def stored(self, rest: Sequence[Entry]) -> list[Entry]:
        """Return the entries of the response; the text of a continued answer says so."""
        entries = [*self.entries, *rest]
        for place, entry in enumerate(entries if self.seam is not None else ()):
            if isinstance(entry, ChatResponse) and entry.kind == "message":
                entries[place] = as_continuing(entry)
                break
        return entries

    def cut_call(self) -> list[str]:
        """Return the name of the call within which the token limit was reached, if there is one."""
        last = self.entries[-1] if self.entries else None
        limit_reached = self.finished is not None and self.finished.reason == "max_tokens"
        if not limit_reached or not isinstance(last, ToolCallRequest):
            return []
        broken = {*self.builder.bad_arguments, *self.builder.without_arguments}
        return [last.name] if self.calls - 1 in broken else []

    def keeps(self, entry: Entry) -> bool:
        """Return True if `entry` is stored: of surplus tool calls only the first is."""
        self.calls += isinstance(entry, ToolCallRequest)
        surplus = self.calls - self.most_calls
        return not (self.most_calls and surplus > 1 and isinstance(entry, ToolCallRequest))

    def problems(self) -> dict[int, str]:
        """Return what the model is told of each call that cannot run, by the number of the call."""
        found = dict(self.builder.bad_arguments)
        if self.cut_call():
            found[self.calls - 1] = CUT_CALL
        if self.most_calls and (surplus := self.calls - self.most_calls) > 0:
            others = f" Further calls that are dropped: {surplus - 1}." if surplus > 1 else ""
            found[self.most_calls] = (
                f"This call did not run. Your answer contains {self.calls} tool calls, but "
                f"{MAX_TOOL_CALLS} allows {self.most_calls}.{others} Make fewer calls in one "
                "answer."
            )
        return found


log = logging.getLogger(__name__)


class StreamInterrupts:
    """Hears interrupts while a model answers, and asks the person what to do.

    Args:
        work: Has the model answer; it is cancelled unless it goes on.
        request: The user's words that the model answers.
        interrupts: Decides what each interrupt does.
        settings: What is configured.
        ask: Asks the person.
        release: Lets the cell's functions run again.
        display: Shows what happens.

    Attributes:
        verdict: Why `work` was cancelled; None if it was not, or not from here.
        interrupted_after_end: True if an interrupt came when the answer was just complete.
    """

    def __init__(
        self,
        work: asyncio.Future[list[Call]],
        request: str,
        interrupts: Interrupts,
        settings: InterruptConfig,
        ask: Ask,
        release: Callable[[], None],
        display: Display,
    ) -> None:
        self._work = work
        self._request = request
        self._interrupts = interrupts
        self._settings = settings
        self._ask = ask
        self._release = release
        self._display = display
        self._menu: asyncio.Task[None] | None = None
        self._decided = asyncio.Event()
        self._decided.set()
        self.verdict: Verdict | None = None
        self.interrupted_after_end = False

    def interrupt(self) -> None:
        """Hear that the kernel was interrupted."""
        if self.verdict is not None:  # it is ending, and perhaps something holds that up
            if self.verdict.choice == "reply":
                self._display(InterruptReceived("stop"))
                self.verdict = ESCALATED
            self._work.cancel()
            return
        if self._work.done():
            self.interrupted_after_end = True
            return
        in_menu = self._menu is not None
        verdict = self._interrupts.decide_without_menu("streaming", self._settings, in_menu=in_menu)
        if verdict is not None:
            self.close()
            self._carry_out(verdict)
            return
        self._display(InterruptReceived("menu"))
        self._decided.clear()
        self._menu = asyncio.get_running_loop().create_task(self._have_menu())

    async def decided(self) -> None:
        """Wait while the person is being asked, and asked again: until no menu is open."""
        while not self._decided.is_set():
            await self._decided.wait()

    def close(self) -> None:
        """Take the menu away."""
        menu_task, self._menu = self._menu, None
        if menu_task is not None:
            menu_task.cancel()

    async def _have_menu(self) -> None:
        try:
            verdict = await ask_menu(
                self._ask, "streaming", self._settings, stream_menu(self._request)
            )
        except Exception:
            log.exception("The menu failed")
            verdict = STOP
        self._menu = None
        self._carry_out(verdict)

    def _carry_out(self, verdict: Verdict) -> None:
        self._display(InterruptReceived(verdict.choice))
        if verdict.choice in ("continue", "reply"):
            self._release()
        if verdict.choice == "continue":
            self._decided.set()
        elif self.verdict is None:
            self.verdict = verdict
            self._work.cancel()


class AnswerStream:
    """Asks the model, shows its answer as it comes, and records it when it is complete.

    An answer may take several requests: it is tried again, gone on with at the token limit, and
    given up or asked for anew when the kernel is interrupted.

    Args:
        record: Where the answer is appended.
        tokens: Counts the tokens.
        interrupts: Decides what an interrupt does.
        prompter: Asks the person.
        cell: The cell's thread, held back while an interrupt is decided.
        display: Shows what happens.
        sleep: Waits before a retry.

    Attributes:
        interrupted_after_end: True if an interrupt came when the last answer was just complete.
    """

    def __init__(
        self,
        record: TurnRecord,
        tokens: UsageCounter,
        *,
        interrupts: Interrupts,
        prompter: Prompter,
        cell: CellThread,
        display: Display,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._record = record
        self._tokens = tokens
        self._interrupts = interrupts
        self._ask = safe_ask(prompter)
        self._cell = cell
        self._display = display
        self._sleep = sleep
        self._listening: StreamInterrupts | None = None
        self._attempt = Attempt("")
        self._kept = ""
        self.interrupted_after_end = False

    def interrupt(self) -> None:
        """Hear that the kernel was interrupted; called on the agent's loop."""
        if self._listening is not None:
            self._listening.interrupt()

    async def calls(
        self, resolved: Resolved, choice: str, schema: Mapping[str, JsonValue] | None
    ) -> list[Call] | None:
        """Have the model answer; return the tool calls in it, None if the turn is to end.

        Raises:
            ProviderError: If the model cannot be reached or refuses for good.
        """
        while True:
            self._kept = ""
            work = asyncio.ensure_future(self._answer(resolved, choice, schema))
            listening = StreamInterrupts(
                work,
                self._record.request,
                self._interrupts,
                resolved.interrupts,
                self._ask,
                self._cell.release,
                self._display,
            )
            self._listening = listening
            try:
                calls = await work
                self.interrupted_after_end = listening.interrupted_after_end
                return calls if calls or not listening.interrupted_after_end else None
            except asyncio.CancelledError:
                if listening.verdict is None:
                    raise
            finally:
                listening.close()
                self._listening = None
            if listening.verdict.choice == "abort":
                self._say_aborted()
            if listening.verdict.choice != "reply":
                return None
            self._record.say(listening.verdict.text, self._display)

    def _say_aborted(self) -> None:
        if self._kept:  # the record only grows
            self._display(Notice(f"⚠ Aborted. The record keeps only the text before {self._kept}."))
        else:
            self._display(DiscardText())
            self._display(Notice("⚠ Aborted. The text of this answer is discarded."))

    async def _answer(
        self, resolved: Resolved, choice: str, schema: Mapping[str, JsonValue] | None
    ) -> list[Call]:
        """Return the tool calls of one answer, however many requests it takes."""
        request = self._request(resolved, choice, schema)
        chain = ContinuedAnswer(
            resolved.continues_answers and schema is None and choice in ("auto", "none")
        )
        while True:
            one = await with_retries(
                lambda: self._try(resolved, request, chain),
                model=resolved.full_name,
                limits=resolved.request,
                waits=self._wait_for_model,
                sleep=self._sleep,
                made_progress=lambda: self._attempt.has_content,
            )
            if not self._finish(one, chain):
                self._wait_for("")
                return self._calls(one, resolved.tools)

    def _request(
        self, resolved: Resolved, choice: str, schema: Mapping[str, JsonValue] | None
    ) -> ModelRequest:
        record = self._record
        return resolved.model_request(
            record.thread, choice=choice, schema=schema, conversation_id=record.stream.id
        )

    def _wait_for(self, text: str, until: float | None = None) -> None:
        self._display(Waits(MODEL_WAITS, text, until))

    def _wait_for_model(self, model: str, *, again: str = "", until: float | None = None) -> None:
        self._wait_for(f"{model}: {again}" if again else model, until)

    async def _try(
        self, resolved: Resolved, request: ModelRequest, chain: ContinuedAnswer
    ) -> Attempt | Retry:
        """Send `request` once; `Retry` if the provider asks to be called again.

        Nothing is recorded before it is decided what an interrupt does.
        """
        await self._decided()  # an interrupt in the pause before
        one = Attempt(resolved.full_name, resolved.request.max_tool_calls, seam=chain.seam())
        self._attempt = one
        self._note_host(resolved)
        record, last = self._record, self._record.stream.entries[-1]
        record.sent = LastRequest(
            resolved.provider, resolved.provider_name, request, len(record.thread), last
        )
        try:
            await self._hear_out(resolved.provider, request, one)
        except ProviderError:
            chain.keep(self._keep_partial(one))
            raise
        except BaseException:  # interrupted, or a provider's fault
            verdict = self._listening.verdict if self._listening is not None else None
            if verdict is None or verdict.choice != "abort":
                self._keep_partial(one)
            raise
        if one.finished is None and one.retry is not None:
            return one.retry
        return one

    def _note_host(self, resolved: Resolved) -> None:
        """Show a notice if this request is sent to another host than the last one."""
        if not (host := resolved.host):
            return
        now, last = LastHost.of(host), self._record.last_host
        if last is not None and last.mark != now.mark:
            sent = (
                f"⚠ This request is sent to {host} ({resolved.provider_name}). The "
                "previous request of this"
            )
            self._display(Notice(f"{sent} notebook went to {last.name}."))
        self._record.last_host = now

    async def _hear_out(self, provider: Provider, request: ModelRequest, one: Attempt) -> None:
        try:
            await self._consume(provider, request, one)
            if one.finished is None and one.retry is None:
                raise ProviderError(
                    "the response ended before the answer was complete", kind="transient"
                )
        except Exception:
            await self._decided()
            raise
        finally:
            self._tokens.add(one.model, one.builder.usage)
        await self._decided()

    async def _decided(self) -> None:
        if self._listening is not None:
            await self._listening.decided()

    async def _consume(self, provider: Provider, request: ModelRequest, one: Attempt) -> None:
        feed, display = one.builder.feed, self._display
        async with aclosing(provider.stream(request)) as events:
            async for event in events:
                if isinstance(event, TextPart):
                    one.has_content = one.has_content or bool(event.text)
                    part = event if one.seam is None else one.trimmed(event)
                    if part is None:
                        continue
                    feed(part)
                    if one.text_ended:
                        one.text_ended = False
                        display(EndOfText())
                    display(ShowText(part.kind, part.text))
                elif isinstance(event, KeepAlive):
                    continue
                elif isinstance(event, Finished):
                    one.finished = event
                elif isinstance(event, Retry):
                    one.retry = event
                else:
                    self._item(event, one)

    def _item(self, event: ProviderEvent, one: Attempt) -> None:
        one.has_content = one.has_content or not isinstance(event, (Usage, Flush))
        if isinstance(event, ToolCallStart):
            self._wait_for(f"{one.model}, which is writing a call of {event.name}")
        if not isinstance(event, Usage):
            self._release(one)
        entry = one.builder.feed(event)
        if entry is not None and one.keeps(entry):
            one.entries.append(entry)
        if isinstance(event, Flush) and isinstance(entry, ChatResponse):
            one.text_ended = True  # it is shown once more comes: an answer may be gone on with

    def _release(self, one: Attempt) -> None:
        """Take what was held back of a continued answer: that text is complete."""
        if (part := one.held()) is not None:
            one.builder.feed(part)
            self._display(ShowText(part.kind, part.text))

    def _finish(self, one: Attempt, chain: ContinuedAnswer) -> bool:
        """Store the response, whole: until here a refusal or a break takes nothing back.

        Returns True if the answer is to be continued.
        """
        finished = one.finished
        assert finished is not None
        if finished.reason == "refused":
            self._refused(finished, one, chain)
            return False
        self._release(one)
        rest, unfinished = one.builder.finish()
        entries = self._tokens.attach_usage_to_last(one.stored(rest))
        self._record.add(*entries)
        may = not (one.calls or unfinished or self._tokens.is_over)
        if chain.goes_on(finished, entries, may=may):
            self._kept = "the continuation"
            return True
        self._display(EndOfText())
        self._say_end(finished, one, unfinished, chain)
        return False

    def _refused(self, finished: Finished, one: Attempt, chain: ContinuedAnswer) -> None:
        detail = f": {finished.detail}" if finished.detail else ""
        one.entries.clear()
        self._display(DiscardText())
        for part in chain.kept:  # they are in the record
            self._display(ShowText(part.kind, part.text))
            self._display(EndOfText())
        self._display(Notice(f"⚠ The model refused to answer{detail}"))

    def _say_end(
        self, finished: Finished, one: Attempt, unfinished: Sequence[str], chain: ContinuedAnswer
    ) -> None:
        for name in (*unfinished, *one.cut_call()):
            self._display(Notice(f"⚠ The call of {name} is incomplete and did not run"))
        if one.most_calls and one.calls > one.most_calls:
            told = f"⚠ Only the first {one.most_calls} of {one.calls} tool calls in this answer run"
            self._display(Notice(f"{told} ({MAX_TOOL_CALLS})"))
        if finished.reason == "max_tokens":
            times = f" {chain.parts + 1} times" if chain.parts else ""
            self._display(Notice(f"⚠ The answer reached the token limit{times} and is incomplete"))
        elif finished.reason == "other":
            self._display(Notice(f"⚠ The model stopped: {finished.detail or 'no reason given'}"))

    def _keep_partial(self, one: Attempt) -> list[ChatResponse]:
        """Store the texts of an answer that broke off, and return them.

        Tool calls in it never ran: they drop.
        """
        self._release(one)
        texts = [e for e in one.stored(one.builder.peek()) if isinstance(e, ChatResponse)]
        for entry in self._tokens.attach_usage_to_last(texts):
            self._kept = "the retry"
            self._record.add(entry)
        if one.has_content and one.seam is None:  # one that is gone on with stays one text
            self._display(EndOfText())
        return texts

    @staticmethod
    def _calls(one: Attempt, tools: ToolSet) -> list[Call]:
        bad = one.problems()
        requests = (entry for entry in one.entries if isinstance(entry, ToolCallRequest))
        return [
            Call(request, tools.tools.get(request.name), bad.get(number))
            for number, request in enumerate(requests)
        ]
