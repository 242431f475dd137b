"""Read images and PDFs for prompts: from bytes, files of the workspace, and Python values.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from jp_nb.errors import UsageError
from jp_nb.file_reading import describe_os_error, open_regular
from jp_nb.image_headers import detect_media_type
from jp_nb.images import Image, find_image_problem
from jp_nb.values.base import ValueBudget
from jp_nb.values.describe import describe

MAX_PROMPT_FILE_BYTES: Final = 20_000_000
"""Largest file of one image or PDF. Servers accept less."""


class PromptError(UsageError):
    """A row has no usable prompt."""


def read_images(given: Any, folder: Path) -> tuple[Image, ...]:
    """Return the images and PDFs of `given`: None, a single one, or a list or tuple of several.

    A single one is a `jp.Image`, bytes, the path of a file in `folder`, or a value that shows an
    image, such as a PIL image or a figure.

    Raises:
        PromptError: One of them is not an image that models accept; the message names it.
    """
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        return _read_one(given, folder)

    images: list[Image] = []
    for item in given:
        images += read_images(item, folder)
    return tuple(images)


def _read_one(value: Any, folder: Path) -> tuple[Image, ...]:
    """Return the image of a single `value`. A value such as a figure may show several."""
    if isinstance(value, Image):
        images: tuple[Image, ...] = (value,)
    elif isinstance(value, bytes | bytearray):
        images = (_make_image(bytes(value), "the bytes"),)
    elif isinstance(value, str | os.PathLike):
        images = (_read_file(Path(os.fspath(value)), folder),)
    else:
        images = describe(value, ValueBudget()).images

    if not images:
        kind = type(value).__name__
        raise PromptError(
            f"a value of type {kind} is no image. Give bytes, a path, a PIL image, or a figure"
        )
    for image in images:
        problem = find_image_problem(image)
        if problem is not None:
            raise PromptError(f"the {image.noun} {image.words} cannot be sent: {problem}")
    return images


def _read_file(path: Path, folder: Path) -> Image:
    full = (folder / path).resolve()
    if not full.is_relative_to(folder.resolve()):
        raise PromptError(f"{path} is outside of the workspace {folder}")

    try:
        with os.fdopen(open_regular(full), "rb") as file:
            content = file.read(MAX_PROMPT_FILE_BYTES + 1)
    except OSError as exc:
        raise PromptError(f"{path} cannot be read: {describe_os_error(exc)}") from exc

    if len(content) > MAX_PROMPT_FILE_BYTES:
        raise PromptError(f"{path} has more than {MAX_PROMPT_FILE_BYTES // 1_000_000} MB")
    return _make_image(content, str(path), full.name)


def _make_image(content: bytes, origin: str, name: str = "") -> Image:
    media_type = detect_media_type(content)
    if media_type is None:
        raise PromptError(f"{origin}: models accept PNG, JPEG, GIF, and WebP images, and PDFs")
    return Image(media_type, content, name)
