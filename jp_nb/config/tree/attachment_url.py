"""Attachments of a request, as URLs: `type://path?name=value`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, unquote, urlencode

from jp_nb.config.tree.node import before, found

_URL = re.compile(r"(?P<type>[A-Za-z][A-Za-z0-9+._-]+):(//)?(?P<rest>\S.*)", re.S)
_SAFE = "/:@!$&'()*+,;=~[]"
_FIELDS = ("type", "path", "params")


@dataclass(frozen=True, slots=True)
class AttachmentParts:
    """An attachment taken apart. A parameter that is given twice has a list of values."""

    type: str
    path: str
    params: dict[str, str | list[str]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The same as a URL."""
        query = urlencode(self.params, doseq=True, quote_via=quote)
        return f"{self.type}://{quote(self.path, safe=_SAFE)}{'?' if query else ''}{query}"


def attachment_parts(url: str) -> AttachmentParts:
    """`url` taken apart.

    Raises:
        ValueError: If it is no URL.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError(f"expected a URL such as file://notes.md, {found(url)}")
    path, _, query = match["rest"].partition("?")
    values = parse_qs(query, keep_blank_values=True)
    params: dict[str, str | list[str]] = {
        name: one[0] if len(one) == 1 else one for name, one in values.items()
    }
    return AttachmentParts(match["type"], unquote(path), params)


def attachment_url(value: Any) -> str:
    """The URL that `value` writes: a URL, or a table of type (also: kind), path and params.

    Raises:
        ValueError: If it is neither.
    """
    if isinstance(value, AttachmentParts):
        return value.url
    if isinstance(value, str):
        attachment_parts(value)
        return value
    if not isinstance(value, dict):
        raise ValueError(
            "expected a URL such as file://notes.md, or a table of type, path and params, "
            + found(value)
        )
    table = {"type" if key == "kind" else key: one for key, one in value.items()}
    unknown = [str(key) for key in table if key not in _FIELDS]
    if unknown or len(table) != len(value):
        wrong = f"unknown key {unknown[0]!r}" if unknown else "type and kind are both given"
        raise ValueError(f"{wrong}, expected type, path and params")
    for key in ("type", "path"):
        if not isinstance(table.get(key), str) or not table[key]:
            raise ValueError(f"expected a text for {key!r}, {found(table.get(key))}")
    params = {} if table.get("params") is None else table["params"]
    if not isinstance(params, dict) or not all(_fits(one) for one in params.values()):
        raise ValueError("expected for 'params' a table of texts and lists of texts")
    return attachment_url(AttachmentParts(table["type"], table["path"], params).url)


def attachment_argument(text: str, *, within: str = "") -> str:
    """The URL that somebody means who attaches `text`: a URL, or the path of a file.

    Args:
        text: What was written.
        within: The folder of a relative path, as the configuration would name it.

    Raises:
        ValueError: If it is neither.
    """
    if not text.strip():
        raise ValueError("expected the path of a file, or a URL such as file://notes.md")
    if _URL.fullmatch(text):
        return text
    if text.startswith("~"):
        return AttachmentParts("file", text).url
    path = posixpath.normpath(posixpath.join(within, text))
    return AttachmentParts("file", f"./{path}" if path.startswith("~") else path).url


def _fits(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(one, str) for one in value)
    )


Attachment = Annotated[str, before(attachment_url)]
