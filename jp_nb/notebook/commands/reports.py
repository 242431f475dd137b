"""Subcommands of `%jp` that show reports, such as `log`, `usage`, `models`, and `doctor`.

Source: `docs/guide.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from jp_nb.agent.prompts import Unavailable
from jp_nb.config.aliases import resolve_model
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.model_settings import CassetteMode, Llm
from jp_nb.errors import ConfigError, JpNbError, UsageError
from jp_nb.notebook.commands import (
    NOT_A_NAME,
    Invocation,
    make_usage_error,
    suggest_name,
)
from jp_nb.notebook.commands.mcp_checks import check_servers
from jp_nb.notebook.commands.rules import forget_rule, list_rules
from jp_nb.notebook.page.live_store import LiveStore
from jp_nb.notebook.page.stores import find_surroundings, is_headless
from jp_nb.notebook.prompt.presence import FormRoute, Presence, StdinRoute, running_kernel
from jp_nb.packages import list_versions
from jp_nb.providers.endpoint import find_dialect
from jp_nb.providers.local_server import find_answering_address, forget_addresses, has_answered
from jp_nb.record.outcomes import (
    DEFAULT_LIMIT,
    NO_HISTORY,
    LoggedAnswer,
    QuestionHistory,
    validate_limit,
)
from jp_nb.rendering import report, tables
from jp_nb.rendering import tool_text as tools_module
from jp_nb.rendering.cassette_miss import describe_exchange, format_exchange_count
from jp_nb.rendering.log import render_log
from jp_nb.rendering.question_text import render_question_sheets, render_question_table
from jp_nb.rendering.report import MAX_LINE_CHARS, add_note
from jp_nb.rendering.request_text import (
    describe_key,
    format_body,
    format_curl_command,
    render_request,
    render_request_difference,
    render_token_count,
)
from jp_nb.rendering.tables import render_model_table
from jp_nb.session.cassettes import Cassettes
from jp_nb.session.requests import PastRequests
from jp_nb.session.session import Session
from jp_nb.storage.config_files import format_paths
from jp_nb.text import MAX_DIGITS, MAX_LISTED_LINES, one_line, plain

MAX_PRINTED = 200_000
"""Limit of characters of a request that a cell shows without `--full`."""


def request(call: Invocation) -> None:
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
        if len(printed) > MAX_PRINTED and not options.full:
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


def models(call: Invocation) -> None:
    """Run `%jp models`: list the models of a provider, by default of the current one."""
    config = call.session.config
    session = call.session
    model, _ = session.turns.resolver.model(config)
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

    listed = session.turns.catalog.models(name, config, refresh=call.options.refresh)
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


UNTRUSTED: Final = (
    "This notebook is not trusted, so its questions and answers are not listed. The history of "
    "the workspace is neither read nor written. `%jp trust` shows the settings and asks you."
)


def qna(call: Invocation) -> None:
    """Run `%jp qna`: list, show, search, or import answered questions."""
    verb, *words = call.options.words or ["list"]
    action = _QNA_COMMANDS.get(verb)
    if action is None:
        hint = suggest_name(verb, _QNA_COMMANDS, "qna")
        raise UsageError(
            f"There is no `%jp qna {one_line(verb, limit=60)}`. {hint}"
            f"Usage: `{call.subcommand.usage}`"
        )
    if verb not in ("list", "search") and call.options.limit is not None:
        raise UsageError("`--limit` works with `list` and `search` only.")

    action(call, words)


def _list_questions(call: Invocation, words: Sequence[str]) -> None:
    if words:
        raise UsageError(
            f"`list` takes no words, but got {' '.join(words)!r}. `%jp qna search TEXT` searches."
        )

    limit = _read_limit(call)
    if (history := _load_history(call)) is not None:
        _show_latest(call, history, history.answers, limit, "list", NO_HISTORY)


def _show_question(call: Invocation, words: Sequence[str]) -> None:
    if len(words) != 1 or not _is_number(words[0]):
        raise UsageError(f"`get` takes the id of an answer, but got {' '.join(words)!r}.")

    if (history := _load_history(call)) is not None:
        found = history.get(int(words[0]))
        if not found:
            raise UsageError(history.format_unknown_id(int(words[0])))
        call.show(render_question_sheets(found))


def _search_questions(call: Invocation, words: Sequence[str]) -> None:
    limit = _read_limit(call)
    text = " ".join(words)
    if not text.strip():
        raise UsageError("`search` takes the text to search for.")

    if (history := _load_history(call)) is not None:
        found = history.containing(text)
        none_found = history.format_no_match(text)
        _show_latest(call, history, found, limit, "search TEXT", one_line(none_found))


def _import_questions(call: Invocation, words: Sequence[str]) -> None:
    if len(words) != 1:
        raise UsageError("`import` takes one file, a table of `datetime;question;answer`.")

    session = call.session
    try:
        path = (session.files.folder / Path(words[0]).expanduser()).absolute()
        told = session.active.questions.import_table(path)
    except (RuntimeError, ValueError) as exc:  # unknown home folder, or a null byte
        raise UsageError(f"{words[0][:80]!r} is not a valid file name: {exc}") from exc

    _print_lines(told)


_QNA_COMMANDS: Final[Mapping[str, Callable[[Invocation, Sequence[str]], None]]] = {
    "list": _list_questions,
    "get": _show_question,
    "search": _search_questions,
    "import": _import_questions,
}


def _load_history(call: Invocation) -> QuestionHistory | None:
    # Prints a message if the notebook is not trusted.
    questions = call.session.active.questions
    _print_lines(questions.migrate_table())
    history = questions.history(everybody=True)
    if not history.trusted:
        print(f"jp_nb: {UNTRUSTED}")
        return None

    return history


def _show_latest(
    call: Invocation,
    history: QuestionHistory,
    found: Sequence[LoggedAnswer],
    limit: int,
    command: str,
    none_found: str,
) -> None:
    if not found:
        print(f"jp_nb: {none_found}")
        return

    latest = found[-limit:]
    notes = list[str]()
    if earlier := len(found) - len(latest):
        notes.append(f"{earlier} earlier: `%jp qna {command} --limit N` shows more")

    if history.left_out:
        notes.append(
            f"{history.left_out} not signed by you: models do not get them before "
            "`%jp trust --workspace`"
        )

    table = render_question_table(latest)
    if notes:
        table = add_note(table, "; ".join(notes))
    call.show(table)


def _read_limit(call: Invocation) -> int:
    given = call.options.limit
    if given is None:
        return DEFAULT_LIMIT
    if _is_number(given):
        given = int(given)
    return validate_limit(given)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print(f"jp_nb: {one_line(line, limit=MAX_LINE_CHARS)}")


MODES: Final[tuple[CassetteMode, ...]] = ("record", "replay", "replay-or-record", "off")


def cassette(call: Invocation) -> None:
    """Run `%jp cassette`: show the cassette's state, or change its mode for this kernel."""
    cassettes = call.session.active.cassettes
    if call.options.words:
        word, *files = call.options.words
        mode = next((each for each in MODES if each == word), None)
        tools: str | None = call.options.tools
        if mode is None or (mode == "off" and (files or tools)):
            what = "`%jp cassette off` takes neither a file nor `--tools`."
            if mode is None:
                hint = suggest_name(word, MODES, "cassette")
                what = f"There is no cassette mode `{one_line(word, limit=60)}`. {hint}".rstrip()
            raise UsageError(f"{what} Usage: `{call.subcommand.usage}`")

        call.session.active.refuse_while_running()
        cassettes.choose(mode, next(iter(files), None), tools=tools)

    for line in describe_cassette(cassettes):
        print(f"jp_nb: {plain(line)}")


