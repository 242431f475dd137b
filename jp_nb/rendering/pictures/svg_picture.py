"""Build a small SVG picture, and embed it into Markdown as an image.

The image is a data URL, because JupyterLab removes SVG elements from the outputs of untrusted
notebooks, and leaves their texts. An SVG in an image runs no scripts, loads nothing, and has no
links. It follows `color-scheme` of the page, and has its own background, so that it can be read
on any page.

Source: https://www.w3.org/TR/SVG2/, https://www.w3.org/TR/mediaqueries-5/.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final, Literal
from unicodedata import east_asian_width
from urllib.parse import quote

from jp_nb.text import one_line

PICTURE_CLASS: Final = "jp-nb-picture"
"""CSS class of images, for which the lab extension sets `color-scheme`."""
SCROLL_KEYS: Final = 'tabindex="0" data-lm-suppress-shortcuts="true"'
"""Attributes by which arrow keys scroll an element: JupyterLab uses them to go to headings."""
CHAR_PX: Final = 6.2
"""Average width of a character in pixels, from which texts are cut."""
MAX_LABEL_CHARS: Final = 200
"""Limit of characters of one text of a picture."""
_NOT_XML: Final = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_URL_SAFE: Final = " =:;/,.'()-?!@"
_COLORS: Final = """\
svg{--back:#fff;--text:#1f2328;--dim:#59636e;--grid:#d1d9e0;--request:#0969da;--tool:#1a7f37;\
--user:#9a6700;--failed:#cf222e;--written:#bc4c00}\
@media (prefers-contrast:more){svg{--text:#000;--dim:#25292e;--request:#023b95;--tool:#024c1a;\
--user:#603700;--failed:#86061d;--written:#702c00}}\
@media (prefers-color-scheme:dark){svg{--back:#0d1117;--text:#f0f6fc;--dim:#9198a1;--grid:#3d444d;\
--request:#4493f8;--tool:#3fb950;--user:#d29922;--failed:#f85149;--written:#f0883e}}\
@media (prefers-color-scheme:dark) and (prefers-contrast:more){svg{--back:#010409;--text:#fff;\
--dim:#b7bdc8;--request:#91cbff;--tool:#4ae168;--user:#f7c843;--failed:#ff9492;--written:#ffb757}}\
"""
# Named for the parts of a timeline: `request`, `tool`, and `wait` are steps, `first` is the time
# until the first token, `cut` a wait that is drawn shorter, and `rough` a time that is not exact.
# Other pictures use the same classes for their parts.
_CLASSES: Final = """\
text{font:11px system-ui,sans-serif;fill:var(--text)}.dim{fill:var(--dim)}.back{fill:var(--back)}\
.grid{stroke:var(--grid);fill:none}.request{fill:var(--request);stroke:var(--request)}\
.tool{fill:var(--tool);stroke:var(--tool)}.failed{fill:var(--failed);stroke:var(--failed)}\
.user{fill:var(--user);stroke:var(--user)}.written{fill:var(--written);stroke:var(--written)}\
.first{fill:url(#first);stroke:var(--request)}.wait{fill:url(#wait);stroke:var(--user)}\
.error{fill:url(#error);stroke:var(--failed)}.cut{fill:url(#cut)}.rough{stroke-dasharray:3 2;\
fill-opacity:.35}.hollow{fill:var(--back)}\
"""
_PATTERNS: Final = (
    # Each has its own shape, so that it is known without its color.
    ("first", 4, "M-1,1l2,-2M0,4l4,-4M3,5l2,-2", "request"),
    ("wait", 5, "M0,2.5h2.5", "user"),
    ("error", 5, "M0,0l5,5M5,0l-5,5", "failed"),
    ("cut", 6, "M0,0l6,6M-1,5l2,2M5,-1l2,2", "grid"),
)

Anchor = Literal["start", "middle", "end"]


class SvgPicture:
    """An SVG picture. Sizes are in pixels. Texts may be any, and are escaped."""

    def __init__(self, width: int, title: str) -> None:
        self.width = width
        self.title = one_line(title, limit=MAX_LABEL_CHARS)
        self._parts: list[str] = []

    def add_rect(
        self, x: float, y: float, width: float, height: float, classes: str, *, radius: int = 0
    ) -> None:
        """Add a rectangle with CSS `classes`."""
        size = f"width='{_px(width)}' height='{_px(height)}'"
        rounded = f" rx='{radius}'" if radius else ""
        self._parts.append(f"<rect x='{_px(x)}' y='{_px(y)}' {size}{rounded} class='{classes}'/>")

    def add_diamond(self, x: float, y: float, radius: float, classes: str) -> None:
        """Add a diamond around a point, for something without a duration."""
        size = _px(radius)
        path = f"M{_px(x)},{_px(y - radius)}l{size},{size} -{size},{size} -{size},-{size}z"
        self._parts.append(f"<path d='{path}' class='{classes}'/>")

    def add_line(self, x: float, y: float, height: float) -> None:
        """Add a vertical line of the grid."""
        path = f"M{_px(x)},{_px(y)}v{_px(height)}"
        self._parts.append(f"<path d='{path}' class='grid'/>")

    def add_text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        width: float,
        anchor: Anchor = "start",
        classes: str = "",
    ) -> None:
        """Add one line of text, which is cut to `width`."""
        shown = cut_to_width(one_line(text, limit=MAX_LABEL_CHARS), width)
        escaped = escape(_NOT_XML.sub("\ufffd", shown), quote=True)
        anchored = "" if anchor == "start" else f" text-anchor='{anchor}'"
        styled = f" class='{classes}'" if classes else ""
        self._parts.append(f"<text x='{_px(x)}' y='{_px(y)}'{anchored}{styled}>{escaped}</text>")

    def to_svg(self, height: float) -> str:
        """Return the SVG document in one line."""
        size = f"width='{self.width}' height='{_px(height)}'"
        box = f"viewBox='0 0 {self.width} {_px(height)}'"
        title = escape(_NOT_XML.sub("\ufffd", self.title), quote=True)
        patterns = "".join(map(_format_pattern, _PATTERNS))
        content = "".join(self._parts)

        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' {size} {box} role='img'>"
            f"<title>{title}</title><style>{_COLORS}{_CLASSES}</style><defs>{patterns}</defs>"
            f"<rect width='100%' height='100%' rx='4' class='back'/>{content}</svg>"
        )

    def to_markdown(self, height: float) -> str:
        """Return the picture as an image in one line of Markdown.

        It keeps its width, and scrolls in a narrow output: JupyterLab would make it, and its
        texts, as narrow as the output.
        """
        # Only a few signs are not encoded: Markdown reads no formula, code, or address in the URL.
        url = quote(self.to_svg(height), safe=_URL_SAFE)
        alt = escape(self.title, quote=True)
        alt = re.sub(r"[\\$`*_~]", lambda found: f"&#{ord(found[0])};", alt)
        style = f"min-width:{self.width}px"
        source = f"data:image/svg+xml,{url}"
        image = f'<img class="{PICTURE_CLASS}" style="{style}" alt="{alt}" src="{source}">'
        return f'<div style="overflow-x:auto" {SCROLL_KEYS}>{image}</div>'


def _format_pattern(pattern: tuple[str, int, str, str]) -> str:
    """Return the SVG of a pattern: its name, its size, the path in it, and the color."""
    name, size, path, color = pattern
    return (
        f"<pattern id='{name}' width='{size}' height='{size}' patternUnits='userSpaceOnUse'>"
        f"<path d='{path}' fill='none' stroke='var(--{color})' stroke-width='1.4'/></pattern>"
    )


def _px(value: float) -> str:
    """Return a length in pixels, with at most one decimal place."""
    return f"{value:.1f}".removesuffix(".0")


def cut_to_width(text: str, width: float) -> str:
    """Return the beginning of `text` that fits into `width` pixels, with an ellipsis if cut."""
    limit = width / CHAR_PX
    used = 0.0
    for index, char in enumerate(text):
        used += _count_columns(char)
        if used > limit:
            kept = text[: max(index - 1, 0)]
            return f"{kept}…"
    return text


def _count_columns(char: str) -> float:
    """Return the estimated width of a character, as a multiple of `CHAR_PX`."""
    if east_asian_width(char) in "WF":
        return 2.0
    return 1.5 if char in "MWmw@%…→" else 1.0


def add_legend(
    picture: SvgPicture, y: float, items: Iterable[tuple[str, str]], *, indent: float
) -> float:
    """Add a legend of pairs of CSS classes and words. Return the `y` below it."""
    x = indent
    for classes, words in items:
        width = 22 + CHAR_PX * len(words) + 12
        if x > indent and x + width > picture.width:
            x = indent
            y += 18
        picture.add_rect(x, y - 9, 16, 10, classes, radius=1)
        picture.add_text(x + 22, y, words, width=width, classes="dim")
        x += width
    return y + 10
