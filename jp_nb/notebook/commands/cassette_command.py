"""Subcommand `%jp cassette`: show the cassette, or change its mode for this kernel.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from typing import Final

from jp_nb.config.tree.providers_table import CassetteMode
from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation, suggest_name
from jp_nb.rendering.reports.exchange_lines import describe_exchange, format_exchange_count
from jp_nb.session.model_access.cassettes import Cassettes
from jp_nb.text import MAX_LISTED_LINES, one_line, plain

SELECTABLE_MODES: Final[tuple[CassetteMode, ...]] = ("record", "replay", "replay-or-record", "off")


def run_cassette_command(call: Invocation) -> None:
    """Run `%jp cassette`: show the cassette's state, or change its mode for this kernel."""
    cassettes = call.session.active.cassettes
    if call.options.words:
        word, *files = call.options.words
        mode = _read_mode(call, word)
        tools: str | None = call.options.tools
        if mode == "off" and (files or tools):
            raise _make_cassette_error(
                call, "`%jp cassette off` takes neither a file nor `--tools`."
            )

        call.session.active.refuse_while_running()
        cassettes.choose(mode, next(iter(files), None), tools=tools)

    for line in describe_cassette(cassettes):
        print(f"jp_nb: {plain(line)}")


def _read_mode(call: Invocation, word: str) -> CassetteMode:
    for mode in SELECTABLE_MODES:
        if mode == word:
            return mode

    hint = suggest_name(word, SELECTABLE_MODES, "cassette")
    problem = f"There is no cassette mode `{one_line(word, limit=60)}`. {hint}".rstrip()
    raise _make_cassette_error(call, problem)


def _make_cassette_error(call: Invocation, problem: str) -> UsageError:
    return UsageError(f"{problem} Usage: `{call.subcommand.usage}`")


def describe_cassette(cassettes: Cassettes) -> list[str]:
    """Return lines about the mode, the file, and unused exchanges (requests with responses).

    Raises:
        ConfigError: The configuration is not valid, or the file cannot be read.
    """
    cassette = cassettes.active
    if cassette is None:
        return ["No cassette is in use: requests are sent to the model, and nothing is recorded."]

    name = cassettes.format_path(cassette.path)
    if cassette.awaits_response:
        return [
            f"Nothing is recorded on {name} yet, and the file is unchanged: no model has answered."
        ]
    if cassette.choice.mode == "record":
        recorded = format_exchange_count(cassette.added_count)
        return [f"Model responses are recorded on {name}: {recorded} so far."]

    total = format_exchange_count(len(cassette.content.exchanges))
    added = ""
    if not cassette.is_offline:  # the mode `replay-or-record`
        added = f", {cassette.added_count} added. Other requests are sent to the model"
    lines = [
        f"Model responses are replayed from {name}: {cassette.used_count} of {total} used{added}."
    ]
    if cassette.choice.tools == "recorded":
        lines.append("Tools do not run: their results are replayed from the cassette.")

    # Before the first request, all exchanges are unused: that is nothing to tell.
    unused = cassette.list_unused() if cassette.used_count else []
    if unused:
        lines.append("Not used yet:")
        for exchange in unused[:MAX_LISTED_LINES]:
            lines.append(f"  {describe_exchange(cassette.content, exchange)}")
        if more := unused[MAX_LISTED_LINES:]:
            lines.append(f"  … and {len(more)} more")

    return lines
