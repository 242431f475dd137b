"""Find configuration files, and read them again after changes.

Only owned files are read (see `jp_nb.storage.files`). A file outside of the user's configuration
folder may be from someone else, for example in a cloned repository. If a user is available, its
settings that could run code or send data (`group_authority.py`) apply only after the user has
consented to the content (`file_consents.py`).

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from glob import has_magic
from itertools import chain
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jp_nb.config.directives import ENVIRONMENT_PREFIX
from jp_nb.errors import ConfigError
from jp_nb.json_values import as_object
from jp_nb.storage.configuration.file_consents import FileConsents
from jp_nb.storage.configuration.file_notices import FileNotices
from jp_nb.storage.configuration.named_files import find_named_files, make_claim_names
from jp_nb.storage.configuration.relative_paths import shorten_paths
from jp_nb.storage.files import is_owned_folder
from jp_nb.storage.trust import FolderTrust, PendingConsent
from jp_nb.storage.user_folders import get_config_folder
from jp_nb.text import MAX_LISTED_LINES

if TYPE_CHECKING:  # the schema loads slowly, and only if something is configured
    from jp_nb.config.layers import Layer
    from jp_nb.storage.configuration.config_reading import ConfigReader, ReadFile
    from jp_nb.storage.server_lists.mcp_layers import ServerLayers

WORKSPACE_FILE = Path(".jp") / "config.toml"


def get_user_file() -> Path:
    """Return the path of the user's configuration file. It may not exist."""
    return get_config_folder() / "config.toml"


def format_paths(paths: Iterable[str]) -> str:
    """Return the first `MAX_LISTED_LINES` sorted paths, and the number of the others, as text."""
    in_order = sorted(paths)
    more = len(in_order) - MAX_LISTED_LINES
    shown = ", ".join(in_order[:MAX_LISTED_LINES])
    return f"{shown} and {more} more" if more > 0 else shown


