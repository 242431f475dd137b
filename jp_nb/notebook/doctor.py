"""What works here, and why not.

Source: `design/interface.md` section 2.
"""

from __future__ import annotations

import os

from jp_nb.errors import JpNbError
from jp_nb.notebook.document.homes import is_headless
from jp_nb.notebook.prompt.presence import Presence, PromptSettings
from jp_nb.notebook.session import Session
from jp_nb.versions import versions


def examine(session: Session) -> list[tuple[str, str]]:
    """One row per finding; nothing is sent to a provider and no key is shown."""
    return [
        ("versions", ", ".join(versions())),
        ("kernel", _kernel(session)),
        ("front end", _front_end(session)),
        ("questions", _questions(session)),
        ("record", session.store.where),
        ("model", _model(session)),
    ]


def _kernel(session: Session) -> str:
    kernel = getattr(session.shell, "kernel", None)
    return "none (a terminal)" if kernel is None else type(kernel).__name__


def _front_end(session: Session) -> str:
    kernel = getattr(session.shell, "kernel", None)
    if kernel is None:
        return "terminal"
    return "headless: nobody is there" if is_headless(kernel) else "a page or console"


def _questions(session: Session) -> str:
    """How the next question would be asked, and whether clicks can be heard."""
    config = session.config.prompt
    here = Presence.here()
    way = here.route(PromptSettings(channel=config.channel))
    forms = "" if here.no_forms is None else f"; no forms: {here.no_forms}"
    words = {"FormRoute": "form in the cell, then stdin", "StdinRoute": "stdin"}
    nobody = getattr(way, "reason", None)
    return (f"nobody can be asked: {nobody}" if nobody else words[type(way).__name__]) + forms


def _model(session: Session) -> str:
    try:
        resolved = session.turns.resolve()
    except JpNbError as exc:
        return f"does not resolve: {exc}"
    text = f"{resolved.provider_name}/{resolved.model}"
    settings = getattr(session.config.providers.llm, resolved.provider_name, None)
    if settings is None:
        return f"{text} (a script: no network, no key)"
    variable = settings.api_key_env
    key = "no key needed"
    if variable:
        key = f"key in {variable}: {'set' if os.environ.get(variable) else 'not set'}"
    return f"{text} at {settings.base_url}, {key}"
