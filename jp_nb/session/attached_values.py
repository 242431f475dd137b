"""Values of the notebook that are attached to requests: `%%jp -a NAME`.

The setting `conversation.attachments` names a value by a URL: `value:df` is the variable `df`. The
cell's thread describes the values when a turn begins, as they are the user's objects. The agent's
thread reads the descriptions.

Source: `docs/guide.md`, `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jp_nb.agent.provider import Attachment
from jp_nb.config.tree.attachment_urls import parse_attachment_url
from jp_nb.storage.attachments import AttachmentError
from jp_nb.values.base import ValueBudget
from jp_nb.values.describe import describe
from jp_nb.values.value_path import ValuePathError, read_value_path

VALUE_SCHEME: Final = "value"
NOT_DESCRIBED_YET: Final = "(Attached during the turn. The description follows in the next turn.)"


class AttachedValues:
    """Descriptions of the attached values, made when the turn began."""

    def __init__(self) -> None:
        # By URL: the description, or the error that `get` raises.
        self._descriptions: dict[str, tuple[Attachment, ...] | AttachmentError] = {}

    def describe(
        self, urls: Sequence[str], namespace: Mapping[str, Any], budget: ValueBudget
    ) -> None:
        """Describe the values of `urls`, on the cell's thread; `get` raises the errors."""
        self._descriptions = {
            url: _describe_value(url, namespace, budget) for url in urls if is_value(url)
        }

    def get(self, url: str) -> tuple[Attachment, ...]:
        """Return text and images of the value that `url` names.

        Raises:
            AttachmentError: It could not be described.
        """
        description = self._descriptions.get(url)
        if description is None:
            return (Attachment(parse_attachment_url(url).path, "text/plain", NOT_DESCRIBED_YET),)
        if isinstance(description, AttachmentError):
            raise description
        return description


def is_value(url: str) -> bool:
    """Return True if `url` is of a notebook value, not a file."""
    return parse_attachment_url(url).type.lower() == VALUE_SCHEME


def _describe_value(
    url: str, namespace: Mapping[str, Any], budget: ValueBudget
) -> tuple[Attachment, ...] | AttachmentError:
    """Return the text and the images of a value, or the error, which is raised when it is used."""
    expression = parse_attachment_url(url).path
    try:
        value = read_value_path(expression).follow(namespace)
    except ValuePathError as exc:
        return AttachmentError(url, f"the value {expression!r} cannot be attached: {exc}")

    description = describe(value, budget, name=expression)
    images = [
        Attachment(f"{expression}, {image.noun} {number}", image.media_type, image.content)
        for number, image in enumerate(description.images, 1)
    ]

    return (Attachment(expression, "text/plain", description.text), *images)
