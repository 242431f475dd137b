"""Turns in which tools propose configuration changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jp_nb as jp
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.kinds import is_kind, make
from tests.kit.models import EventProvider
from tests.kit.settings import Settings
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool, yes
from tests.support.partials import merge

APPLY = yes("apply")
REJECT = yes("reject")
SURE = jp.Question(id="sure", text="Sure?", answer_type=make("boolean_answer"))
OPUS: dict[str, Any] = {
    "assistant": {
        "model": {"id": "anthropic/opus", "parameters": {"temperature": 0.5}},
        "name": "Ada",
    }
}
TO_GPT: dict[str, Any] = {"assistant": {"model": {"id": "openai/gpt-x"}}}
NAMED: dict[str, Any] = {"assistant": {"name": "Bo"}}
FULL: dict[str, Any] = {"path": "assistant", "read": True, "write": True, "delete": True}
UNATTENDED = {**FULL, "apply": "unattended"}


class Proposer:
    """A tool with prepared outcomes that records the contexts of its runs."""

    def __init__(self, *outcomes: Any, name: str = "change") -> None:
        self.told: list[jp.ToolContext] = []
        self._outcomes = list(outcomes)

        async def run(ctx: jp.ToolContext, n: int = 0) -> Any:
            self.told.append(ctx)
            step = self._outcomes[min(len(self.told), len(self._outcomes)) - 1]
            return await step(ctx) if callable(step) else step

        self.tool = new_tool(run, name=name)

    @property
    def rejections(self) -> list[Any | None]:
        return [ctx.delta_rejection for ctx in self.told]


def make_bench(
    *proposers: Proposer,
    person: FakePrompter | None = None,
    rule: Mapping[str, Any] | None = FULL,
    config: dict[str, Any] | None = None,
    models: Mapping[str, EventProvider] | None = None,
    scripts: Any = None,
    **more: Any,
) -> TurnBench:
    """A turn that calls all tools in one cycle, and then ends."""
    tools = [proposer.tool for proposer in proposers]
    whole = merge(OPUS, config or {})
    for tool in tools if rule is not None else ():
        whole = merge(whole, for_tool(tool.name, access={"config": [dict(rule or {})]}))
    calls = [call(tool.name, f"c{i}", index=i) for i, tool in enumerate(tools)]
    return TurnBench(
        scripts or [reply(*calls), DONE],
        tools=tools,
        person=person or FakePrompter(),
        config=whole,
        models=models or {},
        **more,
    )


def responses(bench: TurnBench) -> dict[str, str]:
    return {entry.id: entry.content for entry in bench.of("tool_call_response")}


def notices(bench: TurnBench) -> list[str]:
    return [notice.text for notice in bench.shown_of("notice")]


def shown_texts(person: FakePrompter) -> list[str]:
    return [p.text if is_kind(p, "decision_prompt") else p.question.text for p in person.asked]


def count_resolves(bench: TurnBench) -> list[str]:
    """One item for each time that the configuration was resolved."""
    found: list[str] = []
    resolve = bench.loop.resolve

    async def counting() -> Any:
        resolved = await resolve()
        found.append(resolved.model)
        return resolved

    bench.loop.resolve = counting
    return found


EVERYTHING: list[dict[str, Any]] = [
    {"path": path, "write": "insecure_allow", "delete": True, "apply": "unattended"}
    for path in ("conversation", "providers", "assistant")
]


def reviewed(
    config: Any, unset: list[str] | None = None, *, rules: list[dict[str, Any]] = EVERYTHING
) -> dict[str, Any]:
    """Return the review of a change by a tool with `rules`."""
    whole = merge(OPUS, for_tool("change", access={"config": rules}, run="unattended"))
    whole["providers"] = {"llm": {"openai": {"base_url": "http://mine.example"}}}
    granted = [jp.ConfigRule(**rule) for rule in rules]
    return Settings(whole).propose(json.loads(json.dumps(config)), unset or [], rules=granted)
