"""Subcommands of `%jp` that show reports about turns: `log`, `usage`, and `timeline`.

Source: `docs/guide.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

from jp_nb.errors import ConfigError, UsageError
from jp_nb.notebook.commands import Invocation
from jp_nb.record.reading.turn_timeline import find_shown_turn, read_timeline
from jp_nb.rendering.reports.request_text import render_token_count
from jp_nb.rendering.reports.timeline_report import render_timeline
from jp_nb.rendering.reports.unused_reasoning import render_unused_reasoning
from jp_nb.rendering.reports.usage_tables import render_other_usage, render_usage
from jp_nb.rendering.transcripts.log import render_log
from jp_nb.session.past_turns.traced_requests import TracedRequests
from jp_nb.session.session import Session

DEFAULT_LISTED_TURNS = 10
"""Number of the last turns that `%jp log` and `%jp usage` show without a number."""


def show_turns(call: Invocation) -> None:
    """Run `%jp log`: show the last turns, and list the other conversations."""
    document = call.session.document
    turns = call.session.conversations.log(call.number(at_least=1) or DEFAULT_LISTED_TURNS)
    total = document.conversation.turn_count
    hosts = _read_image_hosts(call.session)
    toolsets = _read_toolsets(call.session)
    shown = render_log(
        document,
        turns,
        total=total,
        image_hosts=hosts,
        toolsets=toolsets,
        # The typed texts are metadata, which someone else may have written in an untrusted record.
        with_typed_texts=call.session.active.trust.trusted,
    )
    call.show(shown)


def show_usage(call: Invocation) -> None:
    """Run `%jp usage`: show or count tokens, or show the reasoning that was not used."""
    if call.options.count:
        if call.options.words or call.options.why:
            raise UsageError("`--count` counts the next request, and takes nothing else.")
        requests = TracedRequests(call.session.active, call.session.turns)
        call.show(render_token_count(*requests.count_next()))
        return

    last = call.number(at_least=1) or DEFAULT_LISTED_TURNS
    if call.options.why:
        call.show(render_unused_reasoning(call.session.document, last))
        return

    call.show(render_usage(call.session.document, last))
    if call.session.has_completions:
        other = call.session.completions
        call.show(render_other_usage(dict(other.requests), dict(other.usage)))


def show_timeline(call: Invocation) -> None:
    """Run `%jp timeline`: show the requests and tools of a turn along the time."""
    number = call.number(at_least=1)
    timeline = read_timeline(find_shown_turn(call.session.document.conversation, number))
    if call.session.active.headless:  # the output is the same in each run
        timeline = timeline.without_times()
    call.show(render_timeline(timeline))


def _read_image_hosts(session: Session) -> tuple[str, ...]:
    """Return the hosts of images to show; none while the configuration is not valid."""
    try:
        return tuple(session.config.style.remote_images)
    except ConfigError:
        return ()


def _read_toolsets(session: Session) -> dict[str, list[str]]:
    """Return the tools by toolset; none while the configuration is not valid."""
    try:
        return session.config.conversation.tools_by_toolset()
    except ConfigError:
        return {}
