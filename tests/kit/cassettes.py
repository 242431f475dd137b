"""Cassettes: normalized requests, their exchanges, and the files that keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jp_nb.agent.model_requests.request_normalizer import RequestNormalizer
from jp_nb.session.model_access.open_cassette import CassetteChoice, OpenCassette
from jp_nb.storage.cassettes.cassette_file import read_cassette
from jp_nb.storage.cassettes.cassette_writer import CassetteWriter
from tests.kit.kinds import make


class CassetteFile:
    """The cassette at `path`, which keeps exchanges: `make("exchange", request, events, end)`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @staticmethod
    def normalize(request: Any, provider: str = "anthropic") -> Any:
        """Return the normalized form of a request to the model of `provider`."""
        return RequestNormalizer(provider).normalize(request)

    def open(self, mode: Any = "replay", tools: str = "run") -> Any:
        """Open the cassette as a session does, in this `mode`."""
        return OpenCassette(CassetteChoice(mode, self._path, tools))

    def writer(self, *, continued: bool = False) -> Any:
        """Return a writer of the file: a new one, or one that is `continued`."""
        return CassetteWriter(self._path, read_cassette(self._path) if continued else None)

    def exchanges(self) -> list[Any]:
        """Return the exchanges of the file, with their requests."""
        content = read_cassette(self._path)
        return [
            make("exchange", content.rebuild_request(stored), stored.events, stored.end)
            for stored in content.exchanges
        ]
