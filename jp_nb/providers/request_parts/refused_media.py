"""Learn from a server's errors which images and PDFs it refuses.

A conversation would be lost if each later request repeated a file that the server has refused. The
error names the file, or else the newest ones are omitted first. A line of text replaces an omitted
file (`media_filter.py`).

Source: `docs/providers.md` (images and PDFs).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from jp_nb.agent.provider import ModelRequest
from jp_nb.errors import ProviderError
from jp_nb.image_headers import PDF
from jp_nb.images import Image
from jp_nb.providers.network.errors import MEDIA_FAILURES
from jp_nb.providers.request_parts.attachment_parts import as_image
from jp_nb.text import one_line

MAX_REFUSAL_CHARS: Final = 200
"""Length of a server's error in the line that replaces an image or a PDF."""

_STATUSES: Final = (400, 413, 415, 422, *MEDIA_FAILURES)
"""Statuses of refused requests. Some servers use those of `MEDIA_FAILURES`, such as 500."""
_URL: Final = re.compile(r"https?://\S+")
_NO_WORD_BEFORE: Final = r"(?<![a-z0-9_])"
_NO_WORD_AFTER: Final = r"(?![a-z0-9_])"
_IMAGE_WORDS: Final = re.compile(
    rf"{_NO_WORD_BEFORE}(?:images?|image_url|input_image|vision|multi-?modal|mmproj){_NO_WORD_AFTER}"
)
_PDF_WORDS: Final = re.compile(
    rf"{_NO_WORD_BEFORE}(?:pdfs?|documents?|pages?|input_file|file_data){_NO_WORD_AFTER}"
)
_OTHER_WORDS: Final = re.compile(
    rf"{_NO_WORD_BEFORE}(?:files?|media|media_type|mime_?type|base64|inline_?data){_NO_WORD_AFTER}"
)
_PLACE: Final = re.compile(
    r"\b(?:messages|input|contents)\W{1,4}([0-9]{1,7})((?:[.\[\]/'\"]{1,3}\w{1,40}){0,20})"
)
"""Place of a part of a request in an error, such as `messages.0.content.1.pdf.source`."""
_STEP: Final = re.compile(r"\w+")


def format_refusal(error: ProviderError) -> str:
    """Return the error of a server as the reason to omit a file."""
    reason = one_line(error.without_address, limit=MAX_REFUSAL_CHARS)
    # The line that replaces a file is in brackets, such as `[image: …, not sent: REASON]`.
    return reason.replace("[", "(").replace("]", ")").rstrip(". ")


def is_media_refusal(error: ProviderError) -> bool:
    """Return True if the server may have refused a request because of an image or a PDF."""
    # Errors of another kind have another cause, such as the key or a rate limit. But an error 413,
    # that the request is too large, may be about a file whatever its kind is.
    is_refusal = error.kind == "other" or error.status == 413
    if error.status not in _STATUSES or not is_refusal:
        return False

    text = _read_words(error)
    return any(words.search(text) for words in (_IMAGE_WORDS, _PDF_WORDS, _OTHER_WORDS))


def _read_words(error: ProviderError) -> str:
    """Return the text of an error in lower case, without URLs, whose words tell nothing.

    Neither the address of the server nor other URLs remain, such as one of a documentation page.
    """
    return _URL.sub(" ", error.without_address.lower())


@dataclass(frozen=True, slots=True)
class _SentFile:
    """An image or a PDF of a request.

    Attributes:
        image: The file.
        group: Files of the same group are omitted together: those of one item of the context have
            its position, and an attachment has its digest.
    """

    image: Image
    group: int | str