def describe_cassette(cassettes: Cassettes) -> list[str]:
    """Return lines about the mode, the file, and unused exchanges (requests with responses).

    Raises:
        ConfigError: The configuration is not valid, or the file cannot be read.
    """
    cassette = cassettes.active
    if cassette is None:
        return ["No cassette is in use: requests are sent to the model, and nothing is recorded."]

    name = cassettes.format_path(cassette.path)
    whole = format_exchange_count(len(cassette.content.exchanges))
    if cassette.awaits_response:
        return [
            f"Nothing is recorded on {name} yet, and the file is unchanged: no model has answered."
        ]
    if cassette.choice.mode == "record":
        added = format_exchange_count(cassette.added)
        return [f"Model responses are recorded on {name}: {added} so far."]

    added = ""
    if not cassette.is_offline:
        added = f", {cassette.added} added. Other requests are sent to the model"
    lines = [f"Model responses are replayed from {name}: {cassette.used} of {whole} used{added}."]
    if cassette.choice.tools == "recorded":
        lines.append("Tools do not run: their results are replayed from the cassette.")

    rest = cassette.unused() if cassette.used else []
    if rest:
        lines.append("Not used yet:")
        lines += [
            f"  {describe_exchange(cassette.content, each)}" for each in rest[:MAX_LISTED_LINES]
        ]
        if more := rest[MAX_LISTED_LINES:]:
            lines.append(f"  … and {len(more)} more")

    return lines


