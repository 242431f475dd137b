"""Find and read attached files.

Files are read in the agent's thread and block it, so their number and size are limited.

Source: `docs/configuration.md`, `docs/providers.md`.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jp_nb.agent.provider import Attachment
from jp_nb.config.tree.attachment_urls import AttachmentParts, parse_attachment_url
from jp_nb.errors import JpNbError
from jp_nb.exact_form import escape_invisible
from jp_nb.file_reading import describe_os_error, open_regular
from jp_nb.image_headers import detect_media_type
from jp_nb.storage.file_search import FileSearchError, find_matching_files

MAX_ATTACHED_FILES = 500
MAX_SEARCHED_FILES = 20_000
"""Directory entries that one pattern may visit."""
MAX_ATTACHMENT_BYTES = 20_000_000
"""Total size of all attachments. No model accepts more."""


class AttachmentError(JpNbError):
    """The attachment `url` cannot be read. The message gives the reason."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(why)
        self.url = url


class _AttachedFile(NamedTuple):
    """An attached file.

    Attributes:
        url: The URL of the attachment, which may be a pattern for several files.
        source: The path that the model sees.
        path: The path without links.
        identity: Numbers that change with the file; the last one is its size in bytes.
    """

    url: str
    source: str
    path: str
    identity: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.identity[-1]


class Attachments:
    """Attachments of a session. Files are read again after a change."""

    def __init__(self) -> None:
        # The files of the last call, and their contents.
        self._files: list[_AttachedFile] = []
        self._read: tuple[Attachment, ...] = ()

    def read(self, urls: Sequence[str], folder: Path) -> tuple[Attachment, ...]:
        """Return the files of `urls`, each once; the same tuple as before if nothing changed.

        A URL is `file:PATH`, relative to `folder`. The path may be a pattern with `*`, `[…]`, `?`
        (written as `%3F`), and `**` for any number of folders.

        Raises:
            AttachmentError: A URL is of another type or has parameters, or a file does not exist,
                cannot be read, is no text, image, or PDF, or exceeds a limit.
        """
        found: dict[str, _AttachedFile] = {}

        for url in urls:
            for file in _find_files(url, folder):
                found.setdefault(file.path, file)
                if len(found) > MAX_ATTACHED_FILES:
                    raise AttachmentError(url, f"more than {MAX_ATTACHED_FILES} files are attached")

        files = list(found.values())
        if files != self._files:
            self._read = tuple(_read_all(files))
            self._files = files

        return self._read


# --- finding files ---------------------------------------------------------------------------


def _find_files(url: str, folder: Path) -> Iterator[_AttachedFile]:
    """Yield the file of `url`, or the files that match its pattern."""
    parts = parse_attachment_url(url)
    if parts.type.lower() != "file":
        kind = escape_invisible(parts.type)
        raise AttachmentError(
            url,
            f"attachments of the type '{kind}' are not supported: use file:PATH or value:NAME",
        )

    if parts.params:
        raise AttachmentError(url, "a file takes no parameters; write `?` in its name as `%3F`")

    path = folder / os.path.expanduser(parts.path)
    is_pattern = glob.has_magic(parts.path) and not os.path.lexists(path)
    if not is_pattern:
        yield _examine_file(url, path, parts.path)
        return

    try:
        matches = find_matching_files(path, max_entries=MAX_SEARCHED_FILES)
    except FileSearchError as exc:
        raise AttachmentError(url, str(exc)) from exc

    if not matches:
        raise AttachmentError(url, f"file {escape_invisible(str(path))} does not exist")

    home = parts.path.partition("/")[0] if parts.path.startswith("~") else ""
    for match in matches:
        shown = match.relative_to(folder) if match.is_relative_to(folder) else match
        source = str(shown)
        if home:  # keep `~`: the model does not need the path of the home directory
            source = home + str(match).removeprefix(os.path.expanduser(home))
        yield _examine_file(url, match, source)


def _examine_file(url: str, path: Path, source: str) -> _AttachedFile:
    """Return the file at `path`, which the model knows as `source`; raise if it cannot be sent."""
    shown = escape_invisible(str(path))

    try:
        status = path.stat()
    except FileNotFoundError:
        raise AttachmentError(url, f"file {shown} does not exist") from None
    except (OSError, ValueError) as exc:
        raise AttachmentError(url, f"{shown}: {describe_os_error(exc)}") from exc

    if stat.S_ISDIR(status.st_mode):
        inside = AttachmentParts("file", f"{glob.escape(source.rstrip('/'))}/*").url
        raise AttachmentError(
            url, f"{shown} is a folder; attach its files with {escape_invisible(inside)}"
        )

    if not stat.S_ISREG(status.st_mode):
        raise AttachmentError(url, f"{shown} is not a regular file")

    times = (status.st_mtime_ns, status.st_ctime_ns)
    return _AttachedFile(
        url,
        Path(source).as_posix(),
        os.path.realpath(path),
        (status.st_dev, status.st_ino, *times, status.st_size),
    )


# --- reading files ---------------------------------------------------------------------------


def _read_all(files: Sequence[_AttachedFile]) -> Iterator[Attachment]:
    """Yield the attachments. Sizes are checked before any file is read, and again while reading."""
    total = 0
    for file in files:
        total += file.size
        _check_total_size(file, total)

    total = 0
    for file in files:
        data = _read_bytes(file)
        total += len(data)  # a file may have grown
        _check_total_size(file, total)
        yield _make_attachment(file, data)


def _check_total_size(file: _AttachedFile, total: int) -> None:
    if total > MAX_ATTACHMENT_BYTES:
        many = f"the attachments have more than {MAX_ATTACHMENT_BYTES // 1000000} MB"
        raise AttachmentError(file.url, f"with {escape_invisible(file.source)}, {many}")


def _read_bytes(file: _AttachedFile) -> bytes:
    try:
        with os.fdopen(open_regular(Path(file.path)), "rb") as stream:
            data = stream.read(MAX_ATTACHMENT_BYTES + 1)
    except OSError as exc:
        raise AttachmentError(
            file.url, f"{escape_invisible(file.source)}: {describe_os_error(exc)}"
        ) from exc

    if data and not file.size:  # as in /proc, where a change cannot be noticed
        raise AttachmentError(file.url, f"{escape_invisible(file.source)} is not a regular file")

    return data


def _make_attachment(file: _AttachedFile, data: bytes) -> Attachment:
    media_type = detect_media_type(data)
    if media_type is not None:
        return Attachment(file.source, media_type, data)

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"  # refused below, as other binary files

    if "\0" in text:
        known = "nor an image (PNG, JPEG, GIF, WebP), nor a PDF"
        raise AttachmentError(
            file.url, f"{escape_invisible(file.source)} is neither text in UTF-8, {known}"
        )

    return Attachment(file.source, "text/plain", text)
