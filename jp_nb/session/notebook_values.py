"""Attach variables to a request, and replace `{{name}}` in its text.

The cell's thread describes the variables when a turn begins, and the agent's thread reads the
result.

Source: `docs/values.md`, `docs/decisions.md` D85, `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from jp_nb.agent.provider import Attachment
from jp_nb.config.directives import Directive
from jp_nb.config.tree.app import AttachmentParts, parse_attachment_url
from jp_nb.errors import UsageError
from jp_nb.images import Image
from jp_nb.storage.attachments import AttachmentError
from jp_nb.values.base import Description, ValueBudget
from jp_nb.values.describe import describe
from jp_nb.values.expressions import (
    NoSuchName,
    NotAValuePath,
    ValuePathError,
    read_value_path,
)

VALUE: Final = "value"
LATER: Final = "(Attached during the turn. The description follows in the next turn.)"


class AttachedValues:
    """What was said of each attached value when the turn began."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[Attachment, ...] | AttachmentError] = {}

    def describe(
        self, urls: Sequence[str], namespace: Mapping[str, Any], budget: ValueBudget
    ) -> None:
        """Describe what `urls` name, on the cell's thread; what cannot be is an error of `of`."""
        self._told = {url: _told(url, namespace, budget) for url in urls if is_value(url)}

    def get(self, url: str) -> tuple[Attachment, ...]:
        """Return what was said of the value that `url` names: its text, then its images.

        Raises:
            AttachmentError: If there was no such value.
        """
        told = self._told.get(url)
        if told is None:
            return (Attachment(parse_attachment_url(url).path, "text/plain", LATER),)
        if isinstance(told, AttachmentError):
            raise told
        return told


def is_value(url: str) -> bool:
    """Return True if `url` names a value of the notebook, and not a file."""
    return parse_attachment_url(url).type.lower() == VALUE


def _told(
    url: str, namespace: Mapping[str, Any], budget: ValueBudget
) -> tuple[Attachment, ...] | AttachmentError:
    expression = parse_attachment_url(url).path
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


def resolve_variables(
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
                f"the variable {parse_attachment_url(url).path} is attached and described "
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


def interpolate(text: str, namespace: Mapping[str, Any], budget: ValueBudget) -> Description:
    r"""Return `text` with the values of names in place of their expressions, and their images.

    Those are `{{name}}`, `{{name.attr}}`, `{{name["key"]}}`, `{{name[0]}}` and `{{name[1:5]}}`. A
    text is put in as it is, any other value as `describe` has it, each within `budget`. `\{{`
    stands for itself, single braces are never touched.

    Raises:
        UsageError: If a name is unknown, a part of it is missing, or it is no such expression.
    """
    images: list[Image] = []

    def value(expression: str) -> str:
        said = describe(evaluate(expression, namespace), budget, name=expression)
        images.extend(image for image in said.images if image not in images)
        return said.text

    lines = ["".join(_replaced(line, value)) for line in text.split("\n")]
    return Description("\n".join(lines), tuple(images))


def _replaced(line: str, value: Callable[[str], str]) -> Iterator[str]:
    """Yield `line` in pieces, each expression replaced; braces that nothing closes stay."""
    at, last = 0, line.rfind("}}")
    while (start := line.find("{{", at)) >= 0:
        if line[at:start].endswith("\\"):
            yield f"{line[at : start - 1]}{{{{"
            at = start + 2
        elif start + 2 > last:
            break
        else:
            end = line.find("}}", start + 2)
            yield line[at:start] + value(line[start + 2 : end].strip())
            at = end + 2
    yield line[at:].replace("\\{{", "{{")


def evaluate(expression: str, namespace: Mapping[str, Any]) -> Any:
    """Return the value of a name with attributes and subscripts; nothing is called."""
    try:
        return read_value_path(expression).follow(namespace)
    except NotAValuePath as exc:
        raise _not_a_name(str(exc)) from None
    except NoSuchName as exc:
        raise UsageError(f"{{{{{expression}}}}}: {exc} (write \\{{{{ for literal braces)") from None
    except ValuePathError as exc:
        raise UsageError(f"{{{{{expression}}}}}: {exc}") from exc


def _not_a_name(expression: str) -> UsageError:
    return UsageError(
        f"{{{{{expression}}}}} is not a name. Write a name with attributes and subscripts, such as "
        r"{{table.columns}} or {{rows[0]}}. Function calls are not possible. Write \{{ for literal "
        "braces"
    )
