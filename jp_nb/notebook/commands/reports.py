"""Subcommands of `%jp` that display: log, usage, models, requests, questions, doctor, cassette.

Source: `docs/guide.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.config.aliases import resolve_model
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.models import AVAILABLE_PROVIDERS, CassetteMode
from jp_nb.errors import ConfigError, JpNbError, UsageError
from jp_nb.notebook.commands import MAX_DIGITS, NOT_A_NAME, Invocation, refusal, suggestion
from jp_nb.notebook.page.live_store import LiveStore
from jp_nb.notebook.page.locate import find_surroundings, is_headless
from jp_nb.notebook.prompt.presence import Presence, PromptSettings, running_kernel
from jp_nb.record.question_log import DEFAULT_LIMIT, NO_HISTORY, QuestionHistory, validate_limit
from jp_nb.rendering import report, tables, turn
from jp_nb.rendering import tools as tools_module
from jp_nb.rendering.questions import question_sheets, question_table, with_note
from jp_nb.rendering.report import Report
from jp_nb.rendering.request_diff import request_difference
from jp_nb.rendering.requests import (
    TracedRequest,
    body_text,
    curl_command,
    key_in_words,
    request_report,
)
from jp_nb.rendering.tables import exchange_in_words, exchanges, model_table
from jp_nb.session.cassettes import Cassettes
from jp_nb.session.requests import PastRequests
from jp_nb.session.session import Session
from jp_nb.storage.config_files import format_paths, workspace_files
from jp_nb.text import one_line, plain
from jp_nb.versions import list_versions

MAX_PRINTED = 200_000
"""Characters of a body that a cell shows unless it is to show everything."""


def request(call: Invocation) -> None:
    """Show a request, compare two, or print one for another program."""
    options = call.options
    _check(call)
    requests = PastRequests(call.session.active, call.session.turns)
    if options.diff:
        call.show(request_difference(*requests.find_pair(tuple(options.words))))
        return
    found = requests.find(call.word)
    if options.out is not None:
        call.shell.user_ns[options.out] = as_dict(found)
        print(f"jp_nb: The variable `{options.out}` holds request {found.name}")
    elif options.json:
        print(_printable(found, body_text(found), full=options.full))
    elif options.curl:
        print(_printable(found, curl_command(found), full=options.full))
    else:
        call.show(request_report(found, full=options.full))


def _check(call: Invocation) -> None:
    """Refuse a line that means two things.

    Raises:
        UsageError: If it does.
    """
    options = call.options
    ways = [
        flag
        for flag, given in (
            ("--diff", options.diff),
            ("--curl", options.curl),
            ("--json", options.json),
            ("-o", options.out is not None),
        )
        if given
    ]
    if len(ways) > 1:
        raise UsageError(f"Use only one of {' and '.join(ways)}. Usage: `{call.subcommand.usage}`")
    if len(options.words) > (2 if options.diff else 1):
        raise refusal(call.subcommand, call.text)
    if options.out is not None and not options.out.isidentifier():
        raise UsageError(NOT_A_NAME.format(options.out))


def _printable(found: TracedRequest, text: str, *, full: bool) -> str:
    """Return `text` if a cell may hold it.

    Raises:
        UsageError: If it is long.
    """
    if full or len(text) <= MAX_PRINTED:
        return text
    raise UsageError(
        f"The request is too long to print here ({len(text):,} characters). "
        f"`%jp request {found.name} -o NAME` binds it to a variable; `--full` prints it."
    )


def as_dict(found: TracedRequest) -> dict[str, Any]:
    """Return `found` for a program.

    Shape:
        {"name": "3.1", "model": "anthropic/…", "how": "as it was sent", "method": "POST",
         "url": "https://…", "headers": {…}, "key": "x-api-key: (the variable …)", "body": {…},
         "estimated_tokens": {"tools": 0, "system": 12, "messages": 40, …}}
    """
    body: dict[str, JsonValue] = found.body
    return {
        "name": found.name,
        "model": found.model,
        "how": found.remarks[0],
        "method": found.sent.method,
        "url": found.sent.url,
        "headers": dict(found.sent.headers),
        "key": key_in_words(found.sent),
        "body": body,
        "estimated_tokens": dict(found.estimated),
    }


def models(call: Invocation) -> None:
    """Show the models of a provider; without a name of the one in force."""
    config, session = call.session.config, call.session
    model, _ = session.turns.resolver.model(config)
    name, *words = call.options.words or [model.provider]
    if name not in AVAILABLE_PROVIDERS:
        raise UsageError(_unknown_model(name, call.subcommand.usage))
    format_paths = session.turns.catalog.models(name, config, refresh=call.options.refresh)
    in_force = model.name if name == model.provider else ""
    shown = model_table(
        format_paths, name, in_force=in_force, aliases=_aliases(name, config), words=words
    )
    others = [] if call.options.words else list(_set_up(config, model.provider))
    if others:
        also = ", ".join(f"`%jp models {other}`" for other in others)
        shown = with_note(
            shown, f"Keys are set for other providers as well. List their models: {also}."
        )
    call.show(shown)


def _unknown_model(name: str, usage: str) -> str:
    hint = suggestion(name, AVAILABLE_PROVIDERS, "models")
    return (
        f"{one_line(name, limit=60)!r} is not a provider. {hint}The providers are "
        f"{', '.join(AVAILABLE_PROVIDERS)}. Search words follow the provider: `{usage}`"
    )


def _aliases(provider: str, config: AppConfig) -> dict[str, list[str]]:
    """Return the aliases that stand for models of `provider`, by the name of the model."""
    known = config.providers.llm.aliases
    found: dict[str, list[str]] = {}
    for alias, target in known.items():
        try:
            model = resolve_model(target, known)
        except ConfigError:
            continue  # whoever uses it is told
        if model.provider == provider:
            found.setdefault(model.name, []).append(alias)
    return found


def _set_up(config: AppConfig, in_force: str) -> Iterator[str]:
    """Yield the other providers whose key is set."""
    for name in AVAILABLE_PROVIDERS:
        settings = getattr(config.providers.llm, name, None)
        variable = getattr(settings, "api_key_env", None)
        if name != in_force and variable and os.environ.get(variable, "").strip():
            yield name


UNTRUSTED: Final = (
    "This notebook is not trusted, so its questions and answers are not listed. The history of "
    "the workspace is neither read nor written. `%jp trust` shows the settings and asks you."
)
MAX_LINE: Final = 2000
"""Characters of a line about a file: names may be long."""


def qna(call: Invocation) -> None:
    """Do what the first word says; without one, list."""
    verb, *words = call.options.words or ["list"]
    action = _VERBS.get(verb)
    if action is None:
        hint = suggestion(verb, _VERBS, "qna")
        raise UsageError(
            f"There is no `%jp qna {one_line(verb, limit=60)}`. {hint}"
            f"Usage: `{call.subcommand.usage}`"
        )
    if verb not in ("list", "search") and call.options.limit is not None:
        raise UsageError("`--limit` works with `list` and `search` only.")
    action(call, words)


def _list(call: Invocation, words: Sequence[str]) -> None:
    if words:
        raise UsageError(
            f"`list` takes no words, but got {' '.join(words)!r}. `%jp qna search TEXT` searches."
        )
    limit = _limit(call)
    if (history := _history(call)) is None:
        return
    shown = history.latest(limit)
    if not shown:
        print(f"jp_nb: {NO_HISTORY}")
        return
    earlier = len(history.answers) - len(shown)
    note = f"{earlier} earlier: `%jp qna list --limit N` shows more" if earlier else ""
    call.show(_noted(question_table(shown), history, note))


def _get(call: Invocation, words: Sequence[str]) -> None:
    if len(words) != 1 or not _is_number(words[0]):
        raise UsageError(f"`get` takes the id of an answer, but got {' '.join(words)!r}.")
    if (history := _history(call)) is None:
        return
    found = history.get(int(words[0]))
    if not found:
        raise UsageError(history.format_unknown_id(int(words[0])))
    call.show(question_sheets(found))


def _search(call: Invocation, words: Sequence[str]) -> None:
    limit, text = _limit(call), " ".join(words)
    if not text.strip():
        raise UsageError("`search` takes the text to search for.")
    if (history := _history(call)) is None:
        return
    found = history.containing(text)
    if not found:
        print(f"jp_nb: {one_line(history.format_no_match(text))}")
        return
    shown = found[-limit:]
    earlier = len(found) - len(shown)
    note = f"{earlier} earlier: `%jp qna search TEXT --limit N` shows more" if earlier else ""
    call.show(_noted(question_table(shown), history, note))


def _import(call: Invocation, words: Sequence[str]) -> None:
    if len(words) != 1:
        raise UsageError("`import` takes one file, a table of `datetime;question;answer`.")
    session = call.session
    try:
        path = (session.files.folder / Path(words[0]).expanduser()).absolute()
        told = session.active.questions.import_table(path)
    except (RuntimeError, ValueError) as exc:  # no such home, a name that no file can have
        raise UsageError(f"{words[0][:80]!r} is not a valid file name: {exc}") from exc
    _tell(told)


_VERBS: Final[Mapping[str, Callable[[Invocation, Sequence[str]], None]]] = {
    "list": _list,
    "get": _get,
    "search": _search,
    "import": _import,
}


def _history(call: Invocation) -> QuestionHistory | None:
    """Return what was answered; None, and why, if the notebook is not trusted."""
    questions = call.session.active.questions
    _tell(questions.migrate_table())
    history = questions.history(everybody=True)
    if not history.trusted:
        print(f"jp_nb: {UNTRUSTED}")
        return None
    return history


def _noted(shown: Report, history: QuestionHistory, note: str) -> Report:
    """Return `shown` with `note` below it, and what models are not given."""
    notes = [note] if note else []
    if history.left_out:
        notes.append(
            f"{history.left_out} not signed by you: models do not get them before "
            "`%jp trust --workspace`"
        )
    return with_note(shown, "; ".join(notes)) if notes else shown


def _limit(call: Invocation) -> int:
    given = call.options.limit
    return validate_limit(
        DEFAULT_LIMIT if given is None else int(given) if _is_number(given) else given
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS


def _tell(lines: Sequence[str]) -> None:
    for line in lines:
        print(f"jp_nb: {one_line(line, limit=MAX_LINE)}")


MODES: Final[tuple[CassetteMode, ...]] = ("record", "replay", "replay-or-record", "off")
MAX_LISTED: Final = 20
"""Of exchanges that answered nothing."""


def cassette(call: Invocation) -> None:
    """Say what is in force, or change that for this kernel."""
    cassettes = call.session.active.cassettes
    if call.options.words:
        word, *files = call.options.words
        mode = next((each for each in MODES if each == word), None)
        if mode is None or (mode == "off" and files):
            raise UsageError(_unknown_cassette_command(call.options.words, call.subcommand.usage))
        call.session.active.refuse_while_running()
        cassettes.choose(mode, next(iter(files), None))
    for line in status(cassettes):
        print(f"jp_nb: {plain(line)}")


def status(cassettes: Cassettes) -> list[str]:
    """Return what is in force, and what has answered nothing yet.

    Raises:
        ConfigError: If it cannot be told, or the file cannot be read.
    """
    tape = cassettes.active
    if tape is None:
        return ["No cassette is in use: requests are sent to the model, and nothing is recorded."]
    name, whole = cassettes.format_path(tape.path), exchanges(len(tape.cassette.exchanges))
    if tape.awaits_response:
        return [
            f"Nothing is recorded on {name} yet, and the file is unchanged: no model has answered."
        ]
    if tape.choice.mode == "record":
        return [f"Model responses are recorded on {name}: {exchanges(tape.added)} so far."]
    added = "" if tape.is_offline else f", {tape.added} added. Other requests are sent to the model"
    lines = [f"Model responses are replayed from {name}: {tape.used} of {whole} used{added}."]
    if tape.choice.tools == "recorded":
        lines.append("Tools do not run: their results are replayed from the cassette.")
    if rest := tape.unused() if tape.used else []:
        lines.append("Not used yet:")
        lines += [f"  {exchange_in_words(tape.cassette, each)}" for each in rest[:MAX_LISTED]]
        if more := rest[MAX_LISTED:]:
            lines.append(f"  … and {len(more)} more")
    return lines


def _unknown_cassette_command(words: Sequence[str], usage: str) -> str:
    word = words[0]
    if word == "off":
        return f"`%jp cassette off` takes no file. Usage: `{usage}`"
    hint = suggestion(word, MODES, "cassette")
    return f"There is no cassette mode `{one_line(word, limit=60)}`. {hint}Usage: `{usage}`"


def examine(session: Session) -> list[tuple[str, str]]:
    """One row per finding; the provider in force is asked for its models. No key is shown."""
    looks: dict[str, Callable[[Session], str]] = {
        "versions": lambda _: ", ".join(list_versions()),
        "kernel": _kernel,
        "front end": _front_end,
        "questions": _questions,
        "record": lambda session: session.active.location,
        "answer history": lambda session: session.active.questions.describe_location(),
        "folder": _folder,
        "model": _model,
        "cassette": _cassette,
        "model list": lambda session: session.turns.catalog.describe_current(session.config),
        "attachments": _attachments,
    }
    return [(name, _finding(look, session)) for name, look in looks.items()]


def _finding(look: Callable[[Session], str], session: Session) -> str:
    try:
        return session.files.relative(look(session))
    except JpNbError as exc:  # a wrong configuration is a finding too
        return f"error: {session.files.relative(str(exc))}"


def _kernel(_: Session) -> str:
    kernel = running_kernel()
    return "none (a terminal)" if kernel is None else type(kernel).__name__


def _front_end(session: Session) -> str:
    kernel, store = running_kernel(), session.store
    if kernel is not None and is_headless(kernel):
        return "headless: no user is available"
    if isinstance(store, LiveStore) and store.path:
        return "a page with the jp-nb extension"
    return find_surroundings(kernel, session.host.namespace).name


def _questions(session: Session) -> str:
    """Return how the next question would be asked, and whether clicks can be heard."""
    config = session.config.prompt
    here = Presence.here()
    way = here.route(PromptSettings(channel=config.channel))
    forms = "" if here.no_forms is None else f"; no forms: {here.no_forms}"
    words = {"FormRoute": "form in the cell, then stdin", "StdinRoute": "stdin"}
    why_not = getattr(way, "reason", None)
    return (f"no user can be asked: {why_not}" if why_not else words[type(way).__name__]) + forms


def _folder(session: Session) -> str:
    """Return the files of the folder, and what in them waits for the user's consent."""
    files, pending = session.files, session.files.pending()
    found = ", ".join(map(str, workspace_files(files.folder))) or "no configuration file"
    if not pending:
        return found
    paths = format_paths({path for each in pending for path, _, _ in each.leaves})
    return f"{found}; ignored until `%jp trust --workspace`: {paths}"


