"""Tokens by request as a picture: a bar for each request, from its cached to its written tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jp_nb.record.entries.token_usage import Usage
from jp_nb.rendering.pictures.svg_picture import SvgPicture, add_legend
from jp_nb.text import pluralize

MAX_USAGE_BARS: Final = 100
"""Maximum number of requests that the picture shows."""
# Sizes and positions in pixels: columns from left to right, then rows.
_WIDTH: Final = 720
_LABEL_X: Final = 8
_CHART_X: Final = 130
_CHART_WIDTH: Final = 360
_COUNTS_X: Final = 498
_TOP: Final = 26
_ROW: Final = 20
_BAR: Final = 12
# Words by the CSS class of a part. `svg_picture.py` has the classes: `first` is hatched, because
# the timeline marks the time until the first token with it.
_LEGEND: Final = {"first": "from cache", "request": "new", "written": "written by the model"}
USAGE_TITLE: Final = "Tokens by request"


@dataclass(frozen=True, slots=True)
class UsageBar:
    """The tokens of one request, with its label.

    The bar has three parts: input tokens from the cache, other input tokens, and output tokens.
    """

    label: str
    tokens: Usage

    @property
    def cached(self) -> int:
        """Input tokens that the provider read from its cache."""
        return min(self.tokens.cache_read_tokens or 0, self.tokens.input_tokens or 0)

    @property
    def new(self) -> int:
        """The other input tokens."""
        return (self.tokens.input_tokens or 0) - self.cached

    @property
    def written(self) -> int:
        """Output tokens."""
        return self.tokens.output_tokens or 0

    @property
    def total(self) -> int:
        """All tokens."""
        return self.cached + self.new + self.written


def draw_usage(bars: Sequence[UsageBar]) -> str:
    """Return the picture of `bars` as an image in Markdown; "" if they have no tokens."""
    shown = bars[-MAX_USAGE_BARS:]
    largest = max((bar.total for bar in shown), default=0)
    if not largest:
        return ""

    count = len(shown)
    picture = SvgPicture(_WIDTH, f"{USAGE_TITLE}: {count} {pluralize('request', count)}")
    head = "from cache + new → written"
    picture.add_text(_COUNTS_X, 14, head, width=_WIDTH - _COUNTS_X, classes="dim")
    if len(bars) > count:
        text = f"The last {count} of {len(bars):,} requests"
        picture.add_text(_LABEL_X, 14, text, width=_CHART_X + _CHART_WIDTH, classes="dim")

    for row, bar in enumerate(shown):
        _draw_usage_bar(picture, bar, largest, y=_TOP + row * _ROW)

    bottom = add_legend(picture, _TOP + count * _ROW + 12, _LEGEND.items(), indent=_LABEL_X)
    return picture.to_markdown(bottom)


def _draw_usage_bar(picture: SvgPicture, bar: UsageBar, largest: int, *, y: float) -> None:
    """Draw the row of a request. The bar of the `largest` number of tokens has the full width."""
    picture.add_text(_LABEL_X, y + 10, bar.label, width=_CHART_X - _LABEL_X - 6)

    x = float(_CHART_X)
    parts = {"first": bar.cached, "request": bar.new, "written": bar.written}
    for name, tokens in parts.items():
        if tokens:
            width = max(_CHART_WIDTH * tokens / largest, 1.5)  # few tokens stay visible
            picture.add_rect(x, y, width, _BAR, name)
            x += width

    text = f"{bar.cached:,} + {bar.new:,} → {bar.written:,}"
    picture.add_text(_COUNTS_X, y + 10, text, width=_WIDTH - _COUNTS_X)
