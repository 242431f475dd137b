"""Values of the notebook in requests: inserted into the text with `{{name}}`, or attached.

The cell's thread describes the attached variables when a turn begins. The agent's thread reads the
descriptions.

Source: `docs/guide.md`, `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from jp_nb.agent.provider import Attachment
from jp_nb.config.directives import Directive
from jp_nb.config.tree.attachment_urls import AttachmentParts, parse_attachment_url
from jp_nb.errors import UsageError
from jp_nb.images import Image
from jp_nb.storage.attachments import AttachmentError
from jp_nb.values.base import Description, ValueBudget
from jp_nb.values.describe import describe
from jp_nb.values.value_path import NoSuchName, NotAValuePath, ValuePathError, read_value_path

VALUE_SCHEME: Final = "value"
LATER: Final = "(Attached during the turn. The description follows in the next turn.)"


class AttachedValues:
    """Descriptions of the attached values, made when the turn began."""

    def __init__(self) -> None:
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
        later = (Attachment(parse_attachment_url(url).path, "text/plain", LATER),)
        description = self._descriptions.get(url, later)
        if isinstance(description, AttachmentError):
            raise description
        return description


def is_value(url: str) -> bool:
    """Return True if `url` is of a notebook value, not a file."""
    return parse_attachment_url(url).type.lower() == VALUE_SCHEME


def _describe_value(
    url: str, namespace: Mapping[str, Any], budget: ValueBudget
) -> tuple[Attachment, ...] | AttachmentError:
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
    resolved = []
    notices = []

    for directive in directives:
        url = None
        text = directive.text
        if directive.kind == "attach":
            with suppress(ValuePathError):
                read_value_path(text).follow(namespace)
                url = AttachmentParts(VALUE_SCHEME, text).url

        if url is not None and (folder / text).exists():
            notice = f"-a {text} attaches the file of that name. To attach the variable, use"
            notices.append(f"{notice} `-a {VALUE_SCHEME}:{text}`")
        elif url is not None:
            directive = replace(directive, text=url)
            name = parse_attachment_url(url).path
            notices.append(f"the variable {name} is attached and described again for each turn")
        resolved.append(directive)
    return resolved, notices


def interpolate(text: str, namespace: Mapping[str, Any], budget: ValueBudget) -> Description:
    r"""Return `text` with values in place of their expressions, and the images of the values.

    The expressions are `{{name}}`, `{{name.attr}}`, `{{name["key"]}}`, `{{name[0]}}` and
    `{{name[1:5]}}`. A string is inserted as it is, other values are described within `budget`.
    `\{{` is literal, and single braces are unchanged.

    Raises:
        UsageError: A name or a part of it does not exist, or an expression is not valid.
    """
    images: list[Image] = []

    def value(expression: str) -> str:
        description = describe(evaluate(expression, namespace), budget, name=expression)
        images.extend(image for image in description.images if image not in images)
        return description.text

    lines = ["".join(_replace_expressions(line, value)) for line in text.split("\n")]
    return Description("\n".join(lines), tuple(images))


def _replace_expressions(line: str, value: Callable[[str], str]) -> Iterator[str]:
    """Yield the parts of `line` with expressions replaced; unclosed braces stay."""
    at = 0
    last = line.rfind("}}")
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
    """Return the value of a name with attributes and subscripts, without calls."""
    try:
        return read_value_path(expression).follow(namespace)
    except NotAValuePath as exc:
        raise UsageError(
            f"{{{{{exc}}}}} is not a name. Write a name with attributes and subscripts, such as "
            r"{{table.columns}} or {{rows[0]}}. Function calls are not possible. Write \{{ for "
            "literal braces"
        ) from None
    except NoSuchName as exc:
        raise UsageError(f"{{{{{expression}}}}}: {exc} (write \\{{{{ for literal braces)") from None
    except ValuePathError as exc:
        raise UsageError(f"{{{{{expression}}}}}: {exc}") from exc
