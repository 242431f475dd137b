"""Cassettes: normalized requests, their exchanges, and the files that keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jp_nb.agent.request_normalizer import RequestNormalizer
from jp_nb.session.open_cassette import CassetteChoice, OpenCassette
from jp_nb.storage.cassette_file import CassetteWriter, read_cassette
from tests.kit.kinds import make


def normalize_request(request: Any, provider: str = "anthropic") -> Any:
    """Return the normalized form of a request to the model of `provider`."""
    return RequestNormalizer(provider).normalize(request)


def open_cassette(path: Path, mode: Any = "replay", tools: str = "run") -> Any:
    """Open the cassette at `path` as a session does, in this `mode`."""
    return OpenCassette(CassetteChoice(mode, path, tools))


def cassette_writer(path: Path, *, continued: bool = False) -> Any:
    """Return a writer of the file at `path`: a new one, or one that is `continued`."""
    return CassetteWriter(path, read_cassette(path) if continued else None)


def read_exchanges(path: Path) -> list[Any]:
    """Return the exchanges of the file at `path`, with their requests."""
    content = read_cassette(path)
    return [
        make("exchange", content.asked(stored), stored.events, stored.end)
        for stored in content.exchanges
    ]