class ConfigFiles:
    """Configuration files of the notebook in `folder`. A file is read again after a change.

    `trust` has the consents of the user. It is None in an unattended run, where all files apply.

    Attributes:
        notices: Messages for the user about the files.
        consents: The files that need the user's consent. Each reading of the files updates them.
    """

    def __init__(self, folder: Path, trust: FolderTrust | None = None) -> None:
        self.folder = folder
        self.trust = trust
        self.notices = FileNotices()
        self.consents = FileConsents(trust, lambda: self.root)

        places = (folder, *folder.parents)
        self._jp_folders = [place / ".jp" for place in places]
        self._possible_files = [place / WORKSPACE_FILE for place in reversed(places)]
        # The valid layers and the errors, while `read_once` keeps them:
        self._kept: tuple[list[Layer], list[ConfigError]] | None = None

    @property
    def root(self) -> Path:
        """Folder of the workspace: the nearest one at or above `folder` with an owned `.jp/`.

        If there is none, it is `folder` itself.
        """
        return next((p.parent for p in self._jp_folders if is_owned_folder(p)), self.folder)

    def workspace_files(self) -> list[Path]:
        """Return the existing `.jp/config.toml` of `folder` and its parents, outermost first."""
        return list(filter(isfile, self._possible_files))

    def find_file(self, where: Literal["user", "workspace"]) -> Path:
        """Return the configuration file of the user or of the notebook's workspace."""
        return get_user_file() if where == "user" else self.root / WORKSPACE_FILE

    def awaits_consent(self, where: Literal["user", "workspace"]) -> bool:
        """Return True if settings of `find_file(where)` are ignored until the user consents."""
        self.load_valid_layers()  # checks the consents
        return self.consents.get_pending(self.find_file(where)) is not None

    def store_consent_to_written(self, where: Literal["user", "workspace"]) -> None:
        """Store the user's consent to the content of `find_file(where)`, which was just written."""
        if self.trust is None:
            return

        earlier_notices = list(self.notices.texts)
        self.load_valid_layers()  # checks the consents

        file = self.consents.get_pending(self.find_file(where))
        if file is not None:
            self.consents.store([file])
            self.consents.forget(file.file)
            self.notices.texts = earlier_notices  # without the notice that the file needs consent

    def list_pending(self) -> list[PendingConsent]:
        """Return the files whose settings are ignored until the user consents."""
        self.consents.forget_deleted()
        self.load_layers()  # checks the consents
        return self.consents.list_pending()

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
        files, has_variables = self._find()
        if not files and not has_variables:
            return [], []

        from jp_nb.config.layers import select_inherited
        from jp_nb.storage.configuration.config_reading import read_variables

        groups: list[list[Layer]] = []
        variables: list[Layer] = []
        errors: list[ConfigError] = []

        for name, path in files:
            try:
                group = self._reader.read_group(path, name)
                groups.append(self._list_effective_layers(path, group))
            except ConfigError as exc:
                errors.append(exc)

        if has_variables:
            try:
                variables.append(read_variables())
            except ConfigError as exc:
                errors.append(exc)

        waiting = [file for _, path in files if (file := self.consents.get_pending(path))]
        if waiting:
            self.notices.add(_format_pending(waiting))

        layers = [*select_inherited(groups), *variables]
        return [*self._read_listed_servers(layers), *layers], errors

    def _read_listed_servers(self, layers: Sequence[Layer]) -> list[Layer]:
        """Return the layers of the files in `providers.mcp_files` that apply now."""
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
            may_come_with_folder = path.is_relative_to(self.root)
            is_listed = mcp_layers.is_listed_by_user(path, layers, self.root)
            is_own = is_listed and not may_come_with_folder
            leaves = list(mcp_layers.list_leaves(layer))
            if is_own or self.consents.check(path, mcp_layers.make_content(layer), leaves):
                server_layers.append(layer)
            elif (waiting := self.consents.get_pending(path)) is not None:
                self.notices.add(_format_pending([waiting]))

        return server_layers

    @cached_property
    def _server_layers(self) -> ServerLayers:
        from jp_nb.storage.server_lists.mcp_layers import ServerLayers

        return ServerLayers(self.notices.add)

    @cached_property
    def _reader(self) -> ConfigReader:
        from jp_nb.storage.configuration.config_reading import ConfigReader

        return ConfigReader(self.notices.add)

    def is_in_workspace(self, url: str) -> bool:
        """Return True if the attachment `url` is a file in the workspace.

        Links are followed. A pattern is never inside, because it may match other files later.
        """
        from jp_nb.config.authority import is_path_in_workspace
        from jp_nb.config.tree.attachment_urls import parse_attachment_url

        if not is_path_in_workspace(url):
            return False
        path = parse_attachment_url(url).path
        if has_magic(path):
            return False

        root = self.root.resolve()
        with suppress(OSError, ValueError, RuntimeError):  # an impossible path
            return (root / path).resolve().is_relative_to(root)

        return False

    def has_configuration(self) -> bool:
        """Return True if any configuration file or variable exists."""
        if self._kept is not None:
            layers, errors = self._kept
            return bool(layers or errors)

        files, has_variables = self._find()
        return bool(files) or has_variables

    def _find(self) -> tuple[list[tuple[str, Path]], bool]:
        """Return name and path of the files, and True if a variable exists."""
        user_file = get_user_file()
        files = [("user file", user_file)] if user_file.is_file() else []
        files += [("workspace file", path) for path in self.workspace_files()]

        has_variables = any(name.startswith(ENVIRONMENT_PREFIX) for name in os.environ)
        return files, has_variables

    def _list_effective_layers(self, path: Path, group: Sequence[ReadFile]) -> list[Layer]:
        """Return the layers of `group` (the file at `path` with its includes) that apply now."""
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
            file = PendingConsent(folder, path, compute_digest(allowed), trusted.pending)
            if trusted.pending and not self.consents.check_file(file):
                return list(trusted.layers)

        return [layer for layer, _ in allowed]

    def shorten_paths(self, text: str) -> str:
        """Return `text` with paths in the workspace relative to the folder of the notebook."""
        return shorten_paths(text, self.folder, self.root)

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
        """Return the names of the file of `layer` for claims, and its label."""
        return make_claim_names(layer, self.root)

    def _load_agreed(self, path: Path) -> list[Layer]:
        """Return the layers of the file at `path`. Raise `ConfigError` if it needs consent."""
        group = self._reader.read_group(path)
        layers = self._list_effective_layers(path, group)

        if (waiting := self.consents.get_pending(path)) is not None:
            name = group[-1].layer.name
            raise ConfigError(_format_pending([waiting]), layer=name, file=str(path))

        return layers


def _format_own_settings(path: Path, settings: Sequence[str]) -> str:
    return (
        f"{path} cannot set {format_paths(settings)}, because it decides for you. Set it in your "
        "own file: `%jp config --user`"
    )


def _format_pending(pending: Iterable[PendingConsent]) -> str:
    waiting = list(pending)
    files = format_paths({str(consent.file) for consent in waiting})
    leaves = chain.from_iterable(consent.leaves for consent in waiting)
    paths = format_paths({path for path, _, _ in leaves})
    until = "ignored until `%jp trust --workspace`"
    return f"settings in {files} need your consent; {until}: {paths}"
