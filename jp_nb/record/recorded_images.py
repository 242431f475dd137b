"""The images of a conversation: each kept once, by its digest, and shown by the entries after it.

Shape of an entry that shows some: `{"metadata": {"images": ["sha256:…"]}}`. Anybody may have
written a record, so what is read here is looked at before it is sent to anybody.

Source: `docs/record.md`.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.image import MAX_BYTES, Image, unfit
from jp_nb.record.events import Entry, ImageEntry

IMAGES: Final = "images"
"""The key in the metadata of an entry that shows images."""
MAX_READ: Final = 100
"""Images of one entry: a stranger may have written more."""


def image_entry(image: Image) -> ImageEntry:
    """Return the entry that keeps `image`."""
    return ImageEntry(
        digest=image.digest, media_type=image.media_type, name=image.name, data=image.text
    )


def shows(images: Iterable[Image]) -> dict[str, JsonValue]:
    """Return the metadata of an entry that shows `images`; empty if there are none."""
    digests: list[JsonValue] = [image.digest for image in images]
    return {IMAGES: digests} if digests else {}


def digests_in(entry: Entry) -> list[str]:
    """Return the digests of the images that `entry` shows; what is malformed is passed over."""
    found = entry.metadata.get(IMAGES)
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


class Shown(NamedTuple):
    """What an entry shows, and in words what of it cannot be shown: one line a reason."""

    images: tuple[Image, ...] = ()
    notes: tuple[str, ...] = ()


NOTHING: Final = Shown()


class RecordedImages:
    """Finds images by digest. An entry is looked at when its image is first asked for, once."""

    def __init__(self) -> None:
        self._entries: dict[str, list[ImageEntry]] = {}
        self._read: dict[str, Image | str] = {}

    def add(self, entry: ImageEntry) -> None:
        """Take in an entry of the conversation."""
        self._entries.setdefault(entry.digest, []).append(entry)
        if isinstance(self._read.get(entry.digest), str):
            del self._read[entry.digest]  # the one before was damaged

    def find(self, digest: str) -> Image | None:
        """Return the image with that digest; None if there is none, or it is damaged."""
        found = self._found(digest)
        return found if isinstance(found, Image) else None

    def shown_by(self, entry: Entry) -> Shown:
        """Return the images of `entry` in their order."""
        digests = digests_in(entry)
        if not digests:
            return NOTHING
        found = [self._found(digest) for digest in digests[:MAX_READ]]
        reasons = Counter(item for item in found if isinstance(item, str))
        if len(digests) > MAX_READ:
            reasons[f"one entry shows at most {MAX_READ}"] += len(digests) - MAX_READ
        images = tuple(item for item in found if isinstance(item, Image))
        return Shown(images, tuple(left_out(count, why) for why, count in reasons.items()))

    def _found(self, digest: str) -> Image | str:
        """Return the image, or why there is none."""
        found = self._read.get(digest)
        if found is None:
            entries = self._entries.pop(digest, [])
            read = map(_read, entries)
            good = next((item for item in read if isinstance(item, Image)), None)
            found = good or (_read(entries[0]) if entries else "the record does not contain it")
            self._read[digest] = found
        return found


def left_out(count: int, why: str) -> str:
    """Return what a model reads in place of so many images."""
    what = "1 image" if count == 1 else f"{count} images"
    return f"[{what} omitted, because {why}]"


def _read(entry: ImageEntry) -> Image | str:
    """Return the image that `entry` keeps, or why it is not to be shown."""
    if len(entry.data) > MAX_BYTES * 4 // 3 + 4:
        return f"its record is longer than {MAX_BYTES} bytes"
    try:
        content = base64.b64decode(entry.data, validate=True)
    except (binascii.Error, ValueError):
        return "its record is damaged: it is not Base64"
    image = Image(entry.media_type, content, entry.name)
    if image.digest != entry.digest:
        return "its record is damaged: the bytes do not match the digest"
    why = unfit(image)
    return image if why is None else f"its record is damaged: {why}"
