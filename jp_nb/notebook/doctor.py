"""Findings about a session: what works here, and why not.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from jp_nb.errors import JpNbError
from jp_nb.notebook.cassette_commands import status
from jp_nb.notebook.document.finding import is_headless
from jp_nb.notebook.document.live import LiveStore
from jp_nb.notebook.document.places import place_of
from jp_nb.notebook.prompt.presence import Presence, PromptSettings, running_kernel
from jp_nb.session.session import Session
from jp_nb.versions import versions
from jp_nb.workspace.config_files import listed, workspace_files


def examine(session: Session) -> list[tuple[str, str]]:
    """One row per finding; the provider in force is asked for its models. No key is shown."""
    looks: dict[str, Callable[[Session], str]] = {
        "versions": lambda _: ", ".join(versions()),
        "kernel": _kernel,
        "front end": _front_end,
        "questions": _questions,
        "record": lambda session: session.active.where,
        "answer history": lambda session: session.active.questions.where(),
        "folder": _folder,
        "model": _model,
        "cassette": _cassette,
        "model list": lambda session: session.turns.catalog.standing(session.config),
        "attachments": _attachments,
    }
    return [(name, _finding(look, session)) for name, look in looks.items()]


def _finding(look: Callable[[Session], str], session: Session) -> str:
    try:
        return look(session)
    except JpNbError as exc:  # a wrong configuration is a finding too
        return f"error: {exc}"


def _kernel(_: Session) -> str:
    kernel = running_kernel()
    return "none (a terminal)" if kernel is None else type(kernel).__name__


def _front_end(session: Session) -> str:
    kernel, store = running_kernel(), session.store
    if kernel is not None and is_headless(kernel):
        return "headless: no user is available"
    if isinstance(store, LiveStore) and store.path:
        return "a page with the jp-nb extension"
    return place_of(kernel, session.host.namespace).name


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
    paths = listed({path for each in pending for path, _, _ in each.leaves})
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
