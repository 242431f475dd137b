"""Subcommand `%jp doctor`: check the setup.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from jp_nb.agent.prompting.prompt_ends import Unavailable
from jp_nb.config.tree.provider_settings import ProviderConfig
from jp_nb.errors import JpNbError
from jp_nb.notebook.commands import Invocation
from jp_nb.notebook.commands.cassette_command import describe_cassette
from jp_nb.notebook.commands.mcp_checks import check_servers
from jp_nb.notebook.page.live_store import LiveStore
from jp_nb.notebook.page.surroundings import find_surroundings, is_headless
from jp_nb.notebook.prompt.running_cell.presence import FormRoute, Presence, StdinRoute
from jp_nb.notebook.prompt.running_cell.running_kernel import get_running_kernel
from jp_nb.packages import list_versions
from jp_nb.providers.network.endpoint import find_dialect
from jp_nb.providers.network.local_server import (
    find_answering_address,
    forget_addresses,
    has_answered,
)
from jp_nb.rendering import report
from jp_nb.session.resolution.project_texts import describe_project
from jp_nb.session.session import Session
from jp_nb.storage.configuration.consent_texts import format_paths


def run_checks(session: Session) -> list[tuple[str, str]]:
    """Check the setup, and return name and result of each check.

    One check requests the list of models from the current provider. No key is shown.
    """
    kernel = get_running_kernel()
    checks: dict[str, Callable[[Session], str]] = {
        "versions": lambda _: ", ".join(list_versions()),
        "kernel": lambda _: "none (a terminal)" if kernel is None else type(kernel).__name__,
        "front end": _describe_front_end,
        "questions": _describe_prompts,
        "record": lambda session: session.active.journal_use.location,
        "answer history": lambda session: session.active.questions.describe_location(),
        "folder": _describe_folder,
        "project": lambda session: describe_project(session.config, session.turns.resolver.project),
        "model": _describe_model,
        "cassette": _describe_cassette,
        "model list": lambda session: session.turns.catalog.describe_current(session.config),
        "attachments": _describe_attachments,
    }
    results = []

    for name, check in checks.items():
        try:
            result = check(session)
        except JpNbError as exc:  # a wrong configuration is a finding too
            result = f"error: {exc}"
        results.append((name, session.files.workspace.shorten_paths(result)))

    for name, result in check_servers(session):
        results.append((name, session.files.workspace.shorten_paths(result)))

    return results


def _describe_front_end(session: Session) -> str:
    kernel = get_running_kernel()
    store = session.store
    if kernel is not None and is_headless(kernel):
        return "headless: no user is available"
    if isinstance(store, LiveStore) and store.path:  # the path is known when a page has answered
        return "a page with the jp-nb extension"

    return find_surroundings(kernel, session.host.namespace).name


def _describe_prompts(session: Session) -> str:
    """Return the channel of the next question, and the reason if forms are not supported."""
    config = session.config.prompt
    presence = Presence.detect()
    forms = "" if presence.no_forms_reason is None else f"; no forms: {presence.no_forms_reason}"
    match presence.choose_route(config):
        case FormRoute():
            channel = "form in the cell, then stdin"
        case StdinRoute():
            channel = "stdin"
        case Unavailable(reason=reason):
            channel = f"no user can be asked: {reason}"

    return channel + forms


def _describe_folder(session: Session) -> str:
    """Return the configuration files of the folder, and the settings that wait for consent."""
    files = session.files
    pending = files.list_pending()
    names = ", ".join(map(str, files.workspace.list_config_files())) or "no configuration file"
    if not pending:
        return names

    paths = set[str]()
    for file in pending:
        paths.update(setting.path for setting in file.leaves)

    return f"{names}; ignored until `%jp trust --workspace`: {format_paths(paths)}"


def _describe_model(session: Session) -> str:
    """Return the current model, its address, and the state of its key.

    For a local server without a configured address, the usual addresses are tried.
    """
    model, _ = session.turns.resolver.open_model(session.config)
    text = f"{model.provider}/{model.name}"
    settings = session.config.providers.llm.get_settings(model.provider)
    if settings is None:
        return f"{text} (a script: no network and no key needed)"

    access = _describe_key(settings)
    if dialect := find_dialect(model.provider, settings):
        access += f", dialect `{dialect}`"

    # The environment variable whose address replaces `base_url`. Not all providers have one.
    override = getattr(settings, "base_url_env", None)
    if override and os.environ.get(override):
        return f"{text} at the address in {override}, {access}"

    addresses = settings.DEFAULT_ADDRESSES
    if settings.base_url is None and addresses:
        forget_addresses(addresses)  # a server may have started since the last search
        address = find_answering_address(addresses)  # one of them in any case
        if not has_answered(address):
            return f"{text}, {access}; no server answers at {' or '.join(addresses)}"
        return f"{text} at {address}, which answers, {access}"

    return f"{text} at {settings.base_url}, {access}"


def _describe_key(settings: ProviderConfig) -> str:
    if not settings.api_key_env:
        return "no key needed"
    state = "set" if os.environ.get(settings.api_key_env) else "not set"
    return f"key in {settings.api_key_env}: {state}"


def _describe_cassette(session: Session) -> str:
    mode_and_file, *_ = describe_cassette(session.active.cassettes)
    return mode_and_file


def _describe_attachments(session: Session) -> str:
    attachments = session.turns.cell_resolver.read_attachments(session.config)
    if not attachments:
        return "none"
    size = sum(len(attachment.content) for attachment in attachments)
    return f"{len(attachments)}, {size / 1000:,.1f} kB in all"


def show_checks(call: Invocation) -> None:
    """Run `%jp doctor`: check the setup."""
    call.show(report.make_table(("check", "result"), run_checks(call.session)))
