"""The configuration layers that come from files and the environment.

Only the user's own files are read. Those that do not lie in the user's configuration folder may be
from anywhere, such as a repository that was cloned: where a person is there, what has authority in
them counts only once the user agreed to that content.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import platformdirs

from jp_nb.config.defaults import ENVIRONMENT_PREFIX
from jp_nb.errors import ConfigError
from jp_nb.workspace.own_files import NotOwnError, Stamp, is_own_folder, read_own, stamp

if TYPE_CHECKING:  # nothing of it is needed where nothing is configured
    from pydantic import JsonValue

    from jp_nb.config.layers import Layer
    from jp_nb.workspace.folder_trust import FolderTrust, Pending

WORKSPACE_FILE = Path(".jp") / "config.toml"
SUFFIXES = ("", ".toml", ".json")
MAX_DEPTH = 255
"""Of files that include files."""
MAX_LISTED = 20
"""Of paths in one line."""


def user_folder() -> Path:
    """Where the user's own configuration lies."""
    return platformdirs.user_config_path("jp")


def user_file() -> Path:
    """The user's own configuration file; it need not exist."""
    return user_folder() / "config.toml"


def workspace_files(folder: Path) -> Iterator[Path]:
    """`.jp/config.toml` in `folder` and above, from the filesystem's root down."""
    for place in reversed([folder, *folder.parents]):
        candidate = place / WORKSPACE_FILE
        with suppress(OSError):  # a folder of somebody else's, closed to us
            if candidate.is_file():
                yield candidate


def workspace_root(folder: Path) -> Path:
    """The nearest folder at or above `folder` that holds a `.jp/` of the user's own.

    Without one it is `folder` itself.
    """
    return next((p for p in (folder, *folder.parents) if is_own_folder(p / ".jp")), folder)


def listed(paths: Iterable[str]) -> str:
    """The first of `paths`, and how many more there are."""
    found = sorted(paths)
    more = len(found) - MAX_LISTED
    shown = ", ".join(found[:MAX_LISTED])
    return f"{shown} and {more} more" if more > 0 else shown


class _File(NamedTuple):
    """A file that was read: its layer, and a digest of the bytes that say so."""

    layer: Layer
    digest: bytes


