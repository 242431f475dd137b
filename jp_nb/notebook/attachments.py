"""Reads what is attached to a conversation: files, for the model to see.

Source: `spec/config.md` section 2.5, `spec/providers.md` section 3.4.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jp_nb.agent.ports import Attachment
from jp_nb.config.attachments import attachment_parts
from jp_nb.config.paths import Element, format_path
from jp_nb.errors import ConfigError, JpNbError

PATH = ("conversation", "attachments")
MAX_FILES = 500
MAX_BYTES = 20_000_000
"""All that is attached, together: whatever is more, no model reads."""
_BINARIES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


class AttachmentError(JpNbError):
    """What `url` names cannot be attached, and why."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(why)
        self.url = url

    def in_configuration(self) -> ConfigError:
        """The same about an item of the configuration."""
        path = format_path((*PATH, Element(self.url)))
        return ConfigError(f"{self}. `%jp config --unset '{path}'` takes it away", path=path)


class _File(NamedTuple):
    """A file that is attached, and all that tells whether it is the one that was read."""

    url: str
    source: str
    path: str
    identity: tuple[int, int, int, int]

    @property
    def size(self) -> int:
        return self.identity[-1]


class Attachments:
    """The attachments of a session, read again when a file is another."""

    def __init__(self) -> None:
        self._files: list[_File] = []
        self._read: tuple[Attachment, ...] = ()

    def read(self, urls: Sequence[str], folder: Path) -> tuple[Attachment, ...]:
        """What `urls` name, each file once; the same object as before if nothing changed.

        Args:
            urls: As configured. `file:PATH` is a file or a pattern for files.
            folder: Where relative paths begin.

        Raises:
            AttachmentError: If one of them cannot be had.
        """
        files = list({file.path: file for url in urls for file in _find(url, folder)}.values())
        if files != self._files:
            _refuse_too_much(files)
            self._read = tuple(_read(file) for file in files)
            self._files = files
        return self._read


def _find(url: str, folder: Path) -> Iterator[_File]:
    """The files that `url` names, in order."""
    parts = attachment_parts(url)
    if parts.type != "file":
        raise AttachmentError(
            url, f"attachments of the kind {parts.type!r} cannot be read here: file:PATH can"
        )
    if parts.params:
        raise AttachmentError(url, "a file takes no parameters; write a ? in its name as %3F")
    named = os.path.expanduser(parts.path)
    if glob.has_magic(named) and not os.path.lexists(folder / named):
        found = sorted(_matching(url, named, folder))
        if not found:
            raise AttachmentError(url, f"no file in {folder} is called so")
    else:
        found = [named]
    for name in found:
        yield _file(url, name, folder)


def _matching(url: str, pattern: str, folder: Path) -> list[str]:
    found: list[str] = []
    for name in glob.iglob(pattern, root_dir=folder, recursive=True):
        if os.path.isfile(folder / name):
            found.append(name)
        if len(found) > MAX_FILES:
            raise AttachmentError(url, f"more than {MAX_FILES} files are called so: name fewer")
    return found


def _file(url: str, name: str, folder: Path) -> _File:
    path = folder / name
    try:
        found = path.stat()
    except FileNotFoundError:
        raise AttachmentError(url, f"there is no such file in {folder}") from None
    except (OSError, ValueError) as exc:
        raise AttachmentError(url, _reason(exc)) from exc
    if stat.S_ISDIR(found.st_mode):
        raise AttachmentError(
            url, f"that is a folder; file:{name.rstrip('/')}/* attaches the files in it"
        )
    if not stat.S_ISREG(found.st_mode):
        raise AttachmentError(url, "that is no file which could be read to its end")
    identity = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
    return _File(url, Path(name).as_posix(), os.path.realpath(path), identity)


def _refuse_too_much(files: Sequence[_File]) -> None:
    total = 0
    for number, file in enumerate(files, start=1):
        total += file.size
        if number > MAX_FILES:
            raise AttachmentError(file.url, f"more than {MAX_FILES} files are attached")
        if total > MAX_BYTES:
            raise AttachmentError(
                file.url,
                f"with {file.source}, more than {MAX_BYTES // 1_000_000} MB are attached",
            )


def _read(file: _File) -> Attachment:
    try:
        with open(file.path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as exc:
        raise AttachmentError(file.url, f"{file.source}: {_reason(exc)}") from exc
    for beginning, media_type in _BINARIES:
        if data.startswith(beginning):
            return Attachment(file.source, media_type, data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return Attachment(file.source, "image/webp", data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise AttachmentError(
            file.url,
            f"{file.source} is neither text in UTF-8, nor an image (PNG, JPEG, GIF, WebP), nor a "
            "PDF",
        )
    return Attachment(file.source, "text/plain", text)


def _reason(exc: OSError | ValueError) -> str:
    return (exc.strerror if isinstance(exc, OSError) else None) or str(exc)
