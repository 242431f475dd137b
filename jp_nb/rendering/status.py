"""Status of a turn: the line of a running one, the notice of an interrupted one.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from jp_nb.agent.display import (
    MODEL_WAITS,
    ChangeEnds,
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
from jp_nb.record.journal import OpenCall
from jp_nb.record.turns import InterruptedTurn
from jp_nb.rendering.prompts import one_name

QUIET = 1.0
"""Seconds without a word of a model that has begun to speak, after which it is waited for again."""

MAX_NAMED = 3
"""So many of those that are waited for are named."""

_AFTER: Mapping[str, str] = {
    "menu": "a menu asks how to continue",
    "continue": "continuing, as configured",
    "reply": "stopping; your reply is sent to the model",
    "restart": "stopping; tool calls without a result will run again",
    "stop": "stopping; the text received so far is kept",
    "abort": "aborting the answer",
}
_DECIDED = ("continue", "reply", "restart")


@dataclass(frozen=True, slots=True)
class _Wait:
    what: Waits
    since: float


class Waiting:
    """Knows what is waited for, and since when. Times are those of one monotonic clock."""

    def __init__(self, now: float) -> None:
        self._waits = {MODEL_WAITS: _Wait(Waits(MODEL_WAITS, "the request to be prepared"), now)}
        self._function: FunctionBegins | None = None
        self._interrupt: InterruptReceived | None = None
        self._spoke: float | None = None
        self._reasons = False
        self._tokens = ""

    def apply(self, event: DisplayEvent, now: float) -> None:
        """Fold `event` in, which happened at `now`."""
        match event:
            case ShowText(kind=kind):
                self._spoke, self._reasons = now, kind == "reasoning"
                self._go_on()
            case Waits():
                self._wait(event, now)
            case TokensSoFar(sent=sent, received=received):
                self._tokens = tokens_line(sent, received)
            case ToolEnds(call_id=key) | QuestionEnds(call_id=key) | ChangeEnds(call_id=key):
                self._waits.pop(key, None)
            case ToolBegins() | UserMessage():
                self._go_on()
            case FunctionBegins():
                self._function = event
            case FunctionEnds():
                self._function = None
            case InterruptReceived():
                self._interrupt = event

    def _wait(self, event: Waits, now: float) -> None:
        self._go_on()
        if event.key == MODEL_WAITS:
            self._spoke, self._reasons = None, False
        before = self._waits.pop(event.key, None)
        if event.text:
            same = before is not None and before.what.text == event.text
            self._waits[event.key] = before if before and same else _Wait(event, now)

    def _go_on(self) -> None:
        """Forget an interrupt after which something goes on."""
        if self._interrupt is not None and self._interrupt.then in _DECIDED:
            self._interrupt = None

    def line(self, now: float) -> str:
        """Return what to show at `now`; "" if nothing is waited for, or text comes anyway."""
        if self._interrupt is not None:
            return interrupt_words(self._interrupt, self._function)
        waits = [wait for wait in self._waits.values() if not self._speaks(wait, now)]
        others = [wait for wait in waits if not wait.what.person and wait.what.until is None]
        sentences = [again_words(wait.what, now) for wait in waits if wait.what.until is not None]
        behind = self.in_line
        if not others and not sentences:
            others, behind = waits, 0
        if behind:
            sentences.append(f"then {behind} decision{'' if behind == 1 else 's'} by you")
        if others:
            sentences.insert(0, f"Waiting for {_listed([self._named(wait) for wait in others])}")
            seconds = int(now - min(wait.since for wait in others))
            return f"{'; '.join(sentences)} · {seconds} s"
        return "; ".join(sentences)

    def status(self, now: float) -> str:
        """Return `line`, and how many tokens the turn has taken so far, as far as that is known."""
        return " · ".join(filter(None, (self.line(now), self._tokens)))

    @property
    def in_line(self) -> int:
        """The number of decisions that the person still has to make."""
        return sum(wait.what.person for wait in self._waits.values())

    def _speaks(self, wait: _Wait, now: float) -> bool:
        """Return whether the model's text comes: nobody wonders then. Reasoning may be hidden."""
        of_model = wait.what.key == MODEL_WAITS and self._spoke is not None
        return of_model and not self._reasons and now - (self._spoke or now) < QUIET

    def _named(self, wait: _Wait) -> str:
        reasons = wait.what.key == MODEL_WAITS and self._reasons
        return f"{wait.what.text} (reasoning)" if reasons else wait.what.text


def tokens_line(sent: int | None, received: int | None) -> str:
    """Return how many tokens a turn has taken so far, "" if nobody knows."""
    parts = [] if sent is None else [f"{sent:,} tokens in"]
    parts += [] if received is None else [f"{received:,} {'out' if parts else 'tokens out'}"]
    return ", ".join(parts)


def interrupt_words(heard: InterruptReceived, function: FunctionBegins | None = None) -> str:
    """Return that an interrupt was heard, and what comes of it; `function` is what it cuts."""
    after = [_AFTER[heard.then]] if heard.then is not None else []
    held = [f"stopping {function.name}"] if function is not None else []
    return ": ".join(filter(None, ["Interrupt received", "; ".join([*held, *after])]))


def again_words(wait: Waits, now: float) -> str:
    """Return why something is tried again, and in how many seconds."""
    left = ceil((wait.until or now) - now)
    return f"{wait.text}, retrying {f'in {left} s' if left > 0 else 'now'}"


def _listed(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


MAX_NAMED_TOOLS: Final = 5
"""Tools that are named in one sentence."""


def interrupted_turn(found: InterruptedTurn, finished: Sequence[str] = ()) -> str:
    """Return the notice that `found` can be continued.

    Args:
        found: The turn.
        finished: Names of the tools whose results the journal kept.
    """
    sentences = [f"turn {found.turn} was interrupted."]
    if finished:
        sentences.append(finished_words(finished))
    sentences += state_words(found.open_calls)
    return " ".join([*sentences, "Continue it: `%jp resume`"])


def finished_words(names: Sequence[str]) -> str:
    """Return the sentence about calls that finished before the interruption."""
    has, result, runs = (
        ("have", "results are", "they do") if len(names) > 1 else ("has", "result is", "it does")
    )
    return f"{_list_tools(names)} {has} finished: the {result} kept, and {runs} not run again."


def skipped_words(names: Sequence[str]) -> str:
    """Return the sentence about calls that the user chose not to run."""
    return f"{_list_tools(names)} skipped; the model is informed"


def state_words(calls: Iterable[OpenCall]) -> list[str]:
    """Return a sentence about the open calls of each state."""
    asked, ready, unclear = list[str](), list[str](), list[str]()
    for call in calls:
        names = {"asked": asked, "permitted": ready}.get(call.stage or "", unclear)
        names.append(call.request.name)
    found = []
    if asked:
        were = "were" if len(asked) > 1 else "was"
        found.append(
            f"{_list_tools(asked)} {were} waiting for your permission and did not run, even if a "
            'cell still shows "Waiting for your permission".'
        )
    if ready:
        found.append(f"{_list_tools(ready)} did not start.")
    if unclear:
        found.append(f"{_list_tools(unclear)} may have run, fully or partly.")
    return found


def _list_tools(names: Sequence[str]) -> str:
    shown = [one_name(name) for name in dict.fromkeys(names)]
    if more := shown[MAX_NAMED_TOOLS:]:
        shown[MAX_NAMED_TOOLS:] = [f"{len(more)} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
