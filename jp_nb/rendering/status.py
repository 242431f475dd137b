"""Status line of a running turn, and notices about interrupted turns and inherited settings.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from jp_nb.config.partial import Partial, get_path, iter_leaves
from jp_nb.config.partial_change import Change
from jp_nb.config.schema import PathKeys, format_path, mask_secrets, node_at, parse_path
from jp_nb.record.interrupted_turn import InterruptedTurn, OpenCall
from jp_nb.record.turn_numbers import to_shown_turn
from jp_nb.rendering.prompt_text import spell_name
from jp_nb.rendering.setting_text import NO_TOOLSETS, Toolsets, split_change
from jp_nb.text import MAX_FEW_NAMES, MAX_ITEMS_IN_LINE, one_line, pluralize

QUIET_SECONDS = 1.0
"""Seconds without new text after which the status line names the model as awaited."""

CHARS_PER_TOKEN = 4
"""Estimate for the tokens of a text that arrives."""

MAX_WAITS = 3
"""Limit of waits that the status line names. Further ones are counted."""

_AFTER: Mapping[str, str] = {
    "menu": "a menu asks how to continue",
    "continue": "continuing",
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


@dataclass(frozen=True, slots=True)
class TurnCounts:
    """The end of a turn for the user: its seconds, and the tokens that it sent and received.

    `seconds` are those of the model and the tools. The time in which the turn only waited for the
    user is not part of them.
    """

    seconds: int
    sent: int | None = None
    received: int | None = None


class Waiting:
    """The current waits of a turn and their start times. Times are seconds of a monotonic clock."""

    def __init__(self, now: float) -> None:
        self._waits = {MODEL_WAITS: _Wait(Waits(MODEL_WAITS, "the request to be prepared"), now)}
        self._function: FunctionBegins | None = None
        self._interrupt: InterruptReceived | None = None
        self._last_text_at: float | None = None
        self._is_reasoning = False
        self._received_chars = 0  # of the current response
        self._began = now
        self._asking: dict[str, bool] = {}  # whether the code of a call waits for the user
        self._user_since: float | None = None  # the turn waits only for the user
        self._user_s = 0.0
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
                self._wait(event, now)
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
                self._note_interrupt(event)
            case CodeAsks():
                self._asking[event.call_id] = event.waits

        self._measure_user(now)

    def _measure_user(self, now: float) -> None:
        since = self._user_since
        waits_for_user = self._waits_only_for_user()

        if waits_for_user and since is None:
            self._user_since = now
        elif not waits_for_user and since is not None:
            self._user_s += now - since
            self._user_since = None

    def _waits_only_for_user(self) -> bool:
        if self._interrupt is not None and self._interrupt.then == "menu":
            return True

        waits = [wait.what for wait in self._waits.values()]
        return bool(waits) and all(wait.person or self._asking.get(wait.key) for wait in waits)

    def _wait(self, event: Waits, now: float) -> None:
        self._clear_interrupt()
        if event.key == MODEL_WAITS:
            self._last_text_at = None
            self._is_reasoning = False
            self._received_chars = 0
        before = self._waits.pop(event.key, None)
        if not event.text:
            return

        since = now
        if before is not None and before.what.text == event.text:
            since = before.since
        self._waits[event.key] = _Wait(event, since)

    def _note_interrupt(self, event: InterruptReceived) -> None:
        previous = self._interrupt
        is_choice = previous is not None and previous.then == "menu"
        if is_choice and event.then == "continue":
            self._interrupt = None  # the user, who has just chosen this, needs no notice of it
        else:
            self._interrupt = event

    def _clear_interrupt(self) -> None:
        # The turn continues, so the notice is obsolete. The notice of `stop` and `abort` stays, and
        # the notice of `menu` stays until the user's choice replaces it.
        if self._interrupt is not None and self._interrupt.then in _DECIDED:
            self._interrupt = None

    def line(self, now: float) -> str:
        """Return the status line at `now`; "" if nothing is awaited."""
        if self._interrupt is None:
            return self._format_waiting_line(now)

        notice = describe_interrupt(self._interrupt, self._function)
        if self._interrupt.then != "continue":
            return notice
        return " · ".join(filter(None, [notice, self._format_waiting_line(now)]))

    def _format_waiting_line(self, now: float) -> str:
        # Reasoning may be hidden, so the model still counts as awaited.
        last = None if self._is_reasoning else self._last_text_at
        waits = list(self._waits.values())
        if last is not None and now - last < QUIET_SECONDS:
            waits = [wait for wait in waits if wait.what.key != MODEL_WAITS]
            if not waits:
                return self._format_arriving_line(now)

        others = [wait for wait in waits if not wait.what.person and wait.what.until is None]
        sentences = [
            describe_retry(wait.what, now) for wait in waits if wait.what.until is not None
        ]
        behind = self._count_decisions()

        if not others and not sentences:
            others = waits
            behind = 0

        if behind:
            sentences.append(f"then {behind} {pluralize('decision', behind)} by you")
        if not others:
            return "; ".join(sentences)

        names = [self._name(wait.what) for wait in others]
        more = len(names) - MAX_WAITS
        named = ", ".join(names[:MAX_WAITS])
        if more > 0:
            named = f"{named} and {more} more"

        seconds = int(now - min(wait.since for wait in others))
        waiting = "; ".join([f"Waiting for {named}", *sentences])
        return f"{waiting} · {seconds} s"

    def _name(self, what: Waits) -> str:
        if what.key == MODEL_WAITS and self._is_reasoning:
            return f"{what.text} (reasoning)"
        return f"{what.text} ({what.progress})" if what.progress else what.text

    def _format_arriving_line(self, now: float) -> str:
        # A sign that more text comes. The server reports the exact number of tokens at the end.
        response = self._waits.get(MODEL_WAITS)
        if response is None:
            return ""

        tokens = ceil(self._received_chars / CHARS_PER_TOKEN)

        seconds = int(now - response.since)
        return f"Answering … · {seconds} s · about {tokens:,} {pluralize('token', tokens)}"

    def status(self, now: float) -> str:
        """Return `line` and the number of tokens of the turn so far, if known."""
        tokens = format_tokens(self._sent, self._received)
        return " · ".join(filter(None, (self.line(now), tokens)))

    def end(self, now: float) -> TurnCounts:
        """Return the seconds and the tokens of the turn, which ends at `now`."""
        user_s = self._user_s
        if self._user_since is not None:
            user_s += now - self._user_since

        return TurnCounts(int(now - self._began - user_s), self._sent, self._received)

    def queue_line(self) -> str:
        """Return a line about the decisions after the one that the user makes now."""
        count = self._count_decisions() - 1
        if count <= 0:
            return ""

        words = "decision follows" if count == 1 else "decisions follow"
        return f"{count} more {words}"

    def _count_decisions(self) -> int:
        return sum(wait.what.person for wait in self._waits.values())


def format_tokens(sent: int | None, received: int | None) -> str:
    """Return the number of tokens of a turn so far; "" if it is unknown."""
    parts = []
    if sent is not None:
        parts.append(f"{sent:,} tokens in")
    if received is not None:
        noun = "out" if parts else "tokens out"
        parts.append(f"{received:,} {noun}")

    return ", ".join(parts)


def describe_interrupt(heard: InterruptReceived, function: FunctionBegins | None = None) -> str:
    """Return the notice of an interrupt, the tool `function` that it stops, and its effect."""
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


def describe_interrupted_turn(found: InterruptedTurn, finished: Sequence[str] = ()) -> str:
    """Return the notice that `found` can be continued.

    `finished` are the names of the tools whose results the journal kept.
    """
    sentences = [f"turn {to_shown_turn(found.turn)} was interrupted."]
    if finished:
        sentences.append(describe_finished_calls(finished))
    sentences += _describe_open_calls(found.open_calls)
    sentences.append("Continue it: `%jp resume`")

    return " ".join(sentences)


def describe_finished_calls(names: Sequence[str]) -> str:
    """Return the sentence about calls that finished before the interruption."""
    tools = _list_tools(names)
    if len(names) > 1:
        return f"{tools} have finished: the results are kept, and they do not run again."

    return f"{tools} has finished: the result is kept, and it does not run again."


def describe_skipped_calls(names: Sequence[str]) -> str:
    """Return the sentence about calls that the user chose not to run."""
    return f"{_list_tools(names)} skipped; the model is informed"


def _describe_open_calls(calls: Iterable[OpenCall]) -> Iterator[str]:
    asked = list[str]()
    ready = list[str]()
    unclear = list[str]()
    for call in calls:
        names = {"asked": asked, "permitted": ready}.get(call.stage or "", unclear)
        names.append(call.request.name)

    if asked:
        were = "were" if len(asked) > 1 else "was"
        yield (
            f"{_list_tools(asked)} {were} waiting for your permission and did not run, even if a "
            'cell still shows "Waiting for your permission".'
        )

    if ready:
        yield f"{_list_tools(ready)} did not start."

    if unclear:
        yield f"{_list_tools(unclear)} may have run, fully or partly."


def _list_tools(names: Sequence[str]) -> str:
    shown = [spell_name(name) for name in dict.fromkeys(names)]
    if more := shown[MAX_FEW_NAMES:]:
        shown[MAX_FEW_NAMES:] = [f"{len(more)} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


FOR_ALL_HINT = "For every conversation: `%jp config --user PATH=VALUE`"


def list_inherited_notices(change: Change) -> list[str]:
    """Return a notice about the settings that a conversation inherited, or an empty list."""
    if not change:
        return []
    return [f"Kept from the previous conversation: {_join_settings(change, NO_TOOLSETS)}"]


def format_dropped_settings(change: Change, *, asks: bool, toolsets: Toolsets = NO_TOOLSETS) -> str:
    """Return a notice about settings that a new conversation does not inherit, with commands.

    With `asks`, the new conversation starts with a request, and not with `%jp new`.
    """
    how = "Keep them: `%jp new --keep-config`"
    if asks:
        how = "Set them again: `-t NAME` or `-c PATH=VALUE` together with `-n`, or `%jp config`"
    return (
        "these settings of the previous conversation do not apply to the new one: "
        f"{_join_settings(change, toolsets)}. {how}. {FOR_ALL_HINT}"
    )


def _join_settings(change: Change, toolsets: Toolsets) -> str:

    words, delta = split_change(change.delta, toolsets)
    found = [*_format_settings(delta), *(f"{path} unset" for path in change.unsets)]

    more = len(found) - MAX_ITEMS_IN_LINE
    if more > 0:
        found[MAX_ITEMS_IN_LINE:] = [f"and {more} more"]
    if found:
        words.append(", ".join(found))

    return "; ".join(words)


def _format_settings(delta: Partial) -> Iterator[str]:
    shown: dict[PathKeys, None] = {}
    for keys, _ in iter_leaves(delta):
        above = node_at(keys[:-1])
        is_model = above is not None and above.required_fields == ["provider", "name"]
        place = keys[:-1] if is_model else keys
        shown[place] = None

    for keys in shown:
        path = format_path(keys)
        value = mask_secrets(get_path(delta, path), parse_path(path))
        if isinstance(value, dict) and {"provider", "name"} <= value.keys():
            value = f"{value['provider']}/{value['name']}"

        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"{one_line(path, limit=200)}={one_line(text, limit=60)}"
