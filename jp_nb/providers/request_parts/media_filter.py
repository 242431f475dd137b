"""Replace the images and PDFs that a request does not contain by lines of text.

A file is omitted if the API takes none of its type, if the server has refused it, or if a request
would have too many pages. The model reads, for example:

    [image: figure 1, image/png 640×480, not sent: this provider takes no images]

The user gets a notice about the files in `omitted`. `Image.noun` is `image` or `PDF`, and
`Image.words` its name, type, and size.

Source: `docs/providers.md` (images and PDFs).
"""

from __future__ import annotations

from collections.abc import Sequence

from jp_nb.agent.provider import Attachment
from jp_nb.images import Image
from jp_nb.providers.request_parts.attachment_parts import (
    IMAGE_TYPES,
    as_image,
    split_attachments,
)
from jp_nb.providers.request_parts.media_rules import MediaRules
from jp_nb.providers.request_parts.omission_reports import Omitted


class MediaFilter:
    """Filters the files of one conversation, in the order in which requests have them.

    Requests of a conversation begin with the same attachments (`replace_attachments`), which come
    before the messages. A later request may append others (`replace_added`, `keep_added`). Images
    in messages are replaced one message after another (`replace_images`).

    Attributes:
        media_types: The types that the API accepts. Servers show the pages of a PDF as images, so
            an API without images gets no PDFs.
        rules: The rules of the model.
        omitted: The omitted images, PDFs, and attachments by their names for the user, each with
            the reason.
    """

    def __init__(self, media_types: frozenset[str]) -> None:
        self.media_types = media_types
        self.rules = MediaRules()
        self.omitted: Omitted = {}
        takes_images = media_types >= IMAGE_TYPES
        self._shown_types = media_types if takes_images else frozenset()
        self._page_count = 0  # of the PDFs in the messages so far, as far as it is known

    def replace_images(self, text: str, images: Sequence[Image]) -> tuple[str, Sequence[Image]]:
        """Return the `text` of a message with lines about omitted `images`, and the others."""
        sent: list[Image] = []
        lines: list[str] = []

        for image in images:
            reason = self._find_omission(image, self._page_count)
            if reason:
                lines.append(_format_omission_line(image, reason))
            else:
                sent.append(image)
                self._page_count += image.pages or 0

        if not lines:
            return text, images
        if text.strip():
            lines.insert(0, text)
        return "\n".join(lines), sent

    def replace_attachments(self, attachments: Sequence[Attachment]) -> tuple[Attachment, ...]:
        """Return `attachments` of the first request, with a text for each file to omit.

        They come before the messages, so no pages are before them. Theirs do not count for the
        messages. Files of a type that the API does not take stay here: when the provider encodes
        them, it omits and reports them (`split_attachments`).
        """
        replaced, _ = self._replace(attachments, pages_before=0)
        return replaced

    def replace_added(self, attachments: Sequence[Attachment]) -> tuple[Attachment, ...]:
        """Return `attachments` after the messages so far, with a text for each file to omit.

        Their pages count from `keep_added` on: a request that is only prepared may never be sent.
        """
        # Files of a type that the API does not take are omitted when the provider encodes the added
        # ones, but without a report. So they are reported here.
        _, omitted = split_attachments(attachments, self.media_types)
        self.omitted.update(omitted)
        replaced, _ = self._replace(attachments, pages_before=self._page_count)
        return replaced

    def keep_added(self, attachments: Sequence[Attachment]) -> None:
        """Count the pages of `attachments`, which are among the messages from now on."""
        _, self._page_count = self._replace(attachments, pages_before=self._page_count)

    def _replace(
        self, attachments: Sequence[Attachment], *, pages_before: int
    ) -> tuple[tuple[Attachment, ...], int]:
        """Return `attachments` with a text for each file to omit, and the number of pages so far.

        `pages_before` is the number of pages of the PDFs before them.
        """
        pages = pages_before
        sent: list[Attachment] = []
        for attachment in attachments:
            image = as_image(attachment)  # None for a text
            if image is None or image.media_type not in self._shown_types:
                sent.append(attachment)
                continue

            reason = self._find_omission(image, pages)
            if reason:
                line = _format_omission_line(image, reason)
                sent.append(Attachment(attachment.source, "text/plain", line))
            else:
                sent.append(attachment)
                pages += image.pages or 0

        return tuple(sent), pages

    def _find_omission(self, image: Image, pages_before: int) -> str:
        """Return the reason to send a text instead of `image`; "" to send it."""
        if image.media_type in self._shown_types:
            reason = self.rules.find_omission_reason(image, pages_before)
        else:
            reason = f"this provider takes no {image.noun}s"
        if reason:
            self.omitted.setdefault(name_medium(image), reason)
        return reason


def _format_omission_line(image: Image, reason: str) -> str:
    """Return the line that replaces `image` in a request."""
    return f"[{image.noun}: {image.words}, not sent: {reason}]"


def name_medium(image: Image) -> str:
    """Return the name of an image or a PDF for the user."""
    return f"{image.noun} ({image.words})"
