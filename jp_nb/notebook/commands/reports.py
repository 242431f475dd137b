"""Subcommands of `%jp` that show reports, such as `log`, `usage`, `models`, and `request`.

Source: `docs/guide.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

import os

from jp_nb.config.aliases import resolve_model
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.providers_table import Llm
from jp_nb.errors import ConfigError, UsageError
from jp_nb.notebook.commands import NOT_A_NAME, Invocation, suggest_name
from jp_nb.notebook.commands.line_parser import make_usage_error
from jp_nb.record.reading.turn_timeline import find_shown_turn, read_timeline
from jp_nb.rendering.report import add_note
from jp_nb.rendering.reports.curl_command import format_body, format_curl_command
from jp_nb.rendering.reports.model_table import render_model_table
from jp_nb.rendering.reports.request_difference import render_request_difference
from jp_nb.rendering.reports.request_text import describe_key, render_request, render_token_count
from jp_nb.rendering.reports.timeline_report import render_timeline
from jp_nb.rendering.reports.usage_tables import (
    render_input_changes,
    render_other_usage,
    render_usage,
)
from jp_nb.rendering.transcripts.log import render_log
from jp_nb.session.past_turns.requests import PastRequests
from jp_nb.session.session import Session
from jp_nb.text import one_line

MAX_PRINTED_CHARS = 200_000
"""Limit of characters of a request that a cell shows without `--full`."""


def show_request(call: Invocation) -> None:
    """Run `%jp request`: show a request, compare two, or export one."""
    options = call.options
    _validate_request_options(call)
    requests = PastRequests(call.session.active, call.session.turns)
    if options.diff:
        call.show(render_request_difference(*requests.find_pair(tuple(options.words))))
        return

    found = requests.find(call.word)
    if options.out is not None:
        call.shell.user_ns[options.out] = {
            "name": found.name,
            "model": found.model,
            "how": found.remarks[0],
            "method": found.sent.method,
            "url": found.sent.url,
            "headers": dict(found.sent.headers),
            "key": describe_key(found.sent),
            "body": found.body,
            "estimated_tokens": dict(found.estimated_tokens),
        }
        print(f"jp_nb: The variable `{options.out}` holds request {found.name}")
    elif options.json or options.curl:
        printed = format_body(found) if options.json else format_curl_command(found)
        if len(printed) > MAX_PRINTED_CHARS and not options.full:
            raise UsageError(
                f"The request is too long to print here ({len(printed):,} characters). "
                f"`%jp request {found.name} -o NAME` binds it to a variable; `--full` prints it."
            )

        print(printed)
    else:
        call.show(render_request(found, full=options.full))


def _validate_request_options(call: Invocation) -> None:
    options = call.options
    flags = {"--diff": options.diff, "--curl": options.curl, "--json": options.json}
    flags["-o"] = options.out is not None
    used = [flag for flag, is_set in flags.items() if is_set]
    if len(used) > 1:
        raise UsageError(f"Use only one of {' and '.join(used)}. Usage: `{call.subcommand.usage}`")

    most_words = 2 if options.diff else 1
    if len(options.words) > most_words:
        raise make_usage_error(call.subcommand, call.text)
    if options.out is not None and not options.out.isidentifier():
        raise UsageError(NOT_A_NAME.format(options.out))


def list_models(call: Invocation) -> None:
    """Run `%jp models`: list the models of a provider, by default of the current one."""
    config = call.session.config
    session = call.session
    model, _ = session.turns.resolver.open_model(config)
    name, *words = call.options.words or [model.provider]
    llm = config.providers.llm
    names = llm.list_names()
    if name not in names:
        hint = suggest_name(name, names, "models")
        raise UsageError(
            f"{one_line(name, limit=60)!r} is not a provider. {hint}The providers are "
            f"{', '.join(names)}. Search words follow the provider: "
            f"`{call.subcommand.usage}`"
        )

    listed = session.turns.catalog.list_models(name, config, refresh=call.options.refresh)
    current = model.name if name == model.provider else ""
    table = render_model_table(
        listed, name, current=current, aliases=_aliases_by_model(name, config), words=words
    )
    others: list[str] = []
    if not call.options.words:
        others = [name for name in names if name != model.provider and _has_key(llm, name)]
    if others:
        commands = ", ".join(f"`%jp models {other}`" for other in others)
        also = f"List their models: {commands}."
        table = add_note(table, f"Keys are set for other providers as well. {also}")

    call.show(table)


def _has_key(llm: Llm, provider: str) -> bool:
    settings = llm.get_settings(provider)
    variable = None if settings is None else settings.api_key_env
    return bool(variable and os.environ.get(variable, "").strip())


def _aliases_by_model(provider: str, config: AppConfig) -> dict[str, list[str]]:
    known = config.providers.llm.aliases
    found: dict[str, list[str]] = {}

    for alias, target in known.items():
        try:
            model = resolve_model(target, known)
        except ConfigError:
            continue  # reported when the alias is used

        if model.provider == provider:
            found.setdefault(model.name, []).append(alias)

    return found


DEFAULT_LISTED_TURNS = 10


def show_turns(call: Invocation) -> None:
    """Run `%jp log`: show the last turns, and list the other conversations."""
    document = call.session.document
    turns = call.session.conversations.log(call.number(at_least=1) or DEFAULT_LISTED_TURNS)
    total = document.conversation.turn_count
    hosts = _read_image_hosts(call.session)
    toolsets = _tools_by_toolset(call.session)
    shown = render_log(
        document,
        turns,
        total=total,
        image_hosts=hosts,
        toolsets=toolsets,
        as_typed=call.session.active.trust.trusted,
    )
    call.show(shown)


def show_usage(call: Invocation) -> None:
    """Run `%jp usage`: show or count tokens, or show the reasoning that was not used."""
    if call.options.count:
        if call.options.words or call.options.why:
            raise UsageError("`--count` counts the next request, and takes nothing else.")
        requests = PastRequests(call.session.active, call.session.turns)
        call.show(render_token_count(*requests.count_next()))
        return

    last = call.number(at_least=1) or DEFAULT_LISTED_TURNS
    if call.options.why:
        call.show(render_input_changes(call.session.document, last))
        return

    call.show(render_usage(call.session.document, last))
    if "completions" in vars(call.session):
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
    # `%jp log` also works while the configuration is not valid.
    try:
        return tuple(session.config.style.remote_images)
    except ConfigError:
        return ()


def _tools_by_toolset(session: Session) -> dict[str, list[str]]:
    try:
        return session.config.conversation.tools_by_toolset()
    except ConfigError:
        return {}
