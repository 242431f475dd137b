"""Find configuration files, read them again after changes, and check the user's consent.

Only owned files are read (see `jp_nb.storage.files`). A file outside of the user's configuration
folder may be from someone else, for example in a cloned repository. If a user is available, its
settings with authority apply only after the user has consented to the content. A consent that
cannot be stored is a `StorageError`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from glob import has_magic
from itertools import chain
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue

from jp_nb.config.directives import ENVIRONMENT_PREFIX
from jp_nb.errors import ConfigError
from jp_nb.json_values import as_object
from jp_nb.storage.files import is_owned_folder
from jp_nb.storage.trust import FolderTrust, PendingConsent
from jp_nb.storage.user_folders import get_config_folder
from jp_nb.text import MAX_LISTED_LINES

if TYPE_CHECKING:  # the schema loads slowly, and only if something is configured
    from jp_nb.config.layers import Layer
    from jp_nb.storage.configuration.config_reading import ConfigReader, ReadFile
    from jp_nb.storage.server_lists.mcp_layers import ServerLayers

WORKSPACE_FILE = Path(".jp") / "config.toml"
CONFIG_SUFFIXES = ("", ".toml", ".json")


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
    """

    def __init__(self, folder: Path, trust: FolderTrust | None = None) -> None:
        self.folder = folder
        self.trust = trust
        self.notices: list[str] = []
        """Messages for the user, each only once, such as about a missing included file."""

        places = (folder, *folder.parents)
        self._jp_folders = [place / ".jp" for place in places]
        self._possible_files = [place / WORKSPACE_FILE for place in reversed(places)]
        self._seen_notices: set[str] = set()
        self._pending: dict[Path, PendingConsent] = {}
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
        self.load_valid_layers()
        return self.find_file(where) in self._pending

    def consent_to(self, where: Literal["user", "workspace"]) -> None:
        """Store the user's consent to the content of `find_file(where)`, which was just written."""
        notices = list(self.notices)
        if self.trust is not None and self.awaits_consent(where):
            self.trust.agree([self._pending.pop(self.find_file(where))])
            self.notices = notices  # without the notice that the file needs consent

    def layers(self) -> list[Layer]:
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

        if waiting := [self._pending[path] for _, path in files if path in self._pending]:
            self.add_notice(_format_pending(waiting))

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
            is_inside = path.is_relative_to(self.root)  # it may come with the folder
            is_own = mcp_layers.is_listed_by_user(path, layers, self.root) and not is_inside
            leaves = list(mcp_layers.list_leaves(layer))
            if is_own or self.require_consent(path, mcp_layers.make_content(layer), leaves):
                server_layers.append(layer)
            else:
                self.add_notice(_format_pending([self._pending[path]]))

        return server_layers

    @cached_property
    def _server_layers(self) -> ServerLayers:
        from jp_nb.storage.server_lists.mcp_layers import ServerLayers

        return ServerLayers(self.add_notice)

    @cached_property
    def _reader(self) -> ConfigReader:
        from jp_nb.storage.configuration.config_reading import ConfigReader

        return ConfigReader(self.add_notice)

    def is_inside(self, url: str) -> bool:
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
            return any(self._kept)
        return any(self._find())

    def _find(self) -> tuple[list[tuple[str, Path]], bool]:
        """Return name and path of the files, and True if a variable exists."""
        user_file = get_user_file()
        files = [("user file", user_file)] if user_file.is_file() else []
        files += [("workspace file", path) for path in self.workspace_files()]

        has_variables = any(name.startswith(ENVIRONMENT_PREFIX) for name in os.environ)
        return files, has_variables

    def pending(self) -> list[PendingConsent]:
        """Return the files whose settings are ignored until the user consents."""
        self._pending = {path: file for path, file in self._pending.items() if path.exists()}
        self.layers()  # adds and removes pending files
        return [file for file in self._pending.values() if not self._is_agreed(file)]

    def require_consent(
        self, path: Path, content: bytes, shown_values: Iterable[tuple[str, JsonValue]]
    ) -> bool:
        """Return True if the `content` of a file applies: the user has consented to it.

        If not, the file becomes one of the `pending` ones, with the position and value of each
        decision in `shown_values`. In an unattended run, every file applies.
        """
        digest = hashlib.sha256(os.fsencode(path.resolve()) + b"\0" + content).hexdigest()
        leaves = tuple((position, value, str(path)) for position, value in shown_values)
        pending = PendingConsent(self._consent_folder(path), path, f"sha256:{digest}", leaves)

        if self.trust is None or self._is_agreed(pending):
            self._pending.pop(path, None)
            return True

        self._pending[path] = pending
        return False

    def _is_agreed(self, pending: PendingConsent) -> bool:
        return self.trust is not None and self.trust.covers(pending.folder, pending.digest)

    def no_pending_reason(self) -> str:
        """Return the reason why no file needs consent."""
        if self.trust is None:
            return "the run is unattended: files of the folder are applied without your consent"
        return "no file of this folder needs your consent"

    def consent(self, files: Iterable[PendingConsent]) -> None:
        """Store the user's consent to the content that `pending()` returned."""
        if self.trust is not None:
            self.trust.agree(files)

    def _list_effective_layers(self, path: Path, group: Sequence[ReadFile]) -> list[Layer]:
        """Return the layers of `group` (the file at `path` with its includes) that apply now."""
        self._pending.pop(path, None)
        if path.is_relative_to(get_config_folder()):
            return [layer for layer, _ in group]

        from jp_nb.storage.configuration.config_reading import compute_digest
        from jp_nb.storage.configuration.group_authority import drop_own_settings, drop_untrusted

        allowed, dropped = drop_own_settings(tuple(group))
        if dropped:
            self.add_notice(_format_own_settings(path, dropped))

        if self.trust is not None:
            trusted = drop_untrusted(allowed)
            folder = self._consent_folder(path)
            digest = compute_digest(allowed)
            if trusted.pending and not self.trust.covers(folder, digest):
                self._pending[path] = PendingConsent(folder, path, digest, trusted.pending)
                return list(trusted.layers)

        return [layer for layer, _ in allowed]

    def _consent_folder(self, path: Path) -> Path:
        """Return the folder for which a consent to the file at `path` is stored."""
        if path.parent.name == ".jp":
            return path.parent.parent
        return self.root if path.is_relative_to(self.root) else path.parent

    def add_notice(self, notice: str) -> None:
        """Add `notice`, unless it was added before."""
        if notice not in self._seen_notices:
            self._seen_notices.add(notice)
            self.notices.append(notice)

    @contextmanager
    def discard_notices(self) -> Iterator[None]:
        """Discard the notices that the `with` block adds, so that they can be added again later."""
        notices = list(self.notices)
        seen = set(self._seen_notices)

        try:
            yield
        finally:
            self.notices = notices
            self._seen_notices = seen

    def relative(self, text: str) -> str:
        """Return `text` with paths in the workspace and `.jp` above it relative to the notebook.

        Other paths in the home folder begin with `~`, so the text does not depend on the machine.
        """
        folders = [self.root, *(above / ".jp" for above in self.root.parents)]
        names = [(folder, os.path.relpath(folder, self.folder)) for folder in folders]
        names.append((Path(os.path.expanduser("~")), "~"))

        for folder, name in names:
            is_file_system_root = folder == folder.parent
            if not is_file_system_root:
                text = _replace_folder(text, folder, name)
        return text

    def take_notices(self) -> list[str]:
        """Return the notices since the last call, and clear them."""
        notices = self.notices
        self.notices = []
        return notices

    def named(self, name: str, load_paths: list[str]) -> list[Layer]:
        """Return the layers of the configuration file for `-c NAME`, weakest first.

        `name` may be a path. Otherwise, it is searched with and without a suffix in `load_paths`,
        below the user's configuration folder and below the workspace. Of each, the first is used.

        Raises:
            ConfigError: No file was found (the message lists the searched places), or the file is
                invalid, not owned, or has settings that need the user's consent.
        """
        try:
            path = (self.folder / Path(name.removeprefix("@")).expanduser()).resolve()
            is_path = path.is_file()
        except (OSError, RuntimeError, ValueError) as exc:  # unknown home, or an impossible name
            raise ConfigError(
                f"{name[:80]!r} is not the name of a configuration file: {exc}"
            ) from exc
        if is_path:
            return self._load_agreed(path)

        roots = (get_config_folder() / "config", self.root)
        files: list[Path] = []
        for root in roots:
            if (file := _find_named(name, root, load_paths)) is not None:
                files.append(file)

        must_be_path = name.startswith("@")
        if must_be_path or not files:
            places = [str(path)]
            for root in roots:
                places += [str(root / load_path / name) for load_path in load_paths]
            searched = ", ".join(places)
            suffixes = " and ".join(CONFIG_SUFFIXES[1:])
            raise ConfigError(
                f"configuration file {name!r} not found; searched: {searched} "
                f"(also with {suffixes}; config_load_paths lists the folders)",
                kind="value",
            )

        layers: list[Layer] = []
        for file in files:
            layers += self._load_agreed(file)
        return layers

    def _load_agreed(self, path: Path) -> list[Layer]:
        """Return the layers of the file at `path`. Raise `ConfigError` if it needs consent."""
        group = self._reader.read_group(path)
        layers = self._list_effective_layers(path, group)

        if (waiting := self._pending.get(path)) is not None:
            name = group[-1].layer.name
            raise ConfigError(_format_pending([waiting]), layer=name, file=str(path))

        return layers

    def claim_names(self, layer: Layer) -> tuple[list[str], str]:
        """Return the names of a file for claims (`config_changes.py`), and its label.

        The label does not contain a path outside of the workspace.
        """
        path = Path(layer.file or "").resolve()
        label = "<user-local>"

        if path.is_relative_to(self.root):
            path = path.relative_to(self.root)
            label = path.as_posix()

        identity = layer.partial.get("id")
        named = [f"id:{identity}"] if isinstance(identity, str) else []
        return [f"file:{path.as_posix()}", *named], label


def _replace_folder(text: str, folder: Path, name: str) -> str:
    """Return `text` with `name` instead of `folder`, alone and at the beginning of paths."""
    path = rf"(?<![\w./-]){re.escape(str(folder))}"
    prefix = "" if name == "." else f"{name}/"

    # A backslash is special in a replacement.
    text = re.sub(f"{path}/", prefix.replace("\\", r"\\"), text)
    return re.sub(rf"{path}(?=[\s:;,)'`\"]|$)", name.replace("\\", r"\\"), text)


def _find_named(name: str, root: Path, load_paths: Iterable[str]) -> Path | None:
    """Return the first file of this name in a folder of `load_paths` below `root`."""
    for folder in load_paths:
        for suffix in CONFIG_SUFFIXES:
            candidate = root / folder / f"{name}{suffix}"
            if candidate.is_file():
                return candidate

    return None


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
