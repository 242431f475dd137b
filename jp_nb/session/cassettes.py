"""Which cassette is in force: what models are asked is recorded on it, or answered from it.

Files, environment variables and `%jp cassette` decide, never a record: what a notebook says is
nobody's order to write a file, or to believe one.

Source: `docs/cassettes.md`, `docs/decisions.md` D109.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jp_nb.config.tree.provider_config import Cassette as CassetteConfig
from jp_nb.config.tree.provider_config import CassetteMode
from jp_nb.errors import ConfigError, StorageError
from jp_nb.session.cassette_choice import CassetteChoice
from jp_nb.workspace.config_files import ConfigFiles

if TYPE_CHECKING:
    from jp_nb.agent.asked_request import Hide
    from jp_nb.session.cassette_tape import CassetteTape

PATH: Final = "providers.cassette"


class Cassettes:
    """The cassette of one session, and the providers that use it.

    Args:
        files: Files and environment.
        notebook: The notebook's file, if it is known.
        before: What was in force in this kernel when the extension was loaded again: a recording
            goes on, a replay begins at its start.
    """

    def __init__(
        self, files: ConfigFiles, notebook: Path | None, before: Cassettes | None = None
    ) -> None:
        self._files = files
        self._notebook = notebook
        self._said: CassetteChoice | None = before._said if before is not None else None
        self._tape: CassetteTape | None = before._tape if before is not None else None
        if self._tape is not None and self._tape.is_offline:
            self._tape = None

    def choose(self, mode: CassetteMode, file: str | None = None) -> CassetteChoice:
        """Use `file`, None: the usual one, for `mode` from now on in this kernel.

        Raises:
            ConfigError: If a configuration file or a variable is wrong, no file is known, or it
                cannot be read.
        """
        chosen = self._choice(self._configured(), mode, file)
        tape = None if mode == "off" else _tape(chosen)
        self._said, self._tape = chosen, tape
        return chosen

    @property
    def choice(self) -> CassetteChoice:
        """What is in force.

        Raises:
            ConfigError: If a configuration file or a variable is wrong, or no file is known.
        """
        if self._said is not None:
            return self._said
        configured = self._configured()
        return self._choice(configured, configured.mode, None)

    @property
    def tape(self) -> CassetteTape | None:
        """The tape in force; None: models are asked, and nothing is recorded.

        Raises:
            ConfigError: If a configuration file or a variable is wrong, no file is known, or it
                cannot be read.
        """
        chosen = self.choice
        if chosen.mode == "off":
            return None
        if self._tape is None or self._tape.choice != chosen:
            self._tape = _tape(chosen, self._accepts if self._said is None else _accepts_all)
        return self._tape

    def _accepts(self, content: bytes) -> None:
        """Raise `ConfigError` if a cassette of the folder is not to answer yet.

        The user named it neither in this kernel nor by a whole path.
        """
        chosen, named = self.choice, self._configured().path
        is_named = named is not None and os.path.isabs(os.path.expanduser(named))
        assert chosen.path is not None
        said = f"responses that replace models: {len(content)} bytes"
        if not is_named and not self._files.counts(chosen.path, content, [("cassette", said)]):
            raise ConfigError(
                f"the cassette {self.name_of(chosen.path)} came with this folder and "
                "needs your consent. Agree to its content with `%jp trust "
                f"--workspace`, or name it here with `%jp cassette {chosen.mode}`",
                path=f"{PATH}.path",
            )

    def name_of(self, path: Path) -> str:
        """Return how a person names the file at `path`: from the notebook's folder, if it is in."""
        folder = self._files.folder
        return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)

    def _configured(self) -> CassetteConfig:
        if not self._files.anything():
            return CassetteConfig()
        from jp_nb.config.partial import Partial, get_path, merge
        from jp_nb.config.validation import validate

        found: Partial = {}
        for layer in self._files.layers():  # of each the one table: this is asked at each request
            if (given := get_path(layer.partial, PATH)) is not None:
                found = merge(found, {"providers": {"cassette": given}})
        return validate(found).providers.cassette if found else CassetteConfig()

    def _choice(
        self, configured: CassetteConfig, mode: CassetteMode, file: str | None
    ) -> CassetteChoice:
        if mode == "off":
            return CassetteChoice()
        named = file or configured.path
        if named is not None:
            path = self._files.folder / os.path.expanduser(named)  # a `~` that means nothing stays
            path = Path(os.path.abspath(path))
            return CassetteChoice(mode, path, configured.tools, self._files.folder)
        if self._notebook is None:
            raise ConfigError(
                "the name of this notebook is unknown, so its cassette has no "
                f"default name. Set this path, or give the file: `%jp cassette {mode} "
                "FILE`",
                path=f"{PATH}.path",
            )
        from jp_nb.workspace.cassette_file import beside

        return CassetteChoice(mode, beside(self._notebook), configured.tools, self._files.folder)


def without_key(variable: str | None, hide: Hide) -> Hide:
    """Return what takes the key out of a text that `variable` holds then, and what `hide` does."""
    from jp_nb.providers.redaction import Redaction

    known, redaction = "", Redaction("")

    def hidden(text: str) -> str:
        nonlocal known, redaction
        key = os.environ.get(variable, "").strip() if variable else ""
        if key != known:
            known, redaction = key, Redaction(key)
        return hide(redaction(text) if redaction.in_answers else text)

    return hidden


def _accepts_all(_: bytes) -> None:
    """Accept any content: the user has just named the file."""


def _tape(
    choice: CassetteChoice, accepts: Callable[[bytes], object] = _accepts_all
) -> CassetteTape:
    from jp_nb.session.cassette_tape import CassetteTape

    try:
        return CassetteTape(choice, accepts)
    except StorageError as exc:
        raise ConfigError(str(exc), path=f"{PATH}.path") from exc
