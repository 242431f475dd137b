"""Resolve the configuration of a turn before its requests, and apply it to the turn.

The configuration may change while the turn runs: a tool changes it, or a tool source, such as an
MCP server, offers other tools.

Source: `docs/turns.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from pydantic import JsonValue

from jp_nb.agent.display import Notice
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.turn_interrupts import TurnInterrupts
from jp_nb.agent.turn_requests import MODEL_ID, describe_tool_change
from jp_nb.agent.turn_state import TurnContext
from jp_nb.errors import ConfigError, UsageError


class TurnConfiguration:
    """Resolves the configuration of one turn by `resolve`, which an interrupt of the turn ends."""

    def __init__(
        self,
        turn: TurnContext,
        interrupts: TurnInterrupts,
        resolve: Callable[[], Awaitable[Resolved]],
    ) -> None:
        self._turn = turn
        self._interrupts = interrupts
        self._resolve = resolve
        self._displayed_problems: list[str] = []  # of tool sources

    async def resolve_next(self) -> Resolved:
        """Return the configuration for the next request, and apply its limits to the turn.

        Problems and notices of tool sources are displayed, each problem once.

        Raises:
            ConfigError: The configuration is not valid.
        """
        resolved = await self._interrupts.run(self._resolve())  # a source may take long

        displayed = self._displayed_problems
        new = [problem for problem in resolved.tools.problems if problem not in displayed]
        for problem in new:
            self._turn.display(Notice(f"⚠ {problem}. Its tools are not available."))
        displayed += new

        for notice in resolved.tools.notices:
            self._turn.display(Notice(f"⚠ {notice}"))

        self._turn.record.provider_name = resolved.provider_name
        self._turn.tokens.max_tokens = resolved.request.max_total_tokens
        may_measure = self._turn.times.may_measure
        self._turn.times.is_on = may_measure and not self.is_replayable(resolved)
        return resolved

    async def resolve_changed(self, schema: Mapping[str, JsonValue] | None) -> Resolved:
        """Return the configuration after a tool changed it; `schema` is that of the answer.

        Raises:
            ConfigError: The turn cannot use the change. The change is recorded, so it also applies
                to later turns: the message names the setting, and tells the user that a tool
                changed it, and how to see the previous value.
        """
        try:
            resolved = await self.resolve_next()
            if schema is not None:
                resolved.provider.check_schema(schema)
            return resolved
        except (ConfigError, UsageError) as exc:
            error = exc
            if not isinstance(error, ConfigError):  # the new model does not support the schema
                error = ConfigError(str(exc), path=MODEL_ID)
            first, *others = error.problems

            how = f"see the previous value with `%jp config --explain {first.path}`"
            change = describe_tool_change("the configuration", how)
            raise ConfigError(
                f"{first.message}; {change}",
                path=first.path,
                kind=first.kind,
                layer=error.layer,
                file=error.file,
                others=others,
            ) from exc

    def is_replayable(self, resolved: Resolved) -> bool:
        """Return True if another run of the turn must leave the same record.

        Then the record has no times, and not the address of the server.
        """
        return self._turn.record.stream.is_reproducible or resolved.uses_cassette