def _model(session: Session) -> str:
    model, _ = session.turns.resolver.model(session.config)
    text = f"{model.provider}/{model.name}"
    settings = getattr(session.config.providers.llm, model.provider, None)
    if settings is None:
        return f"{text} (a script: no network and no key needed)"
    variable = settings.api_key_env
    key = "no key needed"
    if variable:
        key = f"key in {variable}: {'set' if os.environ.get(variable) else 'not set'}"
    override = getattr(settings, "base_url_env", None)
    place = f"the address in {override}" if override and os.environ.get(override) else None
    return f"{text} at {place or settings.base_url}, {key}"


def _cassette(session: Session) -> str:
    return status(session.active.cassettes)[0]


def _attachments(session: Session) -> str:
    found = session.turns.attachments(session.config)
    size = sum(len(a.content) for a in found)
    return f"{len(found)}, {size / 1000:,.1f} kB in all" if found else "none"


DEFAULT_TURNS = 10
"""So many `%jp log` and `%jp usage` show."""


def tools(call: Invocation) -> None:
    """Show all tools, or one."""
    config, offer = call.session.config, call.session.turns.tools
    if call.word is None:
        call.show(tools_module.tools_report(config, offer))
    else:
        call.show(tools_module.tool_report(call.word, config, offer))


def log(call: Invocation) -> None:
    """Show the last turns, and the other conversations."""
    document = call.session.document
    turns = call.session.conversations.log(call.number(at_least=1) or DEFAULT_TURNS)
    total = document.conversation.turn_count
    hosts = _image_hosts(call.session)
    call.show(turn.log_report(document, turns, total=total, image_hosts=hosts))


def usage(call: Invocation) -> None:
    """Show the tokens that the last turns and each model took."""
    last = call.number(at_least=1) or DEFAULT_TURNS
    call.show(tables.usage_report(call.session.document, last))


def _image_hosts(session: Session) -> tuple[str, ...]:
    """Return the hosts whose images are shown; none while the configuration is broken."""
    try:
        return tuple(session.config.style.remote_images)
    except ConfigError:
        return ()


def doctor(call: Invocation) -> None:
    """Show what works here, and why not."""
    call.show(report.table(("check", "result"), examine(call.session)))
