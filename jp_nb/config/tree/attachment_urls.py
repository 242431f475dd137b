r"""URLs of attachments, such as `file://notes.md`, and their parts.

The type of a URL has at least two characters, because `C:\notes.md` is a path. A text in no known
form is a `ValueError` with the accepted forms.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode

from jp_nb.config.tree.value_errors import UnexpectedValueError

_URL = re.compile(r"(?P<type>[A-Za-z][A-Za-z0-9+._-]+):(//)?(?P<rest>\S.*)", re.S)
_SAFE = "/:@!$&'()*+,;=~[]"


@dataclass(frozen=True, slots=True)
class AttachmentParts:
    """Parts of an attachment's URL. A parameter that is given twice has a list of values."""

    type: str
    path: str
    params: dict[str, str | list[str]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The URL."""
        address = f"{self.type}://{quote(self.path, safe=_SAFE)}"
        query = urlencode(self.params, doseq=True, quote_via=quote)
        return f"{address}?{query}" if query else address


def parse_attachment_url(url: str) -> AttachmentParts:
    """Return the parts of `url`, without the escapes of URLs."""
    match = _URL.fullmatch(url)
    if match is None:
        raise UnexpectedValueError("a URL such as file://notes.md", url)

    path, _, query = match["rest"].partition("?")
    values = parse_qs(query, keep_blank_values=True)

    params: dict[str, str | list[str]] = {}
    for name, texts in values.items():
        params[name] = texts[0] if len(texts) == 1 else texts

    return AttachmentParts(match["type"], unquote(path), params)


def is_path_in_workspace(url: str) -> bool:
    """Return True if `url` names a file below the workspace's folder, without resolving links."""
    try:
        parts = parse_attachment_url(url)
    except ValueError:
        return False

    path = posixpath.normpath(parts.path.replace("\\", "/"))
    is_outside = path.startswith(("/", "~")) or path == ".." or path.startswith("../")
    has_drive = ":" in path.partition("/")[0]
    return parts.type.lower() == "file" and not is_outside and not has_drive


def format_attachment_url(value: Any) -> str:
    """Return the URL of an attachment: a URL, or a table of type (or kind), path, and params."""
    if isinstance(value, AttachmentParts):
        return value.url
    if isinstance(value, str):
        parse_attachment_url(value)  # raises for a text that is no URL
        return value
    if not isinstance(value, dict):
        raise UnexpectedValueError(
            "a URL such as file://notes.md, or a table of type, path, and params", value
        )

    has_both = "kind" in value and "type" in value
    table = dict(value)
    if "kind" in value:
        table["type"] = table.pop("kind")

    unknown = [str(key) for key in table if key not in ("type", "path", "params")]
    if unknown or has_both:
        problem = f"unknown key {unknown[0]!r}" if unknown else "type and kind are both given"
        raise UnexpectedValueError("type, path, and params", cause=problem)

    for key in ("type", "path"):
        if not isinstance(table.get(key), str) or not table[key]:
            raise UnexpectedValueError(f"a text for {key!r}", table.get(key))

    params = {} if table.get("params") is None else table["params"]
    if not _are_params(params):
        raise ValueError("expected for 'params' a table of texts and lists of texts")

    url = AttachmentParts(table["type"], table["path"], params).url
    parse_attachment_url(url)  # raises for a type that is not valid in a URL
    return url


def _are_params(params: Any) -> bool:
    """Return True for a table of texts and lists of texts."""
    if not isinstance(params, dict):
        return False

    texts: list[Any] = []
    for value in params.values():
        texts += value if isinstance(value, list) else [value]
    return all(isinstance(text, str) for text in texts)


def parse_attachment_argument(text: str, *, within: str = "") -> str:
    """Return the URL for the argument `text` of `-a`: a URL, or the path of a file.

    A relative path is relative to the folder `within` of the workspace.
    """
    if not text.strip():
        raise ValueError("expected the path of a file, or a URL such as file://notes.md")

    if _URL.fullmatch(text):
        return text
    if text.startswith("~"):
        return AttachmentParts("file", text).url

    path = posixpath.normpath(posixpath.join(within, text))
    if path.startswith("~"):
        path = f"./{path}"  # a file of this name, not a home folder

    return AttachmentParts("file", path).url
