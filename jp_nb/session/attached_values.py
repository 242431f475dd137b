"""Values of the notebook that are attached to requests: `%%jp -a NAME`.

The setting `conversation.attachments` names a value by a URL: `value:df` is the variable `df`. The
cell's thread describes the values when a turn begins, as they are the user's objects. The agent's
thread reads the descriptions.

Source: `docs/guide.md`, `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from jp_nb.agent.provider import Attachment
from jp_nb.config.directives import Directive
from jp_nb.config.tree.attachment_urls import AttachmentParts, parse_attachment_url
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


def resolve_variables(
    directives: Sequence[Directive], namespace: Mapping[str, Any], folder: Path
) -> tuple[list[Directive], list[str]]:
    """Return `directives` with URLs for the variables of `-a`, and notices about the choice.

    A file has priority over a variable of the same name.
    """
    resolved: list[Directive] = []
    notices: list[str] = []

    for directive in directives:
        text = directive.text
        if directive.kind != "attach" or not _names_value(text, namespace):
            resolved.append(directive)
        elif (folder / text).exists():
            resolved.append(directive)
            notice = f"-a {text} attaches the file of that name. To attach the variable, use"
            notices.append(f"{notice} `-a {VALUE_SCHEME}:{text}`")
        else:
            url = AttachmentParts(VALUE_SCHEME, text).url
            resolved.append(replace(directive, text=url))
            name = parse_attachment_url(url).path
            notices.append(f"the variable {name} is attached and described again for each turn")

    return resolved, notices


def _names_value(text: str, namespace: Mapping[str, Any]) -> bool:
    """Return True if `text` is a variable of the notebook, or a part of one: `df.columns`."""
    try:
        read_value_path(text).follow(namespace)
    except ValuePathError:
        return False
    return True
