"""Variables of the notebook that are attached to its conversation: `value:EXPRESSION`.

They are described on the cell's thread when a turn begins, and the agent reads what was said.

Source: `docs/values.md`, `docs/decisions.md` D85.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from jp_nb.agent.model_events import Attachment
from jp_nb.config.directives import Directive
from jp_nb.config.tree.attachment_url import AttachmentParts, attachment_parts
from jp_nb.values.describing import describe
from jp_nb.values.description import ValueBudget
from jp_nb.values.value_path import ValuePathError, read_value_path
from jp_nb.workspace.attachment_files import AttachmentError

VALUE: Final = "value"
LATER: Final = "(Attached during the turn. The description follows in the next turn.)"


class AttachedValues:
    """What was said of each attached value when the turn began."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[Attachment, ...] | AttachmentError] = {}

    def look(self, urls: Sequence[str], namespace: Mapping[str, Any], budget: ValueBudget) -> None:
        """Describe what `urls` name, on the cell's thread; what cannot be is an error of `of`."""
        self._told = {url: _told(url, namespace, budget) for url in urls if is_value(url)}

    def of(self, url: str) -> tuple[Attachment, ...]:
        """Return what was said of the value that `url` names: its text, then its images.

        Raises:
            AttachmentError: If there was no such value.
        """
        told = self._told.get(url)
        if told is None:
            return (Attachment(attachment_parts(url).path, "text/plain", LATER),)
        if isinstance(told, AttachmentError):
            raise told
        return told


def is_value(url: str) -> bool:
    """Return True if `url` names a value of the notebook, and not a file."""
    return attachment_parts(url).type.lower() == VALUE


def _told(
    url: str, namespace: Mapping[str, Any], budget: ValueBudget
) -> tuple[Attachment, ...] | AttachmentError:
    expression = attachment_parts(url).path
    try:
        value = read_value_path(expression).follow(namespace)
    except ValuePathError as exc:
        return AttachmentError(url, f"the value {expression!r} cannot be attached: {exc}")
    said = describe(value, budget, name=expression)
    images = [
        Attachment(f"{expression}, image {number}", image.media_type, image.content)
        for number, image in enumerate(said.images, 1)
    ]
    return (Attachment(expression, "text/plain", said.text), *images)


def choose_variables(
    directives: Sequence[Directive], namespace: Mapping[str, Any], folder: Path
) -> tuple[list[Directive], list[str]]:
    """Return `directives` with the variables that `-a` names as URLs, and what was chosen.

    A file goes before a variable of the same name.
    """
    chosen, notices = [], []
    for directive in directives:
        url = _variable(directive, namespace)
        if url is not None and (folder / directive.text).exists():
            notices.append(
                f"-a {directive.text} attaches the file of that name. To attach the "
                f"variable, use `-a {VALUE}:{directive.text}`"
            )
        elif url is not None:
            directive = replace(directive, text=url)
            notices.append(
                f"the variable {attachment_parts(url).path} is attached and described "
                "again for each turn"
            )
        chosen.append(directive)
    return chosen, notices


def _variable(directive: Directive, namespace: Mapping[str, Any]) -> str | None:
    """Return the URL of the variable that `-a` names; None if it names none."""
    if directive.kind != "attach":
        return None
    try:
        read_value_path(directive.text).follow(namespace)
    except ValuePathError:
        return None
    return AttachmentParts(VALUE, directive.text).url
