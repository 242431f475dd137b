"""Providers that stay open between requests, for as long as their settings do not change.

An open provider keeps its connections. If a cassette is in use, each provider is wrapped in one
that records or replays (`cassette_provider.py`). In a headless run, it is also wrapped in one that
reports each request to the runner (`paced_provider.py`).

Settings can also add providers: a *server* has the name and address that the user chose. The
provider `scripted` answers from a script of replies, and its state belongs to the session.

Source: `docs/architecture.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from jp_nb.agent.model_requests.request_normalizer import HideSecrets
from jp_nb.agent.provider import Provider
from jp_nb.config.tree.providers_table import Llm
from jp_nb.providers import create_provider, create_server
from jp_nb.providers.scripts.script_format import SCRIPTED_NAME
from jp_nb.session.model_access.cassette_provider import CassetteProvider
from jp_nb.session.model_access.cassettes import Cassettes
from jp_nb.session.model_access.open_cassette import OpenCassette
from jp_nb.storage.run_events import has_event_file


def _make_paced(name: str, make: Callable[[], Provider]) -> Provider:
    """Return the provider that `make` creates, with reports to the runner of a headless run."""
    from jp_nb.session.model_access.paced_provider import PacedProvider
    from jp_nb.storage.shared_pace import get_shared_pace

    return PacedProvider(name, make(), get_shared_pace())


class ProviderPool:
    """Opens providers, and keeps them. Equal settings give the same one until the cassette changes.

    Args:
        get_cassettes: Returns the cassettes of the session.
        make_scripted: Creates the provider `scripted`.
        hide: Removes secrets from text that is recorded on a cassette.

    Attributes:
        cassette: The cassette that the last call of `open` found; None if there is none. Read it
            after `open`: the user may change the cassette between two calls.
    """

    def __init__(
        self,
        get_cassettes: Callable[[], Cassettes],
        make_scripted: Callable[[], Provider],
        hide: HideSecrets = str,
    ) -> None:
        self._get_cassettes = get_cassettes
        self._make_scripted = make_scripted
        self._hide = hide
        self.cassette: OpenCassette | None = None
        self._open: dict[str, Provider] = {}  # by name and settings, as JSON
        self._replaced: list[Provider] = []  # those of earlier cassettes, which a request may use

    def open(self, name: str, llm: Llm) -> Provider:
        """Return the provider `name` with the settings of `llm`.

        Raises:
            ConfigError: There is no such provider, or the cassette cannot be used.
        """
        llm.require(name)  # raises if it is neither a provider nor a server
        configured = llm.get_settings(name)  # None for a provider that has no settings
        settings: dict[str, Any] = configured.model_dump() if configured is not None else {}

        cassette = self._get_cassettes().active
        if cassette is not self.cassette:
            self._replaced += self._open.values()
            self.cassette = cassette
            self._open.clear()

        key = json.dumps([name, settings], sort_keys=True)
        if key not in self._open:
            self._open[key] = self._create(name, llm, settings)
        return self._open[key]

    def _create(self, name: str, llm: Llm, settings: dict[str, Any]) -> Provider:
        """Return a new provider in its wrappers. A cassette creates the inner one when needed."""
        create = create_server if name in llm.servers else create_provider
        make: Callable[[], Provider] = partial(create, name, settings)
        if name == SCRIPTED_NAME:
            make = self._make_scripted

        if has_event_file():
            make = partial(_make_paced, name, make)
        if self.cassette is None:
            return make()

        hide = _make_secret_hider(settings.get("api_key_env"), self._hide)
        return CassetteProvider(name, make, self.cassette, hide)

    def take_all(self) -> list[Provider]:
        """Return every open provider, to close it, and forget them."""
        providers = [*self._open.values(), *self._replaced]
        self._open.clear()
        self._replaced.clear()
        return providers


def _make_secret_hider(variable: str | None, hide: HideSecrets) -> HideSecrets:
    """Return a function that hides all secrets of a text before it is recorded.

    These are the secrets that `hide` knows, and the API key in the environment variable `variable`,
    which may change while the kernel runs.
    """
    from jp_nb.providers.key_redactor import get_current_redactor

    return lambda text: hide(get_current_redactor(variable).hide_in_response(text))