class ConfigFiles:
    """Reads the layers for a notebook in `folder`; a file is read again when it changed.

    Args:
        folder: The notebook's.
        trust: What the user agreed to; None if nobody is asked and all files count in full.

    Attributes:
        folder: The notebook's.
        trust: What the user agreed to.
        notices: What the person should be told once, such as an included file that is missing.
    """

    def __init__(self, folder: Path, trust: FolderTrust | None = None) -> None:
        self.folder = folder
        self.trust = trust
        self.notices: list[str] = []
        self._said: set[str] = set()
        self._read: dict[tuple[Path, str], tuple[Stamp, _File]] = {}
        self._pending: dict[Path, Pending] = {}

    @property
    def root(self) -> Path:
        """The workspace's folder."""
        return workspace_root(self.folder)

    def file_of(self, where: Literal["user", "workspace"]) -> Path:
        """The user's file, or the one of the workspace that the notebook lies in."""
        return user_file() if where == "user" else self.root / WORKSPACE_FILE

    def awaits_consent(self, where: Literal["user", "workspace"]) -> bool:
        """Whether something in that file does not count before the user agreed to it."""
        self.readable()
        return self.file_of(where) in self._pending

    def agree_to(self, where: Literal["user", "workspace"]) -> None:
        """Have that file count as it is now: the user has just written it.

        Raises:
            StorageError: If that cannot be kept.
        """
        notices = list(self.notices)
        if self.trust is not None and self.awaits_consent(where):
            self.trust.agree([self._pending.pop(self.file_of(where))])
            self.notices = notices  # what waited a moment ago does not any more

    def layers(self) -> list[Layer]:
        """The user's file, workspace files from the root down, the environment.

        Each file is followed or preceded by what it includes; one with `inherit = false` cuts off
        all that are weaker.

        Raises:
            ConfigError: If a file or a variable is wrong; `layer` and `file` name it.
        """
        found, wrong = self.readable()
        if len(wrong) > 1:
            raise ConfigError("\n".join(map(str, wrong)), path="", kind=wrong[0].kind)
        for error in wrong:
            raise error
        return found

    def readable(self) -> tuple[list[Layer], list[ConfigError]]:
        """The layers without those that are wrong, and what is wrong with them."""
        files = self._files()
        if not files and not _is_in_environment():
            return [], []
        from jp_nb.config import layers

        groups: list[list[Layer]] = []
        wrong: list[ConfigError] = []
        for name, path in files:
            try:
                groups.append(self._counting(path, name))
            except ConfigError as exc:
                wrong.append(exc)
        found = layers.inherited(groups)
        if waiting := [self._pending[path] for _, path in files if path in self._pending]:
            self._say(_waiting(waiting))
        if _is_in_environment():
            try:
                found.append(layers.from_environment(os.environ))
            except ConfigError as exc:
                wrong.append(exc)
        return found, wrong

    def is_inside(self, url: str) -> bool:
        """Whether the file that an attachment's `url` names lies in the workspace.

        Links are followed. A pattern may match anything later, and is not.
        """
        from jp_nb.config.authority import is_named_inside
        from jp_nb.config.tree.attachment_url import attachment_parts

        if not is_named_inside(url) or glob.has_magic(path := attachment_parts(url).path):
            return False
        root = self.root.resolve()
        with suppress(OSError, ValueError, RuntimeError):  # what no file can be
            return (root / path).resolve().is_relative_to(root)
        return False

    def anything(self) -> bool:
        """Whether there is a file or a variable at all."""
        return bool(self._files()) or _is_in_environment()

    def _files(self) -> list[tuple[str, Path]]:
        own = [("user file", user_file())] if user_file().is_file() else []
        return own + [("workspace file", path) for path in workspace_files(self.folder)]

    # --- what counts of them -----------------------------------------------------------------

    def pending(self) -> list[Pending]:
        """What was ignored of the files until now, for want of the user's consent."""
        self._pending = {path: each for path, each in self._pending.items() if path.exists()}
        self.layers()
        return list(self._pending.values())

    def why_nothing_waits(self) -> str:
        """Why there is nothing to agree to, in words."""
        if self.trust is None:
            return "with nobody there the files of a folder count as they are: nothing waits"
        return "nothing in the files of this folder waits for your consent"

    def agree(self, found: Iterable[Pending]) -> None:
        """Have what was `found` pending count from here on, with the content that was read then.

        Raises:
            StorageError: If that cannot be kept.
        """
        if self.trust is not None:
            self.trust.agree(found)

    def _counting(self, path: Path, name: str) -> list[Layer]:
        """The layers of the file at `path` and what it includes, as far as they count."""
        group = self._with_includes(path, name)
        whole = [file.layer for file in group]
        self._pending.pop(path, None)
        if self.trust is None or path.is_relative_to(user_folder()):
            return whole
        from jp_nb.config.authority import without_consent
        from jp_nb.config.layers import Layer
        from jp_nb.workspace.folder_trust import Pending

        kept: list[Layer] = []
        leaves: list[tuple[str, JsonValue, str]] = []
        for layer in whole:
            partial, ignored = without_consent(layer.partial, self.is_inside)
            kept.append(Layer(layer.name, partial, layer.file))
            leaves += [(at, value, layer.file or "") for at, value in ignored.items()]
        folder, digest = self._place_of(path), _digest(group)
        if not leaves or self.trust.covers(folder, digest):
            return whole
        self._pending[path] = Pending(folder, path, digest, tuple(leaves))
        return kept

    def _place_of(self, path: Path) -> Path:
        """The folder in which the file at `path` is agreed to."""
        if path.parent.name == ".jp":
            return path.parent.parent
        return self.root if path.is_relative_to(self.root) else path.parent

    # --- one file and what it includes -------------------------------------------------------

    def _with_includes(self, path: Path, name: str, above: tuple[Path, ...] = ()) -> list[_File]:
        from jp_nb.config.layers import CONFIG_FILE, includes

        resolved = path.resolve()
        if resolved in above:
            chain = " -> ".join(str(p) for p in (*above[above.index(resolved) :], resolved))
            raise ConfigError(
                f"these files include one another: {chain}", path="extends", layer=name,
                file=str(path),
            )  # fmt: skip
        if len(above) > MAX_DEPTH:
            raise ConfigError("files include files too deeply", path="extends", file=str(path))
        try:
            own = self._file(path, name)
        except NotOwnError as exc:
            if name == CONFIG_FILE and not above:  # somebody asked for it
                raise ConfigError(f"it does not count: {exc}", layer=name, file=str(path)) from exc
            self._say(f"{path} is passed over: {exc}")
            return []
        before: list[_File] = []
        after: list[_File] = []
        for include in includes(own.layer):
            part = before if include.strategy == "before" else after
            for found in self._included(path, include.path):
                part += self._with_includes(found, name, (*above, resolved))
        return [*before, own, *after]

    def _included(self, path: Path, pattern: str) -> list[Path]:
        """The files that `pattern` in the file `path` means, sorted."""
        if glob.has_magic(pattern):
            found = glob.glob(pattern, root_dir=path.parent, recursive=True)
            candidates = sorted(path.parent / name for name in found)
            return [p for p in candidates if p.is_file() and p.resolve() != path.resolve()]
        candidate = path.parent / pattern
        with suppress(OSError, ValueError):  # a name that no file can have
            if candidate.is_file():
                return [candidate]
        self._say(f"{path} includes {pattern!r}, which does not exist: it is passed over")
        return []

    def _say(self, notice: str) -> None:
        if notice not in self._said:
            self._said.add(notice)
            self.notices.append(notice)

    def take_notices(self) -> list[str]:
        """What the person should be told since the last call."""
        said, self.notices = self.notices, []
        return said

    def _file(self, path: Path, name: str) -> _File:
        from jp_nb.config.layers import from_text

        try:
            now = stamp(path)
            known = self._read.get((path, name))
            if known is None or known[0] != now:
                data = read_own(path)
                layer = from_text(data.decode("utf-8"), name, str(path))
                known = now, _File(layer, hashlib.sha256(data).digest())
                self._read[path, name] = known
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError(f"cannot be read: {exc}", layer=name, file=str(path)) from exc
        return known[1]

    # --- files by name -----------------------------------------------------------------------

    def named(self, name: str, load_paths: list[str]) -> list[Layer]:
        """The layers of the configuration file that `-c NAME` means, weakest first.

        A path to a file is that file. Every other name is searched, with and without a suffix, in
        `load_paths` below the user's configuration folder and below the workspace's; the first
        hit of each counts.

        Raises:
            ConfigError: If there is none, with everywhere it was searched; or it is wrong, not the
                user's own, or sets what the user has to agree to first.
        """
        try:
            direct = (self.folder / Path(name.removeprefix("@")).expanduser()).resolve()
            found = direct.is_file()
        except (OSError, RuntimeError, ValueError) as exc:  # no such home, a name no file can have
            raise ConfigError(f"there can be no configuration {name[:80]!r}: {exc}") from exc
        if found:
            return self._agreed(direct)
        roots = (user_folder() / "config", self.root)
        hits = [hit for root in roots if (hit := _first(root, name, load_paths)) is not None]
        if name.startswith("@") or not hits:
            places = [str(direct), *(str(root / p / name) for root in roots for p in load_paths)]
            raise ConfigError(
                f"there is no configuration {name!r}; searched: {', '.join(places)} (also with "
                f"{' and '.join(SUFFIXES[1:])}; folders to search are in config_load_paths)",
                kind="value",
            )
        return [layer for hit in hits for layer in self._agreed(hit)]

    def _agreed(self, path: Path) -> list[Layer]:
        """The layers of the file at `path`, if all that they set counts."""
        from jp_nb.config.layers import CONFIG_FILE

        found = self._counting(path, CONFIG_FILE)
        if path in self._pending:
            raise ConfigError(_waiting([self._pending[path]]), layer=CONFIG_FILE, file=str(path))
        return found

    def claim_names(self, layer: Layer) -> tuple[list[str], str]:
        """What a file goes by in claims, and how people read it: nothing private is in that."""
        path = Path(layer.file or "").resolve()
        identity = layer.partial.get("id")
        named = [f"id:{identity}"] if isinstance(identity, str) else []
        if path.is_relative_to(self.root):
            relative = path.relative_to(self.root).as_posix()
            return [f"file:{relative}", *named], relative
        return [f"file:{path.as_posix()}", *named], "<user-local>"


def _digest(group: Iterable[_File]) -> str:
    """Of all that `group` says, and of where."""
    whole = hashlib.sha256()
    for file in group:
        whole.update(os.fsencode(os.path.realpath(file.layer.file or "")) + b"\0" + file.digest)
    return f"sha256:{whole.hexdigest()}"


def _waiting(pending: Iterable[Pending]) -> str:
    """That files wait for the user's consent, which ones, and with what."""
    found = list(pending)
    files = listed({str(each.file) for each in found})
    paths = listed({at for each in found for at, _, _ in each.leaves})
    until = "ignored until `%jp trust --workspace`"
    return f"what only you may decide is set in {files}; {until}: {paths}"


def _first(root: Path, name: str, load_paths: list[str]) -> Path | None:
    for folder in load_paths:
        for suffix in SUFFIXES:
            candidate = root / folder / f"{name}{suffix}"
            if candidate.is_file():
                return candidate
    return None


def _is_in_environment() -> bool:
    return any(name.startswith(ENVIRONMENT_PREFIX) for name in os.environ)
