"""Fake users, tool sources, and cells, for tests without a kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jp_nb as jp
from jp_nb.agent.inquiry import ModelInquiry
from jp_nb.agent.tool_set import offer_tools
from jp_nb.agent.tool_sources import ToolSources
from jp_nb.config.layers import Layer, merge_layers
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tool_settings import ToolConfig
from jp_nb.config.validation import validate_config
from jp_nb.toolkit.base import Tool, ToolSource
from jp_nb.toolkit.builtin import BuiltinTools, tools_config
from jp_nb.toolkit.command import CommandTools
from jp_nb.toolkit.python import PythonTool
from tests.kit.kinds import is_kind
from tests.kit.questions import answered, form_end, not_answered
from tests.kit.questions import unavailable as kit_unavailable

REGISTRATIONS_LAYER = "registrations"


T = TypeVar("T")


# --- a person --------------------------------------------------------------------------------


class FakePrompter:
    """A user who ends prompts with `ends`, in order; `away` is the reason why no user is there.

    Each end may also be an exception to raise, or a function to await for it.

    Attributes:
        asked: The prompts that were shown.
        most_at_once: The largest number of prompts that were shown at the same time.
    """

    def __init__(
        self,
        *ends: Any | Exception | Callable[[], Awaitable[Any]],
        away: str | None = None,
    ) -> None:
        self._ends = list(ends)
        self.away = away
        self.asked: list[Any] = []
        self.most_at_once = 0
        self._shown = 0
        self._open: set[asyncio.Future[Any]] = set()

    def unavailable(self) -> Any | None:
        return None if self.away is None else kit_unavailable(self.away)

    async def ask(self, prompt: Any) -> Any:
        """End `prompt`: a form with one prepared end, or with one for each page."""
        if not is_kind(prompt, "form_prompt"):
            return await self._put(prompt)
        ends: list[Any | Any] = []
        if self._ends and (is_kind(self._ends[0], "form_end") or callable(self._ends[0])):
            end = await self._put(prompt)
            if not is_kind(end, "answered"):
                return end
            ends.append(end)
        for page in prompt.pages[len(ends) :]:
            end = await self._put(page)
            if not is_kind(end, "answered"):
                return end
            ends.append(end)
        return form_end(tuple(ends))

    def ask_in_cell(self, prompt: Any, *, keeps_record: bool = True) -> Any:
        return self.unavailable() or asyncio.run(self.ask(prompt))

    async def _put(self, prompt: Any) -> Any:
        self.asked.append(prompt)
        if not self._ends:
            raise AssertionError(f"unexpected prompt: {prompt}")
        end = self._ends.pop(0)
        self._shown += 1
        self.most_at_once = max(self.most_at_once, self._shown)
        try:
            if callable(end):
                return await self._unless_interrupted(end)
            await asyncio.sleep(0)
            if isinstance(end, Exception):
                raise end
            return end
        finally:
            self._shown -= 1

    async def _unless_interrupted(self, end: Callable[[], Awaitable[Any]]) -> Any:
        answer = asyncio.ensure_future(end())
        self._open.add(answer)  # at once: an interrupt ends whatever is in `asked`
        try:
            return await answer
        except asyncio.CancelledError:
            if answer in self._open:
                raise
            return not_answered("interrupted", "form")
        finally:
            self._open.discard(answer)
            answer.cancel()

    def interrupt(self) -> None:
        while self._open:
            self._open.pop().cancel()


def yes(value: Any = True, *, remember: bool = False) -> Any:
    """Return the answer `value`, given in the form."""
    return answered(value, "form", remember=remember)


CANCELLED = not_answered("cancelled", "form")


# --- the cell --------------------------------------------------------------------------------


class InlineCell:
    """Runs functions at once, in the thread of the event loop.

    Attributes:
        released: Number of releases after an interrupt.
    """

    released = 0

    async def call(self, function: Callable[[], T]) -> T:
        return function()

    def release(self) -> None:
        self.released += 1


class GivenTools(ToolSource):
    """A source of given tools; other tools come from the source `beyond`, if it is set."""

    def __init__(
        self, name: str, tools: Mapping[str, Tool], beyond: ToolSource | None = None
    ) -> None:
        self.name = name
        self._tools = tools
        self._beyond = beyond
        self.run: Any = beyond.run if beyond else "unattended" if name == "python" else "ask"

    @property
    def title(self) -> str:
        return self._beyond.title if self._beyond else self.name.replace("python", "Python")

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        own = {name: (tool.source or "").partition(".")[2] or name for name, tool in wanted.items()}
        more = await self._beyond.list(wanted) if self._beyond else {}
        return {**more, **{name: self._tools[x] for name, x in own.items() if x in self._tools}}


def tool_sources(executors: Mapping[str, Mapping[str, Tool]]) -> ToolSources:
    """Return sources of the tools in `executors`, by kind and name, of builtins and commands."""
    kinds: dict[str, ToolSource] = {"builtin": BuiltinTools(), "local": CommandTools()}
    sources = [
        GivenTools(kind, executors.get(kind, {}), kinds.get(kind))
        for kind in {**kinds, **executors}
    ]
    return ToolSources(lambda _: sources)


def offer_now(
    config: AppConfig,
    executors: Mapping[str, Mapping[str, Tool]] | None = None,
    *,
    unavailable_reason: str | None = None,
) -> Any:
    """Return the tools that `config` offers to a model, with or without a running event loop."""
    offered = offer_tools(
        config, tool_sources(executors or {}), unavailable_reason=unavailable_reason
    )
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, offered).result()


def configured(partial: dict[str, Any], tools: Iterable[PythonTool] = ()) -> AppConfig:
    """Return the configuration of `partial` over the registrations of builtins and `tools`."""
    return validate_config(merge_layers(layers_of(partial, tools)))


def layers_of(partial: dict[str, Any], tools: Iterable[PythonTool] = ()) -> list[Layer]:
    """Return the registrations of builtins and `tools`, and `partial` as a file over them."""
    functions = {tool.name: dict(tool.registration) for tool in tools}
    registrations = Layer(REGISTRATIONS_LAYER, tools_config(functions))
    return [registrations, Layer("workspace file", partial)]


def for_tool(name: str, **settings: Any) -> dict[str, Any]:
    """Return a partial that sets fields of one tool."""
    return {"conversation": {"tools": {name: settings}}}


async def until(condition: Callable[[], object]) -> None:
    """Wait until `condition` is true.

    On a busy machine, the event loop may need many steps.
    """
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - any condition, not one event
            await asyncio.sleep(0.001)


async def forever() -> Any:
    """Wait until the task is cancelled."""
    await asyncio.Event().wait()


def model_inquiry(
    inquiry_id: str, call_id: str, tool: str, question: jp.Question, number: int = 1
) -> ModelInquiry:
    """Return a question for a model that nobody watches, and that waits for nothing."""

    async def idle() -> None:
        pass

    def ignore(*args: object, **options: object) -> None:
        pass

    return ModelInquiry(inquiry_id, call_id, tool, question, number, ignore, ignore, idle)
