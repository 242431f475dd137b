"""Select the tools that the requests of a turn offer to the model, and say why others are missing.

A *source* of tools is the package itself, the notebook, or an MCP server. Some sources *discover*
tools: they find tools that the configuration does not name. A tool is offered if it is on and its
source has it. A tool that needs a user is missing in an unattended run, unless answers for it are
prepared. For each enabled tool that is missing, the reason is known.

Source: `docs/turns.md`, `docs/decisions.md` D11, D22, D37, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from jp_nb.agent.offered_tools.configured_tools import is_enabled_or_forced
from jp_nb.agent.offered_tools.effective_tool import make_offered_tool
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.offered_tools.tool_sources import SourceAttempt, ToolSources
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tool_settings import STAR, ToolConfig

NEEDS_USER_REASON = "it needs a user, and no user is available"


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The available tools by name, and reasons for enabled ones that are `missing`.

    Attributes:
        tools: The tools by their names for the model.
        missing: The reason why an enabled tool is not available, by name.
        clashes: Description of each name that two sources have.
        problems: One text for each optional source that failed, with its name.
        failures: The same for required sources.
        failed_sources: The text of each failed source, by its name.
        config: The configuration, with the tools that its sources found.
        notices: Texts for the user about the sources.
        instructions: Texts for the model about the use of the tools.
    """

    tools: dict[str, OfferedTool]
    missing: dict[str, str]
    clashes: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    failed_sources: Mapping[str, str] = field(default_factory=dict)
    config: AppConfig | None = None
    notices: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()

    @property
    def documentation(self) -> Mapping[str, str]:
        """Documentation by name, written on lookup."""
        return _Documentation(self.tools)


class _Documentation(Mapping[str, str]):
    """The documentation of tools by name. Most tools never read it, so it is written on lookup."""

    def __init__(self, tools: Mapping[str, OfferedTool]) -> None:
        self._tools = tools

    def __getitem__(self, name: str) -> str:
        return self._tools[name].documentation

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


async def offer_tools(
    config: AppConfig,
    sources: ToolSources,
    *,
    unavailable_reason: str | None = None,
    answered: Callable[[str], bool] = lambda _: False,
    attempt: SourceAttempt | None = None,
) -> ToolSet:
    """Return the tools that `config` enables, and the tool that it names as `tool_choice`.

    A named tool with a state that is locked off is not returned.

    Args:
        config: The effective configuration.
        sources: The sources of tools, which are started and asked.
        unavailable_reason: Why no user is available; None if one may be. Tools that need a user
            are then missing, except those with prepared or configured answers.
        answered: Returns True if answers for the tool of this name are prepared.
        attempt: The attempt of this turn, which may call this function several times: a source that
            failed once is not tried again.
    """
    attempt = SourceAttempt() if attempt is None else attempt
    config = await sources.discover(config, attempt)  # with the tools that the sources have found
    star = config.conversation.tools.get(STAR, ToolConfig())
    enabled = {
        name: tool
        for name, tool in config.conversation.tools.items()
        if name != STAR and is_enabled_or_forced(name, config)
    }
    wanted = {name: tool for name, tool in enabled.items() if tool.source is not None}

    # Each found tool with its source; for each of the others, the reason in `missing`.
    found = await sources.find(config, wanted, attempt)
    offered = ToolSet(
        tools={},
        missing=found.missing,
        clashes=found.clashes,
        problems=found.problems,
        failures=found.failures,
        failed_sources=found.failed_sources,
        config=config,
        notices=found.notices,
        instructions=found.instructions,
    )

    for name, tool in enabled.items():
        if tool.source is None:
            offered.missing[name] = f"conversation.tools.{name}.source is not set"
        elif name in found.tools:
            executor, source = found.tools[name]
            lacks_user = executor.needs_user and unavailable_reason is not None
            is_answered = answered(name) or _has_configured_answer(tool)
            if lacks_user and not is_answered:
                offered.missing[name] = NEEDS_USER_REASON
            else:
                offered.tools[name] = make_offered_tool(name, tool, star, executor, source)

    return offered


def _has_configured_answer(tool: ToolConfig) -> bool:
    return any(question.answer is not None for question in tool.questions.values())
