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
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from jp_nb.config.directives import ENVIRONMENT_PREFIX
from jp_nb.errors import ConfigError
from jp_nb.json_values import as_object
from jp_nb.storage.configuration.claim_names import make_claim_names
from jp_nb.storage.configuration.file_consents import FileConsents
from jp_nb.storage.configuration.file_notices import FileNotices
from jp_nb.storage.configuration.named_files import find_named_files
from jp_nb.storage.configuration.workspace_folder import WorkspaceFolder, get_user_file
from jp_nb.storage.trust import FolderTrust, PendingConsent
from jp_nb.storage.user_folders import get_config_folder
from jp_nb.text import MAX_LISTED_LINES

if TYPE_CHECKING:  # the schema loads slowly, and only if something is configured
    from jp_nb.config.layers import Layer
    from jp_nb.storage.configuration.config_reading import ConfigReader, DigestedLayer
    from jp_nb.storage.server_lists.mcp_layers import ServerLayers


def format_paths(paths: Iterable[str]) -> str:
    """Return the first `MAX_LISTED_LINES` sorted paths, and the number of the others, as text."""
    in_order = sorted(paths)
    more = len(in_order) - MAX_LISTED_LINES
    shown = ", ".join(in_order[:MAX_LISTED_LINES])
    return f"{shown} and {more} more" if more > 0 else shown


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
        from jp_nb.storage.configuration.config_reading import read_variables

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
        return [*self._read_listed_servers(layers), *layers], errors

    def _notify_pending(self, paths: Iterable[Path]) -> None:
        """Tell the user which of the files at `paths` need consent."""
        pending = list(filter(None, map(self.consents.get_pending, paths)))
        if pending:
            self.notices.add(_format_pending(pending))

    def _read_listed_servers(self, layers: Sequence[Layer]) -> list[Layer]:
        """Return the layers of the files in `providers.mcp_files` that apply now.

        Those are files of other applications. Of servers with the same name, that of the `layers`,
        or of the first file, counts.
        """
        if not any("mcp_files" in as_object(layer.partial.get("providers")) for layer in layers):
            return []
        from jp_nb.storage.server_lists import mcp_layers

        taken_names: set[str] = set()
        for configured in layers:
            taken_names.update(mcp_layers.list_server_names(configured))

        server_layers: list[Layer] = []
        for listed in mcp_layers.list_files(layers):
            layer = self._server_layers.read(listed, self.root, taken_names)
            if layer is None:
                continue
            taken_names.update(mcp_layers.list_server_names(layer))

            path = mcp_layers.locate_servers(listed, self.root)
            if self._is_own_server_file(path, layers) or self._has_consent(path, layer):
                server_layers.append(layer)
            else:
                self._notify_pending([path])

        return server_layers

    def _is_own_server_file(self, path: Path, layers: Sequence[Layer]) -> bool:
        """Return True if a file with servers is the user's own, and so needs no consent.

        It is outside of the workspace, so it did not come with the folder, and the user's own
        configuration lists it.
        """
        from jp_nb.storage.server_lists.mcp_layers import is_listed_by_user

        is_outside = not path.is_relative_to(self.root)
        return is_outside and is_listed_by_user(path, layers, self.root)

    def _has_consent(self, path: Path, layer: Layer) -> bool:
        """Return True if the user has consented to the servers in `layer`, the file at `path`.

        Without consent, the file becomes pending.
        """
        from jp_nb.storage.server_lists.mcp_layers import list_leaves, make_content

        return self.consents.check(path, make_content(layer), list(list_leaves(layer)))

    @cached_property
    def _server_layers(self) -> ServerLayers:
        from jp_nb.storage.server_lists.mcp_layers import ServerLayers

        return ServerLayers(self.notices.add)

    @cached_property
    def _reader(self) -> ConfigReader:
        from jp_nb.storage.configuration.config_reading import ConfigReader

        return ConfigReader(self.notices.add)

    def has_configuration(self) -> bool:
        """Return True if any configuration file or variable exists."""
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
            self.notices.add(_format_own_settings(path, dropped))

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
            raise ConfigError(_format_pending([pending]), layer=name, file=str(path))

        return layers


def _format_own_settings(path: Path, settings: Sequence[str]) -> str:
    return (
        f"{path} cannot set {format_paths(settings)}, because it decides for you. Set it in your "
        "own file: `%jp config --user`"
    )


def _format_pending(pending: Sequence[PendingConsent]) -> str:
    files = format_paths({str(consent.file) for consent in pending})
    leaves = chain.from_iterable(consent.leaves for consent in pending)
    paths = format_paths({path for path, _, _ in leaves})
    until = "ignored until `%jp trust --workspace`"
    return f"settings in {files} need your consent; {until}: {paths}"
