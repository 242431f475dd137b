"""Attachments, before a protocol spells them out.

A turn of a hundred cycles sends the same attachments a hundred times; they are encoded once.
Source: `docs/providers.md`.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jp_nb.agent.model_events import Attachment
from jp_nb.image import MEDIA_TYPES
from jp_nb.providers.parameters import Warnings

PDF: Final = "application/pdf"
IMAGES: Final = frozenset(MEDIA_TYPES)
KEPT: Final = 2  # those of the conversation, and of another one beside it

_MARKUP: Final = re.compile("[<>&]")
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Attached:
    """Attachments in a provider's form.

    Attributes:
        messages: What is sent before the thread: one encoded message, or none.
        system: What ends the system texts; "" for nothing.
        skipped: What is not sent, each with the reason.
        front: What the first user message begins with: encoded parts with commas between.
    """

    messages: tuple[bytes, ...] = ()
    system: str = ""
    skipped: tuple[tuple[Attachment, str], ...] = ()
    front: bytes = b""

    def warn(self, warnings: Warnings, *, conversation_id: str) -> None:
        """Say what is not sent."""
        for attachment, reason in self.skipped:
            place = f"conversation.attachments[{attachment.source!r}] ({attachment.media_type})"
            warnings.not_sent(place, reason, conversation_id=conversation_id)


class AttachedOnce:
    """The attachments that were sent last, in a provider's form, found by identity."""

    def __init__(self, make: Callable[[tuple[Attachment, ...]], Attached]) -> None:
        self._make = make
        self._kept: list[tuple[tuple[Attachment, ...], Attached]] = []

    def of(self, attachments: tuple[Attachment, ...]) -> Attached:
        """`attachments` as they are sent."""
        known = next((entry for entry in self._kept if entry[0] is attachments), None)
        entry = known or (attachments, self._make(attachments))
        others = [other for other in self._kept if other is not entry]
        self._kept = [*others, entry][-KEPT:]
        return entry[1]


def sort_out(
    attachments: Sequence[Attachment], media_types: frozenset[str]
) -> tuple[list[Attachment], tuple[tuple[Attachment, str], ...]]:
    """Return what can be sent where texts and `media_types` can, and the rest with the reasons."""
    sent: list[Attachment] = []
    skipped: list[tuple[Attachment, str]] = []
    for attachment in attachments:
        if isinstance(attachment.content, bytes) and attachment.media_type not in media_types:
            words = ", ".join(("text", *sorted(media_types)))
            skipped.append((attachment, f"this provider accepts only {words}"))
        elif attachment.content == b"":
            skipped.append((attachment, "it is empty"))
        else:
            sent.append(attachment)
    return sent, tuple(skipped)


def name_of(attachment: Attachment) -> str:
    """The source as a text that no API refuses for being blank."""
    return attachment.source if attachment.source.strip() else "(no name)"


def base64_text(content: bytes) -> str:
    """`content` as it stands in JSON."""
    return base64.b64encode(content).decode("ascii")


def documents_xml(attachments: Sequence[Attachment]) -> str:
    """The texts among `attachments` as one XML text; "" if there are none.

    Shape:
        <documents>
        <document>
        <index>1</index>
        <source>notes.md</source>
        <content><![CDATA[a < b]]></content>
        </document>
        </documents>

    It is well-formed whatever the texts hold, so that none passes for several: what XML has no
    place for, such as NUL, becomes U+FFFD.
    """
    texts = [(a.source, a.content) for a in attachments if isinstance(a.content, str)]
    if not texts:
        return ""
    documents = "".join(
        f"<document>\n<index>{index}</index>\n"
        f"<source>{html.escape(_characters(source), quote=False)}</source>\n"
        f"<content>{_content(_characters(text))}</content>\n</document>\n"
        for index, (source, text) in enumerate(texts, start=1)
    )
    return f"<documents>\n{documents}</documents>"


def _characters(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def _content(text: str) -> str:
    if not _MARKUP.search(text):
        return text
    return "<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>") + "]]>"