def run_checks(session: Session) -> list[tuple[str, str]]:
    """Check the setup, and return name and result of each check.

    One check requests the list of models from the current provider. No key is shown.
    """
    kernel = running_kernel()
    checks: dict[str, Callable[[Session], str]] = {
        "versions": lambda _: ", ".join(list_versions()),
        "kernel": lambda _: "none (a terminal)" if kernel is None else type(kernel).__name__,
        "front end": _describe_front_end,
        "questions": _describe_prompts,
        "record": lambda session: session.active.location,
        "answer history": lambda session: session.active.questions.describe_location(),
        "folder": _describe_folder,
        "model": _describe_model,
        "cassette": lambda session: describe_cassette(session.active.cassettes)[0],
        "model list": lambda session: session.turns.catalog.describe_current(session.config),
        "attachments": _describe_attachments,
    }
    results = []

    for name, check in checks.items():
        try:
            result = check(session)
        except JpNbError as exc:  # a wrong configuration is a finding too
            result = f"error: {exc}"
        results.append((name, session.files.relative(result)))

    for name, result in check_servers(session):
        results.append((name, session.files.relative(result)))

    return results


def _describe_front_end(session: Session) -> str:
    kernel = running_kernel()
    store = session.store
    if kernel is not None and is_headless(kernel):
        return "headless: no user is available"
    if isinstance(store, LiveStore) and store.path:
        return "a page with the jp-nb extension"

    return find_surroundings(kernel, session.host.namespace).name


def _describe_prompts(session: Session) -> str:
    # The channel of the next question, and the reason if forms are not supported.
    config = session.config.prompt
    here = Presence.here()
    forms = "" if here.no_forms is None else f"; no forms: {here.no_forms}"
    match here.route(config):
        case FormRoute():
            way = "form in the cell, then stdin"
        case StdinRoute():
            way = "stdin"
        case Unavailable(reason=reason):
            way = f"no user can be asked: {reason}"

    return way + forms


def _describe_folder(session: Session) -> str:
    files = session.files
    pending = files.pending()
    found = ", ".join(map(str, files.workspace_files())) or "no configuration file"
    if not pending:
        return found
    paths = set[str]()
    for each in pending:
        paths.update(path for path, _, _ in each.leaves)

    return f"{found}; ignored until `%jp trust --workspace`: {format_paths(paths)}"


def _describe_model(session: Session) -> str:
    model, _ = session.turns.resolver.model(session.config)
    text = f"{model.provider}/{model.name}"
    settings = session.config.providers.llm.get_settings(model.provider)
    if settings is None:
        return f"{text} (a script: no network and no key needed)"

    variable = settings.api_key_env
    key = "no key needed"
    if variable:
        state = "set" if os.environ.get(variable) else "not set"
        key = f"key in {variable}: {state}"

    if dialect := find_dialect(model.provider, settings):
        key += f", dialect `{dialect}`"

    override = getattr(settings, "base_url_env", None)
    if override and os.environ.get(override):
        return f"{text} at the address in {override}, {key}"

    if settings.base_url is None and (places := settings.DEFAULT_ADDRESSES):
        forget_addresses(places)
        if not has_answered(address := find_answering_address(places)):
            return f"{text}, {key}; no server answers at {' or '.join(places)}"
        return f"{text} at {address}, which answers, {key}"

    return f"{text} at {settings.base_url}, {key}"


def _describe_attachments(session: Session) -> str:
    found = session.turns.cell_resolver.attachments(session.config)
    size = sum(len(a.content) for a in found)
    return f"{len(found)}, {size / 1000:,.1f} kB in all" if found else "none"


DEFAULT_TURNS = 10


def tools(call: Invocation) -> None:
    """Run `%jp tools`: list all tools, or describe one, or forget a rule about it."""
    resolver = call.session.turns.cell_resolver
    name = call.word
    number = call.options.forget
    if number is not None:
        forget_rule(call, name, number)
        return
    if name is None:
        call.show(tools_module.render_tools(call.session.config, resolver.tools))
        return

    resolver.discover_tools(name)
    rules = list(list_rules(call.session, name))
    call.show(tools_module.render_tool(name, call.session.config, resolver.tools, rules))


def log(call: Invocation) -> None:
    """Run `%jp log`: show the last turns, and list the other conversations."""
    document = call.session.document
    turns = call.session.conversations.log(call.number(at_least=1) or DEFAULT_TURNS)
    total = document.conversation.turn_count
    hosts = _image_hosts(call.session)
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


def usage(call: Invocation) -> None:
    """Run `%jp usage`: show or count tokens, or show the reasoning that was not used."""
    if call.options.count:
        if call.options.words or call.options.why:
            raise UsageError("`--count` counts the next request, and takes nothing else.")
        requests = PastRequests(call.session.active, call.session.turns)
        call.show(render_token_count(*requests.count_next()))
        return

    last = call.number(at_least=1) or DEFAULT_TURNS
    make = tables.render_input_changes if call.options.why else tables.render_usage
    call.show(make(call.session.document, last))


def _image_hosts(session: Session) -> tuple[str, ...]:
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


def doctor(call: Invocation) -> None:
    """Run `%jp doctor`: check the setup."""
    call.show(report.make_table(("check", "result"), run_checks(call.session)))
