"""Make the text of Markdown outside of code safe: no HTML, and only known links and images.

Front ends load an image without a click of the user, so an image of a host that the user has not
allowed becomes a link.

Source: `docs/decisions.md` D32; https://spec.commonmark.org/0.31.2/#links.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection

# `*+` and `{3,}+` never try a shorter match, so that each search is linear.

# Backticks or tildes that may start a block of code, and the text after them, which begins with the
# language of the block.
_INFO = re.compile(r"([`~]{3,}+)([^`~]*+)")
_NO_LETTER = re.compile(r"[\s\ufeff\\]+")  # what a parser may ignore in the name of a language
# The middle of a link to an address that is not allowed.
_LINK = re.compile(r"\]\((?!\s*(?:https?://|mailto:))", re.IGNORECASE)
# The backslash of a TeX command that makes links, styles, or other commands.
_TEX = re.compile(
    r"\\(?=(?:href|url|class|cssId|style|data|texttip|bbox|mmlToken|require|unicode"
    r"|[gex]?def|(?:re)?newcommand|providecommand|newenvironment|let"
    r"|html(?:Class|Id|Style|Data)|includegraphics)\b)"
)
# An image `![alt](url "title")` whose parts have no other markup, so that all parsers agree on it.
_PICTURE = (
    r"!\[(?P<alt>[^][<>&`\\!]*+)\]"
    r"\((?P<url>https?://(?:[^][\s()<>\"'`\\]|\([^][\s()<>\"'`\\]*+\))++)"
    r"(?:[ \t]++(?:\"[^\"<>&`\\]*+\"|'[^'<>&`\\]*+'))?\)"
)
_IMAGE = re.compile(
    rf"(?P<badge>\[)?{_PICTURE}(?(badge)(?P<link>\]\((?=https?://|mailto:)))|!\[", re.IGNORECASE
)
"""An image that every parser finds, also as the text of a link; or only the `![` of another one."""
_MARKUP = "[]<\\`~"
"""Characters of which `sanitize_text` changes some."""
_HOST = re.compile(r"https?://([a-z0-9._-]+(?::[0-9]+)?)(?:[/?#]|\Z)", re.IGNORECASE)


def sanitize_text(text: str, image_hosts: Collection[str]) -> str:
    """Return text outside of code without HTML, unsafe links, and images of other hosts.

    `image_hosts` are the allowed ones, as `name` or `name:port` in small letters.
    """
    if not any(sign in text for sign in _MARKUP):
        return text

    pieces: list[str] = []
    last_end = 0
    for image in _IMAGE.finditer(text):
        before = _disable_markup(text[last_end : image.start()])
        space = " " if before.endswith("]") else ""  # `](` would be a link
        pieces += [before, space, _render_image(image, image_hosts)]
        last_end = image.end()

    pieces.append(_disable_markup(text[last_end:]))
    return "".join(pieces)


def _disable_markup(text: str) -> str:
    """Return text without diagrams, HTML, unsafe TeX commands, and unsafe links."""
    without_tags = disable_diagrams(text).replace("<", "&lt;")
    without_tex = _TEX.sub(r"\\\\", without_tags)
    without_links = _LINK.sub(r"]\\(", without_tex)
    return without_links.replace("]:", "]\\:")  # `[name]: address` would define a link


def disable_diagrams(text: str) -> str:
    """Return `text` with `text` as the language of each Mermaid diagram.

    Front ends draw the diagrams and load their links. nbconvert copies them as HTML.
    """

    def as_text_code(found: re.Match[str]) -> str:
        info = _NO_LETTER.sub("", html.unescape(found[2]))
        return f"{found[1]}text {found[2]}" if info.lower().startswith("mermaid") else found[0]

    return _INFO.sub(as_text_code, text)


def _render_image(found: re.Match[str], image_hosts: Collection[str]) -> str:
    """Return an image of an allowed host as it is, and another one as a link.

    A *badge* is an image that is the text of a link, such as `[![build](IMAGE)](PAGE)`. It becomes
    two links: `(image) [build](IMAGE) [↗](PAGE)`.
    """
    url = found["url"]
    if url is None:
        return "! ["  # an image that parsers may read differently: with a space it is text

    # No match if browsers may disagree about the host, such as for `https://a@b/`.
    host = _HOST.match(url)
    if host and host[1].lower() in image_hosts:
        return found[0]

    # The word comes first because a `!` may be before the image: `![` would begin an image again.
    link = f"(image) [{found['alt'] or 'open'}]({url})"
    # The match of a badge ends with `](`. `PAGE)` follows it in the text.
    return f"{link} [↗](" if found["link"] else link
