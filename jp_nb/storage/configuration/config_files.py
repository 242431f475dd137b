"""Find configuration files, and read them again after changes.

A configuration file with its includes is a *group*, and each file is one layer. Only owned files
are read (see `jp_nb.storage.files`). A file outside of the user's configuration folder may be from
someone else, for example in a cloned repository. If a user is available, its settings that could
run code or send data (`group_authority.py`) apply only after the user has consented to the content.
Until then the file is *pending* (`file_consents.py`).

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from jp_nb.config.early_constants import ENVIRONMENT_PREFIX
from jp_nb.errors import ConfigError
from jp_nb.json_values import as_object
from jp_nb.storage import environment
from jp_nb.storage.configuration.claim_names import make_claim_names
from jp_nb.storage.configuration.consent_texts import format_own_settings, format_pending
from jp_nb.storage.configuration.file_consents import FileConsents
from jp_nb.storage.configuration.file_notices import FileNotices
from jp_nb.storage.configuration.named_files import find_named_files
from jp_nb.storage.configuration.workspace_folder import WorkspaceFolder, get_user_file
from jp_nb.storage.trust import FolderTrust, PendingConsent
from jp_nb.storage.user_folders import get_config_folder

if TYPE_CHECKING:  # the schema loads slowly, and only if something is configured
    from jp_nb.config.layers import Layer
    from jp_nb.storage.configuration.config_reading import ConfigReader, DigestedLayer
    from jp_nb.storage.configuration.listed_servers import ListedServers


class _Sources(NamedTuple):
    """The existing sources of the configuration.

    Attributes:
        files: Layer name and path of each file, weakest first.
        has_variables: True if an environment variable sets something.
    """

    files: list[tuple[str, Path]]
    has_variables: bool

    def __bool__(self) -> bool:
        return bool(self.files) or self.has_variables


class ConfigFiles:
    """Configuration files of the notebook in `folder`. A file is read again after a change.

    `trust` has the consents of the user. It is None in an unattended run, where all files apply.

    Attributes:
        notices: Messages for the user about the files.
        consents: The files that need the user's consent. Each reading of the files updates them.
    """

    def __init__(self, folder: Path, trust: FolderTrust | None = None) -> None:
        self.workspace = WorkspaceFolder(folder)
        self.trust = trust
        self.notices = FileNotices()
        self.consents = FileConsents(trust, self.workspace)

        # The valid layers and the errors, while `read_once` keeps them:
        self._kept: tuple[list[Layer], list[ConfigError]] | None = None

    @property
    def folder(self) -> Path:
        """Folder of the notebook."""
        return self.workspace.folder

    @property
    def root(self) -> Path:
        """Folder of the workspace."""
        return self.workspace.root

    # --- consents ----------------------------------------------------------------------------

    def awaits_consent(self, where: Literal["user", "workspace"]) -> bool:
        """Return True if settings of the file are ignored until the user consents."""
        self._refresh_consents()
        return self.consents.get_pending(self.workspace.find_config_file(where)) is not None

    def store_consent_to_written(self, where: Literal["user", "workspace"]) -> None:
        """Store the user's consent to the content of the file, which was just written."""
        if self.trust is None:
            return

        with self.notices.discard():  # such as the one that the file needs consent
            self._refresh_consents()

        consent = self.consents.get_pending(self.workspace.find_config_file(where))
        if consent is not None:
            self.consents.store([consent])
            self.consents.forget(consent.file)

    def list_pending(self) -> list[PendingConsent]:
        """Return the files whose settings are ignored until the user consents.

        Raises:
            ConfigError: As `load_layers`.
        """
        self.consents.forget_deleted()
        self.load_layers()  # this also checks the files
        return self.consents.list_pending()

    def _refresh_consents(self) -> None:
        """Check which files need consent: that happens whenever the files are read."""
        self.load_valid_layers()

    # --- layers ------------------------------------------------------------------------------

    def load_layers(self) -> list[Layer]:
        """Return the layers, weakest first: user file, workspace files, environment.

        Raises:
            ConfigError: A file or a variable is invalid; `layer` and `file` name it.
        """
        layers, errors = self.load_valid_layers()

        if len(errors) > 1:
            raise ConfigError("\n".join(map(str, errors)), path="", kind=errors[0].kind)
        if errors:
            raise errors[0]

        return layers

    def load_valid_layers(self) -> tuple[list[Layer], list[ConfigError]]:
        """Return the valid layers, and an error for each invalid one."""
        layers, errors = self._read() if self._kept is None else self._kept
        return list(layers), list(errors)

    @contextmanager
    def read_once(self) -> Iterator[None]:
        """Read the files once in the `with` block, which changes none of them."""
        kept_outside = self._kept
        self._kept = kept_outside or self._read()
        try:
            yield
        finally:
            self._kept = kept_outside

    def _read(self) -> tuple[list[Layer], list[ConfigError]]:
        """Read all files and variables. Return the valid layers, and the errors of the others."""
        sources = self._find_sources()
        if not sources:
            return [], []

        from jp_nb.config.layers import select_inherited
        from jp_nb.storage.configuration.environment_variables import read_variables

        groups: list[list[Layer]] = []
        variables: list[Layer] = []
        errors: list[ConfigError] = []

        for name, path in sources.files:
            try:
                group = self._reader.read_group(path, name)
                groups.append(self._select_applied(path, group))
            except ConfigError as exc:
                errors.append(exc)

        if sources.has_variables:
            try:
                variables.append(read_variables())
            except ConfigError as exc:
                errors.append(exc)

        self._notify_pending(path for _, path in sources.files)

        layers = [*select_inherited(groups), *variables]
        if any("mcp_files" in as_object(layer.partial.get("providers")) for layer in layers):
            layers = [*self._listed_servers.read(layers), *layers]
        return layers, errors

    def _notify_pending(self, paths: Iterable[Path]) -> None:
        """Tell the user which of the files at `paths` need consent."""
        pending = list(filter(None, map(self.consents.get_pending, paths)))
        if pending:
            self.notices.add(format_pending(pending))

    @cached_property
    def _listed_servers(self) -> ListedServers:
        from jp_nb.storage.configuration.listed_servers import ListedServers

        return ListedServers(self.workspace, self.consents, self.notices)

    @cached_property
    def _reader(self) -> ConfigReader:
        from jp_nb.storage.configuration.config_reading import ConfigReader

        return ConfigReader(self.notices.add)

    def has_configuration(self) -> bool:
        """Return True if there is any configuration file or variable, or an option of the run."""
        if os.environ.get(environment.OVERRIDES_VARIABLE):
            return True
        if self._kept is not None:
            layers, errors = self._kept
            return bool(layers or errors)
        return bool(self._find_sources())

    def _find_sources(self) -> _Sources:
        # The names of the layers are spelled out: their module loads the schema.
        user_file = get_user_file()
        files = [("user file", user_file)] if user_file.is_file() else []
        files += [("workspace file", path) for path in self.workspace.list_config_files()]

        has_variables = any(name.startswith(ENVIRONMENT_PREFIX) for name in os.environ)
        return _Sources(files, has_variables)

    def _select_applied(self, path: Path, group: Sequence[DigestedLayer]) -> list[Layer]:
        """Return the layers of `group`, the file at `path` with its includes, as they apply now.

        Settings that a file of a folder cannot have are dropped with a notice. Settings that need
        the user's consent are omitted without it, and the file becomes pending.
        """
        self.consents.forget(path)
        if path.is_relative_to(get_config_folder()):
            return [layer for layer, _ in group]

        from jp_nb.storage.configuration.config_reading import compute_digest
        from jp_nb.storage.configuration.group_authority import drop_own_settings, drop_untrusted

        allowed, dropped = drop_own_settings(tuple(group))
        if dropped:
            self.notices.add(format_own_settings(path, dropped))

        if self.trust is not None:
            trusted = drop_untrusted(allowed)
            folder = self.consents.choose_folder(path)
            consent = PendingConsent(folder, path, compute_digest(allowed), trusted.pending)
            if trusted.pending and not self.consents.check_consent(consent):
                return list(trusted.layers)

        return [layer for layer, _ in allowed]

    def load_named(self, name: str, load_paths: list[str]) -> list[Layer]:
        """Return the layers of the configuration files for `-c NAME`, weakest first.

        Raises:
            ConfigError: No file was found (see `find_named_files`), or a file is invalid, not
                owned, or has settings that need the user's consent.
        """
        files = find_named_files(
            name, notebook_folder=self.folder, root=self.root, load_paths=load_paths
        )

        layers: list[Layer] = []
        for file in files:
            layers += self._load_agreed(file)
        return layers

    def make_claim_names(self, layer: Layer) -> tuple[list[str], str]:
        """Return the names of the file of `layer` for the record, and its label.

        The record of a conversation claims a configuration file by such a name, so that the file is
        found again on another computer (`claim_names.py`).
        """
        return make_claim_names(layer, self.root)

    def _load_agreed(self, path: Path) -> list[Layer]:
        """Return the layers of the file at `path`. Raise `ConfigError` if it needs consent."""
        group = self._reader.read_group(path)
        layers = self._select_applied(path, group)

        pending = self.consents.get_pending(path)
        if pending is not None:
            name = group[-1].layer.name
            raise ConfigError(format_pending([pending]), layer=name, file=str(path))

        return layers
