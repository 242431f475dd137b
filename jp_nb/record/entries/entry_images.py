"""The images of entries, by their digests.

A record may be from someone else, so images are checked before they are sent.

Source: `docs/record.md`.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.images import MAX_IMAGE_BYTES, Image, find_image_problem
from jp_nb.record.entries.events import Entry, ImageEntry

IMAGES_KEY: Final = "images"
"""Key of the image digests in the metadata of an entry: `{"images": ["sha256:…"]}`."""
MAX_ENTRY_IMAGES: Final = 100
"""Maximum number of images of an entry and of a context: Anthropic accepts as many in a request."""


def make_image_entry(image: Image) -> ImageEntry:
    """Return the entry for `image`."""
    return ImageEntry(
        digest=image.digest, media_type=image.media_type, name=image.name, data=image.text
    )


def make_images_metadata(images: Iterable[Image]) -> dict[str, JsonValue]:
    """Return the metadata of an entry with `images`, or `{}`."""
    digests: list[JsonValue] = [image.digest for image in images]
    return {IMAGES_KEY: digests} if digests else {}


def read_image_digests(entry: Entry) -> list[str]:
    """Return the valid image digests of `entry`."""
    found = entry.metadata.get(IMAGES_KEY)
    if not isinstance(found, list):
        return []
    return [item for item in found if isinstance(item, str)]


class EntryImages(NamedTuple):
    """The images of an entry, and a note for each reason why some are missing."""

    images: tuple[Image, ...] = ()
    notes: tuple[str, ...] = ()


NO_ENTRY_IMAGES: Final = EntryImages()


class RecordedImages:
    """Finds images by digest. An image is decoded when it is first used."""

    def __init__(self) -> None:
        # Entries that were not decoded yet, by digest.
        self._entries: dict[str, list[ImageEntry]] = {}
        # The decoded image, or the reason why it is missing, by digest.
        self._decoded: dict[str, Image | str] = {}

    def add(self, entry: ImageEntry) -> None:
        """Add an entry of the conversation."""
        self._entries.setdefault(entry.digest, []).append(entry)
        if isinstance(self._decoded.get(entry.digest), str):
            del self._decoded[entry.digest]  # the previous entry was damaged

    def find(self, digest: str) -> Image | None:
        """Return the image with that digest, or None if it is missing or damaged."""
        found = self._load(digest)
        return found if isinstance(found, Image) else None

    def images_of(self, entry: Entry) -> EntryImages:
        """Return the images of `entry`, in order."""
        digests = read_image_digests(entry)
        if not digests:
            return NO_ENTRY_IMAGES

        found = [self._load(digest) for digest in digests[:MAX_ENTRY_IMAGES]]
        reasons = Counter(item for item in found if isinstance(item, str))

        if len(digests) > MAX_ENTRY_IMAGES:
            reasons[f"one entry shows at most {MAX_ENTRY_IMAGES}"] += (
                len(digests) - MAX_ENTRY_IMAGES
            )

        notes: list[str] = []
        for why, count in reasons.items():
            noun = "image" if count == 1 else "images"
            notes.append(format_omission_note(f"{count} {noun}", why))

        images = tuple(item for item in found if isinstance(item, Image))
        return EntryImages(images, tuple(notes))

    def _load(self, digest: str) -> Image | str:
        """Return the image with this digest, or the reason why it is missing."""
        known = self._decoded.get(digest)
        if known is not None:
            return known

        result: Image | str = "the record does not contain it"
        for number, entry in enumerate(self._entries.pop(digest, [])):
            image_or_reason = _decode_image(entry)
            if isinstance(image_or_reason, Image):
                result = image_or_reason
                break
            if number == 0:  # the reason is that of the first entry
                result = image_or_reason

        self._decoded[digest] = result
        return result


def format_omission_note(what: str, why: str) -> str:
    """Return the text that replaces images for the model. `what` is their number: `2 images`."""
    return f"[{what} omitted, because {why}]"


def _decode_image(entry: ImageEntry) -> Image | str:
    """Return the image in `entry`, or the reason why it cannot be used."""
    if len(entry.data) > MAX_IMAGE_BYTES * 4 // 3 + 4:  # 4 characters of Base64 have 3 bytes
        return f"its record is longer than {MAX_IMAGE_BYTES} bytes"

    try:
        content = base64.b64decode(entry.data, validate=True)
    except (binascii.Error, ValueError):
        return "its record is damaged: it is not Base64"

    image = Image(entry.media_type, content, entry.name)
    if image.digest != entry.digest:
        return "its record is damaged: the bytes do not match the digest"

    why = find_image_problem(image)
    return image if why is None else f"its record is damaged: {why}"