class RefusedMedia:
    """The images and PDFs that a server has refused, for each model."""

    def __init__(self) -> None:
        self._reasons: dict[str, Mapping[str, str]] = {}  # by model, then by digest
        # The request that was refused last, and what was tried for it:
        self._request: ModelRequest | None = None
        self._guesses: list[str] = []  # digests of omitted files that no error has named
        self._attempts = 0

    def of(self, model: str) -> Mapping[str, str]:
        """Return the reasons for `model`, by digest. The mapping never changes."""
        return self._reasons.get(model, MappingProxyType({}))

    def omit(
        self, error: ProviderError, request: ModelRequest, messages: Sequence[bytes]
    ) -> list[Image]:
        """Return the files that requests omit from now on because of `error`.

        `messages` are those of the refused request.

        - If the error names a message, the files in it are omitted.
        - If not, the newest files are guessed: those of one item of the context, and of more items
          with each further error of this request.
        - If all files are omitted in vain, they had no part in the error. Later requests have the
          guessed ones again.
        """
        if self._request is not request:
            self._request = request
            self._guesses = []
            self._attempts = 0

        files = self._choose_files(error, request, messages)
        reasons = self.of(request.model)

        if files:
            # The caller sends the request again without them.
            refused = {file.image.digest: format_refusal(error) for file in files}
            self._reasons[request.model] = {**reasons, **refused}
        elif self._guesses:  # all files were omitted in vain
            self._reasons[request.model] = {
                digest: reason for digest, reason in reasons.items() if digest not in self._guesses
            }
            self._guesses = []
        return list({file.image.digest: file.image for file in files}.values())

    def _choose_files(
        self, error: ProviderError, request: ModelRequest, messages: Sequence[bytes]
    ) -> list[_SentFile]:
        """Return the files that the error names, or else the next guess; see `omit`."""
        parsed = [json.loads(message) for message in messages]
        known = _list_known_files(request)

        named_part = _find_named_part(error, parsed)
        if named_part is not None:
            return _select_kind(error, _find_files(named_part, known))

        files = _select_kind(error, _find_files(parsed, known))
        guessed = _select_newest(files, self._attempts)
        self._attempts += 1
        self._guesses += [file.image.digest for file in guessed]
        return guessed


def _list_known_files(request: ModelRequest) -> dict[str, _SentFile]:
    """Return the files that `request` may contain, by their Base64."""
    known: dict[str, _SentFile] = {}
    for position, item in enumerate(request.context):
        for image in item.images:
            known[image.text] = _SentFile(image, group=position)

    for attachment in (*request.context.contents.values(), *request.attachments):
        attached = as_image(attachment)
        if attached is not None:
            known[attached.text] = _SentFile(attached, group=attached.digest)
    return known


def _find_named_part(error: ProviderError, messages: Sequence[Any]) -> Any:
    """Return the part of `messages` that the error names; None if it names none."""
    named = _PLACE.search(error.without_address)
    if named is None or int(named[1]) >= len(messages):
        return None

    part = messages[int(named[1])]
    for step in _STEP.findall(named[2]):
        if isinstance(part, list) and step.isdecimal() and int(step) < len(part):
            part = part[int(step)]
        elif isinstance(part, dict) and isinstance(part.get(step), dict | list):
            part = part[step]

    return part


def _find_files(part: Any, known: Mapping[str, _SentFile]) -> list[_SentFile]:
    """Return the files in a part of a request, in their order."""
    texts = (text.rpartition(",")[2] for text in _iter_texts(part))  # without `data:…;base64,`
    return [known[text] for text in texts if text in known]


def _iter_texts(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON value, in their order."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            pending.extend(reversed(part.values()))
        elif isinstance(part, list):
            pending.extend(reversed(part))


def _select_kind(error: ProviderError, files: Iterable[_SentFile]) -> list[_SentFile]:
    """Return the images or the PDFs of `files` if the error speaks only of one kind."""
    files = list(files)
    text = _read_words(error)
    is_about_images = _IMAGE_WORDS.search(text) is not None
    is_about_pdfs = _PDF_WORDS.search(text) is not None
    if is_about_images == is_about_pdfs:
        return files
    return [file for file in files if (file.image.media_type == PDF) == is_about_pdfs] or files


def _select_newest(files: Sequence[_SentFile], attempts: int) -> list[_SentFile]:
    """Return the files of the last groups, after a number of `attempts` without success.

    `files` has no omitted ones. The attempts omit 1, 1, 2, 4 groups, and so on, so that a request
    with many files is not sent many times.
    """
    groups = list(dict.fromkeys(file.group for file in reversed(files)))
    count = 2 ** max(attempts - 1, 0)
    newest = set(groups[:count])
    return [file for file in files if file.group in newest]
