"""Build Markdown from any text: escaped lines, code, folded blocks, and quotations.

`markdown_sanitizer.py` makes Markdown of a model safe.

Source: https://spec.commonmark.org/0.31.2/, sections 4.5 and 6.1.
"""

from __future__ import annotations

import re

from jp_nb.text import escape_markdown, plain

_BACKTICKS = re.compile(r"`+")
MATH_DELIMITER = re.compile(r"\$(?=\$)|\\(?=\\[\[\]]|(?:begin|end)\{)")
"""A delimiter of a displayed formula."""
MAX_MARKDOWN_CHARS = 1_000_000


def break_math(text: str) -> str:
    """Return `text` with a zero-width space inside each delimiter of a displayed formula."""
    return MATH_DELIMITER.sub(lambda found: f"{found[0]}\u200b", text)


def escape_markup(line: str) -> str:
    """Return one line of text without any Markdown, and without addresses that become links."""
    return escape_markdown(break_math(line))


def make_code_span(text: str) -> str:
    """Return any `text` as inline code."""
    text = break_math(plain(text).replace("\n", " "))
    if not text:
        return "``` ```"  # a span with a blank

    # A backtick beside the fence would belong to it. Parsers remove the blanks between them.
    fence = "`" * (_count_longest_backticks(text) + 1)
    needs_blanks = text.startswith("`") or text.endswith("`") or not text.strip()
    pad = " " if needs_blanks else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def make_code_block(text: str, language: str = "text", *, limit: int = MAX_MARKDOWN_CHARS) -> str:
    """Return any `text` as a block of code in `language`."""
    text = plain(text, limit=limit).rstrip("\n")

    fence = "`" * max(3, _count_longest_backticks(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def make_details_block(title: str, markdown: str) -> str:
    """Return a folded block. `title` and `markdown` must be safe, without HTML tags."""
    return f"<details><summary>{title}</summary>\n\n{markdown}\n\n</details>"


def quote_markdown(markdown: str) -> str:
    """Return Markdown as a quotation."""
    lines = []
    for line in markdown.split("\n"):
        quoted = f"> {line}" if line else ">"
        lines.append(quoted)

    return "\n".join(lines)


def _count_longest_backticks(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
