"""The status line of a running turn, such as `Waiting for openai/gpt-5 · 12 s`.

`TurnWaits` gets each display event of the turn, and keeps the waits that have not ended: for the
model, for tools, and for decisions of the user. `turn_counts.py` has the time and the tokens of the
turn.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from jp_nb.agent.display import (
    MODEL_WAITS,
    ChangeEnds,
    CodeAsks,
    DisplayEvent,
    FunctionBegins,
    FunctionEnds,
    InterruptReceived,
    QuestionEnds,
    ShowText,
    TokensSoFar,
    ToolBegins,
    ToolEnds,
    UserMessage,
    Waits,
)
from jp_nb.rendering.turn_counts import TurnCounts, UserTime, format_tokens
from jp_nb.text import pluralize

QUIET_SECONDS = 1.0
"""Seconds without new text after which the status line names the model as awaited."""

CHARS_PER_TOKEN = 4
"""Estimate for the tokens of a text that arrives."""

MAX_WAITS = 3
"""Limit of waits that the status line names. Further ones are counted."""

# The effect of an interrupt, by the choice of the user (`InterruptReceived.then`).
_AFTER: Mapping[str, str] = {
    "menu": "a menu asks how to continue",
    "continue": "continuing",
    "reply": "stopping; your reply is sent to the model",
    "restart": "stopping; tool calls without a result will run again",
    "stop": "stopping; the text received so far is kept",
    "abort": "aborting the answer",
}
_DECIDED = ("continue", "reply", "restart")
"""Choices after which the turn continues, so that the notice of the interrupt is obsolete then."""


@dataclass(frozen=True, slots=True)
class _Wait:
    """A wait that has not ended: its event, and the time of its start."""

    event: Waits
    since: float


class TurnWaits:
    """The current waits of a turn and their start times. Times are seconds of a monotonic clock.

    A wait with `person` is one for a *decision* of the user. The front end asks for one decision
    after the other, and the status line counts those that follow.
    """

    def __init__(self, now: float) -> None:
        self._began = now
        # Waits by key: the id of a call, or `MODEL_WAITS`. The first one is shown at once.
        self._waits = {MODEL_WAITS: _Wait(Waits(MODEL_WAITS, "the request to be prepared"), now)}
        self._asking: dict[str, bool] = {}  # by call: True while its code waits for the user
        self._function: FunctionBegins | None = None  # the `def` tool in the cell's thread
        self._interrupt: InterruptReceived | None = None  # the one whose notice is shown

        # The current response of the model.
        self._last_text_at: float | None = None
        self._is_reasoning = False
        self._received_chars = 0

        self._user_time = UserTime()

        # Tokens of the turn so far, if the server reported them.
        self._sent: int | None = None
        self._received: int | None = None

    def apply(self, event: DisplayEvent, now: float) -> None:
        """Process `event`, which happened at `now`."""
        match event:
            case ShowText(kind=kind, text=text):
                self._last_text_at = now
                self._is_reasoning = kind == "reasoning"
                self._received_chars += len(text)
                self._clear_interrupt()
            case Waits():
                self._update_wait(event, now)
            case TokensSoFar(sent=sent, received=received):
                self._sent = sent
                self._received = received
            case ToolEnds(call_id=key) | QuestionEnds(call_id=key) | ChangeEnds(call_id=key):
                self._waits.pop(key, None)
            case ToolBegins() | UserMessage():
                self._clear_interrupt()
            case FunctionBegins():
                self._function = event
            case FunctionEnds():
                self._function = None
            case InterruptReceived():
                self._set_interrupt(event)
            case CodeAsks():
                self._asking[event.call_id] = event.waits

        self._user_time.note(waits_for_user=self._waits_only_for_user(), now=now)

    def _waits_only_for_user(self) -> bool:
        if self._interrupt is not None and self._interrupt.then == "menu":
            return True

        waits = [wait.event for wait in self._waits.values()]
        return bool(waits) and all(wait.person or self._asking.get(wait.key) for wait in waits)

    def _update_wait(self, event: Waits, now: float) -> None:
        """Begin or change the wait with the key of `event`; end it if the event has no text.

        A wait with the same text keeps its start.
        """
        self._clear_interrupt()
        if event.key == MODEL_WAITS:
            self._last_text_at = None
            self._is_reasoning = False
            self._received_chars = 0
        previous = self._waits.pop(event.key, None)
        if not event.text:
            return

        since = now
        if previous is not None and previous.event.text == event.text:
            since = previous.since
        self._waits[event.key] = _Wait(event, since)

    def _set_interrupt(self, event: InterruptReceived) -> None:
        previous = self._interrupt
        is_choice = previous is not None and previous.then == "menu"
        if is_choice and event.then == "continue":
            self._interrupt = None  # the user, who has just chosen this, needs no notice of it
        else:
            self._interrupt = event

    def _clear_interrupt(self) -> None:
        """Remove an obsolete notice of an interrupt, because the turn continues.

        The notice of `stop` and `abort` stays, and that of `menu` until the user's choice replaces
        it.
        """
        if self._interrupt is not None and self._interrupt.then in _DECIDED:
            self._interrupt = None

    def format_line(self, now: float) -> str:
        """Return the status line at `now`; "" if nothing is awaited."""
        if self._interrupt is None:
            return self._format_waiting_line(now)

        notice = describe_interrupt(self._interrupt, self._function)
        if self._interrupt.then != "continue":
            return notice
        return " · ".join(filter(None, [notice, self._format_waiting_line(now)]))

    def _format_waiting_line(self, now: float) -> str:
        """Return the line about the waits: `Waiting for a, b; then 2 decisions by you · 12 s`.

        While text of the model arrives, the model is not awaited. The line names retries with their
        reason. Decisions are only counted, unless the turn waits for nothing else.
        """
        waits = list(self._waits.values())
        if self._is_text_arriving(now):
            waits = [wait for wait in waits if wait.event.key != MODEL_WAITS]
            if not waits:
                return self._format_arriving_line(now)

        retries = [wait.event for wait in waits if wait.event.until is not None]
        others = [wait for wait in waits if not wait.event.person and wait.event.until is None]
        sentences = [describe_retry(event, now) for event in retries]
        later_decisions = self._count_decisions()

        named_waits = others
        waits_only_for_decisions = not others and not sentences
        if waits_only_for_decisions:
            named_waits = waits
            later_decisions = 0

        if later_decisions:
            noun = pluralize("decision", later_decisions)
            sentences.append(f"then {later_decisions} {noun} by you")
        if not named_waits:
            return "; ".join(sentences)

        names = [self._format_name(wait.event) for wait in named_waits]
        more = len(names) - MAX_WAITS
        named = ", ".join(names[:MAX_WAITS])
        if more > 0:
            named = f"{named} and {more} more"

        seconds = int(now - min(wait.since for wait in named_waits))
        waiting = "; ".join([f"Waiting for {named}", *sentences])
        return f"{waiting} · {seconds} s"

    def _is_text_arriving(self, now: float) -> bool:
        """Return True if text that the user sees has just arrived. Reasoning may be hidden."""
        if self._is_reasoning or self._last_text_at is None:
            return False
        return now - self._last_text_at < QUIET_SECONDS

    def _format_name(self, event: Waits) -> str:
        if event.key == MODEL_WAITS and self._is_reasoning:
            return f"{event.text} (reasoning)"
        if event.progress:
            return f"{event.text} ({event.progress})"

        return event.text

    def _format_arriving_line(self, now: float) -> str:
        """Return the line while text arrives, with an estimate of the tokens.

        The server reports their exact number at the end.
        """
        response = self._waits.get(MODEL_WAITS)
        if response is None:
            return ""

        tokens = ceil(self._received_chars / CHARS_PER_TOKEN)

        seconds = int(now - response.since)
        return f"Answering … · {seconds} s · about {tokens:,} {pluralize('token', tokens)}"

    def format_status(self, now: float) -> str:
        """Return the status line and the number of tokens of the turn so far, if known."""
        tokens = format_tokens(self._sent, self._received)
        return " · ".join(filter(None, (self.format_line(now), tokens)))

    def count_turn(self, now: float) -> TurnCounts:
        """Return the seconds and the tokens of the turn, which ends at `now`."""
        seconds = now - self._began - self._user_time.sum_until(now)
        return TurnCounts(int(seconds), self._sent, self._received)

    def format_queue_line(self) -> str:
        """Return a line about the decisions after the one that the user makes now; "" if none."""
        count = self._count_decisions() - 1
        if count <= 0:
            return ""

        words = "decision follows" if count == 1 else "decisions follow"
        return f"{count} more {words}"

    def _count_decisions(self) -> int:
        return sum(wait.event.person for wait in self._waits.values())


def describe_interrupt(heard: InterruptReceived, function: FunctionBegins | None = None) -> str:
    """Return the notice of an interrupt.

    It names the tool `function` that the interrupt stops, and the effect that the user has chosen.
    """
    effects = []
    if function is not None:
        effects.append(f"stopping {function.name}")
    if heard.then is not None:
        effects.append(_AFTER[heard.then])
    if not effects:
        return "Interrupt received"

    listed = "; ".join(effects)
    return f"Interrupt received: {listed}"


def describe_retry(wait: Waits, now: float) -> str:
    """Return the reason for a retry, and the seconds until the retry."""
    left = ceil((wait.until or now) - now)
    when = f"in {left} s" if left > 0 else "now"
    return f"{wait.text}, retrying {when}"
