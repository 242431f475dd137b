"""Select the cassette of a session, which records or replays its requests.

Only files, environment variables, and `%jp cassette` select a cassette. A record cannot: a notebook
from someone else must not write a file, or select recorded responses.

Source: `docs/cassettes.md`, `docs/decisions.md` D109.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from jp_nb.config.tree.providers_table import Cassette as CassetteConfig
from jp_nb.config.tree.providers_table import CassetteMode
from jp_nb.errors import ConfigError, StorageError
from jp_nb.session.model_access.open_cassette import CassetteChoice, OpenCassette
from jp_nb.storage.cassettes.cassette_file import make_default_cassette_path
from jp_nb.storage.configuration.config_files import ConfigFiles

_CASSETTE_TABLE: Final = "providers.cassette"


class Cassettes:
    """The cassette of one session.

    It is opened when a request first needs it, and again if the configured one changes. A
    `CassetteChoice` is a file with its mode and its use.

    If the extension is loaded again, `previous` is the earlier object: a recording continues, and a
    replay (`is_offline`) starts from the beginning.
    """

    def __init__(
        self, files: ConfigFiles, notebook: Path | None, previous: Cassettes | None = None
    ) -> None:
        self._files = files
        self._notebook = notebook
        self._chosen: CassetteChoice | None = None  # by `%jp cassette`; None: as configured
        self._open: OpenCassette | None = None
        self._opening = threading.RLock()  # held while `active` opens a cassette, to do it once
        if previous is not None:
            self._chosen = previous._chosen
            if previous._open is not None and not previous._open.is_offline:
                self._open = previous._open

    def choose(
        self, mode: CassetteMode, file: str | None = None, *, tools: str | None = None
    ) -> CassetteChoice:
        """Use `file` in this `mode` from now on in this kernel.

        Args:
            mode: Mode of the cassette, such as `replay`.
            file: The cassette; None: the configured file, or the default one.
            tools: `run`, or `recorded` to replay the results of tools too; None: as configured.

        Raises:
            ConfigError: The configuration is not valid, or the file is unknown or cannot be read.
        """
        choice = self._make_choice(self._read_configured(), mode, file)
        if tools is not None:
            choice = replace(choice, tools=tools)

        self._open = None if mode == "off" else _open_cassette(choice)
        self._chosen = choice
        return choice

    @property
    def choice(self) -> CassetteChoice:
        """The current cassette and its use.

        Raises:
            ConfigError: The configuration is not valid, or the file is unknown.
        """
        if self._chosen is not None:
            return self._chosen

        configured = self._read_configured()
        return self._make_choice(configured, configured.mode, None)

    @property
    def active(self) -> OpenCassette | None:
        """The open cassette; None: requests are sent, and nothing is recorded.

        Raises:
            ConfigError: The configuration is not valid, or the file is unknown or cannot be read.
        """
        choice = self.choice
        if choice.mode == "off":
            return None

        with self._opening:
            if self._open is None or self._open.choice != choice:
                # The user consents to a cassette by naming it in `%jp cassette`. The content of
                # another one is checked when it has been read.
                is_configured = self._chosen is None
                check_content = self._check_consent if is_configured else None
                self._open = _open_cassette(choice, check_content)
            return self._open

    def _check_consent(self, content: bytes) -> None:
        """Raise `ConfigError` for a relative path, unless the user consented to the content.

        An absolute path is the user's own choice. A relative one may have come with the folder.
        """
        choice = self.choice
        path = self._read_configured().path
        is_absolute = path is not None and os.path.isabs(os.path.expanduser(path))
        assert choice.path is not None
        shown_value = ("cassette", f"responses that replace models: {len(content)} bytes")

        # Without the consent, `check` notes the file for `%jp trust --workspace`.
        if not is_absolute and not self._files.consents.check(choice.path, content, [shown_value]):
            raise ConfigError(
                f"the cassette {self.format_path(choice.path)} came with this folder and "
                "needs your consent. Agree to its content with `%jp trust "
                f"--workspace`, or name it here with `%jp cassette {choice.mode}`",
                path=f"{_CASSETTE_TABLE}.path",
            )

    def format_path(self, path: Path) -> str:
        """Return `path`, relative to the notebook's folder if it is in it."""
        folder = self._files.folder
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
        return str(path)

    def _read_configured(self) -> CassetteConfig:
        """Return the table `providers.cassette` of the configuration files."""
        if not self._files.has_configuration():
            return CassetteConfig()

        from jp_nb.config.partials.partial import Partial, get_path
        from jp_nb.config.partials.partial_merge import merge_partials
        from jp_nb.config.validation import validate_config

        # Each request needs it, and to merge and validate all settings is slow.
        partial: Partial = {}
        for layer in self._files.load_layers():
            table = get_path(layer.partial, _CASSETTE_TABLE)
            if table is not None:
                partial = merge_partials(partial, {"providers": {"cassette": table}})

        if not partial:
            return CassetteConfig()
        return validate_config(partial).providers.cassette

    def _make_choice(
        self, configured: CassetteConfig, mode: CassetteMode, file: str | None
    ) -> CassetteChoice:
        """Return the use of `file`, or else of the configured file, or else of the default one."""
        if mode == "off":
            return CassetteChoice()

        name = file or configured.path
        if name is not None:
            path = self._files.folder / os.path.expanduser(name)  # an unknown `~user` stays
            path = Path(os.path.abspath(path))
        elif self._notebook is not None:
            path = make_default_cassette_path(self._notebook)
        else:
            raise ConfigError(
                "the name of this notebook is unknown, so its cassette has no "
                f"default name. Set this path, or give the file: `%jp cassette {mode} "
                "FILE`",
                path=f"{_CASSETTE_TABLE}.path",
            )

        return CassetteChoice(mode, path, configured.tools, self._files.folder)


def _open_cassette(
    choice: CassetteChoice, check_content: Callable[[bytes], object] | None = None
) -> OpenCassette:
    try:
        return OpenCassette(choice, check_content)
    except StorageError as exc:
        raise ConfigError(str(exc), path=f"{_CASSETTE_TABLE}.path") from exc
