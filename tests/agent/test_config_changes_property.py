"""Random batches that propose changes: approved changes are recorded once a batch ended well.

Every choice comes from a seed: proposals, their times, decisions of the user, interrupts.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.turn_bench import call, reply, say
from tests.kit.kinds import is_kind
from tests.kit.settings import Settings, value_at
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import CANCELLED, FakePrompter, InlineCell, yes
from tests.support.partials import merge

MARK = "~provisional~"
"""In every text that is proposed, and nowhere else."""

NAME = "assistant.name"
TEMPERATURE = "assistant.model.parameters.temperature"
PROVIDER = "assistant.model.id.provider"
MODEL = "assistant.model.id.name"
WORDS = "assistant.model.parameters.stop_words"
ATTACHMENTS = "conversation.attachments"


@dataclass(frozen=True)
class Proposed:
    """Proposal of a run, and the paths that it changes; none if it must not be applied."""

    config: Any = None
    unset: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def change(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        return Settings.read(self.config or {}), self.unset


def valid(random: Random) -> Proposed:
    """Return a change that every tool here may make."""
    text = f"{MARK}{random.randrange(3)}"
    word = f"{MARK}{random.choice('abc')}"
    words = {"assistant": {"model": {"parameters": {"stop_words": [word]}}}}
    anew = {"value": [word], "strategy": "replace"}
    model = {"provider": "openai", "name": f"m{random.randrange(3)}"}
    url = f"file:{word}"
    return random.choice(
        [
            Proposed({"assistant": {"name": text}}, (), (NAME,)),
            Proposed({}, (NAME,), (NAME,)),
            Proposed({"assistant": {"name": text}}, (TEMPERATURE,), (NAME, TEMPERATURE)),
            Proposed({"assistant": {"name": "Ada"}}, (), (NAME,)),  # as it is: A47
            Proposed({"assistant": {"model": {"id": model}}}, (), (PROVIDER, MODEL)),
            Proposed(words, (), (f'{WORDS}["{word}"]',)),
            Proposed({}, (f'{WORDS}["{word}"]',), (f'{WORDS}["{word}"]',)),
            Proposed({"assistant": {"model": {"parameters": {"stop_words": anew}}}}, (), (WORDS,)),
            Proposed({}, (WORDS,), (WORDS,)),
            Proposed({"conversation": {"attachments": [url]}}, (), (f'{ATTACHMENTS}["{url}"]',)),
            Proposed({"template": {"values": {"k": {text: 1}}}}, (), ("template.values.k",)),
            Proposed({}, ("template.values.k",), ("template.values.k",)),
        ]
    )  # fmt: skip


def refused(random: Random) -> Proposed:
    """Return a change that is not valid, or not granted."""
    return random.choice(
        [
            Proposed({"assistant": {"nome": MARK}}),
            Proposed({"assistant": {"request": {"max_retries": "many"}}}),
            Proposed({"assistant": {"name": MARK}, "user": {"name": MARK}}),
            Proposed({}, ("user.name",)),
            Proposed({"assistant": {"name": MARK}}, ("assistant.model",)),
        ]
    )


def no_change(random: Random) -> Proposed:
    """Return a change without an effect."""
    config: Any = random.choice([None, {}, {"assistant": {"name": None}}, {"assistant": {}}])
    return Proposed(config)


class Gates:
    """Everything that waits, oldest first; the test chooses what continues."""

    def __init__(self) -> None:
        self.closed: list[asyncio.Future[Any]] = []

    async def wait(self) -> Any:
        gate: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.closed.append(gate)
        try:
            return await gate
        finally:
            if gate in self.closed:
                self.closed.remove(gate)

    def open_one(self, random: Random) -> None:
        if self.closed:
            gate = self.closed.pop(random.randrange(len(self.closed)))
            if not gate.done():
                gate.set_result(None)


class Person(FakePrompter):
    """A user who applies, rejects, closes prompts and answers at random.

    Attributes:
        choices: Choices in menus; `held` for a menu left open.
        applied: The tools whose changes they applied.
    """

    def __init__(self, random: Random, gates: Gates) -> None:
        super().__init__()
        self._random = random
        self._gates = gates
        self.next_choice: str | None = None
        self.choices: list[str] = []
        self.applied: list[str] = []

    async def ask(self, prompt: Any) -> Any:
        self._ends.append(lambda: self._answer(prompt))
        return await super().ask(prompt)

    async def _answer(self, prompt: Any) -> Any:
        random = self._random
        if is_kind(prompt, "decision_prompt") and prompt.text.startswith("Interrupted"):
            return await self._choose([action.value for action in prompt.actions])
        await self._gates.wait()
        if not is_kind(prompt, "decision_prompt"):
            assert is_kind(prompt, "question_prompt")
            if prompt.question.id == "reply":
                return yes(random.choice(["", "Hm."]))
            answers: list[Any] = [yes(True), yes(False), CANCELLED]
            return random.choice(answers)
        ends: list[Any] = [yes("apply"), yes("apply"), yes("reject"), CANCELLED]
        end = random.choice(ends)
        if end == yes("apply"):
            self.applied.append(prompt.text.split("'")[1])
        return end

    async def _choose(self, values: list[str]) -> Any:
        if self.next_choice is None:
            self.choices.append("held")
            await asyncio.Event().wait()
        choice = self.next_choice if self.next_choice in values else "continue"
        self.choices.append(str(choice))
        return yes(choice)


class Cell(InlineCell):
    """Calls `on_release` when an interrupt was carried out and the batch continues."""

    def __init__(self, on_release: Callable[[], None]) -> None:
        self._on_release = on_release

    def release(self) -> None:
        self.released += 1
        self._on_release()


class Batches:
    """One turn of one or two batches, and the facts that the test collects about it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.gates = Gates()
        self.person = Person(self.random, self.gates)
        self.sizes = [self.random.randint(1, 6) for _ in range(self.random.choice([1, 1, 2]))]
        self.places = [(b, i) for b, size in enumerate(self.sizes) for i in range(size)]
        self.asks = {place: self.random.random() < 0.5 for place in self.places}
        self.skips = {place: self.random.random() < 0.2 for place in self.places}
        self.latest: dict[str, Proposed] = {}
        self.unattended: list[str] = []
        self.approved: list[tuple[str, Proposed]] = []
        self.crashes = self.random.random() < 0.05
        self.cell = Cell(self._released)
        self.done_before: list[int] = []
        self.saved: set[int] = set()
        self.end: str = ""
        self.bench = self._bench()
        self.bench.stream.on_change = self._saved

    # --- the turn

    def _bench(self) -> TurnBench:
        tools = [self._tool(batch, index) for batch, index in self.places]
        config: dict[str, Any] = {
            "assistant": {
                "name": "Ada",
                "model": {"id": "anthropic/opus", "parameters": {"stop_words": ["stop"]}},
            },
            "template": {"values": {"k": {"a": 1}}},
            "interrupt": {"escalation_cooldown_secs": 0},
        }
        for place, tool in zip(self.places, tools, strict=True):
            rule = {"read": True, "write": True, "delete": True}
            rule["apply"] = "ask" if self.asks[place] else "unattended"  # type: ignore[assignment]
            rules = [
                {**rule, "path": path}
                for path in ("assistant", "template", "conversation.attachments")
            ]
            entry: Any = {"access": {"config": rules}}
            if self.skips[place]:
                entry["result"] = "skip"
            config = merge(config, {"conversation": {"tools": {tool.name: entry}}})
        calls = [
            reply(*(call(f"t{b}_{i}", f"t{b}_{i}", index=i) for i in range(size)))
            for b, size in enumerate(self.sizes)
        ]
        bench = TurnBench(
            [*calls, reply(say("Done."))], tools=tools, person=self.person, config=config
        )
        bench.use(cell=self.cell)
        bench.use(display=self._show)
        return bench

    def _tool(self, batch: int, index: int) -> Any:
        random = self.random
        name = f"t{batch}_{index}"

        async def run(ctx: jp.ToolContext) -> Any:
            now = self.bench.projection.config().assistant
            assert isinstance(ctx.config, dict)
            assert value_at(ctx.config, NAME) == now.name, "configuration of the batch"
            for _ in range(random.randrange(2)):
                await self.gates.wait()
            luck = random.random()
            if luck < 0.15 and not ctx.answers:
                return jp.NeedsInput(jp.Question.boolean("sure", "Sure?"))
            if luck < 0.2:
                raise jp.ToolError("no")
            if luck < 0.3:
                return "plain"
            kind = random.choice([valid, valid, valid, valid, refused, no_change])
            self.latest[name] = proposed = kind(random)
            outside = any(path.startswith(ATTACHMENTS) for path in proposed.paths)
            # Attachments outside the workspace need a user under every grant.
            if proposed.paths and not outside and not self.asks[batch, index]:
                self.unattended.append(name)
            return jp.Success("Changed.", config=proposed.config, unset=proposed.unset)

        return new_tool(run, name=name)

    # --- events

    def _show(self, event: Any) -> None:
        self.bench.show(event)
        if is_kind(event, "change_ends") and event.applied:
            self.approved.append((event.tool, self.latest[event.tool]))
            if self.crashes:
                raise RuntimeError("a fault of ours")

    def _released(self) -> None:
        """Record the effect of an interrupt. A restart discards the approved changes."""
        if self.person.choices and self.person.choices[-1] == "restart":
            batch = len(self._answered())
            self.approved = [one for one in self.approved if _batch(one[0]) < batch]
            self.person.choices[-1] = "restarted"

    def _answered(self) -> list[int]:
        """The batches whose responses are in the record."""
        return sorted({_batch(r.id) for r in self.bench.of("tool_call_response")})

    def _saved(self) -> None:
        """Check that a store would write nothing provisional now."""
        for place, entry in enumerate(self.bench.entries):
            if is_kind(entry, "config_delta") and "no_answer" not in entry.metadata:
                assert place not in self.saved, "with the responses, in one step"
                self._check_place(place)
        self.saved.add(len(self.bench.entries))
        rest = [
            raw
            for raw, entry in zip(self.bench.stream.raw, self.bench.entries, strict=True)
            if not is_kind(entry, "config_delta") and not _names_what_was_refused(entry)
        ]
        document = self.bench.to_json()
        assert MARK not in json.dumps(rest)
        if not self._changes() and len(rest) == len(self.bench.entries):
            assert MARK not in json.dumps(document)

    def _changes(self) -> list[Any]:
        """The changes by tools; marks of turns without an answer are omitted."""
        return [
            delta for delta in self.bench.of("config_delta") if "no_answer" not in delta.metadata
        ]

    def _check_place(self, place: int) -> None:
        entries = self.bench.entries
        start = place
        while is_kind(entries[start - 1], "tool_call_response"):
            start -= 1
        names = [r.id for r in entries[start:place] if is_kind(r, "tool_call_response")]
        assert names, "a change directly after the responses of its batch"
        batch = _batch(names[0])
        assert names == [f"t{batch}_{i}" for i in range(self.sizes[batch])]

    async def run(self) -> None:
        task = asyncio.ensure_future(self.bench.run())
        plan = self.random.choices(
            ["continue", "reply", "restart", "stop", "escalate", "cancel", ""],
            [2, 2, 4, 2, 2, 2, 6],
            k=self.random.choice([1, 1, 2, 3]),
        )
        for what in plan:
            await self._go_on(task, self.random.randrange(12))
            if what and not task.done():
                await self._disturb(task, what)
        while not task.done():
            await self._go_on(task, 1)
        try:
            self.end = task.result().status
        except asyncio.CancelledError:
            self.end = "cancelled"
        except RuntimeError:
            if not self.crashes:
                raise
            self.end = "crashed"

    async def _go_on(self, task: asyncio.Future[Any], ticks: int) -> None:
        for _ in range(ticks):
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)
            if not task.done():
                self.gates.open_one(self.random)

    async def _disturb(self, task: asyncio.Future[Any], what: str) -> None:
        begun = {e.name for e in self.bench.shown if is_kind(e, "tool_begins")}
        if not begun >= {request.name for request in self.bench.stream.list_open_tool_calls()}:
            return  # the answer is just complete, and no tool was begun
        if what == "cancel":
            self.done_before = self._answered()
            task.cancel()
            await asyncio.wait([task], timeout=5)
            return
        escalates = what == "escalate"
        self.person.next_choice = None if escalates else what
        released = self.cell.released
        menus = len(self.person.choices)
        self.bench.loop.interrupt()
        if escalates:
            await self._until(lambda: task.done() or len(self.person.choices) > menus)
            self.done_before = self._answered()
            self.bench.loop.interrupt()
            await self._until(task.done)
        else:
            await self._until(lambda: task.done() or self.cell.released > released)

    async def _until(self, condition: Callable[[], object]) -> None:
        """Open gates, also those that wait for the user, until `condition` holds."""
        async with asyncio.timeout(5):
            while not condition():
                self.gates.open_one(self.random)
                await asyncio.sleep(0)

    # --- checks

    def check(self) -> None:
        entries = self.bench.entries
        requests = Counter(e.id for e in entries if is_kind(e, "tool_call_request"))
        assert requests == Counter(e.id for e in entries if is_kind(e, "tool_call_response"))
        self._check_changes(entries)
        assert not self.bench.reload().repair()
        assert not self.bench.stream.repair()
        assert self.person.most_at_once <= 1

    def _check_changes(self, entries: list[Any]) -> None:
        lost = self.end in ("cancelled", "crashed") or "held" in self.person.choices
        kept = self.done_before if lost and self.end != "crashed" else self._answered()
        made = {_batch(d.metadata["proposed_by"][0]["tool"]): d for d in self._changes()}
        assert len(made) == len(self._changes()), "one for each batch"
        now = self.bench.projection.steps()[0].after
        defaults = self.bench.projection.steps()[0].defaults
        for batch in range(len(self.sizes)):
            approved = sorted(one for one in self._approved_in(batch))
            if lost and (self.end == "crashed" or batch not in kept):
                approved = []
            assert (batch in made) == bool(approved)
            if approved:
                changes = [proposed.change for _, _, proposed in approved]
                now = Settings(now).change(*changes, defaults=defaults, plain=False)
                self._check_delta(made[batch], [(name, p) for _, name, p in approved])
        assert self.bench.projection.partial() == Settings(now).change(), (
            "one by one, in call order"
        )

    def _approved_in(self, batch: int) -> list[tuple[int, str, Proposed]]:
        found = [(n, p) for n, p in self.approved if _batch(n) == batch]
        assert len({name for name, _ in found}) == len(found), "one approved outcome a call"
        for name, _ in found:
            assert name in self.unattended or name in self.person.applied
        if not self.person.choices and self.end == "completed":
            said = {n for n in [*self.unattended, *self.person.applied] if _batch(n) == batch}
            assert {name for name, _ in found} == said, "all that was approved"
        return [(int(name.partition("_")[2]), name, proposed) for name, proposed in found]

    def _check_delta(self, delta: Any, approved: list[tuple[str, Proposed]]) -> None:
        assert delta.claims == {path: None for _, one in approved for path in one.paths}
        assert not set(Settings.list_changed(delta.delta)) & set(delta.unsets)
        assert [(p["tool"], tuple(p["paths"])) for p in delta.metadata["proposed_by"]] == [
            (name, one.paths) for name, one in approved
        ]


def _names_what_was_refused(entry: Any | None) -> bool:
    """Return True if `entry` ends a call after its last rejection, whose paths it names."""
    return is_kind(entry, "tool_call_response") and "failed to produce a valid" in entry.content


def _batch(name: str) -> int:
    return int(name[1 : name.index("_")])


SEEDS = [range(15), pytest.param(range(15, 150), marks=pytest.mark.deep)]


@pytest.mark.parametrize("seeds", SEEDS, ids=["plain", "deep"])
@pytest.mark.req(
    "R078-107", "R078-108", "R078-111", "R078-113", "R078-114", "R078-115", "R078-116",
    "R078-117", "R078-118", "R078-120", "R078-121",
)  # fmt: skip
async def test_random_batches_record_their_approved_changes_when_they_end(seeds: range) -> None:
    for seed in seeds:
        batches = Batches(seed)
        try:
            await batches.run()
            batches.check()
        except BaseException as exc:
            exc.add_note(f"seed {seed}")
            raise
